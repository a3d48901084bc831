"""Reading an answer, whichever API it is: a JSON body, or a stream of events with JSON in their data.

What a stream is bounded by: `max_bytes` bounds what is buffered, the answer's text and the event under way. The stream
itself may be longer, because a token of four characters travels in some 250 bytes of framing.

Server-sent events are read incrementally as the WHATWG specification says (HTML, "Server-sent events"), on bytes: all that the
format looks at is ASCII, so a character of several bytes may be split anywhere. Text is appended to the line under way and never
scanned twice. An event that the stream does not end with an empty line is dropped, as the specification demands. Each line takes
time, however short it is. An answer's lines are long; a stream of nothing but short ones, as compressed data can hide a hundred
million of them in a few kilobytes, is given up.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from semrouter_memory.codec.base import Answer, AnswerReader
from semrouter_memory.codec.json_text import json_object
from semrouter_memory.errors import BodyError

# -- server-sent events ------------------------------------------------------------------------------------------------


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


# -- answers ------------------------------------------------------------------------------------------------------------

_FRAMING = 64
"""How many times longer than its text a stream may be."""

_DONE = b"[DONE]"

ENTRY_BYTES = 256
"""What an entry counts besides its text, so that empty ones are bounded too: about what it takes."""

_SLICE_BYTES = 64 * 1024
"""What is read at once. A bound is noticed behind each slice, however much a decoder gave in one piece."""


class AnswerStream(ABC):
    """One API's answers: whole, or put together from events; texts arrive in pieces, each under a key.

    Attributes:
        kept_bytes: how much of the answer is held.
        ended: the stream came to its regular end.
    """

    __slots__ = ("_model", "_response_id", "_texts", "ended", "kept_bytes")

    def __init__(self) -> None:
        # Bytes, because a list of one-token strings takes many times the memory of its characters.
        self._texts: dict[tuple[int, ...], bytearray] = {}
        self._response_id = ""
        self._model = ""
        self.kept_bytes = 0
        self.ended = False

    @staticmethod
    @abstractmethod
    def whole(body: dict[str, Any]) -> Answer | None:
        """The answer in a whole body; None for one that is no answer."""

    @abstractmethod
    def add(self, name: str, event: dict[str, Any]) -> bool:
        """Take one event; False when it says that the answer failed."""

    @abstractmethod
    def answer(self) -> Answer | None:
        """The answer so far."""

    def _add_text(self, key: tuple[int, ...], piece: str) -> None:
        """Append to the text under the key; "" makes the key known."""
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = bytearray()
            self.kept_bytes += ENTRY_BYTES
        before = len(text)
        text += piece.encode("utf-8", "replace")
        self.kept_bytes += len(text) - before

    def _replace_text(self, key: tuple[int, ...], text: str) -> None:
        """Put a text in the place of its pieces."""
        if (pieces := self._texts.get(key)) is not None:
            self.kept_bytes -= len(pieces)
            pieces.clear()
        self._add_text(key, text)

    def _joined(self) -> list[tuple[tuple[int, ...], str]]:
        """Keys and texts, in the order of the keys."""
        return [(key, text.decode()) for key, text in sorted(self._texts.items())]


def reader_for(content_type: str, stream: type[AnswerStream], *, max_bytes: int) -> AnswerReader | None:
    """The reader for that content type, parameters and case aside; None for one that carries no answer."""
    match content_type.partition(";")[0].strip().lower():
        case "application/json":
            return JsonReader(stream.whole, max_bytes=max_bytes)
        case "text/event-stream":
            return EventStreamReader(stream(), max_bytes=max_bytes)
        case _:
            return None


class JsonReader:
    """Same as `AnswerReader`, for a JSON body. An answer that was cut is no JSON, so it is none."""

    __slots__ = ("_body", "_interpret", "_max_bytes")
    ended = False

    def __init__(self, interpret: Callable[[dict[str, Any]], Answer | None], *, max_bytes: int) -> None:
        self._interpret = interpret
        self._max_bytes = max_bytes
        self._body: bytearray | None = bytearray()

    def feed(self, data: bytes) -> None:
        if self._body is None:
            return
        self._body += data
        if len(self._body) > self._max_bytes:
            self._body = None

    @property
    def over(self) -> bool:
        return self._body is None

    def finish(self) -> Answer | None:
        body = parsed_object(self._body) if self._body else None
        return self._interpret(body) if body is not None and not body.get("error") else None


class EventStreamReader:
    """Same as `AnswerReader`, for server-sent events. A cut stream gives what came so far, not `complete`."""

    __slots__ = ("_events", "_failed", "_max_bytes", "_stream", "over")

    def __init__(self, stream: AnswerStream, *, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._events = EventReader(max_event_bytes=max_bytes, max_bytes=max_bytes * _FRAMING)
        self._failed = False
        self.over = False

    def feed(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE_BYTES):
            if self._failed:
                return
            for event in self._events.feed(data[start : start + _SLICE_BYTES]):
                self._take(event)
            if self._events.over or self._stream.kept_bytes > self._max_bytes:
                self._failed = self.over = True

    @property
    def ended(self) -> bool:
        return self._stream.ended

    def finish(self) -> Answer | None:
        return None if self._failed else self._stream.answer()

    def _take(self, event: Event) -> None:
        if event.data.strip() == _DONE:
            self._stream.ended = True
            return
        body = parsed_object(event.data)
        if event.name == "error":
            self._failed = True
        elif body is not None:
            self._failed = self._failed or bool(body.get("error")) or not self._stream.add(event.name, body)


def parsed_object(data: bytes | bytearray) -> dict[str, Any] | None:
    """The JSON object that the bytes are, else None; also None for one that holds more than anybody should read."""
    try:
        return json_object(data)
    except BodyError:
        return None
