"""Memories in Milvus: a server or cluster, or Milvus Lite in a file.

Strategy: `memory_collection` reads and writes, `connection` makes the calls, `supervisor` keeps the connection. This module gives
each call its time limit and reports its outcome to the supervisor. No caller waits for a store that is known to be unavailable.

Order of the locks: the owner's lock, which the callers of writes hold, and what repeats them; then `writes`, shared by each write and
by a connection that is being opened, exclusive while open writes are repeated or Milvus Lite's file is rewritten or copied; then
the journal's own, in a thread. Whoever holds `writes` exclusively asks for no owner's lock.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from semrouter_memory.config import MilvusConfig, secret
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.events import StoreFailed
from semrouter_memory.model import Memory, Reach, Scope
from semrouter_memory.ports import Observer, OwnerLocks
from semrouter_memory.resilience import Backoff, is_cancelled
from semrouter_memory.store import schema
from semrouter_memory.store.connection import PREPARE_SECONDS, MilvusConnection, StoreTarget, connect
from semrouter_memory.store.in_memory import InMemoryRows
from semrouter_memory.store.index_record import RecordFormat
from semrouter_memory.store.journal import WriteJournal
from semrouter_memory.store.lite import LiteServer
from semrouter_memory.store.lite_file import ensure_free
from semrouter_memory.store.location import LiteFile, locate
from semrouter_memory.store.memory_collection import MemoryCollection, ResultT
from semrouter_memory.store.owner_versions import OwnerVersions
from semrouter_memory.store.rw_lock import RWLock
from semrouter_memory.store.schema import Row
from semrouter_memory.store.supervisor import ConnectionSupervisor
from semrouter_memory.store.write_ahead import (
    TombstonesOf,
    WriteAhead,
    finished_in_thread,
    journal_of,
    journal_target,
)

_COMPACT_SECONDS = 60.0
"""A server's flush waits for its storage."""


class MilvusStore(MemoryCollection):
    """Implements `MemoryReader` and `MemoryWriter` for the memories.

    Args:
        data_dir: holds Milvus Lite's file when the configuration names no place.
        fingerprint: of the embedder whose vectors are stored.
        tombstones: tell what was deleted, so that no repeated write brings it back; None: all that deletes does so
            through this store.
        versions: which a repeated write changes; None: nothing that is read here is cached.
        locks: under which writes are repeated; None: no other process writes here.
        record_format: makes what is stored for the owners' indexes; None: nothing is, and reading an owner in takes longer.

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
        versions: OwnerVersions | None = None,
        locks: OwnerLocks | None = None,
        record_format: RecordFormat | None = None,
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
        super().__init__(
            config.collection,
            dimension=config.dimension,
            is_local=self._lite is not None,
            writes=RWLock(),
            record_format=record_format,
        )
        self._secondaries: list[SecondaryCollection] = []
        self._ahead = WriteAhead(
            journal=journal_of(self._target, data_dir),
            lock=self.writes,
            seconds=self._timeout_seconds,
            tombstones=tombstones,
            versions=versions,
            locks=locks,
            ensure_free=self.ensure_free,
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

    @property
    def available(self) -> bool:
        return self._supervisor.is_up

    @property
    def collections(self) -> "CollectionAdmin":
        """All collections at this place."""
        return CollectionAdmin(self, self._ahead.journal, self._target)

    def secondary(self, suffix: str) -> "SecondaryCollection":
        """Another collection at the same place, for the same embedding, named after this one.

        Args:
            suffix: without underscores, which tell it from the name.
        """
        added = SecondaryCollection(f"{self._name}_{suffix}", self)
        self._secondaries.append(added)
        return added

    # -- writes that are completed in spite of failures ----------------------------------------------------------------

    async def _upsert(self, rows: Sequence[Row]) -> None:
        connection = self._supervisor.connection()
        try:
            self.ensure_free(len(rows))
            async with self.writes.shared(), self._ahead.noted(rows):
                await self._ask("upsert", lambda stored: stored.upsert(rows), writes=True)
                self._require_written(connection)
        except BaseException as error:
            if isinstance(error, StoreUnavailableError) and error.disk_full:
                self._observer.observe(StoreFailed("upsert", error))
            else:
                # How much of it was written is unknown: it is settled soon.
                self._supervisor.mark_suspect(connection)
            raise

    def ensure_free(self, rows: int) -> None:
        if self._lite is not None:
            ensure_free(self._lite.path, rows=rows)

    def _require_written(self, connection: MilvusConnection) -> None:
        try:
            self.ensure_free(0)
        except StoreUnavailableError as error:
            if error.disk_full:
                # It is unknown whether all rows are in the file: reconnecting reads it again.
                self._supervisor.mark_down(connection, str(error))
            raise

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        await self._ahead.forget([schema.primary_key(scope, memory_id) for memory_id in memory_ids])
        return await super().delete(scope, memory_ids)

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        await self._ahead.forget_all(scope, reach)
        return await super().delete_all(scope, reach)

    async def _delete_rows(self, scope: Scope, rows: Sequence[Row]) -> int:
        # An open write may be about to move one of them elsewhere.
        await self._ahead.forget([row["id"] for row in rows])
        return await super()._delete_rows(scope, rows)

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
            for each in (self, *self._secondaries):
                await each._ask("compact", lambda stored: stored.compact(), seconds=_COMPACT_SECONDS)  # noqa: SLF001 - of this kind

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

    async def index_keys(self) -> None:
        """Make writes to the collections that there are by now fast."""
        if self._lite is not None:
            await self._alone(self._lite.index_keys)

    async def _alone(self, *work: Callable[[], None]) -> None:
        """Run work of a thread while nothing writes or connects, to its end even when its caller is cancelled."""
        async with self.writes.exclusive():
            for each in work:
                await finished_in_thread(each)

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _connect(self) -> MilvusConnection:
        # Milvus Lite reads its file then, and writes to it the first time.
        async with self.writes.shared():
            return await connect(self._target, self._lite)

    async def _ask(
        self,
        operation: str,
        call: Callable[[MilvusConnection], Awaitable[ResultT]],
        *,
        seconds: float | None = None,
        writes: bool = False,
    ) -> ResultT:
        """Same as the base's; the supervisor learns its outcome."""
        connection = self._supervisor.connection()
        bound = self._timeout_seconds if seconds is None else seconds
        try:
            async with asyncio.timeout(bound), connection.trusted(operation, writes=writes):
                result = await call(connection)
        except asyncio.CancelledError:
            if is_cancelled():
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


class SecondaryCollection(MemoryCollection):
    """Another collection at the place of a store, with the same columns. The first write makes it; until then it is empty."""

    def __init__(self, name: str, store: MilvusStore) -> None:
        super().__init__(name, dimension=store.dimension, is_local=store.is_local, writes=store.writes)
        self._store = store
        self._opened: tuple[MilvusConnection, MilvusConnection] | None = None
        self._may_be_new = False

    @property
    def available(self) -> bool:
        return self._store.available

    async def compact(self) -> None:
        """Same as the store's, which takes in this collection."""
        await self._store.compact()

    async def _upsert(self, rows: Sequence[Row]) -> None:
        self._store.ensure_free(len(rows))
        await super()._upsert(rows)
        if self._may_be_new:
            self._may_be_new = False
            await self._store.index_keys()

    async def _ask(
        self,
        operation: str,
        call: Callable[[Any], Awaitable[ResultT]],
        *,
        seconds: float | None = None,
        writes: bool = False,
    ) -> ResultT:
        async def asked(connection: MilvusConnection) -> ResultT:
            return await call(await self._collection(connection, make=writes))

        return await self._store._ask(operation, asked, seconds=seconds, writes=writes)  # noqa: SLF001 - its own kind

    async def _collection(self, connection: MilvusConnection, *, make: bool) -> MilvusConnection | InMemoryRows:
        """The collection by the store's present connection; no rows while it is not made."""
        if self._opened is None or self._opened[0] is not connection:
            opened = await connection.opened(self._name, make=make)
            if opened is None:
                return InMemoryRows()
            self._opened = connection, opened
            self._may_be_new = make
        return self._opened[1]


class _OtherCollection(SecondaryCollection):
    """A collection that this version or an older one made, perhaps for another embedding. It is read once it is loaded."""

    async def load(self) -> None:
        await self._ask("load", lambda opened: opened.load(), seconds=PREPARE_SECONDS)

    async def drop(self) -> None:
        async with self.writes.shared():
            await self._ask("drop", lambda opened: opened.drop(), writes=True)

    async def _collection(self, connection: MilvusConnection, *, make: bool) -> MilvusConnection:  # noqa: ARG002 - none is made
        return connection.for_collection(self._name)


class CollectionAdmin:
    """Lists, reads and drops collections at the place of a store. Raises `StoreUnavailableError`.

    Args:
        journal: of all collections at the place.
        target: of the store's own.
    """

    def __init__(self, store: MilvusStore, journal: WriteJournal, target: StoreTarget) -> None:
        self.current = target.collection
        self._store = store
        self._journal = journal
        self._target = target

    async def embeddings(self) -> dict[str, str]:
        """Collections that this version or an older one made: name -> fingerprint of the embedding."""
        return await self._store._ask("describe", MilvusConnection.embeddings)  # noqa: SLF001 - of its place

    async def count(self, name: str) -> int:
        """How many rows a collection holds; loads it."""
        return await (await self._loaded(name)).count_rows()

    async def scan(self, name: str) -> AsyncIterator[Sequence[Memory]]:
        """Every memory of a collection, in batches; loads it.

        Of another one also what its open writes hold, since nothing completes them: the newer version of a row, or all that is left of it.
        """
        async for memories in (await self._loaded(name)).scan():
            yield memories
        if name != self.current and (rows := await asyncio.to_thread(self._journal.left_for, await self._named(name))):
            yield schema.anyones_memories_from(row for row in rows if not schema.is_passage(row))

    async def drop(self, name: str) -> None:
        """Delete a collection with everything in it, its documents and its open writes, for good."""
        target = await self._named(name)
        await _OtherCollection(name, self._store).drop()
        await asyncio.to_thread(self._journal.discard, target)

    async def _named(self, name: str) -> tuple[str, str, str]:
        return journal_target(self._target, name, (await self.embeddings()).get(name, ""))

    async def _loaded(self, name: str) -> MemoryCollection:
        if name == self.current:
            return self._store
        other = _OtherCollection(name, self._store)
        await other.load()
        return other
