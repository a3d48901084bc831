"""Taking exchanges down, and the files they go into: bounded, sampled, and never in the way."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.config import RecordingConfig
from semrouter_memory.errors import InputFileError, InvalidRequestError
from semrouter_memory.replay.capture import Capture, RawExchange, Rendering, rendered
from semrouter_memory.replay.cleaning import CleaningSettings
from semrouter_memory.replay.folder import Folder, FolderSettings
from semrouter_memory.replay.reading import exchanges_in_file
from semrouter_memory.replay.recordings import Recording, Recordings
from semrouter_memory.replay.records import RecordedExchange, kind_of, written
from semrouter_memory.retain.redact import without_secrets
from semrouter_memory.transport.wire import value_of
from tests.records import begin, end, sent

NOW = datetime(2026, 3, 15, tzinfo=UTC)
CLEANING = CleaningSettings(without_secrets)


class RecordingSink:
    """Keeps what it is given."""

    def __init__(self, sample: float = 1.0, *, holds: bool = False) -> None:
        self.sample = sample
        self.taken: list[RawExchange] = []
        self.lost = 0
        self._holds = holds

    def take(self, exchange: RawExchange, release: Any) -> None:
        self.taken.append(exchange)
        if not self._holds:
            release()

    def left_out(self) -> None:
        self.lost += 1


def first(request_id: str, size: int = 0) -> bytes:
    headers = ((":path", b"/v1"), ("x-request-id", request_id.encode()), ("x-fill", b"x" * size))
    return sent("request_headers", headers=headers).request.SerializeToString()


def play(capture: Capture, request_id: str, size: int = 0) -> None:
    stream = capture.begin({"a": "b"})
    assert stream is not None
    stream.request(first(request_id, size))
    stream.response(b"")
    stream.ended(by_us=True)


def capture_of(*sinks: RecordingSink, max_bytes: int = 1 << 20, max_exchange_bytes: int = 1 << 16) -> Capture:
    capture = Capture(max_bytes=max_bytes, max_exchange_bytes=max_exchange_bytes)
    for sink in sinks:
        capture.add(sink)
    return capture


def test_nothing_is_taken_down_while_nobody_records() -> None:
    assert capture_of().begin({}) is None


def test_the_streams_of_an_exchange_are_taken_down_together() -> None:
    sink = RecordingSink()
    capture = capture_of(sink)
    copies, asked = capture.begin({}), capture.begin({})
    assert copies is not None
    assert asked is not None
    copies.request(first("one"))
    asked.request(first("one"))
    asked.ended(by_us=True)
    assert sink.taken == []
    copies.ended(by_us=False)
    (exchange,) = sink.taken
    assert [(event.stream, event.kind) for event in exchange.events] == [
        (1, "begin"), (1, "request"), (2, "begin"), (2, "request"), (2, "ended"), (1, "ended")
    ]  # fmt: skip
    assert capture.held_bytes == 0


def test_a_share_of_the_exchanges_is_taken_down_and_always_whole() -> None:
    sink, all_of_them = RecordingSink(sample=0.25), RecordingSink()
    capture = capture_of(sink, all_of_them)
    for number in range(2000):
        for _ in range(2):
            play(capture, f"request-{number}")
    ids = [exchange.request_id for exchange in sink.taken]
    assert 2 * 400 < len(ids) < 2 * 600
    assert all(ids.count(each) == 2 for each in set(ids))
    assert len(all_of_them.taken) == 4000


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    sink = RecordingSink(holds=True)
    capture = capture_of(sink, max_bytes=20_000, max_exchange_bytes=8_000)
    play(capture, "large", size=9_000)
    assert (sink.lost, sink.taken, capture.held_bytes) == (1, [], 0)
    for number in range(10):
        play(capture, f"{number}", size=4_000)
    assert len(sink.taken) + sink.lost == 11
    assert 1 <= len(sink.taken) <= 4
    assert capture.held_bytes <= 20_000


def test_what_is_no_message_is_taken_down_all_the_same() -> None:
    sink = RecordingSink()
    stream = capture_of(sink).begin({})
    assert stream is not None
    stream.request(b"\xff\xff\xff")
    stream.ended(by_us=False)
    assert len(sink.taken) == 1


def test_an_exchange_that_is_under_way_when_recording_ends_is_cut() -> None:
    sink = RecordingSink()
    capture = capture_of(sink)
    stream = capture.begin({})
    assert stream is not None
    stream.request(first("one"))
    capture.remove(sink)
    stream.request(b"")
    stream.ended(by_us=True)
    (exchange,) = sink.taken
    (line,) = [line for line in rendered(exchange, Rendering("jsonl", CLEANING)).splitlines() if b'"end"' in line]
    assert b'"by":"CUT"' in line
    assert capture.held_bytes == 0


def test_what_a_repeated_request_id_begins_is_cut_as_well_when_recording_ends() -> None:
    """More streams of one id than an exchange has are another exchange."""
    sink = RecordingSink()
    capture = capture_of(sink)
    streams = [capture.begin({}) for _ in range(6)]
    for stream in streams:
        assert stream is not None
        stream.request(first("one"))
    capture.remove(sink)
    assert [len(exchange.metadata) for exchange in sink.taken] == [4, 1, 1]
    for stream in streams:
        assert stream is not None
        stream.ended(by_us=True)
    assert len(sink.taken) == 3
    assert capture.held_bytes == 0


async def test_so_many_recordings_are_made_at_a_time(tmp_path: Path) -> None:
    recordings = Recordings(
        RecordingConfig(),
        directory=tmp_path,
        redact=without_secrets,
        identity_headers=frozenset(),
        secret_headers=frozenset(),
        pseudonym_key=None,
    )
    live = [recordings.live(60) for _ in range(4)]
    assert all([await anext(each) for each in live])
    with pytest.raises(InvalidRequestError, match="4 recordings are made already"):
        recordings.live(60)
    await recordings.stop()
    for each in live:
        async for _ in each:
            pass


def test_a_sink_that_fails_stops_the_recording_and_nothing_else() -> None:
    capture = capture_of()
    called = threading.Event()

    def sink(_data: bytes, _at: datetime) -> bool:
        called.set()
        raise InputFileError("disk: no space left")

    recording = Recording(capture, sink, sample=1, rendering=Rendering("jsonl", CLEANING))
    recording.start()
    for number in range(3):
        play(capture, f"{number}")
    recording.detach()
    recording.wait(60)
    assert called.is_set()
    assert (recording.recorded, recording.not_recorded) == (0, 3)
    assert recording.failed == "disk: no space left"
    assert capture.held_bytes == 0


def test_a_sink_that_hangs_holds_nothing_but_its_bound() -> None:
    """The request path goes on; what cannot be kept is counted."""
    go_on = threading.Event()
    capture = Capture(max_bytes=50_000, max_exchange_bytes=10_000)
    recording = Recording(capture, lambda _data, _at: go_on.wait(60), sample=1, rendering=Rendering("jsonl", CLEANING))
    recording.start()
    for number in range(100):
        play(capture, f"{number}", size=5_000)
        assert capture.held_bytes <= 50_000
    go_on.set()
    recording.detach()
    recording.wait(60)
    assert recording.not_recorded >= 85
    assert recording.recorded + recording.not_recorded == 100
    assert capture.held_bytes == 0


def folder_in(directory: Path, **changes: Any) -> Folder:
    settings: dict[str, Any] = {
        "directory": directory,
        "format": "jsonl",
        "files": "rolling",
        "max_file_bytes": 2000,
        "max_total_bytes": 6000,
        "started_at": "",
        **changes,
    }
    return Folder(FolderSettings(**settings), now=lambda: NOW)


def exchange_of(size: int) -> bytes:
    return written([begin("e"), sent("request_body", body=b"x" * size), end("ENVOY")], "jsonl")


def test_files_roll_and_the_oldest_leave(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    for _ in range(40):
        folder.append(exchange_of(500), started_at="")
        sizes = [path.stat().st_size for path in tmp_path.iterdir()]
        assert max(sizes) <= 2000
        assert sum(sizes) <= 6000
    assert len(list(tmp_path.iterdir())) >= 3
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert sum(1 for _ in exchanges_in_file(path, pytest.fail)) >= 1


def test_what_is_there_already_counts(tmp_path: Path) -> None:
    for _ in range(3):
        folder = folder_in(tmp_path)
        for _ in range(8):
            folder.append(exchange_of(500), started_at="")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 6000


def test_an_exchange_that_no_file_can_take_is_refused(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    assert folder.append(exchange_of(5000), started_at="") is None
    assert list(tmp_path.iterdir()) == []


def test_one_file_for_each_exchange(tmp_path: Path) -> None:
    folder = folder_in(tmp_path, files="exchange")
    paths = [folder.append(exchange_of(100), started_at="") for _ in range(5)]
    assert sorted(tmp_path.iterdir()) == paths


async def test_a_recording_reads_back_as_it_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the port to the file, through the process that renders; a directory of another format beside it."""
    # That process has the lowest priority, and must start before it ends.
    monkeypatch.setattr("semrouter_memory.replay.recordings._STOP_SECONDS", 120)
    recordings = Recordings(
        RecordingConfig(enabled=True, format="protobuf"),
        directory=tmp_path / "made",
        redact=without_secrets,
        identity_headers=frozenset(),
        secret_headers=frozenset({"x-tenant-word"}),
        pseudonym_key=None,
    )
    await recordings.start()
    stream = recordings.capture.begin({"x-tenant-word": "open sesame"})
    assert stream is not None
    stream.request(first("one"))
    stream.response(b"\x0a\x00")
    stream.ended(by_us=True)
    await recordings.stop()
    (path,) = (tmp_path / "made").iterdir()
    (exchange,) = exchanges_in_file(path, pytest.fail)
    assert isinstance(exchange, RecordedExchange)
    began, asked, answer, ended = exchange.records
    assert began.begin.exchange == "one"
    assert [(each.key, value_of(each)) for each in began.begin.metadata] == [("x-tenant-word", b"[redacted]")]
    assert (kind_of(asked), kind_of(answer)) == ("request_headers", "request_headers")
    assert (asked.WhichOneof("record"), answer.WhichOneof("record")) == ("request", "response")
    assert ended.end == end("MEMORY").end
