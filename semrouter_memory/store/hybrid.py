"""One query, two searches: the nearest by vector, and the best by words where the collection has them.

Strategy: both searches run at the same time, and the result is the union, ordered by cosine. Rows found by words come with their
vectors, so that their cosines are computed here. The store's BM25 only selects: its document frequencies are those of all
users' memories, and recall computes its own over the rows found.
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
class ScoredRow:
    """A row that one of the searches found."""

    row: Row
    cosine: float


async def search(connection: MilvusConnection, query: HybridQuery) -> list[ScoredRow]:
    """What was found, nearest first. Raises `StoreUnavailableError`."""
    if not query.terms or not connection.searches_words:
        return [ScoredRow(row, cosine) for row, cosine in await _nearest(connection, query)]
    nearest, best = await _both(connection, query)
    found = {row["id"]: ScoredRow(row, cosine) for row, cosine in nearest}
    for row in best:
        found.setdefault(row["id"], ScoredRow(row, _cosine(query.vector, row[schema.EMBEDDING.name])))
    return sorted(found.values(), key=attrgetter("cosine"), reverse=True)


async def _both(connection: MilvusConnection, query: HybridQuery) -> tuple[_Scored, list[Row]]:
    try:
        async with asyncio.TaskGroup() as tasks:
            nearest = tasks.create_task(_nearest(connection, query))
            best = tasks.create_task(_best(connection, query))
    except* StoreUnavailableError as failures:
        raise failures.exceptions[0] from None
    return nearest.result(), best.result()


async def _nearest(connection: MilvusConnection, query: HybridQuery) -> _Scored:
    expression = schema.filter_expression(query.selection)
    return await connection.search(query.vector, expression, limit=query.limit, fresh=query.fresh)


async def _best(connection: MilvusConnection, query: HybridQuery) -> list[Row]:
    return await connection.search_words(
        query.terms,
        schema.filter_expression(query.selection),
        columns=schema.EMBEDDED_COLUMNS,
        limit=query.limit,
        fresh=query.fresh,
    )


def _cosine(one: Vector, other: list[float]) -> float:
    vector = np.asarray(other, dtype=np.float32)
    lengths = float(np.linalg.norm(one) * np.linalg.norm(vector))
    return float(np.dot(one, vector)) / lengths if lengths else 0.0
