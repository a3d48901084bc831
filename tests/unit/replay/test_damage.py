"""Files of any origin: told apart by what they hold, read as far as they are whole, played without sleeping for a day."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from typer.testing import CliRunner

from semrouter_memory.cli import app as command_line
from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.pb import tap_pb2
from semrouter_memory.replay.pb.recording_pb2 import Record
from semrouter_memory.replay.playing import METHOD, sendable
from semrouter_memory.replay.reading import exchanges_in_file
from semrouter_memory.replay.records import RecordedExchange, changed, written
from semrouter_memory.replay.replayer import without_gaps
from semrouter_memory.replay.tap import TappedExchange, tapped_exchanges
from tests.records import answered, begin, end, header, other_stream, sent

ANSWER = b"\x0a\x00"
"""To every message: a request's headers stay."""


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4))
    service, method = METHOD.strip("/").split("/")
    process = grpc.stream_stream_rpc_method_handler(lambda messages, _context: (ANSWER for _ in messages))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: process}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def exchange(name: str, *, stream: int = 1, at_ms: int = 0, answers_unknown: bool = False) -> list[Record]:
    answers = [] if answers_unknown else [answered("request_headers")]
    shown = sent("request_headers", headers=((":path", b"/v1"),))
    records = [begin(name, answers_unknown=answers_unknown), shown, *answers, end("ENVOY")]
    return other_stream(stream, records, at_ms=at_ms)


def recording(path: Path, *exchanges: list[Record], more: str = "") -> Path:
    records = [header(made_by="t"), *(record for each in exchanges for record in each)]
    path.write_bytes(written(records, "jsonl") + more.encode())
    return path


def replayed(target: str, *arguments: object) -> tuple[int, str]:
    words = [str(each) for each in arguments]
    result = CliRunner().invoke(command_line, ["replay", "--target", target, "--timeout", "5", *words])
    return result.exit_code, result.output


def read(path: Path) -> tuple[list[RecordedExchange], list[str]]:
    told: list[str] = []
    return list(exchanges_in_file(path, told.append)), told


def tapped(path: Path) -> tuple[list[TappedExchange], list[str]]:
    told: list[str] = []
    return list(tapped_exchanges(path, told.append)), told


def test_a_check_that_compared_something_is_good(target: str, tmp_path: Path) -> None:
    status, output = replayed(target, recording(tmp_path / "a.jsonl", exchange("a")), "--check", "--speed", "max")
    assert (status, "1 exchanges" in output, "0 differ" in output) == (0, True, True), output


def test_a_check_of_no_exchanges_fails_and_says_so(target: str, tmp_path: Path) -> None:
    status, output = replayed(target, recording(tmp_path / "a.jsonl"), "--check", "--speed", "max")
    assert status == 1
    assert "no exchanges were played" in output


def test_a_check_without_recorded_answers_fails_and_says_so(target: str, tmp_path: Path) -> None:
    path = recording(tmp_path / "a.jsonl", exchange("a", answers_unknown=True))
    status, output = replayed(target, path, "--check", "--speed", "max")
    assert status == 1
    assert "no exchange has recorded answers" in output
    assert replayed(target, path, "--speed", "max")[0] == 0


@pytest.mark.parametrize("speed", ["max", "100"])
def test_a_damaged_file_does_not_stop_the_others(target: str, tmp_path: Path, speed: str) -> None:
    recording(tmp_path / "1.jsonl", exchange("a"), more="damage\n")
    (tmp_path / "2.jsonl").write_bytes(b"\xff" * 40)
    recording(tmp_path / "3.jsonl", exchange("c"))
    status, output = replayed(target, tmp_path, "--speed", speed)
    assert status == 1
    assert "2 exchanges" in output
    assert "2 damaged files" in output
    assert "1.jsonl: line 6: this is not JSON" in output
    assert "2.jsonl: offset 0" in output


def test_metadata_that_is_too_deep_does_not_stop_the_others(target: str, tmp_path: Path) -> None:
    deep = "[" * 500 + "]" * 500
    metadata = f'{{"metadata_context":{{"filter_metadata":{{"a":{{"b":{deep}}}}}}}}}'
    bad = f'{{"stream":1,"begin":{{"exchange":"x"}}}}\n{{"stream":1,"request":{metadata}}}\n'
    recording(tmp_path / "1.jsonl", more=bad)
    recording(tmp_path / "2.jsonl", exchange("c"))
    status, output = replayed(target, tmp_path, "--speed", "max")
    assert status == 1
    # The stream that begins before the damage is played as well.
    assert "2 exchanges" in output
    assert "1 not recorded to their end" in output
    assert "1 damaged files" in output


def test_what_stood_before_the_damage_is_read_even_when_it_had_not_ended(tmp_path: Path) -> None:
    path = recording(tmp_path / "a.jsonl", exchange("a"), exchange("b", stream=2)[:-1], more="damage\n")
    reading = exchanges_in_file(path, pytest.fail)
    assert [next(reading).whole, next(reading).whole] == [True, False]
    with pytest.raises(InputFileError, match="line 9: this is not JSON"):
        next(reading)


@pytest.mark.parametrize(
    "line", ['{"begin":{}}', '{"stream":0,"begin":{"exchange":"a"}}', '{"stream":null,"request":{"request_body":{}}}']
)
def test_a_record_without_a_stream_is_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="line 2: stream is missing"):
        read(recording(tmp_path / "a.jsonl", more=line + "\n"))


def test_unknown_keys_are_told_once_and_do_no_harm(target: str, tmp_path: Path) -> None:
    path = recording(tmp_path / "a.jsonl", exchange("a"))
    path.write_text(path.read_text().replace('"stream":1', '"stream":1,"later":[1]'))
    exchanges, told = read(path)
    assert [len(each.records) for each in exchanges] == [4]
    assert [notice.split(": ", 1)[1] for notice in told] == [
        "line 2: unknown key 'later' is ignored, here and further on"
    ]
    status, output = replayed(target, path, "--check", "--speed", "max")
    assert (status, output.count("unknown key")) == (0, 1), output


def test_an_unknown_key_of_a_header_that_is_set_is_told(tmp_path: Path) -> None:
    option = '{"header":{"key":"a","value":"b"},"why":1,"append_action":null}'
    mutation = f'{{"response":{{"header_mutation":{{"set_headers":[{option}]}}}}}}'
    line = f'{{"stream":1,"response":{{"request_body":{mutation}}}}}\n'
    path = recording(tmp_path / "a.jsonl", exchange("a")[:-1], more=line)
    exchanges, told = read(path)
    assert len(exchanges[0].records) == 4
    assert len(told) == 1
    assert "'why'" in told[0]


def test_null_counts_as_absent(tmp_path: Path) -> None:
    path = recording(tmp_path / "a.jsonl", exchange("a"))
    plain, _ = read(path)
    # Of a key that is given twice the last one counts.
    nothing = ",".join(f'"{name}":null' for name in ("begin", "request", "response", "end", "time_us"))
    text = path.read_text().replace('{"stream"', f'{{{nothing},"stream"')
    text = text.replace('{"key"', '{"value":null,"raw_value":null,"key"').replace('{"by"', '{"note":null,"by"')
    path.write_text(text, encoding="utf-8")
    exchanges, told = read(path)
    assert [each.records for each in exchanges] == [each.records for each in plain]
    assert told == []


def framed(message: bytes) -> bytes:
    low, high = len(message) & 0x7F, len(message) >> 7
    return bytes([low | 0x80, high] if high else [low]) + message


def header_of(size: int) -> bytes:
    for fill in range(size):
        data = header(made_by="x" * fill).SerializeToString()
        if len(data) == size:
            return data
    # None is so long (of less than four bytes, or where a length grows by a byte): time takes the place.
    return next(
        (
            data
            for fill in range(size)
            for time_us in (1, 1000)
            if len(data := changed(header(made_by="x" * fill), time_us=time_us).SerializeToString()) == size
        ),
        b"",
    )


def test_recordings_are_told_from_text_whatever_the_length_of_their_first_message(tmp_path: Path) -> None:
    path = tmp_path / "a.binpb"
    rest = b"".join(framed(record.SerializeToString()) for record in exchange("a"))
    sizes = []
    for size in range(1, 131):
        first = header_of(size)
        path.write_bytes(framed(first or b"\x1a" * size) + rest)
        if first:
            sizes.append(size)
            exchanges, told = read(path)
            assert ([len(each.records) for each in exchanges], told) == ([4], []), size
        else:
            with pytest.raises(InputFileError, match="offset 0"):
                read(path)
    assert {9, 10, 13, 32, 91, 123} <= set(sizes)
    assert len(sizes) >= 125


def tap_of(size: int) -> bytes:
    for fill in range(size):
        trace = tap_pb2.TraceWrapper()
        trace.http_buffered_trace.request.headers.add(key="x" * (fill + 1))
        data: bytes = trace.SerializeToString()
        if len(data) >= size:
            return data if len(data) == size else b""
    return b""


def test_taps_are_told_from_text_whatever_the_length_of_their_first_message(tmp_path: Path) -> None:
    path = tmp_path / "tap.pb"
    sizes = []
    for size in range(1, 131):
        trace = tap_of(size)
        path.write_bytes(framed(trace or b"\x0a" * size) + framed(tap_of(50)))
        if trace:
            sizes.append(size)
            assert (len(tapped(path)[0]), tapped(path)[1]) == (2, []), size
        else:
            with pytest.raises(InputFileError, match="offset"):
                tapped(path)
    assert {9, 10, 13, 32, 91, 123} <= set(sizes)


@pytest.mark.parametrize("before", ["", "\ufeff", "\n\n", "\ufeff \r\n\t"])
@pytest.mark.parametrize("within", ["", " ", "\r\n  "])
def test_text_is_text_whatever_space_it_begins_with(before: str, within: str, tmp_path: Path) -> None:
    path = recording(tmp_path / "a.jsonl", exchange("a"))
    within_line = within.replace("\r\n", "")
    path.write_text(before + path.read_text().replace("{", "{" + within_line, 1), encoding="utf-8", newline="")
    assert len(read(path)[0]) == 1
    path.write_text(before + tap_json(1).replace("{", "{" + within, 1), encoding="utf-8", newline="")
    assert len(tapped(path)[0]) == 1


def tap_json(number: int) -> str:
    headers = [{"key": ":path", "value": f"/grüße/{number}"}, {"key": "x", "value": 'a"\\\u0001'}]
    trace = {"http_buffered_trace": {"request": {"headers": headers, "body": {"truncated": False, "as_bytes": "YQ=="}}}}
    return json.dumps(trace, indent=1, ensure_ascii=number % 2 == 0) + "\n"


def test_a_tap_that_was_cut_keeps_the_whole_exchanges_before_the_cut(tmp_path: Path) -> None:
    """At every byte of its second and third trace."""
    path = tmp_path / "tap.json"
    traces = [tap_json(number).encode() for number in (1, 2, 3)]
    data = b"".join(traces)
    ends = [len(traces[0]) - 1, len(traces[0]) + len(traces[1]) - 1, len(data) - 1]
    for size in range(ends[0], len(data) + 1):
        path.write_bytes(data[:size])
        exchanges, told = tapped(path)
        assert len(exchanges) == sum(size >= end for end in ends), size
        assert all("ends in the middle" in notice for notice in told)


def test_damage_within_a_tap_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tap.json"
    first = tap_json(1)
    path.write_text(first + "{ damage }\n" + tap_json(2), encoding="utf-8")
    with pytest.raises(InputFileError, match=rf"line {first.count(chr(10)) + 1}: this is not JSON"):
        tapped(path)


def at(seconds: float, *, lasts: float = 0.0) -> tuple[int, RecordedExchange]:
    records = (begin("a"), changed(end(), time_us=round(lasts * 1e6)))
    return round(seconds * 1e6), RecordedExchange("a", records)


def test_idle_gaps_are_capped_and_others_are_kept() -> None:
    exchanges = [at(10), at(12), at(86_412, lasts=60), at(86_470), at(86_473), at(86_490)]
    times = [round(after / 1e6, 3) for after, _ in without_gaps(exchanges, 5e6)]
    # Nothing happens in 58 s of the long one, which ends 2 s after the one that begins then.
    assert times == [0, 2, 7, 12, 15, 20]


def test_a_pause_within_an_exchange_is_capped_unless_something_else_happens_then() -> None:
    slow = (
        10_000_000,
        RecordedExchange("a", tuple(changed(begin("a"), time_us=t * 1_000_000) for t in (3, 63, 64))),
    )
    played = list(without_gaps([slow], 5e6))
    assert [[record.time_us / 1e6 for record in each.records] for _, each in played] == [[3, 8, 9]]
    others = [at(10 + 4 * step) for step in range(1, 15)]
    played = list(without_gaps([slow, *others], 5e6))
    assert [record.time_us / 1e6 for record in played[0][1].records] == [3, 63, 64]
    assert [after / 1e6 for after, _ in played] == [0, *(4 * step for step in range(1, 15))]


def test_recordings_of_different_days_do_not_wait_for_a_day(target: str, tmp_path: Path) -> None:
    day_ms = 24 * 3600 * 1000
    path = recording(tmp_path / "a.jsonl", exchange("a"), exchange("b", stream=2, at_ms=day_ms))
    status, output = replayed(target, path, "--check", "--max-gap", "0.01")
    assert (status, "2 exchanges" in output) == (0, True), output


@pytest.mark.parametrize("pair", ["a-bin=x", "bad name=x", "grpc-x=y", "te=y", "a=gr\u00fc\u00df"])
def test_metadata_that_cannot_be_sent_is_refused(target: str, tmp_path: Path, pair: str) -> None:
    status, output = replayed(target, recording(tmp_path / "a.jsonl", exchange("a")), "--metadata", pair)
    assert status != 0
    assert "exchanges" not in output


def test_metadata_is_sent_whose_name_only_begins_like_a_reserved_one() -> None:
    assert sendable("tenant", "a")
    assert sendable("host-group", "a")
    assert not sendable("Host", "a")


def test_a_recording_over_several_lines_is_told_how_it_must_be(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{\n "header": {}\n}\n')
    with pytest.raises(
        InputFileError, match="line 1: this is not JSON; each record of a recording is a JSON object on a"
    ):
        read(path)


def test_a_longer_wait_is_said(target: str, tmp_path: Path) -> None:
    path = recording(tmp_path / "a.jsonl", exchange("a"), exchange("b", stream=2, at_ms=60_000))
    status, output = replayed(target, path, "--max-gap", "2.1")
    assert (status, "waiting 2 s" in output) == (0, True), output
