"""Loads owner indexes from the store in the background, a few at a time.

Strategy: concurrent requests share one load, which continues when they are cancelled. A write during a load makes its result
stale; it is then dropped.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.errors import UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.ports import Clock, MemoryReader
from semrouter_memory.store.owner_index import Label, OwnerIndex, build_index
from semrouter_memory.store.owner_versions import WriteAnnouncer

_T = TypeVar("_T")

_CONCURRENT_LOADS = 4
_MAX_LOADS = 64
"""Owners that are loaded or wait for it."""
_THREAD_FROM_CHARS = 10_000
"""Text from which on an index is built in a thread: that takes 10 ms of the event loop otherwise."""
CHARS_PER_MEMORY = 10
"""Characters that take as long as all else that is done for one memory."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An index that is correct while its owner has this version.

    Attributes:
        read_at: the loop's time before the store was read.
        unread_writes: writes applied to it since it was last asked for.
    """

    index: OwnerIndex
    version: int
    read_at: float
    unread_writes: int = 0


class IndexLoader:
    """Loads indexes and reports them.

    Args:
        loaded: called with each loaded entry; with None for an owner who has more memories than may be cached.
        on_error: called with errors that are no outage.
    """

    def __init__(
        self,
        reader: MemoryReader,
        announcer: WriteAnnouncer,
        *,
        config: OwnerIndexConfig,
        clock: Clock,
        label: Label,
        loaded: Callable[[Scope, CacheEntry | None], object],
        on_error: Callable[[BaseException], object],
    ) -> None:
        self._reader = reader
        self._announcer = announcer
        self._max_memories = config.max_owner_memories
        self._clock = clock
        self._label = label
        self._loaded = loaded
        self._on_error = on_error
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(_CONCURRENT_LOADS)

    async def close(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def load(self, scope: Scope, *, delay: float = 0.0) -> asyncio.Task[None] | None:
        """The task that loads the owner's index; None when the store is unavailable or too many loads wait.

        Args:
            delay: seconds before the store is read.
        """
        task = self._loads.get(scope.owner)
        if task is None and self._reader.available and len(self._running) < _MAX_LOADS:
            task = self._loads[scope.owner] = asyncio.create_task(self._load(scope, delay), name="owner-index-load")
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return task

    def drop(self, owner: str) -> None:
        """Ignore the result of the load that is under way: a write makes it stale."""
        self._loads.pop(owner, None)

    async def _load(self, scope: Scope, delay: float) -> None:
        try:
            # Before it takes a slot: loads without a delay go first.
            await asyncio.sleep(delay)
            async with self._slots:
                entry = await self._read(scope)
            if self._is_current(scope.owner):
                self._loaded(scope, entry)
        except UnavailableError:
            # The callers search the store instead, which reports the outage.
            pass
        except Exception as error:  # noqa: BLE001 - a background task has no caller
            self._on_error(error)
        finally:
            if self._is_current(scope.owner):
                del self._loads[scope.owner]

    def _is_current(self, owner: str) -> bool:
        """Whether the running task is the owner's load, and was not dropped."""
        return self._loads.get(owner) is asyncio.current_task()

    async def _read(self, scope: Scope) -> CacheEntry | None:
        version = await self._announcer.current(scope)
        read_at, now = asyncio.get_running_loop().time(), self._clock.now()
        rows = await self._reader.load_owner(scope, limit=self._max_memories, now=now)
        if rows is None:
            return None
        chars = sum(len(row.memory.content) for row in rows) + len(rows) * CHARS_PER_MEMORY
        index = await built(chars, lambda: build_index(scope.owner, rows, label=self._label))
        return CacheEntry(index, version, read_at)


async def built(chars: int, build: Callable[[], _T]) -> _T:
    """The result of building an index of so much text, in a thread if that takes long."""
    return await asyncio.to_thread(build) if chars >= _THREAD_FROM_CHARS else build()
