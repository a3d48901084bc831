"""Which characters are Chinese, which variants of a character are the same, and which are invisible or mean something to a model. Pure."""

import re
import tomllib
import unicodedata
from functools import cache
from importlib.resources import files
from typing import Literal

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


_MOST_MARKS = 30
"""In a row: no language has more behind a letter (Unicode Standard Annex 15, Stream-Safe Text Format)."""
_SIGNS_IN_A_ROW = re.compile(rf"(?:[^\w\s\x00-\u02ff]|[\uff9e\uff9f]){{{_MOST_MARKS + 1},}}")
"""Where there may be more; the two Japanese ones count as letters before they are normalised."""


def in_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Same as `unicodedata.normalize`, in time that grows with the text; of more marks in a row than any language has the rest is left out.

    Normalising sorts the marks behind a letter, one by one past each of those before it: a megabyte of them takes minutes.
    """
    # A run that is too long holds one of these places.
    if not text.isascii() and any(map(_is_mark, {*text[::_MOST_MARKS]})):
        text = _SIGNS_IN_A_ROW.sub(_with_few_marks, text)
    return unicodedata.normalize(form, text)


def _is_mark(char: str) -> bool:
    return unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) > 0


def _with_few_marks(run: re.Match[str]) -> str:
    few, marks = list[str](), 0
    for char in run.group():
        marks = marks + 1 if _is_mark(char) else 0
        if marks <= _MOST_MARKS:
            few.append(char)
    return "".join(few)


def simplified(text: str) -> str:
    """The text, as long as before, with the simplified character for each traditional Chinese one."""
    return text if text.isascii() else text.translate(_simplified())


@cache
def _simplified() -> dict[int, int]:
    table = tomllib.loads(files(__package__).joinpath("traditional_zh.toml").read_text(encoding="utf-8"))
    return str.maketrans(*("".join(table[name].split()) for name in ("traditional", "simplified")))


# -- untrusted text in a prompt: one line, without fences, control tokens and invisible characters ---------------------


_FENCE = re.compile(r"`{3,}|~{3,}")
# Cc: control characters; Cs: lone surrogates, which no UTF-8 body can carry.
_UNPRINTABLE = frozenset({"Cc", "Cs"})
_LESS, _GREATER = (
    "<\uff1c\ufe64\u2039\u3008\u2329\u27e8\u276e\u1438",
    ">\uff1e\ufe65\u203a\u3009\u232a\u27e9\u276f\u1433",
)
"""The signs of a tag, and the signs that look like them or that a tokenizer's normalisation turns into them."""
# Chat templates spell their control tokens as a tag or as a name in brackets: <|im_start|>, <start_of_turn>, <s>, <<SYS>>,
# [INST], [|system|], <0x0A>. Tokenizers know thousands of names, so the shape decides. `a < b`, `x <= 5`, `I <3 you`, `<-`
# and `[1]` have another one.
_MARKER = re.compile(
    rf"[{_LESS}](?=[^\s\d=\-{_LESS}]|[^\s{_LESS}{_GREATER}]{{1,64}}[{_GREATER}])"
    r"|[\[\uff3b](?=[/|\uff0f\uff5c]|[^\W\d]\w{0,64}[\]\uff3d])"
    rf"|(?<=--)(?=[{_GREATER}])|(?<=--!)(?=[{_GREATER}])"
)


def one_line(text: str) -> str:
    """Without line breaks of any kind, fences, and what is not meant to be read."""
    text = visible(" ".join(text.split()))
    if not text.isprintable():
        text = "".join(char for char in text if unicodedata.category(char) not in _UNPRINTABLE)
    return _FENCE.sub(lambda fence: " ".join(fence.group()), " ".join(text.split()))


def without_markers(text: str) -> str:
    """With a space inside all that has the shape of a control token, a tag or a comment's end, so that it is none."""
    return _MARKER.sub(r"\g<0> ", text)
