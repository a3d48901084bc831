"""How much memory active users take: a process of its own (`python -m semrouter_memory.bench.footprint USERS MEMORIES MB`).

Real is the index cache. Its store makes up the memories that are asked for and keeps none, so that the process grows by
what the cache keeps. A few users' worth of statements serve all: each has copies of its own.
"""

import asyncio
import gc
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import numpy as np

from semrouter_memory.bench.figures import Footprint
from semrouter_memory.bench.workload import memory_of, statements
from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.errors import MemoryServiceError
from semrouter_memory.model import EmbeddedMemory, Scope, Vector
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.index_cache import IndexCache

_DIMENSION = 384
_SETS = 10
_NOW = datetime(2026, 6, 1, tzinfo=UTC)
_MIB = 1024 * 1024
_PATIENCE_SECONDS = 60


class FootprintError(MemoryServiceError):
    """What was to be measured did not happen."""


class _Clock:
    def now(self) -> datetime:
        return _NOW


class _Versions:
    """No writes."""

    async def current(self, _: Scope) -> int:
        return 0

    async def advance(self, _: Scope) -> tuple[int | None, int]:
        return None, 0


class _MadeUp(InMemoryStore):
    """Every user has one of a few sets of memories."""

    def __init__(self, sets: Sequence[list[EmbeddedMemory]]) -> None:
        super().__init__(dimension=_DIMENSION)
        self._sets = sets

    async def load_owner(self, scope: Scope, *, limit: int, now: datetime) -> list[EmbeddedMemory] | None:  # noqa: ARG002
        return self._sets[int(scope.user_id) % len(self._sets)]


def _set(number: int, memories: int) -> list[EmbeddedMemory]:
    vectors = np.random.default_rng(number).normal(size=(memories, _DIMENSION)).astype(np.float32)
    scope = Scope(str(number))
    return [
        EmbeddedMemory(memory_of(scope, place, statement, now=_NOW), _unit(vectors[place]))
        for place, statement in enumerate(statements(memories, seed=number))
    ]


def _unit(vector: Vector) -> Vector:
    return vector / np.float32(np.linalg.norm(vector))


async def measured(users: int, memories: int, max_mb: int) -> Footprint:
    """Have so many users active, one after the other."""
    store = _MadeUp([_set(number, memories) for number in range(_SETS)])
    failures: list[BaseException] = []
    indexes = IndexCache(
        store, _Versions(), config=OwnerIndexConfig(max_mb=max_mb), clock=_Clock(), on_error=failures.append
    )
    # What the first one of all takes is code and caches of words.
    for number in range(_SETS):
        await _active(indexes, number)
    already, before = indexes.nbytes, _resident_bytes()
    most = already
    for number in range(_SETS, users):
        await _active(indexes, number)
        most = max(most, indexes.nbytes)
    grown = _resident_bytes() - before
    if failures:
        raise FootprintError(f"a user's memories could not be kept ({type(failures[0]).__name__})")
    return Footprint(
        users=users,
        memories=memories,
        bound_bytes=max_mb * _MIB,
        counted_bytes=indexes.nbytes,
        most_bytes=most,
        resident_bytes=grown + already,
        kept=indexes.owners,
    )


async def _active(indexes: IndexCache, number: int) -> None:
    until = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
    if await indexes.get(Scope(str(number)), until=until) is None:
        raise FootprintError(f"user {number} is not at hand")


def _resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - no file of ours
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(measured(*map(int, sys.argv[1:]))))))  # noqa: T201 - for the process that started it
