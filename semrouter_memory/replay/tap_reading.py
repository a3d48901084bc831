"""Traces from files of Envoy's tap filter, in each of its formats.

Strategy: the file's beginning tells the format, not its name. JSON and text are read whole, traces are taken out one after
the other; binary is read a trace at a time. A file that ends in the middle of a trace was cut off while it was written:
what stands before is good, and the cut is told, not raised. Fields of newer versions are passed over.
"""

import json
import re
from collections.abc import Callable, Iterator
from io import BufferedReader, BytesIO
from typing import ParamSpec

from semrouter_memory.errors import RecordingError
from semrouter_memory.replay import protocol
from semrouter_memory.replay.protocol import TapTrace
from semrouter_memory.replay.reading import START, Tell, begins_as_text, framed_messages, next_framed, varint
from semrouter_memory.replay.records import Place

_P = ParamSpec("_P")
_NO_TAP = "this is no output of Envoy's tap filter (JSON, PROTO_BINARY_LENGTH_DELIMITED, PROTO_BINARY or PROTO_TEXT)"
_CUT = "the file ends in the middle of a trace"
_WHOLE_BEFORE = f"{_CUT}; what stands before it is whole"
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:\{[ \t\r\n]*(?:[\"}]|\Z)|\[[ \t\r\n]*(?:[\[\]{\"]|\Z)|\Z)")
_TEXT = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:http|socket)_[a-z_]+[ \t\r\n]*:?[ \t\r\n]*\{")
_TEXT_TOKEN = re.compile(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|[{}"']""")
# Around the traces of an array; between traces that stand one after the other, only space is.
_BETWEEN = " \t\r\n,[]"
_MAX_ESCAPE_CHARS = 6
_MAX_FILE_BYTES = 1024 * 1024 * 1024
_PEEK_BYTES = 32
_TRACE_TAGS = (0x0A, 0x12, 0x1A, 0x22)
"""With which a trace begins: the members of Envoy's TraceWrapper, two of HTTP and two of sockets."""
_LENGTH_DELIMITED = 2


def traces_in(file: BufferedReader, name: str, tell: Tell) -> Iterator[tuple[Place, TapTrace]]:
    """The traces of a file, each with its place.

    Raises:
        RecordingError: there is something else; what stood before it was yielded.
    """
    if not file.peek(1):
        raise RecordingError(f"{name}: the file is empty")
    if begins_as_text(file, _JSON):
        return _in_json(_text_of(file, name), name, tell)
    if begins_as_text(file, _TEXT):
        return _in_text(_text_of(file, name), name, tell)
    if _is_bare(file.peek(_PEEK_BYTES)):
        return _in_bare(file, name, tell)
    return _in_framed(file, name, tell)


def _in_framed(file: BufferedReader, name: str, tell: Tell) -> Iterator[tuple[Place, TapTrace]]:
    for place, data in framed_messages(file, name, tell, otherwise=_NO_TAP):
        try:
            trace = protocol.tap_trace(data)
        except RecordingError as error:
            raise RecordingError(f"{place}: {error if place.at != START else _NO_TAP}") from None
        yield place, trace


def _is_bare(head: bytes) -> bool:
    """Whether binary traces stand there without their lengths before them: then a member's length is the first number."""
    if not head or head[0] not in _TRACE_TAGS:
        return False
    rest = BytesIO(head)
    try:
        whole, tag, member = varint(rest), rest.read(1), varint(rest)
    except (EOFError, RecordingError):
        return True
    if whole is None or member is None or tag[0] not in _TRACE_TAGS:
        return True
    size, nbytes = member
    return 1 + nbytes + size != whole[0]


def _in_bare(file: BufferedReader, name: str, tell: Tell) -> Iterator[tuple[Place, TapTrace]]:
    """Each trace is one member of a wrapper, so that its own tag and length tell where it ends."""
    offset = 0
    while tag := file.read(1):
        place = Place(name, f"offset {offset}")
        number, kind = tag[0] >> 3, tag[0] & 7
        if not number or kind != _LENGTH_DELIMITED:
            raise RecordingError(f"{place}: this is not a trace of Envoy's tap filter")
        try:
            member = next_framed(file)
        except EOFError:
            member = None
        except RecordingError as error:
            raise RecordingError(f"{place}: {error if offset else _NO_TAP}") from None
        if member is None and not offset:
            raise RecordingError(f"{place}: {_CUT}, the only one, or {_NO_TAP}")
        if member is None:
            tell(f"{place}: {_WHOLE_BEFORE}")
            return
        yield place, _placed(place, protocol.tap_trace_member, number, member.data)
        offset += 1 + member.nbytes


def _in_json(text: str, name: str, tell: Tell) -> Iterator[tuple[Place, TapTrace]]:
    """Objects one after the other, each on a line or over several, or in an array."""
    decoder, at, found = json.JSONDecoder(), 0, 0
    counted, line = 0, 1
    while (at := _after(_BETWEEN, text, at)) < len(text):
        # From where the counting stopped: from the start each time would take forever for large files.
        counted, line = at, line + text.count("\n", counted, at)
        place = Place(name, f"line {line}")
        try:
            value, at = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError) or not _is_cut(text, error):
                raise RecordingError(f"{place}: this is not JSON") from None
            if not found:
                raise RecordingError(f"{place}: this is not JSON, or {_CUT}, the only one") from None
            tell(f"{place}: {_WHOLE_BEFORE}")
            return
        if not isinstance(value, dict):
            raise RecordingError(f"{place}: a trace is a JSON object")
        found += 1
        yield place, _placed(place, protocol.tap_trace_of, value)


def _in_text(text: str, name: str, tell: Tell) -> Iterator[tuple[Place, TapTrace]]:
    """Messages one after the other; a trace ends where its braces do."""
    start = depth = counted = 0
    line, found = 1, 0
    for token in _TEXT_TOKEN.finditer(text):
        mark = token.group()
        if mark in ('"', "'"):
            break  # A text without an end: the file was cut there.
        depth += (mark == "{") - (mark == "}")
        if mark != "}" or depth:
            continue
        start = _after(_BETWEEN, text, start)
        counted, line = start, line + text.count("\n", counted, start)
        place, piece = Place(name, f"line {line}"), text[start : token.end()]
        found, start = found + 1, token.end()
        yield place, _placed(place, protocol.tap_trace_of_text, piece)
    if text[start:].strip():
        place = Place(name, f"line {line + text.count(chr(10), counted, _after(_BETWEEN, text, start))}")
        if not found:
            raise RecordingError(f"{place}: {_CUT}, the only one")
        tell(f"{place}: {_WHOLE_BEFORE}")


def _text_of(file: BufferedReader, name: str) -> str:
    """The rest of the file as text, without a character at the end that is not whole."""
    data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise RecordingError(f"{name}: larger than {_MAX_FILE_BYTES} bytes; let the tap write protobuf")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.end == len(data) and error.reason == "unexpected end of data":
            return data[: error.start].decode()
        raise RecordingError(
            f"{name}: offset {error.start}: this is not UTF-8; let the tap write JSON_BODY_AS_BYTES"
        ) from None


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text stopped too early: within a text, or so near to the end that only a word or escape is not whole."""
    return error.msg.startswith("Unterminated string") or len(text.rstrip()) - error.pos <= _MAX_ESCAPE_CHARS


def _placed(place: Place, parse: Callable[_P, TapTrace], *arguments: _P.args, **named: _P.kwargs) -> TapTrace:
    try:
        return parse(*arguments, **named)
    except RecordingError as error:
        raise RecordingError(f"{place}: {error}") from None


def _after(characters: str, text: str, at: int) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at
