"""A SQLite file of the data directory: how it is opened, checked for damage, written, synced, copied and closed.

Files are made for their owner's eyes before SQLite opens them, since the -wal and -shm files take over the
mode. Every connection writes ahead (readers and writers do not wait for each other) and overwrites what it deletes.

Strategy. Three connections: `local` belongs to the event loop's thread (append, tombstones), `background` to the file's
own thread, `reading` to the one that reads what a request waits for. Writes of the first two take turns on a
lock of ours, because SQLite polls every few milliseconds and a lock wakes its waiter at once; reads never wait (WAL).

The turn log's file belongs to one process. A lock on a second file (`turns.db.lock`) makes a second process fail at its
start; the kernel releases it when the process ends, however that happens.

`synchronous=NORMAL`: a commit is handed to the operating system but not synced. An append of 1 KB then takes 0.15 ms,
against 0.47 ms with FULL on a fast disk (and many times that on slower ones), on the thread that carries all traffic. A
killed process loses nothing. A power cut may lose the commits since the last checkpoint, never the file: checkpoints
run in the background every `CHECKPOINT_COMMITS` commits and whenever the pending sessions are looked at. Deletions are
synced before they return.
"""

import asyncio
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import ConfigurationError, MemoryServiceError

T = TypeVar("T")

_SETTINGS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "secure_delete = ON",
    "foreign_keys = ON",
    # Checkpoints sync, which takes milliseconds: `Database` places them.
    "wal_autocheckpoint = 0",
    # Else VACUUM's copy is a file in the machine's directory for temporary ones.
    "temp_store = MEMORY",
)
_PRIMARY_CODE = 0xFF
_CHECK_SECONDS = 10.0
"""How long a start looks for damage: some gigabytes."""
_CHECK_STEPS = 100_000
"""Instructions of SQLite between two looks at the clock, some milliseconds."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

CHECKPOINT_COMMITS = 256
"""About a thousand pages: where SQLite itself would checkpoint, but on the thread that happens to commit."""

LONG_LOG_PAGES = 16_384
"""64 MiB of write-ahead log, which steady traffic reaches because nothing else makes it begin anew."""

BATCH_LOG_PAGES = 2048
"""The same after batches of a maintenance run, at whose end the log is emptied while writers wait."""

BATCH_COMMITS = 32
"""A batch of a maintenance run counts as so many commits. The write-ahead log stays short, and what follows the batches quick."""

_LOCAL_BUSY_SECONDS = 0.1
"""How long the loop's thread waits for a transaction that an operator's tool holds; then the turn is refused."""
_BUSY_SECONDS = 5.0
_ERASE_BUSY_SECONDS = 0.05
_ERASE_ATTEMPTS = 100
_ERASE_PAUSE_SECONDS = 0.05
"""A reader keeps the write-ahead log from being emptied: it is asked for five seconds."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file is used for.

    Attributes:
        name: in messages.
        set_up: makes the tables of a new file, in a write transaction; what it returns is `Database.digest_key`.
        error: makes the error of a message and a reason (see `TurnLogError`).
        one_process: no second process may open it.
    """

    name: str
    set_up: Callable[[sqlite3.Connection], bytes]
    error: Callable[[str, str], MemoryServiceError]
    one_process: bool = False


class Database:
    """An open file.

    Attributes:
        digest_key: the turn log's secret; digests made with it mean nothing elsewhere.
        damage: what failed first because the file is damaged, without content; "" as long as nothing did.

    Raises:
        ConfigurationError: the file cannot be created, read or written, is damaged, is newer than this program, or is
            open in another process.
    """

    def __init__(self, path: Path, kind: FileKind) -> None:
        self.path = path
        self.damage = ""
        self._kind = kind
        self._lock = threading.Lock()
        self._commits = 0
        with ExitStack() as opened, opening(kind.name, path):
            self._open(path, opened)
            self._opened = opened.pop_all()

    def _open(self, path: Path, opened: ExitStack) -> None:
        create_private(path)
        self._identity = file_identity(path)
        if self._kind.one_process:
            opened.callback(os.close, _lock_out_other_processes(path))

        def connected(busy_seconds: float) -> sqlite3.Connection:
            return opened.enter_context(closing(connect(path, busy_seconds=busy_seconds)))

        self.background = connected(_BUSY_SECONDS)
        require_sound(self.background)
        with self._transaction(self.background):
            self.digest_key = self._kind.set_up(self.background)
        self.local = connected(_LOCAL_BUSY_SECONDS)
        self.reading = connected(_BUSY_SECONDS)
        # Closed first: the threads end what they were asked for.
        self._threads = {
            name: opened.enter_context(ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{path.stem}-{name}"))
            for name in ("background", "reading")
        }

    def require_file(self) -> None:
        """Raise when the file is not there any more: what is written then is lost with the process."""
        if file_identity(self.path) != self._identity:
            message = f"{self._kind.name}: {self.path} is gone; put it back, or restart to begin with an empty one"
            raise self._kind.error(message, "log_failed")

    # -- transactions --------------------------------------------------------------------------------------------------

    @contextmanager
    def writing_local(self, operation: str) -> Iterator[None]:
        """A transaction on the event loop's thread."""
        self.require_file()
        with self.reporting(operation), self._transaction(self.local):
            yield
        self.checkpoint_if_due()

    def submit(self, work: Callable[[], T], *, thread: str = "background") -> Future[T]:
        """Work in a thread, in the order in which it is submitted."""
        try:
            return self._threads[thread].submit(work)
        except RuntimeError:
            raise self._kind.error(f"the {self._kind.name} is closed", "log_failed") from None

    async def run(self, operation: str, work: Callable[[], T], *, thread: str = "background") -> T:
        """Work in a thread, without a transaction."""
        return await asyncio.wrap_future(self.submit(partial(self._run, operation, work), thread=thread))

    async def write(self, operation: str, work: Callable[[], T], *, commits: int = 1) -> T:
        """Work in the background thread, in one transaction; when it fails, nothing of it is committed.

        Args:
            commits: what it counts for towards the next checkpoint.
        """
        return await self.run(operation, partial(self._write, work, commits))

    def _run(self, operation: str, work: Callable[[], T]) -> T:
        with self.reporting(operation):
            return work()

    @contextmanager
    def reporting(self, operation: str) -> Iterator[None]:
        """Turns SQLite's errors into those of the part that the file belongs to."""
        try:
            yield
        except sqlite3.Error as error:
            # SQLite's messages name tables and conditions, never values.
            message, reason = f"{self._kind.name}: {operation} failed: {error}", failure_reason(error)
            if reason == "log_damaged":
                self.damage = self.damage or f"{self.path.name}: {operation}: {error}"
                message = f"{message}; {self.path} is damaged"
            raise self._kind.error(message, reason) from error

    def _write(self, work: Callable[[], T], commits: int) -> T:
        with self._transaction(self.background):
            result = work()
            self._commits += commits - 1
        return result

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        with self._lock:
            with transaction(connection):
                yield
            self._commits += 1

    async def backup(self, directory: Path) -> None:
        """Copy the file into that directory; raises the file's error when it or the copy cannot be used."""
        try:
            await asyncio.to_thread(self._run, "backup", partial(copy_file, self.path, directory))
        except OSError as error:
            raise self._kind.error(f"{self._kind.name}: backup failed: {error}", "log_failed") from error

    # -- the write-ahead log -------------------------------------------------------------------------------------------

    @property
    def checkpoint_due(self) -> bool:
        return self._commits >= CHECKPOINT_COMMITS

    def checkpoint_if_due(self) -> None:
        """In the thread, without waiting for it."""
        if self.checkpoint_due:
            self.submit(self.checkpoint)

    def checkpoint(self, *, long_log_pages: int = LONG_LOG_PAGES) -> None:
        """Sync what was committed since the last checkpoint. For the background thread; writers go on meanwhile.

        Args:
            long_log_pages: from how many pages on the write-ahead log is made to begin anew.
        """
        if not (commits := self._commits):
            return
        self._commits = 0
        try:
            with self.reporting("checkpoint"):
                if self._checkpoint() >= long_log_pages:
                    # It begins anew only when all of it is synced, which under steady traffic is never the case. What
                    # came since is little, so no caller waits long.
                    with self._lock:
                        self._checkpoint()
        except MemoryServiceError:
            self._commits += commits
            raise

    def _checkpoint(self) -> int:
        """Returns how many pages the write-ahead log holds, synced or not."""
        ((_, pages, _),) = self.background.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return int(pages)

    def erase(self) -> bool:
        """Sync, and take what was deleted out of the write-ahead log too (`secure_delete` sees to the file).

        For the background thread. Writers wait for it, so it is given up soon.

        Returns:
            False when another process reads: the write-ahead log is emptied the next time.
        """
        self._commits = 1
        self.checkpoint()
        with self.reporting("erase"), self._lock:
            _set_busy_timeout(self.background, _ERASE_BUSY_SECONDS)
            try:
                ((busy, *_),) = self.background.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                _set_busy_timeout(self.background, _BUSY_SECONDS)
        return not busy

    async def erase_in_time(self) -> None:
        """Same as `erase`, repeated for some seconds; raises the file's error when a reader prevents it all the time."""
        for _ in range(_ERASE_ATTEMPTS):
            if await self.run("erase", self.erase):
                return
            await asyncio.sleep(_ERASE_PAUSE_SECONDS)
        message = f"{self._kind.name}: compact failed: another process keeps reading"
        raise self._kind.error(message, "log_failed")

    async def rewrite(self) -> None:
        """Write the file anew, without what SQLite left behind where it moved rows. Writers wait for all of it."""
        await self.run("compact", self._vacuum)
        await self.erase_in_time()

    def _vacuum(self) -> None:
        with self._lock:
            self.background.execute("VACUUM").close()

    def close(self) -> None:
        """Let the threads end their work, then close the file."""
        self._opened.close()


def _lock_out_other_processes(path: Path) -> int:
    """The lock's file, which holds it until it is closed."""
    try:
        return lock_file(path.with_name(path.name + ".lock"))
    except BlockingIOError:
        raise ConfigurationError(
            "another process has it open. A data directory belongs to one process: stop the other one, or give"
            " this one a memory.data_dir of its own (several sidecars share Redis, memory.redis.url)"
        ) from None


def _set_busy_timeout(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}").close()


# -- files -------------------------------------------------------------------------------------------------------------


def file_identity(path: Path) -> tuple[int, int] | None:
    """Another value when the file was removed, moved away or replaced. Takes two microseconds."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for every turn; pathlib takes three times as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's result without what it adds to it; 0 for an error of the Python module itself."""
    return int(getattr(error, "sqlite_errorcode", 0)) & _PRIMARY_CODE


def create_private(path: Path) -> None:
    """Create what is missing of the file and its directory; whatever was there, the file is its owner's alone after."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An existing file must not be opened here, because closing it again would drop the locks that another connection
    # of this process holds on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    path.chmod(0o600)


def connect(path: Path, *, busy_seconds: float) -> sqlite3.Connection:
    """A connection for one thread at a time; transactions are the caller's to begin and to end."""
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}").close()
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A write transaction: committed at the end, rolled back after an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.rollback()
        raise


@contextmanager
def opening(what: str, path: Path) -> Iterator[None]:
    """Turns what fails while a file is opened into a `ConfigurationError` that names it and says what to do."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"the {what} {path} cannot be used: {error}") from None
    except (OSError, sqlite3.OperationalError) as error:
        reason = getattr(error, "strerror", error)
        raise ConfigurationError(f"the {what} {path} cannot be opened: {reason}") from error
    except sqlite3.Error as error:
        raise ConfigurationError(
            f"the {what} {path} is damaged or no SQLite file ({error}); restore it, or move it away to begin"
            " with an empty one"
        ) from error


def create_tables(connection: sqlite3.Connection, known: int, schema: Iterable[str]) -> bool:
    """Make the tables of a new file; returns whether it was new. Needs an open write transaction.

    Raises:
        ConfigurationError: it has another version than the known one: another version of this program wrote it.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, known):
        raise ConfigurationError(
            f"it has schema version {version}, and this program knows {known}: another version of this program wrote it."
            " Start that version on it, or move it away to begin with an empty one (docs/operations.md, Another version)"
        )
    if version == 0:
        for statement in (*schema, f"PRAGMA user_version = {known}"):
            connection.execute(statement)
    return bool(version == 0)


def copy_file(path: Path, directory: Path) -> None:
    """Write a consistent copy of a file that is in use into an existing directory, where there is none yet.

    For a thread of its own: it takes as long as the file is large. Writers go on meanwhile; what they write after the
    copy began is not in it.

    Raises:
        OSError: the directory cannot be written, or has a file of that name.
        sqlite3.Error: the file cannot be read.
    """
    target = directory / path.name
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(path)) as origin, closing(sqlite3.connect(target)) as copy:
        # All pages in one step: in several, each commit in between would start the copy anew.
        origin.backup(copy)
    sync(target)
    sync(directory)


def lock_file(path: Path) -> int:
    """A descriptor that holds the file's lock until it is closed, or the process ends.

    Raises:
        BlockingIOError: somebody else holds it.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def sync(path: Path) -> None:
    """Bring a file, or a directory's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def failure_reason(error: sqlite3.Error) -> str:
    """The reason of an error in use, as the turn log's errors name it (see `TurnLogError`)."""
    code = _primary_code(error)
    if code in _DAMAGED:
        return "log_damaged"
    return "log_full" if code == sqlite3.SQLITE_FULL else "log_failed"


def require_sound(connection: sqlite3.Connection) -> None:
    """Raise when the file is damaged anywhere, as far as that is found out in time.

    Raises:
        ConfigurationError: it is; the message says what to do.
        sqlite3.DatabaseError: same, where not even the check can be made.
    """
    deadline = time.monotonic() + _CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_STEPS)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if _primary_code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        return
    finally:
        connection.set_progress_handler(None, 0)
    if found != ("ok",):
        raise ConfigurationError("it is damaged; restore it, or move it away to begin with an empty one")
