"""A store that does what it is asked one step at a time, when a test says so, and fails when a test says so."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any

from semrouter_memory.errors import Service, StoreUnavailableError, UnavailableError
from semrouter_memory.model import EmbeddedMemory, Reach, Scope
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.index_record import RecordFormat
from tests.memories import DIMENSION


class Outcome(Enum):
    DONE = "done"
    REFUSED = "refused"
    """It fails, and was not done."""
    UNKNOWN = "unknown"
    """It fails, and was done."""


class GatedStore(InMemoryStore):
    """Reads and writes stop before they happen and before they answer, while `gated`.

    Attributes:
        waiting: what stands at a gate; setting a result lets it on.
        reading: what of it reads an owner's memories.
        loads: how often an owner's memories were read.
        refuses: the store fails, and does nothing.
        is_local: it is this process's alone.
    """

    def __init__(self, record_format: RecordFormat | None = None) -> None:
        super().__init__(dimension=DIMENSION, record_format=record_format)
        self.gated = False
        self.refuses = False
        self.loads = 0
        self.is_local = False
        self.waiting: list[asyncio.Future[None]] = []
        self.reading: list[asyncio.Future[None]] = []
        self.outcome = Outcome.DONE

    async def load_records(self, scope: Scope, *, limit: int) -> Sequence[str | EmbeddedMemory] | None:
        self.loads += 1
        await self._gate(self.reading)
        if self.refuses:
            raise StoreUnavailableError("refused")
        rows = await super().load_records(scope, limit=limit)
        await self._gate(self.reading)
        return rows

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        await self._written(partial(super().upsert, scope, rows))

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        return int(await self._written(partial(super().delete, scope, memory_ids)))

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        return int(await self._written(partial(super().delete_all, scope, reach)))

    async def _written(self, write: Callable[[], Awaitable[Any]]) -> Any:
        outcome = self.outcome
        await self._gate()
        if outcome is Outcome.REFUSED:
            raise StoreUnavailableError("refused")
        result = await write()
        await self._gate()
        if outcome is Outcome.UNKNOWN:
            raise StoreUnavailableError("the answer was lost")
        return result

    async def _gate(self, *others: list[asyncio.Future[None]]) -> None:
        if self.gated:
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            for each in (self.waiting, *others):
                each.append(gate)
                gate.add_done_callback(each.remove)
            await gate


class ToldVersions:
    """Owner versions in this process, which a test takes away.

    Attributes:
        away: so many of the next calls fail; None: all of them.
        held: announcements wait for it.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.away: int | None = 0
        self.held: asyncio.Event | None = None

    async def current(self, scope: Scope) -> int:
        self._require()
        return self.numbers.get(scope.owner, 0)

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        if self.held is not None:
            await self.held.wait()
        self._require()
        before = self.numbers.get(scope.owner, 0)
        self.numbers[scope.owner] = before + 1
        return before, before + 1

    def _require(self) -> None:
        if self.away is None:
            raise UnavailableError("away", service=Service.OWNER_VERSIONS)
        if self.away:
            self.away -= 1
            raise UnavailableError("away", service=Service.OWNER_VERSIONS)
