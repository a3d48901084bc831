"""Reading an answer, whichever API it is: a JSON body, or a stream of events with JSON in their data.

What a stream is bounded by: `max_bytes` bounds what is buffered, the answer's text and the event under way. The stream
itself may be longer, because a token of four characters travels in some 250 bytes of framing.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from semrouter_memory.codec.base import Answer, AnswerReader
from semrouter_memory.codec.json_text import json_object
from semrouter_memory.codec.sse import Event, EventReader
from semrouter_memory.errors import BodyError

_FRAMING = 64
"""How many times longer than its text a stream may be."""

_DONE = b"[DONE]"

ENTRY_BYTES = 256
"""What an entry counts besides its text, so that empty ones are bounded too: about what it takes."""

_SLICE_BYTES = 64 * 1024
"""What is read at once. A bound is noticed behind each slice, however much a decoder gave in one piece."""


class AnswerStream(Protocol):
    """Puts an answer together from the events of one API."""

    @property
    def kept_bytes(self) -> int:
        """How much of the answer is held."""
        ...

    def add(self, name: str, event: dict[str, Any]) -> bool:
        """Take one event; False when it says that the answer failed."""
        ...

    def done(self) -> None:
        """The stream came to its regular end."""
        ...

    def answer(self) -> Answer | None: ...


Interpret: TypeAlias = Callable[[dict[str, Any]], Answer | None]
"""What a whole JSON body answers; None for one that is no answer."""


def reader_for(
    content_type: str, interpret: Interpret, stream: Callable[[], AnswerStream], *, max_bytes: int
) -> AnswerReader | None:
    """The reader for that content type, parameters and case aside; None for one that carries no answer."""
    match content_type.partition(";")[0].strip().lower():
        case "application/json":
            return JsonReader(interpret, max_bytes=max_bytes)
        case "text/event-stream":
            return EventStreamReader(stream(), max_bytes=max_bytes)
        case _:
            return None


class JsonReader:
    """Same as `AnswerReader`, for a JSON body. An answer that was cut is no JSON, so it is none."""

    __slots__ = ("_body", "_interpret", "_max_bytes")

    def __init__(self, interpret: Interpret, *, max_bytes: int) -> None:
        self._interpret = interpret
        self._max_bytes = max_bytes
        self._body: bytearray | None = bytearray()

    def feed(self, data: bytes) -> None:
        if self._body is None:
            return
        self._body += data
        if len(self._body) > self._max_bytes:
            self._body = None

    def finish(self) -> Answer | None:
        body = parsed_object(self._body) if self._body else None
        return self._interpret(body) if body is not None and not body.get("error") else None


class EventStreamReader:
    """Same as `AnswerReader`, for server-sent events. A cut stream gives what came so far, not `complete`."""

    __slots__ = ("_events", "_failed", "_max_bytes", "_stream")

    def __init__(self, stream: AnswerStream, *, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._events = EventReader(max_event_bytes=max_bytes, max_bytes=max_bytes * _FRAMING)
        self._failed = False

    def feed(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE_BYTES):
            if self._failed:
                return
            for event in self._events.feed(data[start : start + _SLICE_BYTES]):
                self._take(event)
            if self._events.over or self._stream.kept_bytes > self._max_bytes:
                self._failed = True

    def finish(self) -> Answer | None:
        return None if self._failed else self._stream.answer()

    def _take(self, event: Event) -> None:
        if event.data.strip() == _DONE:
            self._stream.done()
            return
        body = parsed_object(event.data)
        if event.name == "error":
            self._failed = True
        elif body is not None:
            self._failed = self._failed or bool(body.get("error")) or not self._stream.add(event.name, body)


class Texts:
    """Texts that arrive in pieces, each under a key."""

    __slots__ = ("_texts", "kept_bytes")

    def __init__(self) -> None:
        # Bytes, because a list of one-token strings takes many times the memory of its characters.
        self._texts: dict[tuple[int, ...], bytearray] = {}
        self.kept_bytes = 0

    def add(self, key: tuple[int, ...], piece: str) -> None:
        """Append to the text under the key; "" makes the key known."""
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = bytearray()
            self.kept_bytes += ENTRY_BYTES
        before = len(text)
        text += piece.encode("utf-8", "replace")
        self.kept_bytes += len(text) - before

    def replace(self, key: tuple[int, ...], text: str) -> None:
        """Put a text in the place of its pieces."""
        if (pieces := self._texts.get(key)) is not None:
            self.kept_bytes -= len(pieces)
            pieces.clear()
        self.add(key, text)

    def joined(self) -> list[tuple[tuple[int, ...], str]]:
        """Keys and texts, in the order of the keys."""
        return [(key, text.decode()) for key, text in sorted(self._texts.items())]


def parsed_object(data: bytes | bytearray) -> dict[str, Any] | None:
    """The JSON object that the bytes are, else None; also None for one that holds more than anybody should read."""
    try:
        return json_object(data)
    except BodyError:
        return None
