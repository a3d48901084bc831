"""Records of a recording, made in few words."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.struct_pb2 import Struct

from semrouter_memory.replay.pb.recording_pb2 import Record

Pairs = Sequence[tuple[str, bytes]]


def fields(pairs: Pairs) -> list[dict[str, Any]]:
    return [{"key": key, "raw_value": value} for key, value in pairs]


def struct(values: dict[str, Any]) -> Struct:
    """Metadata."""
    made = Struct()
    made.update(values)
    return made


def header(**values: Any) -> Record:
    return Record(header={"version": 1, **values})


def begin(exchange: str, metadata: Pairs = (), *, answers_unknown: bool = False) -> Record:
    parts = {"exchange": exchange, "metadata": fields(metadata), "answers_unknown": answers_unknown}
    return Record(stream=1, begin=parts)


def end(by: str = "UNKNOWN", note: str = "") -> Record:
    return Record(stream=1, end={"by": by, "note": note})


def sent(kind: str, *, headers: Pairs = (), body: bytes = b"", end_of_stream: bool = False, **message: Any) -> Record:
    """A message from Envoy."""
    part: dict[str, Any] = {"body": body, "end_of_stream": end_of_stream}
    if kind.endswith("_headers"):
        part = {"headers": {"headers": fields(headers)}, "end_of_stream": end_of_stream}
    elif kind.endswith("_trailers"):
        part = {"trailers": {"headers": fields(headers)}}
    return Record(stream=1, request={kind: part, **message})


def answered(kind: str, *, set_headers: Pairs = (), **common: Any) -> Record:
    """An answer of the service.

    Args:
        common: members of `CommonResponse`.
    """
    response = dict(common)
    if set_headers:
        response["header_mutation"] = {"set_headers": [{"header": each} for each in fields(set_headers)]}
    return Record(stream=1, response={kind: {"response": response} if response else {}})


def other_stream(stream: int, records: Sequence[Record], *, at_ms: int = 0) -> list[Record]:
    """Copies of the records, of another stream and time."""
    copies = []
    for record in records:
        copy = Record()
        copy.CopyFrom(record)
        copy.stream, copy.time_us = stream, at_ms * 1000
        copies.append(copy)
    return copies
