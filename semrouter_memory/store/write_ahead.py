"""Writes that are completed in spite of failures: recorded before they are sent to the store, repeated when they fail.

Strategy. A write that fails, is cancelled or ends with its process stays in the journal. `settle` repeats it as soon as the
store answers, before the store counts as available and while nothing else is written. It skips rows that are newer in the
store (another replica may have written them) and rows that were deleted. Repeating a complete write changes nothing.

It does so under the owner's lock, so that no replica changes or deletes the rows in between, and what was deleted is known as it is
now. Without the lock (another replica has it, or Redis is unavailable) the write waits, and the store is available meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import LockLostError, StoreUnavailableError
from semrouter_memory.events import StoreFailed
from semrouter_memory.model import Reach, Scope
from semrouter_memory.ports import Observer, OwnerHold, OwnerLocks, Tombstones
from semrouter_memory.store import schema
from semrouter_memory.store.connection import MilvusConnection, StoreTarget
from semrouter_memory.store.journal import OpenWrite, WriteJournal
from semrouter_memory.store.location import LiteFile
from semrouter_memory.store.owner_versions import OwnerVersions
from semrouter_memory.store.rw_lock import RWLock
from semrouter_memory.store.schema import Row

TombstonesOf = Callable[[Scope], Awaitable[Tombstones]]
_T = TypeVar("_T")

_LOCK_SECONDS = 1.0
"""For an owner's lock, for which all owners wait. One that a killed process had ends later, and the write is tried again then."""


def journal_of(target: StoreTarget, data_dir: Path) -> WriteJournal:
    """Beside Milvus Lite's file, which moves with it; for a server in the data directory."""
    location = target.location
    if isinstance(location, LiteFile):
        directory = location.path.with_name(f"{location.path.name}.writes")
    else:
        directory = data_dir / "milvus.writes"
    return WriteJournal(directory, target=journal_target(target, target.collection, target.fingerprint))


def journal_target(store: StoreTarget, collection: str, fingerprint: str) -> tuple[str, str, str]:
    """What a collection at the same place is in the journal."""
    place = "" if isinstance(store.location, LiteFile) else store.location.uri
    return place, collection, fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAhead:
    """The journal of one store. Raises `StoreUnavailableError`.

    Attributes:
        lock: every write is made while it is shared, and what is deleted is taken out of the journal.
        seconds: bound on each call of the store while writes are repeated.
        tombstones: reads what was deleted; None: deletions come through `forget` only.
        versions: of the owners, which a repeated write changes: their indexes may have been read without it; None: there are none.
        locks: of the owners; None: no other process writes.
        ensure_free: raises `StoreUnavailableError` when so many rows cannot be written now.
    """

    journal: WriteJournal
    lock: RWLock
    seconds: float
    tombstones: TombstonesOf | None
    versions: OwnerVersions | None
    locks: OwnerLocks | None
    ensure_free: Callable[[int], None]
    observer: Observer

    @asynccontextmanager
    async def noted(self, rows: Sequence[Row]) -> AsyncIterator[None]:
        """The write is made within; should that fail, it stays open for `settle`."""
        write = await finished_in_thread(lambda: self.journal.add(rows), discard=OpenWrite.remove)
        yield
        # A file that cannot be removed is a write that is repeated in vain.
        with suppress(OSError):
            await finished_in_thread(write.remove)

    async def forget(self, keys: Sequence[str]) -> None:
        """Rows of the memories with these primary keys, and these rows, are deleted."""
        gone = frozenset(keys)
        await self._forget(lambda row: row["id"] in gone or schema.memory_key_of(row) in gone)

    async def forget_all(self, scope: Scope, reach: Reach) -> None:
        """All of the owner's rows within the reach are deleted."""
        owner, within = schema.stored_owner(scope), schema.projects_within(scope, reach)
        projects = None if within is None else {schema.stored_id(project) for project in within}
        await self._forget(lambda row: row["owner"] == owner and (projects is None or row["project_id"] in projects))

    async def _forget(self, is_gone: Callable[[Row], bool]) -> None:
        async with self.lock.shared():
            if not self.journal.is_empty():
                await finished_in_thread(lambda: self.journal.forget(is_gone))

    async def settle(self, connection: MilvusConnection) -> bool:
        """Repeat what is open; returns False when some of it has to wait for something else than the connection.

        Raises:
            StoreUnavailableError: the connection does not serve.
        """
        if self.journal.is_empty():
            return True
        writes = await finished_in_thread(self.journal.open_writes)
        owners = dict.fromkeys(_owner_of(write.rows) for write in writes)
        return all([await self._settled(connection, owner) for owner in owners])

    async def _settled(self, connection: MilvusConnection, owner: Scope | None) -> bool:
        """Repeat what is open of one owner."""
        async with AsyncExitStack() as held:
            hold: OwnerHold | None = None
            if self.locks is not None and owner is not None:
                try:
                    async with asyncio.timeout(_LOCK_SECONDS):
                        hold = await held.enter_async_context(self.locks.hold(owner))
                except (TimeoutError, LockLostError) as error:
                    self.observer.observe(StoreFailed("repeat", error))
                    return False
            await held.enter_async_context(self.lock.exclusive())
            # As it is now: until then, a write of this process that was under way was open.
            writes = await finished_in_thread(self.journal.open_writes)
            own = [write for write in writes if _owner_of(write.rows) == owner]
            return all([await self._completed(connection, write, hold) for write in own])

    async def _completed(self, connection: MilvusConnection, write: OpenWrite, hold: OwnerHold | None) -> bool:
        try:
            rows = await self._not_deleted(write.rows)
            if hold is not None:
                await hold.confirm()
            async with asyncio.timeout(self.seconds), connection.trusted("repeat", writes=True):
                await self._repeat(connection, rows)
            if self.versions is not None and (owner := _owner_of(rows)):
                await self.versions.advance(owner)
            await finished_in_thread(write.remove)
        except Exception as error:
            # One that takes too long is tried again, too: whether the store answers is a probe's to find out.
            if isinstance(error, StoreUnavailableError) and error.connection_lost:
                raise
            self.observer.observe(StoreFailed("repeat", error))
            return False
        return True

    async def _repeat(self, connection: MilvusConnection, rows: Sequence[Row]) -> None:
        keys = [row["id"] for row in rows]
        stored = await connection.query(schema.keys_expression(keys), ["id", "updated_at"]) if keys else []
        changed = {row["id"]: row["updated_at"] for row in stored}
        wanted = [row for row in rows if changed.get(row["id"], row["updated_at"]) <= row["updated_at"]]
        if wanted:
            self.ensure_free(len(wanted))
            await connection.upsert(wanted)

    async def _not_deleted(self, rows: Sequence[Row]) -> Sequence[Row]:
        owner = _owner_of(rows)
        if self.tombstones is None or owner is None:
            return rows
        memories = schema.anyones_memories_from(rows)
        tombstones = await self.tombstones(owner)
        return [row for row, memory in zip(rows, memories, strict=True) if not tombstones.covers(memory)]


def _owner_of(rows: Sequence[Row]) -> Scope | None:
    """Whose rows one write holds; None: of none, or of one whose id is stored as a digest."""
    return Scope.of_owner(schema.read_id(rows[0]["owner"])) if rows and not schema.is_unnamed(rows[0]) else None


async def finished_in_thread(work: Callable[[], _T], *, discard: Callable[[_T], object] | None = None) -> _T:
    """Run work in a thread. A caller that is cancelled meanwhile leaves only when the work is finished.

    Args:
        discard: is given the result that a cancelled caller does not get.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        with suppress(OSError, StoreUnavailableError):
            result = await working
            if discard is not None:
                discard(result)
        raise
