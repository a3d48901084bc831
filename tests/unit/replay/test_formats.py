"""Both file formats: what goes in comes out, and whatever else stands in a file is said with its place."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay import lines, protocol
from semrouter_memory.replay.reading import exchanges_in_file
from semrouter_memory.replay.records import (
    Begin,
    End,
    EndedBy,
    Header,
    ProcessingRequest,
    ProcessingResponse,
    Record,
    SetHeader,
)
from semrouter_memory.replay.rendering import Format, written

EVENTS = (
    Header(made_by="test", started_at="2026-03-15T00:00:00.000Z", pseudonymised=True),
    Begin("one", (("x-memory-limit", "2"),)),
    Begin("one", (), answers_known=False),
    ProcessingRequest(
        kind="request_headers",
        headers=((":path", b"/v1"), ("x-raw", b"\xff\xfe")),
        request_body_mode="BUFFERED",
        response_body_mode="NONE",
        metadata={"jwt": {"sub": "alice", "list": [1.0, None, True]}},
        attributes={"ext_proc": {"a": "b"}},
    ),
    ProcessingRequest(kind="request_body", body="grüß dich\u2028".encode(), end_of_stream=True, observing=True),
    ProcessingRequest(kind="response_body", body=b"\x1f\x8b\x00"),
    ProcessingRequest(kind="response_trailers", headers=(("grpc-status", b"0"),)),
    ProcessingResponse(kind="request_headers"),
    ProcessingResponse(
        kind="request_body",
        set_headers=(SetHeader("content-length", b"3", append=False, action="OVERWRITE_IF_EXISTS_OR_ADD"),),
        remove_headers=("x-gone",),
        body=b"abc",
        dynamic_metadata={"ours": {"used": 1.0}},
    ),
    ProcessingResponse(kind="response_body", body=b"", streamed=True, end_of_stream=True),
    ProcessingResponse(kind="response_trailers", set_headers=(SetHeader("a", b"b"),)),
    ProcessingResponse(kind="immediate_response", body=b"no", http_status=403),
    End(EndedBy.MEMORY, "why"),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_record_is_the_same_in_both_formats(
    event: Header | Begin | ProcessingRequest | ProcessingResponse | End,
) -> None:
    record = Record(0, 0, event) if isinstance(event, Header) else Record(7, 1500, event)
    assert protocol.decoded(protocol.encoded(record)) == record
    assert lines.read_line(lines.line_of(record), before_us=0) == (record, set())


def test_a_line_is_written_to_be_read() -> None:
    record = Record(1, 2500, ProcessingRequest(kind="request_body", body='{"a":"ü"}'.encode(), end_of_stream=True))
    assert lines.line_of(record).decode() == (
        '{"stream":1,"t_ms":2.5,"envoy":"request_body","body":"{\\"a\\":\\"ü\\"}","end_of_stream":true}'
    )


def test_a_member_that_no_line_has_is_reported_and_changes_nothing() -> None:
    """Also one with the name that the record's own field has in the program."""
    line = b'{"stream":1,"envoy":"request_body","kind":"response_body","tea":1}'
    record = Record(1, 0, ProcessingRequest(kind="request_body"))
    assert lines.read_line(line, before_us=0) == (record, {"kind", "tea"})


def recording(form: Format) -> bytes:
    events = (Begin("one"), ProcessingRequest(kind="request_headers", headers=((":path", b"/v1"),)), End(EndedBy.ENVOY))
    return written([Record(0, 0, Header(made_by="t")), *(Record(1, 10, event) for event in events)], form)


def read(path: Path) -> tuple[int, list[str]]:
    """(exchanges, what was told)."""
    told: list[str] = []
    return sum(1 for _ in exchanges_in_file(path, told.append)), told


def attempted(path: Path) -> tuple[int, list[str]] | InputFileError:
    try:
        return read(path)
    except InputFileError as error:
        return error


@pytest.mark.parametrize("form", ["jsonl", "protobuf"])
def test_a_file_that_was_cut_is_read_up_to_its_last_whole_record(form: Format, tmp_path: Path) -> None:
    """At every byte: the records before the cut are there, and nothing but an error of ours is raised."""
    data = recording(form) + recording(form)
    for size in range(1, len(data)):
        path = tmp_path / "cut"
        path.write_bytes(data[:size])
        outcome = attempted(path)
        if isinstance(outcome, InputFileError):
            # Not even the header is there.
            assert size < len(recording(form)) // 2, outcome
            assert str(path) in str(outcome)
        else:
            exchanges, told = outcome
            assert exchanges in (0, 1, 2)
            assert all(str(path) in notice and "ends in the middle" in notice for notice in told)


HEADER = b'{"recording":1,"made_by":"t","pseudonymised":false}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"hello there\n", "no recording"),
        (bytes(range(256)), "no recording"),
        (b"\xff" * 64, "no recording"),
        (b"{}\n", r"line 1: a record has one of"),
        (b"[1]\n" + HEADER, "no recording"),
        (b'{"recording":2}\n', r"line 1: a recording of version 2"),
        (b'{"stream":1,"begin":"a"}\n', r"line 1: this is no recording"),
        (HEADER + b"not json\n" + HEADER, r"line 2: this is not JSON"),
        (HEADER + b'{"stream":1,"envoy":"request_body"}\n', r"line 2: stream 1 has not begun"),
        (HEADER + 2 * b'{"stream":1,"begin":"a"}\n', r"line 3: stream 1 has begun already"),
        (HEADER + b'{"stream":-1,"begin":"a"}\n', r"line 2: stream: must not be negative"),
        (HEADER + b'{"stream":1,"begin":"a","metadata":[["a"]]}\n', r"line 2: metadata.0.1: "),
        (HEADER + b'{"stream":1,"envoy":"request_tea"}\n', r"line 2: envoy: must be one of request_headers"),
        (HEADER + b'{"stream":1,"envoy":"request_body","body_base64":"*"}\n', r"line 2: body_base64: is not base64"),
        (HEADER + b'{"stream":1,"envoy":"request_body","body":3}\n', r"line 2: body: must be text"),
        (HEADER + b'{"stream":1,"t_ms":"soon","end":"envoy"}\n', r"line 2: t_ms: must be milliseconds"),
        (HEADER + b'{"stream":1,"end":"nobody"}\n', r"line 2: end: Input should be 'unknown', 'envoy'"),
        (HEADER + b'{"stream":1,"envoy":"request_body","end_of_stream":"yes"}\n', r"line 2: end_of_stream: "),
        (HEADER + b'{"stream":1,"memory":"request_body","set_headers":[3]}\n', r"line 2: set_headers.0: "),
        (
            HEADER + b'{"stream":1,"envoy":"request_headers","headers":[["a",{"b":1}]]}\n',
            r"line 2: headers.0.1: must be text",
        ),
        (
            HEADER + b'{"stream":1,"envoy":"request_headers","request_body_mode":"X"}\n',
            r"line 2: request_body_mode: must be one of NONE",
        ),
        (b"\x80" * 12, "offset 0: this is no recording"),
        (b"\xff\xff\xff\xff\x7f" + b"x" * 10, "offset 0: this is no recording"),
    ],
)
def test_what_is_no_recording_is_said_with_its_place(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputFileError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_damage_in_the_middle_is_said_with_its_offset(tmp_path: Path) -> None:
    data = recording("protobuf")
    path = tmp_path / "file.binpb"
    path.write_bytes(data + b"\x03\xff\xff\xff" + data)
    with pytest.raises(InputFileError, match=rf"offset {len(data)}: this is not a record"):
        read(path)


@given(st.binary(max_size=200), st.integers(0, 60))
def test_garbage_never_raises_anything_else(noise: bytes, at: int) -> None:
    path = Path(tempfile.gettempdir())
    for form in ("jsonl", "protobuf"):
        data = recording(form)
        file = path / f"garbage-{os.getpid()}.{form}"
        file.write_bytes(data[:at] + noise + data[at:])
        outcome = attempted(file)
        file.unlink()
        assert not isinstance(outcome, InputFileError) or str(file) in str(outcome)
