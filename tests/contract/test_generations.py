"""What every owner's generation promises, and every place where replicas hand shelves to each other."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from semrouter_memory.config import RedisConfig
from semrouter_memory.errors import GenerationsError
from semrouter_memory.model import Scope
from semrouter_memory.ports import Generations
from semrouter_memory.turn_log.in_process import InProcessGenerations
from semrouter_memory.turn_log.redis.connection import RedisConnection
from semrouter_memory.turn_log.redis.generations import RedisGenerations, keys
from semrouter_memory.turn_log.redis.shelves import RedisShelves
from tests.redis_server import RedisServer

ALICE = Scope("alice")
BOB = Scope("bob")
ODD = Scope("\ud800")

PATIENCE_SECONDS = 10
"""A busy machine is no slow Redis."""

Replicas = tuple[Generations, Generations]


def generations_on(connection: RedisConnection, prefix: str) -> RedisGenerations:
    return RedisGenerations(connection, prefix=prefix, patience_seconds=PATIENCE_SECONDS)


@pytest.fixture(params=["in_process", "redis"])
async def replicas(request: pytest.FixtureRequest) -> AsyncIterator[Replicas]:
    """The same numbers, as two replicas see them; in one process, as two of its parts."""
    if request.param == "in_process":
        generations = InProcessGenerations()
        yield generations, generations
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    prefix = uuid.uuid4().hex
    connections = [RedisConnection(server.config()) for _ in range(2)]
    here, there = (generations_on(connection, prefix) for connection in connections)
    yield here, there
    for connection in connections:
        await connection.aclose()


class TestNumbers:
    async def test_one_stays_while_nobody_writes(self, replicas: Replicas) -> None:
        here, there = replicas
        assert await here.current(ALICE) == await there.current(ALICE) == await here.current(ALICE)

    async def test_a_replica_sees_what_another_advanced(self, replicas: Replicas) -> None:
        here, there = replicas
        before = await there.current(ALICE)
        replaced, after = await here.advance(ALICE)
        assert replaced == before != after
        assert await there.current(ALICE) == after

    async def test_the_first_look_may_be_an_advance(self, replicas: Replicas) -> None:
        here, there = replicas
        assert (await here.advance(ALICE))[1] == await there.current(ALICE)

    async def test_all_of_an_owners_projects_have_one(self, replicas: Replicas) -> None:
        here, _ = replicas
        assert (await here.advance(Scope("alice", "work", "agent")))[1] == await here.current(ALICE)

    async def test_others_have_another(self, replicas: Replicas) -> None:
        here, _ = replicas
        before = await here.current(BOB), await here.current(ODD)
        await here.advance(ALICE)
        assert (await here.current(BOB), await here.current(ODD)) == before

    async def test_an_owner_may_have_any_id(self, replicas: Replicas) -> None:
        here, there = replicas
        assert (await here.advance(ODD))[1] == await there.current(ODD)

    async def test_nobody_else_gets_the_same(self, replicas: Replicas) -> None:
        first = await replicas[0].current(ALICE)
        advances = await asyncio.gather(*(replicas[n % 2].advance(ALICE) for n in range(40)))
        befores, afters = zip(*advances, strict=True)
        assert len({first, *afters}) == 41
        assert {*befores, await replicas[0].current(ALICE)} == {first, *afters}


# -- Redis -------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def connection(redis_server: RedisServer) -> AsyncIterator[RedisConnection]:
    opened = RedisConnection(redis_server.config())
    yield opened
    await opened.aclose()


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


def shelves(
    connection: RedisConnection, prefix: str, *, space: str = "v1", ttl: timedelta = timedelta(hours=1)
) -> RedisShelves:
    return RedisShelves(connection, prefix=prefix, space=space, ttl=ttl)


async def test_a_number_that_was_lost_does_not_come_back_as_an_old_one(
    connection: RedisConnection, prefix: str
) -> None:
    generations = generations_on(connection, prefix)
    seen = {await generations.current(ALICE), (await generations.advance(ALICE))[1]}
    for _ in range(5):
        await connection.execute("DEL", *keys(prefix, ALICE))
        seen |= {await generations.current(ALICE), (await generations.advance(ALICE))[1]}
    assert len(seen) == 12


async def test_after_an_old_number_has_come_back_none_is_given_out_again(
    connection: RedisConnection, prefix: str
) -> None:
    """Another server took over, which had not heard of the last writes."""
    generations = generations_on(connection, prefix)
    key, _ = keys(prefix, ALICE)
    _, old = await generations.advance(ALICE)
    seen = {old}
    for _ in range(5):
        before, after = await generations.advance(ALICE)
        assert before == old
        assert after not in seen
        seen.add(after)
        await connection.execute("SET", key, old)


async def test_a_number_ends_when_nobody_writes(connection: RedisConnection, prefix: str) -> None:
    generations = generations_on(connection, prefix)
    key, _ = keys(prefix, ALICE)
    await generations.current(ALICE)
    assert await connection.execute("TTL", key) > 0
    await generations.advance(ALICE)
    assert await connection.execute("TTL", key) > 0


async def test_keys_tell_nothing_of_the_user(connection: RedisConnection, prefix: str) -> None:
    generations = generations_on(connection, prefix)
    await shelves(connection, prefix).put(ALICE, await generations.current(ALICE), b"shelf")
    names = await connection.execute("KEYS", f"{prefix}:*")
    assert len(names) == 2
    assert not any(b"alice" in name for name in names)


async def test_without_redis_nothing_is_known(own_redis_server: RedisServer) -> None:
    connection = RedisConnection(own_redis_server.config())
    generations = generations_on(connection, "p")
    await generations.advance(ALICE)
    own_redis_server.kill()
    for _ in range(2):
        with pytest.raises(GenerationsError):
            await generations.current(ALICE)
        with pytest.raises(GenerationsError):
            await generations.advance(ALICE)
        with pytest.raises(GenerationsError):
            await shelves(connection, "p").get(ALICE, 1)
        with pytest.raises(GenerationsError):
            await shelves(connection, "p").put(ALICE, 1, b"shelf")
    await connection.aclose()


async def test_a_redis_that_is_slow_for_a_moment_has_recall_ask_the_store_and_breaks_no_write_off(
    own_redis_server: RedisServer,
) -> None:
    connection = RedisConnection(RedisConfig(url=own_redis_server.url, timeout_ms=10_000))
    generations = RedisGenerations(connection, prefix="p", patience_seconds=0.2)
    _, number = await generations.advance(ALICE)
    own_redis_server.pause()
    with pytest.raises(GenerationsError):
        await generations.current(ALICE)
    own_redis_server.resume()
    assert connection.disturbances == 0
    assert (await generations.advance(ALICE))[0] == number
    await connection.aclose()


class TestShelves:
    async def test_a_shelf_is_found_with_its_generation(self, connection: RedisConnection, prefix: str) -> None:
        _, generation = await generations_on(connection, prefix).advance(ALICE)
        await shelves(connection, prefix).put(ALICE, generation, b"\x00shelf\xff")
        assert await shelves(connection, prefix).get(ALICE, generation) == b"\x00shelf\xff"
        assert await shelves(connection, prefix).get(ALICE, generation - 1) is None
        assert await shelves(connection, prefix).get(BOB, generation) is None

    async def test_a_write_takes_it_away_in_every_space(self, connection: RedisConnection, prefix: str) -> None:
        generations = generations_on(connection, prefix)
        generation = await generations.current(ALICE)
        for space in ("v1", "v2"):
            await shelves(connection, prefix, space=space).put(ALICE, generation, b"User has a dog")
        await generations.advance(ALICE)
        assert not await connection.execute("EXISTS", keys(prefix, ALICE)[1])

    async def test_one_read_before_a_write_is_not_kept(self, connection: RedisConnection, prefix: str) -> None:
        generations = generations_on(connection, prefix)
        before = await generations.current(ALICE)
        await generations.advance(ALICE)
        await shelves(connection, prefix).put(ALICE, before, b"User has a dog")
        assert not await connection.execute("EXISTS", keys(prefix, ALICE)[1])

    async def test_spaces_do_not_see_each_other(self, connection: RedisConnection, prefix: str) -> None:
        generation = await generations_on(connection, prefix).current(ALICE)
        await shelves(connection, prefix).put(ALICE, generation, b"shelf")
        assert await shelves(connection, prefix, space="v2").get(ALICE, generation) is None

    async def test_it_ends_by_itself(self, connection: RedisConnection, prefix: str) -> None:
        generation = await generations_on(connection, prefix).current(ALICE)
        await shelves(connection, prefix, ttl=timedelta(seconds=60)).put(ALICE, generation, b"shelf")
        assert 0 < await connection.execute("PTTL", keys(prefix, ALICE)[1]) <= 60_000

    async def test_one_too_large_is_not_kept(self, connection: RedisConnection, prefix: str) -> None:
        generation = await generations_on(connection, prefix).current(ALICE)
        await shelves(connection, prefix).put(ALICE, generation, bytes(9 * 1024 * 1024))
        assert await shelves(connection, prefix).get(ALICE, generation) is None
