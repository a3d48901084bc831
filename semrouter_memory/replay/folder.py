"""A directory of recordings: a full file is followed by a new one, and the oldest are deleted.

An exchange is appended with one write, so a process that is killed leaves whole exchanges, and at most one record that was
cut. Bounds hold at all times: a file, and all recordings in the directory together.
"""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.pb.recording_pb2 import Record
from semrouter_memory.replay.reading import LocatedRecord, Warn, exchanges_of, records_in
from semrouter_memory.replay.records import (
    REQUEST_ID,
    SUFFIX,
    Format,
    RecordedExchange,
    changed,
    fields_in,
    header,
    leaves,
    rfc3339,
    set_value,
    written,
)
from semrouter_memory.transport.wire import value_of

Files = Literal["rolling", "exchange"]
_PREFIX = "recording-"
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSettings:
    """Where recordings go.

    Attributes:
        files: many exchanges in a file, or each in its own.
        started_at: of the recording, for the headers of rolling files.
        timed: write times; without, only the order.
    """

    directory: Path
    format: Format
    files: Files
    max_file_bytes: int
    max_total_bytes: int
    started_at: str = field(default_factory=lambda: rfc3339(datetime.now(UTC)))
    pseudonymised: bool = False
    timed: bool = True


class Folder:
    """Appends exchanges. Used by one thread.

    Raises:
        InputFileError: the directory cannot be made or read.
    """

    def __init__(self, settings: FolderSettings, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._settings = settings
        self._now = now
        self._number = 0
        self._current: Path | None = None
        self._sizes: dict[Path, int] = {}
        try:
            settings.directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            found = sorted(path for path in settings.directory.iterdir() if path.name.startswith(_PREFIX))
            self._sizes = {path: path.stat().st_size for path in found if path.suffix in SUFFIX.values()}
        except OSError as error:
            raise InputFileError(f"{settings.directory}: cannot take recordings: {error.strerror}") from None

    def append(self, exchange: bytes, *, started_at: str) -> Path | None:
        """Write an exchange.

        Args:
            exchange: in the folder's format.
            started_at: of the exchange.

        Returns:
            The file; None when the exchange is larger than a file may be.

        Raises:
            InputFileError: it cannot be written.
        """
        settings = self._settings
        alone = settings.files == "exchange"
        head = self._header(started_at if alone else settings.started_at)
        if len(head) + len(exchange) > min(settings.max_file_bytes, settings.max_total_bytes):
            return None
        size = self._sizes.get(self._current, 0) if self._current else 0
        try:
            if self._current is None or alone or size + len(exchange) > settings.max_file_bytes:
                self._current = self._next_name()
                exchange = head + exchange
            self._make_room(len(exchange))
            self._write(self._current, exchange)
        except OSError as error:
            raise InputFileError(f"{settings.directory}: cannot write a recording: {error.strerror}") from None
        return self._current

    def _header(self, started_at: str) -> bytes:
        settings = self._settings
        started_at = started_at if settings.timed else ""
        record = header(started_at, pseudonymised=settings.pseudonymised)
        return written([record], settings.format)

    def _write(self, path: Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _FILE_MODE)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)
        self._sizes[path] = self._sizes.get(path, 0) + len(data)

    def _make_room(self, size: int) -> None:
        """Delete the oldest recordings until this much fits; the one that is written to stays as long as there are others."""
        while self._sizes and sum(self._sizes.values()) + size > self._settings.max_total_bytes:
            oldest = next((path for path in self._sizes if path != self._current), self._current)
            if oldest is None or oldest == self._current:
                return
            oldest.unlink(missing_ok=True)
            del self._sizes[oldest]

    def _next_name(self) -> Path:
        self._number += 1
        when = self._now().strftime("%Y%m%dT%H%M%S.%f")[:-3]
        # The number keeps names of one millisecond apart and in order, the process id those of several processes.
        name = f"{_PREFIX}{when}Z-{self._number:06d}-{os.getpid()}{SUFFIX[self._settings.format]}"
        return self._settings.directory / name


class ExchangeWriter:
    """Writes whole exchanges to a folder; without times, they are normalised.

    Attributes:
        taken: how many were written.
        left_out: how many were larger than a file may be.
        note: what the sidecar said at the end of its recording.
    """

    def __init__(self, settings: FolderSettings) -> None:
        self.directory = settings.directory
        self._settings = settings
        self._folder = Folder(settings)
        self.taken = self.left_out = 0
        self.note = ""

    def take_stream(self, chunks: Iterator[bytes], name: str, warn: Warn) -> None:
        """All exchanges of a recording that is being made."""
        located = records_in(io.BufferedReader(_LiveStream(chunks)), name, warn)
        for exchange in exchanges_of(self._noted(located)):
            self.take(exchange)

    def take(self, exchange: RecordedExchange) -> None:
        records, timed = list(exchange.records), self._settings.timed
        if not timed:
            records = [
                changed(each, stream=2 * self.taken + each.stream)
                for each in normalised(exchange, name=f"exchange-{self.taken + 1}")
            ]
        data = written(records, self._settings.format, timed=timed)
        if self._folder.append(data, started_at=exchange.started_at) is None:
            self.left_out += 1
        else:
            self.taken += 1

    def _noted(self, located: Iterator[LocatedRecord]) -> Iterator[LocatedRecord]:
        for each in located:
            if each.record.stream == 0 and each.record.HasField("end"):
                self.note = each.record.end.note
            yield each


class _LiveStream(io.RawIOBase):
    """Bytes that arrive in chunks, as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]  # any buffer, in the base class
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


# -- recordings for a repository --------------------------------------------------------------------------------------

_LOOPBACK = frozenset({b"127.0.0.1", b"localhost", b"[::1]"})
_FIXED = {
    "date": b"Thu, 01 Jan 2026 00:00:00 GMT",
    "x-envoy-upstream-service-time": b"1",
    "x-forwarded-for": b"192.0.2.1",
    "x-envoy-external-address": b"192.0.2.1",
    "x-memory-ids": b"-",
    "x-stainless-os": b"Linux",
    "x-stainless-arch": b"x64",
    "x-stainless-runtime-version": b"3.11.0",
}
_LEFT_OUT = frozenset({"traceparent", "tracestate"})
_LEFT_OUT_OF_METADATA = _LEFT_OUT | {"user-agent"}


def normalised(exchange: RecordedExchange, *, name: str) -> list[Record]:
    """The exchange's records, in which values that differ between runs without meaning are fixed.

    Times are left out (the order stays), request ids are numbered, ports, dates and durations get fixed values. So recording
    anew changes only the lines whose traffic changed.

    Args:
        name: the exchange's, in place of its request id.
    """
    numbers: dict[int, int] = {}
    for record in exchange.records:
        numbers.setdefault(record.stream, len(numbers) + 1)
    records = [changed(record, stream=numbers[record.stream], time_us=0) for record in exchange.records]
    for record in records:
        if record.HasField("begin"):
            record.begin.exchange = name
        _fix_fields(fields_in(record), _LEFT_OUT_OF_METADATA if record.HasField("begin") else _LEFT_OUT, name)
        for key, value in leaves(record.response.dynamic_metadata):
            if key.endswith(("_ms", "_seconds")):
                value.number_value = 0
            elif "mem_" in value.string_value:
                value.string_value = "-"
    return records


def _fix_fields(fields: Any, left_out: frozenset[str], name: str) -> None:
    for index in reversed(range(len(fields))):
        field, key = fields[index], fields[index].key.lower()
        if key in left_out:
            del fields[index]
        elif key == REQUEST_ID:
            set_value(field, name.encode())
        else:
            set_value(field, _FIXED.get(key) or _without_port(value_of(field)))


def _without_port(value: bytes) -> bytes:
    """An address of this machine with a port that is the same in every run."""
    host, _, port = value.rpartition(b":")
    return host + b":10000" if host in _LOOPBACK and port.isdigit() else value
