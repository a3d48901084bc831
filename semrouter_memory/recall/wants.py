"""Whether a request wants anything of what is known about the user: a learned decision over its words. Pure.

Strategy: "what's my budget?", "suggest a dinner" and "draft a mail to my boss" want memories, whatever these are; "what is
the capital of Mongolia?", "thanks!" and a pasted text to translate want none. Words and pairs of words tell that better
than similarity to known requests, which counts beside them.
"""

import math
from collections.abc import Sequence
from functools import cache

from semrouter_memory.language.ngrams import ngrams, tokens
from semrouter_memory.learned.logistic import Features, Logistic
from semrouter_memory.model import Message, Role, Vector
from semrouter_memory.recall.anchors import Intent

_READ_CHARS = 500
"""Of a long request, at its beginning and end; what stands in between is quoted or pasted."""
_BEFORE_TOKENS = 60
_BEFORE = 0.4
"""The worth of a word of the message before, beside one of the request."""
_COMPONENTS = tuple(f"#{place}" for place in range(384))
_SCALE = 2.0
_NEARNESS = 3.0
"""Cosines differ by tenths."""


def words_of(request: str, history: Sequence[Message]) -> Features:
    """What its words tell."""
    text = request if len(request) <= 2 * _READ_CHARS else f"{request[:_READ_CHARS]}\n{request[-_READ_CHARS:]}"
    found = tokens(text)
    before = next((message.text for message in reversed(history) if message.role is Role.USER), "")
    features = dict.fromkeys(ngrams(found), 1.0)
    features |= dict.fromkeys((f"before {token}" for token in tokens(before[:_READ_CHARS])[:_BEFORE_TOKENS]), _BEFORE)
    return features | {"#length": math.log1p(len(found)), "#history": float(bool(history))}


def meaning_of(vector: Vector, intent: Intent, *, personal: bool, impersonal: bool) -> Features:
    """What its vector and its nearness to known requests tell, and in which person it speaks."""
    return dict(zip(_COMPONENTS, (_SCALE * vector).tolist(), strict=False)) | {
        "#general": intent.general * _NEARNESS,
        "#chat": intent.chat * _NEARNESS,
        "#asking": intent.asking * _NEARNESS,
        "#request": intent.request * _NEARNESS,
        "#personal": float(personal),
        "#impersonal": float(impersonal),
    }


@cache
def model() -> Logistic:
    return Logistic.load("wants")
