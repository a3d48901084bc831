"""Damage to a SQLite file: found when the file is opened, and noticed when an operation fails because of it."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from semrouter_memory.errors import ConfigurationError, MemoryServiceError
from semrouter_memory.turn_log.sqlite.connections import primary_code

_CHECK_SECONDS = 10.0
"""How long a start looks for damage: some gigabytes."""
_CHECK_STEPS = 100_000
"""Instructions of SQLite between two looks at the clock, some milliseconds."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Failures:
    """Turns SQLite's errors of one file into those of the part that it belongs to.

    Args:
        what: the part's name in messages.
        error: makes an error of a message and a reason (see `TurnLogError`).

    Attributes:
        damage: what failed first because the file is damaged; "" as long as nothing did.
    """

    def __init__(self, what: str, path: Path, error: Callable[[str, str], MemoryServiceError]) -> None:
        self._what = what
        self._error = error
        self._path = path
        self.damage = ""

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = primary_code(error)
            # SQLite's messages name tables and conditions, never values.
            reason = f"{self._what}: {operation} failed: {error}"
            if code in _DAMAGED:
                self.damage = self.damage or f"{self._path.name}: {operation}: {error}"
                raise self._error(f"{reason}; {self._path} is damaged", "log_damaged") from error
            raise self._error(reason, "log_full" if code == sqlite3.SQLITE_FULL else "log_failed") from error


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
        if primary_code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        return
    finally:
        connection.set_progress_handler(None, 0)
    if found != ("ok",):
        raise ConfigurationError("it is damaged; restore it, or move it away to begin with an empty one")
