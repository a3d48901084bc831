"""What is fuzzed: each target takes any bytes and fails when a promise is broken.

Strategy: no target repeats the code under test. Bodies are judged by `tests.body_oracle`, event streams by a reader that
splits the whole text at once, compressed data by the libraries' one-shot functions, and everything by being read whole
and byte by byte. A target raises nothing on an input that is treated as promised.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import brotli
from google.protobuf.message import DecodeError

from semrouter_memory.codec.answers import ENTRY_BYTES, EventReader
from semrouter_memory.codec.answers import Event as ServerSentEvent
from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import Answer
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.edit import has_our_fields
from semrouter_memory.codec.encoding import decoder_for
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.config import MemoryConfig
from semrouter_memory.errors import BodyError
from semrouter_memory.exchange.events import (
    BodyMode,
    Event,
    Headers,
    Protocol,
    RequestBody,
    RequestHeaders,
    RequestTrailers,
    ResponseBody,
    ResponseHeaders,
    ResponseTrailers,
    UnknownEvent,
)
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import RouteSettings, route_settings
from semrouter_memory.exchange.replies import Continue, NeedRecall, ReplaceBody, Reply, Silence, StreamBody
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.model import Position, Reason, RecallResult
from semrouter_memory.transport import wire
from semrouter_memory.transport.pb import ext_proc_pb2 as pb
from tests.body_oracle import assert_undamaged
from tests.fuzz.reading import Tape, pieces
from tests.message_readers import FIGURES, READERS, RUNS, SIGNS, WORDS

BLOCK = '<!-- semrouter-memory:begin -->\n* "Zürich" \\ \u2028 🏔\n<!-- semrouter-memory:end -->'
CODECS: tuple[Codec, ...] = (ChatCodec(), ResponsesCodec())
POSITIONS = tuple(Position)
CONTENT_TYPES = ("application/json", "text/event-stream")
CODINGS = ("", "gzip", "deflate", "br", "gzip, br", "deflate, gzip")
MODES = (None, *BodyMode)
NOW = datetime(2026, 3, 15, tzinfo=UTC)
MAX_BYTES = 4096
PIECES = (*FIGURES, *SIGNS, *WORDS, *RUNS)
MAX_PIECES = 60


# -- request bodies ----------------------------------------------------------------------------------------------------


def request_body(data: bytes) -> None:
    """A body is read or refused; what is sent in its place is undamaged, and the same when it was parsed before."""
    tape = Tape(data)
    codec, position, block = tape.one_of(CODECS), tape.one_of(POSITIONS), tape.one_of((BLOCK, ""))
    raw = tape.rest()
    try:
        parsed = codec.parse(raw)
    except BodyError:
        return
    codec.outline(parsed)
    codec.items(parsed)
    sent = codec.rewrite(raw, block=block, position=position, parsed=parsed)
    assert_undamaged(raw, sent, block)
    assert codec.rewrite(raw, block=block, position=position) == sent
    again = codec.parse(sent)
    assert not has_our_fields(again.body or {})
    # White space at an end is no difference: a block is taken out together with what parted it from the text.
    assert [text.rstrip() for text in again.turn_texts] == [text.rstrip() for text in parsed.turn_texts]


# -- answers -----------------------------------------------------------------------------------------------------------

_LINE_END = re.compile(rb"\r\n|\n|\r")


def event_stream(data: bytes) -> None:
    """Any split gives the events that the specification's algorithm gives over the whole."""
    tape = Tape(data)
    size = tape.byte() % 9
    raw = tape.rest()
    reader = EventReader(max_event_bytes=1 << 20, max_bytes=1 << 20)
    assert [event for piece in pieces(raw, size) for event in reader.feed(piece)] == _events(raw)
    bounded = EventReader(max_event_bytes=16, max_bytes=64)
    for piece in pieces(raw, size):
        for event in bounded.feed(piece):
            assert len(event.data) <= 16


def _events(raw: bytes) -> list[ServerSentEvent]:
    *lines, _ = _LINE_END.split(raw)
    found: list[ServerSentEvent] = []
    name, values = "", list[bytes]()
    for number, whole in enumerate(lines):
        line = whole.removeprefix(b"\xef\xbb\xbf") if number == 0 else whole
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if values:
                found.append(ServerSentEvent(name, b"\n".join(values)))
            name, values = "", []
        elif key == b"data":
            values.append(value)
        elif key == b"event":
            name = value.decode("utf-8", "replace")
    return found


def answer(data: bytes) -> None:
    """The same is read in an answer whole and in pieces, and what is kept of it is bounded."""
    tape = Tape(data)
    codec, content_type, size = tape.one_of(CODECS), tape.one_of(CONTENT_TYPES), tape.byte() % 9
    raw = tape.rest()
    found = _read_answer(codec, content_type, raw, 0)
    assert _read_answer(codec, content_type, raw, size) == found
    if found is not None:
        assert sum(map(len, found.texts)) <= MAX_BYTES
        assert len(found.texts) <= max(1, MAX_BYTES // ENTRY_BYTES + len(raw) // ENTRY_BYTES)
        for text in (*found.texts, *found.calls, found.response_id, found.model):
            text.encode()


def _read_answer(codec: Codec, content_type: str, raw: bytes, size: int) -> Answer | None:
    reader = codec.answer_reader(content_type, max_bytes=MAX_BYTES)
    assert reader is not None
    for piece in pieces(raw, size):
        reader.feed(piece)
    return reader.finish()


def compressed(data: bytes) -> None:
    """Decoding in pieces gives what the library gives in one go, damage is said, and the bound holds."""
    tape = Tape(data)
    coding, size = tape.one_of(CODINGS[1:4]), tape.byte() % 9
    raw = tape.rest()
    decoder = decoder_for(coding, max_bytes=MAX_BYTES)
    assert decoder is not None
    output = b""
    try:
        for piece in pieces(raw, size):
            output += decoder.decode(piece)
    except BodyError:
        assert len(output) <= MAX_BYTES
        return
    assert len(output) <= MAX_BYTES
    assert output == _decoded(coding, raw)


def _decoded(coding: str, raw: bytes) -> bytes:
    if coding == "br":
        stream = brotli.Decompressor()
        output: bytes = stream.process(raw) if raw else b""
        return output
    if coding == "deflate":
        if len(raw) < 2:
            return b""
        is_zlib = raw[0] & 15 == 8 and int.from_bytes(raw[:2], "big") % 31 == 0
        return zlib.decompressobj(15 if is_zlib else -15).decompress(raw)
    output, rest = b"", raw
    while rest and (rest is raw or rest.startswith(b"\x1f\x8b")):
        member = zlib.decompressobj(31)
        output += member.decompress(rest)
        rest = member.unused_data
    return output


# -- the exchange ------------------------------------------------------------------------------------------------------

SETTINGS = ExchangeSettings(memory=MemoryConfig(), max_body_bytes=1024, max_answer_bytes=MAX_BYTES)
_OURS = [(":path", "/v1/chat/completions"), (":method", "POST"), ("x-authz-user-id", "alice")]
_RESPONSES = [(":path", "/v1/responses"), (":method", "POST"), ("x-authz-user-id", "alice")]
REQUESTS: tuple[list[tuple[str, str]], ...] = (
    _OURS,
    _RESPONSES,
    [(":path", "/v1/models"), (":method", "GET")],
    [],
    [*_OURS, ("x-authz-user-id", "bob")],
)
ANSWERS = tuple(
    [(":status", status), ("content-type", kind), ("content-encoding", coding)]
    for status in ("200", "503")
    for kind in CONTENT_TYPES
    for coding in ("", "gzip", "br")
)
KINDS = 10
"""Of events; the first byte of each says which."""


@dataclass
class Upstream:
    """What Envoy would have sent on, judged against what it was given.

    Attributes:
        held: what of the request body was kept back so far.
    """

    protocol: Protocol
    held: bytes = b""
    ended: bool = False
    pieces: list[bytes] = field(default_factory=list)

    def request(self, data: bytes, reply: Reply, block: str, *, end: bool | None) -> None:
        """Judge the reply to a piece of the request body, or to its trailers (`end` is None)."""
        self.held += data
        if self.protocol.observing:
            assert isinstance(reply, Silence)
            return
        if self.protocol.request_body is not BodyMode.FULL_DUPLEX_STREAMED:
            if isinstance(reply, ReplaceBody):
                assert_undamaged(data, reply.body, block)
            else:
                assert isinstance(reply, Continue)
            return
        if isinstance(reply, StreamBody):
            assert_undamaged(self.held, reply.body, block)
            assert reply.end_of_stream == (end is True)
            self.held = b""
        else:
            assert isinstance(reply, Continue if end is None else Silence)
            assert not (self.held and end is not False), "the request ended and its body was not let go"

    def response(self, data: bytes, reply: Reply, *, end: bool) -> None:
        if self.protocol.observing:
            assert isinstance(reply, Silence)
        elif self.protocol.response_body is BodyMode.FULL_DUPLEX_STREAMED:
            assert reply == StreamBody(data, end)
        else:
            assert isinstance(reply, Continue)


def exchange(data: bytes) -> None:
    """Any events in any order: each has its reply, no exception leaves, and no body is damaged."""
    tape = Tape(data)
    protocol = Protocol(tape.byte() % 5 == 4, tape.one_of(MODES), tape.one_of(MODES))
    block = tape.one_of((BLOCK, ""))
    subject = Exchange(SETTINGS, RouteSettings(), NOW)
    upstream = Upstream(protocol)
    _step(subject, RequestHeaders(Headers(tape.one_of(REQUESTS)), tape.byte() % 9 == 8, protocol), block)
    while not tape.ended and not subject.finished:
        event = _event(tape)
        reply = _step(subject, event, block)
        match event:
            case RequestBody(body, end):
                upstream.request(body, reply, block, end=end)
            case RequestTrailers():
                upstream.request(b"", reply, block, end=None)
            case ResponseBody(body, end):
                upstream.response(body, reply, end=end)
            case _:
                assert isinstance(reply, Silence if protocol.observing else Continue)
    if protocol.request_body is BodyMode.FULL_DUPLEX_STREAMED and subject.finished and not protocol.observing:
        assert not upstream.held, "the stream was left while a body was held"
    subject.take_turn()
    assert subject.take_turn() is None


def _step(subject: Exchange, event: Event, block: str) -> Reply:
    step = subject.receive(event)
    if isinstance(step, NeedRecall):
        return subject.recalled(RecallResult(reason=Reason.INJECTED, text=block))
    return step


def _event(tape: Tape) -> Event:
    match tape.byte() % KINDS:
        case 0 | 1 | 2:
            end = tape.yes()
            return RequestBody(tape.take(tape.size()), end)
        case 3:
            return ResponseHeaders(Headers(tape.one_of(ANSWERS)), tape.byte() % 9 == 8)
        case 4 | 5:
            end = tape.yes()
            return ResponseBody(tape.take(tape.size()), end)
        case 6:
            return RequestTrailers()
        case 7:
            return ResponseTrailers()
        case 8:
            return RequestHeaders(Headers(tape.one_of(REQUESTS)), tape.yes(), Protocol(request_body=tape.one_of(MODES)))
    return UnknownEvent()


# -- the wire ----------------------------------------------------------------------------------------------------------


def wire_messages(data: bytes) -> None:
    """Messages of any bytes: unreadable ones are said to be, all others are answered in their own kind."""
    tape = Tape(data)
    route = route_settings({"x-memory-limit": tape.take(3).decode("latin-1")})
    subject = Exchange(SETTINGS, route, NOW)
    while not tape.ended and not subject.finished:
        try:
            message = wire.parse(tape.take(tape.size()))
        except DecodeError:
            return
        reply = _step(subject, wire.event_from(message), BLOCK)
        answers = [pb.ProcessingResponse.FromString(each) for each in wire.replies_to(message, reply)]
        kind = message.WhichOneof("request")
        for each in answers[:-1]:
            assert each.WhichOneof("response") in ("request_body", "response_body")
        if answers and kind is not None:
            assert answers[-1].WhichOneof("response") == kind


# -- messages ----------------------------------------------------------------------------------------------------------


def message(data: bytes) -> None:
    """Whatever a user writes is read."""
    text = "".join(PIECES[byte % len(PIECES)] for byte in data[:MAX_PIECES])
    for read in READERS.values():
        read(text)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "request_body": request_body,
    "event_stream": event_stream,
    "answer": answer,
    "compressed": compressed,
    "exchange": exchange,
    "wire_messages": wire_messages,
    "message": message,
}
