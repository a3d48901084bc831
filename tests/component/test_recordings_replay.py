"""The recordings of this repository, played against the real server with the real pipelines."""

import asyncio
import json
import random
import shutil
from collections.abc import AsyncIterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from semrouter_memory.app.sidecar import App
from semrouter_memory.cli import app as command_line
from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN
from semrouter_memory.config import Config
from semrouter_memory.replay.comparing import Difference, differences
from semrouter_memory.replay.pb.recording_pb2 import Begin, End, Record
from semrouter_memory.replay.playing import Played, ReplayOptions
from semrouter_memory.replay.reading import exchanges_in_file
from semrouter_memory.replay.records import RecordedExchange, changed, kind_of, written
from semrouter_memory.replay.replayer import Replayer, ReplayReport
from semrouter_memory.stack.loopback import free_port, local_client
from semrouter_memory.transport.pb.ext_proc_pb2 import ProcessingResponse
from tests.records import header

RECORDINGS = Path(__file__).parents[1] / "recordings"
CHAINS = ("two-filter", "single-filter")
_WITHIN_SECONDS = 20
_UNCHANGED = '"response":{"request_body":{}'
_CHANGED = '"response":{"request_body":{"response":{"body_mutation":{"text":"{}"}}}'


class Sidecar:
    """The app in this process, with what was told in the first recording remembered."""

    def __init__(self, app: App, api: str) -> None:
        self.app = app
        self._api = api

    @property
    def address(self) -> str:
        return self.app.ext_proc_address

    async def play(self, *paths: Path, speed: float | None = None) -> tuple[ReplayReport, list[Difference]]:
        found: list[Difference] = []
        options = ReplayOptions(files=paths, target=self.address, speed=speed, timeout_seconds=5)
        session = Replayer(options, on_differences=found.extend)
        return await session.run(), found

    async def remembers(self, user: str) -> None:
        deadline = asyncio.get_running_loop().time() + _WITHIN_SECONDS
        async with local_client(base_url=self._api, headers={"x-authz-user-id": user}) as http:
            while not (await http.get("/v1/memory")).json()["data"]:
                assert asyncio.get_running_loop().time() < deadline, "nothing was remembered"
                await asyncio.sleep(0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sidecar(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Sidecar]:
    directory, api = tmp_path_factory.mktemp("replay"), free_port()
    config: dict[str, Any] = {
        "memory": {
            "data_dir": str(directory),
            "embedding": {"path": str(model_directory)},
            "recall": {"deadline_ms": 5000},
        },
        "server": {"listen": "127.0.0.1:0", "drain_seconds": 1},
        "management": {"listen": f"127.0.0.1:{api}", "operator_listen": None},
    }
    app = App(Config(**config))
    await app.start()
    try:
        sidecar = Sidecar(app, f"http://127.0.0.1:{api}")
        await sidecar.play(RECORDINGS / "two-filter" / "01-tell.jsonl")
        await sidecar.remembers("alice")
        yield sidecar
    finally:
        await app.stop()


def recordings(chain: str) -> list[Path]:
    return sorted((RECORDINGS / chain).glob("*.jsonl"))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("chain", CHAINS)
async def test_the_recorded_traffic_is_answered_as_it_was(sidecar: Sidecar, chain: str) -> None:
    """What the real SDK and the real Envoy sent, to the byte of what was injected, on another day."""
    # The first one tells what is now known.
    tally, found = await sidecar.play(*recordings(chain)[1:])
    assert found == []
    assert tally.exchanges == len(recordings(chain)) - 1 >= 14
    assert tally.notices == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("seed", range(3))
async def test_the_answers_are_the_same_however_the_bodies_are_cut(
    sidecar: Sidecar, chain: str, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    files = [rechunked(path, tmp_path, chance) for path in recordings(chain)[1:]]
    assert sum(path.stat().st_size for path in files) != sum(path.stat().st_size for path in recordings(chain)[1:])
    tally, found = await sidecar.play(*files)
    assert (found, tally.exchanges) == ([], len(files))


def rechunked(path: Path, directory: Path, chance: random.Random) -> Path:
    """The recording with the bodies that come in chunks cut at other places; each piece is answered as a chunk was."""
    (exchange,) = exchanges_in_file(path, pytest.fail)
    cut = [header()]
    chunked: set[tuple[int, str]] = set()
    for (stream, kind), records in groupby(exchange.records, key=lambda each: (each.stream, kind_of(each))):
        run = list(records)
        if kind == "request_headers" and run[0].HasField("request"):
            config = run[0].request.protocol_config
            modes = {"request_body": config.request_body_mode, "response_body": config.response_body_mode}
            chunked |= {(stream, name) for name, mode in modes.items() if mode == config.STREAMED}
        cut += _recut(run, kind, chance) if (stream, kind) in chunked else run
    target = directory / path.name
    target.write_bytes(written(cut, "jsonl", timed=False))
    return target


def _recut(run: list[Record], kind: str, chance: random.Random) -> list[Record]:
    requests = [getattr(record.request, kind) for record in run if record.HasField("request")]
    answers = [record for record in run if record.HasField("response")]
    data = b"".join(request.body for request in requests)
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(0, 2 * len(requests) + 8)))
    pieces = [data[start:end] for start, end in pairwise([0, *places, len(data)])]
    if chance.random() < 0.5:
        # Envoy ends a stream of events with a message that is empty.
        pieces.append(b"")
    again = [changed(run[0]) for _ in pieces]
    for record, piece in zip(again, pieces, strict=True):
        body = getattr(record.request, kind)
        body.body, body.end_of_stream = piece, False
    getattr(again[-1].request, kind).end_of_stream = requests[-1].end_of_stream
    return [record for each in again for record in (each, *answers[:1])]


@pytest.mark.asyncio(loop_scope="module")
async def test_another_answer_is_shown(sidecar: Sidecar, tmp_path: Path) -> None:
    text = (RECORDINGS / "two-filter" / "02-ask.jsonl").read_text(encoding="utf-8")
    path = tmp_path / "edited.jsonl"
    path.write_text(text.replace("My budget for the Hawaii trip is $10,000", "My budget is gone"), encoding="utf-8")
    _, found = await sidecar.play(path)
    assert [each.what for each in found] == ["request_body: another body"]
    assert "edited.jsonl: line 2" in found[0].where
    assert "/v1/chat/completions" in found[0].where
    assert any(line.startswith("-") and "budget is gone" in line for line in found[0].lines)
    assert any(line.startswith("+") and "$10,000" in line for line in found[0].lines)


def _injected(line: str) -> ProcessingResponse:
    block = f"{BLOCK_OPEN}\n## User's Relevant Context\n\n{line}\n{BLOCK_CLOSE}"
    body = json.dumps(
        {"messages": [{"role": "system", "content": block}, {"role": "user", "content": "5 May 2026?"}]},
        ensure_ascii=False,
    )
    answer = ProcessingResponse()
    answer.request_body.response.body_mutation.body = body.encode()
    return answer


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ('- Fri 27 November 2026: "I like tea"', '- Tue 1 December 2026: "I like tea"'),
        ("- (agent bot) Fri 27 November 2026: x", "- (agent bot) Tue 1 December 2026: x"),
        ("- Leave (page 3, 28 November 2026, a.pdf): x", "- Leave (page 3, 1 December 2026, a.pdf): x"),
        ("- I ran last week (16 to 22 November 2026)", "- I ran last week (30 November to 6 December 2026)"),
        ("- I moved two years ago (2024)", "- I moved two years ago (2025)"),
        ("- 上个月（2026年10月）我去了北京", "- 上个月（2026年11月）我去了北京"),
        ('<memory id="mem_9e622d94" said="Fri 27 November 2026">x', '<memory id="mem_0a" said="Tue 1 December 2026">x'),
        ("- I like tea\n\nToday: Fri 27 November 2026 (UTC).", "- I like tea\n\nToday: Tue 1 December 2026 (UTC)."),
        ('- Mon 2 March 2026, asked "a tent?": "a dome"', '- Fri 6 March 2026, asked "a tent?": "a dome"'),
    ],
)
def test_days_and_ids_are_those_of_the_run(line: str, now: str) -> None:
    assert _found(line, now) == []


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ("- I fly on 5 May 2026", "- I fly on 6 May 2026"),
        ("- 28 people came", "- 29 people came"),
        ("- Call me (30 times)", "- Call me (31 times)"),
        ('- Fri 27 November 2026: "I like tea"', '- Tue 1 December 2026: "I like coffee"'),
        ("- Sold my car", "- May sold a car"),
    ],
)
def test_what_a_memory_says_is_compared(line: str, now: str) -> None:
    assert [each.what for each in _found(line, now)] == ["request_body: another body"]


def _found(line: str, now: str) -> list[Difference]:
    begun = Record(stream=1, begin=Begin())
    told = Record(stream=1, response=_injected(line))
    end = Record(stream=1, end=End(by=End.MEMORY))
    played = Played(answers=[_injected(now)], ended=True, status="OK")
    return differences(RecordedExchange("file", (begun, told, end)), {1: played})


@pytest.mark.asyncio(loop_scope="module")
async def test_check_tells_by_the_exit_status(sidecar: Sidecar, tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    for name in ("06-chat.jsonl", "08-tools.jsonl"):
        shutil.copy(RECORDINGS / "two-filter" / name, good)
    edited = tmp_path / "edited.jsonl"
    text = (good / "06-chat.jsonl").read_text(encoding="utf-8")
    edited.write_text(text.replace(_UNCHANGED, _CHANGED), encoding="utf-8")
    cut = tmp_path / "cut.jsonl"
    cut.write_text(text[:-20], encoding="utf-8")

    async def run(*arguments: str) -> tuple[int, str]:
        options = ["replay", *arguments, "--target", sidecar.address, "--speed", "max", "--check", "--timeout", "2"]
        result = await asyncio.to_thread(CliRunner().invoke, command_line, options)
        return result.exit_code, result.output

    status, output = await run(str(good))
    assert status == 0, output
    assert "2 exchanges" in output
    assert "0 differ" in output
    status, output = await run(str(edited))
    assert status == 1
    assert "the body was changed; now it is left as it is" in output
    status, output = await run(str(cut))
    assert status == 1
    assert "ends in the middle of a record" in output


@pytest.mark.asyncio(loop_scope="module")
async def test_a_recording_keeps_its_times(sidecar: Sidecar, tmp_path: Path) -> None:
    """Three streams that began 0.2 s apart take so long again, and half of it at twice the speed."""
    lines = (RECORDINGS / "two-filter" / "06-chat.jsonl").read_text(encoding="utf-8").splitlines()
    header, body = lines[0], lines[1:]
    timed = [header]
    for number in range(3):
        for line in body:
            renamed = line.replace('"stream":1', f'"stream":{10 + number}').replace(
                '"stream":2', f'"stream":{20 + number}'
            )
            renamed = renamed.replace("06-chat", f"chat-{number}", 1) if '"begin"' in line else renamed
            timed.append(renamed.replace('{"stream"', f'{{"time_us":{200_000 * number},"stream"', 1))
    path = tmp_path / "timed.jsonl"
    path.write_text("\n".join(timed) + "\n", encoding="utf-8")
    loop = asyncio.get_running_loop()
    for speed, least in ((1.0, 0.4), (2.0, 0.2)):
        began = loop.time()
        tally, found = await sidecar.play(path, speed=speed)
        assert loop.time() - began >= least
        assert (tally.exchanges, found) == (3, [])
