"""What every owner's version promises."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from semrouter_memory.config import RedisConfig
from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.state.local import InProcessOwnerVersions
from semrouter_memory.state.redis import RedisOwnerVersions, version_key
from semrouter_memory.store.owner_versions import OwnerVersions
from tests.raising import raising
from tests.redis_server import RedisServer

ALICE = Scope("alice")
BOB = Scope("bob")
ODD = Scope("\ud800")

PATIENCE_SECONDS = 10
"""A busy machine is no slow Redis."""

Replicas = tuple[OwnerVersions, OwnerVersions]


def versions_on(connection: RedisConnection, prefix: str) -> RedisOwnerVersions:
    return RedisOwnerVersions(connection, prefix=prefix, patience_seconds=PATIENCE_SECONDS)


@pytest.fixture(params=["in_process", "redis"])
async def replicas(request: pytest.FixtureRequest) -> AsyncIterator[Replicas]:
    """The same numbers, as two replicas see them; in one process, as two of its parts."""
    if request.param == "in_process":
        versions = InProcessOwnerVersions()
        yield versions, versions
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    prefix = uuid.uuid4().hex
    # Patient: forty calls at once take a busy machine a while.
    connections = [RedisConnection(RedisConfig(url=server.url)) for _ in range(2)]
    here, there = (versions_on(connection, prefix) for connection in connections)
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
        assert (await here.advance(Scope("alice", "work")))[1] == await here.current(ALICE)

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


async def test_a_number_that_was_lost_does_not_come_back_as_an_old_one(
    connection: RedisConnection, prefix: str
) -> None:
    versions = versions_on(connection, prefix)
    seen = {await versions.current(ALICE), (await versions.advance(ALICE))[1]}
    for _ in range(5):
        await connection.execute("DEL", version_key(prefix, ALICE))
        seen |= {await versions.current(ALICE), (await versions.advance(ALICE))[1]}
    assert len(seen) == 12


async def test_after_an_old_number_has_come_back_none_is_given_out_again(
    connection: RedisConnection, prefix: str
) -> None:
    """Another server took over, which had not heard of the last writes."""
    versions = versions_on(connection, prefix)
    key = version_key(prefix, ALICE)
    _, old = await versions.advance(ALICE)
    seen = {old}
    for _ in range(5):
        before, after = await versions.advance(ALICE)
        assert before == old
        assert after not in seen
        seen.add(after)
        await connection.execute("SET", key, old)


async def test_a_number_ends_when_nobody_writes(connection: RedisConnection, prefix: str) -> None:
    versions = versions_on(connection, prefix)
    key = version_key(prefix, ALICE)
    await versions.current(ALICE)
    assert await connection.execute("TTL", key) > 0
    await versions.advance(ALICE)
    assert await connection.execute("TTL", key) > 0


async def test_keys_tell_nothing_of_the_user(connection: RedisConnection, prefix: str) -> None:
    versions = versions_on(connection, prefix)
    await versions.current(ALICE)
    names = await connection.execute("KEYS", f"{prefix}:*")
    assert len(names) == 1
    assert not any(b"alice" in name for name in names)


async def test_without_redis_nothing_is_known(own_redis_server: RedisServer) -> None:
    connection = RedisConnection(own_redis_server.config())
    versions = versions_on(connection, "p")
    await versions.advance(ALICE)
    own_redis_server.kill()
    for _ in range(2):
        with raising(UnavailableError, service=Service.OWNER_VERSIONS):
            await versions.current(ALICE)
        with raising(UnavailableError, service=Service.OWNER_VERSIONS):
            await versions.advance(ALICE)
    await connection.aclose()


async def test_a_redis_that_is_slow_for_a_moment_has_recall_ask_the_store_and_breaks_no_write_off(
    own_redis_server: RedisServer,
) -> None:
    connection = RedisConnection(RedisConfig(url=own_redis_server.url, timeout_ms=10_000))
    versions = RedisOwnerVersions(connection, prefix="p", patience_seconds=0.2)
    _, number = await versions.advance(ALICE)
    own_redis_server.pause()
    with raising(UnavailableError, service=Service.OWNER_VERSIONS):
        await versions.current(ALICE)
    own_redis_server.resume()
    assert connection.disturbances == 0
    assert (await versions.advance(ALICE))[0] == number
    await connection.aclose()
