"""Whether a request wants anything of what is known about the user: a learned decision over its words and its meaning. Pure.

Strategy: "what's my budget?", "suggest a dinner" and "draft a mail to my boss" want memories, whatever these are; "what is
the capital of Mongolia?", "thanks!" and a pasted text to translate want none. Words, pairs of words, the vector that the
search needs anyway and its nearness to known requests each add to the log-odds; so does whether the memories hold what the
request names ("when is Priya's exam?"). The words' part is found while the model embeds. How it does on people left out:
`docs/learned-decisions.md`.
"""

import math
from collections.abc import Container, Sequence

from semrouter_memory.language.terms import terms
from semrouter_memory.language.words import ngrams, tokens
from semrouter_memory.learned import Features, Logistic
from semrouter_memory.model import Message, Role, Vector
from semrouter_memory.recall.prototypes import Intent

_BEFORE_CHARS = 500
_BEFORE_TOKENS = 60
_BEFORE = 0.4
"""The worth of a word of the message before, compared with one of the request."""
_NEARNESS = 3.0
"""Cosines differ by tenths."""
_MOST_NAMES = 2
_MODEL = Logistic.load("wants")


def by_words(request: str, history: Sequence[Message]) -> float:
    """Log-odds, as far as words tell."""
    return _MODEL.log_odds(words_of(request, history))


def by_meaning(vector: Vector, intent: Intent, *, personal: bool, impersonal: bool) -> float:
    """What the rest adds to these."""
    nearness = nearness_of(intent, personal=personal, impersonal=impersonal)
    return float(vector @ _MODEL.of_components(len(vector))) + _MODEL.added(nearness)


def cut() -> float:
    """Log-odds from which on a request wants something."""
    return _MODEL.log_cut


def by_names(known: int, unknown: int, *, impersonal: bool) -> float:
    """What it adds that the memories hold, or do not hold, what the request names."""
    return _MODEL.added(names_of(known, unknown, impersonal=impersonal))


def named(request: str) -> tuple[tuple[str, ...], ...]:
    """What the request names: the index terms of each word that is so rare that the model knows nothing about it."""
    return rare(request, _MODEL.weights)


def rare(request: str, common: Container[str]) -> tuple[tuple[str, ...], ...]:
    """The index terms of each word of a request that is not common."""
    words = dict.fromkeys(token for token in tokens(request) if token not in common)
    return tuple(filter(None, (tuple(terms(word)) for word in words)))


def words_of(request: str, history: Sequence[Message]) -> Features:
    """The features made of its words."""
    found = tokens(request)
    before = next((message.text for message in reversed(history) if message.role is Role.USER), "")
    features = dict.fromkeys(ngrams(found), 1.0)
    features |= dict.fromkeys((f"before {token}" for token in tokens(before[:_BEFORE_CHARS])[:_BEFORE_TOKENS]), _BEFORE)
    return features | {"#length": math.log1p(len(found)), "#history": float(bool(history))}


def nearness_of(intent: Intent, *, personal: bool, impersonal: bool) -> Features:
    """The features that tell which requests it resembles, and in which person it speaks."""
    return {
        "#general": intent.general * _NEARNESS,
        "#chat": intent.chat * _NEARNESS,
        "#asking": intent.asking * _NEARNESS,
        "#request": intent.request * _NEARNESS,
        "#personal": float(personal),
        "#impersonal": float(impersonal),
    }


def names_of(known: int, unknown: int, *, impersonal: bool) -> Features:
    """The features made of how many of the rare words memories hold.

    "Who is Ottoline?" has the form of a question of general knowledge, and the memories tell that it is none.
    """
    all_known = known > 0 and unknown == 0
    return {
        "#known names": float(min(known, _MOST_NAMES)),
        "#unknown names": float(min(unknown, _MOST_NAMES)),
        "#all known": float(all_known),
        "#impersonal, all known": float(impersonal and all_known),
        "#impersonal, unknown": float(impersonal and unknown > 0),
    }
