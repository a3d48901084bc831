"""Whether a request wants anything of what is known about the user: a learned decision over its words and its meaning. Pure.

Strategy: "what's my budget?", "suggest a dinner" and "draft a mail to my boss" want memories, whatever these are; "what is
the capital of Mongolia?", "thanks!" and a pasted text to translate want none. Words, pairs of words, the vector that the
search needs anyway and its nearness to known requests each add to the log-odds; so does whether the memories hold what the
request names ("when is Priya's exam?"). Of a Chinese request the vector adds nothing, and the rest has weights of its own. The words'
part is found while the model embeds.

"What do you know about me?" and "where did we leave off?" want all, or the last, and no single memory is it. Such a request is
made of few words that say anything else; a model of its own tells it, in both languages.

How both do on people left out: `docs/learned-decisions.md`.
"""

import math
from collections.abc import Container, Sequence
from functools import cache

from semrouter_memory.language.phrases import words_of as listed_words
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.terms import terms, word_terms
from semrouter_memory.language.words import STOP_WORDS, ngrams, tokens
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
_OVERVIEW = Logistic.load("overview")
_OVERVIEW_CHARS = 200
_MOST_OTHERS = 1
_MOST_OTHERS_CHINESE = 2
"""A Chinese word has two characters as a rule."""


def by_words(request: str, history: Sequence[Message], *, chinese: bool) -> float:
    """Log-odds, as far as words tell."""
    return _MODEL.log_odds(words_of(request, history, chinese=chinese))


def by_meaning(vector: Vector, intent: Intent, *, personal: bool, impersonal: bool, chinese: bool) -> float:
    """What the rest adds to these."""
    nearness = _MODEL.added(nearness_of(intent, personal=personal, impersonal=impersonal, chinese=chinese))
    return nearness if chinese else float(vector @ _MODEL.of_components(len(vector))) + nearness


def is_overview(request: str) -> bool:
    """Whether it asks for all that is known of the user, or for what was told last: for no single memory."""
    if len(request) > _OVERVIEW_CHARS:
        return False
    features = overview_of(request)
    return features is not None and _OVERVIEW.log_odds(features) >= _OVERVIEW.log_cut


def overview_of(request: str) -> Features | None:
    """The features of that decision; None where the request says too much else."""
    found = tokens(request)
    others = sum(token[0].isalnum() and token not in _overview_words() for token in found)
    if others > (_MOST_OTHERS_CHINESE if CJK.search(request) else _MOST_OTHERS):
        return None
    runs = (" ".join(each) for each in zip(found, found[1:], found[2:], strict=False))
    features = dict.fromkeys((*ngrams(found), *runs), 1.0)
    return {**features, "#length": math.log1p(len(found)), "#others": float(others)}


@cache
def _overview_words() -> frozenset[str]:
    # "Where did I say she should be?" is about somebody.
    return (listed_words("overview") | STOP_WORDS) - listed_words("somebody")


def cut() -> float:
    """Log-odds from which on a request wants something."""
    return _MODEL.log_cut


def by_names(known: int, unknown: int, *, impersonal: bool, chinese: bool, needs: bool) -> float:
    """What it adds that the memories hold, or do not hold, what the request names."""
    return _MODEL.added(names_of(known, unknown, impersonal=impersonal, chinese=chinese, needs=needs))


def named(request: str, *, chinese: bool) -> tuple[tuple[str, ...], ...]:
    """What the request names: the index terms of each word that is so rare that the model knows nothing about it.

    Of a Chinese request, of every word that carries content: no character is rare.
    """
    return tuple(word_terms(request)) if chinese else rare(request, _MODEL.weights)


def rare(request: str, common: Container[str]) -> tuple[tuple[str, ...], ...]:
    """The index terms of each word of a request that is not common."""
    words = dict.fromkeys(token for token in tokens(request) if token not in common)
    return tuple(filter(None, (tuple(terms(word)) for word in words)))


def words_of(request: str, history: Sequence[Message], *, chinese: bool) -> Features:
    """The features made of its words."""
    found = tokens(request)
    before = next((message.text for message in reversed(history) if message.role is Role.USER), "")
    features = dict.fromkeys(ngrams(found), 1.0)
    features |= dict.fromkeys((f"before {token}" for token in tokens(before[:_BEFORE_CHARS])[:_BEFORE_TOKENS]), _BEFORE)
    form = {"#length": math.log1p(len(found)), "#history": float(bool(history))}
    return {**features, **_apart(form, chinese=chinese)}


def nearness_of(intent: Intent, *, personal: bool, impersonal: bool, chinese: bool) -> Features:
    """The features that tell which requests it resembles, and in which person it speaks."""
    features = {
        "#general": intent.general * _NEARNESS,
        "#chat": intent.chat * _NEARNESS,
        "#asking": intent.asking * _NEARNESS,
        "#request": intent.request * _NEARNESS,
        "#personal": float(personal),
        "#impersonal": float(impersonal),
    }
    return _apart(features, chinese=chinese)


def names_of(known: int, unknown: int, *, impersonal: bool, chinese: bool, needs: bool) -> Features:
    """The features made of how many of the rare words memories hold.

    "Who is Ottoline?" has the form of a question of general knowledge, and the memories tell that it is none.
    """
    if chinese:
        share = known / max(known + unknown, 1)
        return {
            "zh #known": math.log1p(known),
            "zh #unknown": math.log1p(unknown),
            "zh #share known": share,
            "zh #impersonal, share known": impersonal * share,
            "zh #needs": float(needs),
            "zh #needs, share unknown": needs * (1 - share),
        }
    all_known = known > 0 and unknown == 0
    return {
        "#known names": float(min(known, _MOST_NAMES)),
        "#unknown names": float(min(unknown, _MOST_NAMES)),
        "#all known": float(all_known),
        "#impersonal, all known": float(impersonal and all_known),
        "#impersonal, unknown": float(impersonal and unknown > 0),
    }


def _apart(features: Features, *, chinese: bool) -> Features:
    """The features with the names under which their weights stand.

    A Chinese request has weights of its own: its words are single characters, and the embedding model knows few of them.
    """
    return {f"zh {name}": value for name, value in features.items()} if chinese else features
