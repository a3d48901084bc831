"""Memories in one collection of Milvus; and all collections of this service at one place.

Strategy: `schema` makes rows and filter expressions; a derived class makes the calls, bounds their time and knows whether the place
is available.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from semrouter_memory.model import (
    ALWAYS,
    ANY_MEMORY,
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
from semrouter_memory.store import schema
from semrouter_memory.store.connection import PREPARE_SECONDS, WINDOW, MilvusConnection, SearchQuery
from semrouter_memory.store.listing import ListingPosition, decode_cursor, listed, position_of
from semrouter_memory.store.schema import Row, Selection, is_searched
from semrouter_memory.store.write_ahead import RWLock

SCAN_BATCH = 500
"""Rows in one answer to a scan: texts of the greatest length stay below 64 MiB."""

Ask = Callable[..., Awaitable[Any]]
"""Makes one call of the store, as `MilvusCollection` does."""


async def pages_by_key(read: Callable[[str], Awaitable[list[Row]]], *, limit: int) -> AsyncIterator[list[Row]]:
    """Rows in pages, until one holds fewer than `limit`.

    Args:
        read: reads up to `limit` rows with a greater primary key than this one.
    """
    last_key = ""
    while rows := await read(last_key):
        yield rows
        if len(rows) < limit:
            return
        last_key = max(row["id"] for row in rows)


class CollectionAdmin:
    """Lists, reads and drops collections. Raises `StoreUnavailableError`.

    Args:
        current: the store's own collection.
        ask: makes a call that reads.
        write: makes a call that changes something.
    """

    def __init__(self, current: str, ask: Ask, write: Ask) -> None:
        self.current = current
        self._ask = ask
        self._write = write

    async def embeddings(self) -> dict[str, str]:
        """Collections that this version or an older one made: name -> fingerprint of the embedding."""
        found: dict[str, str] = await self._ask("describe", MilvusConnection.embeddings)
        return found

    async def count(self, name: str) -> int:
        """How many rows a collection holds; loads it."""
        collection = await self._loaded(name)
        number: int = await self._ask("count", lambda store: collection(store).count(schema.everything_expression()))
        return number

    async def scan(self, name: str) -> AsyncIterator[Sequence[Memory]]:
        """Every memory of a collection, in batches; loads it."""
        collection = await self._loaded(name)

        async def read(after_key: str) -> list[Row]:
            expression = schema.everything_expression(after_key=after_key)
            rows: list[Row] = await self._ask(
                "scan", lambda store: collection(store).query(expression, schema.SCAN_COLUMNS, limit=SCAN_BATCH)
            )
            return rows

        async for rows in pages_by_key(read, limit=SCAN_BATCH):
            yield schema.anyones_memories_from(row for row in rows if not schema.is_passage(row))

    async def _loaded(self, name: str) -> Callable[[MilvusConnection], MilvusConnection]:
        if name == self.current:
            return lambda store: store
        await self._ask("load", lambda store: store.for_collection(name).load(), seconds=PREPARE_SECONDS)
        return lambda store: store.for_collection(name)

    async def drop(self, name: str) -> None:
        """Delete a collection with everything in it, for good."""
        await self._write("drop", lambda store: store.for_collection(name).drop())


ResultT = TypeVar("ResultT")

_BATCH = 200
"""Rows in one write: 200 of the largest stay below the 64 MiB that a server takes in one message."""

_KEYS_BATCH = 1_000
"""Keys in one expression."""

OWNER_BATCH = 256
"""Rows with vectors in one answer of Milvus Lite, whose time for one grows faster than their number: 10,000 rows take
0.5 s in answers of 200, 1.6 s in answers of 2,000."""


class MilvusCollection(ABC):
    """Implements `MemoryReader` and `MemoryWriter` for one collection; who derives from it makes the calls.

    Args:
        is_lite: the place is Milvus Lite, which needs smaller answers.
        writes: held shared by every write, and exclusively while Milvus Lite's file is compacted or copied.
    """

    def __init__(self, name: str, *, dimension: int, is_lite: bool, writes: RWLock) -> None:
        self._name = name
        self.dimension = dimension
        self.is_lite = is_lite
        self.writes = writes

    # -- MemoryReader --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def available(self) -> bool: ...

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
        fresh: bool = False,
        text: str = "",
        pinned: bool = False,
    ) -> list[Hit]:
        """Same as the port's. While Milvus Lite's file is compacted or copied, words are not searched."""
        if limit < 1 or types == frozenset():
            return []
        selection = Selection(
            scope=scope,
            reach=reach,
            active_at=now,
            types=types,
            memory_filter=memory_filter,
            observed=observed,
            passages=True,
        )
        # Searching words reads Lite's file, which is locked then.
        with self.writes.try_shared() as may_read_file:
            query = SearchQuery(
                vector=vector,
                terms=schema.asked_terms(text) if may_read_file else "",
                expression=schema.filter_expression(selection),
                limit=limit,
                fresh=fresh,
                pinned=schema.filter_expression(replace(selection, pinned=True)) if pinned else "",
            )
            found = await self._ask("search", partial(MilvusConnection.search, query=query))
        hits = (Hit(schema.memory_from(scope, row), cosine, cosine) for row, cosine in found)
        return [hit for hit in hits if is_searched(hit.memory) and hit.memory in memory_filter]

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        selection = Selection(scope=scope, reach=Reach.ALL, ids=[memory_id])
        rows = await self._query(selection, schema.READ_COLUMNS)
        return schema.memory_from(scope, rows[0]) if rows else None

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
        """Same as the port's. Milvus does not sort: this reads the id and time of each memory not listed yet.

        That is 60 ms for 20,000 memories on Lite; a server takes 200 ms for a time tick, twice.
        """
        after = decode_cursor(cursor) if cursor else None
        if limit < 1 or types == frozenset():
            return Page((), "")
        selection = Selection(
            scope=scope,
            reach=reach,
            active_at=now,
            types=types,
            memory_filter=memory_filter,
            observed=observed,
            expires_by=expires_by,
            created_until=after.created_at if after else None,
        )
        positions = map(position_of, await self._read_all(selection))
        page, further = listed(positions, limit=limit, after=after, oldest_first=oldest_first)
        memories = await self._at(scope, page)
        return Page(tuple(each for each in memories if each in memory_filter), further)

    async def predecessors(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        found: list[Row] = []
        for newer in _batches([memory_id for memory_id in dict.fromkeys(memory_ids) if memory_id], _KEYS_BATCH):
            selection = Selection(scope=scope, reach=Reach.ALL, superseded_by=newer)
            found += await self._read_all(selection, schema.READ_COLUMNS)
        return [schema.memory_from(scope, row) for row in found]

    def scan(self) -> AsyncIterator[Sequence[Memory]]:
        return self.collections.scan(self.collections.current)

    async def count(self, scope: Scope) -> int:
        return await self._count(Selection(scope=scope, reach=Reach.ALL))

    async def load_owner(self, scope: Scope, *, limit: int, now: datetime) -> list[EmbeddedMemory] | None:
        """Same as the port's. On Lite 10 to 20 ms for 200 memories, 0.6 to 0.8 s for 10,000; other questions go in between.

        A server takes 200 to 350 ms for each 500.
        """
        selection = Selection(scope=scope, reach=Reach.ALL, active_at=now, passages=True)
        batch = OWNER_BATCH if self.is_lite else SCAN_BATCH
        found: list[EmbeddedMemory] = []
        async for rows in self._pages(selection, schema.EMBEDDED_COLUMNS, limit=batch):
            is_first = not found
            found += (schema.embedded_from(scope, row) for row in rows)
            if len(found) > limit or (is_first and len(rows) == batch and await self._count(selection) > limit):
                return None
        return [row for row in found if is_searched(row.memory)]

    async def _at(self, scope: Scope, positions: Sequence[ListingPosition]) -> tuple[Memory, ...]:
        """The memories at these positions, in this order; one that was deleted meanwhile is left out."""
        found: dict[str, Memory] = {}
        for batch in _batches(positions, _KEYS_BATCH):
            selection = Selection(scope=scope, reach=Reach.ALL, ids=[each.memory_id for each in batch])
            rows = await self._query(selection, schema.READ_COLUMNS)
            found |= {memory.id: memory for memory in (schema.memory_from(scope, row) for row in rows)}
        return tuple(found[each.memory_id] for each in positions if each.memory_id in found)

    # -- MemoryWriter --------------------------------------------------------------------------------------------------

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        """Same as the port's.

        Raises:
            InvalidRequestError: a value is more than Milvus can hold; nothing was written.
        """
        encoded = [schema.row_from(scope, row, dimension=self.dimension) for row in rows]
        unique = list({row["id"]: row for row in encoded}.values())
        for batch in _batches(unique, _BATCH):
            await self._upsert(batch)

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        deleted = 0
        for ids in _batches(list(dict.fromkeys(memory_ids)), _KEYS_BATCH):
            rows = await self._read_all(Selection(scope=scope, reach=Reach.ALL, ids=ids, passages=True))
            deleted += await self._delete_rows(rows)
        return deleted

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        return await self._delete_rows(await self._read_all(Selection(scope=scope, reach=reach, passages=True)))

    async def _delete_rows(self, rows: Sequence[Row]) -> int:
        for batch in _batches([row["id"] for row in rows], _KEYS_BATCH):
            await self._write("delete", partial(MilvusConnection.delete, keys=batch))
        if rows and not self.is_lite:
            # A read that need not be fresh sees a server's deletion some tenths of a second later, but not after a fresh
            # one: recall may be unable to read the tombstones (Redis is unavailable), and must not find the row any more.
            gone = schema.keys_expression([rows[0]["id"]])
            await self._ask("query", lambda store: store.query(gone, [schema.ID.name]))
        return sum(not schema.is_passage(row) for row in rows)

    async def _read_all(self, selection: Selection, columns: Sequence[str] = ("id", "created_at")) -> list[Row]:
        """Every selected row, however many there are; by default its key and time of creation."""
        return [row async for rows in self._pages(selection, columns, limit=WINDOW) for row in rows]

    def _pages(self, selection: Selection, columns: Sequence[str], *, limit: int) -> AsyncIterator[list[Row]]:
        return pages_by_key(
            lambda after_key: self._query(selection, columns, after_key=after_key, limit=limit), limit=limit
        )

    async def _count(self, selection: Selection) -> int:
        expression = schema.filter_expression(selection)
        return await self._ask("query", lambda store: store.count(expression))

    async def _query(
        self, selection: Selection, columns: Sequence[str], *, after_key: str = "", limit: int = WINDOW
    ) -> list[Row]:
        expression = schema.filter_expression(selection, after_key=after_key)
        return await self._ask("query", lambda store: store.query(expression, columns, limit=limit))

    # -- asking --------------------------------------------------------------------------------------------------------

    @property
    def collections(self) -> CollectionAdmin:
        """All collections at this place."""
        return CollectionAdmin(self._name, self._ask, self._write)

    async def _upsert(self, rows: Sequence[Row]) -> None:
        await self._write("upsert", partial(MilvusConnection.upsert, rows=rows))

    @abstractmethod
    async def compact(self) -> None: ...

    async def _write(self, operation: str, call: Callable[[MilvusConnection], Awaitable[ResultT]]) -> ResultT:
        async with self.writes.shared():
            return await self._ask(operation, call, writes=True)

    @abstractmethod
    async def _ask(
        self,
        operation: str,
        call: Callable[[MilvusConnection], Awaitable[ResultT]],
        *,
        seconds: float | None = None,
        writes: bool = False,
    ) -> ResultT:
        """One call, in bounded time."""


def _batches(values: Sequence[ResultT], size: int) -> Iterator[Sequence[ResultT]]:
    return (values[start : start + size] for start in range(0, len(values), size))
