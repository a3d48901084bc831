"""What candidates are compared with: the owner's nearest memories and what led to them; and what a withdrawal changes there."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain

import numpy as np

from semrouter_memory.backends import Backends
from semrouter_memory.lineage import generations, pages, without_successors
from semrouter_memory.model import (
    Candidate,
    Criteria,
    EmbeddedMemory,
    Hit,
    LoggedTurn,
    Memory,
    Reach,
    Reconciled,
    Scope,
    Vector,
)
from semrouter_memory.ports import MemoryIndex, Tombstones
from semrouter_memory.retain.passages import embedded
from semrouter_memory.retain.reconciling.reconcile import arrives_late, not_after, reconcile
from semrouter_memory.retain.reconciling.rows import contradicted, unflagged
from semrouter_memory.retain.superseding import completed, source_of, unmarked

_NEAREST = 50
"""Nearest memories to compare with. An older value of the same attribute may be worded so differently that many others
are nearer (measured among 500: at most 31). Comparing costs a tenth of a millisecond each."""
_INDEX_SECONDS = 0.5
"""For the index of an owner who is not active any more; then the store is searched, for each vector."""
_AT_ONCE = 4
"""Searches at a time. Each waits for a Milvus server's next time tick, about 200 ms; recall waits behind them on Lite."""
_PAGE = 100
"""Of the owner's newest memories, among which those of the last turn are."""
_SKEW = timedelta(hours=1)
"""By so much a row may be older than its turn where the clock was set back."""
_MAX_CHAIN = 20
"""Steps back into the history of neighbours, for a candidate that arrives late."""


@dataclass(frozen=True, slots=True)
class Near:
    """A candidate, with the quote that it was made from, and what it is compared with."""

    candidate: Candidate
    hits: list[Hit]
    history: list[Hit]

    async def decide(self) -> Reconciled:
        """In a thread: comparing with many neighbours takes up to 30 ms, which recall does not have."""
        return await asyncio.to_thread(self._decided)

    def _decided(self) -> Reconciled:
        return completed(self.candidate, self.hits, reconcile(self.candidate, self.hits, self.history))


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The active memories near each of several vectors of one owner, read at once, with what was written since.

    Attributes:
        found: of each vector, nearest first.
        written: rows that were written since, by id.
    """

    scope: Scope
    tombstones: Tombstones
    vectors: Sequence[Vector]
    found: Sequence[Sequence[Hit]]
    written: dict[str, EmbeddedMemory] = field(default_factory=dict)

    def add(self, rows: Sequence[EmbeddedMemory]) -> None:
        self.written.update(
            (row.memory.id, row) for row in rows if row.memory.scope.project_id == self.scope.project_id
        )

    def nearest(self, index: int) -> list[Hit]:
        """The nearest to the vector with that index, as of now."""
        vector = self.vectors[index]
        read = [hit for hit in self.found[index] if hit.memory.id not in self.written]
        active = [
            row
            for row in self.written.values()
            if row.memory.superseded_at is None and not self.tombstones.covers(row.memory)
        ]
        similarities = [float(vector @ row.vector) for row in active]
        since = [Hit(row.memory, each, each) for row, each in zip(active, similarities, strict=True)]
        return sorted([*read, *since], key=lambda hit: hit.similarity, reverse=True)[:_NEAREST]


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What a turn stored, and the rows that change when that is deleted.

    The rows are written before the others are deleted, so that a crash in between is repaired when the step is repeated.
    """

    ids: Sequence[str]
    changed: Sequence[EmbeddedMemory]


class NeighbourReader:
    """Reads neighbourhoods from the owner's index on Milvus Lite, else from the store."""

    def __init__(self, backends: Backends) -> None:
        self._indexes = backends.owner_indexes
        self._reader, self._embedder, self._clock = backends.store, backends.embedder, backends.clock

    async def read(self, scope: Scope, vectors: Sequence[Vector], tombstones: Tombstones) -> Neighbourhood:
        """What any process has written until now, without what holds within a session only."""
        index = await self._index(scope)
        criteria = Criteria(scope, reach=Reach.EXACT, active_at=self._clock.now())
        if index is not None:
            nearest = [_nearest_in(index, criteria, vector) for vector in vectors]
        else:
            turn = asyncio.Semaphore(_AT_ONCE)
            nearest = await asyncio.gather(*(self._searched(criteria, vector, turn) for vector in vectors))
        found = [
            [hit for hit in hits if _comparable(hit.memory) and not tombstones.covers(hit.memory)] for hits in nearest
        ]
        return Neighbourhood(scope, tombstones, vectors, found)

    async def _index(self, scope: Scope) -> MemoryIndex | None:
        # A server that is away must be found out before the write is announced: the owner's index ends with that.
        if self._indexes is None or not self._reader.is_local:
            return None
        return await self._indexes.get(scope, until=asyncio.get_running_loop().time() + _INDEX_SECONDS)

    async def _searched(self, criteria: Criteria, vector: Vector, turn: asyncio.Semaphore) -> list[Hit]:
        async with turn:
            return await self._reader.search(criteria, vector, limit=_NEAREST, fresh=True)

    async def near(self, around: Neighbourhood, index: int, candidate: Candidate) -> Near:
        """What to compare the candidate with, whose vector is the one with that index."""
        vector = around.vectors[index]
        now = self._clock.now()
        hits = [replace(hit, memory=not_after(now, hit.memory, candidate)) for hit in around.nearest(index)]
        history = await self._history(around.scope, hits) if arrives_late(candidate, hits) else []
        history = [memory for memory in history if not around.tombstones.covers(memory)]
        rows = [(row.memory, float(vector @ row.vector)) for row in await embedded(self._embedder, history)]
        sourced = replace(candidate, quote=source_of(candidate, hits))
        return Near(sourced, hits, [Hit(memory, similarity, similarity) for memory, similarity in rows])

    async def withdrawal(self, scope: Scope, turns: Sequence[LoggedTurn], tombstones: Tombstones) -> Withdrawal:
        """What deleting the memories of these turns changes.

        Only memories of this owner and session that were made from one of the turns alone are deleted: what other turns
        say, too, stays. Memories that they superseded hold again, or are superseded by what superseded the deleted ones
        meanwhile, and marks that point to them are removed.
        """
        now = self._clock.now()
        since = min(turn.observed_at for turn in turns) - _SKEW
        stored = pages(self._reader, Criteria(scope, reach=Reach.EXACT), limit=_PAGE, since=since)
        gone = {each.id: each async for page in stored for each in page if any(_is_of(each, turn) for turn in turns)}
        if not gone:
            return Withdrawal((), ())
        superseded = await self._reader.predecessors(scope, list(gone))
        restored = [without_successors(old, gone, now=now) for old in superseded]
        changed = {memory.id: memory for memory in restored if memory.id not in gone and not tombstones.covers(memory)}
        deleted = await embedded(self._embedder, list(gone.values()))
        for hits in (await self.read(scope, [row.vector for row in deleted], tombstones)).found:
            for memory in (hit.memory for hit in hits if hit.memory.id not in gone):
                if {*memory.outdated_by, *contradicted(memory)} & gone.keys():
                    changed[memory.id] = unflagged(unmarked(memory, gone.keys()), {*gone}, now=now)
        return Withdrawal(list(gone), await embedded(self._embedder, list(changed.values())))

    async def _history(self, scope: Scope, hits: Sequence[Hit]) -> list[Memory]:
        """What led to these memories."""
        _, *earlier = await generations(self._reader, scope, *(hit.memory for hit in hits), steps=_MAX_CHAIN)
        return [each for each in chain(*earlier) if each.scope.project_id == scope.project_id]


def _nearest_in(index: MemoryIndex, criteria: Criteria, vector: Vector) -> list[Hit]:
    similarities, positions = index.similarities(vector), index.positions(criteria)
    nearest = positions[np.argsort(-similarities[positions], kind="stable")][:_NEAREST].tolist()
    return [
        Hit(index.memory(at), cosine, cosine)
        for at, cosine in zip(nearest, similarities[nearest].tolist(), strict=True)
    ]


def _comparable(memory: Memory) -> bool:
    """Not with what holds within a session only. A long memory says too much to be compared with one statement."""
    return not memory.within_session and not memory.passage


def _is_of(memory: Memory, turn: LoggedTurn) -> bool:
    of_owner = memory.scope.owner == turn.scope.owner
    return of_owner and memory.session_id == turn.session_id and memory.ids("turn_ids") == (turn.id,)
