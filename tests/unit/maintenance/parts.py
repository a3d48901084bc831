"""What maintenance is tested with: a clock that stands still, locks that can be lost, and memories of any age."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from semrouter_memory.errors import LockLostError
from semrouter_memory.events import Event, MaintenanceFinished, StoreFailed, WorkFailed
from semrouter_memory.model import EmbeddedMemory, MaintenanceReport, Memory, MemoryType, Scope
from semrouter_memory.ports import MemoryWriter, OwnerHold
from tests.hashed import HashedEmbedder

ALICE, BOB = Scope("alice"), Scope("bob")
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
EMBEDDER = HashedEmbedder()


class SteppingClock:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def step(self, **amount: float) -> None:
        self.time += timedelta(**amount)


class LostLocks:
    """Implements `OwnerLocks`; every lock is lost while it is held."""

    @asynccontextmanager
    async def hold(self, scope: Scope) -> AsyncIterator[OwnerHold]:
        yield self

    async def confirm(self) -> None:
        raise LockLostError("lost")


class MaintenanceObserver:
    """Keeps the events of maintenance."""

    def __init__(self) -> None:
        self.reports: list[MaintenanceReport] = []
        self.failures: list[str] = []
        self.bugs: list[BaseException] = []

    def observe(self, event: Event) -> None:
        match event:
            case MaintenanceFinished(report):
                self.reports.append(report)
            case StoreFailed(operation):
                self.failures.append(operation)
            case WorkFailed(error):
                self.bugs.append(error)
            case _:
                pass


def aged(
    memory_id: str = "mem_1",
    *,
    days: float = 0,
    content: str = "User likes rye bread",
    scope: Scope = ALICE,
    kind: MemoryType = MemoryType.SEMANTIC,
    metadata: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Memory:
    """A memory that was said, and not touched since, so many days ago."""
    at = NOW - timedelta(days=days)
    memory = Memory(
        id=memory_id,
        scope=scope,
        type=kind,
        content=content,
        source="conversation",
        observed_at=at,
        created_at=at,
        updated_at=at,
        metadata=metadata or {},
    )
    return replace(memory, **changes)


async def keep(writer: MemoryWriter, *memories: Memory) -> None:
    """Write memories as they are."""
    for memory in memories:
        (vector,) = await EMBEDDER.embed_passages([memory.content])
        await writer.upsert(memory.scope, [EmbeddedMemory(memory, vector)])
