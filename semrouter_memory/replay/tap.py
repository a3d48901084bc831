"""Envoy's tap output to recordings.

The tap filter shows one HTTP exchange from outside: headers, and the chunks of both bodies. A recording is made of it as
Envoy would have shown the same exchange to this service through the shipped chains. What the service answered is not in
there, nor are times; a body that the filter cut short (`max_buffered_rx_bytes`, 1 KiB by default) is incomplete, so such
an exchange is left out and reported.

Two formats are read, and the file's beginning tells which: JSON, the default of Envoy's file sink and what its admin
endpoint writes, and PROTO_BINARY_LENGTH_DELIMITED, the compact one in which each trace has its length. PROTO_BINARY has no
lengths, so where a trace ends can only be guessed. A file that ends in the middle of a trace was cut off while it was
written: what stands before is good, and the cut is reported, not raised. Fields of newer versions are skipped.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import EncodeError

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.pb.recording_pb2 import Begin, End, Record
from semrouter_memory.replay.pb.tap_pb2 import TraceWrapper
from semrouter_memory.replay.reading import Warn, begins_as_text, framed_messages
from semrouter_memory.replay.records import REQUEST_ID, Fields, header_value, parsed
from semrouter_memory.transport.pb.ext_proc_pb2 import HeaderValue, ProcessingRequest, ProtocolConfiguration

Chain = Literal["two-filter", "single-filter"]
_NONE_OF_HTTP = "this is no trace of HTTP: neither http_streamed_trace_segment nor http_buffered_trace"

_NO_TAP = "this is no output of Envoy's tap filter as JSON or PROTO_BINARY_LENGTH_DELIMITED"
_CUT = "the file ends in the middle of a trace"
_WHOLE_BEFORE = f"{_CUT}; what stands before it is whole"
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:\{[ \t\r\n]*(?:[\"}]|\Z)|\[[ \t\r\n]*(?:[\[\]{\"]|\Z)|\Z)")
# Around the traces of an array; between traces that stand one after the other, only space is.
_BETWEEN = " \t\r\n,[]"
_MAX_ESCAPE_CHARS = 6
_MAX_FILE_BYTES = 1024 * 1024 * 1024

_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@dataclass(slots=True)
class TappedExchange:
    """What a tap showed of one exchange.

    Attributes:
        truncated: a body was cut short.
        garbled: a compressed body was written as text, which Envoy does by putting spaces where bytes are no text.
    """

    location: str
    request_headers: Fields = ()
    request_chunks: list[bytes] = field(default_factory=list)
    request_trailers: Fields = ()
    response_headers: Fields = ()
    response_chunks: list[bytes] = field(default_factory=list)
    response_trailers: Fields = ()
    truncated: bool = False
    garbled: bool = False


def tap_files(paths: list[Path]) -> list[Path]:
    """The files, and for directories those in them, in the order in which they were written: their names tell none.

    Raises:
        InputFileError: there is no such file, or nothing in a directory.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputFileError(f"{path}: there is no such file")
        inside = [each for each in path.iterdir() if each.is_file()] if path.is_dir() else [path]
        if not inside:
            raise InputFileError(f"{path}: there are no files in this directory")
        found += sorted(inside, key=lambda each: (each.stat().st_mtime_ns, each.name))
    return found


def tapped_exchanges(path: Path, warn: Warn) -> Iterator[TappedExchange]:
    """The exchanges of a tap file, in the order in which they began; of whichever format.

    Raises:
        InputFileError: the file cannot be read, or is none; the message names the place. What stood before was yielded.
    """
    gathered = _Gathered(path)
    try:
        with path.open("rb") as file:
            for location, trace in _traces_in(file, str(path), warn):
                gathered.take(location, trace)
    except OSError as error:
        raise InputFileError(f"{path}: cannot be read: {error.strerror}") from None
    except InputFileError:
        yield from gathered.usable(warn)
        raise
    yield from gathered.usable(warn)
    gathered.check(warn)


class _Gathered:
    """The exchanges of one file: segments of several may stand among each other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun: list[TappedExchange] = []
        self._running: dict[int, TappedExchange] = {}
        self._others: list[str] = []

    def take(self, location: str, trace: Any) -> None:
        kind = trace.WhichOneof("trace")
        if kind == "http_buffered_trace":
            self._begun.append(_buffered(trace.http_buffered_trace, location))
        elif kind == "http_streamed_trace_segment":
            segment = trace.http_streamed_trace_segment
            _add(self._of(segment, location), segment)
        else:
            self._others.append(location)

    def usable(self, warn: Warn) -> Iterator[TappedExchange]:
        for tapped in self._begun:
            yield from _usable(tapped, warn)

    def check(self, warn: Warn) -> None:
        """Say what else was there. Raises: InputFileError, when that was all."""
        if not self._begun:
            raise InputFileError(f"{self._others[0] if self._others else self._path}: {_NONE_OF_HTTP}")
        if self._others:
            warn(f"{self._others[0]}: left out, as {len(self._others)} in all: {_NONE_OF_HTTP}")

    def _of(self, segment: Any, location: str) -> TappedExchange:
        """The segment's exchange: another one when its id comes again, as in outputs that were put together."""
        tapped = self._running.get(segment.trace_id)
        again = segment.WhichOneof("message_piece") == "request_headers" and tapped and tapped.request_headers
        if tapped is None or again:
            tapped = TappedExchange(location)
            self._running[segment.trace_id] = tapped
            self._begun.append(tapped)
        return tapped


def records_from(tapped: TappedExchange, *, chain: Chain, user: str, user_header: str, number: int) -> list[Record]:
    """The exchange as this service would have been shown it.

    Args:
        user: put into `user_header` where the tap did not see one, since it may stand before the authentication.
        number: names the exchange when it has no request id.
    """
    headers = tapped.request_headers
    if user and not header_value(headers, user_header):
        headers = (*headers, HeaderValue(key=user_header, raw_value=user.encode()))
    tapped = replace(tapped, request_headers=headers)
    name = header_value(headers, REQUEST_ID) or f"exchange-{number}"
    # Without an answer it is Envoy that gives up; the service would go on waiting.
    by = End.MEMORY if tapped.response_headers else End.ENVOY
    if chain == "single-filter":
        return _stream(1, name, [*_buffered_request(tapped, "STREAMED"), *_response(tapped)], by)
    first = _request_headers(tapped, modes=("STREAMED", "STREAMED"))
    observed = [first, *_chunks("request_body", tapped.request_chunks, ends=not tapped.request_trailers)]
    shown = [*observed, *_response(tapped)]
    for each in shown:
        each.observability_mode = True
    copies = _stream(1, name, shown, by)
    asked = _stream(2, name, _buffered_request(tapped, "NONE"), End.MEMORY)
    # As Envoy does it: copies of the request, then recall, then copies of the answer.
    return [*copies[: 1 + len(observed)], *asked, *copies[1 + len(observed) :]]


def _stream(number: int, name: str, requests: list[ProcessingRequest], by: int) -> list[Record]:
    begin = Record(stream=number, begin=Begin(exchange=name, answers_unknown=True))
    sent = [Record(stream=number, request=request) for request in requests]
    return [begin, *sent, Record(stream=number, end=End(by=End.By.Name(by)))]


def _headers(kind: str, fields: Fields, chunks: list[bytes]) -> ProcessingRequest:
    return _message(kind, headers={"headers": fields}, end_of_stream=not chunks)


def _request_headers(tapped: TappedExchange, *, modes: tuple[str, str]) -> ProcessingRequest:
    message = _headers("request_headers", tapped.request_headers, tapped.request_chunks)
    config = ProtocolConfiguration(request_body_mode=modes[0], response_body_mode=modes[1])
    message.protocol_config.CopyFrom(config)
    return message


def _buffered_request(tapped: TappedExchange, response_mode: str) -> list[ProcessingRequest]:
    body = b"".join(tapped.request_chunks)
    first = _request_headers(tapped, modes=("BUFFERED", response_mode))
    return [first, *_chunks("request_body", [body] if tapped.request_chunks else [], ends=True)]


def _response(tapped: TappedExchange) -> list[ProcessingRequest]:
    if not tapped.response_headers:
        return []
    headers = _headers("response_headers", tapped.response_headers, tapped.response_chunks)
    return [headers, *_chunks("response_body", tapped.response_chunks, ends=True)]


def _chunks(kind: str, chunks: list[bytes], *, ends: bool) -> list[ProcessingRequest]:
    last = len(chunks) - 1
    return [_message(kind, body=chunk, end_of_stream=ends and index == last) for index, chunk in enumerate(chunks)]


def _message(kind: str, **fields: Any) -> ProcessingRequest:
    parts: dict[str, Any] = {kind: fields}
    return ProcessingRequest(**parts)


def _usable(tapped: TappedExchange, warn: Warn) -> Iterator[TappedExchange]:
    if tapped.truncated:
        warn(
            f"{tapped.location}: left out: the tap cut a body short; raise max_buffered_rx_bytes and max_buffered_tx_bytes"
            " of its output_config"
        )
    elif tapped.garbled:
        warn(
            f"{tapped.location}: left out: the tap wrote a compressed body as text, and lost its bytes; let it write"
            " JSON_BODY_AS_BYTES"
        )
    elif not tapped.request_headers:
        warn(f"{tapped.location}: left out: the tap did not see the request's headers")
    else:
        yield tapped


def _buffered(trace: Any, location: str) -> TappedExchange:
    tapped = TappedExchange(location, tuple(trace.request.headers), response_headers=tuple(trace.response.headers))
    for message, headers, chunks in (
        (trace.request, tapped.request_headers, tapped.request_chunks),
        (trace.response, tapped.response_headers, tapped.response_chunks),
    ):
        if message.HasField("body"):
            _add_chunk(tapped, headers, chunks, message.body)
    return tapped


def _add(tapped: TappedExchange, segment: Any) -> None:
    piece = segment.WhichOneof("message_piece")
    if piece == "request_body_chunk":
        _add_chunk(tapped, tapped.request_headers, tapped.request_chunks, segment.request_body_chunk)
    elif piece == "response_body_chunk":
        _add_chunk(tapped, tapped.response_headers, tapped.response_chunks, segment.response_body_chunk)
    elif piece is not None:
        setattr(tapped, piece, tuple(getattr(segment, piece).headers))


def _add_chunk(tapped: TappedExchange, headers: Fields, chunks: list[bytes], body: Any) -> None:
    tapped.truncated = tapped.truncated or body.truncated
    compressed = header_value(headers, "content-encoding").lower() not in ("", "identity")
    tapped.garbled = tapped.garbled or (compressed and _NO_TEXT.search(body.as_string) is not None)
    chunks.append(body.as_bytes or body.as_string.encode())


def _traces_in(file: BufferedReader, name: str, warn: Warn) -> Iterator[tuple[str, TraceWrapper]]:
    """The traces of a file, each with its place.

    Raises:
        InputFileError: there is something else; what stood before it was yielded.
    """
    if not file.peek(1):
        raise InputFileError(f"{name}: the file is empty")
    if begins_as_text(file, _JSON):
        return _in_json(_text_of(file, name), name, warn)
    traces = framed_messages(file, name, warn, partial(parsed, TraceWrapper), otherwise=_NO_TAP)
    return ((location, trace) for location, trace, _ in traces)


def _in_json(text: str, name: str, warn: Warn) -> Iterator[tuple[str, TraceWrapper]]:
    """Objects one after the other, each on a line or over several, or in an array."""
    decoder, at, found = json.JSONDecoder(), 0, 0
    counted, line = 0, 1
    while (at := _after(_BETWEEN, text, at)) < len(text):
        # From where the counting stopped: from the start each time would take forever for large files.
        counted, line = at, line + text.count("\n", counted, at)
        location = f"{name}: line {line}"
        try:
            value, at = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError) or not _is_cut(text, error):
                raise InputFileError(f"{location}: this is not JSON") from None
            if not found:
                raise InputFileError(f"{location}: this is not JSON, or {_CUT}, the only one") from None
            warn(f"{location}: {_WHOLE_BEFORE}")
            return
        if not isinstance(value, dict):
            raise InputFileError(f"{location}: a trace is a JSON object")
        found += 1
        try:
            yield location, ParseDict(value, TraceWrapper(), ignore_unknown_fields=True)
        except (ParseError, EncodeError, ValueError, TypeError, RecursionError):
            raise InputFileError(f"{location}: this is not a trace of Envoy's tap filter") from None


def _text_of(file: BufferedReader, name: str) -> str:
    """The rest of the file as text, without a character at the end that is not whole."""
    data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise InputFileError(
            f"{name}: larger than {_MAX_FILE_BYTES} bytes; let the tap write PROTO_BINARY_LENGTH_DELIMITED"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.end == len(data) and error.reason == "unexpected end of data":
            return data[: error.start].decode()
        raise InputFileError(
            f"{name}: offset {error.start}: this is not UTF-8; let the tap write JSON_BODY_AS_BYTES"
        ) from None


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text stopped too early: within a text, or so near to the end that only a word or escape is not whole."""
    return error.msg.startswith("Unterminated string") or len(text.rstrip()) - error.pos <= _MAX_ESCAPE_CHARS


def _after(characters: str, text: str, at: int) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at
