"""The hot working set: a store with its recently active owners' memories at hand.

Strategy: what is asked goes to the store, what is written goes there within `Shelving.written`, which keeps the shelves
right. The store stays the truth; without the shelves everything here is the store's.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from semrouter_memory.config import WorkingSetConfig
from semrouter_memory.model import EmbeddedMemory, Hit, Memory, MemoryType, Page, Reach, Scope, Vector
from semrouter_memory.ports import Clock, Generations, MemoryReader, MemoryShelf, MemoryWriter, SharedShelves
from semrouter_memory.store.shelf import Mark, unmarked
from semrouter_memory.store.shelving import Change, Shelving


class Store(MemoryReader, MemoryWriter, Protocol):
    """A store, to read, to write and to copy."""

    async def backup(self, directory: Path) -> str:
        """Same as `MilvusStore.backup`."""
        ...


class WorkingSet:
    """Implements `MemoryReader` and `MemoryWriter` with a store's, and `Shelves`. It belongs to one event loop.

    All that writes to the store must do so through a working set with the same generations, in whatever process and
    whether or not it keeps shelves itself; what does not shows after `max_age_seconds`.

    Args:
        mark: sorts memories into classes that the shelves' reader knows.
        shared: where replicas take each other's shelves from; None: each reads the store itself.
        on_error: told of what went wrong in the background and is nobody's outage.
    """

    def __init__(
        self,
        store: Store,
        generations: Generations,
        *,
        config: WorkingSetConfig,
        clock: Clock,
        on_error: Callable[[BaseException], object],
        mark: Mark = unmarked,
        shared: SharedShelves | None = None,
    ) -> None:
        self._store = store
        self._mark = mark
        self._shelving = Shelving(
            store, generations, config=config, clock=clock, on_error=on_error, mark=mark, shared=shared
        )

    async def close(self) -> None:
        """End what runs in the background. The store is its owner's to close, after this."""
        await self._shelving.close()

    @property
    def behind(self) -> Store:
        """The store itself."""
        return self._store

    @property
    def nbytes(self) -> int:
        """What the shelves take of the process's memory."""
        return self._shelving.kept.nbytes

    @property
    def owners(self) -> int:
        """How many owners' memories are at hand."""
        return len(self._shelving.kept)

    async def shelf(self, scope: Scope, *, until: float) -> MemoryShelf | None:
        """See `Shelves`."""
        return await self._shelving.shelf(scope, until=until)

    # -- MemoryReader --------------------------------------------------------------------------------------------------

    @property
    def available(self) -> bool:
        return self._store.available

    async def search(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        now: datetime,
        types: frozenset[MemoryType] | None = None,
        reach: Reach = Reach.RECALL,
        fresh: bool = False,
        text: str = "",
    ) -> list[Hit]:
        return await self._store.search(
            scope, vector, limit=limit, now=now, types=types, reach=reach, fresh=fresh, text=text
        )

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        return await self._store.get(scope, memory_id)

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str = "",
        types: frozenset[MemoryType] | None = None,
        reach: Reach = Reach.ALL,
        now: datetime | None,
        oldest_first: bool = False,
    ) -> Page:
        return await self._store.page(
            scope, limit=limit, cursor=cursor, types=types, reach=reach, now=now, oldest_first=oldest_first
        )

    async def predecessors(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        return await self._store.predecessors(scope, memory_ids)

    async def count(self, scope: Scope) -> int:
        return await self._store.count(scope)

    async def shelve(self, scope: Scope, *, limit: int, now: datetime) -> list[EmbeddedMemory] | None:
        return await self._store.shelve(scope, limit=limit, now=now)

    def scan(self) -> AsyncIterator[Sequence[Memory]]:
        return self._store.scan()

    # -- MemoryWriter --------------------------------------------------------------------------------------------------

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        await self._shelving.written(
            scope,
            lambda: self._store.upsert(scope, rows),
            Change(
                lambda shelf: shelf.with_written(rows, mark=self._mark), sum(len(row.memory.content) for row in rows)
            ),
        )

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        return await self._shelving.written(
            scope, lambda: self._store.delete(scope, memory_ids), Change(lambda shelf: shelf.without(memory_ids))
        )

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        return await self._shelving.written(
            scope, lambda: self._store.delete_all(scope, reach), Change(lambda shelf: shelf.without_all(scope, reach))
        )

    async def compact(self) -> None:
        await self._store.compact()

    async def backup(self, directory: Path) -> str:
        """Same as the store's."""
        return await self._store.backup(directory)
