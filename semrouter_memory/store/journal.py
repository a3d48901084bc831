"""The write-ahead journal: rows that are sent to the store, held in files until it has acknowledged them.

Strategy. Milvus Lite, and a server before 2.4, replace a row by deleting the old one and inserting the new one. A process
that is killed in between has lost the row. So each write is one file here first, synced, and the file is removed when the
store has acknowledged the write. A file that is left over is an open write, which `write_ahead` repeats.

The directory holds nothing unless a write is under way or failed. It belongs to one process, as the data directory and
Milvus Lite's file do. Locks that writes take anyway keep a write that is under way apart from what changes it: the owner's
from deletions and writes of its rows, the store's from repetitions.
"""

import base64
import errno
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import orjson

from semrouter_memory.databases.sqlite import sync
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.store.schema import EMBEDDING, Row

_SEQUENCE_DIGITS = 16
_NAME = re.compile(r"[0-9]+-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class OpenWrite:
    """One write that is not known to be complete: it stays open until it is removed.

    Attributes:
        path: its file; later writes have greater numbers in its name.
        target: which collection it is for.
    """

    path: Path
    target: str
    rows: tuple[Row, ...]

    def remove(self) -> None:
        """The write is complete, or no longer wanted."""
        # It may be gone along with the data directory.
        self.path.unlink(missing_ok=True)


class WriteJournal:
    """Open writes in a directory. All methods block for a sync at most; they are for threads.

    Args:
        directory: made with the first write, in a directory that exists.
        target: names the collection and what its vectors mean; writes for another one are left to it.

    Raises:
        StoreUnavailableError: the directory cannot be read or written, or the disk is full.
    """

    def __init__(self, directory: Path, *, target: Sequence[str]) -> None:
        self._directory = directory
        self._target = _digest(target)
        # Held while a thread reads or changes the files.
        self._files = threading.Lock()

    def is_empty(self) -> bool:
        with _store_errors():
            return not self._paths()

    def add(self, rows: Sequence[Row]) -> OpenWrite:
        """Record a write before it is sent to the store. It is on disk when this returns.

        Earlier open writes lose the rows that this one replaces, or they would undo it later.
        """
        keys = {row["id"] for row in rows}
        with _store_errors(), self._files:
            earlier = self._paths()
            write = self._create(1 + max(map(_sequence_of, earlier), default=0), self._target, rows)
            try:
                for path in earlier:
                    self._take_out(path, lambda row: row["id"] in keys, target=self._target)
            except BaseException:
                write.remove()
                raise
            return write

    def forget(self, is_gone: Callable[[Row], bool]) -> None:
        """Take deleted rows out of every open write, of whatever collection, so that nothing brings them back."""
        with _store_errors(), self._files:
            for path in self._paths():
                self._take_out(path, is_gone)

    def open_writes(self) -> list[OpenWrite]:
        """The writes for this target, oldest first; of each row only the latest version."""
        with _store_errors(), self._files:
            return _only_latest(self._for(self._target))

    def left_for(self, target: Sequence[str]) -> list[Row]:
        """The rows of open writes for another target: what the process that served it last could not complete."""
        with _store_errors(), self._files:
            return [row for write in _only_latest(self._for(_digest(target))) for row in write.rows]

    def discard(self, target: Sequence[str]) -> None:
        """Remove the open writes for another target, which is gone."""
        with _store_errors(), self._files:
            for write in self._for(_digest(target)):
                write.path.unlink(missing_ok=True)

    def copy(self, directory: Path) -> None:
        """Copy what is open into a directory, under this one's name."""
        with _store_errors(), self._files:
            for path in self._paths():
                target = directory / self._directory.name / path.name
                target.parent.mkdir(mode=0o700, exist_ok=True)
                _write(target, path.read_bytes())

    def _for(self, target: str) -> list[OpenWrite]:
        found = (self._read(path) for path in sorted(self._paths()))
        return [write for write in found if write is not None and write.target == target]

    # -- files ---------------------------------------------------------------------------------------------------------

    def _paths(self) -> list[Path]:
        try:
            names = os.listdir(self._directory)  # noqa: PTH208 - names are enough
        except FileNotFoundError:
            return []
        return [self._directory / name for name in names if _NAME.fullmatch(name)]

    def _create(self, sequence: int, target: str, rows: Sequence[Row]) -> OpenWrite:
        with suppress(FileExistsError):
            self._directory.mkdir(mode=0o700)
        path = self._directory / f"{sequence:0{_SEQUENCE_DIGITS}d}-{secrets.token_hex(8)}"
        _write(path, _encoded(target, rows))
        return OpenWrite(path, target, tuple(rows))

    def _read(self, path: Path) -> OpenWrite | None:
        """None: it is complete meanwhile; or it never was on disk as a whole, so the store was not asked for it."""
        try:
            decoded = _decoded(path.read_bytes())
        except FileNotFoundError:
            return None
        if decoded is None:
            path.unlink(missing_ok=True)
            return None
        return OpenWrite(path, *decoded)

    def _take_out(self, path: Path, is_gone: Callable[[Row], bool], *, target: str = "") -> None:
        """Of one target, or of any."""
        write = self._read(path)
        if write is None or target not in {"", write.target} or not any(map(is_gone, write.rows)):
            return
        if rest := [row for row in write.rows if not is_gone(row)]:
            self._create(_sequence_of(path), write.target, rest)
        path.unlink(missing_ok=True)


def _digest(target: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(target).encode()).hexdigest()


def _only_latest(writes: Sequence[OpenWrite]) -> list[OpenWrite]:
    """A crash may have left a row in two writes."""
    latest = {row["id"]: write.path for write in writes for row in write.rows}
    return [
        replace(write, rows=tuple(row for row in write.rows if latest[row["id"]] == write.path)) for write in writes
    ]


def _sequence_of(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _encoded(target: str, rows: Sequence[Row]) -> bytes:
    plain = [row | {EMBEDDING.name: base64.b64encode(row[EMBEDDING.name].tobytes()).decode()} for row in rows]
    return orjson.dumps({"target": target, "rows": plain})


def _decoded(data: bytes) -> tuple[str, tuple[Row, ...]] | None:
    """None: the file was not written to its end."""
    try:
        decoded = orjson.loads(data)
        for row in decoded["rows"]:
            row[EMBEDDING.name] = np.frombuffer(base64.b64decode(row[EMBEDDING.name]), dtype=np.float32)
        return decoded["target"], tuple(decoded["rows"])
    except (ValueError, KeyError, TypeError):
        return None


def _write(path: Path, data: bytes) -> None:
    """Make a file, for this user's eyes; it is on disk when this returns."""
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync(path.parent)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        disk_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise StoreUnavailableError(f"journal: {error.strerror}", disk_full=disk_full) from None
