"""The sidecar dies, hangs, stops and comes back; the client's requests succeed with the bodies they came with."""

import asyncio
import itertools
import json
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from semrouter_memory.transport import wire

from .client import APIS, CHAT, Piece, ask, asking, behaving, gaps, streamed, streamed_without_envoy, streaming, told
from .conftest import Installation, eventually, installed

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the trip?"
LONG = {"text": "one word after the other comes while the sidecar is gone", "delay_ms": 50}
CHAINS = ["two-filter.yaml", "single-filter.yaml"]
MESSAGE_TIMEOUT_SECONDS = 1.0
"""What the shipped chains give the sidecar for one message."""
SLACK_SECONDS = 1.0

Install = Callable[..., AbstractAsyncContextManager[Installation]]


@pytest.fixture
def install(tmp_path: Path, model_directory: Path) -> Install:
    """Starts an installation that the test may break."""
    return lambda **options: installed(tmp_path, model_directory, **options)


@asynccontextmanager
async def hanging(on: Installation) -> AsyncIterator[None]:
    """The sidecar keeps its connections and does nothing any more."""
    on.stack.sidecar.send(signal.SIGSTOP)
    try:
        yield
    finally:
        on.stack.sidecar.send(signal.SIGCONT)


async def kill(on: Installation) -> None:
    await on.stack.sidecar.stop(kill=True)


async def recalls(on: Installation) -> None:
    """Wait until the sidecar does its work (again)."""

    async def known() -> bool:
        return "$10,000" in await told(on, CHAT, ASKED)

    await eventually(known, "memory did not come back")


async def turns_accepted(on: Installation, count: int) -> None:
    async def enough() -> bool:
        return await on.metric("semrouter_memory_turns_total") >= count

    await eventually(enough, f"fewer than {count} turns were accepted")


# -- dead --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chain", CHAINS)
async def test_without_a_sidecar_everything_but_memory_works(install: Install, chain: str) -> None:
    """It was killed and comes back: requests in between pass at once, and memory returns by itself."""
    async with install(chain=chain) as on:
        await ask(on, CHAT, TOLD)
        await on.remembers("$10,000")
        await kill(on)
        for path in APIS:
            began = time.monotonic()
            assert (await ask(on, path, ASKED)).json()["model"] == "m"
            assert b"".join(piece.data for piece in await streamed(on, path, ASKED)) == b"".join(
                await streamed_without_envoy(on, path, ASKED)
            )
            assert time.monotonic() - began < SLACK_SECONDS
        await ask(on, CHAT, "z" * (10 << 20))
        await on.stack.start_sidecar()
        await recalls(on)
        assert len(await on.memories()) == 1


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("path", APIS)
async def test_killed_in_the_middle_of_an_answer(install: Install, chain: str, path: str) -> None:
    """The client's stream goes on: the same pieces at the same pace, and a regular end."""
    async with install(chain=chain) as on:
        async with streaming(on, path, "Hello?", **LONG) as pieces:
            seen = await first(pieces, 4)
            await kill(on)
            seen += [piece async for piece in pieces]
        assert [piece.data for piece in seen] == await streamed_without_envoy(on, path, "Hello?", **LONG)
        assert max(gaps(seen)) < LONG["delay_ms"] / 1000 + 0.25


async def first(pieces: AsyncIterator[Piece], count: int) -> list[Piece]:
    return [await anext(pieces) for _ in range(count)]


async def test_killed_while_many_streams_run(install: Install) -> None:
    async with install() as on:
        reading = [asyncio.create_task(streamed(on, path, "Hello?", **LONG)) for path in APIS * 10]
        await asyncio.sleep(0.3)
        await kill(on)
        answers = await asyncio.gather(*reading)
        sent = {path: await streamed_without_envoy(on, path, "Hello?", **LONG) for path in APIS}
        for path, answer in zip(APIS * 10, answers, strict=True):
            assert b"".join(piece.data for piece in answer) == b"".join(sent[path])


# -- hanging -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chain", CHAINS)
async def test_a_sidecar_that_hangs_costs_one_message_timeout(install: Install, chain: str) -> None:
    async with install(chain=chain) as on:
        await ask(on, CHAT, TOLD)
        await on.remembers("$10,000")
        async with hanging(on):
            for path in APIS:
                began = time.monotonic()
                await ask(on, path, ASKED)
                assert time.monotonic() - began < MESSAGE_TIMEOUT_SECONDS + SLACK_SECONDS
            began = time.monotonic()
            await ask(on, CHAT, "z" * (10 << 20))
            assert time.monotonic() - began < MESSAGE_TIMEOUT_SECONDS + 3 * SLACK_SECONDS
        await recalls(on)


@pytest.mark.parametrize("path", APIS)
async def test_hanging_in_the_middle_of_an_answer_delays_no_piece(install: Install, path: str) -> None:
    """The default chain only copies the answer to the sidecar: nobody waits for it."""
    async with install() as on, streaming(on, path, "Hello?", **LONG) as pieces:
        seen = await first(pieces, 4)
        async with hanging(on):
            seen += [piece async for piece in pieces]
        assert [piece.data for piece in seen] == await streamed_without_envoy(on, path, "Hello?", **LONG)
        assert max(gaps(seen)) < LONG["delay_ms"] / 1000 + 0.25


async def test_a_long_answer_passes_a_hanging_sidecar(install: Install) -> None:
    """Copies that nobody reads pile up in Envoy; they must not hold back the answer itself."""
    body = asking(CHAT, "Hello?", n=40)
    how = behaving({"text": "word " * 1_000})
    async with install() as on, on.http(headers=how) as http, hanging(on):
        began = time.monotonic()
        whole = (await http.post(CHAT, content=body)).raise_for_status().json()
        assert len(whole["choices"]) == 40
        assert time.monotonic() - began < MESSAGE_TIMEOUT_SECONDS + 2 * SLACK_SECONDS


@pytest.mark.parametrize("path", APIS)
async def test_one_filter_hanging_in_the_middle_of_an_answer_costs_one_timeout(install: Install, path: str) -> None:
    """That chain asks the sidecar for every piece; when it does not answer, it is left out for the rest."""
    async with install(chain="single-filter.yaml") as on, streaming(on, path, "Hello?", **LONG) as pieces:
        seen = await first(pieces, 4)
        async with hanging(on):
            seen += [piece async for piece in pieces]
        sent = await streamed_without_envoy(on, path, "Hello?", **LONG)
        assert b"".join(piece.data for piece in seen) == b"".join(sent)
        assert max(gaps(seen)) < MESSAGE_TIMEOUT_SECONDS + SLACK_SECONDS
