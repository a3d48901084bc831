"""Records as JSON lines, made to be read and compared by people: a record a line, keys in a fixed order. Pure.

What is at its default is left out. Bytes are written as text where they are UTF-8, else as base64 under a name that says
so. A line without a time happened when the one before it did.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import orjson

from semrouter_memory.errors import InputFileError
from semrouter_memory.model import Json
from semrouter_memory.replay.protocol import ACTIONS, MODES
from semrouter_memory.replay.records import (
    IMMEDIATE,
    KINDS,
    Begin,
    End,
    EndedBy,
    Fields,
    Header,
    ProcessingRequest,
    ProcessingResponse,
    Record,
    SetHeader,
)

_T = TypeVar("_T")
NOT_JSON = "this is not JSON"
_MAX_STREAM = (1 << 63) - 1
_MAX_MS = 1e12
_SET_HEADER = {"name", "value", "append", "action"}
_OVERWRITE = {"append": False, "action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def line_of(record: Record, *, timed: bool = True) -> bytes:
    """The record as a line, without its line feed.

    Args:
        timed: write when; without, only the order is kept.
    """
    event = record.event
    if isinstance(event, Header):
        return orjson.dumps(_header(event))
    head: dict[str, Json] = {"stream": record.stream}
    if timed:
        head["t_ms"] = round(record.time_us / 1000, 3)
    match event:
        case Begin():
            body = _begin(event)
        case ProcessingRequest():
            body = _request(event)
        case ProcessingResponse():
            body = _answer(event)
        case End():
            body = {"end": event.by.value, **({"note": event.note} if event.note else {})}
    return orjson.dumps({**head, **body})


def read_line(line: bytes, *, before_us: int) -> tuple[Record, set[str]]:
    """The record in a line, and its keys that are not known. A key whose value is null counts as absent.

    Args:
        before_us: the time of the line before it.

    Raises:
        InputFileError: it is none; the message says why, not where.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise InputFileError(NOT_JSON) from None
    if not isinstance(value, dict):
        raise InputFileError("a record is a JSON object")
    reader = _LineReader(value)
    return reader.record(before_us), reader.unknown


def _header(header: Header) -> dict[str, Json]:
    value: dict[str, Json] = {"recording": header.version, "made_by": header.made_by}
    if header.started_at:
        value["started_at"] = header.started_at
    return {**value, "pseudonymised": header.pseudonymised}


def _begin(begin: Begin) -> dict[str, Json]:
    value: dict[str, Json] = {"begin": begin.exchange, "metadata": [list(pair) for pair in begin.metadata]}
    if not begin.answers_known:
        value["answers_known"] = False
    return value


def _request(request: ProcessingRequest) -> dict[str, Json]:
    value: dict[str, Json] = {"envoy": request.kind}
    if request.headers:
        value["headers"] = [[name, _text_or_base64(data)] for name, data in request.headers]
    if request.kind in ("request_body", "response_body"):
        value |= _bytes("body", request.body)
    for name in ("end_of_stream", "observing", "request_body_mode", "response_body_mode", "metadata", "attributes"):
        if getattr(request, name) not in (False, None, {}):
            value[name] = getattr(request, name)
    return value


def _answer(answer: ProcessingResponse) -> dict[str, Json]:
    value: dict[str, Json] = {"memory": answer.kind}
    if answer.set_headers:
        value["set_headers"] = [_set_header(each) for each in answer.set_headers]
    if answer.remove_headers:
        value["remove_headers"] = list(answer.remove_headers)
    if answer.body is not None:
        value |= _bytes("body", answer.body)
    for name in ("streamed", "end_of_stream", "replaces", "clear_route_cache", "http_status", "dynamic_metadata"):
        if getattr(answer, name) not in (False, 0, {}):
            value[name] = getattr(answer, name)
    return value


def _set_header(header: SetHeader) -> dict[str, Json]:
    value: dict[str, Json] = {"name": header.name, "value": _text_or_base64(header.value)}
    how = {"append": header.append, "action": header.action}
    # How this service always does it needs no words.
    return value if how == _OVERWRITE else {**value, **how}


def _bytes(name: str, data: bytes) -> dict[str, Json]:
    text = _text_or_base64(data)
    return {name: text} if isinstance(text, str) else {f"{name}_base64": text["base64"]}


def _text_or_base64(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


class _LineReader:
    """Takes one line's members out by name; what is left over at the end is said, not silently ignored."""

    def __init__(self, value: dict[str, Any]) -> None:
        self._left = {name: each for name, each in value.items() if each is not None}
        self.unknown: set[str] = set()

    def record(self, before_us: int) -> Record:
        if "recording" in self._left:
            return self._done(Record(0, 0, self._header()))
        stream = self._take("stream", int, 0)
        if not 0 <= stream <= _MAX_STREAM:
            raise InputFileError("stream: must not be negative, nor so large")
        time_us = self._time(before_us)
        kinds = [name for name in ("begin", "envoy", "memory", "end") if name in self._left]
        if len(kinds) != 1:
            raise InputFileError("a record has one of `recording`, `begin`, `envoy`, `memory` and `end`")
        event: Begin | ProcessingRequest | ProcessingResponse | End
        match kinds[0]:
            case "begin":
                event = Begin(self._take("begin", str, ""), self._metadata(), self._flag("answers_known", default=True))
            case "envoy":
                event = self._request()
            case "memory":
                event = self._answer()
            case _:
                event = End(self._ended_by(), self._take("note", str, ""))
        return self._done(Record(stream, time_us, event))

    def _done(self, record: Record) -> Record:
        self.unknown |= set(self._left)
        return record

    def _take(self, name: str, kind: type[_T], default: _T) -> _T:
        value = self._left.pop(name, default)
        # Exactly that type: true is not the number 1.
        if type(value) is not kind:
            raise InputFileError(f"{name}: must be {_WORDS[kind]}")
        return value

    def _flag(self, name: str, *, default: bool = False) -> bool:
        return self._take(name, bool, default)

    def _time(self, before_us: int) -> int:
        value = self._left.pop("t_ms", None)
        if value is None:
            return before_us
        if type(value) not in (int, float) or not 0 <= value <= _MAX_MS:
            raise InputFileError("t_ms: must be milliseconds since the recording began")
        return round(cast("float", value) * 1000)

    def _header(self) -> Header:
        return Header(
            self._take("recording", int, 0),
            self._take("made_by", str, ""),
            self._take("started_at", str, ""),
            self._flag("pseudonymised"),
        )

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        pairs = self._take("metadata", list, [])
        if not all(_is_pair(pair) and isinstance(pair[1], str) for pair in pairs):
            raise InputFileError("metadata: must be a list of [name, value]")
        return tuple((name, value) for name, value in pairs)

    def _request(self) -> ProcessingRequest:
        modes = [self._left.pop(name, None) for name in ("request_body_mode", "response_body_mode")]
        if any(mode is not None and mode not in MODES for mode in modes):
            raise InputFileError(f"a body mode is one of {', '.join(MODES)}")
        return ProcessingRequest(
            kind=self._kind("envoy", ("", *KINDS)),
            headers=self._fields(),
            body=self._body() or b"",
            end_of_stream=self._flag("end_of_stream"),
            observing=self._flag("observing"),
            request_body_mode=modes[0],
            response_body_mode=modes[1],
            metadata=self._take("metadata", dict, {}),
            attributes=self._take("attributes", dict, {}),
        )

    def _answer(self) -> ProcessingResponse:
        removed = self._take("remove_headers", list, [])
        if not all(isinstance(name, str) for name in removed):
            raise InputFileError("remove_headers: must be a list of names")
        set_headers = self._take("set_headers", list, [])
        named = {name for each in set_headers if isinstance(each, dict) for name in each}
        self.unknown |= {f"set_headers.{name}" for name in named - _SET_HEADER}
        status = self._take("http_status", int, 0)
        if not 0 <= status < 1000:  # noqa: PLR2004 - HTTP's numbers have three digits
            raise InputFileError("http_status: must be a number of HTTP")
        return ProcessingResponse(
            kind=self._kind("memory", ("", *KINDS, IMMEDIATE)),
            set_headers=tuple(_set_header_of(each) for each in set_headers),
            remove_headers=tuple(removed),
            body=self._body(),
            streamed=self._flag("streamed"),
            end_of_stream=self._flag("end_of_stream"),
            replaces=self._flag("replaces"),
            clear_route_cache=self._flag("clear_route_cache"),
            http_status=status,
            dynamic_metadata=self._take("dynamic_metadata", dict, {}),
        )

    def _kind(self, name: str, known: tuple[str, ...]) -> str:
        kind = self._take(name, str, "")
        if kind not in known:
            raise InputFileError(f"{name}: no such kind of message; there are {', '.join(known[1:])}")
        return kind

    def _ended_by(self) -> EndedBy:
        by = self._take("end", str, "")
        if by not in {each.value for each in EndedBy}:
            raise InputFileError(f"end: one of {', '.join(each.value for each in EndedBy)}")
        return EndedBy(by)

    def _fields(self) -> Fields:
        fields = []
        for pair in self._take("headers", list, []):
            if not _is_pair(pair):
                raise InputFileError("headers: must be a list of [name, value]")
            fields.append((pair[0], _data(pair[1], f"header {pair[0]!r}")))
        return tuple(fields)

    def _body(self) -> bytes | None:
        if "body_base64" in self._left:
            return _from_base64(self._left.pop("body_base64"), "body_base64")
        return self._take("body", str, "").encode() if "body" in self._left else None


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)  # noqa: PLR2004 - a pair


_WORDS: Mapping[type, str] = {int: "a number", str: "text", bool: "true or false", list: "a list", dict: "an object"}


def _set_header_of(value: Any) -> SetHeader:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or "value" not in value:
        raise InputFileError('set_headers: each must be {"name": ..., "value": ...}')
    # Unlike elsewhere, null says something here: that the flag was not given.
    how = {"append": value.get("append", False), "action": value.get("action") or _OVERWRITE["action"]}
    if how["action"] not in ACTIONS or how["append"] not in (True, False, None):
        raise InputFileError(f"set_headers: `append` is true or false, `action` one of {', '.join(ACTIONS)}")
    return SetHeader(value["name"], _data(value["value"], "set_headers"), how["append"], str(how["action"]))


def _data(value: Any, name: str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"}:
        return _from_base64(value["base64"], name)
    raise InputFileError(f'{name}: must be text, or {{"base64": ...}}')


def _from_base64(value: Any, name: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise InputFileError(f"{name}: is not base64") from None
