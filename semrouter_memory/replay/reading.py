"""Reads recordings from files, in either format, one exchange at a time and in bounded memory.

Strategy: files are not trusted. Their content becomes records, or an `InputFileError` that names the file and the line
(JSON lines) or the offset (protobuf). A file that ends in the middle of a record was cut off while it was written: the
records before the cut are read, and the cut is a warning, not an error.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.pb.recording_pb2 import Header, Record
from semrouter_memory.replay.records import (
    MAX_RECORD_BYTES,
    NOT_JSON,
    SUFFIX,
    VERSION,
    RecordedExchange,
    decoded,
    read_line,
)

_MAX_OPEN_BYTES = 512 * 1024 * 1024
_MAX_VARINT_BYTES = 10
_PIECE_BYTES = 1024 * 1024
_CUT = "the file ends in the middle of a record; what stands before it is whole"
_BOM = b"\xef\xbb\xbf"
_PEEK_BYTES = 64
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:\{[ \t\r\n]*(?:[\"}]|\Z)|\Z)")
_TAP = re.compile(rb"[\"{\s]http_?(?:streamed|buffered)_?trace", re.IGNORECASE)
_ON_ONE_LINE = "; each record of a recording is a JSON object on a line of its own"
_IS_TAP = "this is Envoy's tap output; make a recording of it with semrouter-memory record import-tap"
_NO_RECORDING = (
    "this is no recording: it does not begin with a header (Envoy's tap output: semrouter-memory record import-tap)"
)

_T = TypeVar("_T")
Warn = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class LocatedRecord:
    record: Record
    location: str
    nbytes: int


def recording_files(paths: list[Path]) -> list[Path]:
    """The files, and for directories the recordings in them, by name.

    Raises:
        InputFileError: there is no such file, or nothing in a directory.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted(each for each in path.iterdir() if each.suffix in SUFFIX.values()) if path.is_dir() else [path]
        if not inside:
            raise InputFileError(f"{path}: there are no recordings in this directory ({', '.join(SUFFIX.values())})")
        if not inside[0].is_file():
            raise InputFileError(f"{path}: there is no such file")
        found += inside
    return found


def exchanges_in_file(path: Path, warn: Warn, *, note: Warn | None = None) -> Iterator[RecordedExchange]:
    """The exchanges of a file, each when its last stream has ended.

    Args:
        warn: called with a sentence about a file that was cut off.
        note: called with a sentence about harmless content that is ignored; by default `warn`.

    Raises:
        InputFileError: the file cannot be read, or is no recording from some point on. The exchanges before that point
            were yielded.
    """
    try:
        with path.open("rb") as file:
            yield from exchanges_of(records_in(file, str(path), warn, note=note))
    except OSError as error:
        raise InputFileError(f"{path}: cannot be read: {error.strerror}") from None


def records_in(file: BufferedReader, name: str, warn: Warn, *, note: Warn | None = None) -> Iterator[LocatedRecord]:
    """All records of one file, of whichever format."""
    head = file.peek(_PEEK_BYTES)
    if not head:
        raise InputFileError(f"{name}: this is no recording: it is empty")
    if _TAP.search(head[:_PEEK_BYTES]):
        raise InputFileError(f"{name}: {_IS_TAP}")
    if begins_as_text(file):
        return _in_lines(file, name, warn, note or warn)
    messages = framed_messages(file, name, warn, decoded, otherwise=_NO_RECORDING)
    return (LocatedRecord(record, location, size) for location, record, size in messages)


def begins_as_text(file: BufferedReader, start: re.Pattern[bytes] = _OBJECT) -> bool:
    """Whether a file holds JSON rather than messages behind their lengths; a byte order mark is skipped then.

    One byte does not tell: a first message of 10 bytes begins like a line feed, one of 123 like an object.

    Args:
        start: what JSON begins with.
    """
    head = file.peek(_PEEK_BYTES)
    if not start.match(head):
        return False
    if head.startswith(_BOM):
        file.read(len(_BOM))
    return True


def _in_lines(file: BufferedReader, name: str, warn: Warn, note: Warn) -> Iterator[LocatedRecord]:
    number, before_us = 0, 0
    ignored = {""}
    while line := file.readline(MAX_RECORD_BYTES + 1):
        number += 1
        location = f"{name}: line {number}"
        if len(line) > MAX_RECORD_BYTES:
            raise InputFileError(f"{location}: longer than {MAX_RECORD_BYTES} bytes")
        if not line.strip():
            continue
        try:
            record, unknown = read_line(line, before_us=before_us)
        except InputFileError as error:
            if not line.endswith(b"\n") and number > 1 and str(error) == NOT_JSON:
                warn(f"{location}: {_CUT}")
                return
            hint = _ON_ONE_LINE if str(error) == NOT_JSON and number == 1 else ""
            raise InputFileError(f"{location}: {error}{hint}") from None
        if unknown not in ignored:
            note(f"{location}: unknown key {unknown!r} is ignored, here and further on")
            ignored.add(unknown)
        before_us = record.time_us
        yield LocatedRecord(record, location, len(line))


def framed_messages(
    file: BufferedReader, name: str, warn: Warn, read: Callable[[bytes], _T], *, otherwise: str
) -> Iterator[tuple[str, _T, int]]:
    """The messages of a file of length-delimited messages, each with its place and size.

    Args:
        read: makes a message of its bytes; raises `InputFileError`.
        otherwise: the error message for a file that does not begin with such a message.

    Raises:
        InputFileError: the file has other content.
    """
    offset = 0
    while True:
        location = f"{name}: offset {offset}"
        try:
            length = _length(file)
            if length is None:
                return
            size, nbytes = length
            message = read(_exactly(file, size))
        except EOFError:
            if not offset:
                raise InputFileError(f"{location}: {otherwise}") from None
            warn(f"{location}: {_CUT}")
            return
        except InputFileError as error:
            raise InputFileError(f"{location}: {error if offset else otherwise}") from None
        offset += size + nbytes
        yield location, message, size


def _length(file: BufferedReader) -> tuple[int, int] | None:
    """A length as a varint, and how many bytes that takes; None at the end.

    Raises:
        EOFError: the file ends within it.
        InputFileError: it is none.
    """
    size = 0
    for index in range(_MAX_VARINT_BYTES):
        byte = file.read(1)
        if not byte and not index:
            return None
        if not byte:
            raise EOFError
        size |= (byte[0] & 0x7F) << (7 * index)
        if byte[0] < 0x80:  # noqa: PLR2004 - the top bit says that there is more
            return size, index + 1
    raise InputFileError("this is not the length of a record")


def _exactly(file: BufferedReader, size: int) -> bytes:
    if size > MAX_RECORD_BYTES:
        raise InputFileError(f"a record of {size} bytes, more than any has")
    pieces: list[bytes] = []
    # In pieces: a length that is not true must not cost its memory.
    while size and (piece := file.read(min(size, _PIECE_BYTES))):
        pieces.append(piece)
        size -= len(piece)
    if size:
        raise EOFError
    return b"".join(pieces)


@dataclass(slots=True)
class _PartialExchange:
    """An exchange some of whose streams have not ended."""

    name: str
    location: str
    records: list[Record] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    nbytes: int = 0

    def closed(self, *, started_at: str, whole: bool) -> RecordedExchange:
        return RecordedExchange(self.location, tuple(self.records), self.nbytes, started_at, whole)


class Assembler:
    """Groups records into exchanges."""

    def __init__(self) -> None:
        self._by_stream: dict[int, _PartialExchange] = {}
        self._by_name: dict[str, _PartialExchange] = {}
        self._held = 0
        self._header: Header | None = None
        self._started_at = ""

    def take(self, located: LocatedRecord) -> list[RecordedExchange]:
        """The exchanges that this record completes."""
        record, location = located.record, located.location
        if record.HasField("header"):
            return self._begin_recording(record.header, location)
        if self._header is None:
            raise InputFileError(f"{location}: {_NO_RECORDING}")
        if record.stream == 0:
            if record.HasField("end"):
                return []
            raise InputFileError(f"{location}: stream is missing")
        if record.HasField("begin"):
            self._begin_stream(record, location)
        exchange = self._by_stream.get(record.stream)
        if exchange is None:
            raise InputFileError(f"{location}: stream {record.stream} has not begun, or has ended")
        exchange.records.append(record)
        exchange.nbytes += located.nbytes
        self._held += located.nbytes
        if self._held > _MAX_OPEN_BYTES:
            raise InputFileError(f"{location}: more than {_MAX_OPEN_BYTES} bytes of exchanges that have not ended")
        if record.HasField("end"):
            del self._by_stream[record.stream]
            exchange.running.discard(record.stream)
            return [] if exchange.running else [self._close(exchange)]
        return []

    def rest(self) -> list[RecordedExchange]:
        """The exchanges that have not ended at the end of the recording."""
        left = [each.closed(started_at=self._started_at, whole=False) for each in self._by_name.values()]
        self._by_name, self._by_stream, self._held = {}, {}, 0
        return left

    def _begin_recording(self, header: Header, location: str) -> list[RecordedExchange]:
        if header.version != VERSION:
            raise InputFileError(f"{location}: a recording of version {header.version}; this program reads {VERSION}")
        ended = self.rest()
        self._header = header
        self._started_at = header.started_at
        return ended

    def _begin_stream(self, record: Record, location: str) -> None:
        if record.stream in self._by_stream:
            raise InputFileError(f"{location}: stream {record.stream} has begun already")
        name = record.begin.exchange or f"\0{record.stream}"
        exchange = self._by_name.setdefault(name, _PartialExchange(name, location))
        exchange.running.add(record.stream)
        self._by_stream[record.stream] = exchange

    def _close(self, exchange: _PartialExchange) -> RecordedExchange:
        self._held -= exchange.nbytes
        del self._by_name[exchange.name]
        return exchange.closed(started_at=self._started_at, whole=True)


def exchanges_of(records: Iterator[LocatedRecord]) -> Iterator[RecordedExchange]:
    """The exchanges of these records; the ones before damage are yielded before its error is raised."""
    assembler = Assembler()
    try:
        for located in records:
            yield from assembler.take(located)
    except InputFileError:
        yield from assembler.rest()
        raise
    yield from assembler.rest()
