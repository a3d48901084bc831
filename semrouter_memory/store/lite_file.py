"""Milvus Lite's file as the SQLite database that it is: indexed, vacuumed, copied, revealed; and whether its disk has space.

Strategy: SQLite's own locking keeps the file sound whatever happens here, a killed process included. It does not keep
Milvus Lite's *writes*: one that meets a locked file (a reader's lock suffices) is confirmed or half carried out, and lost
at the next start (tried with 2.5.1). So nothing may write through Milvus Lite while one of these functions runs. Its
reads come from its own memory and go on; but to search words it looks into the file, and fails while that is locked.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pymilvus.grpc_gen.schema_pb2 import StructArrayField

from semrouter_memory.databases.sqlite import sync
from semrouter_memory.errors import StoreUnavailableError

_BUSY_SECONDS = 10.0
"""Maximum wait for a write that Milvus Lite is still carrying out for a caller that has given up."""

_STAMP = "Timestamp"
_EARLIEST = 1
_LOGICAL_BITS = 18
"""Of a stamp; the others are milliseconds since 1970."""

_SPARE_BYTES = 1 << 20
"""For SQLite's journal and its pages, besides the rows."""

_ROW_BYTES = 16 << 10
"""A row with its vector and the words of its text; more than most take."""

_LEFT_BYTES = 128 << 10
"""With less than this left after a write, it may not have fitted."""


def is_sound(path: Path) -> bool:
    """Whether SQLite can read the file, as far as a quick look tells. For when Milvus Lite does not run."""
    try:
        with closing(_open(path)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.Error:
        return False


def ensure_free(path: Path, *, rows: int = 0) -> None:
    """Check the free disk space before so many rows are written, or (0) after that.

    Milvus Lite confirms a write that the disk refused, keeps the rows in its own memory and has lost them at its next start (tried
    with 2.5.1). So it is only asked to write while there is space; if the space ended during a write, its process has to be
    restarted, so that it reads what is really in the file.

    Raises:
        StoreUnavailableError: the rows may not fit, or may not have fitted (`disk_full`); or the file is gone.
    """
    wanted = _SPARE_BYTES + rows * _ROW_BYTES if rows else _LEFT_BYTES
    try:
        disk = os.statvfs(path)
    except OSError as error:
        raise StoreUnavailableError(f"upsert: {error.strerror}") from None
    if disk.f_bavail * disk.f_frsize < wanted:
        raise StoreUnavailableError("upsert: the disk is full", disk_full=True)


def index_keys(path: Path) -> None:
    """Give each collection an index of its keys, which Milvus Lite does not.

    Without it, each upsert and deletion reads all rows, and reads wait for it: 70 ms with 20,000 rows, with it 5. It is made
    another time where it cannot be made now.
    """
    with suppress(sqlite3.Error), closing(_open(path)) as connection:
        for table in _collections(connection):
            connection.execute(f'CREATE INDEX IF NOT EXISTS {table[:-1]} by key" ON {table} (milvus_id)').close()


def vacuum(path: Path) -> None:
    """Rewrite the file: what was deleted is in none of its pages afterwards, and the space is given back.

    Needs memory of the file's size while it runs: SQLite's temporary file would lie outside the data directory.

    Raises:
        StoreUnavailableError: it could not be done (no space, a lock); the file is what it was.
    """
    with _store_errors("compact"), closing(_open(path)) as connection:
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
    with _store_errors("backup"), closing(_open(path)) as connection:
        _forget_unused_terms(connection)
        # SQLite fills an empty file; made here, no other user can read it at any moment.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection.execute("VACUUM INTO ?", (str(target),)).close()
        for written in (target, directory):
            sync(written)


def reveal(path: Path) -> int:
    """Give rows that are stamped with a later time than now the earliest one; returns how many.

    For when Milvus Lite does not run: it reads the stamps when it starts, and sees no row that comes from its future.

    Raises:
        StoreUnavailableError: it could not be done; the file is what it was.
    """
    now = time.time_ns() // 1_000_000 << _LOGICAL_BITS
    revealed = 0
    with _store_errors("reveal"), closing(_open(path)) as connection:
        connection.execute("BEGIN IMMEDIATE").close()
        for table in _collections(connection):
            # Milvus Lite stores bytes as text; a row is read by its key, since the table may not fit into memory.
            for (key,) in connection.execute(f"SELECT id FROM {table}").fetchall():  # noqa: S608 - quoted
                (data,) = connection.execute(
                    f"SELECT CAST(data AS BLOB) FROM {table} WHERE id = ?",  # noqa: S608 - quoted
                    (key,),
                ).fetchone()
                if changed := _stamped_now(data, now):
                    connection.execute(
                        f"UPDATE {table} SET data = CAST(? AS TEXT) WHERE id = ?",  # noqa: S608 - quoted
                        (changed, key),
                    ).close()
                    revealed += 1
        connection.execute("COMMIT").close()
    return revealed


def _collections(connection: sqlite3.Connection) -> list[str]:
    """The collections' tables, quoted."""
    names = connection.execute("SELECT DISTINCT collection_name FROM collection_meta").fetchall()
    return ['"' + name.replace('"', '""') + '"' for (name,) in names]


def _stamped_now(record: bytes, now: int) -> bytes | None:
    """The record with the earliest stamp in place of those later than `now`; None when there are none.

    Milvus Lite's record repeats a `FieldData` for each column in its first field, the stamp among them, as `StructArrayField`
    does; protobuf keeps the other fields.
    """
    columns, is_later = StructArrayField.FromString(record), False
    for column in columns.fields:
        if column.field_name == _STAMP:
            stamps = column.scalars.long_data.data
            is_later = is_later or any(stamp > now for stamp in stamps)
            stamps[:] = [_EARLIEST if stamp > now else stamp for stamp in stamps]
    return columns.SerializeToString() if is_later else None


def _forget_unused_terms(connection: sqlite3.Connection) -> None:
    """Milvus Lite counts the texts that hold a term, by the term's hash, and keeps those that it counts to zero.

    Otherwise a guessed word would show that a user once wrote it. A hash that is missing counts as zero for Milvus Lite.
    """
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'token_doc_count'").fetchone():
        connection.execute("DELETE FROM token_doc_count WHERE doc_count <= 0").close()


def _open(path: Path) -> sqlite3.Connection:
    # `mode=rw`: a missing file must not be created.
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


@contextmanager
def _store_errors(operation: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailableError(f"{operation}: {error.sqlite_errorname}") from None
    except OSError as error:
        raise StoreUnavailableError(f"{operation}: {error.strerror}") from None
