"""The turn log in a local SQLite file (implements the `TurnLog` and `TurnRecords` ports)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack, cast

from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import Appended, PendingSession, Scope, Tombstone, Turn, TurnTotals
from semrouter_memory.ports import Clock
from semrouter_memory.turn_log import removal
from semrouter_memory.turn_log.appending import decide_append, look_around
from semrouter_memory.turn_log.bounds import bounded
from semrouter_memory.turn_log.columns import micros
from semrouter_memory.turn_log.digests import Digests
from semrouter_memory.turn_log.hybrid_clock import HybridClock
from semrouter_memory.turn_log.log import LogSettings, StoredTurnLog
from semrouter_memory.turn_log.sqlite.connections import FileThread, emptied
from semrouter_memory.turn_log.sqlite.contents import Contents
from semrouter_memory.turn_log.sqlite.database import BATCH_COMMITS, BATCH_LOG_PAGES, Database
from semrouter_memory.turn_log.sqlite.rows import SqliteRows
from semrouter_memory.turn_log.storage import Changes, Decision, Rows, completed
from semrouter_memory.turn_log.tombstones import OwnerTombstones
from semrouter_memory.turn_log.view import View

T = TypeVar("T")

_BATCH_PAUSE_SECONDS = 0.002
_IN_BATCHES = frozenset({"purge", "sweep", "erase_answers"})
_AT_ONCE = frozenset({"history"})
"""A request waits for it: a few rows, by key, on the event loop's thread."""
_IN_READING_THREAD = frozenset({"chain", "list_turns", "get_turn"})


class SqliteStorage:
    """Runs decisions in the log's own thread, and the longer reads in another one (implements `Storage`)."""

    def __init__(self, path: Path, times: HybridClock) -> None:
        self.database = Database(path)
        self.digests = Digests(self.database.digest_key)
        self.local = SqliteRows(self.database.local, self.digests, times)
        self.background = SqliteRows(self.database.background, self.digests, times)
        self._reading = SqliteRows(self.database.reading, self.digests, times)
        self.contents = Contents(self.database.background)
        self._reading_thread = FileThread("turn-log-reads", error=TurnLogError, what="turn log")

    async def change(self, operation: str, _: Scope | str, decide: Decision[T]) -> T:
        return await self.database.thread.run(partial(self.change_now, operation, decide))

    async def read(self, operation: str, look: Callable[[Rows], Awaitable[T]]) -> T:
        if operation in _AT_ONCE:
            return self.read_now(operation, look, self.local)
        if operation in _IN_READING_THREAD:
            return await self._reading_thread.run(partial(self.read_now, operation, look, self._reading))
        return await self.database.thread.run(partial(self.read_now, operation, look, self.background))

    def change_now(self, operation: str, decide: Decision[T]) -> T:
        """In the log's own thread."""
        in_batches = operation in _IN_BATCHES
        with self.database.writing(operation, commits=BATCH_COMMITS if in_batches else 1):
            changes, result = completed(cast("Coroutine[Any, Any, tuple[Changes, T]]", decide(self.background)))
            self.background.apply(changes)
        if in_batches and self.database.checkpoint_due:
            self.database.checkpoint(long_log_pages=BATCH_LOG_PAGES)
        return result

    def read_now(self, operation: str, look: Callable[[Rows], Awaitable[T]], rows: SqliteRows) -> T:
        with self.database.failures.of(operation):
            return completed(cast("Coroutine[Any, Any, T]", look(rows)))

    def purge_pending(self) -> None:
        """Complete interrupted deletions, in the thread."""
        with suppress(TurnLogError):
            completed(removal.purge_pending(_InThread(self)))

    def close(self) -> None:
        self._reading_thread.close()
        self.database.close()


class _InThread:
    """The storage as the thread itself uses it (implements `Storage`)."""

    def __init__(self, storage: SqliteStorage) -> None:
        self._storage = storage

    async def change(self, operation: str, _: Scope | str, decide: Decision[T]) -> T:
        result = self._storage.change_now(operation, decide)
        # The lock is not fair: an append that waits for it gets it in the pause.
        time.sleep(_BATCH_PAUSE_SECONDS)  # noqa: ASYNC251 - no event loop is here
        return result

    async def read(self, operation: str, look: Callable[[Rows], Awaitable[T]]) -> T:
        return self._storage.read_now(operation, look, self._storage.background)


class SqliteTurnLog(StoredTurnLog):
    """Accepted turns in one file, readable by its owner only.

    `append`, `tombstones` and `history` run where they are called, on the event loop's thread; what a request may wait for
    has a thread of its own, and everything else runs in another one, in the order in which it was asked for.

    Args:
        path: the file; it and its directory are made when they are missing.
        settings: see `LogSettings`.

    Raises:
        ConfigurationError: the file cannot be used; the message names it and says why.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        **settings: Unpack[LogSettings],
    ) -> None:
        times = HybridClock(clock)
        self._file = SqliteStorage(path, times)
        self._database = self._file.database
        super().__init__(self._file, clock=clock, times=times, **settings)
        times.pass_deletion(self._file.read_now("latest time", lambda rows: rows.latest_time(), self._file.background))
        # What a killed process left of a deletion.
        self._database.thread.submit(self._file.purge_pending)

    @property
    def damage(self) -> str:
        return self._database.failures.damage

    def content_hash(self, content: str) -> str:
        """What a `Tombstone` of this log carries in place of the deleted statement."""
        return self._file.digests.content_hash(content)

    # -- where it is called --------------------------------------------------------------------------------------------

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        bound = bounded(turn, remember=remember, max_turn_chars=self._max_turn_chars)
        rows = self._file.local
        with self._database.writing_local("append"):
            view = View(rows, rows.tombstones_now(rows.digests.owner(turn.scope)))
            around = completed(look_around(view, bound))
            changes, appended = decide_append(bound, around, new_id=self._new_id, max_turn_chars=self._max_turn_chars)
            rows.apply(changes)
        self._times.observe(micros(turn.observed_at))
        self._database.checkpoint_if_due()
        return appended

    async def tombstones(self, scope: Scope) -> OwnerTombstones:
        with self._database.failures.of("tombstones"):
            return self._file.local.tombstones_now(self._file.digests.owner(scope))

    # -- with the file -------------------------------------------------------------------------------------------------

    async def pending(self) -> list[PendingSession]:
        self._database.require_file()
        pending = await super().pending()
        self._database.thread.submit(self._database.checkpoint)
        return pending

    async def tombstone(self, deletion: Tombstone, *, turn_ids: Sequence[str] = ()) -> None:
        try:
            await self._remove_deleted(deletion, turn_ids)
        except asyncio.CancelledError:
            self._database.thread.submit(self._file.purge_pending)
            raise
        await self._erase()

    async def erase_answers(self, scope: Scope, *, since: datetime) -> None:
        await super().erase_answers(scope, since=since)
        await self._erase()

    async def sweep(self, *, finished_before: datetime) -> int:
        swept = await super().sweep(finished_before=finished_before)
        if swept:
            await self._erase()
        return swept

    async def drop(self, turn_ids: Sequence[str]) -> int:
        dropped = await super().drop(turn_ids)
        if dropped:
            await self._erase()
        return dropped

    async def totals(self) -> TurnTotals:
        return TurnTotals(**await self._database.run("totals", self._file.background.counts))

    async def compact(self) -> None:
        """Take what was deleted before out of the files, batch by batch, while the log is in use (see contents.py).

        Raises:
            TurnLogError: somebody keeps reading; what is deleted then is in the write-ahead log still.
        """
        # At first, what an earlier compaction did not get to.
        await self._migrate()
        await self._database.write("compact", self._file.contents.switch_table, commits=BATCH_COMMITS)
        await self._migrate()
        if not await emptied(self._erase):
            raise TurnLogError("turn log: compact failed: another process keeps reading")

    async def _migrate(self) -> None:
        while await self._database.write("compact", self._file.contents.migrate_batch, commits=BATCH_COMMITS):
            pass

    async def _erase(self) -> bool:
        return await self._database.run("erase", self._database.erase)

    async def backup(self, directory: Path) -> None:
        await self._database.backup(directory)

    def close(self) -> None:
        """Let the threads end what they were asked for, then close the file."""
        self._file.close()
