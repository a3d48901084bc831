"""Memories in one collection of rows, wherever these are: in Milvus or in the process.

Strategy: `schema` makes rows of memories, and selections say which are meant. A derived class makes the calls, bounds their time
and knows whether the rows are available.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Protocol, TypeVar

from semrouter_memory.model import (
    ALWAYS,
    Criteria,
    EmbeddedMemory,
    Hit,
    Memory,
    Page,
    Reach,
    Scope,
    Vector,
)
from semrouter_memory.store import schema
from semrouter_memory.store.index_record import Label, RecordFormat
from semrouter_memory.store.listing import ListingPosition, decode_cursor, listed
from semrouter_memory.store.owner_index import OwnerIndex, build_index, unlabelled
from semrouter_memory.store.rw_lock import RWLock
from semrouter_memory.store.schema import Row, Selection, is_searched

SCAN_BATCH = 500
"""Rows in one answer to a scan: texts of the greatest length stay below 64 MiB."""


WINDOW = 16_384
"""Most rows that Milvus gives in one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """What is searched.

    Attributes:
        terms: of the query, as `schema.asked_terms` gives them; "" when words are not to be searched.
        limit: of the nearest rows, and at most of those by words.
        pinned: also the pinned rows, up to `MAX_PINNED`, however far they are.
        fresh: wait for a server's next time tick (about 200 ms) and see what any process wrote; otherwise the answer may be some
            seconds old and comes at once.
        columns: what is read of each row.
    """

    terms: str
    selection: Selection
    limit: int
    fresh: bool
    columns: Sequence[str]
    pinned: bool = False


class Rows(Protocol):
    """The rows of one collection. Raises `StoreUnavailableError`."""

    async def search(self, query: SearchQuery, vector: Vector) -> list[Row]:
        """The nearest rows, the best by words and the pinned ones, in one call; each once, in no order."""

    async def count(self, selection: Selection | None) -> int:
        """How many rows; None: of every owner. Sees every write that was acknowledged before."""

    async def select(
        self, selection: Selection | None, columns: Sequence[str], *, after_key: str = "", limit: int = WINDOW
    ) -> list[Row]:
        """The first rows in the order of their keys, from behind that key on; otherwise as `count`."""

    async def upsert(self, rows: Sequence[Row]) -> None:
        """Write rows, replacing those with the same key."""

    async def delete(self, keys: Sequence[str]) -> None: ...

    async def compact(self) -> None:
        """Take what was deleted out of the files, as far as they can be told to."""


ResultT = TypeVar("ResultT")

_BATCH = 200
"""Rows in one write: 200 of the largest stay below the 64 MiB that a server takes in one message."""

_KEYS_BATCH = 1_000
"""Keys in one expression."""

OWNER_BATCH = 256
"""Rows with vectors in one answer of Milvus Lite, whose time for one grows faster than their number: 10,000 rows take
0.5 s in answers of 200, 1.6 s in answers of 2,000."""


RECORD_BATCH = 1_024
"""Records in one answer: 64 MiB of the largest, which are fifty times as long as most."""


class MemoryCollection(ABC):
    """Implements `MemoryReader` and `MemoryWriter` for one collection; who derives from it makes the calls.

    Args:
        is_local: see the port's; the place is Milvus Lite, which needs smaller answers. A server has other clients, and a fresh
            read waits for its next time tick.
        writes: held shared by every write, and exclusively while Milvus Lite's file is compacted or copied.
        record_format: makes what is stored for the owners' indexes; None: nothing is.
    """

    def __init__(
        self, name: str, *, dimension: int, is_local: bool, writes: RWLock, record_format: RecordFormat | None = None
    ) -> None:
        self._name = name
        self.dimension = dimension
        self.is_local = is_local
        self.writes = writes
        self._record_format = record_format

    # -- MemoryReader --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def available(self) -> bool: ...

    async def search(
        self,
        criteria: Criteria,
        vector: Vector,
        *,
        limit: int,
        fresh: bool = False,
        text: str = "",
    ) -> list[Hit]:
        """Same as the port's."""
        rows = await self._found(criteria, vector, schema.EMBEDDED_COLUMNS, limit=limit, fresh=fresh, text=text)
        hits = (_hit(criteria.scope, row, vector) for row in rows)
        wanted = [hit for hit in hits if is_searched(hit.memory) and hit.memory in criteria.memory_filter]
        return sorted(wanted, key=lambda hit: -hit.similarity)

    async def search_index(
        self,
        criteria: Criteria,
        vector: Vector,
        *,
        limit: int,
        fresh: bool = False,
        text: str = "",
        pinned: bool = False,
    ) -> OwnerIndex:
        """Same as the port's. Rows are read whole, with one more search, where one of them has no current record."""
        label: Label = self._record_format.label if self._record_format else unlabelled
        found = partial(self._found, criteria, vector, limit=limit, fresh=fresh, text=text, pinned=pinned)
        records = [self._record_in(row) for row in await found(schema.RECORD_COLUMNS)]
        if None not in records:
            return build_index(criteria.scope.owner, filter(None, records), label=label)
        rows = (schema.embedded_from(criteria.scope, row) for row in await found(schema.EMBEDDED_COLUMNS))
        return build_index(criteria.scope.owner, (row for row in rows if is_searched(row.memory)), label=label)

    async def _found(
        self,
        criteria: Criteria,
        vector: Vector,
        columns: Sequence[str],
        *,
        limit: int,
        fresh: bool,
        text: str,
        pinned: bool = False,
    ) -> list[Row]:
        """Each row once. No words are searched while Milvus Lite's file is compacted or copied: it is locked then."""
        if limit < 1 or criteria.types == frozenset():
            return []
        with self.writes.try_shared() as may_read_file:
            query = SearchQuery(
                terms=schema.asked_terms(text) if may_read_file else "",
                selection=Selection(criteria, passages=True),
                limit=limit,
                fresh=fresh,
                columns=columns,
                pinned=pinned,
            )
            return await self._ask("search", lambda rows: rows.search(query, vector))

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        rows = await self._query(Selection(Criteria(scope), ids=[memory_id]), schema.READ_COLUMNS)
        return schema.memory_from(scope, rows[0]) if rows else None

    async def page(self, criteria: Criteria, *, limit: int, cursor: str = "", oldest_first: bool = False) -> Page:
        """Same as the port's. Milvus does not sort: this reads the id and time of each memory not listed yet.

        That is 60 ms for 20,000 memories on Lite; a server takes 200 ms for a time tick, twice.
        """
        after = decode_cursor(cursor) if cursor else None
        if limit < 1 or criteria.types == frozenset():
            return Page((), "")
        selection = Selection(criteria, created_until=after.created_at if after else None)
        rows = await self._read_all(selection)
        # Of ten thousand rows that takes longer than a token may wait.
        page, further = await asyncio.to_thread(listed, rows, limit=limit, after=after, oldest_first=oldest_first)
        memories = await self._at(criteria.scope, page)
        return Page(tuple(each for each in memories if each in criteria.memory_filter), further)

    async def predecessors(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        found: list[Row] = []
        for newer in _batches([memory_id for memory_id in dict.fromkeys(memory_ids) if memory_id], _KEYS_BATCH):
            found += await self._read_all(Selection(Criteria(scope), superseded_by=newer), schema.READ_COLUMNS)
        return [schema.memory_from(scope, row) for row in found]

    async def scan(self) -> AsyncIterator[Sequence[Memory]]:
        async for rows in self._pages(None, schema.SCAN_COLUMNS, limit=SCAN_BATCH):
            yield schema.anyones_memories_from(row for row in rows if not schema.is_passage(row))

    async def owners(self) -> list[Scope]:
        """See `RecordReader`: 60 ms for 10,000 rows on Lite, in answers of 5 ms. Left out are owners whose id is stored as a digest."""
        changed: dict[str, int] = {}
        async for rows in self._pages(None, schema.OWNER_COLUMNS, limit=RECORD_BATCH):
            for row in rows:
                if not schema.is_unnamed(row):
                    changed[row["owner"]] = max(row["updated_at"], changed.get(row["owner"], 0))
        latest_first = sorted(changed, key=changed.__getitem__, reverse=True)
        return [Scope.of_owner(schema.read_id(owner)) for owner in latest_first]

    async def count(self, scope: Scope) -> int:
        return await self._count(Selection(Criteria(scope)))

    async def count_rows(self) -> int:
        """How many rows, of every owner; those of documents too."""
        return await self._ask("count", lambda rows: rows.count(None))

    async def load_records(self, scope: Scope, *, limit: int) -> Sequence[str | EmbeddedMemory] | None:
        """See `RecordReader`. On Lite 60 to 80 ms for 10,000 memories; a server takes 200 to 350 ms for each 1,024.

        From the first row without a current record on, rows are read whole, which takes ten times as long.
        """
        # Those that have expired, too: the clock may be wrong now, and those who ask name the time.
        selection = Selection(Criteria(scope, active_at=ALWAYS.start), passages=True)
        if self.is_local and await self._count(selection) > limit:
            return None
        found: list[str | EmbeddedMemory] = []
        seen, last_key = 0, ""
        page = min(RECORD_BATCH, limit + 1)
        async for rows in self._pages(selection, schema.RECORD_COLUMNS, limit=page):
            # A server needs 200 ms to count: that is worth it for owners with more than a page.
            is_first_of_many = not seen and len(rows) == page and not self.is_local
            if seen + len(rows) > limit or (is_first_of_many and await self._count(selection) > limit):
                return None
            for row in sorted(rows, key=itemgetter("id")):
                record = self._record_in(row)
                if record is None:
                    rest = await self._whole(selection, limit=limit - seen, after_key=last_key)
                    return None if rest is None else [*found, *rest]
                found += filter(None, (record,))
                seen, last_key = seen + 1, row["id"]
        return found

    async def _whole(self, selection: Selection, *, limit: int, after_key: str) -> list[EmbeddedMemory] | None:
        batch = OWNER_BATCH if self.is_local else SCAN_BATCH
        found: list[EmbeddedMemory] = []
        async for rows in self._pages(selection, schema.EMBEDDED_COLUMNS, limit=batch, after_key=after_key):
            found += (schema.embedded_from(selection.criteria.scope, row) for row in rows)
            if len(found) > limit:
                return None
        return [row for row in found if is_searched(row.memory)]

    def _record_in(self, row: Row) -> str | None:
        """The row's record, "" for a memory that no index holds; None: the row has none of this version."""
        stored, record_format = row.get(schema.RECORD.name, ""), self._record_format
        return record_format.record(stored) if record_format and record_format.is_current(stored) else None

    async def _at(self, scope: Scope, positions: Sequence[ListingPosition]) -> tuple[Memory, ...]:
        """The memories at these positions, in this order; one that was deleted meanwhile is left out."""
        found: dict[str, Memory] = {}
        # Small ones: the event loop has other things to do in between.
        for batch in _batches(positions, _BATCH):
            selection = Selection(Criteria(scope), ids=[each.memory_id for each in batch])
            rows = await self._query(selection, schema.READ_COLUMNS)
            found |= {memory.id: memory for memory in (schema.memory_from(scope, row) for row in rows)}
        return tuple(found[each.memory_id] for each in positions if each.memory_id in found)

    # -- MemoryWriter --------------------------------------------------------------------------------------------------

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        """Same as the port's.

        Raises:
            InvalidRequestError: a value is more than Milvus can hold; nothing was written.
        """
        encoded = [self._row(scope, row) for row in rows]
        unique = list({row["id"]: row for row in encoded}.values())
        for batch in _batches_of_memories(unique):
            await self._upsert(batch)

    def _row(self, scope: Scope, row: EmbeddedMemory) -> Row:
        encoded = schema.row_from(scope, row, dimension=self.dimension)
        if self._record_format is None:
            return encoded
        return encoded | {schema.RECORD.name: self._record_format.stored(row)}

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        deleted = 0
        for ids in _batches(list(dict.fromkeys(memory_ids)), _KEYS_BATCH):
            rows = await self._read_all(Selection(Criteria(scope), ids=ids, passages=True))
            deleted += await self._delete_rows(scope, rows)
        return deleted

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        rows = await self._read_all(Selection(Criteria(scope, reach=reach), passages=True))
        return await self._delete_rows(scope, rows)

    async def _delete_rows(self, scope: Scope, rows: Sequence[Row]) -> int:
        for batch in _batches([row["id"] for row in rows], _KEYS_BATCH):
            await self._write("delete", lambda stored, keys=batch: stored.delete(keys))  # type: ignore[misc]
        if rows and not self.is_local:
            # A read that need not be fresh sees a server's deletion some tenths of a second later, but not after a fresh
            # one: recall may be unable to read the tombstones (Redis is unavailable), and must not find the row any more.
            await self._count(Selection(Criteria(scope), ids=[schema.memory_id_of(rows[0])]))
        return sum(not schema.is_passage(row) for row in rows)

    async def _read_all(self, selection: Selection, columns: Sequence[str] = ("id", "created_at")) -> list[Row]:
        """Every selected row, however many there are; by default its key and time of creation."""
        return [row async for rows in self._pages(selection, columns, limit=WINDOW) for row in rows]

    async def _pages(
        self, selection: Selection | None, columns: Sequence[str], *, limit: int, after_key: str = ""
    ) -> AsyncIterator[list[Row]]:
        """The rows behind that key in pages, until one holds fewer than `limit`; None: those of every owner."""
        while rows := await self._query(selection, columns, after_key=after_key, limit=limit):
            yield rows
            if len(rows) < limit:
                return
            after_key = max(row["id"] for row in rows)

    async def _count(self, selection: Selection) -> int:
        return await self._ask("query", lambda rows: rows.count(selection))

    async def _query(
        self, selection: Selection | None, columns: Sequence[str], *, after_key: str = "", limit: int = WINDOW
    ) -> list[Row]:
        return await self._ask(
            "query" if selection else "scan",
            lambda rows: rows.select(selection, columns, after_key=after_key, limit=limit),
        )

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _upsert(self, rows: Sequence[Row]) -> None:
        await self._write("upsert", lambda stored: stored.upsert(rows))

    @abstractmethod
    async def compact(self) -> None: ...

    async def _write(self, operation: str, call: Callable[[Rows], Awaitable[ResultT]]) -> ResultT:
        async with self.writes.shared():
            return await self._ask(operation, call, writes=True)

    @abstractmethod
    async def _ask(
        self,
        operation: str,
        call: Callable[[Rows], Awaitable[ResultT]],
        *,
        seconds: float | None = None,
        writes: bool = False,
    ) -> ResultT:
        """One call, in bounded time."""


def _hit(scope: Scope, row: Row, vector: Vector) -> Hit:
    cosine = schema.cosine(vector, row[schema.EMBEDDING.name])
    return Hit(schema.memory_from(scope, row), cosine, cosine)


def _batches_of_memories(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """A memory and its passages in one batch, where that holds them: what is broken off leaves no passage that is no memory's."""
    batch: list[Row] = []
    for _, found in groupby(rows, schema.memory_key_of):
        memory = list(found)
        if len(batch) + len(memory) > _BATCH:
            yield from _batches(batch, _BATCH)
            batch = []
        batch += memory
    yield from _batches(batch, _BATCH)


def _batches(values: Sequence[ResultT], size: int) -> Iterator[Sequence[ResultT]]:
    return (values[start : start + size] for start in range(0, len(values), size))
