"""How the SQLite files of the data directory are opened, checked for damage, written and copied.

Strategy. Files are made for their owner's eyes before SQLite opens them, since the -wal and -shm files take over the
mode. Every connection writes ahead (readers and writers do not wait for each other) and overwrites what it deletes.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from semrouter_memory.errors import ConfigurationError

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
_COPY_SUFFIX = ".part"
_PRIMARY_CODE = 0xFF
_SIDE_FILES = ("-wal", "-shm")
_CHECK_SECONDS = 10.0
"""How long a start looks for damage: some gigabytes."""
_CHECK_STEPS = 100_000
"""Instructions of SQLite between two looks at the clock, some milliseconds."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


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


def is_new(connection: sqlite3.Connection, known: int) -> bool:
    """Whether the file has no schema yet.

    Raises:
        ConfigurationError: it has another version than the known one: another version of this program wrote it.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, known):
        raise ConfigurationError(
            f"it has schema version {version}, and this program knows {known}: start the"
            f" {'newer' if version > known else 'older'} program on it, or point memory.data_dir elsewhere"
        )
    return bool(version == 0)


def copy_file(path: Path, directory: Path) -> None:
    """Write a consistent copy of a file that is in use into an existing directory; an older copy there is replaced.

    For a thread of its own: it takes as long as the file is large. Writers go on meanwhile; what they write after the
    copy began is not in it.

    Raises:
        OSError: the directory cannot be written, or it is the file's own.
        sqlite3.Error: the file cannot be read.
    """
    target = directory / path.name
    if target.exists() and target.samefile(path):
        raise OSError(f"{directory} holds the file that is to be copied")
    part = target.with_name(target.name + _COPY_SUFFIX)
    part.unlink(missing_ok=True)
    create_private(part)
    with closing(sqlite3.connect(path)) as origin, closing(sqlite3.connect(part)) as copy:
        # All pages in one step: in several, each commit in between would start the copy anew.
        origin.backup(copy)
    for suffix in _SIDE_FILES:
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    part.replace(target)
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
