"""Owners' locks across replicas, on a real Redis."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from semrouter_memory import state
from semrouter_memory.databases.redis_connection import Argument, RedisConnection
from semrouter_memory.errors import LockLostError, UnavailableError
from semrouter_memory.model import Scope, Tombstone
from semrouter_memory.state.redis import RedisOwnerLocks
from tests.redis_server import IMPATIENT_MS, RedisServer
from tests.replicas import Installation, until

ALICE, BOB = Scope("alice"), Scope("bob")


@asynccontextmanager
async def replica(
    server: RedisServer, prefix: str, *, lock_seconds: float = 5.0, patience_seconds: float = 20.0
) -> AsyncIterator[RedisOwnerLocks]:
    connection = RedisConnection(server.config())
    try:
        yield RedisOwnerLocks(connection, prefix=prefix, lock_seconds=lock_seconds, patience_seconds=patience_seconds)
    finally:
        await connection.aclose()


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


class TestWhileRedisIsThere:
    async def test_one_owner_is_changed_by_one_task_at_a_time(self, redis_server: RedisServer, prefix: str) -> None:
        inside = 0
        done = 0

        async def change(locks: RedisOwnerLocks) -> None:
            nonlocal inside, done
            async with locks.hold(Scope("alice", "whatever project")) as hold:
                inside += 1
                assert inside == 1
                await hold.confirm()
                assert inside == 1
                inside -= 1
                done += 1

        async with replica(redis_server, prefix) as one, replica(redis_server, prefix) as two:
            await asyncio.gather(*(change(locks) for locks in (one, two) for _ in range(25)))
        assert done == 50

    async def test_owners_and_installations_do_not_wait_for_each_other(
        self, redis_server: RedisServer, prefix: str
    ) -> None:
        async with (
            replica(redis_server, prefix) as one,
            replica(redis_server, prefix) as two,
            replica(redis_server, "other") as other,
            one.hold(ALICE),
            two.hold(BOB) as bob,
            other.hold(ALICE) as foreign,
        ):
            await bob.confirm()
            await foreign.confirm()

    async def test_a_busy_replica_does_not_keep_it_from_the_others(
        self, redis_server: RedisServer, prefix: str
    ) -> None:
        order: list[str] = []

        async def change(name: str, locks: RedisOwnerLocks) -> None:
            async with locks.hold(ALICE):
                order.append(name)
                await asyncio.sleep(0.01)

        async with replica(redis_server, prefix) as one, replica(redis_server, prefix) as two:
            busy = [asyncio.create_task(change("one", one)) for _ in range(60)]
            await until(lambda: at_least(order, 1))
            await change("two", two)
            assert len(order) < 40
            await asyncio.gather(*busy)

    async def test_it_outlives_its_time_while_the_holder_lives(
        self, redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its time begins anew again and again. Were that short here, a machine that is busy would let it end."""
        monkeypatch.setattr(state.redis, "_RENEWALS", 1_000)
        left: list[int] = []
        with Redis.from_url(redis_server.url) as client:

            async def renewed() -> bool:
                (lock,) = client.keys(f"{prefix}:lock:*")
                left.append(client.pttl(lock))
                return sum(later > earlier for earlier, later in pairwise(left)) > 3

            async with replica(redis_server, prefix, lock_seconds=30) as one, one.hold(ALICE):
                await until(renewed)

    async def test_it_is_the_holders_alone(self, redis_server: RedisServer, prefix: str) -> None:
        async with (
            replica(redis_server, prefix, lock_seconds=30) as one,
            replica(redis_server, prefix, patience_seconds=0.1) as two,
            one.hold(ALICE) as hold,
        ):
            with pytest.raises(LockLostError):
                async with two.hold(ALICE):
                    pass
            await hold.confirm()

    async def test_a_holder_that_stood_still_for_too_long_has_lost_it(
        self, redis_server: RedisServer, prefix: str
    ) -> None:
        async with replica(redis_server, prefix, lock_seconds=0.2) as one, replica(redis_server, prefix) as two:
            async with one.hold(ALICE) as late:
                time.sleep(0.4)  # noqa: ASYNC251 - the whole process stands still
                async with two.hold(ALICE) as current:
                    with pytest.raises(LockLostError):
                        await late.confirm()
                    await current.confirm()
            # Giving back what is not held any more takes it from nobody.
            async with two.hold(ALICE) as current:
                await current.confirm()

    async def test_who_is_cancelled_while_waiting_leaves_nothing_behind(
        self, redis_server: RedisServer, prefix: str
    ) -> None:
        async with replica(redis_server, prefix) as one, replica(redis_server, prefix) as two:
            async with one.hold(ALICE):
                waiting = asyncio.create_task(hold_for_ever(two))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            async with asyncio.timeout(60), one.hold(ALICE) as hold:
                await hold.confirm()


class TestWhileRedisIsAway:
    async def test_it_cannot_be_had(self, own_redis_server: RedisServer, prefix: str) -> None:
        async with replica(own_redis_server, prefix) as locks:
            own_redis_server.kill()
            for _ in range(2):
                with pytest.raises(LockLostError):
                    async with locks.hold(ALICE):
                        pytest.fail("nobody keeps it")

    async def test_a_hold_through_an_outage_is_lost(self, own_redis_server: RedisServer, prefix: str) -> None:
        """What was read under it, deletions above all, may be older than it."""
        connection = RedisConnection(own_redis_server.config(timeout_ms=IMPATIENT_MS))
        locks = RedisOwnerLocks(connection, prefix=prefix, lock_seconds=5)
        async with locks.hold(ALICE) as hold:
            own_redis_server.restart()
            own_redis_server.pause()
            with pytest.raises(LockLostError):
                await hold.confirm()
            own_redis_server.resume()
            await until(lambda: is_available(connection))
            with pytest.raises(LockLostError):
                await hold.confirm()
        async with locks.hold(ALICE) as hold:
            await hold.confirm()
        await connection.aclose()


class TestWhileRedisIsSlow:
    async def test_deletions_that_are_read_under_it_are_not_older_than_it(
        self, redis_server: RedisServer, tmp_path: Path
    ) -> None:
        installation = Installation(redis_server.url, tmp_path)
        async with (
            installation.replica(started=False) as one,
            installation.replica("two", started=False) as two,
        ):
            locks = RedisOwnerLocks(one.connection, prefix=installation.prefix, lock_seconds=5)
            now = installation.clock.now()
            for each in (one, two):
                await each.log.tombstones(ALICE)
            statement = "User lives in Oslo"
            deleted = Tombstone(scope=ALICE, at=now, memory_id="m", content_hash=two.log.content_hash(statement))
            await two.log.tombstone(deleted)
            hold_back_pings(one.connection)
            await waits_no_longer(one.connection)
            assert not (await one.log.tombstones(ALICE)).forbids(ALICE, statement, now)
            async with locks.hold(ALICE) as hold:
                assert (await one.log.tombstones(ALICE)).forbids(ALICE, statement, now)
                await hold.confirm()

    async def test_a_request_that_waits_no_longer_breaks_off_no_change_of_an_owner(
        self, redis_server: RedisServer
    ) -> None:
        """Where many ask, one of them is late at any time, and nothing would be learned or deleted."""
        connection = RedisConnection(redis_server.config())
        locks = RedisOwnerLocks(connection, prefix=uuid.uuid4().hex, lock_seconds=5)
        async with locks.hold(ALICE) as hold:
            await asyncio.create_task(waits_no_longer(connection), context=Context())
            await hold.confirm()
        await connection.aclose()


async def waits_no_longer(connection: RedisConnection) -> None:
    with pytest.raises(UnavailableError, match="slow"):
        async with connection.within(0):
            await asyncio.sleep(1)


def hold_back_pings(connection: RedisConnection) -> None:
    """It stays slow, as far as requests know; what is asked for under the lock is answered at once."""
    send = connection._send

    async def sent(*command: Argument) -> Any:
        if command[0] == "PING":
            await asyncio.Event().wait()
        return await send(*command)

    connection._send = sent


async def at_least(things: list[str], number: int) -> bool:
    return len(things) >= number


async def is_available(connection: RedisConnection) -> bool:
    return connection.available


async def hold_for_ever(locks: RedisOwnerLocks) -> None:
    async with locks.hold(ALICE):
        await asyncio.Event().wait()
