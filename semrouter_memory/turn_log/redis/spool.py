"""The local file where turns are accepted, until they are shipped to Redis.

Strategy. One commit per turn, on the event loop's thread, as durable as the SQLite turn log's: `synchronous=NORMAL`, so
a killed process loses nothing, and a power cut loses what was committed since the last checkpoint, never the file.
Everything else runs in one thread of the spool's own.

Each opening of the file is a *run* with a random name, and turns are numbered within it. Redis remembers the last number
of each run, so a turn is shipped once whatever happens between its arrival there and its deletion here; and a file that
comes back older than it was (power cut, restored copy) neither repeats turns nor has new ones taken for old.
"""

import asyncio
import itertools
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import Reach, Scope, Tombstone
from semrouter_memory.turn_log.columns import micros, pack, unpack
from semrouter_memory.turn_log.sqlite.connections import (
    FileIdentity,
    connect,
    copy_file,
    create_private,
    opening,
    schema_version,
)
from semrouter_memory.turn_log.sqlite.damage import Failures, require_sound

T = TypeVar("T")

_CHECKPOINT_COMMITS = 256
_LOCAL_BUSY_SECONDS = 0.25
_BACKGROUND_BUSY_SECONDS = 5.0
_SCHEMA_VERSION = 1
_SCHEMA = (
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    # payload: NULL once the turn was deleted before it was shipped; then only the count of it is.
    """CREATE TABLE turns (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        number INTEGER NOT NULL,
        complete INTEGER NOT NULL,
        observed_at INTEGER NOT NULL,
        user_id BLOB NOT NULL,
        project_id BLOB NOT NULL,
        agent_id BLOB NOT NULL,
        payload BLOB)""",
)
_DIGEST_KEY = "digest_key"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A turn on its way.

    Attributes:
        key: where it stands in this file.
        run: with `number`, what Redis knows it by.
        payload: None for a turn that was deleted meanwhile.
    """

    key: int
    run: str
    number: int
    complete: bool
    scope: Scope
    payload: bytes | None


class Spool:
    """An open spool file, readable by its owner only.

    Attributes:
        failures: what failed because of the file.

    Raises:
        ConfigurationError: the file cannot be used; the message names it and says why.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.failures = Failures("turn spool", path)
        self.run = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._commits = 0
        self._lock = threading.Lock()
        with opening("turn spool", path):
            create_private(path)
            self._identity = FileIdentity(path)
            self._background = connect(path, busy_seconds=_BACKGROUND_BUSY_SECONDS)
            require_sound(self._background)
            self._set_up()
            self._local = connect(path, busy_seconds=_LOCAL_BUSY_SECONDS)
        for connection in (self._background, self._local):
            # Checkpoints sync, which takes milliseconds: they are ours to place.
            connection.execute("PRAGMA wal_autocheckpoint = 0").close()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="turn-spool")

    def _set_up(self) -> None:
        with self._writing(self._background):
            if schema_version(self._background, _SCHEMA_VERSION) == 0:
                for statement in _SCHEMA:
                    self._background.execute(statement)
                self._background.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    # -- where it is called --------------------------------------------------------------------------------------------

    def append(self, scope: Scope, payload: bytes, *, observed_at: int, complete: bool) -> None:
        """Commit a turn."""
        if self._identity.is_gone:
            raise TurnLogError(f"turn spool: {self._path} is gone; put it back, or restart to begin with an empty one")
        ids = (pack(scope.user_id), pack(scope.project_id), pack(scope.agent_id))
        with self.failures.of("append"), self._writing(self._local):
            self._local.execute(
                """INSERT INTO turns (run, number, complete, observed_at, user_id, project_id, agent_id, payload)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
                (self.run, next(self._numbers), complete, observed_at, *ids, payload),
            )
        if self._commits >= _CHECKPOINT_COMMITS:
            self._submit(self._checkpoint)

    def digest_key(self) -> bytes | None:
        """The shared key, as it was known last."""
        with self.failures.of("digest key"):
            row = self._local.execute("SELECT value FROM settings WHERE name = ?", (_DIGEST_KEY,)).fetchone()
        return bytes(row[0]) if row else None

    # -- in the thread -------------------------------------------------------------------------------------------------

    async def first(self, limit: int, *, after: int) -> list[Parcel]:
        """The turns beyond that key that wait longest, in the order in which they were accepted."""
        return await self._run("read", lambda: self._first(limit, after))

    async def remove(self, through: int) -> None:
        """All turns up to that key."""
        await self._change("remove", lambda: self._remove(through))

    async def put_last(self, parcel: Parcel) -> int:
        """Let the others go first; returns its number in this run."""
        return await self._change("put last", lambda: self._put_last(parcel))

    async def forget(self, tombstone: Tombstone) -> int:
        """Take away what was said in turns that a deletion of a scope covers; returns how many. Their counts stay."""
        return await self._change("forget", lambda: self._forget(tombstone))

    async def forget_parcel(self, parcel: Parcel) -> None:
        """The same for one turn, which came out as forgotten."""
        await self._change(
            "forget",
            lambda: self._background.execute(
                "UPDATE turns SET payload = NULL, user_id = x'', project_id = x'', agent_id = x'' WHERE key = ?",
                (parcel.key,),
            ).close(),
        )

    async def runs(self) -> list[str]:
        return await self._run("runs", self._runs)

    async def accepted_after(self, shipped: Mapping[str, int]) -> int:
        """How many complete turns wait, beyond the numbers that Redis has of each run."""
        return await self._run("count", lambda: self._accepted_after(shipped))

    async def remember_digest_key(self, key: bytes) -> None:
        await self._change("remember key", lambda: self._remember_digest_key(key))

    async def checkpoint(self) -> None:
        await asyncio.wrap_future(self._submit(self._checkpoint))

    async def erase(self) -> None:
        """Sync, and take what was deleted out of the write-ahead log too (`secure_delete` sees to the file)."""
        await self._run("erase", self._erase)

    async def compact(self) -> None:
        """Overwrite everything in the file that is not in use.

        SQLite overwrites what it deletes, but not what it moved from page to page; an emptied table has none of it.
        """
        await self._run("compact", self._compact)
        await self.erase()

    async def backup(self, directory: Path) -> None:
        try:
            await asyncio.wrap_future(self._submit(lambda: copy_file(self._path, directory)))
        except (OSError, sqlite3.Error) as error:
            raise TurnLogError(f"turn spool: backup failed: {error}") from error

    def close(self) -> None:
        """Let the thread end what it was asked for, then close the file."""
        self._thread.shutdown()
        self._local.close()
        self._background.close()

    # -- the work ------------------------------------------------------------------------------------------------------

    def _first(self, limit: int, after: int) -> list[Parcel]:
        rows = self._background.execute(
            """SELECT key, run, number, complete, user_id, project_id, agent_id, payload
               FROM turns WHERE key > ? ORDER BY key LIMIT ?""",
            (after, limit),
        ).fetchall()
        return [
            Parcel(key, run, number, bool(complete), Scope(unpack(user), unpack(project), unpack(agent)), payload)
            for key, run, number, complete, user, project, agent, payload in rows
        ]

    def _remove(self, through: int) -> None:
        self._background.execute("DELETE FROM turns WHERE key <= ?", (through,))
        if self._background.execute("SELECT 1 FROM turns LIMIT 1").fetchone() is None:
            # Without a condition, SQLite gives all pages back at once, and overwrites them.
            self._background.execute("DELETE FROM turns")

    def _put_last(self, parcel: Parcel) -> int:
        number = next(self._numbers)
        self._background.execute(
            "UPDATE turns SET key = (SELECT max(key) + 1 FROM turns), run = ?, number = ? WHERE key = ? AND run = ?",
            (self.run, number, parcel.key, parcel.run),
        )
        return number

    def _forget(self, tombstone: Tombstone) -> int:
        return self._background.execute(
            """UPDATE turns SET payload = NULL, user_id = x'', project_id = x'', agent_id = x''
               WHERE payload IS NOT NULL AND user_id = ? AND (? = ? OR project_id = ?) AND observed_at <= ?""",
            (
                pack(tombstone.scope.user_id),
                tombstone.reach,
                Reach.ALL,
                pack(tombstone.scope.project_id),
                micros(tombstone.at),
            ),
        ).rowcount

    def _runs(self) -> list[str]:
        return [run for (run,) in self._background.execute("SELECT DISTINCT run FROM turns").fetchall()]

    def _accepted_after(self, shipped: Mapping[str, int]) -> int:
        rows = self._background.execute("SELECT run, number FROM turns WHERE complete").fetchall()
        return sum(number > shipped.get(run, 0) for run, number in rows)

    def _remember_digest_key(self, key: bytes) -> None:
        self._background.execute(
            "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (_DIGEST_KEY, key),
        )

    def _checkpoint(self) -> None:
        if self._commits:
            self._commits = 0
            with suppress(sqlite3.Error):
                self._background.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _compact(self) -> None:
        with self._lock:
            # All at once, since few turns are here but in a long outage; turns are accepted after that again.
            self._background.execute("VACUUM").close()

    def _erase(self) -> None:
        with self._lock:
            self._background.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # -- the thread ----------------------------------------------------------------------------------------------------

    async def _run(self, operation: str, work: Callable[[], T]) -> T:
        def failing() -> T:
            with self.failures.of(operation):
                return work()

        return await asyncio.wrap_future(self._submit(failing))

    async def _change(self, operation: str, work: Callable[[], T]) -> T:
        def changing() -> T:
            with self._writing(self._background):
                return work()

        return await self._run(operation, changing)

    def _submit(self, work: Callable[[], T]) -> "Future[T]":
        try:
            return self._thread.submit(work)
        except RuntimeError:
            raise TurnLogError("the turn log is closed") from None

    @contextmanager
    def _writing(self, connection: sqlite3.Connection) -> Iterator[None]:
        # A lock of ours: SQLite's own waiting sleeps for milliseconds where a lock wakes at once.
        with self._lock:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.rollback()
                raise
            self._commits += 1
