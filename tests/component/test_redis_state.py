"""The shared state store on a real Redis: values end by themselves, and nothing of a forgotten owner stays."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis

from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Reach, Scope, Usage
from semrouter_memory.state.redis import RedisStateStore
from tests.contract.turn_logs import ALICE, SteppedClock
from tests.raising import raising
from tests.redis_server import RedisServer

HOUR = timedelta(hours=1)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture
async def store(redis_server: RedisServer, prefix: str) -> AsyncIterator[RedisStateStore]:
    connection = RedisConnection(redis_server.config())
    yield RedisStateStore(connection, prefix=prefix, clock=SteppedClock())
    await connection.aclose()


def own_keys(server: RedisServer, prefix: str) -> dict[bytes, int]:
    """Every key with the seconds that it has left."""
    with Redis.from_url(server.url) as client:
        return {name: int(client.ttl(name)) for name in client.scan_iter(f"{prefix}:*")}


async def test_every_key_ends_by_itself(store: RedisStateStore, redis_server: RedisServer, prefix: str) -> None:
    await store.put(ALICE, "long", b"1", ttl=2 * HOUR)
    await store.put(ALICE, "short", b"2", ttl=HOUR)
    await store.count_uses(ALICE, {"m": 1}, at=NOW)
    seconds = sorted(own_keys(redis_server, prefix).values())
    assert len(seconds) == 5
    assert 0 < seconds[0] <= 3600 < seconds[1] <= seconds[2] <= 7200 < seconds[3]


async def test_nothing_of_a_forgotten_owner_stays(
    store: RedisStateStore, redis_server: RedisServer, prefix: str
) -> None:
    for number in range(1200):
        await store.put(Scope("alice", str(number % 3)), str(number), b"value", ttl=HOUR)
    await store.count_uses(ALICE, {str(number): 1 for number in range(1200)}, at=NOW)
    assert len(await store.usage(ALICE, [str(number) for number in range(1200)])) == 1200
    await store.forget(Scope("alice", "1"), Reach.EXACT)
    assert len(own_keys(redis_server, prefix)) == 803
    await store.forget(ALICE, Reach.ALL)
    assert own_keys(redis_server, prefix) == {}


async def test_two_replicas_count_together(store: RedisStateStore, redis_server: RedisServer, prefix: str) -> None:
    connection = RedisConnection(redis_server.config())
    other = RedisStateStore(connection, prefix=prefix, clock=SteppedClock())
    later = NOW + HOUR
    await other.count_uses(ALICE, {"m": 2}, at=later)
    await store.count_uses(ALICE, {"m": 1}, at=NOW)
    assert await other.usage(ALICE, ["m"]) == {"m": Usage(3, later)}
    await connection.aclose()


async def test_while_redis_is_away_it_says_so_at_once(own_redis_server: RedisServer, prefix: str) -> None:
    connection = RedisConnection(own_redis_server.config())
    store = RedisStateStore(connection, prefix=prefix, clock=SteppedClock())
    own_redis_server.kill()
    for _ in range(2):
        with raising(UnavailableError, service=Service.STATE):
            await store.get(ALICE, ["a"])
    with raising(UnavailableError, service=Service.STATE):
        await store.put(ALICE, "a", b"1", ttl=HOUR)
    await connection.aclose()


@pytest.mark.parametrize("steps", range(12))
async def test_a_call_that_is_cancelled_ends_its_task_wherever_it_is(redis_server: RedisServer, steps: int) -> None:
    connection = RedisConnection(redis_server.config())
    await connection.execute("PING")

    async def call_often() -> None:
        for _ in range(500):
            await connection.execute("PING")

    task = asyncio.create_task(call_often())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await connection.aclose()
