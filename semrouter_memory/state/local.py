"""What one process has for itself: small values and usage in a SQLite file, owners' locks and versions in memory.

They implement the ports `StateStore`, `OwnerLocks` and `OwnerVersions`.

Strategy of the file. One connection in one thread of its own for what changes the file, one in another for what is looked up, since
a request waits for look-ups, and rewriting the file takes as long as it is large. Nothing here is waited for on the event
loop's thread. A value that has ended is not returned any more, and `sweep` deletes it. Several processes may open the
same file: their writes wait for each other in that thread.
"""

import asyncio
import sqlite3
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from semrouter_memory.databases import micros, moment, pack
from semrouter_memory.databases.sqlite import Database, FileKind, create_tables
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Reach, Scope, Usage
from semrouter_memory.ports import RECEIPTS, Clock

_SCHEMA_VERSION = 2
_SCHEMA = (
    """CREATE TABLE state (
        owner BLOB NOT NULL,
        project_id BLOB NOT NULL,
        key BLOB NOT NULL,
        ends_at INTEGER NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (owner, project_id, key))""",
    "CREATE INDEX state_ending ON state (ends_at)",
    """CREATE TABLE usage (
        owner BLOB NOT NULL,
        memory_id BLOB NOT NULL,
        access_count INTEGER NOT NULL,
        last_accessed_at INTEGER NOT NULL,
        PRIMARY KEY (owner, memory_id)) WITHOUT ROWID""",
)


def _set_up(connection: sqlite3.Connection) -> bytes:
    create_tables(connection, _SCHEMA_VERSION, _SCHEMA)
    return b""


_STATE_FILE = FileKind("state file", _set_up, lambda message, _: UnavailableError(message, service=Service.STATE))


class SqliteStateStore:
    """Values and usage in one file, readable by its owner only.

    Args:
        path: the file; it and its directory are made when they are missing.

    Raises:
        ConfigurationError: the file cannot be used; the message names it and says why.
    """

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._clock = clock
        self._database = Database(path, _STATE_FILE)

    # -- values --------------------------------------------------------------------------------------------------------

    async def get(self, scope: Scope, keys: Sequence[str]) -> Mapping[str, bytes]:
        owner, project_id, now = pack(scope.owner), pack(scope.project_id), micros(self._clock.now())
        found = await self._read(
            "get",
            "SELECT value FROM state WHERE owner = ? AND project_id = ? AND key = ? AND ends_at > ?",
            {key: (owner, project_id, pack(key), now) for key in keys},
        )
        return {key: row[0] for key, row in found.items()}

    async def put(self, scope: Scope, key: str, value: bytes, *, ttl: timedelta) -> None:
        row = (pack(scope.owner), pack(scope.project_id), pack(key), micros(self._clock.now() + ttl), value)
        await self._write("put", "INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?)", [row])

    async def drop(self, scope: Scope, keys: Sequence[str]) -> None:
        await self._write(
            "drop",
            "DELETE FROM state WHERE owner = ? AND project_id = ? AND key = ?",
            [(pack(scope.owner), pack(scope.project_id), pack(key)) for key in keys],
        )

    # -- usage ---------------------------------------------------------------------------------------------------------

    async def count_uses(self, scope: Scope, uses: Mapping[str, int], *, at: datetime) -> None:
        await self._write(
            "count_uses",
            """INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET
                   access_count = access_count + excluded.access_count,
                   last_accessed_at = max(last_accessed_at, excluded.last_accessed_at)""",
            [(pack(scope.owner), pack(memory_id), count, micros(at)) for memory_id, count in uses.items()],
        )

    async def usage(self, scope: Scope, memory_ids: Sequence[str]) -> Mapping[str, Usage]:
        found = await self._read(
            "usage",
            "SELECT access_count, last_accessed_at FROM usage WHERE owner = ? AND memory_id = ?",
            {memory_id: (pack(scope.owner), pack(memory_id)) for memory_id in memory_ids},
        )
        return {memory_id: Usage(count, moment(last)) for memory_id, (count, last) in found.items()}

    async def drop_usage(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        await self._write(
            "drop_usage",
            "DELETE FROM usage WHERE owner = ? AND memory_id = ?",
            [(pack(scope.owner), pack(memory_id)) for memory_id in memory_ids],
        )

    # -- leaving -------------------------------------------------------------------------------------------------------

    async def forget(self, scope: Scope, reach: Reach) -> None:
        owner, project_id = pack(scope.owner), pack(scope.project_id)

        def forget() -> None:
            execute = self._database.background.execute
            if reach is Reach.EXACT:
                execute("DELETE FROM state WHERE owner = ? AND project_id = ?", (owner, project_id))
                # They may name what is forgotten.
                execute(
                    "DELETE FROM state WHERE owner = ? AND project_id = ? AND key = ?",
                    (owner, pack(""), pack(RECEIPTS)),
                )
            else:
                execute("DELETE FROM state WHERE owner = ?", (owner,))
                execute("DELETE FROM usage WHERE owner = ?", (owner,))

        await self._database.write("forget", forget)

    async def sweep(self) -> int:
        now = micros(self._clock.now())
        delete = "DELETE FROM state WHERE ends_at <= ?"
        return await self._database.write("sweep", lambda: self._database.background.execute(delete, (now,)).rowcount)

    async def compact(self) -> None:
        """Take what was deleted out of the files.

        Raises:
            UnavailableError: another process keeps reading; the write-ahead log still holds what was deleted.
        """
        # VACUUM, since SQLite does not overwrite what it moved from page to page. Look-ups go on meanwhile.
        await self._database.rewrite()

    async def backup(self, directory: Path) -> None:
        await self._database.backup(directory)

    def close(self) -> None:
        """Let the threads end what they were asked for, then close the file."""
        self._database.close()

    async def _read(
        self, operation: str, statement: str, arguments: Mapping[str, tuple[object, ...]]
    ) -> dict[str, tuple[Any, ...]]:
        """The row that is found with each of the arguments, where there is one."""

        def read() -> dict[str, tuple[Any, ...]]:
            execute = self._database.reading.execute
            rows = {name: execute(statement, each).fetchone() for name, each in arguments.items()}
            return {name: row for name, row in rows.items() if row}

        return await self._database.run(operation, read, thread="reading")

    async def _write(self, operation: str, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            await self._database.write(
                operation, lambda: self._database.background.executemany(statement, rows).close()
            )
            self._database.checkpoint_if_due()


# -- locks and versions ------------------------------------------------------------------------------------------------


class SureHold:
    """A lock that cannot be lost while it is held (implements the `OwnerHold` port)."""

    async def confirm(self) -> None:
        pass


class InProcessOwnerLocks:
    """One asyncio lock per owner, made on demand, dropped when unused; first come, first served. Not reentrant."""

    def __init__(self) -> None:
        self._locks = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def hold(self, scope: Scope) -> AsyncIterator[SureHold]:
        # Whoever holds the lock or waits for it is what keeps it.
        lock = self._locks.setdefault(scope.owner, asyncio.Lock())
        async with lock:
            yield SureHold()


_COUNTERS = 65_536


class InProcessOwnerVersions:
    """A number per owner, which begins at 0.

    A digest selects one of so many counters. Two owners may share one; then a write of one makes the other's memories be read
    again. The counters take the same memory however many owners there are.
    """

    def __init__(self) -> None:
        self._counters = array("Q", bytes(_COUNTERS * 8))

    async def current(self, scope: Scope) -> int:
        return self._counters[_index(scope)]

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        index = _index(scope)
        before = self._counters[index]
        self._counters[index] = before + 1
        return before, before + 1


def _index(scope: Scope) -> int:
    digest = blake2b(pack(scope.owner), digest_size=8, person=b"version").digest()
    return int.from_bytes(digest, "big") % _COUNTERS
