"""What Envoy's tap filter writes, in the two formats that are read, and what becomes of it when it is unusual or damaged."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.json_format import ParseDict
from typer.testing import CliRunner

from semrouter_memory.cli import app as command_line
from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.pb import tap_pb2
from semrouter_memory.replay.pb.recording_pb2 import End
from semrouter_memory.replay.reading import exchanges_in_file
from semrouter_memory.replay.records import fields_in
from semrouter_memory.replay.tap import Chain, TappedExchange, records_from, tapped_exchanges
from semrouter_memory.transport.wire import value_of

BIG = 2**64 - 1
ASKED = '{"messages":[{"role":"user","content":"grüß \\"Rex\\" {"}]}'
CHUNKS = [b'data: {"a":"gr\xc3', b'\xbc"}\n\n', b"data: [DONE]\n\n", b"\x1f\x8b\x00\xff"]


def headers(**fields: str) -> dict[str, Any]:
    return {"headers": [{"key": key.replace("_", "-"), "value": value} for key, value in fields.items()]}


def binary(data: bytes) -> dict[str, Any]:
    return {"as_bytes": base64.b64encode(data).decode()}


def segment(trace_id: int | str, piece: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"http_streamed_trace_segment": {"trace_id": trace_id, piece: value}}


def streamed(trace_id: int | str, path: str = "/v1", chunks: list[bytes] = CHUNKS) -> list[dict[str, Any]]:
    return [
        segment(trace_id, "request_headers", headers(path=path)),
        segment(trace_id, "request_body_chunk", {"as_string": ASKED}),
        segment(trace_id, "response_headers", headers(status="200")),
        *(segment(trace_id, "response_body_chunk", binary(chunk)) for chunk in chunks),
    ]


TRACES = streamed(BIG)


def camel(value: Any) -> Any:
    if isinstance(value, list):
        return [camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    words = {name: name.split("_") for name in value}
    return {first + "".join(map(str.title, rest)): camel(value[name]) for name, (first, *rest) in words.items()}


def newer(value: dict[str, Any]) -> dict[str, Any]:
    inside = value["http_streamed_trace_segment"]
    return {**value, "later": {"a": [1]}, "http_streamed_trace_segment": {**inside, "received": "2026-01-01T00:00:00Z"}}


def message(trace: dict[str, Any]) -> tap_pb2.TraceWrapper:
    return ParseDict(trace, tap_pb2.TraceWrapper())


def framed(trace: dict[str, Any]) -> bytes:
    data = message(trace).SerializeToString()
    low, high = len(data) & 0x7F, len(data) >> 7
    return bytes([low | 0x80, high] if high else [low]) + data


def pretty(trace: dict[str, Any]) -> str:
    return json.dumps(trace, indent=1, ensure_ascii=False) + "\n"


def as_text(traces: list[dict[str, Any]]) -> str:
    return "".join(text_format.MessageToString(message(trace)) for trace in traces)


FORMS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "objects on lines": lambda traces: "\n".join(map(json.dumps, traces)).encode(),
    "objects over lines": lambda traces: "".join(map(pretty, traces)).encode(),
    "with CRLF and empty lines": lambda traces: "\r\n\r\n".join(map(pretty, traces)).encode(),
    "an array": lambda traces: json.dumps(traces).encode(),
    "an array over lines behind a byte order mark": lambda traces: (
        b"\xef\xbb\xbf" + json.dumps(traces, indent=2).encode()
    ),
    "camelCase": lambda traces: json.dumps(camel(traces)).encode(),
    "with what is not known": lambda traces: json.dumps(list(map(newer, traces))).encode(),
    "PROTO_BINARY_LENGTH_DELIMITED": lambda traces: b"".join(map(framed, traces)),
}
OTHER_FORMS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "PROTO_BINARY": lambda traces: b"".join(message(trace).SerializeToString() for trace in traces),
    "PROTO_TEXT": lambda traces: as_text(traces).encode(),
    "PROTO_TEXT on one line": lambda traces: as_text(traces).replace("\n", " ").encode(),
}


def tapped(path: Path) -> tuple[list[TappedExchange], list[str]]:
    told: list[str] = []
    return list(tapped_exchanges(path, told.append)), told


def attempted(path: Path) -> tuple[list[TappedExchange], list[str]] | InputFileError:
    try:
        return tapped(path)
    except InputFileError as error:
        return error


def seen(path: Path) -> list[tuple[str, bytes, list[bytes]]]:
    """(path, request, chunks of the answer), where nothing is told."""
    exchanges, told = tapped(path)
    assert told == []
    return [
        (value_of(each.request_headers[0]).decode(), b"".join(each.request_chunks), each.response_chunks)
        for each in exchanges
    ]


def file_of(directory: Path, data: bytes | list[dict[str, Any]], name: str = "tap") -> Path:
    path = directory / name
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


def imported(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(command_line, ["record", "import-tap", *map(str, arguments)])
    return result.exit_code, result.output


def paths_in(directory: Path) -> list[str]:
    """The `:path`s of the recorded exchanges, in order."""
    exchanges = [each for path in sorted(directory.iterdir()) for each in exchanges_in_file(path, pytest.fail)]
    firsts = [next(each for each in one.records if each.HasField("request")) for one in exchanges]
    return [value_of(fields_in(first)[0]).decode() for first in firsts]


@pytest.mark.parametrize("length", [18, 26, 34])
def test_a_length_that_looks_like_the_beginning_of_a_trace_is_told_from_one(tmp_path: Path, length: int) -> None:
    path = "/" * (length - 16)
    traces = streamed(1, path)
    assert len(message(traces[0]).SerializeToString()) == length
    file = tmp_path / "tap"
    file.write_bytes(FORMS["PROTO_BINARY_LENGTH_DELIMITED"](traces))
    (exchange,), told = tapped(file)
    assert [(each.key, value_of(each)) for each in exchange.request_headers] == [("path", path.encode())]
    assert (exchange.response_chunks, told) == (CHUNKS, [])


@pytest.mark.parametrize("form", FORMS)
def test_every_format_holds_the_same(form: str, tmp_path: Path) -> None:
    assert seen(file_of(tmp_path, FORMS[form](TRACES))) == [("/v1", ASKED.encode(), CHUNKS)]


@pytest.mark.parametrize("path", ["/v1", "/v1/chat/completions", "/" * 200])
@pytest.mark.parametrize("form", OTHER_FORMS)
def test_another_format_is_refused_with_the_two_that_are_read(form: str, path: str, tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"offset 0: .* as JSON or PROTO_BINARY_LENGTH_DELIMITED"):
        tapped(file_of(tmp_path, OTHER_FORMS[form](streamed(1, path))))


@pytest.mark.parametrize("form", FORMS)
def test_in_every_format_a_cut_costs_only_what_stands_behind_it(form: str, tmp_path: Path) -> None:
    """At every seventh byte: an error of ours that names the file, or the traces before the cut."""
    data = FORMS[form](streamed(1, chunks=[b"x"]) + streamed(BIG, "/v2", chunks=[b"x"]))
    for size in range(1, len(data), 7):
        path = file_of(tmp_path, data[:size])
        outcome = attempted(path)
        if isinstance(outcome, InputFileError):
            # Not even the first trace is there.
            assert str(path) in str(outcome)
            assert size < len(data) // 4, outcome
            continue
        exchanges, told = outcome
        assert 1 <= len(exchanges) <= 2
        assert all("ends in the middle" in notice and str(path) in notice for notice in told)


def test_ids_are_the_same_as_numbers_and_as_texts(tmp_path: Path) -> None:
    mixed = [*streamed(BIG)[:2], *streamed(str(BIG))[2:]]
    assert seen(file_of(tmp_path, mixed)) == [("/v1", ASKED.encode(), CHUNKS)]


def test_exchanges_among_each_other_are_told_apart_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    pairs = zip(streamed(9, "/first", [b"a", b"b"]), streamed(2, "/second", [b"c", b"d"]), strict=True)
    found = seen(file_of(tmp_path, [each for pair in pairs for each in pair]))
    assert [(path, chunks) for path, _, chunks in found] == [("/first", [b"a", b"b"]), ("/second", [b"c", b"d"])]


def test_an_id_that_comes_again_is_another_exchange(tmp_path: Path) -> None:
    """As in the outputs of several runs that were put together."""
    found = seen(file_of(tmp_path, [*streamed(1, "/a", [b"a"]), *streamed(1, "/b", [b"b"])]))
    assert [(path, chunks) for path, _, chunks in found] == [("/a", [b"a"]), ("/b", [b"b"])]


def test_what_stood_before_damage_is_kept_although_its_exchange_is_streamed(tmp_path: Path) -> None:
    path = file_of(tmp_path, b"\n".join(json.dumps(each).encode() for each in TRACES) + b"\n{ damage }\n")
    reading = tapped_exchanges(path, pytest.fail)
    assert next(reading).response_chunks == CHUNKS
    with pytest.raises(InputFileError, match=rf"line {len(TRACES) + 1}: this is not JSON"):
        next(reading)


def test_traces_of_sockets_are_passed_over_and_said(tmp_path: Path) -> None:
    other = {"socket_streamed_trace_segment": {"trace_id": "1", "event": {}}}
    exchanges, told = tapped(file_of(tmp_path, [*TRACES, other, other]))
    assert len(exchanges) == 1
    assert len(told) == 1
    assert "2 in all: this is no trace of HTTP" in told[0]
    with pytest.raises(InputFileError, match="line 1: this is no trace of HTTP"):
        tapped(file_of(tmp_path, [other]))


def test_a_compressed_body_that_was_written_as_text_is_left_out_and_said(tmp_path: Path) -> None:
    """Envoy writes a space for each byte that is no text."""
    traces = [
        segment(1, "request_headers", headers(path="/v1")),
        segment(1, "response_headers", headers(content_encoding="gzip")),
        segment(1, "response_body_chunk", {"as_string": "\x1f \b\x00 k"}),
    ]
    exchanges, told = tapped(file_of(tmp_path, traces))
    assert exchanges == []
    assert "JSON_BODY_AS_BYTES" in told[0]
    traces[-1] = segment(1, "response_body_chunk", binary(b"\x1f\x8b\x08"))
    assert seen(file_of(tmp_path, traces)) == [("/v1", b"", [b"\x1f\x8b\x08"])]


def test_a_body_that_was_cut_is_left_out_and_the_other_exchanges_are_not(tmp_path: Path) -> None:
    short = segment(1, "response_body_chunk", {**binary(b"da"), "truncated": True})
    exchanges, told = tapped(file_of(tmp_path, [*streamed(1, "/a"), short, *streamed(2, "/b")]))
    assert [value_of(each.request_headers[0]) for each in exchanges] == [b"/b"]
    assert "max_buffered_rx_bytes" in told[0]


@pytest.mark.parametrize("chain", ["two-filter", "single-filter"])
def test_envoy_ends_the_stream_of_an_answer_that_never_came(chain: Chain, tmp_path: Path) -> None:
    """The service would wait for it, and whoever plays it for the service."""
    alone, _ = tapped(file_of(tmp_path, TRACES[:2]))
    records = records_from(alone[0], chain=chain, user="", user_header="x-user", number=1)
    assert [each.end.by for each in records if each.HasField("end") and each.stream == 1] == [End.ENVOY]
    whole, _ = tapped(file_of(tmp_path, TRACES))
    records = records_from(whole[0], chain=chain, user="", user_header="x-user", number=1)
    assert [each.end.by for each in records if each.HasField("end") and each.stream == 1] == [End.MEMORY]


def test_headers_alone_are_an_exchange(tmp_path: Path) -> None:
    path = file_of(tmp_path, [{"http_buffered_trace": {"request": headers(path="/v1/models")}}])
    assert seen(path) == [("/v1/models", b"", [])]


def test_a_directory_is_taken_in_the_order_in_which_it_was_written(tmp_path: Path) -> None:
    """The names that Envoy gives its files are of chance."""
    directory = tmp_path / "taps"
    directory.mkdir()
    for second, name in enumerate(("tap_7.json", "tap_9.pb_length_delimited", "tap_1.json")):
        form = "an array" if name.endswith("json") else "PROTO_BINARY_LENGTH_DELIMITED"
        path = file_of(directory, FORMS[form](streamed(second + 1, f"/{second}")), name)
        os.utime(path, (1_000_000 + second, 1_000_000 + second))
    status, output = imported(directory, "--out", tmp_path / "out")
    assert (status, "3 exchanges written" in output) == (0, True), output
    assert paths_in(tmp_path / "out") == ["/0", "/1", "/2"]


def test_a_damaged_file_does_not_stop_the_others(tmp_path: Path) -> None:
    files = [
        file_of(tmp_path, b"", "empty"),
        file_of(tmp_path, streamed(1, "/a"), "a"),
        file_of(tmp_path, b"GIF89a" * 20, "other"),
        file_of(tmp_path, FORMS["objects on lines"](streamed(1, "/b")) + b"\nno", "b"),
        file_of(tmp_path, streamed(1, "/c"), "c"),
    ]
    status, output = imported(*files, "--out", tmp_path / "out")
    assert status == 1
    assert paths_in(tmp_path / "out") == ["/a", "/b", "/c"]
    assert f"{files[0]}: the file is empty" in output
    assert f"{files[2]}: offset 0: this is no output of Envoy's tap filter" in output
    assert "2 damaged files" in output
    assert "Traceback" not in output


def test_a_user_that_the_tap_saw_is_not_given_twice_whatever_the_case_of_the_header(tmp_path: Path) -> None:
    traces = streamed(1)
    traces[0] = segment(1, "request_headers", headers(path="/v1", x_user="bob"))
    path = file_of(tmp_path, traces)
    out = tmp_path / "out"
    assert imported(path, "--out", out, "--user", "alice", "--user-header", "X-User")[0] == 0
    assert b"alice" not in b"".join(each.read_bytes() for each in out.iterdir())


@pytest.mark.parametrize("form", [*FORMS, *OTHER_FORMS])
def test_a_tap_that_is_played_is_answered_with_the_way_to_a_recording(form: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, {**FORMS, **OTHER_FORMS}[form](TRACES))
    with pytest.raises(InputFileError, match="record import-tap"):
        list(exchanges_in_file(path, pytest.fail))


def test_each_exchange_says_that_the_answers_of_this_service_are_not_known(tmp_path: Path) -> None:
    exchanges, _ = tapped(file_of(tmp_path, TRACES))
    records = records_from(exchanges[0], chain="two-filter", user="", user_header="x-user", number=1)
    assert [each.begin.answers_unknown for each in records if each.HasField("begin")] == [True, True]
