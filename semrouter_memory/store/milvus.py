"""Memories in Milvus: a server or cluster, or Milvus Lite in a file.

Strategy: `schema` makes rows and filter expressions, `connection` makes the calls,
`supervisor` keeps the connection. This module gives each call its time limit and reports its outcome to the supervisor. No caller
waits for a store that is known to be unavailable.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from semrouter_memory.config import MilvusConfig, secret
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.events import StoreFailed
from semrouter_memory.model import ALWAYS, EmbeddedMemory, Hit, Memory, MemoryType, Page, Period, Reach, Scope, Vector
from semrouter_memory.ports import Observer
from semrouter_memory.resilience import Backoff
from semrouter_memory.store import schema
from semrouter_memory.store.collection_admin import SCAN_BATCH, CollectionAdmin, pages_by_key
from semrouter_memory.store.connection import WINDOW, MilvusConnection, SearchQuery, StoreTarget, connect
from semrouter_memory.store.lite import LiteServer
from semrouter_memory.store.lite_file import ensure_free
from semrouter_memory.store.location import LiteFile, locate
from semrouter_memory.store.schema import ListingPosition, Row, Selection
from semrouter_memory.store.supervisor import ConnectionSupervisor
from semrouter_memory.store.write_ahead import RWLock, TombstonesOf, WriteAhead, finished_in_thread, journal_of

ResultT = TypeVar("ResultT")

_BATCH = 200
"""Rows in one write: 200 of the largest stay below the 64 MiB that a server takes in one message."""

_KEYS_BATCH = 1_000
"""Keys in one expression."""

OWNER_BATCH = 256
"""Rows with vectors in one answer of Milvus Lite, whose time for one grows faster than their number: 10,000 rows take
0.5 s in answers of 200, 1.6 s in answers of 2,000."""

_COMPACT_SECONDS = 60.0
"""A server's flush waits for its storage."""


class MilvusStore:
    """Implements `MemoryReader` and `MemoryWriter`.

    Args:
        data_dir: holds Milvus Lite's file when the configuration names no place.
        fingerprint: of the embedder whose vectors are stored.
        tombstones: tell what was deleted, so that no repeated write brings it back; None: all that deletes does so
            through this store.

    Raises:
        ConfigurationError: the configured place or token cannot be one.
    """

    def __init__(
        self,
        config: MilvusConfig,
        *,
        data_dir: Path,
        fingerprint: str,
        observer: Observer,
        tombstones: TombstonesOf | None = None,
    ) -> None:
        self._observer = observer
        self._timeout_seconds = config.timeout_ms / 1000
        self._target = StoreTarget(
            location=locate(config, data_dir),
            token=secret(config.token, config.token_file) or "",
            collection=config.collection,
            dimension=config.dimension,
            fingerprint=fingerprint,
        )
        location = self._target.location
        self._lite = LiteServer(location.path) if isinstance(location, LiteFile) else None
        self._writes = RWLock()
        self._ahead = WriteAhead(
            journal=journal_of(self._target, data_dir),
            lock=self._writes,
            seconds=self._timeout_seconds,
            tombstones=tombstones,
            ensure_free=self._ensure_free,
            observer=observer,
        )
        pause = Backoff(first=config.reconnect_seconds, longest=config.reconnect_seconds)
        self._supervisor: ConnectionSupervisor[MilvusConnection] = ConnectionSupervisor(
            self._connect, backoff=pause, observer=observer, settle=self._ahead.settle
        )

    async def start(self) -> None:
        """Connect once and keep connecting. An unavailable server is no error: the supervisor reconnects in the background.

        Takes at most 5 s when the server does not answer; making the collection takes a server about 3 s.

        Raises:
            ConfigurationError: Milvus Lite is not installed, its file is another process's, or the collection was made for
                another dimension or embedding.
        """
        try:
            await self._supervisor.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect, and stop Milvus Lite's process."""
        await self._supervisor.close()
        if self._lite is not None:
            await asyncio.to_thread(self._lite.stop)

    # -- MemoryReader --------------------------------------------------------------------------------------------------

    @property
    def available(self) -> bool:
        return self._supervisor.is_up

    async def search(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        now: datetime,
        types: frozenset[MemoryType] | None = None,
        reach: Reach = Reach.RECALL,
        observed: Period = ALWAYS,
        fresh: bool = False,
        text: str = "",
    ) -> list[Hit]:
        """Same as the port's. While Milvus Lite's file is compacted or copied, words are not searched."""
        if limit < 1 or types == frozenset():
            return []
        selection = Selection(scope=scope, reach=reach, active_at=now, types=types, observed=observed)
        # Searching words reads Lite's file, which is locked then.
        with self._writes.try_shared() as may_read_file:
            query = SearchQuery(
                vector=vector,
                terms=schema.asked_terms(text) if may_read_file else "",
                expression=schema.filter_expression(selection),
                limit=limit,
                fresh=fresh,
            )
            found = await self._ask("search", partial(MilvusConnection.search, query=query))
        return [Hit(schema.memory_from(scope, row), cosine, cosine) for row, cosine in found]

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
        reach: Reach = Reach.ALL,
        observed: Period = ALWAYS,
        now: datetime | None,
        oldest_first: bool = False,
    ) -> Page:
        """Same as the port's. Milvus does not sort: this reads the id and time of each memory not listed yet.

        That is 60 ms for 20,000 memories on Lite; a server takes 200 ms for a time tick, twice.
        """
        after = schema.decode_cursor(cursor) if cursor else None
        if limit < 1 or types == frozenset():
            return Page((), "")
        selection = Selection(
            scope=scope,
            reach=reach,
            active_at=now,
            types=types,
            observed=observed,
            created_until=after.created_at if after else None,
        )
        positions = map(schema.position_of, await self._read_all(selection))
        page, further = schema.listed(positions, limit=limit, after=after, oldest_first=oldest_first)
        return Page(await self._at(scope, page), further)

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
        selection = Selection(scope=scope, reach=Reach.ALL, active_at=now)
        batch = SCAN_BATCH if self._lite is None else OWNER_BATCH
        found: list[EmbeddedMemory] = []
        async for rows in self._pages(selection, schema.EMBEDDED_COLUMNS, limit=batch):
            is_first = not found
            found += (schema.embedded_from(scope, row) for row in rows)
            if len(found) > limit or (is_first and len(rows) == batch and await self._count(selection) > limit):
                return None
        return found

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
        encoded = [schema.row_from(scope, row, dimension=self._target.dimension) for row in rows]
        unique = list({row["id"]: row for row in encoded}.values())
        for batch in _batches(unique, _BATCH):
            await self._upsert(batch)

    async def _upsert(self, rows: Sequence[Row]) -> None:
        connection = self._supervisor.connection()
        try:
            self._ensure_free(len(rows))
            async with self._writes.shared(), self._ahead.noted(rows):
                await self._ask("upsert", partial(MilvusConnection.upsert, rows=rows), writes=True)
                self._require_written(connection)
        except BaseException as error:
            if isinstance(error, StoreUnavailableError) and error.disk_full:
                self._observer.observe(StoreFailed("upsert", error))
            else:
                # How much of it was written is unknown: it is settled soon.
                self._supervisor.mark_suspect(connection)
            raise

    def _ensure_free(self, rows: int) -> None:
        if self._lite is not None:
            ensure_free(self._lite.path, rows=rows)

    def _require_written(self, connection: MilvusConnection) -> None:
        try:
            self._ensure_free(0)
        except StoreUnavailableError as error:
            if error.disk_full:
                # It is unknown whether all rows are in the file: reconnecting reads it again.
                self._supervisor.mark_down(connection, str(error))
            raise

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        deleted = 0
        for ids in _batches(list(dict.fromkeys(memory_ids)), _KEYS_BATCH):
            await self._ahead.forget([schema.primary_key(scope, memory_id) for memory_id in ids])
            rows = await self._query(Selection(scope=scope, reach=Reach.ALL, ids=ids), [schema.ID.name])
            deleted += await self._delete_rows(rows)
        return deleted

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        await self._ahead.forget_all(scope, reach)
        rows = await self._read_all(Selection(scope=scope, reach=reach))
        # An open write may be about to move one of them elsewhere.
        await self._ahead.forget([row["id"] for row in rows])
        return await self._delete_rows(rows)

    async def _delete_rows(self, rows: Sequence[Row]) -> int:
        for batch in _batches([row["id"] for row in rows], _KEYS_BATCH):
            await self._write("delete", partial(MilvusConnection.delete, keys=batch))
        if rows and self._lite is None:
            # A read that need not be fresh sees a server's deletion some tenths of a second later, but not after a fresh
            # one: recall may be unable to read the tombstones (Redis is unavailable), and must not find the row any more.
            gone = schema.keys_expression([rows[0]["id"]])
            await self._ask("query", lambda store: store.query(gone, [schema.ID.name]))
        return len(rows)

    # -- the files -----------------------------------------------------------------------------------------------------

    async def compact(self) -> None:
        """Take what was deleted out of the files too.

        Milvus Lite: when this returns, it is in none of them. Writes wait meanwhile, reads do not.

        A Milvus server merges its segments without their deleted rows within minutes; it
        removes the old segments from its object storage by its own garbage collection (`dataCoord.gc`: by default
        after some hours), and its own log of messages ends by the server's retention.
        """
        if self._lite is not None:
            await self._alone(self._lite.compact)
        else:
            await self._ask("compact", MilvusConnection.compact, seconds=_COMPACT_SECONDS)

    async def backup(self, directory: Path) -> str:
        """Copy Milvus Lite's file and its open writes, as they are at one moment, into an existing directory.

        Writes wait meanwhile.

        Returns:
            What is missing: "" for Milvus Lite; a server's memories are not copied, it has backups of its own.
        """
        if self._lite is None:
            return "memories are on a Milvus server and not in this backup; the server has its own"
        await self._alone(partial(self._lite.backup, directory), partial(self._ahead.journal.copy, directory))
        return ""

    async def _alone(self, *work: Callable[[], None]) -> None:
        """Run work of a thread while nothing writes or connects, to its end even when its caller is cancelled."""
        async with self._writes.exclusive():
            for each in work:
                await finished_in_thread(each)

    # -- collections ---------------------------------------------------------------------------------------------------

    @property
    def collections(self) -> CollectionAdmin:
        """All collections at this place."""
        return CollectionAdmin(self._target.collection, self._ask, self._write)

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _connect(self) -> MilvusConnection:
        # Milvus Lite reads its file then, and writes to it the first time.
        async with self._writes.shared():
            return await connect(self._target, self._lite)

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

    async def _write(self, operation: str, call: Callable[[MilvusConnection], Awaitable[ResultT]]) -> ResultT:
        async with self._writes.shared():
            return await self._ask(operation, call, writes=True)

    async def _ask(
        self,
        operation: str,
        call: Callable[[MilvusConnection], Awaitable[ResultT]],
        *,
        seconds: float | None = None,
        writes: bool = False,
    ) -> ResultT:
        """One call, in bounded time; the supervisor learns its outcome."""
        connection = self._supervisor.connection()
        bound = self._timeout_seconds if seconds is None else seconds
        try:
            async with asyncio.timeout(bound), connection.trusted(operation, writes=writes):
                result = await call(connection)
        except asyncio.CancelledError:
            if _is_cancelled():
                self._supervisor.unanswered(connection)
                raise
            # gRPC's way to say that the channel was closed under the call.
            failure = StoreUnavailableError(f"{operation}: the connection was closed")
        except TimeoutError:
            self._supervisor.mark_suspect(connection)
            failure = StoreUnavailableError(f"{operation}: no answer within {bound:g} s")
        except StoreUnavailableError as error:
            if error.connection_lost:
                self._supervisor.mark_down(connection, str(error))
            else:
                self._supervisor.mark_suspect(connection)
            failure = error
        else:
            self._supervisor.answered()
            return result
        self._observer.observe(StoreFailed(operation, failure))
        raise failure


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _batches(values: Sequence[ResultT], size: int) -> Iterator[Sequence[ResultT]]:
    return (values[start : start + size] for start in range(0, len(values), size))
