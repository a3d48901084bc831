"""One question, two searches: the nearest by vector, and the best by words where the collection has them.

Strategy: both are asked at once, and the answer is all that either found, by its cosine. What words alone found comes with
its vector, so that its cosine is computed here. The store's BM25 only chooses: it counts how rare a word is over everybody's
memories, and recall makes its own of what was found.
"""

import asyncio
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Vector
from semrouter_memory.store import schema
from semrouter_memory.store.connection import MilvusConnection
from semrouter_memory.store.schema import Row, Selection

_Scored = list[tuple[Row, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridQuery:
    """What is searched.

    Attributes:
        terms: of the query, as `schema.asked_terms` gives them; "" when words are not to be searched.
        limit: of each of the two searches.
    """

    vector: Vector
    terms: str
    selection: Selection
    limit: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A row that one of the searches found."""

    row: Row
    cosine: float


async def search(connection: MilvusConnection, question: HybridQuery) -> list[Found]:
    """What was found, nearest first. Raises `StoreUnavailableError`."""
    if not question.terms or not connection.searches_words:
        return [Found(row, cosine) for row, cosine in await _nearest(connection, question)]
    nearest, best = await _both(connection, question)
    found = {row["id"]: Found(row, cosine) for row, cosine in nearest}
    for row in best:
        found.setdefault(row["id"], Found(row, _cosine(question.vector, row[schema.EMBEDDING.name])))
    return sorted(found.values(), key=attrgetter("cosine"), reverse=True)


async def _both(connection: MilvusConnection, question: HybridQuery) -> tuple[_Scored, list[Row]]:
    try:
        async with asyncio.TaskGroup() as tasks:
            nearest = tasks.create_task(_nearest(connection, question))
            best = tasks.create_task(_best(connection, question))
    except* StoreUnavailableError as failures:
        raise failures.exceptions[0] from None
    return nearest.result(), best.result()


async def _nearest(connection: MilvusConnection, question: HybridQuery) -> _Scored:
    expression = schema.filter_expression(question.selection)
    return await connection.search(question.vector, expression, limit=question.limit, fresh=question.fresh)


async def _best(connection: MilvusConnection, question: HybridQuery) -> list[Row]:
    return await connection.search_words(
        question.terms,
        schema.filter_expression(question.selection),
        columns=schema.EMBEDDED_COLUMNS,
        limit=question.limit,
        fresh=question.fresh,
    )


def _cosine(one: Vector, other: list[float]) -> float:
    vector = np.asarray(other, dtype=np.float32)
    lengths = float(np.linalg.norm(one) * np.linalg.norm(vector))
    return float(np.dot(one, vector)) / lengths if lengths else 0.0
