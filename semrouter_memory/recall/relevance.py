"""From evidence to one number that a threshold can be compared with, whoever's memories they are. Pure.

Two steps, both linear. First the **score** of a memory, in units of a cosine: what it and the question have in common in
meaning and in words, what its neighbours have, and what the request needs without asking:

    score = cosine + 0.08 BM25 + 0.09 BM25 of the neighbours - 0.18 [a question itself] - 0.67 share said in the last answers
          + what its class is worth to the request (`_NEEDED`) + 0.2 [written in the period that the question speaks of]

For a Chinese question the cosine counts a fifth: the default model knows few of the characters. The ranking is the order
of the scores.

Its constants were fitted on questions of invented users, and checked on users that the fit had not seen.

Then the **relevance**, 0..1: how likely the assistant wants the memory for this question, a logistic model (`make fit`)
over the score, its distance to the best one, how far it stands out from the owner's other memories and from statements
about nobody, how many memories there are, and whether the question wants memories at all (`wants`). A quote is shown from
a lower probability on than a statement. How it does on people left out: `docs/learned-decisions.md`.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.learned.logistic import Logistic, log_odds
from semrouter_memory.recall import wants
from semrouter_memory.recall.anchors import Anchors
from semrouter_memory.recall.evidence import Evidence, Floats, Question
from semrouter_memory.recall.standing import Need, Standing

_LEXICAL = 0.084
_NEARBY = 0.088
_IS_QUESTION = -0.181
_ANSWERED = -0.667
_CHINESE_COSINE = 0.2
_CHINESE_LEXICAL = 0.101
_TIMELY = 0.2
_NEEDED: tuple[tuple[Need, Standing, float], ...] = (
    (Need.FOOD, Standing.DIET, 0.275),
    (Need.BODY, Standing.HEALTH, 0.122),
    (Need.TRIP, Standing.TRAVEL, 0.249),
    (Need.TRIP, Standing.MONEY, 0.172),
    (Need.DATE, Standing.TIME, 0.079),
    (Need.PROGRAM, Standing.CODE, 0.139),
    (Need.TEXT, Standing.WRITING, 0.269),
    (Need.PURCHASE, Standing.MONEY, 0.14),
    (Need.PURCHASE, Standing.HEALTH, 0.132),
)

_QUESTION_MARK = np.uint16(Standing.QUESTION)
_SMALLEST_SPREAD = 0.03
_RELEVANT = Logistic.load("relevance")
_CUT = log_odds(_RELEVANT.cut)
_SHOWN_CUT = log_odds(0.6)
"""Relevance is shifted so that a memory on the cut has 0.6, the default threshold."""
_QUOTE = np.uint16(Standing.QUOTE)
_QUOTE_CUT = log_odds(0.03)
"""A quote tells more than one thing, and with its date and in the user's words it misleads nobody."""
_FEW = 16
_GENEROUS = 1.5
"""Of few memories one line too many costs little, and silence costs what memory is there for."""
_ORDER = 0.02
"""Memories that are all limited by the request keep their order."""
_SURE = 2.0
"""Where a request is just as sure to want something as a memory is to be it, the memory decides."""


def scores(evidence: Evidence, question: Question, needs: Floats) -> Floats:
    """The score of each memory.

    Args:
        needs: what of it is `needed`.
    """
    cosine, lexical = (_CHINESE_COSINE, _CHINESE_LEXICAL) if question.chinese else (1.0, _LEXICAL)
    found = cosine * evidence.similarity + lexical * evidence.lexical + _NEARBY * evidence.nearby
    if question.answered:
        found += _ANSWERED * evidence.answered
    if evidence.timely is not None:
        found += np.float32(_TIMELY) * evidence.timely
    found += np.float32(_IS_QUESTION) * ((evidence.marks & _QUESTION_MARK) != 0)
    found += needs
    return np.asarray(found, dtype=np.float32)


def needed(evidence: Evidence, question: Question) -> Floats:
    """What of each score the memory has because its class is what the request needs."""
    found = np.zeros(len(evidence.marks), dtype=np.float32)
    for mark, worth in _worth_of_marks(question.need):
        found += worth * ((evidence.marks & mark) != 0)
    return found


@lru_cache(256)
def _worth_of_marks(need: Need) -> tuple[tuple[np.uint16, np.float32], ...]:
    """What a memory's marks add to its score; numbers of numpy's, with which an array is compared three times as fast."""
    return tuple((np.uint16(standing), np.float32(worth)) for each, standing, worth in _NEEDED if need & each)


def relevances(
    found: Floats,
    chosen: Sequence[int],
    question: Question,
    anchors: Anchors,
    *,
    needs: Floats | None = None,
    marks: NDArray[np.uint16] | None = None,
) -> Floats:
    """The relevance of the memories at these places.

    Args:
        found: the scores of all memories that there are to choose from.
        needs: what of them is `needed`.
        marks: `Standing` of each, for whether it is a quote.
    """
    if not len(found):
        return found
    generous = _GENEROUS * max(0.0, 1 - len(found) / _FEW)
    logits = np.full(len(found), _RELEVANT.bias - _CUT + generous, dtype=np.float32)
    if marks is not None:
        logits += np.float32(_CUT - _QUOTE_CUT) * ((marks & _QUOTE) != 0)
    for name, column in features(found, question, anchors, needs=needs).items():
        logits += np.float32(_RELEVANT.weights.get(name, 0.0)) * column
    # The request must want something, and that must be it: the weaker of the two decides.
    sure = _SURE * (question.wants - wants.CUT)
    logits = np.where(logits < sure, logits, sure + _ORDER * (logits - sure))
    return np.asarray(1 / (1 + np.exp(-(logits[chosen] + _SHOWN_CUT))), dtype=np.float32)


def features(
    found: Floats, question: Question, anchors: Anchors, *, needs: Floats | None = None
) -> dict[str, Floats | float]:
    """What relevance is made of, for each memory.

    What a request needs does not compete with itself: two diets both count, and each is measured against the best of what
    was asked for.
    """
    cosine = _CHINESE_COSINE if question.chinese else 1.0
    backdrop = cosine * (anchors.backdrop @ question.vector)
    mean, spread = _distribution(found, backdrop)
    behind = found - float(found.max())
    if needs is not None and needs.any():
        asked_for = np.minimum(found - float((found - needs).max()), 0)
        behind = np.where(needs > 0, np.maximum(behind, asked_for), behind)
    return {
        "score": found,
        "outstanding": (found - mean) / (spread + _SMALLEST_SPREAD),
        "behind": behind,
        "behind anything": np.minimum(found - float(backdrop.max()), 0),
        "wants": question.wants,
        "wants for sure": max(question.wants, 0.0),
        "wants x score": question.wants * found,
        "chinese": float(question.chinese),
        "memories": math.log1p(len(found)),
    }


def _distribution(found: Floats, backdrop: Floats) -> tuple[float, float]:
    """Mean and standard deviation of both together."""
    count = len(found) + len(backdrop)
    mean = (float(found.sum()) + float(backdrop.sum())) / count
    off, off_backdrop = found - np.float32(mean), backdrop - np.float32(mean)
    return mean, math.sqrt((float(off @ off) + float(off_backdrop @ off_backdrop)) / count)
