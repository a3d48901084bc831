"""A Milvus server and a Redis server that are not there, hang, die and come back, while users talk through the real Envoy.

Nothing of ours is started again: requests pass, queues stay short, and all that was said is remembered once in the end.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.envoy.client import APIS, CHAT, ask, streamed, told
from tests.envoy.conftest import ALICE, BOB, Installation, eventually
from tests.envoy.replicas import Pair, on_redis, pair
from tests.envoy.sidecar_log import logged
from tests.envoy.talk import Talks, nothing_lost_nothing_twice
from tests.milvus_server import MilvusServer
from tests.promptly import promptly
from tests.redis_server import RedisServer

from .conftest import Figures, sized
from .parts import rss_mib, waited

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(sized(300, 900))]

TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the trip?"
DEADLINE_SECONDS = 1.0
"""Recall's, which a busy machine keeps."""
RECALL = {"deadline_ms": 1000 * DEADLINE_SECONDS}
SLACK_SECONDS = 3.0
"""Below the five seconds that a call of the store may take; the machine is busy with all of this."""
BACK_SECONDS = 90
GIVEN_UP_SECONDS = 6
"""Three searches that were not answered, and a probe, take two; a call of the store ten."""
ROUNDS = sized(1, 4)
HANGING_SECONDS = sized(2, 20)
"""Redis; a Milvus server hangs at least until it is given up."""
TALKERS = [f"talker-{number}" for number in range(sized(2, 8))]
PAUSE_SECONDS = sized(0.8, 5.0)
WORKERS = 2
"""Sessions that are to run once more have their place already."""
MAX_QUEUE = 12
"""Fewer than there are sessions; the others wait in the log."""
RETAIN = {
    "max_queue": MAX_QUEUE,
    "workers": WORKERS,
    "tick_seconds": 0.2,
    "retry_seconds": 0.2,
    "retry_max_seconds": 1,
    "lease_seconds": 3,
}


@dataclass
class Load:
    """Users that talk meanwhile, and what the sidecar came to at most."""

    on: Pair
    talks: Talks
    depth: float = 0.0
    rss: list[float] = field(default_factory=list)
    recovered_s: list[float] = field(default_factory=list)

    async def watch(self) -> None:
        sidecar = self.on.replicas[0]
        while not self.talks.stopping.is_set():
            self.rss.append(rss_mib(sidecar.stack.sidecar.pid))
            with suppress(httpx.HTTPError):
                self.depth = max(self.depth, await sidecar.metric("semrouter_memory_queue_depth"))
            await asyncio.sleep(0.5)


@asynccontextmanager
async def load(on: Pair, figures: Figures) -> AsyncIterator[Load]:
    """Talks while the test does what it does; then all of it must be over, and nothing lost or twice."""
    under = Load(on, Talks(on, TALKERS, random.Random(13), pause_seconds=PAUSE_SECONDS))
    async with asyncio.TaskGroup() as group:
        group.create_task(under.talks.go_on())
        group.create_task(under.watch())
        try:
            yield under
        finally:
            under.talks.stopping.set()
    totals = await on.settled()
    await nothing_lost_nothing_twice(under.talks, ())
    contents = [(user, each["content"]) for user in TALKERS for each in await on.memories(user, include="history")]
    sidecar = on.replicas[0]
    figures(
        requests=len(under.talks.said),
        failed=0,
        slowest_request_s=max(said.seconds for said in under.talks.said),
        turns_accepted=totals["accepted"],
        dead_letters=totals["dead_lettered"],
        memories_of_talkers=len(contents),
        duplicates=len(contents) - len(set(contents)),
        back_after_s=max(under.recovered_s),
        queue_depth_at_most=under.depth,
        rss_mib_before=under.rss[0],
        rss_mib_at_most=max(under.rss),
    )
    assert len(contents) == len(set(contents)) == len(under.talks.said)
    # Sessions that wait to be tried again wait in the log; they are counted, each once.
    assert under.depth <= len(under.talks.said)
    assert max(under.rss) - under.rss[0] < 96
    for metric in ("exchanges_failed", "work_failures", "turns_dropped"):
        assert await sidecar.metric(f"semrouter_memory_{metric}_total") == 0, metric


# -- Milvus ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def milvus(new_milvus_server: Callable[[], MilvusServer]) -> Iterator[MilvusServer]:
    """Not the shared one, and not started yet: the test starts, pauses and kills it."""
    server = new_milvus_server()
    yield server
    server.discard()


@pytest_asyncio.fixture(loop_scope="session")
async def beside_milvus(tmp_path: Path, model_directory: Path, milvus: MilvusServer) -> AsyncIterator[Pair]:
    """Its sidecar was started while the server was not there."""
    place = {"address": f"127.0.0.1:{milvus.port}", "reconnect_seconds": 0.3}
    config = {"memory": {"milvus": place, "retain": RETAIN, "recall": RECALL}, "telemetry": {"log_level": "DEBUG"}}
    async with pair(tmp_path, model_directory, users=TALKERS, config=config, count=1) as one:
        yield one


async def test_milvus_starts_late_hangs_and_is_killed(
    beside_milvus: Pair, milvus: MilvusServer, figures: Figures
) -> None:
    (on,) = beside_milvus.replicas
    assert logged(on, "error", "Milvus unavailable, memory disabled") == 1
    await ask(on, CHAT, TOLD)
    await pass_without_memory(on, key=ALICE)
    async with on.http() as http:
        assert (await http.get("/v1/memory")).status_code == 503
    await asyncio.to_thread(milvus.start)
    await recalls(on)
    assert len(await on.memories()) == 1
    assert logged(on, "info", "Milvus available, memory enabled") == 1
    async with load(beside_milvus, figures) as under:
        for number in range(ROUNDS):
            under.recovered_s.append(await hangs(on, milvus, f"I live in number {number}0 Harbour Street"))
            under.recovered_s.append(await dies(on, milvus, f"My locker at work is number {number}7"))
    figures(hangs=ROUNDS, kills=ROUNDS)


async def hangs(on: Installation, server: MilvusServer, meanwhile: str) -> float:
    """Returns after how many seconds memory was back."""
    server.pause()
    try:
        await the_active_user_is_answered_and_others_pass(on)
        assert logged(on, "warning", "Memory search timeout, skipping") >= 1
        await eventually(partial(given_up, on), "the store was not given up", seconds=GIVEN_UP_SECONDS)
        await the_active_user_is_answered_and_others_pass(on)
        await say(on, meanwhile)
    finally:
        server.resume()
    return await back(on, meanwhile)


async def dies(on: Installation, server: MilvusServer, meanwhile: str) -> float:
    """Same as `hangs`, counted from when the server serves again."""
    server.kill()
    await the_active_user_is_answered_and_others_pass(on)
    await eventually(partial(given_up, on), "the store was not given up")
    await say(on, meanwhile)
    await the_active_user_is_answered_and_others_pass(on)
    await asyncio.to_thread(server.start)
    return await back(on, meanwhile)


async def say(on: Installation, text: str) -> None:
    await told(on, CHAT, text)


async def back(on: Installation, meanwhile: str) -> float:
    began = time.monotonic()
    await recalls(on)
    took = time.monotonic() - began
    number = next(word for word in meanwhile.split() if word.isdecimal())

    async def remembered() -> bool:
        with suppress(httpx.HTTPStatusError):
            return any(number in content for content in await on.memories())
        return False

    await eventually(remembered, f"not remembered: {meanwhile}", seconds=BACK_SECONDS)
    return took


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
        await promptly(partial(passes, on, path, key=key), within=2 * (DEADLINE_SECONDS + SLACK_SECONDS))


async def passes(on: Installation, path: str, *, key: str) -> None:
    """The bodies are looked for among all, since others talk meanwhile."""
    await told(on, path, ASKED, key=key)
    await streamed(on, path, ASKED, key=key)


async def the_active_user_is_answered_and_others_pass(on: Installation) -> None:
    """Alice's memories are at hand in the process; Bob was never there while the server was."""

    async def answered(path: str) -> bool:
        answer = await promptly(partial(told, on, path, ASKED), within=DEADLINE_SECONDS + SLACK_SECONDS)
        return "$10,000" in answer

    for path in APIS:
        await eventually(partial(answered, path), "the active user was not answered")
    await pass_without_memory(on, key=BOB)


async def given_up(on: Installation) -> bool:
    return await on.metric("semrouter_memory_store_available") == 0


# -- Redis -------------------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="session")
async def beside_redis(tmp_path: Path, model_directory: Path, own_redis_server: RedisServer) -> AsyncIterator[Pair]:
    config = {"memory": {"retain": RETAIN, "recall": RECALL, **on_redis(own_redis_server)}}
    async with pair(tmp_path, model_directory, users=TALKERS, config=config, count=1) as one:
        yield one


async def test_redis_is_killed_and_hangs(beside_redis: Pair, own_redis_server: RedisServer, figures: Figures) -> None:
    (on,) = beside_redis.replicas
    await told(on, CHAT, TOLD)
    await on.remembers("$10,000")
    async with load(beside_redis, figures) as under:
        for _ in range(ROUNDS):
            own_redis_server.kill()
            await still_recalled(on)
            await waited(HANGING_SECONDS)
            await asyncio.to_thread(own_redis_server.start)
            under.recovered_s.append(await all_shipped(beside_redis))
            own_redis_server.pause()
            await still_recalled(on)
            await waited(HANGING_SECONDS)
            await still_recalled(on)
            own_redis_server.resume()
            under.recovered_s.append(await all_shipped(beside_redis))
    figures(hangs=ROUNDS, kills=ROUNDS)


async def still_recalled(on: Installation) -> None:
    async def recalled() -> bool:
        answer = await promptly(partial(told, on, CHAT, ASKED), within=DEADLINE_SECONDS + SLACK_SECONDS)
        return "$10,000" in answer

    await eventually(recalled, "not recalled")


async def all_shipped(on: Pair) -> float:
    """Wait until what was accepted by now has arrived; returns after how many seconds."""
    began, accepted = time.monotonic(), on.accepted_here()

    async def arrived() -> bool:
        with suppress(httpx.HTTPError):
            return (await on.totals(0))["accepted"] >= accepted
        return False

    await eventually(arrived, "turns stay in the spool", seconds=30)
    return time.monotonic() - began
