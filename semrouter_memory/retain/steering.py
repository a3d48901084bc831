"""Whether a user's message gives an order to the memory itself: a learned decision over its words. Pure.

Strategy: one sentence gives the order ("forget what I told you about my salary"), in the user's own words, and in a short
message; what is longer is work. Most messages have none of the words of such an order and are not looked at. The others' words and
pairs of words decide (`make fit`). To delete by mistake is far worse than to miss an order, so an order must be almost certain.
How it does on people left out: `docs/learned-decisions.md`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from semrouter_memory.language.own_text import typed_text
from semrouter_memory.language.phrases import MARKS, after, phrases, words_of
from semrouter_memory.language.scripts import simplified
from semrouter_memory.language.sentences import asks, sentences
from semrouter_memory.language.words import ngrams, spans, tokens
from semrouter_memory.learned import Features, Multinomial

_MAX_CHARS = 400
"""A longer message is work for the assistant, and not read."""
_MODEL = Multinomial.load("steering")
_ALIKE = ("steering_forget", "steering_remember", "steering_told", "steering_know", "steering_here")
_OTHER = "*"
_VERBS = phrases("steering_forget")
_CLAUSE_ENDS = frozenset(",;:")
CUT = 0.9
"""The probability from which on a sentence is an order that lets something be forgotten."""
_LEFT_OUT_CUT = 0.5
"""From this probability on such a sentence is not stored, though it may not be obeyed."""
_REMEMBER_CUT = 0.5
"""The same of an order to remember: a needless memory costs little."""


class Order(StrEnum):
    """What a sentence orders. The values are the labels of `training/steering.jsonl`."""

    NONE = "none"
    FORGET = "forget"
    """Forget what was said about something."""
    UNTRUE = "untrue"
    """What was just said is not true any more."""
    EVERYTHING = "everything"
    """Forget all of the user."""
    PAUSE = "pause"
    """Do not remember this conversation."""
    REMEMBER = "remember"
    """Remember what the sentence says."""


_NAME_WHAT_GOES = frozenset((Order.FORGET, Order.EVERYTHING))


@dataclass(frozen=True, slots=True)
class Command:
    """An order, and the sentence that gives it."""

    order: Order
    sentence: str

    @property
    def subject(self) -> str:
        """What shall be forgotten; "" where the order names nothing."""
        return subject(self.sentence)


def command(message: str) -> Command | None:
    """The first order that a message gives to the memory; None for most."""
    if len(message) > _MAX_CHARS or not phrases("steering").occur_in(message):
        return None
    if next(_commands(sentences(message)), None) is None:
        return None
    return next(_commands(sentences(typed_text(message))), None)


def pauses(message: str) -> bool:
    """Whether the message asks not to remember the conversation."""
    found = command(message)
    return found is not None and found.order is Order.PAUSE


def unsteered(text: str) -> str:
    """The text without the sentences that may order to forget something: they name what shall be forgotten."""
    if len(text) > _MAX_CHARS or not phrases("steering").occur_in(text):
        return text
    judged = _judged(sentences(text), _LEFT_OUT_CUT)
    return "".join(sentence for order, sentence in judged if order not in _NAME_WHAT_GOES)


def _commands(pieces: Sequence[str]) -> Iterator[Command]:
    return (Command(order, piece) for order, piece in _judged(pieces, CUT) if order is not Order.NONE)


def _judged(pieces: Sequence[str], cut: float) -> Iterator[tuple[Order, str]]:
    """What each sentence orders. "Forget Anna." is an order if its reason follows: then both sentences are one."""
    for piece, following in zip(pieces, (*pieces[1:], ""), strict=False):
        order = judge(piece, cut)
        if order is Order.NONE and following and _begins_with_verb(piece):
            order = judge(piece + following, cut)
        yield order, piece


def _begins_with_verb(sentence: str) -> bool:
    found = tokens(simplified(sentence))
    return next(iter(found[after(found, phrases("fillers")) :]), "") in words_of("steering_forget")


def judge(sentence: str, cut: float = CUT) -> Order:
    """What a sentence orders to forget or not to store; an order to remember is none here."""
    found = _probabilities(sentence).items()
    return next((Order(name) for name, each in found if each >= cut and name != Order.REMEMBER), Order.NONE)


def is_to_be_remembered(sentence: str) -> bool:
    """Whether the sentence asks to have remembered what it says."""
    return _probabilities(sentence).get(Order.REMEMBER, 0.0) >= _REMEMBER_CUT


def _probabilities(sentence: str) -> Mapping[str, float]:
    """By order; of a sentence without a word of any, none."""
    return _MODEL.probabilities(features(sentence)) if phrases("steering").occur_in(sentence) else {}


def features(sentence: str) -> Features:
    """What the decision is made from: words and pairs of words, the same of the sentence's skeleton, and its form."""
    found = tokens(simplified(sentence))
    found = found[after(found, phrases("fillers")) :]
    features = dict.fromkeys(ngrams(found), 1.0)
    features |= dict.fromkeys((f"~{' '.join(each)}" for each in _runs(_skeleton(found))), 1.0)
    return features | {
        "#words": math.log1p(len(found)),
        "#question": float(asks(sentence)),
        "#not to forget": float(next(phrases("steering_not").places(found), None) is not None),
    }


def _skeleton(found: Sequence[str]) -> list[str]:
    """The sentence without what it is about: words that stand for one another are one, and the others are a star."""
    places = ["^", *(_place(token) for token in found), "$"]
    return [place for place, before in zip(places, ["", *places], strict=False) if place != _OTHER or before != _OTHER]


def _place(token: str) -> str:
    if token in MARKS or token in words_of("steering_plain"):
        return token
    return next((name for name in _ALIKE if token in words_of(name)), _OTHER)


def _runs(places: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Each two, three and four neighbours."""
    return (tuple(places[at : at + length]) for length in (2, 3, 4) for at in range(len(places) - length + 1))


def subject(sentence: str) -> str:
    """What an order is about: what stands behind its verb up to a comma, or else before it, without the order's own words."""
    text = sentence.strip()
    found = tokens(text)
    verb = next(_VERBS.places(found), 0)
    first, last = _about(found, verb, len(found))
    if first >= last:
        first, last = _about(found, 0, verb)
    places = spans(text)
    return text[places[first][0] : places[last - 1][1]] if first < last else ""


def _about(found: Sequence[str], first: int, last: int) -> tuple[int, int]:
    """These tokens without those of the order at both ends."""
    first = after(found[:last], phrases("steering_opens"), first)
    last = next((place for place in range(first, last) if found[place] in _CLAUSE_ENDS), last)
    closing = phrases("steering_closes")
    ends = (place for place in range(first, last) if after(found[:last], closing, place) == last)
    return first, next(ends, last)
