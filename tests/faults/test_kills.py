"""The sidecar is killed and started again, again and again, while clients talk; and it is told to stop."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.envoy.client import APIS, ask, sent_by_llm
from tests.envoy.conftest import Installation, eventually, installed
from tests.envoy.replicas import Pair, pair
from tests.envoy.talk import Outage, Talks, nothing_lost_nothing_twice, restarted

from .conftest import Figures, sized
from .parts import PATIENT, read, request, turn_totals, waited

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(sized(180, 600))]

KILLS = sized(2, 20)
USERS = [f"talker-{number}" for number in range(sized(5, 24))]
PAUSE_SECONDS = sized(0.8, 4.0)
"""Between two requests of one conversation, so that what there is to tell lasts for all kills."""
DRAINED = sized(30, 300)


@pytest_asyncio.fixture(loop_scope="session")
async def on(tmp_path: Path, model_directory: Path) -> AsyncIterator[Pair]:
    config = {"memory": {"retain": {"tick_seconds": 0.2, "lease_seconds": 3}}}
    async with pair(tmp_path, model_directory, users=USERS, config=config, count=1) as one:
        yield one


async def test_killed_while_clients_talk_and_streams_run(on: Pair, figures: Figures) -> None:
    """No request fails or is changed, what was accepted is one memory each, what was not was cut off by a kill."""
    draw = random.Random(11)
    talks = Talks(on, USERS, draw, pause_seconds=PAUSE_SECONDS, delay_ms=20)
    async with asyncio.TaskGroup() as group:
        group.create_task(talks.go_on())
        outages = [await killed(on, draw) for _ in range(KILLS)]
        await asyncio.sleep(1)
        talks.stopping.set()
    totals = await on.settled()
    await nothing_lost_nothing_twice(talks, outages)
    contents = [(user, memory["content"]) for user in USERS for memory in await on.memories(user, include="history")]
    figures(
        kills=KILLS,
        requests=len(talks.said),
        streams=sum(said.streamed for said in talks.said),
        failed=0,
        turns_accepted=totals["accepted"],
        turns_lost=totals["accepted"] - totals["extracted"],
        memories=len(contents),
        duplicates=len(contents) - len(set(contents)),
        slowest_request_s=max(said.seconds for said in talks.said),
        down_s_on_average=sum(outage.ended - outage.began for outage in outages) / KILLS,
    )
    assert totals["accepted"] == totals["extracted"] == len(contents) == len(set(contents))
    assert len(talks.said) > 3 * KILLS


async def killed(on: Pair, draw: random.Random) -> Outage:
    """After it has served for a while."""
    await asyncio.sleep(draw.uniform(0.5, 3.0))
    return await restarted(on, 0, after_seconds=draw.uniform(0, 0.5))


async def test_told_to_stop_it_lets_streams_end(tmp_path: Path, model_directory: Path, figures: Figures) -> None:
    """Their clients get everything, their turns are kept, requests that come meanwhile pass; the exit status is 0."""
    how: dict[str, Any] = {"text": "a word and " * sized(2, 12), "delay_ms": 300, "response_id": "same"}
    paths = APIS * (DRAINED // 2)
    config = {"memory": PATIENT, "server": {"drain_seconds": 60}}
    async with installed(tmp_path, model_directory, sidecar_config=config) as on:
        whole = {path: await sent_by_llm(on, path, "", **how) for path in APIS}
        reading = [
            asyncio.create_task(read(on, request(path, f"I own {40 + n} desks", **how))) for n, path in enumerate(paths)
        ]
        # One that the sidecar has not begun with is nobody's loss; Envoy's own count runs ahead of it.
        await eventually(partial(taken_up, on, len(paths)), "not all streams began", seconds=30)
        await waited(sized(0.5, 4))
        began = time.monotonic()
        on.stack.sidecar.send(signal.SIGTERM)
        await asyncio.sleep(0.2)
        await ask(on, APIS[0], "What about zebras?")
        answers = [unchunked(answer.data) for answer in await asyncio.gather(*reading)]
        status = await on.stack.sidecar.stop()
        stopped = time.monotonic() - began
        kept = turn_totals(on)["accepted"]
    figures(streams=len(paths), whole=sum(answers[n] == whole[path] for n, path in enumerate(paths)))
    figures(exit_status=status, turns_kept=kept, stopped_after_s=stopped)
    assert answers == [whole[path] for path in paths]
    assert status == 0
    assert kept == len(paths)


async def taken_up(on: Installation, streams: int) -> bool:
    """Whether recall has decided about so many."""
    return await on.metric("semrouter_memory_recalls_total") >= streams


def unchunked(answer: bytes) -> bytes:
    """The body of an answer in chunks."""
    data, body = answer.partition(b"\r\n\r\n")[2], b""
    while size := int(data[: data.index(b"\r\n")], 16):
        start = data.index(b"\r\n") + 2
        body, data = body + data[start : start + size], data[start + size + 2 :]
    return body
