"""The write-ahead journal: rows that are sent to the store, held in files until it has acknowledged them.

Strategy. Milvus Lite, and a server before 2.4, replace a row by deleting the old one and inserting the new one. A process
that is killed in between has lost the row. So each write is one file here first, synced, and the file is removed when the
store has acknowledged the write. A file that is left over is an open write, which `write_ahead` repeats.

A process holds a file lock on each of its writes while it is under way, and the kernel releases the lock when the process
ends. Processes that share the directory therefore never repeat each other's running writes. The directory itself is the
only state: it holds nothing unless a write is under way or failed.
"""

import base64
import errno
import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import orjson

from semrouter_memory.databases.sqlite_connections import sync
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.store.schema import EMBEDDING, Row

_SEQUENCE_DIGITS = 16
_NAME = re.compile(r"[0-9]+-[0-9a-f]+")
_LOCK_SECONDS = 1.0
"""How long to wait for a lock that another process takes only to look."""
_LOOK_AGAIN_SECONDS = 0.002


@dataclass(slots=True)
class OpenWrite:
    """One write that is not known to be complete, with its file locked. To be removed, or closed at least.

    Attributes:
        sequence: later writes have greater numbers.
        target: which collection it is for.
    """

    path: Path
    descriptor: int
    sequence: int
    target: str
    rows: tuple[Row, ...]

    def remove(self) -> None:
        """The write is complete, or no longer wanted."""
        try:
            # It may be gone along with the data directory.
            self.path.unlink(missing_ok=True)
        finally:
            self.close()

    def close(self) -> None:
        """Release the lock; a write that was not removed stays open."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class WriteJournal:
    """Open writes in a directory. All methods block for a sync at most; they are for a thread.

    Args:
        directory: made with the first write, in a directory that exists.
        target: names the collection and what its vectors mean; writes for another one are left to it.

    Raises:
        StoreUnavailableError: the directory cannot be read or written, or the disk is full.
    """

    def __init__(self, directory: Path, *, target: Sequence[str]) -> None:
        self._directory = directory
        self._target = hashlib.sha256("\0".join(target).encode()).hexdigest()

    def is_empty(self) -> bool:
        with _store_errors():
            return not self._paths()

    def add(self, rows: Sequence[Row]) -> OpenWrite:
        """Record a write before it is sent to the store. It is on disk when this returns.

        Earlier open writes lose the rows that this one replaces, or they would undo it later.
        """
        with _store_errors():
            earlier = self._paths()
            sequence = 1 + max(map(_sequence_of, earlier), default=0)
            write = self._create(sequence, self._target, rows)
            keys = {row["id"] for row in rows}
            try:
                for path in earlier:
                    self._take_out(path, lambda row: row["id"] in keys, target=self._target)
            except BaseException:
                write.remove()
                raise
            return write

    def forget(self, is_gone: Callable[[Row], bool]) -> None:
        """Take deleted rows out of every open write, of whatever collection, so that nothing brings them back."""
        with _store_errors():
            for path in self._paths():
                if not self._take_out(path, is_gone, patience_seconds=_LOCK_SECONDS):
                    raise StoreUnavailableError("journal: a row that is to be deleted is being written")

    def open_writes(self) -> list[OpenWrite]:
        """The writes for this target that are not under way, oldest first; of each row only the latest version."""
        with _store_errors():
            found: list[OpenWrite] = []
            for path in self._paths():
                write = self._opened(path)
                if write is not None and write.target == self._target:
                    found.append(write)
                elif write is not None:
                    write.close()
            return _only_latest(sorted(found, key=lambda write: write.sequence))

    def copy(self, directory: Path) -> None:
        """Copy what is open into a directory, under this one's name."""
        with _store_errors():
            for path in self._paths():
                target = directory / self._directory.name / path.name
                target.parent.mkdir(mode=0o700, exist_ok=True)
                os.close(_write_new(target, path.read_bytes()))

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
        data = _encoded(target, rows)
        while True:
            path = self._directory / f"{sequence:0{_SEQUENCE_DIGITS}d}-{secrets.token_hex(8)}"
            descriptor = _write_new(path, data)
            # Another process may have looked in before the file was locked, and removed it as an incomplete one.
            if os.fstat(descriptor).st_nlink:
                return OpenWrite(path, descriptor, sequence, target, tuple(rows))
            os.close(descriptor)

    def _opened(self, path: Path, *, patience_seconds: float = 0.0) -> OpenWrite | None:
        """None: it is under way, or was removed meanwhile, or was never completed; the store was not asked for that."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if not _locked(descriptor, patience_seconds) or not os.fstat(descriptor).st_nlink:
                os.close(descriptor)
                return None
            decoded = _decoded(path.read_bytes())
        except BaseException:
            os.close(descriptor)
            raise
        write = OpenWrite(path, descriptor, _sequence_of(path), *(decoded or ("", ())))
        if decoded is None:
            write.remove()
            return None
        return write

    def _take_out(
        self, path: Path, is_gone: Callable[[Row], bool], *, target: str = "", patience_seconds: float = 0.0
    ) -> bool:
        """Of one target, or of any. Returns False when the file holds such rows and stays locked."""
        if not _holds(path, is_gone, target):
            return True
        write = self._opened(path, patience_seconds=patience_seconds)
        if write is None:
            return not _holds(path, is_gone, target)
        try:
            rest = [row for row in write.rows if not is_gone(row)]
            if rest:
                self._create(write.sequence, write.target, rest).close()
            write.remove()
        finally:
            write.close()
        return True


def _only_latest(writes: Sequence[OpenWrite]) -> list[OpenWrite]:
    """A crash may have left a row in two writes."""
    latest = {row["id"]: write.path for write in writes for row in write.rows}
    return [
        replace(write, rows=tuple(row for row in write.rows if latest[row["id"]] == write.path)) for write in writes
    ]


def _holds(path: Path, is_gone: Callable[[Row], bool], target: str) -> bool:
    try:
        decoded = _decoded(path.read_bytes())
    except FileNotFoundError:
        return False
    return decoded is not None and target in {"", decoded[0]} and any(map(is_gone, decoded[1]))


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


def _write_new(path: Path, data: bytes) -> int:
    """Returns the descriptor of the file, which is locked and on disk."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(descriptor)
        sync(path.parent)
    except BaseException:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return descriptor


def _locked(descriptor: int, patience_seconds: float) -> bool:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_AGAIN_SECONDS)
        else:
            return True


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        disk_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise StoreUnavailableError(f"journal: {error.strerror}", disk_full=disk_full) from None
