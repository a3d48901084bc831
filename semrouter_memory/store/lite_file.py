"""Milvus Lite's file as the SQLite database that it is: rewritten without what was deleted, and copied.

Strategy: SQLite's own locking keeps the file sound whatever happens here, a killed process included. It does not keep
Milvus Lite's *writes*: one that meets a locked file (a reader's lock suffices) is confirmed or half carried out, and lost
at the next start (tried with 2.5.1). So nobody may write through Milvus Lite while one of these functions runs. Its
reads come from its own memory and go on; but to search words it looks into the file, and fails while that is locked.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from semrouter_memory.errors import StoreUnavailableError

_BUSY_SECONDS = 10.0
"""How long a write that Milvus Lite is still at, for a caller who has given it up, is waited for."""


def is_sound(path: Path) -> bool:
    """Whether SQLite can read the file, as far as a quick look tells. For when Milvus Lite does not run."""
    try:
        with closing(_open(path)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False


def vacuum(path: Path) -> None:
    """Rewrite the file: what was deleted is in none of its pages afterwards, and the space is given back.

    Needs memory of the file's size while it runs: SQLite's temporary file would lie outside the data directory.

    Raises:
        StoreUnavailableError: it could not be done (no space, a lock); the file is what it was.
    """
    with _speaking("compact"), closing(_open(path)) as connection:
        connection.execute("PRAGMA temp_store = MEMORY").close()
        connection.execute("PRAGMA secure_delete = ON").close()
        _forget_unused_terms(connection)
        connection.execute("VACUUM").close()


def copy(path: Path, directory: Path) -> None:
    """Write a consistent copy, without what was deleted, into the directory, under the same name; it is on disk then.

    Raises:
        StoreUnavailableError: it could not be done, for example because there is a file of that name.
    """
    target = directory / path.name
    with _speaking("backup"), closing(_open(path)) as connection:
        _forget_unused_terms(connection)
        # SQLite fills an empty file; made here, nobody else can read it at any moment.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection.execute("VACUUM INTO ?", (str(target),)).close()
        for written in (target, directory):
            _sync(written)


def _forget_unused_terms(connection: sqlite3.Connection) -> None:
    """Milvus Lite counts the texts that hold a term, by the term's hash, and keeps those that it counts to zero.

    Who guesses a word could see that somebody once used it. A hash that is missing counts as zero for Milvus Lite.
    """
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'token_doc_count'").fetchone():
        connection.execute("DELETE FROM token_doc_count WHERE doc_count <= 0").close()


def _open(path: Path) -> sqlite3.Connection:
    # `mode=rw`: a file that is gone must not be made anew.
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _speaking(operation: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailableError(f"{operation}: {error.sqlite_errorname}") from None
    except OSError as error:
        raise StoreUnavailableError(f"{operation}: {error.strerror}") from None
