"""The service over stand-ins that write down in which order they were called."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from semrouter_memory.config import ManagementConfig
from semrouter_memory.errors import LockLostError, Service, StoreUnavailableError, TurnLogError, UnavailableError
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import (
    Criteria,
    EmbeddedMemory,
    Hit,
    Memory,
    MemoryType,
    Page,
    Reach,
    Scope,
    Tombstone,
    Vector,
)
from semrouter_memory.ports import MemoryIndex, Tombstones
from semrouter_memory.retain.redact import redact
from tests.found import found_index
from tests.hashed import HashedEmbedder
from tests.memory_service import backends_of, memory_service

START = datetime(2026, 3, 1, tzinfo=UTC)


class SteppingClock:
    """Each look at it is a second later."""

    def __init__(self) -> None:
        self.seconds = 0

    def now(self) -> datetime:
        self.seconds += 1
        return START + timedelta(seconds=self.seconds)


@dataclass
class Store:
    """Rows in a dict. `refuse` names the calls that fail as if the store were away."""

    calls: list[str]
    rows: dict[str, Memory] = field(default_factory=dict)
    refuse: set[str] = field(default_factory=set)
    stale: dict[str, Memory] = field(default_factory=dict)
    """Rows that reads still show although they were deleted, as a store with bounded staleness does."""

    @property
    def available(self) -> bool:
        return not self.refuse

    async def search(self, criteria: Criteria, vector: Vector, *, limit: int, **options: Any) -> list[Hit]:
        self._call("search")
        assert vector.shape == (384,)
        return [Hit(memory, 0.9, 0.9) for memory in self._visible(criteria.scope)[:limit]]

    async def search_index(self, criteria: Criteria, vector: Vector, *, limit: int, **options: Any) -> MemoryIndex:
        return found_index(await self.search(criteria, vector, limit=limit))

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        self._call("get")
        return next((memory for memory in self._visible(scope) if memory.id == memory_id), None)

    async def predecessors(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        self._call("predecessors")
        return [memory for memory in self._visible(scope) if memory.superseded_by in memory_ids]

    async def count(self, scope: Scope) -> int:
        raise NotImplementedError

    async def compact(self) -> None:
        raise NotImplementedError

    async def page(self, criteria: Criteria, *, limit: int, cursor: str = "", **options: Any) -> Page:
        self._call("page")
        visible, start = self._visible(criteria.scope), int(cursor or 0)
        end = start + limit
        return Page(tuple(visible[start:end]), str(end) if end < len(visible) else "")

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        self._call("upsert")
        for row in rows:
            assert np.isclose(np.linalg.norm(row.vector), 1.0)
            self.rows[row.memory.id] = row.memory

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        self._call("delete")
        return sum(self.rows.pop(memory_id, None) is not None for memory_id in memory_ids)

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        self._call("delete_all")
        return await self.delete(scope, [memory.id for memory in self._visible(scope)])

    def _visible(self, scope: Scope) -> list[Memory]:
        known = {**self.stale, **self.rows}
        return [memory for memory in known.values() if memory.scope.owner == scope.owner]

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.refuse:
            raise StoreUnavailableError("away")


@dataclass
class Buried:
    tombstones: list[Tombstone]
    paused_since: datetime | None = None

    def __bool__(self) -> bool:
        return bool(self.tombstones)

    def covers(self, memory: Memory) -> bool:
        return any(
            memory.id == stone.memory_id if stone.memory_id else memory.asserted_at <= stone.at
            for stone in self.tombstones
        )

    def forbids(self, scope: Scope, content: str, observed_at: datetime) -> bool:
        raise NotImplementedError

    def erases(self, observed_at: datetime) -> bool:
        raise NotImplementedError


@dataclass
class Log:
    """The part of a turn log that deletions touch."""

    calls: list[str]
    buried: list[Tombstone] = field(default_factory=list)
    deleted_turns: list[str] = field(default_factory=list)
    erased: list[tuple[Scope, datetime]] = field(default_factory=list)
    clock: SteppingClock = field(default_factory=SteppingClock)
    away: bool = False

    def now(self) -> datetime:
        return self.clock.now()

    async def timestamp(self) -> datetime:
        return self.clock.now()

    async def tombstone(self, tombstone: Tombstone, *, turn_ids: Sequence[str] = ()) -> None:
        self.calls.append("bury")
        self.buried.append(tombstone)
        self.deleted_turns += turn_ids

    async def erase_answers(self, scope: Scope, *, since: datetime) -> None:
        self.calls.append("erase_answers")
        if self.away:
            raise TurnLogError("away")
        self.erased.append((scope, since))

    async def list_turns(self, **selection: Any) -> list[Any]:
        return []

    def content_hash(self, content: str) -> str:
        return f"hash of {len(content)}"

    async def tombstones(self, scope: Scope) -> Tombstones:
        self.calls.append("tombstones")
        return Buried([stone for stone in self.buried if stone.scope.owner == scope.owner])


class State:
    """The part of a state store that deletions touch."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls
        self.away = False
        self.forgotten: list[tuple[Scope, Reach]] = []
        self.unused: list[str] = []

    async def drop_usage(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        self._call("drop_usage")
        self.unused += memory_ids

    async def forget(self, scope: Scope, reach: Reach) -> None:
        self._call("forget_state")
        self.forgotten.append((scope, reach))

    def _call(self, name: str) -> None:
        self._calls.append(name)
        if self.away:
            raise UnavailableError("away", service=Service.STATE)


class Locks:
    """Is lost after so many confirmations for good, or at first so many times."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls
        self.lost_after: int | None = None
        self.losses = 0

    @asynccontextmanager
    async def hold(self, scope: Scope) -> AsyncIterator["Locks"]:
        self._calls.append("lock")
        yield self
        self._calls.append("unlock")

    async def confirm(self) -> None:
        if self.losses:
            self.losses -= 1
            raise LockLostError("it ran out")
        if self.lost_after == 0:
            raise LockLostError("it ran out")
        if self.lost_after is not None:
            self.lost_after -= 1


@dataclass
class House:
    """The service, and what it was built from."""

    calls: list[str]
    store: Store
    log: Log
    service: MemoryService
    state: State
    locks: Locks
    changed: list[Scope]

    def put(self, memory_id: str, user: str = "alice", **changes: Any) -> Memory:
        memory = Memory(
            id=memory_id,
            scope=Scope(user),
            type=MemoryType.SEMANTIC,
            content="User is allergic to peanuts",
            source="conversation",
            observed_at=START,
            created_at=START,
            updated_at=START,
        )
        self.store.rows[memory_id] = memory = replace(memory, **changes)
        return memory


@pytest.fixture
def house() -> House:
    calls: list[str] = []
    clock = SteppingClock()
    store, log, state, locks = Store(calls), Log(calls, clock=clock), State(calls), Locks(calls)
    changed: list[Scope] = []
    service = memory_service(
        backends_of(store=store, embedder=HashedEmbedder(), turn_log=log, state=state, locks=locks, clock=clock),
        new_id=iter(f"mem_{number}" for number in range(1, 1000)).__next__,
        redact=redact,
        config=ManagementConfig(max_content_chars=100, max_metadata_bytes=256, max_import_lines=120),
        written=changed.append,
        ttl_days={MemoryType.EPISODIC: 30},
    )
    return House(calls, store, log, service, state, locks, changed)
