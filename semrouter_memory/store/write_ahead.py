"""Writes that are completed in spite of failures: recorded before they are sent to the store, repeated when they fail.

Strategy. A write that fails, is cancelled or ends with its process stays in the journal. `settle` repeats it as soon as the
store answers, before the store counts as available and while nothing else is written. It skips rows that are newer in the
store (another replica may have written them) and rows that were deleted. Repeating a complete write changes nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.events import StoreFailed
from semrouter_memory.model import Reach, Scope
from semrouter_memory.ports import Observer, Tombstones
from semrouter_memory.store import schema
from semrouter_memory.store.connection import MilvusConnection, StoreTarget
from semrouter_memory.store.journal import OpenWrite, WriteJournal
from semrouter_memory.store.location import LiteFile
from semrouter_memory.store.rw_lock import RWLock
from semrouter_memory.store.schema import Row

TombstonesOf = Callable[[Scope], Awaitable[Tombstones]]
_T = TypeVar("_T")


def journal_of(target: StoreTarget, data_dir: Path) -> WriteJournal:
    """Beside Milvus Lite's file, which moves with it; for a server in the data directory."""
    location = target.location
    if isinstance(location, LiteFile):
        directory, place = location.path.with_name(f"{location.path.name}.writes"), ""
    else:
        directory, place = data_dir / "milvus.writes", location.uri
    return WriteJournal(directory, target=(place, target.collection, target.fingerprint))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAhead:
    """The journal of one store. Raises `StoreUnavailableError`.

    Attributes:
        lock: every write is made while it is shared.
        seconds: bound on each call of the store while writes are repeated.
        tombstones: reads what was deleted; None: deletions come through `forget` only.
        ensure_free: raises `StoreUnavailableError` when so many rows cannot be written now.
    """

    journal: WriteJournal
    lock: RWLock
    seconds: float
    tombstones: TombstonesOf | None
    ensure_free: Callable[[int], None]
    observer: Observer

    @asynccontextmanager
    async def noted(self, rows: Sequence[Row]) -> AsyncIterator[None]:
        """The write is made within; should that fail, it stays open for `settle`."""
        write = await finished_in_thread(lambda: self.journal.add(rows), discard=OpenWrite.remove)
        try:
            yield
        except BaseException:
            write.close()
            raise
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
        if not self.journal.is_empty():
            await finished_in_thread(lambda: self.journal.forget(is_gone))

    async def settle(self, connection: MilvusConnection) -> bool:
        """Repeat what is open; returns False when some of it has to wait for something else than the connection.

        Raises:
            StoreUnavailableError: the connection does not serve.
        """
        if self.journal.is_empty():
            return True
        async with self.lock.exclusive():
            writes = await finished_in_thread(self.journal.open_writes, discard=_close)
            try:
                return all([await self._completed(connection, write) for write in writes])
            finally:
                _close(writes)

    async def _completed(self, connection: MilvusConnection, write: OpenWrite) -> bool:
        try:
            rows = await self._not_deleted(write.rows)
            async with asyncio.timeout(self.seconds), connection.trusted("repeat", writes=True):
                await self._repeat(connection, rows)
            await finished_in_thread(write.remove)
        except TimeoutError:
            raise StoreUnavailableError(f"repeating a write: no answer within {self.seconds:g} s") from None
        except Exception as error:
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
        """Rows of one owner, as one write holds them."""
        if self.tombstones is None or not rows or schema.is_unnamed(rows[0]):
            return rows
        memories = schema.anyones_memories_from(rows)
        tombstones = await self.tombstones(memories[0].scope)
        return [row for row, memory in zip(rows, memories, strict=True) if not tombstones.covers(memory)]


def _close(writes: Sequence[OpenWrite]) -> None:
    for write in writes:
        write.close()


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
