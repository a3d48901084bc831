"""The turn log's file: how it is opened, written, synced and closed.

Strategy. Three connections: `local` belongs to the event loop's thread (append, tombstones), `background` to the turn
log's own thread, `reading` to the one that reads what a request waits for. Writes of the first two take turns on a
lock of ours, because SQLite's own waiting sleeps for milliseconds where a lock wakes at once; reads never wait (WAL).

Other processes may write the same file. SQLite's own waiting for them sleeps longer and longer (12 looks in the first
quarter of a second) and starves beside writers that are faster; so a transaction that meets another process's lets go
of our lock and looks again about every millisecond. Nobody holds a transaction for longer than a batch takes.

`synchronous=NORMAL`: a commit is handed to the operating system but not synced. An append of 1 KB then takes 0.15 ms,
against 0.47 ms with FULL on a fast disk (and many times that on slower ones), on the thread that carries all traffic. A
killed process loses nothing. A power cut may lose the commits since the last checkpoint, never the file: checkpoints
run in the background every `CHECKPOINT_COMMITS` commits and whenever the pending sessions are looked at. Deletions are
synced before they return.
"""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from semrouter_memory.errors import TurnLogError
from semrouter_memory.sessions.connections import FileIdentity, connect, create_private, opening, primary_code
from semrouter_memory.sessions.damage import Failures, require_sound
from semrouter_memory.sessions.schema import migrate

CHECKPOINT_COMMITS = 256
"""About a thousand pages: where SQLite itself would checkpoint, but on the thread that happens to commit."""

LONG_LOG_PAGES = 16_384
"""64 MiB of write-ahead log, which steady traffic reaches because nothing else makes it begin anew."""

BATCH_LOG_PAGES = 2048
"""The same after batches of an upkeep, at whose end the log is emptied while writers wait."""

BATCH_COMMITS = 32
"""A batch of an upkeep counts as so many commits. The write-ahead log stays short, and what follows the batches quick."""

LOCAL_PATIENCE_SECONDS = 1.0
"""How long the loop's thread waits for another *process*; then the turn is refused rather than all traffic held up."""

_SPENT_PATIENCE_SECONDS = 0.02
"""The same right after such a refusal: a process that stands still in a transaction must not stop us at every turn."""

_BACKGROUND_PATIENCE_SECONDS = 5.0
_OPENING_PATIENCE_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = 0.001
_BUSY_MS = 3
"""SQLite's own waiting, within one look."""


_ERASE_BUSY_MS = 50


class Database:
    """An open turn log file.

    Attributes:
        digest_key: the file's secret; digests made with it mean nothing elsewhere.
        failures: what failed because of the file.

    Raises:
        ConfigurationError: the file cannot be created, read or written, is damaged, or is newer than this program.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._commits = 0
        self._local_patience = LOCAL_PATIENCE_SECONDS
        self._connections: list[sqlite3.Connection] = []
        self._presence = -1
        self.failures = Failures("turn log", path)
        try:
            with opening("turn log", path):
                self._open(path)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path) -> None:
        create_private(path)
        self._identity = FileIdentity(path)
        alone = self._note_presence(path)
        self.background = self._connect(path)
        require_sound(self.background)
        self.digest_key = self._bring_up_to_date(alone=alone)
        self.local = self._connect(path)
        self.reading = self._connect(path)
        for connection in self._connections:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}").close()

    def _note_presence(self, path: Path) -> bool:
        """Returns whether no other process has the file open."""
        self._presence = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._presence, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        else:
            alone = True
        fcntl.flock(self._presence, fcntl.LOCK_SH)
        return alone

    def _connect(self, path: Path) -> sqlite3.Connection:
        # Patiently, for another process may be setting the file up at this moment.
        connection = connect(path, busy_seconds=_OPENING_PATIENCE_SECONDS)
        self._connections.append(connection)
        # Checkpoints sync, which takes milliseconds: they are ours to place.
        connection.execute("PRAGMA wal_autocheckpoint = 0").close()
        return connection

    def _bring_up_to_date(self, *, alone: bool) -> bytes:
        # A migration replaces tables, and what refers to them must not be deleted along with the old ones.
        self.background.execute("PRAGMA foreign_keys = OFF").close()
        with self._transaction(self.background, _OPENING_PATIENCE_SECONDS):
            key = migrate(self.background)
            if alone:
                # Leases of processes that are gone. Without this their sessions would wait for the leases to end.
                self.background.execute("UPDATE sessions SET token = NULL, lease_until = NULL WHERE token IS NOT NULL")
        self.background.execute("PRAGMA foreign_keys = ON").close()
        return key

    def require_file(self) -> None:
        """Raise `TurnLogError` when the file is not there any more: what is written then is lost with the process."""
        if self._identity.is_gone:
            raise TurnLogError(f"turn log: {self.path} is gone; put it back, or restart to begin with an empty one")

    # -- transactions --------------------------------------------------------------------------------------------------

    @contextmanager
    def writing_local(self, operation: str) -> Iterator[None]:
        """Same as `writing`, on the event loop's thread."""
        began = False
        self.require_file()
        try:
            with self.failures.of(operation), self._transaction(self.local, self._local_patience):
                began = True
                self._local_patience = LOCAL_PATIENCE_SECONDS
                yield
        except TurnLogError:
            if not began:
                self._local_patience = _SPENT_PATIENCE_SECONDS
            raise

    @contextmanager
    def writing(self, operation: str, *, commits: int = 1) -> Iterator[None]:
        """One transaction; raises `TurnLogError` when it cannot be committed, and then nothing of it is.

        Args:
            commits: what it counts for towards the next checkpoint.
        """
        with (
            self.failures.of(operation),
            self._transaction(self.background, _BACKGROUND_PATIENCE_SECONDS),
        ):
            yield
            self._commits += commits - 1

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection, patience_seconds: float) -> Iterator[None]:
        self._begin(connection, patience_seconds)
        try:
            yield
            connection.execute("COMMIT")
            self._commits += 1
        except BaseException:
            with suppress(sqlite3.Error):
                connection.rollback()
            raise
        finally:
            self._lock.release()

    def _begin(self, connection: sqlite3.Connection, patience_seconds: float) -> None:
        """Take our lock and SQLite's; while another process has the latter, nobody of ours waits for the former."""
        deadline = time.monotonic() + patience_seconds
        while True:
            self._lock.acquire()
            try:
                connection.execute("BEGIN IMMEDIATE")
            except BaseException as error:
                self._lock.release()
                if not _is_busy(error) or time.monotonic() >= deadline:
                    raise
            else:
                return
            time.sleep(_LOOK_AGAIN_SECONDS)

    # -- the write-ahead log -------------------------------------------------------------------------------------------

    @property
    def checkpoint_due(self) -> bool:
        return self._commits >= CHECKPOINT_COMMITS

    def checkpoint(self, *, long_log_pages: int = LONG_LOG_PAGES) -> None:
        """Sync what was committed since the last checkpoint. For the background thread; writers go on meanwhile.

        Args:
            long_log_pages: from how many pages on the write-ahead log is made to begin anew.
        """
        if self._commits:
            self._commits = 0
            with self.failures.of("checkpoint"):
                if self._checkpoint() >= long_log_pages:
                    # It begins anew only when all of it is synced, which under steady traffic is never the case. What
                    # came since is little, so nobody waits long.
                    with self._lock:
                        self._checkpoint()

    def _checkpoint(self) -> int:
        """Returns how many pages the write-ahead log holds, synced or not."""
        ((_, pages, _),) = self.background.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return int(pages)

    def erase(self) -> bool:
        """Sync, and take what was deleted out of the write-ahead log too (`secure_delete` sees to the file).

        For the background thread. Writers wait for it, so it is given up soon.

        Returns:
            False when somebody reads right now, whose pages stay in the write-ahead log until the next time.
        """
        self._commits = 1
        self.checkpoint()
        with self.failures.of("erase"), self._lock:
            self.background.execute(f"PRAGMA busy_timeout = {_ERASE_BUSY_MS}").close()
            try:
                ((busy, *_),) = self.background.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self.background.execute(f"PRAGMA busy_timeout = {_BUSY_MS}").close()
        return not busy

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        if self._presence >= 0:
            os.close(self._presence)
            self._presence = -1


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and primary_code(error) == sqlite3.SQLITE_BUSY
