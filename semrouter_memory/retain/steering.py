"""Whether a user's message gives an order to the memory itself: a learned decision over its words. Pure.

Strategy: one sentence gives the order ("forget what I told you about my salary"), in the user's own words, and in a short
message; what is longer is work. Most messages have none of the words of such an order and are not looked at. The others' words and
pairs of words decide (`make fit`). To delete by mistake is far worse than to miss an order, so an order must be almost certain.
How it does on people left out: `docs/learned-decisions.md`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice

from semrouter_memory.language.frames import unframed
from semrouter_memory.language.own_text import MAX_READ_CHARS, typed_text
from semrouter_memory.language.phrases import MARKS, after, entries, phrases, words_of
from semrouter_memory.language.sentences import asks, sentences
from semrouter_memory.language.words import ngrams, tokens
from semrouter_memory.learned import Features, Multinomial
from semrouter_memory.retain.subjects import ACTS, Subject, subjects

_MAX_CHARS = 400
"""A longer message is work for the assistant, and not read."""
_MODEL = Multinomial.load("steering")
_ALIKE = (
    "steering_forget",
    "steering_remember",
    "steering_told",
    "steering_know",
    "steering_here",
    "steering_mention",
    "steering_mind",
    "steering_forgotten",
)
_OTHER = "*"
_MAX_SUBJECTS = 12
"""Each is searched for."""
CUT = 0.95
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
    """An order to the memory.

    Attributes:
        subjects: what shall be forgotten; empty where the order names nothing.
    """

    order: Order
    subjects: tuple[Subject, ...]


def command(message: str) -> Command | None:
    """The order that a message gives to the memory, the first if there are several; None for most.

    What its sentences order to forget is one order.
    """
    if len(message) > MAX_READ_CHARS:
        return None
    said = unframed(message, surely=True)
    if len(said) > _MAX_CHARS or not phrases("steering").occur_in(said):
        return None
    if next(_commands(sentences(said)), None) is None:
        return None
    given = list(_commands(sentences(typed_text(message))))
    if not given:
        return None
    order = given[0][0]
    named = (each for other, text in given if other is order for each in subjects(text))
    return Command(order, tuple(islice(named, _MAX_SUBJECTS)))


def pauses(message: str) -> bool:
    """Whether the message asks not to remember the conversation."""
    found = command(message)
    return found is not None and found.order is Order.PAUSE


def unsteered(text: str) -> str:
    """The text without the sentences that may order to forget something: they name what shall be forgotten."""
    if len(text) > _MAX_CHARS or not phrases("steering").occur_in(text):
        return text
    left = [""]
    for order, named, piece in _judged(sentences(text), _LEFT_OUT_CUT):
        names = order in _NAME_WHAT_GOES
        if names and named:
            left[-1] = ""
        left.append("" if names else piece)
    return "".join(left)


def _commands(pieces: Sequence[str]) -> Iterator[tuple[Order, str]]:
    """The orders, each with the text that gives it."""
    return ((order, named + piece) for order, named, piece in _judged(pieces, CUT) if order is not Order.NONE)


def _judged(pieces: Sequence[str], cut: float) -> Iterator[tuple[Order, str, str]]:
    """What each sentence orders, and in front of it the one before, if that names what it points back to.

    "Forget Anna." is an order if its reason follows, and "Delete that, please." if it is one behind what stands before;
    "Forget Vienna." is none if another question follows: "What about Prague?"
    """
    for before, piece, following in zip(("", *pieces), pieces, (*pieces[1:], ""), strict=False):
        order = judge(piece, cut)
        points_back = order in (Order.NONE, Order.FORGET) and _points_back(piece)
        if points_back:
            order = judge(before + piece, cut) if before else Order.NONE
        elif following and _begins_with_verb(piece):
            if order is Order.NONE:
                order = judge(piece + following, cut)
            elif order is Order.FORGET and asks(following) and judge(piece + following, _LEFT_OUT_CUT) is Order.NONE:
                order = Order.NONE
        yield order, before if points_back and order is Order.FORGET else "", piece


def _begins_with_verb(sentence: str) -> bool:
    found = tokens(sentence)
    return next(iter(found[after(found, phrases("fillers")) :]), "") in words_of("steering_forget")


def _points_back(sentence: str) -> bool:
    """Whether it says what shall be done, and not to what: "please delete that"."""
    return phrases("steering").occur_in(sentence) and not subjects(sentence)


def judge(sentence: str, cut: float = CUT) -> Order:
    """What a sentence orders to forget or not to store; an order to remember is none here."""
    found = _probabilities(sentence).items()
    order = next((Order(name) for name, each in found if each >= cut and name != Order.REMEMBER), Order.NONE)
    return Order.NONE if order in _NAME_WHAT_GOES and not _speaks_of_memory(tokens(sentence)) else order


def _speaks_of_memory(found: Iterable[str]) -> bool:
    """Whether it says to forget, to keep, to mention, to know or the like; "I don't smoke any more" does not."""
    return any(_spelled().get(token, token) in words_of(name) for token in found for name in _ALIKE)


def is_to_be_remembered(sentence: str) -> bool:
    """Whether the sentence asks to have remembered what it says."""
    return _probabilities(sentence).get(Order.REMEMBER, 0.0) >= _REMEMBER_CUT


def _probabilities(sentence: str) -> Mapping[str, float]:
    """By order; of a sentence without a word of any, none."""
    return _MODEL.probabilities(features(sentence)) if phrases("steering").occur_in(sentence) else {}


def features(sentence: str) -> Features:
    """What the decision is made from: words and pairs of words, the same of the sentence's skeleton, and its form."""
    found = [_spelled().get(token, token) for token in tokens(sentence)]
    found = found[after(found, phrases("fillers")) :]
    features = dict.fromkeys(ngrams(found), 1.0)
    skeleton = _skeleton(found)
    features |= dict.fromkeys((f"~{' '.join(each)}" for each in _runs(skeleton)), 1.0)
    features |= dict.fromkeys(_around(skeleton), 1.0)
    return features | {
        "#words": math.log1p(len(found)),
        "#question": float(asks(sentence)),
        "#not to forget": float(next(phrases("steering_not").places(found), None) is not None),
    }


@cache
def _spelled() -> Mapping[str, str]:
    """Words as they are typed in haste, and as they are spelled."""
    return dict(each.split(" ") for each in entries("spelled"))


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


def _around(places: Sequence[str]) -> Iterator[str]:
    """What stands anywhere before each word of the act that is ordered, and behind it."""
    for at, act in enumerate(places):
        if act in ACTS:
            yield from (f"{each} < {act}" for each in places[:at])
            yield from (f"{act} > {each}" for each in places[at + 1 :])
