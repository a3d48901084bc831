"""Records as JSON lines that people can read and compare: one record a line, keys in a fixed order. Pure.

A line has one of the keys of `_KINDS`, and the event's other fields under their own names; defaults are left out. Bytes
are written as text where they are UTF-8, else as base64 under a name that says so. A line without a time happened when the
one before it did.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields
from enum import Enum
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from semrouter_memory.errors import InputFileError, complaint
from semrouter_memory.model import Json
from semrouter_memory.replay.records import (
    Begin,
    End,
    Event,
    Header,
    ProcessingRequest,
    ProcessingResponse,
    Record,
    SetHeader,
    text_or_base64,
)

NOT_JSON = "this is not JSON"
_MAX_STREAM = (1 << 63) - 1
_MAX_MS = 1e12
_OVERWRITE = {"append": False, "action": "OVERWRITE_IF_EXISTS_OR_ADD"}
"""How this service always sets a header: left out."""
_KINDS: dict[str, tuple[type[Event], str]] = {
    "recording": (Header, "version"),
    "begin": (Begin, "exchange"),
    "envoy": (ProcessingRequest, "kind"),
    "memory": (ProcessingResponse, "kind"),
    "end": (End, "by"),
}
"""The key that tells what a line is -> the event, and its field that stands there."""
_reader: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Of a kind of event: made when its first line is read, since the service itself only writes."""
_ALWAYS = {Header: {"made_by", "pseudonymised"}, Begin: {"metadata"}}
"""Fields that are written even with their defaults; so is the body of a message of Envoy's that has one."""


def line_of(record: Record, *, timed: bool = True) -> bytes:
    """The record as a line, without its line feed.

    Args:
        timed: write times; otherwise only the order tells.
    """
    event = record.event
    line: dict[str, Json] = {}
    if not isinstance(event, Header):
        line["stream"] = record.stream
        if timed:
            line["t_ms"] = round(record.time_us / 1000, 3)
    key, first = next((key, name) for key, (kind, name) in _KINDS.items() if isinstance(event, kind))
    for each in fields(event):
        value = getattr(event, each.name)
        if each.name == first:
            line[key] = value.value if isinstance(value, Enum) else value
        elif value != _default(each) or each.name in _always(event):
            line |= _member(each.name, value)
    return orjson.dumps(line)


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _always(event: Event) -> set[str]:
    if isinstance(event, ProcessingRequest) and event.kind in ("request_body", "response_body"):
        return {"body"}
    return _ALWAYS.get(type(event), set())


def _member(name: str, value: Any) -> dict[str, Json]:
    match name:
        case "body":
            text = text_or_base64(value)
            return {"body": text} if isinstance(text, str) else {"body_base64": text["base64"]}
        case "headers":
            return {name: [[key, text_or_base64(data)] for key, data in value]}
        case "set_headers":
            return {name: [_set_header(each) for each in value]}
    return {name: value}


def _set_header(header: SetHeader) -> dict[str, Json]:
    value: dict[str, Json] = {"name": header.name, "value": text_or_base64(header.value)}
    how = {"append": header.append, "action": header.action}
    return value if how == _OVERWRITE else {**value, **how}


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
    left = {name: each for name, each in value.items() if each is not None}
    keys = ["recording"] if "recording" in left else [key for key in _KINDS if key in left]
    if len(keys) != 1:
        raise InputFileError(f"a record has one of {', '.join(f'`{key}`' for key in _KINDS)}")
    kind, first = _KINDS[keys[0]]
    stream, time_us = (0, 0) if kind is Header else _place(left, before_us)
    # The field's own name is no key of a line.
    unknown = {first} & left.keys() - {keys[0]}
    named = left.pop(keys[0])
    members = left | {first: named}
    names = {first: keys[0]}
    if "body_base64" in members:
        names["body"] = "body_base64"
        members["body"] = {"base64": members.pop("body_base64")}
    unknown |= members.keys() - {each.name for each in fields(kind)}
    if "set_headers" in members:
        unknown |= set(_unknown_of_headers(members["set_headers"]))
        members["set_headers"] = _with_defaults(members["set_headers"])
    try:
        return Record(stream, time_us, _reader(kind).validate_python(members)), unknown
    except ValidationError as error:
        raise InputFileError(_complaint(error, names)) from None


def _place(left: dict[str, Any], before_us: int) -> tuple[int, int]:
    """The stream, 0 where it is missing, and the time in microseconds; both leave the line."""
    stream, at_ms = left.pop("stream", 0), left.pop("t_ms", before_us / 1000)
    if type(stream) is not int or not 0 <= stream <= _MAX_STREAM:
        raise InputFileError("stream: must not be negative, nor so large")
    if type(at_ms) not in (int, float) or not 0 <= at_ms <= _MAX_MS:
        raise InputFileError("t_ms: must be milliseconds since the recording began")
    return stream, round(at_ms * 1000)


def _unknown_of_headers(headers: Any) -> Iterator[str]:
    known = {each.name for each in fields(SetHeader)}
    for each in headers if isinstance(headers, list) else ():
        yield from (f"set_headers.{name}" for name in each if name not in known) if isinstance(each, dict) else ()


def _with_defaults(headers: Any) -> Any:
    """Unlike elsewhere, null says something in `append`: that the flag was not given."""
    if not isinstance(headers, list) or not all(isinstance(each, dict) for each in headers):
        return headers
    return [{**_OVERWRITE, **each, "action": each.get("action") or _OVERWRITE["action"]} for each in headers]


def _complaint(error: ValidationError, names: dict[str, str]) -> str:
    """The first thing that is wrong, by the name that it has in a line."""
    found = error.errors()[0]
    where = ".".join(str(names.get(str(each), each)) for each in found["loc"])
    return f"{where}: {complaint(found)}"
