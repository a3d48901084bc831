"""Server-sent events, read incrementally as the WHATWG specification says (HTML, "Server-sent events").

Strategy: everything is done on bytes. All that the format looks at is ASCII, so a character of several bytes may be
split anywhere. Text is appended to the line under way and never scanned twice. An event that the stream does not
end with an empty line is dropped, as the specification demands.
"""

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its name ("" when it has none) and its data lines, joined with line feeds."""

    name: str
    data: bytes


class EventReader:
    """Makes events of chunks.

    Over a bound it gives up for good: it frees what it holds and yields nothing more.

    Args:
        max_event_bytes: bound on one event, and on a line.
        max_bytes: bound on the stream.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_event_bytes",
        "_left",
        "_line",
        "_max_event_bytes",
        "_name",
        "_started",
        "over",
    )

    def __init__(self, *, max_event_bytes: int, max_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._left = max_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._name = ""
        self._event_bytes = 0
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
        *lines, rest = _LINE_END.split(chunk)
        for line in lines:
            self._grow(line)
            if (event := self._end_line()) is not None:
                events.append(event)
        self._grow(rest)
        return events

    def _grow(self, piece: bytes) -> None:
        self._event_bytes += len(piece)
        if self._event_bytes > self._max_event_bytes:
            self._give_up()
        if not self.over:
            self._line += piece

    def _end_line(self) -> Event | None:
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
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        else:
            self._event_bytes -= len(line)

    def _dispatch(self) -> Event | None:
        event = Event(self._name, b"\n".join(self._data)) if self._data else None
        self._data.clear()
        self._name = ""
        self._event_bytes = 0
        return event

    def _give_up(self) -> None:
        self.over = True
        self._line.clear()
        self._data.clear()
