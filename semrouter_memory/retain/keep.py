"""Whether a sentence of a user's message is worth keeping: a learned decision over its words and where they stand. Pure.

Strategy: single words and pairs of words decide most ("i live", "could you"); where the sentence stands, the sentence before
it and whether the assistant has just asked something decide the rest. The model's weights come from
labelled messages (`training/`). Measured on people left out, words alone do better than the sentence's vector alone (area
under the curve 0.91 against 0.82), and both together no better than more data makes words; so nothing is embedded that is
not stored.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.language.moods import QUESTION_MARKS, asks, orders
from semrouter_memory.language.ngrams import ngrams, tokens
from semrouter_memory.learned.logistic import Features, Multinomial

_MODEL = Multinomial.load("keep")
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|im|ive|my|mine|me|we|we're|we've|our|us)\b|[我咱]", re.IGNORECASE)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_BEFORE_TOKENS = 150
CUT = 0.2
"""From this probability on a sentence is worth keeping: what is kept for nothing costs little, what is not kept is lost."""
_TRUER = 0.5
"""So many times as likely as to be supposed, played, ironic, pasted or about others it must be to be worth keeping."""
_ASKING_CUT = 0.75
"""A question or an order tells something on the way, or is of no use later."""
_MESSAGE_TOKENS = 150
_AROUND = 0.4
"""The worth of a word around the sentence, beside one in it."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, and what stands around it.

    Attributes:
        text: as typed.
        before: the sentence before it in the message, "" for the first.
        message: the whole message.
        asked: the assistant's message before, "" for none.
        place: its number in the message, from 0.
        count: of how many.
    """

    text: str
    before: str
    message: str
    asked: str
    place: int
    count: int


def in_message(pieces: Sequence[str], message: str, asked: str) -> list[Sentence]:
    """The sentences of a message, with what stands around each.

    Args:
        pieces: the sentences as typed.
        message: all of it.
        asked: what the assistant said before.
    """
    before = ["", *pieces]
    return [Sentence(piece, before[place], message, asked, place, len(pieces)) for place, piece in enumerate(pieces)]


def keep(sentences: Sequence[Sentence]) -> list[float]:
    """For each sentence the probability that it is worth keeping; 0 where it need not be asked what it tells.

    That is so where it is too likely not meant as true of the user, and where it asks or orders and does not tell for sure.
    """
    return [_judged(sentence) for sentence in sentences]


def _judged(sentence: Sentence) -> float:
    known = features(sentence)
    found = _MODEL.probabilities(known)
    kept = found["kept"]
    if kept < _TRUER * found["untrue"]:
        return 0.0
    return kept if kept >= _ASKING_CUT or known["#neither question nor order"] else 0.0


def features(sentence: Sentence) -> Features:
    """What the decision is made from: words and pairs of words of the sentence, the words around it, and its shape."""
    words = tokens(sentence.text)
    found = dict.fromkeys(ngrams(words), 1.0)
    found |= dict.fromkeys((f"before {token}" for token in tokens(sentence.before)[-_BEFORE_TOKENS:]), _AROUND)
    found |= dict.fromkeys((f"message {token}" for token in tokens(sentence.message)[:_MESSAGE_TOKENS]), _AROUND)
    asked = sentence.asked.rstrip()
    question, order = asks(sentence.text), orders(sentence.text)
    personal = bool(_FIRST_PERSON.search(sentence.text.replace("’", "'")))
    if asked:
        found |= dict.fromkeys((f"asked {token}" for token in tokens(asked[-200:])[-12:]), _AROUND)
    return found | {
        "#question": float(question),
        "#order": float(order),
        "#order in the first person": float(order and personal),
        "#neither question nor order": float(not question and not order),
        "#question without person": float(question and not personal),
        "#impersonal": float(not question and not personal),
        "#words": math.log1p(len(words)),
        "#message": math.log1p(len(sentence.message)) / 2,
        "#answers": float(asked.endswith(QUESTION_MARKS)),
        "#answered": float(bool(asked)),
        "#first": float(sentence.place == 0),
        "#last": float(sentence.place == sentence.count - 1),
        "#alone": float(sentence.count == 1),
        "#capital": float(sentence.text[:1].isupper()),
        "#number": float(any(map(str.isdigit, sentence.text))),
        "#lines": float("\n" in sentence.text.strip()),
        "#name": float(bool(_NAME.search(sentence.text))),
    }
