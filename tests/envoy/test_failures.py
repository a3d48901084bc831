"""The sidecar dies, hangs and comes back; meanwhile the client's requests succeed with the bodies they came with."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.promptly import promptly

from .client import (
    APIS,
    CHAT,
    Piece,
    ask,
    asking,
    behaving,
    gaps,
    sent_by_llm,
    streamed,
    streaming,
    told,
    under_way,
)
from .conftest import Installation, eventually, installed

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the trip?"
DELAY_SECONDS = 0.05
LONG: dict[str, Any] = {"text": "one word after the other comes by itself", "delay_ms": DELAY_SECONDS * 1000}
MESSAGE_TIMEOUT_SECONDS = 1.0
"""What the shipped chains give the sidecar for one message."""
SLACK_SECONDS = 1.0
STALL_SECONDS = 0.8
"""Below a message timeout: a gap between two pieces that is shorter was not caused by waiting for the sidecar."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def two(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    async with installed(tmp_path_factory.mktemp("two"), model_directory, shipped_timeouts=True) as on:
        yield on


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def single(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    directory = tmp_path_factory.mktemp("single")
    async with installed(directory, model_directory, chain="single-filter.yaml", shipped_timeouts=True) as on:
        yield on


@pytest_asyncio.fixture(loop_scope="session")
async def two_filter(two: Installation) -> Installation:
    """To be broken: whatever the test before did, the sidecar works and nothing is remembered."""
    return await mended(two)


@pytest_asyncio.fixture(loop_scope="session", params=["two-filter", "single-filter"])
async def chain(request: pytest.FixtureRequest, two: Installation, single: Installation) -> Installation:
    return await mended(two if request.param == "two-filter" else single)


async def mended(on: Installation) -> Installation:
    if not on.stack.sidecar.running:
        await on.stack.start_sidecar()
    await on.forget_everything()
    return on


async def kill(on: Installation) -> None:
    await on.stack.sidecar.stop(kill=True)


@asynccontextmanager
async def hanging(on: Installation) -> AsyncIterator[None]:
    """The sidecar keeps its connections and does nothing any more."""
    on.stack.sidecar.send(signal.SIGSTOP)
    try:
        yield
    finally:
        on.stack.sidecar.send(signal.SIGCONT)


async def remembering(on: Installation) -> None:
    await ask(on, CHAT, TOLD)
    await on.remembers("$10,000")


async def recalls_again(on: Installation) -> None:
    async def known() -> bool:
        return "$10,000" in await told(on, CHAT, ASKED)

    await eventually(known, "memory did not come back")


async def first(pieces: AsyncIterator[Piece], count: int) -> list[Piece]:
    return [await anext(pieces) for _ in range(count)]


# -- dead --------------------------------------------------------------------------------------------------------------


async def test_without_a_sidecar_everything_but_memory_works(chain: Installation) -> None:
    """It is killed and started again: requests in between pass at once, and memory returns by itself."""
    await remembering(chain)
    await kill(chain)
    for path in APIS:
        await promptly(partial(ask, chain, path, ASKED), within=SLACK_SECONDS)
        pieces = await promptly(partial(streamed, chain, path, ASKED), within=SLACK_SECONDS)
        assert b"".join(piece.data for piece in pieces) == await sent_by_llm(chain, path, ASKED)
    await ask(chain, CHAT, "z" * (10 << 20))
    await chain.stack.start_sidecar()
    await recalls_again(chain)
    assert len(await chain.memories()) == 1


@pytest.mark.parametrize("path", APIS)
async def test_killed_in_the_middle_of_an_answer(chain: Installation, path: str) -> None:
    """The client's stream goes on: the same bytes at the same pace, and a regular end.

    On a busy machine two pieces may arrive in one read.
    """
    async with streaming(chain, path, "Hello?", **LONG) as pieces:
        seen = await first(pieces, 4)
        await kill(chain)
        seen += [piece async for piece in pieces]
    assert b"".join(piece.data for piece in seen) == await sent_by_llm(chain, path, "Hello?", **LONG)
    assert max(gaps(seen)) < DELAY_SECONDS + STALL_SECONDS


async def test_killed_while_many_streams_run(chain: Installation) -> None:
    paths = APIS * 20
    chain.llm.requests.clear()
    reading = [asyncio.create_task(streamed(chain, path, "Hello?", **LONG)) for path in paths]
    await under_way(chain, len(paths) // 2)
    await kill(chain)
    answers = await asyncio.gather(*reading)
    sent = {path: await sent_by_llm(chain, path, "Hello?", **LONG) for path in APIS}
    assert [b"".join(piece.data for piece in answer) for answer in answers] == [sent[path] for path in paths]


# -- hanging -----------------------------------------------------------------------------------------------------------


async def test_a_sidecar_that_hangs_costs_a_request_one_message_timeout(chain: Installation) -> None:
    await remembering(chain)
    async with hanging(chain):
        for path in APIS:
            await promptly(partial(ask, chain, path, ASKED), within=MESSAGE_TIMEOUT_SECONDS + SLACK_SECONDS)
        long = partial(ask, chain, CHAT, "z" * (10 << 20))
        await promptly(long, within=MESSAGE_TIMEOUT_SECONDS + 3 * SLACK_SECONDS)
    await recalls_again(chain)


async def test_the_longest_bodies_pass_a_hanging_sidecar(two_filter: Installation) -> None:
    """Copies that nobody reads pile up in Envoy; they hold back neither the request nor the answer."""
    await two_filter.stack.sidecar.stop()
    await two_filter.stack.start_sidecar()  # a connection whose window has not grown yet
    megabytes, choices = 60, 6_000
    body = asking(CHAT, "Hello?", n=choices, padding="z" * (megabytes << 20))
    async with two_filter.http(headers=behaving({"text": "word " * 1_000})) as http, hanging(two_filter):
        began = time.monotonic()
        answer = (await http.post(CHAT, content=body)).raise_for_status()
        # What is held back is held back until the client gives up, after thirty seconds.
        assert time.monotonic() - began < 25
    assert two_filter.llm.last.body == body
    assert answer.content.count(b'"finish_reason"') == choices


# -- its own parts -----------------------------------------------------------------------------------------------------


async def test_milvus_lite_is_started_again_when_it_dies(two_filter: Installation) -> None:
    """It is a process of its own; whoever kills it costs nobody a request, and nothing remembered."""
    await remembering(two_filter)
    for child in children(two_filter.stack.sidecar.pid):
        os.kill(child, signal.SIGKILL)
    for path in APIS:
        await told(two_filter, path, ASKED)
    await recalls_again(two_filter)

    async def listed() -> bool:
        # Recall may do without the store: an active user's memories are at hand. This is the store's own answer.
        async with two_filter.http() as http:
            answer = await http.get("/v1/memory")
        return answer.status_code == httpx.codes.OK and len(answer.json()["data"]) == 1

    await eventually(listed, "the store did not come back")
    await recalls_again(two_filter)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    processes = [int(child) for children in found for child in children.read_text(encoding="ascii").split()]
    assert processes, "no child process"
    return processes
