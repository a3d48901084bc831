"""Which characters are Chinese, which variants of a character are the same, and which are invisible. Pure."""

import re
import tomllib
from functools import cache
from importlib.resources import files

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


# Zero-width characters, fillers, bidirectional controls, tag characters, and the variation selectors that nothing uses.
# Joiners belong to letters and emoji; next to ASCII they only hide something.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<=[\x00-\x7f])[\u200c\u200d\ufe00-\ufe0e]+|[\u200c\u200d]+(?=[\x00-\x7f]|$)|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+"
)


def visible(text: str) -> str:
    """Without characters that people do not see."""
    return _INVISIBLE.sub("", text)


def simplified(text: str) -> str:
    """The text, as long as before, with the simplified character for each traditional Chinese one."""
    return text if text.isascii() else text.translate(_simplified())


@cache
def _simplified() -> dict[int, int]:
    table = tomllib.loads(files(__package__).joinpath("traditional_zh.toml").read_text(encoding="utf-8"))
    return str.maketrans(*("".join(table[name].split()) for name in ("traditional", "simplified")))
