"""What has arrived in Redis leaves the spool's file, however busy the replica is and wherever it is deleted."""

import asyncio
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import Reach, Scope, Tombstone
from tests.contract.turn_logs import ALICE, START, a_turn
from tests.redis_server import RedisServer
from tests.replicas import Installation, Replica, leave_the_spool_soon, until

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def shared(redis_server: RedisServer, tmp_path: Path) -> Installation:
    return Installation(redis_server.url, tmp_path)


def files_of(replica: Replica) -> bytes:
    return b"".join(path.read_bytes() for path in replica.spool.parent.iterdir())


async def test_under_steady_traffic_the_first_turns_leave_all_the_same(shared: Installation) -> None:
    numbers = count()
    async with shared.replica() as replica:
        leave_the_spool_soon(replica.log)
        replica.log.append(a_turn("the first", request="first"), remember=False)

        async def first_is_gone_while_others_come() -> bool:
            for _ in range(3):
                number = next(numbers)
                replica.log.append(a_turn(f"turn {number}", request=str(number)), remember=False)
            with closing(sqlite3.connect(replica.spool)) as spool:
                return spool.execute("SELECT 1 FROM spool WHERE number = 1").fetchone() is None

        await until(first_is_gone_while_others_come)
        assert replica.errors == []


async def test_a_compaction_takes_along_what_was_deleted_through_another_replica_a_moment_ago(
    shared: Installation,
) -> None:
    """It has arrived, and is kept in the spool for the case that Redis loses it."""
    async with shared.replica() as one, shared.replica("two") as two:
        leave_the_spool_soon(two.log)
        two.log.append(a_turn("a xylophone"), remember=False)
        await two.log.forward()
        await one.log.tombstone(Tombstone(scope=ALICE, at=START, reach=Reach.ALL))
        assert b"xylophone" in files_of(two)
        await two.log.compact()
        assert b"xylophone" not in files_of(two)


async def test_what_waits_for_redis_is_not_written_anew_meanwhile(
    own_redis_server: RedisServer, tmp_path: Path
) -> None:
    """Every append, and with it every request, would wait for it: 3 s with 100,000 turns, again and again."""
    async with Installation(own_redis_server.url, tmp_path).replica(started=False) as replica:
        with closing(sqlite3.connect(replica.spool, isolation_level=None)) as spool:
            spool.execute("CREATE TABLE gone AS SELECT zeroblob(100000)").close()
            spool.execute("DROP TABLE gone").close()
            own_redis_server.kill()
            replica.log.append(a_turn("waits"), remember=False)
            with pytest.raises(TurnLogError):
                await replica.log.compact()
            assert spool.execute("PRAGMA freelist_count").fetchone() > (0,)


async def test_what_could_not_be_removed_is_removed_later(shared: Installation) -> None:
    async with shared.replica(started=False) as replica:
        replica.log._forwarder._held_seconds = -1
        with closing(sqlite3.connect(replica.spool, isolation_level=None)) as spool:
            spool.execute("CREATE TRIGGER broken BEFORE DELETE ON spool BEGIN SELECT RAISE(ABORT, 'broken'); END")
            replica.log.append(a_turn("a"), remember=False)
            with pytest.raises(TurnLogError):
                await replica.log.forward()
            spool.execute("DROP TRIGGER broken")
            async with asyncio.timeout(10):
                await replica.log.compact()
            assert spool.execute("SELECT count(*) FROM spool").fetchone() == (0,)


async def test_a_listener_that_fails_does_not_end_the_forwarding(shared: Installation) -> None:
    async with shared.replica(started=False) as replica:
        told: list[str] = []

        def listener(_: Scope, session_id: str) -> None:
            told.append(session_id)
            if len(told) == 1:
                raise ZeroDivisionError

        replica.log._forwarder._forwarded = listener
        await replica.log.start()
        for number in range(2):
            replica.log.append(a_turn(str(number)), remember=False)

            async def is_told(number: int = number) -> bool:
                return len(told) > number

            await until(is_told)
        assert [type(error) for error in replica.errors] == [ZeroDivisionError]
