"""Memories in this process's memory, for unit tests: the same rows and rules as in Milvus, an exact search.

BM25's document frequencies are those of the owner's active memories; Milvus's are those of all users' memories.
"""

import heapq
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from semrouter_memory.databases import micros, moment
from semrouter_memory.language import bm25
from semrouter_memory.language.terms import search_terms
from semrouter_memory.model import (
    ALWAYS,
    ANY_MEMORY,
    PINNED,
    EmbeddedMemory,
    Hit,
    Memory,
    MemoryFilter,
    MemoryType,
    Page,
    Period,
    Reach,
    Scope,
    Vector,
)
from semrouter_memory.ports import MAX_PINNED
from semrouter_memory.store import schema
from semrouter_memory.store.listing import decode_cursor, listed, position_of
from semrouter_memory.store.schema import Row


class InMemoryStore:
    """Implements `MemoryReader` and `MemoryWriter`."""

    def __init__(self, *, dimension: int) -> None:
        self._dimension = dimension
        self._rows: dict[str, Row] = {}

    @property
    def available(self) -> bool:
        return True

    async def search(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        now: datetime,
        types: frozenset[MemoryType] | None = None,
        memory_filter: MemoryFilter = ANY_MEMORY,
        reach: Reach = Reach.RECALL,
        observed: Period = ALWAYS,
        fresh: bool = False,  # noqa: ARG002 - every read is
        text: str = "",
        pinned: bool = False,
    ) -> list[Hit]:
        bm25 = self._bm25(scope, text, now)
        rows = list(self._active(scope, reach, types, now, observed, memory_filter=memory_filter, passages=True))
        cosines = {row["id"]: schema.cosine(vector, row["embedding"]) for row in rows}
        near = heapq.nlargest(max(limit, 0), cosines, key=cosines.__getitem__)
        named = heapq.nlargest(max(limit, 0), cosines.keys() & bm25.keys(), key=bm25.__getitem__)
        marked = [row["id"] for row in rows if pinned and row["metadata"].get(PINNED) is True]
        found = sorted(
            {*near, *named, *heapq.nlargest(MAX_PINNED, marked, key=cosines.__getitem__)},
            key=cosines.__getitem__,
            reverse=True,
        )
        hits = (Hit(schema.memory_from(scope, self._rows[key]), cosines[key], cosines[key]) for key in found)
        return [hit for hit in hits if schema.is_searched(hit.memory)]

    def _bm25(self, scope: Scope, text: str, now: datetime) -> dict[str, float]:
        """By primary key, of those that hold one of the words; over the owner's active memories."""
        if not (asked := search_terms(text)):
            return {}
        rows = list(self._active(scope, Reach.ALL, None, now, passages=True))
        index = bm25.build([row["content"] for row in rows])
        scores = index.scores(index.find(asked))
        return {row["id"]: float(score) for row, score in zip(rows, scores, strict=True) if score > 0}

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        row = self._rows.get(schema.primary_key(scope, memory_id))
        return schema.memory_from(scope, row) if row else None

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str = "",
        types: frozenset[MemoryType] | None = None,
        memory_filter: MemoryFilter = ANY_MEMORY,
        reach: Reach = Reach.ALL,
        observed: Period = ALWAYS,
        now: datetime | None,
        expires_by: datetime | None = None,
        oldest_first: bool = False,
    ) -> Page:
        after = decode_cursor(cursor) if cursor else None
        latest = schema.NEVER if expires_by is None else micros(expires_by)
        active = self._active(scope, reach, types, now, observed, memory_filter=memory_filter)
        rows = {position_of(row): row for row in active if row["expires_at"] <= latest}
        page, further = listed(rows, limit=limit, after=after, oldest_first=oldest_first)
        return Page(tuple(schema.memory_from(scope, rows[each]) for each in page), further)

    async def predecessors(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        newer = {schema.stored_id(memory_id) for memory_id in memory_ids if memory_id}
        rows = self._within(scope, Reach.ALL)
        return [schema.memory_from(scope, row) for row in rows if row["superseded_by"] in newer]

    async def count(self, scope: Scope) -> int:
        return len(list(self._within(scope, Reach.ALL)))

    async def load_owner(self, scope: Scope, *, limit: int, now: datetime) -> list[EmbeddedMemory] | None:
        rows = list(self._active(scope, Reach.ALL, None, now, passages=True))
        embedded = [schema.embedded_from(scope, row) for row in rows] if len(rows) <= limit else None
        return None if embedded is None else [row for row in embedded if schema.is_searched(row.memory)]

    async def scan(self) -> AsyncIterator[Sequence[Memory]]:
        if self._rows:
            yield schema.anyones_memories_from(row for row in self._rows.values() if not schema.is_passage(row))

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        encoded = [schema.row_from(scope, row, dimension=self._dimension) for row in rows]
        self._rows.update((row["id"], row) for row in encoded)

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        keys = {schema.primary_key(scope, memory_id) for memory_id in memory_ids}
        return self._delete([row for row in self._rows.values() if schema.memory_key_of(row) in keys])

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        return self._delete(list(self._within(scope, reach, passages=True)))

    def _delete(self, rows: Sequence[Row]) -> int:
        for row in rows:
            del self._rows[row["id"]]
        return sum(not schema.is_passage(row) for row in rows)

    async def compact(self) -> None:
        """Nothing: there are no files."""

    async def backup(self, directory: Path) -> str:  # noqa: ARG002 - same as `MilvusStore.backup`
        return "memories are in this process only"

    def _within(self, scope: Scope, reach: Reach, *, passages: bool = False) -> Iterator[Row]:
        owner = schema.stored_owner(scope)
        within = schema.projects_within(scope, reach)
        projects = None if within is None else {schema.stored_id(project) for project in within}
        for row in self._rows.values():
            is_meant = passages or not schema.is_passage(row)
            if is_meant and row["owner"] == owner and (projects is None or row["project_id"] in projects):
                yield row

    def _active(
        self,
        scope: Scope,
        reach: Reach,
        types: frozenset[MemoryType] | None,
        now: datetime | None,
        observed: Period = ALWAYS,
        *,
        memory_filter: MemoryFilter = ANY_MEMORY,
        passages: bool = False,
    ) -> Iterator[Row]:
        time = None if now is None else micros(now)
        kinds = schema.stored_types(types, passages=passages)
        for row in self._within(scope, reach, passages=passages):
            active = time is None or (row["superseded_at"] == schema.NEVER and row["expires_at"] > time)
            is_meant = (kinds is None or row["type"] in kinds) and moment(row["observed_at"]) in observed
            if active and is_meant and schema.memory_from(scope, row) in memory_filter:
                yield row
