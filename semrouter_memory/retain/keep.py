"""Whether a sentence of a user's message is worth keeping: a learned decision over its words and its meaning. Pure.

Strategy: words decide first, single ones and pairs ("i live", "could you"), where the sentence stands, the sentence before it
and whether the assistant has just asked something. Only where they leave it in doubt the sentence's vector is asked for,
and a second model decides by it and by what the words told: most sentences need not be embedded. Both are fitted on
labelled messages (`training/`); `docs/learned-decisions.md` has how they do on people left out.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semrouter_memory.language.phrases import words_of
from semrouter_memory.language.sentences import QUESTION_MARKS, asks, orders, tells_besides
from semrouter_memory.language.words import ngrams, tokens
from semrouter_memory.learned import Features, Multinomial, components
from semrouter_memory.model import Vector

_BY_WORDS = Multinomial.load("keep")
_BY_MEANING = Multinomial.load("keep_in_doubt")
_IN_DOUBT = (0.04, 0.85)
"""Between these probabilities the words leave it in doubt."""
_LEAST = 1e-4
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_BEFORE_TOKENS = 150
CUT = 0.16
"""From this probability on a sentence is worth keeping: a needless memory costs little, a missing one is lost."""
_TRUER = 0.3
"""So many times as likely as to be supposed, played, ironic, pasted or about others it must be to be worth keeping."""
_ASKING_CUT = 0.5
"""A question or an order tells something on the way, or is of no use later. One with a part that tells of the user need not
be so sure."""
_SMALL_TALK = 0.88
_UNTRUE = 0.9
"""From these probabilities on a sentence does not even explain one that is worth keeping."""
_MESSAGE_TOKENS = 150
_AROUND = 0.4
"""The weight of a word around the sentence, compared with one in it."""


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """What its words tell of a sentence.

    Attributes:
        text: the sentence without blanks around it.
        probabilities: that it is worth keeping ("lasting"), not meant as true of the user ("untrue"), or neither ("other").
        asking: it has the form of a question or an order.
    """

    text: str
    probabilities: Mapping[str, float]
    asking: bool

    @property
    def in_doubt(self) -> bool:
        """Whether its vector can tell more."""
        least, most = _IN_DOUBT
        return least <= self.probabilities["lasting"] <= most

    @property
    def explains(self) -> bool:
        """Whether it may stay with a sentence that is worth keeping: it is no request, small talk or others' text."""
        return not self.asking and self.probabilities["other"] < _SMALL_TALK and self.probabilities["untrue"] < _UNTRUE

    def worth(self, vector: Vector | None = None) -> float:
        """The probability that the sentence is worth keeping; 0 where it need not be asked what it tells.

        That is so where it is too likely not meant as true of the user, and where it asks or orders and neither tells for
        sure nor has a part that tells of the user.

        Args:
            vector: the sentence's; None leaves it at what the words tell.
        """
        found = self.probabilities
        if vector is not None and self.in_doubt:
            found = _BY_MEANING.probabilities(meaning(found, vector))
        worth = found["lasting"]
        if worth < _TRUER * found["untrue"]:
            return 0.0
        return worth if worth >= _ASKING_CUT or not self.asking or tells_besides(self.text) else 0.0


def judge(pieces: Sequence[str], message: str, asked: str) -> list[SentenceScore]:
    """What the words of each sentence of a message tell.

    Args:
        pieces: the sentences as typed.
        message: all of it.
        asked: what the assistant said before, "" for nothing.
    """
    known = features(pieces, message, asked)
    return [
        SentenceScore(piece.strip(), probabilities, asking=bool(each["#question"] or each["#order"]))
        for piece, each, probabilities in zip(pieces, known, _BY_WORDS.of_each(known), strict=True)
    ]


def meaning(by_words: Mapping[str, float], vector: Vector) -> Features:
    """What the second decision is made from: what the words told, and the sentence's vector."""
    told = {f"#{name}": math.log(max(each, _LEAST)) for name, each in by_words.items()}
    return {**told, **components(vector)}


def features(pieces: Sequence[str], message: str, asked: str) -> Sequence[Features]:
    """What the first decision is made from, for each sentence: its words and pairs of words, the words around it, and its shape."""
    asked = asked.rstrip()
    around = {
        **dict.fromkeys((f"message {token}" for token in tokens(message)[:_MESSAGE_TOKENS]), _AROUND),
        **dict.fromkeys((f"asked {token}" for token in tokens(asked[-200:])[-12:]), _AROUND),
        "#message": math.log1p(len(message)) / 2,
        "#answers": float(asked.endswith(QUESTION_MARKS)),
        "#answered": float(bool(asked)),
        "#alone": float(len(pieces) == 1),
    }
    found = [{**_of_sentence(piece, before), **around} for piece, before in zip(pieces, ["", *pieces], strict=False)]
    for place, each in enumerate(found):
        each |= {"#first": float(place == 0), "#last": float(place == len(pieces) - 1)}
    return found


def _of_sentence(text: str, before: str) -> dict[str, float]:
    """Args: before: the sentence before it in the message, "" for the first."""
    words = tokens(text)
    question, order = asks(text), orders(text)
    personal = not words_of("oneself").isdisjoint(words)
    return {
        **dict.fromkeys(ngrams(words), 1.0),
        **dict.fromkeys((f"before {token}" for token in tokens(before)[-_BEFORE_TOKENS:]), _AROUND),
        "#question": float(question),
        "#order": float(order),
        "#order in the first person": float(order and personal),
        "#neither question nor order": float(not question and not order),
        "#question without person": float(question and not personal),
        "#impersonal": float(not question and not personal),
        "#words": math.log1p(len(words)),
        "#capital": float(text[:1].isupper()),
        "#number": float(any(map(str.isdigit, text))),
        "#lines": float("\n" in text.strip()),
        "#name": float(bool(_NAME.search(text))),
    }
