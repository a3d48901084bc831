"""LRU cache of owner indexes, bounded in bytes, which writes keep current.

Strategy. An index is used only while its version is the owner's (`owner_versions`); nothing is used while the version cannot be
read, and recall then searches the store. Indexes of a local store do not age, since no other process writes to it, and after a
start they are read ahead. A write of this process is applied to the cached index, and to one that is being
loaded, before it is made: a caller that sees it in the store finds it by recall, too, and what is deleted is not shown again. If it
fails, or the versions show another write meanwhile, the index is dropped and loaded again.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from cachetools import LRUCache, TTLCache

from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.errors import UnavailableError
from semrouter_memory.model import EmbeddedMemory, Reach, Scope
from semrouter_memory.ports import MemoryWriter
from semrouter_memory.store.index_loader import (
    THREAD_FROM_CHARS,
    CacheEntry,
    IndexLoader,
    IndexUpdate,
    OwnerWrite,
    RecordReader,
)
from semrouter_memory.store.index_record import Label
from semrouter_memory.store.owner_index import OwnerIndex, unlabelled
from semrouter_memory.store.owner_versions import OwnerVersions, WriteAnnouncer

_T = TypeVar("_T")

_MIB = 1024 * 1024
_OWNERS_SHARE = 4
"""One owner takes at most this part of the whole."""
_ATTEMPTS = 3
"""Loads that one request waits for, while others write."""
_LOAD_DELAY_SECONDS = 0.03
"""Delay before a large index is loaded: the request that needs it searches the store instead, and must not queue behind the load."""
_REFRESH_AT = 0.8
"""Part of the maximum age at which an index in use is loaded again, in the background."""
_READ_AHEAD = 0.75
"""Part of the bound that reading ahead fills; the rest is for users who ask."""
_READ_AHEAD_SECONDS = 60.0
"""That reading one owner ahead may take."""
_MAX_TOO_LARGE = 10_000


class IndexCache:
    """The indexes of recently active owners. It belongs to one event loop.

    All writers to the store must announce their writes (`AnnouncingWriter`) to the same versions; other writes are seen after
    `max_age_seconds`, and of a local store never.

    Args:
        label: sorts memories into classes that the ranking knows.
        on_error: called with errors of background work that are no outage.
    """

    def __init__(
        self,
        reader: RecordReader,
        versions: OwnerVersions,
        *,
        config: OwnerIndexConfig,
        on_error: Callable[[BaseException], object],
        label: Label = unlabelled,
    ) -> None:
        self._reader = reader
        self.label = label
        self._max_age = config.max_age_seconds
        self._max_owner_memories = config.max_owner_memories
        self._on_error = on_error
        self._announcer = WriteAnnouncer(versions)
        self._loader = IndexLoader(
            reader, self._announcer, config=config, label=label, loaded=self._keep, on_error=on_error
        )
        self._max_owner_bytes = config.max_mb * _MIB // _OWNERS_SHARE
        self._entries = entries_within(config.max_mb * _MIB)
        self._read_ahead_bytes = config.max_mb * _MIB * _READ_AHEAD
        self._too_large: TTLCache[str, bool] = TTLCache(_MAX_TOO_LARGE, config.max_age_seconds, timer=_now)
        self._writes: Counter[str] = Counter()
        # Of owners with one write under way; in which order the store makes several is unknown.
        self._sole_write: dict[str, OwnerWrite] = {}

    async def close(self) -> None:
        """Stop the background work."""
        await self._loader.close()
        await self._announcer.close()

    @property
    def nbytes(self) -> int:
        """Memory that the indexes take."""
        return int(self._entries.currsize)

    @property
    def owners(self) -> int:
        return len(self._entries)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def get(self, scope: Scope, *, until: float) -> OwnerIndex | None:
        """See `OwnerIndexes`."""
        try:
            async with asyncio.timeout_at(until):
                for _ in range(_ATTEMPTS):
                    if scope.owner in self._too_large:
                        return None
                    version = await self._announcer.current(scope)
                    entry = self._entries.get(scope.owner)
                    writing = scope.owner in self._writes
                    if entry is not None and entry.version == version and (age := self._age(entry)) < self._max_age:
                        if age > self._max_age * _REFRESH_AT and not writing:
                            self._loader.load(scope)
                        return entry.index
                    if writing:
                        # It is unknown what a load would read of it.
                        return None
                    loading = self._loader.load(scope, delay=_LOAD_DELAY_SECONDS)
                    if loading is None:
                        return None
                    await loading.tried_at_once.wait()
                    if not loading.task.done() and _now() + _LOAD_DELAY_SECONDS >= until:
                        return None
                    # Unlike awaiting the task, this leaves it running when the caller is cancelled.
                    await asyncio.wait({loading.task})
        except (UnavailableError, TimeoutError):
            return None
        except Exception as error:  # noqa: BLE001 - the store can still be searched
            self._on_error(error)
        return None

    def _age(self, entry: CacheEntry) -> float:
        return 0.0 if self._reader.is_local else _now() - entry.read_at

    async def read_ahead(self, pause: Callable[[], Awaitable[object]]) -> None:
        """Read the indexes of a local store's owners in, the one changed last first, until most of the bound is used.

        Args:
            pause: called before each owner; returns when this one may be read.
        """
        if not self._reader.is_local:
            return
        read: list[str] = []
        try:
            for scope in await self._reader.owners():
                await pause()
                if self.nbytes >= self._read_ahead_bytes or not self._reader.available:
                    break
                await self.get(scope, until=_now() + _READ_AHEAD_SECONDS)
                read.append(scope.owner)
        except UnavailableError:
            # The requests' searches report it.
            pass
        except Exception as error:  # noqa: BLE001 - a background task has no caller
            self._on_error(error)
        for owner in reversed(read):
            # The one changed last is evicted last.
            self._entries.get(owner)

    # -- keeping -------------------------------------------------------------------------------------------------------

    def _keep(self, scope: Scope, entry: CacheEntry | None) -> None:
        if entry is not None and self._fits(entry.index):
            self._put(scope.owner, entry)
            return
        self._entries.pop(scope.owner, None)
        self._too_large[scope.owner] = True

    def _fits(self, index: OwnerIndex) -> bool:
        return len(index) <= self._max_owner_memories and index.nbytes <= self._max_owner_bytes

    def _put(self, owner: str, entry: CacheEntry) -> None:
        # First out: the cache would count both, and evict others for it.
        self._entries.pop(owner, None)
        with suppress(ValueError):
            # Raised for an entry that is larger than the whole cache may be.
            self._entries[owner] = entry

    # -- writing -------------------------------------------------------------------------------------------------------

    async def written(self, scope: Scope, write: Callable[[], Awaitable[_T]], update: IndexUpdate) -> _T:
        """Make a write between two announcements, and apply it to the owner's index.

        Raises:
            StoreUnavailableError: the write cannot be announced, and was not made. Also whatever `write` raises.
        """
        owner = scope.owner
        self._writes[owner] += 1
        begins_alone = self._writes[owner] == 1
        if not begins_alone:
            self._drop(owner)
        try:
            announced = OwnerWrite(*await self._announcer.before_write(scope), update)
            if begins_alone and self._writes[owner] == 1:
                self._apply(scope, announced)
            try:
                result = await write()
            finally:
                previous, announced.after = await self._announcer.after_write(scope)
            if previous != announced.announced or self._sole_write.get(owner) is not announced:
                self._drop(owner)
            elif (entry := self._entries.get(owner)) is not None and announced.after is not None:
                self._put(owner, replace(entry, version=announced.after))
        except BaseException:
            # Part of the write may have been made, or will be.
            self._drop(owner)
            raise
        finally:
            self._sole_write.pop(owner, None)
            self._writes[owner] -= 1
            if not self._writes[owner]:
                del self._writes[owner]
        return result

    def _apply(self, scope: Scope, write: OwnerWrite) -> None:
        if write.update.chars >= THREAD_FROM_CHARS:
            self._drop(scope.owner)
            return
        self._sole_write[scope.owner] = write
        self._loader.written(scope.owner, write)
        entry = self._entries.pop(scope.owner, None)
        try:
            updated = entry.with_writes([write]) if entry is not None else None
        except Exception as error:  # noqa: BLE001 - the write is to be made
            self._on_error(error)
        else:
            if updated is not None:
                self._keep(scope, updated)

    def _drop(self, owner: str) -> None:
        self._sole_write.pop(owner, None)
        self._entries.pop(owner, None)
        self._loader.drop(owner)


class AnnouncingWriter:
    """Implements `MemoryWriter` with a store's: all replicas' indexes learn of the writes. Used without cached indexes, too."""

    def __init__(self, store: MemoryWriter, indexes: IndexCache) -> None:
        self._store = store
        self._indexes = indexes

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        update = IndexUpdate(
            lambda index: index.with_written(rows, label=self._indexes.label),
            sum(len(row.memory.content) for row in rows),
        )
        await self._indexes.written(scope, lambda: self._store.upsert(scope, rows), update)

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        update = IndexUpdate(lambda index: index.without(memory_ids))
        return await self._indexes.written(scope, lambda: self._store.delete(scope, memory_ids), update)

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        update = IndexUpdate(lambda index: index.without_all(scope, reach))
        return await self._indexes.written(scope, lambda: self._store.delete_all(scope, reach), update)

    async def compact(self) -> None:
        await self._store.compact()


def entries_within(max_bytes: int) -> LRUCache[str, CacheEntry]:
    """A cache of at most so many bytes; the least recently used owner is evicted first."""
    return LRUCache(max_bytes, getsizeof=lambda entry: entry.index.nbytes)


def _now() -> float:
    return asyncio.get_running_loop().time()
