"""A real Milvus server that is not there yet, hangs, dies and comes back, behind the real Envoy."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.milvus_server import MilvusServer

from .client import APIS, CHAT, ask, streamed, told
from .conftest import ALICE, BOB, Installation, eventually, installed
from .sidecar_log import logged

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the trip?"
DEADLINE_SECONDS = 0.05
"""What recall gives itself by default."""
SLACK_SECONDS = 0.7
BACK_SECONDS = 90


@pytest.fixture(scope="module")
def server(new_milvus_server: Callable[[], MilvusServer]) -> Iterator[MilvusServer]:
    """Not started yet: the tests start, pause and kill it."""
    server = new_milvus_server()
    yield server
    server.discard()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on(
    tmp_path_factory: pytest.TempPathFactory, model_directory: Path, server: MilvusServer
) -> AsyncIterator[Installation]:
    """Its sidecar was started while the server was not there."""
    milvus = {"address": f"127.0.0.1:{server.port}", "reconnect_seconds": 0.3}
    retain = {"tick_seconds": 0.2, "retry_seconds": 0.2, "retry_max_seconds": 1}
    config = {"memory": {"milvus": milvus, "retain": retain}, "telemetry": {"log_level": "DEBUG"}}
    async with installed(tmp_path_factory.mktemp("milvus"), model_directory, sidecar_config=config) as installation:
        yield installation
        assert await installation.metric("semrouter_memory_exchanges_failed_total") == 0
        assert await installation.metric("semrouter_memory_work_failures_total") == 0


async def recalls(on: Installation) -> None:
    """The store is there, not only what is at hand without it; and recall finds what it holds."""

    async def known() -> bool:
        async with on.http() as http:
            if (await http.get("/v1/memory")).status_code != httpx.codes.OK:
                return False
        return "$10,000" in await told(on, CHAT, ASKED)

    await eventually(known, "memory did not come back", seconds=BACK_SECONDS)


async def pass_without_memory(on: Installation, *, key: str) -> None:
    """Every kind of request, with the body that was sent, within recall's deadline and a little."""
    for path in APIS:
        began = time.monotonic()
        await ask(on, path, ASKED, key=key)
        await streamed(on, path, ASKED, key=key)
        assert time.monotonic() - began < 2 * (DEADLINE_SECONDS + SLACK_SECONDS)


async def the_active_user_is_answered_and_others_pass(on: Installation) -> None:
    """Alice's memories are at hand in the process; Bob was never there while the server was."""

    async def answered(path: str) -> bool:
        began = time.monotonic()
        answer = await told(on, path, ASKED)
        assert time.monotonic() - began < DEADLINE_SECONDS + SLACK_SECONDS
        return "$10,000" in answer

    for path in APIS:
        await eventually(partial(answered, path), "the active user was not answered", seconds=5)
    await pass_without_memory(on, key=BOB)


async def test_a_server_that_starts_later_is_found(on: Installation, server: MilvusServer) -> None:
    """Until then requests pass, and what was said meanwhile is remembered without a restart of anything."""
    assert logged(on, "error", "Milvus unavailable, memory disabled") == 1
    await ask(on, CHAT, TOLD)
    await pass_without_memory(on, key=ALICE)
    async with on.http() as http:
        assert (await http.get("/v1/memory")).status_code == 503
    await asyncio.to_thread(server.start)
    await recalls(on)
    assert len(await on.memories()) == 1
    assert logged(on, "info", "Milvus available, memory enabled") == 1


async def test_a_server_that_hangs_costs_a_request_its_deadline(on: Installation, server: MilvusServer) -> None:
    await working(on, server)
    server.pause()
    try:
        await the_active_user_is_answered_and_others_pass(on)
        assert logged(on, "warning", "Memory search timeout, skipping") >= 1
        await eventually(lambda: given_up(on), "the store was not given up")
        await the_active_user_is_answered_and_others_pass(on)
        await ask(on, CHAT, "I live in Bergen")
    finally:
        server.resume()
    await recalls(on)
    await on.remembers("Bergen")


async def test_a_server_that_is_killed_and_started_again_is_found(on: Installation, server: MilvusServer) -> None:
    await working(on, server)
    server.kill()
    await the_active_user_is_answered_and_others_pass(on)
    await eventually(lambda: given_up(on), "the store was not given up")
    await ask(on, CHAT, "I work as a zookeeper")
    await the_active_user_is_answered_and_others_pass(on)
    await asyncio.to_thread(server.start)
    await recalls(on)
    await on.remembers("zookeeper")


async def working(on: Installation, server: MilvusServer) -> None:
    """The server runs and knows the budget, whatever the tests before did."""
    with socket.socket() as probe:
        is_up = probe.connect_ex(("127.0.0.1", server.port)) == 0
    if not is_up:
        await asyncio.to_thread(server.start)
    await told(on, CHAT, TOLD)
    await recalls(on)


async def given_up(on: Installation) -> bool:
    return await on.metric("semrouter_memory_store_available") == 0
