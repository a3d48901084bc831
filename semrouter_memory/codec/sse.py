"""Server-sent events, read incrementally as the WHATWG specification says (HTML, "Server-sent events").

Strategy: everything is done on bytes. All that the format looks at is ASCII, so a character of several bytes may be
split anywhere. Text is appended to the line under way and never scanned twice. An event that the stream does not
end with an empty line is dropped, as the specification demands.

Each line takes time, however short it is. An answer's lines are long; a stream of nothing but short ones, as compressed
data can hide a hundred million of them in a few kilobytes, is given up.
"""

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"
_LINE_BYTES = 8
"""What the lines of a stream must have on the average, line ends included; the smallest useful event has 30."""
_SHORT_LINES = 64 * 1024
"""How many lines may be shorter than that: comments that keep an idle connection alive."""


class Event(NamedTuple):
    """One event: its name ("" when it has none) and its data lines, joined with line feeds."""

    name: str
    data: bytes


class EventReader:
    """Makes events of chunks.

    Over a bound it gives up for good: it frees what it holds and yields nothing more.

    Args:
        max_event_bytes: bound on one event, and on a line.
        max_bytes: bound on the stream. Its number of lines is bounded, too.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_has_data",
        "_kept_bytes",
        "_left",
        "_line",
        "_max_event_bytes",
        "_name",
        "_slack",
        "_started",
        "over",
    )

    def __init__(self, *, max_event_bytes: int, max_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._left = max_bytes
        self._line = bytearray()
        # One buffer, because a list of short lines takes many times the memory of their bytes.
        self._data = bytearray()
        self._has_data = False
        self._name = ""
        self._kept_bytes = 0
        self._slack = _SHORT_LINES * _LINE_BYTES
        self._after_cr = False
        self._started = False
        self.over = False
        """A bound was exceeded."""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes."""
        self._left -= len(chunk)
        if self._left < 0:
            self._give_up()
        events: list[Event] = []
        if self.over or not chunk:
            return events
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # the second half of a CRLF
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = _lines(chunk)
        self._slack += len(chunk) - _LINE_BYTES * len(lines)
        if self._slack < 0:
            self._give_up()
            return events
        events.extend(event for line in lines if (event := self._end_line(line)) is not None)
        self._grow(rest)
        return events

    def _grow(self, piece: bytes) -> None:
        if len(self._line) + len(piece) + self._kept_bytes > self._max_event_bytes:
            self._give_up()
        if not self.over:
            self._line += piece

    def _end_line(self, piece: bytes) -> Event | None:
        """Take the last piece of a line."""
        self._grow(piece)
        line = bytes(self._line)
        self._line.clear()
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        self._field(line)
        return None

    def _field(self, line: bytes) -> None:
        """A line that begins with a colon is a comment; its field name is empty, so it is ignored like any unknown."""
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            if self._has_data:
                self._data += b"\n"
            self._data += value
            self._has_data = True
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        else:
            return
        self._kept_bytes += len(line)

    def _dispatch(self) -> Event | None:
        event = Event(self._name, bytes(self._data)) if self._has_data else None
        self._data.clear()
        self._has_data = False
        self._name = ""
        self._kept_bytes = 0
        return event

    def _give_up(self) -> None:
        self.over = True
        self._line.clear()
        self._data.clear()
        self._has_data = False


def _lines(chunk: bytes) -> list[bytes]:
    """Split at line ends of all three kinds; the last one is the line under way."""
    if b"\r" in chunk:
        chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return chunk.split(b"\n")
