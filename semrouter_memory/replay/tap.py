"""Envoy's tap output to recordings.

The tap filter shows one HTTP exchange from outside: headers, and the chunks of both bodies. A recording is made of it as
Envoy would have shown the same exchange to this service through the shipped chains. What the service answered is not in
there, nor are times; a body that the filter cut short (`max_buffered_rx_bytes`, 1 KiB unless told otherwise) is no body,
so such an exchange is left out and said.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

from semrouter_memory.errors import RecordingError
from semrouter_memory.replay import protocol
from semrouter_memory.replay.protocol import TapTrace
from semrouter_memory.replay.reading import Tell, begins_as_text, framed_messages
from semrouter_memory.replay.records import (
    REQUEST_ID,
    Begin,
    End,
    EndedBy,
    Event,
    Fields,
    Place,
    Record,
    Shown,
    header_value,
)

Chain = Literal["two-filter", "single-filter"]
_NO_TAP = "this is neither JSON nor length-delimited protobuf of Envoy's tap filter"
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:\{[ \t\r\n]*(?:[\"}]|\Z)|\[[ \t\r\n]*(?:[\[\]{\"]|\Z)|\Z)")
_MAX_ESCAPE_CHARS = 6
_MAX_FILE_BYTES = 1024 * 1024 * 1024


@dataclass(slots=True)
class TappedExchange:
    """What a tap showed of one exchange."""

    place: Place
    request_headers: Fields = ()
    request_chunks: list[bytes] = field(default_factory=list)
    request_trailers: Fields = ()
    response_headers: Fields = ()
    response_chunks: list[bytes] = field(default_factory=list)
    response_trailers: Fields = ()
    truncated: bool = False


def tapped_exchanges(path: Path, tell: Tell) -> Iterator[TappedExchange]:
    """The exchanges of a tap file, JSON or length-delimited protobuf.

    Raises:
        RecordingError: the file cannot be read, or is none; the message names the place.
    """
    streamed: dict[int, TappedExchange] = {}
    try:
        with path.open("rb") as file:
            for place, trace in _traces(file, str(path), tell):
                kind = trace.WhichOneof("trace")
                if kind == "http_buffered_trace":
                    yield from _usable(_buffered(trace.http_buffered_trace, place), tell)
                elif kind == "http_streamed_trace_segment":
                    segment = trace.http_streamed_trace_segment
                    _add(streamed.setdefault(segment.trace_id, TappedExchange(place)), segment)
                else:
                    raise RecordingError(f"{place}: this trace is none of HTTP")
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None
    for tapped in streamed.values():
        yield from _usable(tapped, tell)


def records_from(tapped: TappedExchange, *, chain: Chain, user: str, user_header: str, number: int) -> list[Record]:
    """The exchange as this service would have been shown it.

    Args:
        user: put into `user_header` where the tap did not see one, since it may stand before the authentication.
        number: names the exchange when it has no request id.
    """
    headers = tapped.request_headers
    if user and not header_value(headers, user_header):
        headers = (*headers, (user_header, user.encode()))
    tapped = replace(tapped, request_headers=headers)
    name = header_value(headers, REQUEST_ID) or f"exchange-{number}"
    if chain == "single-filter":
        return _stream(1, name, [*_buffered_request(tapped, "STREAMED"), *_response(tapped)], EndedBy.MEMORY)
    first = _request_headers(tapped, observing=True, modes=("STREAMED", "STREAMED"))
    observed = [first, *_chunks("request_body", tapped.request_chunks, ends=not tapped.request_trailers)]
    copies = _stream(
        1, name, [replace(each, observing=True) for each in [*observed, *_response(tapped)]], EndedBy.MEMORY
    )
    asked = _stream(2, name, _buffered_request(tapped, "NONE"), EndedBy.MEMORY)
    # As Envoy does it: copies of the request, then recall, then copies of the answer.
    return [*copies[: 1 + len(observed)], *asked, *copies[1 + len(observed) :]]


def _stream(number: int, name: str, shown: list[Shown], by: EndedBy) -> list[Record]:
    events: list[Event] = [Begin(name, (), answers_known=False), *shown, End(by)]
    return [Record(number, 0, event) for event in events]


def _request_headers(tapped: TappedExchange, *, observing: bool, modes: tuple[str, str]) -> Shown:
    return Shown(
        kind="request_headers",
        headers=tapped.request_headers,
        end_of_stream=not tapped.request_chunks,
        observing=observing,
        request_body_mode=modes[0],
        response_body_mode=modes[1],
    )


def _buffered_request(tapped: TappedExchange, response_mode: str) -> list[Shown]:
    body = b"".join(tapped.request_chunks)
    first = _request_headers(tapped, observing=False, modes=("BUFFERED", response_mode))
    return [first, *_chunks("request_body", [body] if tapped.request_chunks else [], ends=True)]


def _response(tapped: TappedExchange) -> list[Shown]:
    if not tapped.response_headers:
        return []
    chunks = tapped.response_chunks
    headers = Shown(kind="response_headers", headers=tapped.response_headers, end_of_stream=not chunks)
    return [headers, *_chunks("response_body", chunks, ends=True)]


def _chunks(kind: str, chunks: list[bytes], *, ends: bool) -> list[Shown]:
    last = len(chunks) - 1
    return [Shown(kind=kind, body=chunk, end_of_stream=ends and index == last) for index, chunk in enumerate(chunks)]


def _usable(tapped: TappedExchange, tell: Tell) -> Iterator[TappedExchange]:
    if tapped.truncated:
        tell(
            f"{tapped.place}: left out: the tap cut a body short; raise max_buffered_rx_bytes and max_buffered_tx_bytes"
            " of its output_config"
        )
    elif not tapped.request_headers:
        tell(f"{tapped.place}: left out: the tap did not see the request's headers")
    else:
        yield tapped


def _buffered(trace: Any, place: Place) -> TappedExchange:
    tapped = TappedExchange(place, _fields(trace.request.headers), response_headers=_fields(trace.response.headers))
    for message, chunks in ((trace.request, tapped.request_chunks), (trace.response, tapped.response_chunks)):
        body = _body(message.body)
        tapped.truncated = tapped.truncated or message.body.truncated
        if body:
            chunks.append(body)
    return tapped


def _add(tapped: TappedExchange, segment: Any) -> None:
    piece = segment.WhichOneof("message_piece")
    if piece in ("request_body_chunk", "response_body_chunk"):
        chunk = getattr(segment, piece)
        tapped.truncated = tapped.truncated or chunk.truncated
        (tapped.request_chunks if piece.startswith("request") else tapped.response_chunks).append(_body(chunk))
    elif piece is not None:
        setattr(tapped, piece, _fields(getattr(segment, piece).headers))


def _body(body: Any) -> bytes:
    data: bytes = body.as_bytes or body.as_string.encode()
    return data


def _fields(headers: Any) -> Fields:
    return tuple((each.key, each.raw_value or each.value.encode()) for each in headers)


def _traces(file: BufferedReader, name: str, tell: Tell) -> Iterator[tuple[Place, TapTrace]]:
    if not file.peek(1):
        raise RecordingError(f"{name}: the file is empty")
    if begins_as_text(file, _JSON):
        yield from _in_json(file, name, tell)
        return
    for place, data in framed_messages(file, name, tell, otherwise=_NO_TAP):
        yield place, _placed(place, lambda data=data: protocol.tap_trace(data))


def _in_json(file: BufferedReader, name: str, tell: Tell) -> Iterator[tuple[Place, TapTrace]]:
    """Objects one after the other, each over several lines."""
    data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise RecordingError(f"{name}: larger than {_MAX_FILE_BYTES} bytes; let the tap write protobuf")
    text = _text_of(data, name)
    decoder, at, found = json.JSONDecoder(), 0, 0
    counted, line = 0, 1
    while (at := _after_space(text, at)) < len(text):
        # From where the counting stopped: from the start each time would take forever for large files.
        counted, line = at, line + text.count("\n", counted, at)
        place = Place(name, f"line {line}")
        try:
            value, at = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            if found and isinstance(error, json.JSONDecodeError) and _is_cut(text, error):
                tell(f"{place}: the file ends in the middle of a trace; what stands before it is whole")
                return
            raise RecordingError(f"{place}: this is not JSON") from None
        if not isinstance(value, dict):
            raise RecordingError(f"{place}: a trace is a JSON object")
        found += 1
        yield place, _placed(place, lambda value=value: protocol.tap_trace_of(value))


def _text_of(data: bytes, name: str) -> str:
    """The data as text, without a character at the end that is not whole."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.end == len(data) and error.reason == "unexpected end of data":
            return data[: error.start].decode()
        raise RecordingError(f"{name}: offset {error.start}: this is neither JSON nor a tap's protobuf") from None


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text stopped too early: within a text, or so near to the end that only a word or escape is not whole."""
    return error.msg.startswith("Unterminated string") or len(text.rstrip()) - error.pos <= _MAX_ESCAPE_CHARS


def _placed(place: Place, parse: Any) -> TapTrace:
    try:
        trace: TapTrace = parse()
    except RecordingError as error:
        raise RecordingError(f"{place}: {error}") from None
    return trace


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at
