"""Both file formats: what goes in comes out, and whatever else stands in a file is said with its place."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.pb.recording_pb2 import Record
from semrouter_memory.replay.reading import exchanges_in_file
from semrouter_memory.replay.records import Format, changed, decoded, line_of, read_line, written
from tests.records import answered, begin, end, header, sent, struct

RECORDS = (
    header(made_by="test", started_at="2026-03-15T00:00:00.000Z", pseudonymised=True),
    begin("one", (("x-memory-limit", b"2"),)),
    begin("one", answers_unknown=True),
    sent(
        "request_headers",
        headers=((":path", b"/v1"), ("x-raw", b"\xff\xfe")),
        protocol_config={"request_body_mode": "BUFFERED", "response_body_mode": "NONE"},
        metadata_context={
            "filter_metadata": {"jwt": struct({"sub": "alice", "list": [1.0, None, True], "value": "a", "body": "b"})}
        },
        attributes={"ext_proc": struct({"a": "b", "text": "c"})},
    ),
    sent("request_body", body="grüß dich\u2028".encode(), end_of_stream=True, observability_mode=True),
    sent("response_body", body=b"\x1f\x8b\x00"),
    sent("response_trailers", headers=(("grpc-status", b"0"),)),
    answered("request_headers"),
    Record(
        stream=1,
        response={
            "request_body": {
                "response": {
                    "status": "CONTINUE_AND_REPLACE",
                    "header_mutation": {
                        "set_headers": [
                            {
                                "header": {"key": "content-length", "raw_value": b"3"},
                                "append": {"value": False},
                                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                            }
                        ],
                        "remove_headers": ["x-gone"],
                    },
                    "body_mutation": {"body": b"abc"},
                    "clear_route_cache": True,
                }
            },
            "dynamic_metadata": struct({"ours": {"used": 1.0}}),
        },
    ),
    answered("response_body", body_mutation={"streamed_response": {"body": b"", "end_of_stream": True}}),
    answered("response_body", body_mutation={"clear_body": True}),
    Record(stream=1, response={"response_trailers": {"header_mutation": {"remove_headers": ["a"]}}}),
    Record(stream=1, response={"immediate_response": {"status": {"code": 403}, "body": b"no"}}),
    end("MEMORY", "why"),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.WhichOneof("record"))
def test_a_record_is_the_same_in_both_formats(record: Record) -> None:
    if not record.HasField("header"):
        record = changed(record, stream=7, time_us=1500)
    assert decoded(record.SerializeToString()) == record
    assert read_line(line_of(record), before_us=0) == (record, "")


def test_a_line_is_written_to_be_read() -> None:
    record = changed(sent("request_body", body='{"a":"ü"}'.encode(), end_of_stream=True), time_us=2500)
    assert line_of(record).decode() == (
        '{"stream":1,"time_us":2500,"request":{"request_body":{"text":"{\\"a\\":\\"ü\\"}","end_of_stream":true}}}'
    )


def test_a_member_that_no_line_has_is_reported_and_changes_nothing() -> None:
    line = b'{"stream":1,"request":{"request_body":{"tea":1}}}'
    assert read_line(line, before_us=0) == (sent("request_body"), "tea")


def test_a_field_that_is_not_known_is_not_read_from_a_message() -> None:
    """Nobody could take its credentials out."""
    unknown = b"\xfa\x06\x06secret"
    inside = Record(stream=1, request={"request_body": {"body": b"a"}})
    data = inside.SerializeToString()
    # The message of Envoy is the last part of the record: longer by the unknown field.
    data = data[:2] + bytes([data[2], data[3] + len(unknown)]) + data[4:] + unknown
    assert decoded(data) == inside
    assert b"secret" not in decoded(data).SerializeToString()


def recording(form: Format) -> bytes:
    exchange = (begin("one"), sent("request_headers", headers=((":path", b"/v1"),)), end("ENVOY"))
    return written([header(made_by="t"), *(changed(each, time_us=10) for each in exchange)], form)


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


HEADER = b'{"header":{"version":1,"made_by":"t"}}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"hello there\n", "no recording"),
        (bytes(range(256)), "no recording"),
        (b"\xff" * 64, "no recording"),
        (b"{}\n", r"line 1: a record has one of"),
        (b"[1]\n" + HEADER, "no recording"),
        (b'{"header":{"version":2}}\n', r"line 1: a recording of version 2"),
        (b'{"stream":1,"begin":{"exchange":"a"}}\n', r"line 1: this is no recording"),
        (HEADER + b"not json\n" + HEADER, r"line 2: this is not JSON"),
        (HEADER + b'{"stream":1,"request":{"request_body":{}}}\n', r"line 2: stream 1 has not begun"),
        (HEADER + 2 * b'{"stream":1,"begin":{"exchange":"a"}}\n', r"line 3: stream 1 has begun already"),
        (HEADER + b'{"stream":-1,"begin":{}}\n', r"line 2: Failed to parse stream field: Value out of range"),
        (HEADER + b'{"stream":1,"begin":{"metadata":[3]}}\n', r"line 2: .*metadata"),
        (HEADER + b'{"stream":1,"begin":{},"end":{}}\n', r"line 2: .*multiple"),
        (HEADER + b'{"stream":1,"request":{"request_tea":{}}}\n', r"line 2: .*request_tea"),
        (HEADER + b'{"stream":1,"request":{"request_body":{"body":"*"}}}\n', r"line 2: body: is not base64"),
        (HEADER + b'{"stream":1,"request":{"request_body":{"text":3}}}\n', r"line 2: text: must be text"),
        (HEADER + b'{"stream":1,"time_us":"soon","end":{}}\n', r"line 2: .*time_us"),
        (HEADER + b'{"stream":1,"end":{"by":"nobody"}}\n', r"line 2: .*Invalid enum value nobody"),
        (HEADER + b'{"stream":1,"end":3}\n', r"line 2: .*end"),
        (HEADER + b'{"stream":1,"request":{"request_body":{"end_of_stream":"yes"}}}\n', r"line 2: .*end_of_stream"),
        (
            HEADER
            + b'{"stream":1,"request":{"request_headers":{"headers":{"headers":[{"key":"a","value":{"b":1}}]}}}}\n',
            r"line 2: value: must be text",
        ),
        (
            HEADER + b'{"stream":1,"request":{"protocol_config":{"request_body_mode":"X"}}}\n',
            r"line 2: .*request_body_mode",
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
