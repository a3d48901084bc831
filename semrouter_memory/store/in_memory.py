"""Rows in this process's memory: for unit tests and evaluations, and in place of a collection that was not made yet."""

import heapq
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from semrouter_memory.databases import micros, moment
from semrouter_memory.language import bm25
from semrouter_memory.model import PINNED, Criteria, Vector
from semrouter_memory.store import schema
from semrouter_memory.store.index_record import RecordFormat
from semrouter_memory.store.memory_collection import WINDOW, MemoryCollection, ResultT, Rows, SearchQuery
from semrouter_memory.store.rw_lock import RWLock
from semrouter_memory.store.schema import Row, Selection


class InMemoryRows:
    """Implements `Rows`; the search is exact.

    BM25's document frequencies are those of the owner's active memories; Milvus's are those of all users' memories.

    Attributes:
        by_key: the rows, by primary key.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, Row] = {}

    async def search(self, query: SearchQuery, vector: Vector) -> list[Row]:
        rows = list(self._selected(query.selection))
        cosines = {row["id"]: schema.cosine(vector, row[schema.EMBEDDING.name]) for row in rows}
        scores = self._scores(query)
        pinned = self._selected(replace(query.selection, pinned=True)) if query.pinned else ()
        found = (
            *heapq.nlargest(query.limit, cosines, key=cosines.__getitem__),
            *heapq.nlargest(query.limit, scores.keys() & cosines.keys(), key=scores.__getitem__),
            *(row["id"] for row in pinned),
        )
        return [self.by_key[key] for key in dict.fromkeys(found)]

    def _scores(self, query: SearchQuery) -> dict[str, float]:
        """BM25 by primary key, of the rows that hold one of the words."""
        if not query.terms:
            return {}
        searched = query.selection.criteria
        active = Selection(Criteria(searched.scope, active_at=searched.active_at), passages=True)
        rows = list(self._selected(active))
        index = bm25.build([row["content"] for row in rows])
        scores = index.scores(index.find(query.terms.split()))
        return {row["id"]: float(score) for row, score in zip(rows, scores, strict=True) if score > 0}

    async def count(self, selection: Selection | None) -> int:
        return len(list(self._selected(selection)))

    async def select(
        self,
        selection: Selection | None,
        columns: Sequence[str],  # noqa: ARG002 - a row has all of them
        *,
        after_key: str = "",
        limit: int = WINDOW,
    ) -> list[Row]:
        found = (row for row in self._selected(selection) if row["id"] > after_key)
        return heapq.nsmallest(limit, found, key=itemgetter("id"))

    async def upsert(self, rows: Sequence[Row]) -> None:
        self.by_key.update((row["id"], row) for row in rows)

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.by_key.pop(key, None)

    async def compact(self) -> None:
        """Nothing: there are no files."""

    def _selected(self, selection: Selection | None) -> Iterator[Row]:
        rows = list(self.by_key.values())
        return iter(rows) if selection is None else filter(_condition(selection), rows)


def _condition(selection: Selection) -> Callable[[Row], bool]:
    """Same as `schema.filter_expression`, and exact in what a memory filter wants."""
    criteria = selection.criteria
    scope = criteria.scope
    owner, types = schema.stored_owner(scope), schema.types_of(selection)
    within = schema.projects_within(scope, criteria.reach)
    projects = None if within is None else {schema.stored_id(project) for project in within}
    ids = None if selection.ids is None else {schema.primary_key(scope, each) for each in selection.ids}
    newer = None if selection.superseded_by is None else set(map(schema.stored_id, selection.superseded_by))
    active_at = None if criteria.active_at is None else micros(criteria.active_at)
    expires_by = schema.NEVER if criteria.expires_by is None else micros(criteria.expires_by)
    created_until = schema.NEVER if selection.created_until is None else selection.created_until

    def is_meant(row: Row) -> bool:
        return (
            row["owner"] == owner
            and (projects is None or row["project_id"] in projects)
            and (types is None or row["type"] in types)
            and (ids is None or (schema.memory_key_of(row) if selection.passages else row["id"]) in ids)
            and (newer is None or row["superseded_by"] in newer)
            and (active_at is None or (row["superseded_at"] == schema.NEVER and row["expires_at"] > active_at))
            and row["expires_at"] <= expires_by
            and row["created_at"] <= created_until
            and moment(row["observed_at"]) in criteria.observed
            and (not selection.pinned or row["metadata"].get(PINNED) is True)
            and schema.memory_from(scope, row) in criteria.memory_filter
        )

    return is_meant


class InMemoryStore(MemoryCollection):
    """Implements `MemoryReader` and `MemoryWriter` over rows in memory."""

    def __init__(self, *, dimension: int, record_format: RecordFormat | None = None) -> None:
        super().__init__("memories", dimension=dimension, is_local=True, writes=RWLock(), record_format=record_format)
        self._rows = InMemoryRows()

    @property
    def available(self) -> bool:
        return True

    async def compact(self) -> None:
        await self._rows.compact()

    async def backup(self, directory: Path) -> str:  # noqa: ARG002 - same as `MilvusStore.backup`
        return "memories are in this process only"

    async def _ask(
        self,
        operation: str,  # noqa: ARG002 - none fails
        call: Callable[[Rows], Awaitable[ResultT]],
        *,
        seconds: float | None = None,  # noqa: ARG002 - none waits
        writes: bool = False,  # noqa: ARG002
    ) -> ResultT:
        return await call(self._rows)
