"""Memories of many users, written before a service starts: a Milvus Lite belongs to one process.

Strategy: a few hundred texts are embedded; where there are more memories than that, a text's vector serves again, with
noise, for embedding 100,000 texts would take minutes and search and ranking do not mind. Rows of many users go into one
write, because a store takes as long for one of 50 rows as for one of 200.
"""

import asyncio
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np

from bench.workload import memory_of, statements
from semrouter_memory.app.adapters import record_format
from semrouter_memory.model import EmbeddedMemory, Scope, Vector
from semrouter_memory.ports import Embedder
from semrouter_memory.store import schema
from semrouter_memory.store.connection import MilvusConnection
from semrouter_memory.store.schema import Row

EMBEDDED = 800
"""Texts that are embedded."""
_NOISE = 0.02
_ROWS = 500
_WRITERS = 2
_ItemT = TypeVar("_ItemT")


class Seeder:
    """Writes users' memories, the same ones in every run."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: list[Vector] = []

    async def write(
        self, collection: MilvusConnection, users: Mapping[str, int], *, progress: Callable[[int], object]
    ) -> None:
        """Write so many memories of each user.

        Args:
            progress: told how many were written since it was last told.
        """
        wanted = min(sum(users.values()), EMBEDDED)
        if len(self._known) < wanted:
            self._known = await self._embedder.embed_passages([content for _, content in statements(wanted)])
        batches = batched((row for user, count in users.items() for row in self._rows(user, count)), _ROWS)
        async with asyncio.TaskGroup() as group:
            for _ in range(_WRITERS):
                group.create_task(_write(collection, batches, progress))

    def _rows(self, user: str, count: int) -> Iterator[Row]:
        scope, now, seed = Scope(user), datetime.now(UTC), zlib.crc32(user.encode())
        vectors = self._vectors(count, seed)
        for number, statement in enumerate(statements(count, seed=seed)):
            memory = memory_of(scope, number, statement, now=now)
            embedded = EmbeddedMemory(memory, vectors[number])
            row = schema.row_from(scope, embedded, dimension=self._embedder.dimension)
            yield row | {schema.RECORD.name: record_format().stored(embedded)}

    def _vectors(self, count: int, seed: int) -> Sequence[Vector]:
        draw = np.random.default_rng(seed)
        known = np.asarray(self._known)
        noisy = known[draw.integers(len(known), size=count)] + draw.normal(0, _NOISE, (count, known.shape[1]))
        vectors: Sequence[Vector] = list((noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32))
        return vectors


async def _write(collection: MilvusConnection, batches: Iterator[list[Row]], progress: Callable[[int], object]) -> None:
    for batch in batches:
        await collection.upsert(batch)
        progress(len(batch))


def batched(items: Iterable[_ItemT], size: int) -> Iterator[list[_ItemT]]:
    left = iter(items)
    while batch := list(itertools.islice(left, size)):
        yield batch
