"""Untrusted text that is put into a prompt: one line, without fences, control tokens and invisible characters."""

import re
import unicodedata

from semrouter_memory.language.scripts import visible

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
