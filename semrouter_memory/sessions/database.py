"""The turn log's file: how it is opened, written, synced and closed.

Strategy. Two connections: `local` belongs to the event loop's thread (append, tombstones), `background` to the turn
log's own thread. Writes of both take turns on a lock of ours, because SQLite's own waiting sleeps for milliseconds where
a lock wakes at once; reads never wait (WAL).

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from semrouter_memory.errors import ConfigurationError, TurnLogError
from semrouter_memory.sessions.schema import migrate

CHECKPOINT_COMMITS = 256
"""About a thousand pages: where SQLite itself would checkpoint, but on the thread that happens to commit."""

_LOCAL_BUSY_SECONDS = 0.25
"""How long the loop's thread waits for another *process*; then the turn is refused rather than all traffic held up."""

_BACKGROUND_BUSY_SECONDS = 5.0
_ERASE_BUSY_MS = 50


class Database:
    """An open turn log file.

    Attributes:
        digest_key: the file's secret; digests made with it mean nothing elsewhere.

    Raises:
        ConfigurationError: the file cannot be created, read or written, is damaged, or is newer than this program.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._commits = 0
        self._connections: list[sqlite3.Connection] = []
        self._presence = -1
        try:
            self._open(path)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path) -> None:
        try:
            alone = self._prepare_files(path)
            # First the one that waits long, for another process may be setting the file up at this moment.
            self.background = self._connect(path, _BACKGROUND_BUSY_SECONDS)
            self.digest_key = self._bring_up_to_date(alone=alone)
            self.local = self._connect(path, _LOCAL_BUSY_SECONDS)
        except ConfigurationError as error:
            raise ConfigurationError(f"the turn log {path} cannot be used: {error}") from None
        except OSError as error:
            raise ConfigurationError(f"the turn log {path} cannot be opened: {error.strerror}") from error
        except sqlite3.OperationalError as error:
            raise ConfigurationError(f"the turn log {path} cannot be opened: {error}") from error
        except sqlite3.Error as error:
            raise ConfigurationError(
                f"the turn log {path} is damaged or no SQLite file ({error}); restore it, or move it away to begin"
                " with an empty one"
            ) from error

    def _prepare_files(self, path: Path) -> bool:
        """Create what is missing, for the owner's eyes only; returns whether no other process has the file open."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before SQLite opens it: the -wal and -shm files take over the mode. An existing file must not be opened here,
        # because closing it again would drop the locks that another connection of this process holds on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        path.chmod(0o600)
        self._presence = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._presence, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        else:
            alone = True
        fcntl.flock(self._presence, fcntl.LOCK_SH)
        return alone

    def _connect(self, path: Path, busy_seconds: float) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
        self._connections.append(connection)
        connection.execute("PRAGMA journal_mode = WAL").close()
        connection.execute("PRAGMA synchronous = NORMAL").close()
        connection.execute("PRAGMA secure_delete = ON").close()
        connection.execute("PRAGMA foreign_keys = ON").close()
        # Checkpoints sync, which takes milliseconds: they are ours to place.
        connection.execute("PRAGMA wal_autocheckpoint = 0").close()
        return connection

    def _bring_up_to_date(self, *, alone: bool) -> bytes:
        with self._transaction(self.background):
            key = migrate(self.background)
            if alone:
                # Leases of processes that are gone. Without this their sessions would wait for the leases to end.
                self.background.execute("UPDATE sessions SET token = NULL, lease_until = NULL WHERE token IS NOT NULL")
        return key

    @contextmanager
    def writing(self, connection: sqlite3.Connection, operation: str) -> Iterator[None]:
        """One transaction; raises `TurnLogError` when it cannot be committed, and then nothing of it is."""
        with failing_as_turn_log_error(operation), self._transaction(connection):
            yield

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
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

    @property
    def checkpoint_due(self) -> bool:
        return self._commits >= CHECKPOINT_COMMITS

    def checkpoint(self) -> None:
        """Sync what was committed since the last checkpoint. For the background thread; writers go on meanwhile."""
        if self._commits:
            self._commits = 0
            with failing_as_turn_log_error("checkpoint"):
                self.background.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def erase(self) -> None:
        """Sync, and take what was deleted out of the write-ahead log too (`secure_delete` sees to the file).

        For the background thread. Another process that is reading right now keeps the log's old pages until the next
        time; waiting for it would hold up the traffic.
        """
        self._commits = 1
        self.checkpoint()
        with failing_as_turn_log_error("erase"), self._lock:
            self.background.execute(f"PRAGMA busy_timeout = {_ERASE_BUSY_MS}").close()
            self.background.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.background.execute(f"PRAGMA busy_timeout = {int(_BACKGROUND_BUSY_SECONDS * 1000)}").close()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        if self._presence >= 0:
            os.close(self._presence)
            self._presence = -1


@contextmanager
def failing_as_turn_log_error(operation: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        # SQLite's messages name tables and conditions, never values.
        raise TurnLogError(f"turn log: {operation} failed: {error}") from error
