"""Calibrated relevance, comparable across users and with one threshold. Pure.

Two steps, both linear. First the **score** of a memory, in units of a cosine: what it and the question have in common in
meaning and in words, what its neighbours have, and what the request needs without asking:

    score = cosine + 0.08 BM25 + 0.09 BM25 of the neighbours - 0.18 [a question itself]
          + what its class is worth to the request (`_NEEDED`) + 0.2 [written in the period that the question speaks of]

For a Chinese question the cosine counts as much as the fit found the embedding model to know of Chinese: with the default model,
which knows few of the characters, a fifth. The ranking is the order
of the scores.

Its constants were fitted on questions of invented users, and checked on users that the fit had not seen.

Then the **relevance**, 0..1: how likely the assistant wants the memory for this question, a logistic model (`make fit`)
over the score, its distance to the best one, how far it stands out from the owner's other memories and from statements
of no user, how many memories there are, and whether the question wants memories at all (`wants`). A quote is shown from
a lower probability on than a statement. How it does on people left out: `docs/learned-decisions.md`.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.learned import Logistic, log_odds, probabilities
from semrouter_memory.recall import wants
from semrouter_memory.recall.categories import MemoryCategory, Need
from semrouter_memory.recall.features import CandidateFeatures, Floats, QueryFeatures
from semrouter_memory.recall.prototypes import Prototypes

_LEXICAL = 0.084
_NEARBY = 0.088
_IS_QUESTION = -0.181
CHINESE_COSINE = "chinese cosine"
"""The constant of a fitted model: what a cosine counts for a Chinese question."""
_CHINESE_COSINE = 0.2
"""With the default model."""
_CHINESE_LEXICAL = 0.101
_TIMELY = 0.2
_NEEDED: tuple[tuple[Need, MemoryCategory, float], ...] = (
    (Need.FOOD, MemoryCategory.DIET, 0.275),
    (Need.BODY, MemoryCategory.HEALTH, 0.122),
    (Need.TRIP, MemoryCategory.TRAVEL, 0.249),
    (Need.TRIP, MemoryCategory.MONEY, 0.172),
    (Need.DATE, MemoryCategory.TIME, 0.079),
    (Need.PROGRAM, MemoryCategory.CODE, 0.139),
    (Need.TEXT, MemoryCategory.WRITING, 0.269),
    (Need.PURCHASE, MemoryCategory.MONEY, 0.14),
    (Need.PURCHASE, MemoryCategory.HEALTH, 0.132),
)

_QUESTION = np.uint16(MemoryCategory.QUESTION)
_SMALLEST_SPREAD = 0.03
_RELEVANT = Logistic.load("relevance")
_SHOWN_CUT = log_odds(0.6)
"""Relevance is shifted so that a memory on the cut has 0.6, the default threshold."""
_QUOTE = np.uint16(MemoryCategory.QUOTE)
_QUOTE_CUT = log_odds(0.05)
"""A quote tells more than one thing, and with its date and in the user's words it does not mislead."""
_FEW = 16
_GENEROUS = 1.5
"""Of few memories one line too many costs little, and silence costs what memory is there for."""
_ORDER = 0.02
"""Memories that are all limited by the request keep their order."""
_SURE = 2.0
"""Where a request is just as sure to want something as a memory is to be it, the memory decides."""


def score(candidates: CandidateFeatures, query: QueryFeatures, needs: Floats) -> Floats:
    """The score of each memory.

    Args:
        needs: what of it is `needed`.
    """
    cosine, lexical = cosine_worth(query), _CHINESE_LEXICAL if query.chinese else _LEXICAL
    scores = cosine * candidates.similarity + lexical * candidates.lexical + _NEARBY * candidates.nearby
    if candidates.timely is not None:
        scores += np.float32(_TIMELY) * candidates.timely
    scores += np.float32(_IS_QUESTION) * ((candidates.labels & _QUESTION) != 0)
    scores += needs
    return np.asarray(scores, dtype=np.float32)


def cosine_worth(query: QueryFeatures) -> float:
    """What a cosine counts for this query: in Chinese, as much as the model knows of it."""
    return _RELEVANT.constants.get(CHINESE_COSINE, _CHINESE_COSINE) if query.chinese else 1.0


def needed(candidates: CandidateFeatures, query: QueryFeatures) -> Floats:
    """The part of each score that the memory has because the request needs its category."""
    needs = np.zeros(len(candidates.labels), dtype=np.float32)
    for label, worth in _worth_of_labels(query.need):
        needs += worth * ((candidates.labels & label) != 0)
    return needs


@lru_cache(256)
def _worth_of_labels(need: Need) -> tuple[tuple[np.uint16, np.float32], ...]:
    """What a memory's categories add to its score; as numpy numbers, with which arrays are compared three times as fast."""
    return tuple((np.uint16(category), np.float32(worth)) for each, category, worth in _NEEDED if need & each)


def highest(scores: Floats, count: int, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The rows of the highest scores, best first; of equal ones those that come first, and of a long memory the best.

    Args:
        count: at most so many.
        keys: of each row, the same for passages of one memory.
    """
    if len(scores) <= count:
        rows = np.argsort(-scores, kind="stable")
    else:
        least = np.partition(scores, -count)[-count]
        rows = np.flatnonzero(scores >= least)
        rows = rows[np.argsort(-scores[rows], kind="stable")][:count]
    if len(set(keys[rows].tolist())) == len(rows):
        return rows
    # Passages that resemble one another must not take the places of other memories.
    rows = np.argsort(-scores, kind="stable")
    firsts = np.unique(keys[rows], return_index=True)[1]
    firsts.sort()
    return rows[firsts[:count]]


def relevances(
    scores: Floats,
    chosen: Sequence[int],
    query: QueryFeatures,
    prototypes: Prototypes,
    *,
    needs: Floats | None = None,
    labels: NDArray[np.uint16] | None = None,
) -> Floats:
    """The relevance of the memories at these places.

    Args:
        scores: of all memories that there are to choose from.
        needs: what of them is `needed`.
        labels: `MemoryCategory` of each, for whether it is a quote.
    """
    if not len(scores):
        return scores
    rows = np.asarray(chosen, dtype=np.intp)
    generous = _GENEROUS * max(0.0, 1 - len(scores) / _FEW)
    logits = np.full(len(rows), _RELEVANT.bias - _RELEVANT.log_cut + generous, dtype=np.float32)
    if labels is not None:
        logits += np.float32(_RELEVANT.log_cut - _QUOTE_CUT) * ((labels[rows] & _QUOTE) != 0)
    for name, column in features(scores, query, prototypes, needs=needs, rows=rows).items():
        logits += np.float32(_RELEVANT.weights.get(name, 0.0)) * column
    # The request must want something, and that must be it: the weaker of the two decides.
    sure = _SURE * (query.wants - wants.cut())
    logits = np.where(logits < sure, logits, sure + _ORDER * (logits - sure))
    return probabilities(logits + np.float32(_SHOWN_CUT))


def features(
    scores: Floats,
    query: QueryFeatures,
    prototypes: Prototypes,
    *,
    needs: Floats | None = None,
    rows: NDArray[np.intp] | slice = slice(None),
) -> dict[str, Floats | float]:
    """What relevance is made of, for each memory of these rows.

    What a request needs does not compete with itself: two diets both count, and each is measured against the best of what
    was asked for.
    """
    background = cosine_worth(query) * (prototypes.background @ query.vector)
    mean, spread = _distribution(scores, background)
    chosen = scores[rows]
    behind = chosen - float(scores.max())
    if needs is not None and needs.any():
        asked_for = np.minimum(chosen - float((scores - needs).max()), 0)
        behind = np.where(needs[rows] > 0, np.maximum(behind, asked_for), behind)
    return {
        "score": chosen,
        "outstanding": (chosen - mean) / (spread + _SMALLEST_SPREAD),
        "behind": behind,
        "behind anything": np.minimum(chosen - float(background.max()), 0),
        "wants": query.wants,
        "wants for sure": max(query.wants, 0.0),
        "wants x score": query.wants * chosen,
        "chinese": float(query.chinese),
        "memories": math.log1p(len(scores)),
    }


def _distribution(scores: Floats, background: Floats) -> tuple[float, float]:
    """Mean and standard deviation of both together."""
    count = len(scores) + len(background)
    mean = (float(scores.sum()) + float(background.sum())) / count
    off, off_background = scores - np.float32(mean), background - np.float32(mean)
    return mean, math.sqrt((float(off @ off) + float(off_background @ off_background)) / count)
