"""Which characters are Chinese, and which variants of a character are the same. Pure."""

import re

CJK_RANGE = r"\u3400-\u9fff\uf900-\ufaff"
"""Chinese characters, for a class of a regular expression; escaped, so that a pattern holding it holds none of them.

Two ranges, the 64 hexagrams included: a class of three takes ten times as long to compile. Where a pattern ignores case, put
the class in `(?-i:...)`: else each of its 27,000 characters is looked at when it is compiled.
"""
WORD_START, WORD_END = rf"(?-i:(?<![^\W{CJK_RANGE}]))", rf"(?-i:(?![^\W{CJK_RANGE}]))"
"""No letter or digit before or behind, other than Chinese, which is written without blanks."""
CJK = re.compile(rf"[{CJK_RANGE}]")
"""One Chinese character."""
APOSTROPHES = str.maketrans("’‘ʼ＇", "''''")
"""Typographic apostrophes as the ASCII one, for `str.translate`."""
