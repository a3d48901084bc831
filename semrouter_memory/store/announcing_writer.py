"""Writes to the store that every replica's owner indexes learn of."""

from collections.abc import Sequence

from semrouter_memory.model import EmbeddedMemory, Reach, Scope
from semrouter_memory.ports import MemoryWriter
from semrouter_memory.store.index_cache import IndexCache, IndexUpdate
from semrouter_memory.store.owner_index import Label, unlabelled


class AnnouncingWriter:
    """Implements `MemoryWriter` with a store's. A process that caches no indexes itself announces its writes all the same.

    Args:
        label: same as the cache's.
    """

    def __init__(self, store: MemoryWriter, indexes: IndexCache, *, label: Label = unlabelled) -> None:
        self._store = store
        self._indexes = indexes
        self._label = label

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        update = IndexUpdate(
            lambda index: index.with_written(rows, label=self._label), sum(len(row.memory.content) for row in rows)
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
