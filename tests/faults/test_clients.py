"""Many clients, slow ones, and such that go away: each gets what it should, and nothing of them stays."""

import asyncio
import gc
import resource
import socket
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from semrouter_memory.stack.loopback import LOOPBACK
from tests.envoy.client import APIS, CHAT, answers_held_back
from tests.envoy.conftest import Installation, all_streams_ended, envoy_count, eventually, installed

from .conftest import Figures, sized
from .parts import (
    CLOSED_LATE_SECONDS,
    InProcess,
    closing_late_but_soon,
    installed_with,
    open_files,
    percentile,
    read,
    request,
    rss_mib,
    tell,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(sized(180, 600))]

STREAMS = sized(200, 1_500)
WORDS = sized(8, 30)
WORD_MS = sized(100, 500)
GONE = sized(40, 400)
SLOW = sized(5, 50)
SLOW_SECONDS = sized(4, 30)
ROUNDS = 3
SLACK_SECONDS = 20
"""The shipped chain keeps the observer's streams for a minute."""
_FILES_OF_A_STREAM = 4
"""Client, Envoy's two sides of it and the LLM's, were they all in one process; some of them are."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, max(soft, _FILES_OF_A_STREAM * STREAMS + 1_000))
    # Children take it over.
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    async with installed(tmp_path_factory.mktemp("clients"), model_directory, shipped_timeouts=True) as installation:
        yield installation
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def asked(number: int) -> bytes:
    text = " ".join(["word"] * WORDS)
    return request(APIS[number % 2], f"Question {number}", text=text, delay_ms=WORD_MS, response_id=f"id-{number}.")


async def test_many_streams_at_a_time(on: Installation, figures: Figures) -> None:
    """Each gets its own answer, whole; each is accepted; the memory that they took is given back or used again."""
    await tell(on, "Hello?")
    turns, before = await on.turns(), rss_mib(on.stack.sidecar.pid)
    peak = before

    async def all_at_once() -> bool:
        return await envoy_count(on, "http.llm.downstream_rq_active") == STREAMS

    async with asyncio.TaskGroup() as group:
        async with answers_held_back(on):
            reading = [group.create_task(read(on, asked(number))) for number in range(STREAMS)]
            await eventually(all_at_once, "not all streams are open")
        while not all(task.done() for task in reading):
            peak = max(peak, rss_mib(on.stack.sidecar.pid))
            await asyncio.sleep(0.3)
    answers = [task.result() for task in reading]
    whole = [
        answer.data.startswith(b"HTTP/1.1 200")
        and f"id-{number}.".encode() in answer.data
        and (b"[DONE]" if number % 2 == 0 else b"response.completed") in answer.data
        and answer.data.endswith(b"0\r\n\r\n")
        for number, answer in enumerate(answers)
    ]
    await all_streams_ended(on)

    async def accepted() -> bool:
        return await on.turns() - turns == STREAMS

    await eventually(accepted, "not every stream was a turn")
    firsts = [answer.first * 1000 for answer in answers]
    figures(
        streams=STREAMS,
        whole=sum(whole),
        turns=await on.turns() - turns,
        without_memory_for_lateness=await envoy_count(on, "http.llm.ext_proc.failure_mode_allowed"),
        first_word_ms_p50=statistics.median(firsts),
        first_word_ms_p99=percentile(firsts, 0.99),
        rss_mib_before=before,
        rss_mib_at_most=peak,
        rss_mib_after=rss_mib(on.stack.sidecar.pid),
    )
    assert all(whole)
    assert peak - before < 64 + 0.25 * STREAMS


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def closing(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    """Where Envoy soon ends what it keeps of a client that went away."""
    directory = tmp_path_factory.mktemp("closing")
    async with installed(directory, model_directory, edit_envoy=closing_late_but_soon) as installation:
        yield installation


async def test_slow_clients_hold_up_nobody(closing: Installation, figures: Figures) -> None:
    """They read a byte a second of an answer that is more than all buffers hold; others are served as ever."""
    on = closing
    before = rss_mib(on.stack.sidecar.pid)
    slow = [await slow_client(on, number) for number in range(SLOW)]
    times, began = [], time.monotonic()
    try:
        while time.monotonic() - began < SLOW_SECONDS:
            started = time.monotonic()
            await tell(on, "How are you?")
            times.append(time.monotonic() - started)
            for client in slow:
                assert await asyncio.get_running_loop().sock_recv(client, 1)
            await asyncio.sleep(max(0.0, 1 - (time.monotonic() - started)))
        peak = rss_mib(on.stack.sidecar.pid)
    finally:
        for client in slow:
            client.close()
    ended = await all_streams_ended(on)
    figures(
        slow_clients=SLOW,
        seconds=SLOW_SECONDS,
        others_s_p50=statistics.median(times),
        others_s_at_most=max(times),
        rss_mib_before=before,
        rss_mib_meanwhile=peak,
        streams_ended_after_s=ended,
    )
    assert statistics.median(times) < 1
    assert peak - before < 64 + 4 * SLOW


async def slow_client(on: Installation, number: int) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (LOOPBACK, on.stack.port))
    await loop.sock_sendall(client, request(CHAT, f"Tell me all {number}", text="word " * 20_000))
    return client


async def test_clients_that_go_away_leave_nothing_behind(closing: Installation, figures: Figures) -> None:
    """In the middle of their request, while they wait, and in the middle of the answer. Nothing is learned of it."""
    on, rss, files, ends = closing, [], [], []
    await on.forget_everything()
    failed = await on.metric("semrouter_memory_exchanges_failed_total")
    for _ in range(ROUNDS):
        await asyncio.gather(*(goes_away(on, number) for number in range(GONE)))
        ends.append(await all_streams_ended(on, seconds=2 * SLACK_SECONDS))
        rss.append(rss_mib(on.stack.sidecar.pid))
        # Envoy opens another connection where eight streams are on each it has, and keeps it.
        connections = await envoy_count(on, "cluster.memory_sidecar.upstream_cx_active")
        files.append(open_files(on.stack.sidecar.pid) - connections)
    figures(
        clients=ROUNDS * GONE,
        streams_ended_after_s=max(ends),
        rss_mib=" ".join(f"{value:.0f}" for value in rss),
        open_files_without_envoys_connections=" ".join(map(str, files)),
    )
    await tell(on, "I live in Bergen")
    await on.remembers("Bergen")
    assert await on.memories() == ["I live in Bergen"]
    assert max(ends) < CLOSED_LATE_SECONDS + SLACK_SECONDS
    assert max(files[1:]) <= files[0] + 2
    assert rss[-1] - rss[0] < 16
    assert await on.metric("semrouter_memory_exchanges_failed_total") == failed


async def goes_away(on: Installation, number: int) -> None:
    reader, writer = await asyncio.open_connection(LOOPBACK, on.stack.port)
    mid_request = number % 3 == 0
    text = f"My dog number {number} is called Rex"
    # An answer of a minute and a half: on no machine it comes to its end before its client is gone.
    how: dict[str, Any] = {"text": "one word after the other " * 20, "delay_ms": 1_000}
    writer.write(request(APIS[number % 2], text, length=1_000_000 if mid_request else 0, **how))
    await writer.drain()
    if number % 3 == 1:
        await reader.readuntil(b"data:")
    else:
        await asyncio.sleep(0.05)
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_of_clients_that_go_away_no_task_stays(tmp_path: Path, model_directory: Path, figures: Figures) -> None:
    """The sidecar's own account: its tasks, with the sidecar in this process."""
    async with installed_with(tmp_path, model_directory, InProcess, edit_envoy=closing_late_but_soon) as on:
        await tell(on, "How are you?")
        await all_streams_ended(on)
        before = len(asyncio.all_tasks())
        await asyncio.gather(*(goes_away(on, number) for number in range(GONE)))
        await all_streams_ended(on)

        async def gone() -> bool:
            gc.collect()
            return len(asyncio.all_tasks()) <= before

        await eventually(gone, f"tasks stay: {before} before, now {len(asyncio.all_tasks())}")
        figures(clients=GONE, tasks_before=before, tasks_after=len(asyncio.all_tasks()))
