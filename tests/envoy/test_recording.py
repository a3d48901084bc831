"""Recording a running sidecar behind the real Envoy, and Envoy's own tap filter."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from semrouter_memory.cli import app as command_line
from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.comparing import Difference
from semrouter_memory.replay.playing import ReplayOptions
from semrouter_memory.replay.reading import exchanges_in_file, recording_files
from semrouter_memory.replay.records import RecordedExchange
from semrouter_memory.replay.replayer import Replayer, ReplayReport
from tests.envoy.conftest import Installation, eventually, installed

CANARY = "sk-canary7Q2x9Lm4Vb8Kz1Tn6Rw3"
TOKEN = "operator-token"


def recording_config(directory: Path) -> dict[str, Any]:
    return {
        "memory": {"recall": {"deadline_ms": 4000}},
        "recording": {"enabled": True, "directory": str(directory)},
    }


FORMS = ("JSON_BODY_AS_STRING", "JSON_BODY_AS_BYTES", "PROTO_BINARY_LENGTH_DELIMITED")


def tapped(directory: Path) -> Any:
    """A change to Envoy's configuration: tap filters stand before everything else, and see the client's key."""

    def edit(config: dict[str, Any]) -> None:
        manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
        for form in FORMS:
            sink = {"format": form, "file_per_tap": {"path_prefix": str(directory / form / "tap")}}
            bounds = {"max_buffered_rx_bytes": 1_000_000, "max_buffered_tx_bytes": 1_000_000}
            output = {"sinks": [sink], "streaming": True, **bounds}
            manager["http_filters"].insert(0, {
                "name": f"tap-{form}",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.tap.v3.Tap",
                    "common_config": {"static_config": {"match": {"any_match": True}, "output_config": output}},
                },
            })  # fmt: skip

    return edit


@dataclass(frozen=True, slots=True)
class Recorded:
    """An installation that records, where two exchanges were had.

    Attributes:
        taken: recordings of the sidecar.
        tap: what the tap filters wrote, in a directory for each format.
    """

    on: Installation
    taken: Path
    tap: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.on.stack.ext_proc_port}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def recorded(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Recorded]:
    directory = tmp_path_factory.mktemp("recording")
    taken, tap = directory / "taken", directory / "tap"
    for form in FORMS:
        (tap / form).mkdir(parents=True)
    options = {
        "sidecar_config": recording_config(taken),
        "edit_envoy": tapped(tap),
        "environment": {"SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN": TOKEN},
    }
    async with installed(directory / "stack", model_directory, **options) as on:
        await speak(on)

        async def there() -> bool:
            return recorded_so_far(taken) >= 2

        await eventually(there, "nothing was recorded")
        yield Recorded(on, taken, tap)


async def speak(on: Installation) -> None:
    """A chat and a stream that both hold a secret."""
    answer = json.dumps({"text": f"never tell {CANARY} to anybody"})
    said: Any = [{"role": "user", "content": f"My key is {CANARY}, and my dog is called Rex"}]
    async with on.sdk(default_headers={"x-stand-in": answer, "cookie": CANARY}) as sdk:
        await sdk.chat.completions.create(model="m", messages=said)
        async for _ in await sdk.chat.completions.create(model="m", messages=said, stream=True):
            pass


async def command(*arguments: str, **environment: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "semrouter_memory",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def exchanges(directory: Path, warn: Callable[[str], object] = pytest.fail) -> list[RecordedExchange]:
    return [each for path in sorted(directory.glob("recording-*")) for each in exchanges_in_file(path, warn)]


def recorded_so_far(directory: Path) -> int:
    """Of a file that is being written the end may be missing, or everything."""
    with suppress(InputFileError):
        return len(exchanges(directory, warn=str))
    return 0


def content(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir())


async def play(address: str, *paths: Path) -> tuple[ReplayReport, list[Difference]]:
    found: list[Difference] = []
    options = ReplayOptions(files=paths, target=address, speed=None, timeout_seconds=5)
    session = Replayer(options, on_differences=found.extend)
    return await session.run(), found


@pytest.mark.asyncio(loop_scope="module")
async def test_no_secret_is_recorded(recorded: Recorded) -> None:
    """Neither the client's key, nor a cookie, nor a key in question and answer."""
    for secret in (CANARY, "demo-key-alice"):
        assert secret.encode() not in content(recorded.taken)
    assert b"Rex" in content(recorded.taken)
    tally, found = await play(recorded.address, *sorted(recorded.taken.iterdir()))
    assert (tally.exchanges, tally.streams) == (2, 4)
    # What was said is remembered by now, so a body may differ, and nothing else.
    assert [each.what for each in found if "body" not in each.what] == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("form", FORMS)
async def test_what_the_tap_filter_wrote_gives_a_recording(recorded: Recorded, form: str, tmp_path: Path) -> None:
    files = sorted((recorded.tap / form).iterdir())[:2]
    assert CANARY.encode() in b"".join(path.read_bytes() for path in files) or form == "JSON_BODY_AS_BYTES"
    imported = CliRunner().invoke(
        command_line, ["record", "import-tap", *map(str, files), "--out", str(tmp_path), "--user", "alice"]
    )
    assert imported.exit_code == 0, imported.output
    for secret in (CANARY, "demo-key-alice"):
        assert secret.encode() not in content(tmp_path)
    assert b"Rex" in content(tmp_path)
    tally, found = await play(recorded.address, *recording_files([tmp_path]))
    assert (tally.exchanges, tally.streams, tally.not_compared, found) == (2, 4, 2, [])


@pytest.mark.asyncio(loop_scope="module")
async def test_an_operator_records_a_running_sidecar(recorded: Recorded, tmp_path: Path) -> None:
    """For a while, from somewhere else, with pseudonyms; without the token there is nothing to see."""
    url = recorded.on.stack.operator_url
    arguments = ("record", "--out", str(tmp_path), "--seconds", "3", "--pseudonymise", "--url", url)
    refused, said = await command(*arguments, SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN="wrong")
    assert refused == 2
    assert "token is missing or wrong" in said
    recording = asyncio.create_task(command(*arguments, SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN=TOKEN))
    while not recording.done():
        await speak(recorded.on)
    status, output = await recording
    assert status == 0, output
    assert "exchanges written to" in output
    assert len(exchanges(tmp_path)) >= 2
    for word in (CANARY, "demo-key-alice", "alice", "Rex", "dog"):
        assert word.encode() not in content(tmp_path), word


async def test_a_sidecar_that_is_killed_while_it_records_leaves_what_was_whole(
    tmp_path: Path, model_directory: Path
) -> None:
    taken = tmp_path / "taken"
    async with installed(tmp_path / "stack", model_directory, sidecar_config=recording_config(taken)) as on:

        async def some() -> bool:
            await speak(on)
            return recorded_so_far(taken) >= 4

        await eventually(some, "nothing was recorded")
        talking = [asyncio.create_task(speak(on)) for _ in range(4)]
        await on.stack.sidecar.stop(kill=True)
        await asyncio.gather(*talking)
    told: list[str] = []
    whole = [each for path in sorted(taken.iterdir()) for each in exchanges_in_file(path, told.append)]
    assert len(whole) >= 4
    assert all(each.whole for each in whole[:4])
    assert len(told) <= 1
