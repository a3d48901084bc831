"""Small values that end by themselves, in a local SQLite file (implements the `StateStore` port).

Strategy. One connection in one thread of its own for what changes the file, one in another for what is looked up, since
a request waits for look-ups, and rewriting the file takes as long as it is large. Nothing here is waited for on the event
loop's thread. What has ended is not given out from that moment, and deleted by `sweep`. Several processes may open the
same file: their writes wait for each other in that thread.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Reach, Scope, Usage
from semrouter_memory.ports import Clock
from semrouter_memory.turn_log.columns import micros, moment, pack
from semrouter_memory.turn_log.sqlite.connections import connect, copy_file, create_private, opening, schema_version
from semrouter_memory.turn_log.sqlite.damage import require_sound

_T = TypeVar("_T")

_BUSY_SECONDS = 5.0
_ERASE_ATTEMPTS = 100
_ERASE_PAUSE_SECONDS = 0.05
_SCHEMA_VERSION = 1
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS state (
        user_id BLOB NOT NULL,
        project_id BLOB NOT NULL,
        key BLOB NOT NULL,
        ends_at INTEGER NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (user_id, project_id, key))""",
    "CREATE INDEX IF NOT EXISTS state_ending ON state (ends_at)",
    """CREATE TABLE IF NOT EXISTS usage (
        user_id BLOB NOT NULL,
        memory_id BLOB NOT NULL,
        access_count INTEGER NOT NULL,
        last_accessed_at INTEGER NOT NULL,
        PRIMARY KEY (user_id, memory_id)) WITHOUT ROWID""",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)


class SqliteStateStore:
    """Values and usage in one file, readable by its owner only.

    Args:
        path: the file; it and its directory are made when they are missing.

    Raises:
        ConfigurationError: the file cannot be used; the message names it and says why.
    """

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        with opening("state file", path):
            create_private(path)
            self._connection = connect(path, busy_seconds=_BUSY_SECONDS)
            try:
                require_sound(self._connection)
                self._set_up()
                self._reading = connect(path, busy_seconds=_BUSY_SECONDS)
            except BaseException:
                self._connection.close()
                raise
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state-store")
        self._reading_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state-lookup")

    def _set_up(self) -> None:
        # VACUUM's copy would otherwise be a file in the machine's directory for temporary ones.
        self._connection.execute("PRAGMA temp_store = MEMORY").close()
        with _transaction(self._connection):
            schema_version(self._connection, _SCHEMA_VERSION)
            for statement in _SCHEMA:
                self._connection.execute(statement)

    # -- values --------------------------------------------------------------------------------------------------------

    async def get(self, scope: Scope, keys: Sequence[str]) -> Mapping[str, bytes]:
        now = micros(self._clock.now())

        def read() -> dict[str, bytes]:
            found = {}
            for key in keys:
                row = self._reading.execute(
                    "SELECT value FROM state WHERE user_id = ? AND project_id = ? AND key = ? AND ends_at > ?",
                    (pack(scope.user_id), pack(scope.project_id), pack(key), now),
                ).fetchone()
                if row:
                    found[key] = row[0]
            return found

        return await self._look_up("get", read)

    async def put(self, scope: Scope, key: str, value: bytes, *, ttl: timedelta) -> None:
        row = (pack(scope.user_id), pack(scope.project_id), pack(key), micros(self._clock.now() + ttl), value)
        await self._write("put", "INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?)", [row])

    async def drop(self, scope: Scope, keys: Sequence[str]) -> None:
        await self._write(
            "drop",
            "DELETE FROM state WHERE user_id = ? AND project_id = ? AND key = ?",
            [(pack(scope.user_id), pack(scope.project_id), pack(key)) for key in keys],
        )

    # -- usage ---------------------------------------------------------------------------------------------------------

    async def count_uses(self, scope: Scope, uses: Mapping[str, int], *, at: datetime) -> None:
        await self._write(
            "count_uses",
            """INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET
                   access_count = access_count + excluded.access_count,
                   last_accessed_at = max(last_accessed_at, excluded.last_accessed_at)""",
            [(pack(scope.user_id), pack(memory_id), count, micros(at)) for memory_id, count in uses.items()],
        )

    async def usage(self, scope: Scope, memory_ids: Sequence[str]) -> Mapping[str, Usage]:
        def read() -> dict[str, Usage]:
            found = {}
            for memory_id in memory_ids:
                row = self._reading.execute(
                    "SELECT access_count, last_accessed_at FROM usage WHERE user_id = ? AND memory_id = ?",
                    (pack(scope.user_id), pack(memory_id)),
                ).fetchone()
                if row:
                    found[memory_id] = Usage(row[0], moment(row[1]))
            return found

        return await self._look_up("usage", read)

    async def drop_usage(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        await self._write(
            "drop_usage",
            "DELETE FROM usage WHERE user_id = ? AND memory_id = ?",
            [(pack(scope.user_id), pack(memory_id)) for memory_id in memory_ids],
        )

    # -- leaving -------------------------------------------------------------------------------------------------------

    async def forget(self, scope: Scope, reach: Reach) -> None:
        user_id, project_id = pack(scope.user_id), pack(scope.project_id)

        def forget() -> None:
            with _transaction(self._connection):
                if reach is Reach.EXACT:
                    self._connection.execute(
                        "DELETE FROM state WHERE user_id = ? AND project_id = ?", (user_id, project_id)
                    )
                else:
                    self._connection.execute("DELETE FROM state WHERE user_id = ?", (user_id,))
                    self._connection.execute("DELETE FROM usage WHERE user_id = ?", (user_id,))

        await self._run("forget", forget)

    async def sweep(self) -> int:
        now = micros(self._clock.now())

        def sweep() -> int:
            with _transaction(self._connection):
                return self._connection.execute("DELETE FROM state WHERE ends_at <= ?", (now,)).rowcount

        return await self._run("sweep", sweep)

    async def compact(self) -> None:
        """Take what was deleted out of the files.

        Raises:
            UnavailableError: another process keeps reading; what is deleted is in the write-ahead log still.
        """
        # VACUUM, since SQLite does not overwrite what it moved from page to page. Look-ups go on meanwhile.
        await self._run("compact", lambda: self._connection.execute("VACUUM").close())
        for _ in range(_ERASE_ATTEMPTS):
            if await self._run("compact", self._erase):
                return
            await asyncio.sleep(_ERASE_PAUSE_SECONDS)
        raise UnavailableError("state: compact failed: another process keeps reading", service=Service.STATE)

    def _erase(self) -> bool:
        ((busy, *_),) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return not busy

    async def backup(self, directory: Path) -> None:
        def copy() -> None:
            with _failing_as_state_store_error("backup"):
                copy_file(self._path, directory)

        await asyncio.to_thread(copy)

    def close(self) -> None:
        """Let the thread end what it was asked for, then close the file."""
        for thread in (self._thread, self._reading_thread):
            thread.shutdown()
        for connection in (self._reading, self._connection):
            connection.close()

    # -- the thread ----------------------------------------------------------------------------------------------------

    async def _write(self, operation: str, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def write() -> None:
            with _transaction(self._connection):
                self._connection.executemany(statement, rows)

        if rows:
            await self._run(operation, write)

    async def _run(self, operation: str, work: Callable[[], _T]) -> _T:
        return await asyncio.wrap_future(_submit(self._thread, partial(_in_thread, operation, work)))

    async def _look_up(self, operation: str, work: Callable[[], _T]) -> _T:
        return await asyncio.wrap_future(_submit(self._reading_thread, partial(_in_thread, operation, work)))


def _submit(thread: ThreadPoolExecutor, work: Callable[[], _T]) -> Future[_T]:
    try:
        return thread.submit(work)
    except RuntimeError:
        raise UnavailableError("the state store is closed", service=Service.STATE) from None


def _in_thread(operation: str, work: Callable[[], _T]) -> _T:
    with _failing_as_state_store_error(operation):
        return work()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.rollback()
        raise


@contextmanager
def _failing_as_state_store_error(operation: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        # SQLite's messages name tables and conditions, never values.
        raise UnavailableError(f"state: {operation} failed: {error}", service=Service.STATE) from error
    except OSError as error:
        raise UnavailableError(f"state: {operation} failed: {error}", service=Service.STATE) from error
