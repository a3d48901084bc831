"""What was accepted is extracted, whenever the sidecar ends and starts again; nothing of it twice."""

import asyncio
import signal
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from .client import CHAT, answers_held_back, ask, asking, behaving, sent_by_llm, streaming, told, under_way
from .conftest import Installation, eventually, installed
from .extraction_llm import ExtractionLlm, extracting

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOLD = "My budget for the Hawaii trip is $10,000"

Install = Callable[..., AbstractAsyncContextManager[Installation]]


@pytest.fixture
def install(tmp_path: Path, model_directory: Path) -> Install:
    """Starts an installation whose sidecar the test may end and start."""
    return lambda **options: installed(tmp_path, model_directory, **options)


@pytest.fixture
def turns(tmp_path: Path) -> Callable[[], dict[str, int]]:
    """The turn log's own account, read beside the running sidecar."""

    def read() -> dict[str, int]:
        with closing(sqlite3.connect(f"file:{tmp_path}/data/turns.db?mode=ro", uri=True)) as log:
            names = "accepted", "extracted", "empty", "dead_lettered", "deleted"
            counted = log.execute(f"SELECT {', '.join(names)} FROM counters").fetchone()
            waiting = log.execute("SELECT count(*) FROM turns WHERE state = 'waiting'").fetchone()
        return {**dict(zip(names, counted, strict=True)), "waiting": waiting[0]}

    return read


Turns = Callable[[], dict[str, int]]


async def accepted(turns: Turns, count: int) -> None:
    async def enough() -> bool:
        return turns()["accepted"] >= count

    await eventually(enough, f"fewer than {count} turns were accepted")


async def all_ended(turns: Turns) -> None:
    async def none_waits() -> bool:
        return turns()["waiting"] == 0

    await eventually(none_waits, "turns wait for ever")


async def killed_and_restarted(on: Installation) -> None:
    await on.stack.sidecar.stop(kill=True)
    await on.stack.start_sidecar()


async def test_a_turn_that_waits_for_the_model_or_is_in_a_workers_hands_survives(
    install: Install, turns: Turns
) -> None:
    """First the model is down when the sidecar is killed; then it hangs, and the worker's lease must end."""
    llm = ExtractionLlm()
    config = extracting(llm, timeout_seconds=30, quotes=False, max_attempts=1_000, lease_seconds=2)
    async with install(sidecar_config=config) as on:
        await ask(on, CHAT, TOLD)
        await accepted(turns, 1)
        await killed_and_restarted(on)
        assert turns()["waiting"] == 1
        llm.works("User's budget for the Hawaii trip is $10,000")
        async with llm.listening():
            await on.remembers("$10,000")
            await all_ended(turns)
            llm.hangs = True
            before = len(llm.asked)
            await told(on, CHAT, "My dog is called Rex")

            async def asked() -> bool:
                return len(llm.asked) > before

            await eventually(asked, "the model was not asked")
            await on.stack.sidecar.stop(kill=True)
            llm.works("User's dog is called Rex")
            await on.stack.start_sidecar()
            await on.remembers("Rex")
            await all_ended(turns)
        assert len(await on.memories()) == 2
        assert turns() == {
            "accepted": 2,
            "extracted": 2,
            "empty": 0,
            "dead_lettered": 0,
            "deleted": 0,
            "waiting": 0,
        }


async def whole(on: Installation, path: str, text: str, how: dict[str, Any]) -> bytes:
    async with streaming(on, path, text, **how) as pieces:
        return b"".join([piece.data async for piece in pieces])


async def test_a_regular_stop_does_not_wait_for_ever(install: Install) -> None:
    """A stream that outlives the time to drain is left by the sidecar, not by its client."""
    how = {"text": "a word and " * 6}
    async with install(sidecar_config={"server": {"drain_seconds": 0.3}}) as on:
        expected = await sent_by_llm(on, CHAT, "", **how)
        async with answers_held_back(on):
            reading = asyncio.create_task(whole(on, CHAT, "Hello?", how))
            await under_way(on, 2)
            on.stack.sidecar.send(signal.SIGTERM)
            assert await on.stack.sidecar.stop() == 0
            assert not reading.done()
        assert await reading == expected


async def test_switched_off_in_the_file(install: Install, turns: Turns) -> None:
    """Nothing is recalled or learned; our own fields are taken out all the same."""
    async with install(sidecar_config={"memory": {"enabled": False}}) as on:
        async with on.http() as http:
            (
                await http.post("/v1/memory", json={"content": "User's budget for the trip is $10,000"})
            ).raise_for_status()
        await ask(on, CHAT, "What's my budget for the trip?")
        body = asking(CHAT, TOLD)
        async with on.http(headers=behaving({})) as http:
            extended = body[:-1] + b', "memory_config": {"enabled": true}}'
            (await http.post(CHAT, content=extended)).raise_for_status()
        assert on.llm.last.body == body
        await on.stack.sidecar.stop()
        assert turns()["accepted"] == 0
