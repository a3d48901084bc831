"""Normalises a recording for a repository: values that differ between runs without meaning become fixed. Pure.

Times are left out (the order stays), request ids are numbered, ports, dates and durations get fixed values. So recording
anew changes only the lines whose traffic changed.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from semrouter_memory.model import Json
from semrouter_memory.replay.records import (
    REQUEST_ID,
    Begin,
    Event,
    Fields,
    ProcessingRequest,
    ProcessingResponse,
    Record,
    RecordedExchange,
)

_PORT = re.compile(rb"^(127\.0\.0\.1|localhost|\[::1\]):\d+$")
_FIXED = {
    "date": b"Thu, 01 Jan 2026 00:00:00 GMT",
    "x-envoy-upstream-service-time": b"1",
    "x-forwarded-for": b"192.0.2.1",
    "x-envoy-external-address": b"192.0.2.1",
    "x-memory-ids": b"-",
    "x-stainless-os": b"Linux",
    "x-stainless-arch": b"x64",
    "x-stainless-runtime-version": b"3.11.0",
}
_LEFT_OUT = frozenset({"traceparent", "tracestate"})


def normalised(exchange: RecordedExchange, *, name: str) -> list[Record]:
    """The exchange's records.

    Args:
        name: the exchange's, in place of its request id.
    """
    numbers: dict[int, int] = {}
    for record in exchange.records:
        numbers.setdefault(record.stream, len(numbers) + 1)
    return [Record(numbers[record.stream], 0, _event(record.event, name)) for record in exchange.records]


def _event(event: Event, name: str) -> Event:
    match event:
        case Begin():
            pairs = [(key, value.encode("utf-8", "replace")) for key, value in event.metadata if key != "user-agent"]
            metadata = tuple((key, value.decode()) for key, value in _fields(tuple(pairs), name))
            return replace(event, exchange=name, metadata=metadata)
        case ProcessingRequest():
            return replace(event, headers=_fields(event.headers, name))
        case ProcessingResponse():
            return replace(event, dynamic_metadata=_times(event.dynamic_metadata))
    return event


def _fields(fields: Fields, name: str) -> Fields:
    return tuple((key, _value(key.lower(), value, name)) for key, value in fields if key not in _LEFT_OUT)


def _value(key: str, value: bytes, name: str) -> bytes:
    if key == REQUEST_ID:
        return name.encode()
    return _FIXED.get(key) or _PORT.sub(rb"\1:10000", value)


def _times(value: Mapping[str, Json]) -> dict[str, Json]:
    """Dynamic metadata without durations and ids."""
    return {key: _plain(key, each) for key, each in value.items()}


def _plain(key: str, value: Json) -> Json:
    if isinstance(value, dict):
        return _times(value)
    if key.endswith(("_ms", "_seconds")):
        return 0
    return "-" if isinstance(value, str) and "mem_" in value else value
