"""Replicas share what they know: whichever of them dies, nothing accepted is lost, and nothing is done twice."""

import asyncio
import random
import signal
import statistics
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from pymilvus import MilvusClient
from redis import Redis

from tests.milvus_server import MilvusServer
from tests.promptly import promptly
from tests.redis_server import RedisServer

from .client import CHAT, RESPONSES
from .conftest import eventually
from .extraction_llm import ExtractionLlm, extracting
from .replicas import LEASE_SECONDS, REDIS_TIMEOUT_SECONDS, SETTLED_SECONDS, Pair, key_of, on_redis, pair, settings
from .talk import PLACES, Talks, killed_at_random, nothing_lost_nothing_twice, restarted, say, told

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the Hawaii trip?"
SLOW_SECONDS = 0.8 * REDIS_TIMEOUT_SECONDS
"""What waits for Redis takes its timeout at least; a busy machine is late by less."""
KILLS = 2
"""Of either kind of log; the fault suite kills more often."""
USERS = [f"user-{number}" for number in range(20)]


@pytest.fixture(scope="module")
def module_redis(new_redis_server: Callable[[], RedisServer]) -> Iterator[RedisServer]:
    server = new_redis_server()
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis(module_redis: RedisServer) -> Iterator[RedisServer]:
    """A running server, which a test may stop, kill and start."""
    yield module_redis
    module_redis.restart()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(
    tmp_path_factory: pytest.TempPathFactory,
    model_directory: Path,
    milvus_server: MilvusServer,
    module_redis: RedisServer,
) -> AsyncIterator[Pair]:
    config = settings(milvus_server, **on_redis(module_redis))
    async with pair(tmp_path_factory.mktemp("replicas"), model_directory, users=USERS, config=config) as replicas:
        yield replicas


@pytest_asyncio.fixture(loop_scope="session")
async def on(running: Pair) -> Pair:
    """Both on one Redis and one Milvus server."""
    await running.all_running()
    return running


async def test_killed_at_random_nothing_is_lost_or_twice(on: Pair) -> None:
    await talk_and_kill(on, USERS[:3], seed=3)


async def talk_and_kill(on: Pair, users: Sequence[str], *, seed: int) -> None:
    draw = random.Random(seed)
    talks = Talks(on, users, draw)
    async with asyncio.TaskGroup() as group:
        group.create_task(talks.go_on())
        killing = group.create_task(killed_at_random(on, KILLS, draw))
        await killing
        talks.stopping.set()
    await on.settled()
    await nothing_lost_nothing_twice(talks, killing.result())


async def test_a_redis_that_dies_or_hangs_costs_no_turn_no_request_and_no_recall(on: Pair, redis: RedisServer) -> None:
    """One replica is started anew while it is dead."""
    teller, *users = USERS[3:6]
    await say(on, 0, teller, TOLD)
    await all_recall(on, teller)
    talks, during = (Talks(on, [user], random.Random(7), pause_seconds=0.5) for user in users)
    async with asyncio.TaskGroup() as group:
        group.create_task(talks.go_on())
        await asyncio.sleep(1)
        redis.kill()
        await all_recall(on, teller)
        outages = [await restarted(on, 0)]
        await all_recall(on, teller)
        await asyncio.to_thread(redis.start)
        await asyncio.sleep(1)
        redis.pause()
        group.create_task(during.go_on())
        await asyncio.sleep(1.5)
        await all_recall(on, teller)
        await asyncio.sleep(1)
        meanwhile = [said.seconds for said in during.said]
        redis.resume()
        await asyncio.sleep(1)
        talks.stopping.set()
        during.stopping.set()
    await on.settled()
    await nothing_lost_nothing_twice(talks, outages)
    await nothing_lost_nothing_twice(during, [])
    # One may be late because the machine is busy; were Redis waited for, nearly all would be.
    assert statistics.median(meanwhile) < SLOW_SECONDS / 2


async def all_recall(on: Pair, user: str) -> None:
    """Both give the budget to the model, and no request waits for anything."""

    async def recalled(number: int) -> bool:
        return "$10,000" in await promptly(lambda: say(on, number, user, ASKED), within=SLOW_SECONDS)

    for number in range(2):
        await eventually(partial(recalled, number), "not recalled")


async def test_a_replica_that_dies_for_good_leaves_its_sessions_to_the_other(
    tmp_path: Path, model_directory: Path, milvus_server: MilvusServer, redis: RedisServer
) -> None:
    """It had claimed them, and waited for the model."""
    llm = ExtractionLlm()
    llm.hangs = True
    config = extracting(llm, timeout_seconds=30, quotes=False, lease_seconds=LEASE_SECONDS)
    shared = settings(milvus_server, **on_redis(redis, prefix="dying"))["memory"]
    config["memory"] = {**config["memory"], **shared, "retain": config["memory"]["retain"]}
    user = USERS[6]
    async with llm.listening(), pair(tmp_path, model_directory, users=[user], config=config) as on:
        other = on.replicas[1].stack.sidecar
        other.send(signal.SIGSTOP)  # or it claims one of them at once
        for session in ("one", "two"):
            await say(on, 0, user, TOLD, **{"x-session-id": session})

        async def asked() -> bool:
            return len(llm.asked) == 2

        await eventually(asked, "the model was not asked")
        await on.kill(0)
        other.send(signal.SIGCONT)
        llm.works("User's budget for the Hawaii trip is $10,000")

        async def read() -> bool:
            return (await on.totals(1))["waiting"] == 0

        assert (await on.totals(1))["waiting"] == 2
        await eventually(read, "nobody took the sessions over", seconds=SETTLED_SECONDS)
        assert (await on.totals(1))["extracted"] == 2
        assert len(await on.memories(user, number=1)) == 1


async def test_what_a_spool_holds_is_shipped_when_its_replica_starts_again(on: Pair, redis: RedisServer) -> None:
    """Redis was away when it was said, and again when the replica was killed."""
    user = USERS[7]
    before = on.accepted_here()
    redis.kill()
    for place in PLACES[:5]:
        await say(on, 0, user, told(place))

    async def accepted() -> bool:
        return on.accepted_here() == before + 5

    await eventually(accepted, "not all turns were accepted")
    await on.kill(0)
    await asyncio.to_thread(redis.start)
    await say(on, 1, user, "Remember that my marker is set")
    await on.remembers(user, "marker", number=1)
    assert [turn["user_text"] for turn in await on.turns(user)] == ["Remember that my marker is set"]
    await on.start(0)
    await on.settled()
    contents = [memory["content"] for memory in await on.memories(user)]
    assert sorted(word for word in PLACES[:5] for content in contents if word in content) == sorted(PLACES[:5])
    assert len(contents) == 6


async def test_the_same_fact_in_two_sessions_at_once_is_one_memory(on: Pair) -> None:
    user = USERS[8]
    for place in PLACES[:6]:
        sayings = [say(on, number, user, told(place), **{"x-session-id": f"session-{number}"}) for number in range(2)]
        await asyncio.gather(*sayings)
    await on.settled()
    contents = [memory["content"] for memory in await on.memories(user, include="history")]
    assert len(contents) == len(set(contents)) == 6
    assert len(await on.turns(user)) == 12


async def test_values_that_change_from_session_to_session_are_all_in_the_history(on: Pair) -> None:
    """The last one holds, and none that was said before it is lost, in whatever order they are learned from."""
    user = USERS[9]
    values = [f"${number},000" for number in range(10, 18)]
    for number, value in enumerate(values):
        text = f"My budget for the Hawaii trip is {value}"
        await say(on, number % 2, user, text, **{"x-session-id": f"session-{number % 2}"})
    await on.settled()
    (current,) = await on.memories(user)
    assert values[-1] in current["content"]
    async with on.replicas[1].http(key_of(user)) as http:
        chain = (await http.get(f"/v1/memory/{current['id']}/history")).raise_for_status().json()["data"]
    assert [memory["content"].rsplit(" ", 1)[-1] for memory in chain] == values


async def test_a_deletion_through_one_replica_holds_at_the_other(
    on: Pair, redis: RedisServer, milvus_server: MilvusServer
) -> None:
    """Also of what is in the other's spool, and at once."""
    user, secret = USERS[10], "Quuxburg"
    question = "How many desks does my office have?"
    told_there = f"My garden in {secret} has 7 trees"

    async def recalled(number: int) -> bool:
        return secret in await say(on, number, user, question)

    for number in range(2):
        await say(on, number, user, f"My office in {secret} has 42 desks", **{"x-session-id": f"{secret}-{number}"})
        await on.remembers(user, secret, number=number)
        await eventually(partial(recalled, number), "not recalled")
    # The second one says it again, and this server has no row for a moment while it is written anew.
    await on.settled()
    redis.pause()
    before = on.accepted_here()
    await say(on, 1, user, told_there)

    async def accepted() -> bool:
        return on.accepted_here() > before

    await eventually(accepted, "not accepted")
    on.replicas[1].stack.sidecar.send(signal.SIGSTOP)
    try:
        redis.resume()
        assert values_with(redis, secret)
        assert rows_with(milvus_server, on, secret)
        await deleted(on, 0, user)
        assert [values_with(redis, words) for words in (secret, user)] == [[], []]
        assert rows_with(milvus_server, on, user) == []
    finally:
        on.replicas[1].stack.sidecar.send(signal.SIGCONT)
    assert not await recalled(1)
    assert await on.memories(user, number=1, include="history") == []
    await on.settled()
    assert not await recalled(0)
    assert await on.memories(user, number=0, include="history") == []
    assert values_with(redis, secret) == []
    assert rows_with(milvus_server, on, secret) == []
    await on.compact()
    assert [files_with(directory, secret) for directory in on.directories] == [[], []]

    async def rewritten() -> bool:
        return not files_with(redis.directory, secret)

    await eventually(rewritten, "Redis did not rewrite its file")


async def test_what_was_said_right_before_a_deletion_elsewhere_stays_away(on: Pair) -> None:
    """Wherever it is on its way: from the other's spool to the log, from the log to the store."""
    user = USERS[11]
    for pause in (0, 0.01, 0.03, 0.1, 0.3):
        await say(on, 1, user, TOLD)
        await asyncio.sleep(pause)
        await deleted(on, 0, user)
        assert "$10,000" not in await say(on, 1, user, ASKED)
    await say(on, 1, user, "Remember that my marker is set")
    await on.remembers(user, "marker")
    await on.settled()
    assert [memory["content"] for memory in await on.memories(user, include="history")] == [
        "Remember that my marker is set"
    ]


async def deleted(on: Pair, number: int, user: str) -> None:
    async with on.replicas[number].http(key_of(user)) as http:

        async def done() -> bool:
            answer = await http.delete("/v1/memory", params={"user_id": user})
            return answer.status_code == httpx.codes.OK

        await eventually(done, "not deleted")


async def test_a_conversation_that_goes_on_at_the_other_is_one_session(on: Pair) -> None:
    """By its own transcript, by the response it goes on from, and by what its client calls it.

    A turn is forwarded to the shared log some milliseconds after its answer, and users take longer to go on.
    """
    user = USERS[12]

    async def forwarded(count: int) -> None:
        async def all_of_them() -> bool:
            return len(await on.turns(user)) == count

        await eventually(all_of_them, f"turn {count} did not reach the shared log")

    messages = []
    for number, place in enumerate(PLACES[:4]):
        messages.append({"role": "user", "content": told(place)})
        async with on.replicas[number % 2].http(key_of(user)) as http:
            answer = await http.post(CHAT, json={"model": "m", "messages": messages})
        messages.append(answer.raise_for_status().json()["choices"][0]["message"])
        await forwarded(1 + number)
    before: dict[str, str] = {}
    for number, place in enumerate(PLACES[4:8]):
        async with on.replicas[number % 2].http(key_of(user)) as http:
            answer = await http.post(RESPONSES, json={"model": "m", "input": told(place), **before})
        before = {"previous_response_id": answer.raise_for_status().json()["id"]}
        await forwarded(5 + number)
    for number, place in enumerate(PLACES[8:12]):
        await say(on, number % 2, user, told(place), **{"x-session-id": "named"})
    await on.settled()
    turns = await on.turns(user)
    ways = [[told(place) for place in PLACES[start : start + 4]] for start in (0, 4, 8)]
    sessions = [{turn["session_id"] for turn in turns if turn["user_text"] in texts} for texts in ways]
    assert len(turns) == 12
    assert [len(ids) for ids in sessions] == [1, 1, 1]
    assert len(set.union(*sessions)) == 3


def values_with(redis: RedisServer, words: str) -> list[str]:
    """The names of what Redis holds these words in."""
    with Redis.from_url(redis.url) as client:
        return [key.decode() for key in client.scan_iter() if words.encode() in repr(_value(client, key)).encode()]


def _value(client: Redis, key: bytes) -> Any:
    match client.type(key):
        case b"string":
            return client.get(key)
        case b"hash":
            return client.hgetall(key)
        case b"set":
            return client.smembers(key)
        case b"zset":
            return client.zrange(key, 0, -1)
        case b"stream":
            return client.xrange(key)
        case kind:
            raise AssertionError(kind)


def rows_with(server: MilvusServer, on: Pair, words: str) -> list[Any]:
    """The rows of the collection that hold these words."""
    client = MilvusClient(server.uri)
    try:
        rows = client.query(
            on.collection, filter='id != ""', output_fields=["*"], limit=1000, consistency_level="Strong"
        )
    finally:
        client.close()
    return [row["id"] for row in rows if words in repr(row)]


def files_with(directory: Path, words: str) -> list[Path]:
    """The files below a directory that hold these words."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in files if words.encode() in path.read_bytes()]
