"""Records as JSON lines that people can read and compare: one record a line, as protobuf's own mapping to JSON has it.

Of that mapping two things differ. Bytes that are UTF-8 are text, under `text` in place of `body` and `value` in place of
`raw_value`; other bytes are base64. And a line without `time_us` happened when the one before it did.
"""

import base64
import binascii
import re
from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError

from semrouter_memory.errors import InputFileError
from semrouter_memory.model import Json
from semrouter_memory.replay.pb.recording_pb2 import Record
from semrouter_memory.replay.records import kind_of

NOT_JSON = "this is not JSON"
_AS_TEXT = {"body": "text", "raw_value": "value"}
"""Members with bytes -> the member that stands in their place where these are text."""
_AS_BYTES = {text: name for name, text in _AS_TEXT.items()}
_FREE = frozenset({"attributes", "dynamic_metadata", "filter_metadata"})
"""Members whose content is of any form."""
_UNKNOWN = re.compile(r'has no field named "([^"]*)"')
_MAX_COMPLAINT_CHARS = 200


def line_of(record: Record, *, timed: bool = True) -> bytes:
    """The record as a line, without its line feed.

    Args:
        timed: write times; otherwise only the order tells.

    Raises:
        InputFileError: its metadata has a number that JSON does not know.
    """
    try:
        value = MessageToDict(record, preserving_proto_field_name=True)
    except SerializeToJsonError:
        raise InputFileError("metadata with a number that JSON does not know") from None
    # The mapping makes texts of 64-bit numbers.
    numbers = {"stream": record.stream, "time_us": record.time_us if timed else 0}
    left = {name: _readable(each) for name, each in value.items() if name not in numbers}
    return orjson.dumps({**{name: number for name, number in numbers.items() if number}, **left})


def _readable(value: Json) -> Json:
    if isinstance(value, list):
        return [_readable(each) for each in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Json] = {}
    for name, each in value.items():
        if name in _FREE:
            # Protobuf's maps have no order.
            found[name] = orjson.loads(orjson.dumps(each, option=orjson.OPT_SORT_KEYS))
        elif name in _AS_TEXT:
            try:
                found[_AS_TEXT[name]] = base64.b64decode(each).decode()
            except UnicodeDecodeError:
                found[name] = each
        else:
            found[name] = _readable(each)
    return found


def read_line(line: bytes, *, before_us: int) -> tuple[Record, str]:
    """The record in a line, and the first of its keys that is not known, "" for none. Null counts as absent.

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
    value = _for_protobuf(value)
    unknown, record = "", Record()
    try:
        ParseDict(value, record)
    except ParseError as error:
        found = _UNKNOWN.search(str(error))
        record.Clear()
        if found is None or not _is_parsed(value, record):
            raise InputFileError(_complaint(error)) from None
        unknown = found[1]
    kinds = [each.name for each in Record.DESCRIPTOR.oneofs_by_name["record"].fields]
    if record.WhichOneof("record") is None:
        raise InputFileError(f"a record has one of {', '.join(f'`{kind}`' for kind in kinds)}")
    if value.get("time_us", value.get("timeUs")) is None:
        record.time_us = before_us
    return record, unknown


def _is_parsed(value: dict[str, Any], record: Record) -> bool:
    """Whether it is a record but for keys that are not known; the kind of a message is none of them."""
    try:
        ParseDict(value, record, ignore_unknown_fields=True)
    except ParseError:
        return False
    is_message = record.WhichOneof("record") in ("request", "response")
    return not is_message or bool(kind_of(record))


def _for_protobuf(value: Json) -> Json:
    if isinstance(value, list):
        return [_for_protobuf(each) for each in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Json] = {}
    for name, each in value.items():
        if name in _FREE:
            found[name] = each
        elif name in _AS_TEXT or name in _AS_BYTES:
            found |= _bytes_of(name, each)
        else:
            found[name] = _for_protobuf(each)
    return found


def _bytes_of(name: str, value: Json) -> dict[str, Json]:
    if value is None:
        return {}
    if not isinstance(value, str):
        raise InputFileError(f"{name}: must be text")
    if name in _AS_BYTES:
        return {_AS_BYTES[name]: base64.b64encode(value.encode()).decode()}
    try:
        # Protobuf's reader skips characters that are not base64.
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InputFileError(f"{name}: is not base64") from None
    return {name: value}


def _complaint(error: ParseError) -> str:
    """Protobuf's own words, without the list of the fields that there are."""
    return str(error).partition("\n")[0][:_MAX_COMPLAINT_CHARS].rstrip(".")
