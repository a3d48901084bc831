"""Which memories were copied from one collection to another: a small file beside the other ones.

It holds digests of ids only. Losing it is no harm: what was copied then counts as the target's own and stays.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeAlias

from semrouter_memory.errors import ConfigurationError

Key: TypeAlias = tuple[str, str]
"""User and memory id."""

_DIGEST_BYTES = 16


class CopiesFile:
    """Implements `CopyLedger` for one source and one target. Use `opened`."""

    def __init__(self, connection: sqlite3.Connection, pair: bytes) -> None:
        self._connection = connection
        self._pair = pair

    @classmethod
    @contextmanager
    def opened(cls, path: Path, *, place: str, source: str, target: str) -> Iterator[Self]:
        """Open the file, or make it, readable by its owner only.

        Args:
            place: where both collections are.

        Raises:
            ConfigurationError: it cannot be used.
        """
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute(
                "CREATE TABLE IF NOT EXISTS copies (pair BLOB, memory BLOB, PRIMARY KEY (pair, memory)) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"cannot use {path} ({type(error).__name__})") from None
        try:
            yield cls(connection, _digest(place, source, target))
        finally:
            connection.close()

    def add(self, keys: Sequence[Key]) -> None:
        """See `CopyLedger`; they are in the file when this returns."""
        rows = [(self._pair, _digest(*key)) for key in keys]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR IGNORE INTO copies VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")

    def known(self, keys: Sequence[Key]) -> set[Key]:
        """See `CopyLedger`."""
        return {key for key in keys if self._has(_digest(*key))}

    def _has(self, digest: bytes) -> bool:
        query = "SELECT 1 FROM copies WHERE pair = ? AND memory = ?"
        return self._connection.execute(query, (self._pair, digest)).fetchone() is not None


def _digest(*parts: str) -> bytes:
    """Parts do not run into each other: each is preceded by its length."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join(b"%d:%b" % (len(part), part) for part in encoded)
    return hashlib.blake2b(framed, digest_size=_DIGEST_BYTES).digest()
