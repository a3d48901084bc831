"""Loads owner indexes from the store in the background, a few at a time.

Strategy: concurrent requests share one load, which continues when they are cancelled. What this process writes during a load is
applied to its result, which may hold it already; otherwise a user who talks without a pause would never have an index. If the
versions show another write, the result is dropped. Building an index takes 5 µs for each memory whose record was stored and 65 µs
for another, applying a write to one of 10,000 memories 2.5 ms: the one is for a thread, the other is not.

An owner who was away and has few memories is read at once where the store is local, since that takes no longer than searching it;
any other when the request that needs the index has searched the store.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.errors import UnavailableError
from semrouter_memory.model import EmbeddedMemory, Scope
from semrouter_memory.store.index_record import Label
from semrouter_memory.store.owner_index import OwnerIndex, build_index
from semrouter_memory.store.owner_versions import WriteAnnouncer
from semrouter_memory.workers import BackgroundTasks

_CONCURRENT_LOADS = 4
_MAX_LOADS = 64
"""Owners that are loaded or wait for it."""
THREAD_FROM_CHARS = 10_000
"""Text that takes more than 10 ms to index."""
_AT_ONCE = 300
"""Memories that are read in faster than the store is searched: 200 take 14 ms, and a search of them 19; 1,000 would take 47."""
_CHARS_PER_MEMORY = 40
"""Characters that take as long as all else that is done for one memory."""
_CHARS_PER_RECORD = 10
"""The same of one whose record was stored."""
_MAX_WRITES_OF_LOAD = 32
"""Writes that are applied to the result of one load."""


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """The effect of a write on its owner's index. Applying it twice is the same as once.

    Attributes:
        chars: of the text that it adds.
    """

    apply: Callable[[OwnerIndex], OwnerIndex]
    chars: int = 0


@dataclass(slots=True)
class OwnerWrite:
    """A write of this process to the memories of one owner, from its announcement on.

    Attributes:
        before: the owner's version before it; None: there was none.
        announced: the version while it is under way.
        after: the version since it is done; None: it is under way.
    """

    before: int | None
    announced: int
    update: IndexUpdate
    after: int | None = None


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An index that is correct while its owner has this version.

    Attributes:
        read_at: the loop's time before the store was read.
    """

    index: OwnerIndex
    version: int
    read_at: float

    def with_writes(self, writes: Iterable[OwnerWrite]) -> "CacheEntry | None":
        """The entry with the effect of these; None when there was another write since the index was read."""
        index, version = self.index, self.version
        for write in writes:
            if version not in {write.before, write.announced}:
                return None
            index, version = write.update.apply(index), write.announced if write.after is None else write.after
        return replace(self, index=index, version=version)


@dataclass(frozen=True, slots=True)
class IndexLoad:
    """A load under way.

    Attributes:
        tried_at_once: set when it is over, or waits until the requests that need it have searched the store.
        writes: that may not be in what it reads, oldest first.
    """

    task: asyncio.Task[None]
    tried_at_once: asyncio.Event
    writes: list[OwnerWrite] = field(default_factory=list)


class RecordReader(Protocol):
    """Reads what owners' indexes are made of. Raises `StoreUnavailableError`."""

    @property
    def available(self) -> bool:
        """Whether the store can be asked; False while it is known to be unavailable."""

    @property
    def is_local(self) -> bool:
        """See `MemoryReader`."""

    async def owners(self) -> Sequence[Scope]:
        """All who own memories, the one whose memories were changed last first; reads the whole collection."""

    async def load_records(self, scope: Scope, *, limit: int) -> Sequence[str | EmbeddedMemory] | None:
        """The records (`index_record`) of all of the owner's memories that are not superseded, of every project, in no order; reads fresh.

        Every write and deletion that was acknowledged before the call is heeded. A row without a record of this version is given
        whole.

        Returns:
            None: there are more than `limit`.
        """


class IndexLoader:
    """Loads indexes and reports them.

    Args:
        loaded: called with each loaded entry; with None for an owner who has more memories than may be cached.
        on_error: called with errors that are no outage.
    """

    def __init__(
        self,
        reader: RecordReader,
        announcer: WriteAnnouncer,
        *,
        config: OwnerIndexConfig,
        label: Label,
        loaded: Callable[[Scope, CacheEntry | None], object],
        on_error: Callable[[BaseException], object],
    ) -> None:
        self._reader = reader
        self._announcer = announcer
        self._max_memories = config.max_owner_memories
        self._label = label
        self._loaded = loaded
        self._on_error = on_error
        self._loads: dict[str, IndexLoad] = {}
        self._running = BackgroundTasks()
        self._slots = asyncio.Semaphore(_CONCURRENT_LOADS)

    async def close(self) -> None:
        await self._running.stop()

    def load(self, scope: Scope, *, delay: float = 0.0) -> IndexLoad | None:
        """The load of the owner's index; None when the store is unavailable or too many loads wait.

        Args:
            delay: seconds before the store is read for more than a few memories.
        """
        load = self._loads.get(scope.owner)
        if load is None and self._reader.available and len(self._running) < _MAX_LOADS:
            tried_at_once = asyncio.Event()
            task = self._running.start(self._load(scope, delay, tried_at_once), name="owner-index-load")
            load = self._loads[scope.owner] = IndexLoad(task, tried_at_once)
        return load

    def drop(self, owner: str) -> None:
        """Ignore the result of the load that is under way: it is unknown what was written since it began."""
        self._loads.pop(owner, None)

    def written(self, owner: str, write: OwnerWrite) -> None:
        """Have the load that is under way, if there is one, apply this write."""
        load = self._loads.get(owner)
        if load is None:
            return
        load.writes.append(write)
        if len(load.writes) > _MAX_WRITES_OF_LOAD:
            self.drop(owner)

    async def _load(self, scope: Scope, delay: float, tried_at_once: asyncio.Event) -> None:
        try:
            entry = await self._at_once(scope) if delay and self._reader.is_local else None
            if entry is None:
                tried_at_once.set()
                # Before it takes a slot: loads without a delay go first.
                await asyncio.sleep(delay)
                async with self._slots:
                    entry = await self._read(scope, limit=self._max_memories)
            if load := self._current(scope.owner):
                updated = entry.with_writes(load.writes) if entry is not None else None
                if updated is not None or entry is None:
                    self._loaded(scope, updated)
        except UnavailableError:
            # The callers search the store instead, which reports the outage.
            pass
        except Exception as error:  # noqa: BLE001 - a background task has no caller
            self._on_error(error)
        finally:
            tried_at_once.set()
            if self._current(scope.owner):
                self.drop(scope.owner)

    async def _at_once(self, scope: Scope) -> CacheEntry | None:
        """The entry of an owner with few memories, read while the request that needs it embeds its query."""
        if self._slots.locked():
            return None
        async with self._slots:
            return await self._read(scope, limit=min(_AT_ONCE, self._max_memories))

    def _current(self, owner: str) -> IndexLoad | None:
        """The owner's load, if the running task is it; None: it was dropped."""
        load = self._loads.get(owner)
        return load if load is not None and load.task is asyncio.current_task() else None

    async def _read(self, scope: Scope, *, limit: int) -> CacheEntry | None:
        version = await self._announcer.current(scope)
        if load := self._current(scope.owner):
            # What is done is read with the rest.
            load.writes[:] = [write for write in load.writes if write.after is None]
        read_at = asyncio.get_running_loop().time()
        records = await self._reader.load_records(scope, limit=limit)
        if records is None:
            return None
        chars = sum(
            _CHARS_PER_RECORD if isinstance(each, str) else len(each.memory.content) + _CHARS_PER_MEMORY
            for each in records
        )
        build = partial(build_index, scope.owner, records, label=self._label)
        return CacheEntry(await asyncio.to_thread(build) if chars >= THREAD_FROM_CHARS else build(), version, read_at)
