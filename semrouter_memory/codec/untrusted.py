"""Text of strangers that is put into a prompt: on one line, without fences, and without what people do not see."""

import re
import unicodedata

_FENCE = re.compile(r"`{3,}|~{3,}")
# Cc: control characters; Cs: lone surrogates, which no UTF-8 body can carry.
_UNPRINTABLE = frozenset({"Cc", "Cs"})
# Text that people do not see but models read: zero-width, bidirectional overrides, tag characters.
_INVISIBLE = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")


def one_line(text: str) -> str:
    """Without line breaks of any kind, fences, and what is not meant to be read."""
    text = _INVISIBLE.sub("", " ".join(text.split()))
    if not text.isprintable():
        text = "".join(char for char in text if unicodedata.category(char) not in _UNPRINTABLE)
    return _FENCE.sub(lambda fence: " ".join(fence.group()), " ".join(text.split()))
