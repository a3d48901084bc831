"""The turn log in a local SQLite file."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from semrouter_memory.config import RetainConfig
from semrouter_memory.databases import micros
from semrouter_memory.databases.sqlite import BATCH_COMMITS, BATCH_LOG_PAGES
from semrouter_memory.model import Appended, PendingSession, Scope, Turn
from semrouter_memory.ports import Clock
from semrouter_memory.turn_log.client_values import Digests
from semrouter_memory.turn_log.log import StoredTurnLog
from semrouter_memory.turn_log.sqlite_rows import SqliteRows
from semrouter_memory.turn_log.storage import Decision, LogRows, completed
from semrouter_memory.turn_log.tombstones import OwnerTombstones

T = TypeVar("T")

_IN_BATCHES = frozenset({"purge", "sweep", "erase_answers"})
_AT_ONCE = frozenset({"history"})
"""A request waits for it: a few rows, by key, on the event loop's thread."""
_IN_READING_THREAD = frozenset({"chain", "list_turns", "get_turn"})


class SqliteTurnLog(StoredTurnLog):
    """Accepted turns in one file, readable by its owner only.

    `append`, `tombstones` and `history` run where they are called, on the event loop's thread; what a request may wait for
    has a thread of its own, and everything else runs in another one, in the order in which it was asked for.

    Args:
        path: the file; it and its directory are made when they are missing.

    Raises:
        ConfigurationError: the file cannot be used; the message names it and says why.
    """

    def __init__(self, path: Path, *, clock: Clock, config: RetainConfig | None = None) -> None:
        super().__init__(path, clock=clock, config=config)
        self._digests = Digests(self._database.digest_key)
        self._local, self._background, self._reading = (
            SqliteRows(connection, self._digests, self._times.pass_deletion)
            for connection in (self._database.local, self._database.background, self._database.reading)
        )
        self._times.pass_deletion(self._read("latest time", lambda rows: rows.latest_time()))

    # -- the storage ---------------------------------------------------------------------------------------------------

    async def change(self, operation: str, _: Scope | str, decide: Decision[T]) -> T:
        in_batches = operation in _IN_BATCHES
        commits = BATCH_COMMITS if in_batches else 1
        result = await self._database.write(operation, partial(self._change, decide), commits=commits)
        if in_batches and self._database.checkpoint_due:
            await self._database.run("checkpoint", partial(self._database.checkpoint, long_log_pages=BATCH_LOG_PAGES))
        return result

    def _change(self, decide: Decision[T]) -> T:
        changes, result = completed(decide(self._background))
        self._background.apply(changes)
        return result

    async def read(self, operation: str, look: Callable[[LogRows], Awaitable[T]]) -> T:
        if operation in _AT_ONCE:
            return self._read(operation, look)
        if operation in _IN_READING_THREAD:
            return await self._database.run(operation, lambda: completed(look(self._reading)), thread="reading")
        return await self._database.run(operation, lambda: completed(look(self._background)))

    def _read(self, operation: str, look: Callable[[LogRows], Awaitable[T]]) -> T:
        with self._database.reporting(operation):
            return completed(look(self._local))

    # -- where it is called --------------------------------------------------------------------------------------------

    def content_hash(self, content: str) -> str:
        return self._digests.content_hash(content)

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        bound = self._bounded(turn, remember=remember)
        with self._database.writing_local("append"):
            changes, appended = completed(self._appended(self._local, bound))
            self._local.apply(changes)
        self._times.observe(micros(turn.observed_at))
        return appended

    async def tombstones(self, scope: Scope) -> OwnerTombstones:
        return self._read("tombstones", lambda rows: rows.tombstones(self._digests.owner(scope)))

    # -- with the file -------------------------------------------------------------------------------------------------

    async def pending(self) -> list[PendingSession]:
        self._database.require_file()
        return await super().pending()

    async def compact(self) -> None:
        """Take what was deleted before out of the files, batch by batch, while the log is in use (see sqlite_rows.py).

        Raises:
            TurnLogError: another process keeps reading, so the write-ahead log still holds what was deleted.
        """
        # At first, what an earlier compaction did not get to.
        await self._migrate()
        await self._database.write("compact", self._background.switch_table, commits=BATCH_COMMITS)
        await self._migrate()
        await self._database.erase_in_time()

    async def _migrate(self) -> None:
        while await self._database.write("compact", self._background.migrate_batch, commits=BATCH_COMMITS):
            pass
