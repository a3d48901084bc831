"""What a replica has at hand is never older than what the other wrote; and it is there while Milvus is not."""

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from redis import Redis

from tests.milvus_server import MilvusServer
from tests.promptly import promptly
from tests.redis_server import RedisServer

from .client import CHAT
from .conftest import eventually
from .replicas import Pair, key_of, on_redis, pair, settings
from .talk import say

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

USERS = [f"user-{number}" for number in range(8)]
ASKED = "What's my budget for the Hawaii trip?"
SLOW_SECONDS = 3.0
BACK_SECONDS = 90
_BREAK_SECONDS = 0.02
_SEARCHES, _STEP = "semrouter_memory_recall_step_seconds", '{step="search"}'
_AT_HAND_SECONDS = 0.003
"""A server's answer takes several times as long."""
_AMOUNT = re.compile(r"\$[\d,]*\d")
_amounts = (f"${number},000" for number in itertools.count(10))
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def milvus(new_milvus_server: Callable[[], MilvusServer]) -> Iterator[MilvusServer]:
    """A running server, which a test may pause or kill."""
    server = new_milvus_server()
    server.start()
    yield server
    server.discard()


@pytest.fixture(scope="module")
def redis(new_redis_server: Callable[[], RedisServer]) -> Iterator[RedisServer]:
    """A running server, which a test may kill and start."""
    server = new_redis_server()
    server.start()
    yield server
    server.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on(
    tmp_path_factory: pytest.TempPathFactory,
    model_directory: Path,
    milvus: MilvusServer,
    redis: RedisServer,
) -> AsyncIterator[Pair]:
    """Two replicas on one Milvus server and one Redis."""
    config = settings(milvus, **on_redis(redis, prefix="indexes"))
    directory = tmp_path_factory.mktemp("owner-index")
    async with pair(directory, model_directory, users=USERS, config=config) as replicas:
        yield replicas


async def recalled(on: Pair, number: int, user: str) -> set[str]:
    """The amounts that the model was given for the question, through that replica."""
    headers = {"x-stand-in": json.dumps({"response_id": f"asked-{next(_numbers)}"})}
    async with on.replicas[number].http(key_of(user), headers=headers) as http:
        body = {"model": "m", "messages": [{"role": "user", "content": ASKED}]}
        (await http.post(CHAT, json=body)).raise_for_status()
    seen = next(each for each in reversed(on.llm.requests) if each.headers.get("x-stand-in") == headers["x-stand-in"])
    return set(_AMOUNT.findall(json.dumps(seen.json["messages"])))


async def both_recall(on: Pair, user: str, *amounts: str) -> None:
    """The very next recall of either gives these and no other, and does not wait for anything."""

    async def recalls(number: int) -> None:
        assert await recalled(on, number, user) == set(amounts), f"replica {number}"

    for number in (1, 0):
        await promptly(partial(recalls, number), within=SLOW_SECONDS)


async def both_have_at_hand(on: Pair, user: str) -> None:
    """Wait until the next recall of either looks at the user's memories in the process, and asks no store."""

    async def at_hand(number: int) -> bool:
        replica = on.replicas[number]
        searches, seconds = [await replica.metric(f"{_SEARCHES}_{part}{_STEP}") for part in ("count", "sum")]

        async def counted() -> bool:
            return await replica.metric(f"{_SEARCHES}_count{_STEP}") > searches

        await recalled(on, number, user)
        await eventually(counted, "the search is not counted")
        return await replica.metric(f"{_SEARCHES}_sum{_STEP}") - seconds < _AT_HAND_SECONDS

    for number in range(2):
        await eventually(partial(at_hand, number), f"replica {number} asks the store each time")


async def request(on: Pair, number: int, user: str, method: str, path: str = "", **options: Any) -> httpx.Response:
    """One call of the management API."""
    async with on.replicas[number].http(key_of(user)) as http:
        return await http.request(method, f"/v1/memory{path}", **options)


async def done(on: Pair, number: int, user: str, method: str, path: str = "", **options: Any) -> Any:
    """One call that must succeed, repeated as 503 says (Redis was slow, or Milvus has just come back); returns its answer."""
    answers: list[httpx.Response] = []

    async def judged() -> bool:
        answers.append(await request(on, number, user, method, path, **options))
        return answers[-1].status_code != httpx.codes.SERVICE_UNAVAILABLE

    await eventually(judged, "unavailable still", seconds=BACK_SECONDS)
    assert answers[-1].is_success, answers[-1].text
    return answers[-1].json()


def budget(amount: str) -> dict[str, Any]:
    return {"json": {"content": f"User's budget for the Hawaii trip is {amount}"}}


async def stored(on: Pair, number: int, user: str) -> tuple[str, str]:
    """A new memory: its id, and the amount that it tells."""
    amount = next(_amounts)
    answer = await done(on, number, user, "POST", **budget(amount))
    return str(answer["id"]), amount


# -- what the other wrote ----------------------------------------------------------------------------------------------


async def test_what_one_replica_stores_changes_and_deletes_the_next_recall_of_either_shows(on: Pair) -> None:
    user = USERS[0]
    await both_recall(on, user)
    for number in (0, 1, 0, 1):
        memory_id, amount = await stored(on, number, user)
        await both_recall(on, user, amount)
        amount = next(_amounts)
        await done(on, 1 - number, user, "PATCH", f"/{memory_id}", **budget(amount))
        await both_recall(on, user, amount)
        await done(on, number, user, "DELETE", f"/{memory_id}")
        await both_recall(on, user)


async def test_what_one_replica_deletes_all_of_the_next_recall_of_either_shows_nothing_of(on: Pair) -> None:
    user = USERS[1]
    for number in range(2):
        _, amount = await stored(on, number, user)
        await both_recall(on, user, amount)
        await done(on, 1 - number, user, "DELETE", params={"user_id": user})
        await both_recall(on, user)


async def test_what_one_user_writes_changes_nothing_for_another(on: Pair) -> None:
    one, other = USERS[2:4]
    _, first = await stored(on, 0, one)
    await both_recall(on, one, first)
    await both_recall(on, other)
    _, second = await stored(on, 1, other)
    await both_recall(on, one, first)
    await both_recall(on, other, second)
    await done(on, 1, other, "DELETE", params={"user_id": other})
    await both_recall(on, other)
    await both_recall(on, one, first)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, when it was sent, and the amounts that the model was given for it."""

    replica: int
    began: float
    found: set[str]


@dataclass
class Asking:
    """Somebody who asks again at once, through both replicas."""

    on: Pair
    user: str
    asked: list[Asked] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def go_on(self, number: int) -> None:
        while not self.stopping.is_set():
            began = time.monotonic()
            found = await recalled(self.on, number, self.user)
            self.asked.append(Asked(number, began, found))
            # Without it the questions alone keep both processors busy, and what they wait for is late.
            await asyncio.sleep(_BREAK_SECONDS)

    async def shows_in_both(self, amount: str) -> bool:
        return {each.replica for each in self.asked if amount in each.found} == {0, 1}

    async def answered(self, count: int) -> None:
        """Wait until so many more questions were answered."""
        enough = len(self.asked) + count

        async def reached() -> bool:
            return len(self.asked) >= enough

        await eventually(reached, "nothing is answered any more")


async def erased(on: Pair, number: int, user: str, memory_id: str) -> bool:
    """Whether repeating the deletion finds nothing more to delete."""
    answer = await request(on, number, user, "DELETE", f"/{memory_id}")
    return answer.status_code == httpx.codes.NOT_FOUND


async def test_while_somebody_asks_without_a_break_what_was_deleted_shows_no_more(on: Pair) -> None:
    """What is stored shows within moments. What is asked after a deletion was acknowledged shows nothing of it."""
    asking = Asking(on, USERS[4])
    deleted: list[tuple[str, float]] = []
    async with asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(asking.go_on(number))
        for number in range(4):
            memory_id, amount = await stored(on, number % 2, asking.user)
            await eventually(partial(asking.shows_in_both, amount), "never shown")
            await request(on, (number + 1) % 2, asking.user, "DELETE", f"/{memory_id}")
            # Also where Redis was too slow meanwhile, and the rest of it takes a repetition.
            deleted.append((amount, time.monotonic()))
            await eventually(partial(erased, on, number % 2, asking.user, memory_id), "not deleted")
            await asking.answered(number % 3)
        await asking.answered(10)
        asking.stopping.set()
    for amount, gone in deleted:
        assert not [each.began - gone for each in asking.asked if each.began > gone and amount in each.found]


# -- while Redis is away -----------------------------------------------------------------------------------------------


async def test_while_redis_is_dead_recall_goes_on_and_what_cannot_be_announced_is_not_written(
    on: Pair, redis: RedisServer
) -> None:
    user = USERS[5]
    memory_id, amount = await stored(on, 0, user)
    await both_recall(on, user, amount)
    redis.kill()
    try:
        for _ in range(3):
            await both_recall(on, user, amount)
        assert (await request(on, 0, user, "PATCH", f"/{memory_id}", **budget("$1"))).status_code == 503
        await both_recall(on, user, amount)
    finally:
        await asyncio.to_thread(redis.start)
    await both_write(on, user)
    amount = next(_amounts)
    await done(on, 0, user, "PATCH", f"/{memory_id}", **budget(amount))
    await both_recall(on, user, amount)


async def test_a_redis_that_lost_the_owners_numbers_brings_nothing_back(on: Pair, redis: RedisServer) -> None:
    """As one that evicts keys does, or one that comes back empty."""
    user = USERS[6]
    memory_id, amount = await stored(on, 0, user)
    await both_recall(on, user, amount)
    with Redis.from_url(redis.url) as client:
        for key in client.keys("*:version:*"):
            client.delete(key)
    await done(on, 1, user, "DELETE", f"/{memory_id}")
    await both_recall(on, user)
    _, amount = await stored(on, 1, user)
    await both_recall(on, user, amount)


# -- while Milvus is away ----------------------------------------------------------------------------------------------


async def paused(milvus: MilvusServer) -> Callable[[], Awaitable[None]]:
    milvus.pause()

    async def again() -> None:
        milvus.resume()

    return again


async def killed(milvus: MilvusServer) -> Callable[[], Awaitable[None]]:
    milvus.kill()
    return partial(asyncio.to_thread, milvus.start)


@pytest.mark.parametrize("ended", [killed, paused])
async def test_an_active_user_is_answered_while_milvus_is_away_and_everybody_after_it(
    on: Pair, milvus: MilvusServer, ended: Callable[[MilvusServer], Awaitable[Callable[[], Awaitable[None]]]]
) -> None:
    active, cold = USERS[7], USERS[1]
    await done(on, 0, active, "DELETE", params={"user_id": active})
    memory_id, amount = await stored(on, 0, active)
    _, colds = await stored(on, 0, cold)
    await both_recall(on, active, amount)
    await both_have_at_hand(on, active)
    again = await ended(milvus)
    try:
        await both_recall(on, active, amount)
        await say(on, 0, active, "My dog is called Rex")
        for _ in range(3):
            await both_recall(on, active, amount)
        assert await recalled(on, 1, cold) == set()
    finally:
        await again()
    await both_write(on, cold)
    await both_recall(on, cold, colds)
    await on.remembers(active, "Rex", number=1)
    amount = next(_amounts)
    await done(on, 1, active, "PATCH", f"/{memory_id}", **budget(amount))
    await both_recall(on, active, amount)


async def both_write(on: Pair, user: str) -> None:
    """Wait until both have what they need for that again."""

    async def written(number: int) -> bool:
        cat = {"content": f"User's cat is called Tom{number}"}
        return (await request(on, number, user, "POST", json=cat)).is_success

    for number in range(2):
        await eventually(partial(written, number), "not written", seconds=BACK_SECONDS)
