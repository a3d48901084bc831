"""Which characters are Chinese, and which variants of a character are the same. Pure."""

import re

CJK_RANGE = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Chinese characters, for a class of a regular expression; escaped, so that a pattern holding it holds none of them."""
CJK = re.compile(rf"[{CJK_RANGE}]")
"""One Chinese character."""
APOSTROPHES = str.maketrans("’‘ʼ＇", "''''")
"""Typographic apostrophes as the ASCII one, for `str.translate`."""
