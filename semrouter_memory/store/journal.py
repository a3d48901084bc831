"""The write-ahead journal: rows that are sent to the store, held in files until it has acknowledged them.

Strategy. Milvus Lite, and a server before 2.4, replace a row by deleting the old one and inserting the new one. A process
that is killed in between has lost the row. So each write is one file here first, synced, and the file is removed when the
store has acknowledged the write. A file that is left over is an open write, which `write_ahead` repeats.

The directory holds nothing unless a write is under way or failed. It belongs to one process, as the data directory and
Milvus Lite's file do: what is under way is known in memory alone, and a process that ends gives its writes up.
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
_PATIENCE_SECONDS = 1.0
"""How long a deletion waits for a write of the same row."""


@dataclass(frozen=True, slots=True)
class OpenWrite:
    """One write that is not known to be complete. It is under way until it is removed or closed.

    Attributes:
        path: its file; later writes have greater numbers in its name.
        target: which collection it is for.
        end: it is not under way any more.
    """

    path: Path
    target: str
    rows: tuple[Row, ...]
    end: Callable[[Path], None]

    def remove(self) -> None:
        """The write is complete, or no longer wanted."""
        try:
            # It may be gone along with the data directory.
            self.path.unlink(missing_ok=True)
        finally:
            self.close()

    def close(self) -> None:
        """Give it up: a write that was not removed stays open."""
        self.end(self.path)


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
        self._target = hashlib.sha256("\0".join(target).encode()).hexdigest()
        self._under_way: dict[Path, OpenWrite] = {}
        # Held while a task reads or changes the files; notified when a write ends.
        self._changed = threading.Condition()

    def is_empty(self) -> bool:
        with _store_errors():
            return not self._paths()

    def add(self, rows: Sequence[Row]) -> OpenWrite:
        """Record a write before it is sent to the store. It is on disk when this returns.

        Earlier open writes lose the rows that this one replaces, or they would undo it later.
        """
        keys = {row["id"] for row in rows}
        with _store_errors(), self._changed:
            earlier = self._paths()
            write = self._create(1 + max(map(_sequence_of, earlier), default=0), self._target, rows)
            self._under_way[write.path] = write
            try:
                for path in earlier:
                    if path not in self._under_way:
                        self._take_out(path, lambda row: row["id"] in keys, target=self._target)
            except BaseException:
                write.remove()
                raise
            return write

    def forget(self, is_gone: Callable[[Row], bool]) -> None:
        """Take deleted rows out of every open write, of whatever collection, so that nothing brings them back."""

        def nothing_writes_them() -> bool:
            return not any(is_gone(row) for write in self._under_way.values() for row in write.rows)

        with _store_errors(), self._changed:
            if not self._changed.wait_for(nothing_writes_them, _PATIENCE_SECONDS):
                raise StoreUnavailableError("journal: a row that is to be deleted is being written")
            for path in self._paths():
                self._take_out(path, is_gone)

    def open_writes(self) -> list[OpenWrite]:
        """The writes for this target that are not under way, oldest first; of each row only the latest version."""
        with _store_errors(), self._changed:
            found = [write for path in sorted(self._paths()) if (write := self._read(path)) is not None]
            own = [write for write in found if write.target == self._target and write.path not in self._under_way]
            self._under_way |= {write.path: write for write in own}
            return _only_latest(own)

    def copy(self, directory: Path) -> None:
        """Copy what is open into a directory, under this one's name."""
        with _store_errors(), self._changed:
            for path in self._paths():
                target = directory / self._directory.name / path.name
                target.parent.mkdir(mode=0o700, exist_ok=True)
                _write(target, path.read_bytes())

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
        return OpenWrite(path, target, tuple(rows), self._end)

    def _read(self, path: Path) -> OpenWrite | None:
        """None: it is complete meanwhile; or it never was on disk as a whole, so the store was not asked for it."""
        try:
            decoded = _decoded(path.read_bytes())
        except FileNotFoundError:
            return None
        if decoded is None:
            path.unlink(missing_ok=True)
            return None
        return OpenWrite(path, *decoded, self._end)

    def _take_out(self, path: Path, is_gone: Callable[[Row], bool], *, target: str = "") -> None:
        """Of one target, or of any."""
        write = self._read(path)
        if write is None or target not in {"", write.target} or not any(map(is_gone, write.rows)):
            return
        if rest := [row for row in write.rows if not is_gone(row)]:
            self._create(_sequence_of(path), write.target, rest)
        path.unlink(missing_ok=True)

    def _end(self, path: Path) -> None:
        with self._changed:
            self._under_way.pop(path, None)
            self._changed.notify_all()


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
