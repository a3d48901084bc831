"""The shared turn log beside a real Redis that comes and goes, and what is left of what was forgotten."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis import Redis

from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.errors import ConfigurationError, TurnLogError
from semrouter_memory.model import AppendOutcome, Memory, MemoryType, Reach, Scope, Tombstone, TurnTotals
from semrouter_memory.resilience import Backoff
from semrouter_memory.turn_log.redis_log import RedisTurnLog
from semrouter_memory.turn_log.redis_rows import FORMAT
from tests.contract.turn_logs import ALICE, BOB, START, a_turn, append, claimed
from tests.redis_server import IMPATIENT_MS, RedisServer
from tests.replicas import Installation, leave_the_spool_soon, until


@pytest.fixture
def installation(own_redis_server: RedisServer, tmp_path: Path) -> Installation:
    return Installation(own_redis_server.url, tmp_path)


@pytest.fixture
def shared(redis_server: RedisServer, tmp_path: Path) -> Installation:
    """On the server that all tests share, for tests that leave it alone."""
    return Installation(redis_server.url, tmp_path)


async def has_arrived(log: RedisTurnLog, turns: int) -> bool:
    try:
        return len(await log.list_turns(scope=None, states=None, limit=turns + 1)) == turns
    except TurnLogError:
        return False


async def knows_of_deletions(log: RedisTurnLog, scope: Scope) -> bool:
    """In time: what a request reads is what is known here, where Redis takes longer."""
    return bool(await log.tombstones(scope))


def a_memory(memory_id: str) -> Memory:
    return Memory(
        id=memory_id,
        scope=ALICE,
        type=MemoryType.SEMANTIC,
        content="User lives in Berlin",
        source="conversation",
        observed_at=START,
        created_at=START,
        updated_at=START,
    )


class TestWhileRedisIsAway:
    async def test_it_starts_and_accepts_and_ships_when_redis_comes(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        own_redis_server.kill()
        async with installation.replica() as replica:
            for number in range(5):
                assert replica.log.append(a_turn(str(number), session="s"), remember=False).outcome == "accepted"
            assert not (await replica.log.tombstones(ALICE)).covers(a_memory("m"))
            with pytest.raises(TurnLogError):
                await replica.log.pending()
            own_redis_server.start()
            await until(lambda: has_arrived(replica.log, 5))
            assert [scope for scope, _ in replica.arrived] == [ALICE] * 5
            claim = await claimed(replica.log, replica.arrived[0][1])
            assert [turn.user_text for turn in claim.turns] == list("01234")
            assert replica.errors == []

    async def test_what_was_not_shipped_is_shipped_after_a_restart(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        own_redis_server.kill()
        async with installation.replica() as replica:
            replica.log.append(a_turn("a"), remember=True)
        own_redis_server.start()
        async with installation.replica() as replica:
            await until(lambda: has_arrived(replica.log, 1))
            assert (await replica.log.totals()).waiting == 1

    async def test_a_clean_stop_ships_what_it_can(self, installation: Installation) -> None:
        async with installation.replica(started=False) as replica:
            replica.log.append(a_turn("a"), remember=False)
        async with installation.replica("other", started=False) as other:
            assert await has_arrived(other.log, 1)

    async def test_a_server_that_dies_again_and_again_gets_every_turn_once(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        async with installation.replica() as replica:
            for number in range(200):
                replica.log.append(a_turn(str(number), session="s"), remember=False)
                if number % 50 == 49:
                    arrived = len(replica.arrived)
                    await until(partial(more_than, replica.arrived, arrived))
                    own_redis_server.restart()
            await until(lambda: has_arrived(replica.log, 200))
            arrived_turns = await replica.log.list_turns(scope=ALICE, states=None, limit=201)
            assert [turn.user_text for turn in arrived_turns[::-1]] == [str(number) for number in range(200)]
            assert len({turn.session_id for turn in arrived_turns}) == 1
            assert await replica.log.totals() == TurnTotals(accepted=200, waiting=200)

    async def test_one_that_hangs_holds_up_neither_accepting_nor_recall(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        installation.timeout_ms = IMPATIENT_MS
        async with installation.replica() as replica:
            await replica.log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m"))
            await replica.log.tombstones(ALICE)
            own_redis_server.pause()
            assert (await replica.log.tombstones(ALICE)).covers(a_memory("m"))
            assert not replica.connection.responsive
            # From now on nobody waits for an answer at all.
            for _ in range(1000):
                assert (await replica.log.tombstones(ALICE)).covers(a_memory("m"))
            replica.log.append(a_turn("a", at=START + timedelta(seconds=1)), remember=False)
            with pytest.raises(TurnLogError):
                await replica.log.tombstone(Tombstone(scope=ALICE, at=START))
            assert not replica.connection.available
            own_redis_server.resume()
            await until(lambda: has_arrived(replica.log, 1))
            await until(lambda: is_responsive(replica.connection))

    async def test_recall_knows_the_deletions_that_another_task_is_asking_for(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        async with installation.replica(started=False) as replica:
            await replica.log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m"))
            await replica.log.tombstones(ALICE)
            own_redis_server.pause()
            waiting = asyncio.create_task(replica.log.history(ALICE, "r", limit=1))
            await asyncio.sleep(0.01)
            assert (await replica.log.tombstones(ALICE)).covers(a_memory("m"))
            assert not waiting.done()
            own_redis_server.resume()
            await waiting

    async def test_no_deletion_is_completed(self, installation: Installation, own_redis_server: RedisServer) -> None:
        async with installation.replica() as replica:
            own_redis_server.kill()
            with pytest.raises(TurnLogError):
                await replica.log.tombstone(Tombstone(scope=ALICE, at=START))
            own_redis_server.start()
            await until(lambda: is_responsive(replica.connection))
            assert not (await replica.log.tombstones(ALICE)).covers(a_memory("m"))

    async def test_a_statements_hash_is_known_all_the_same(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        async with installation.replica(started=False) as one, installation.replica("two", started=False) as two:
            for replica in (one, two):
                await replica.log.pending()
            known = one.log.content_hash("User lives in Berlin")
            assert two.log.content_hash("user lives in berlin.") == known
        own_redis_server.kill()
        async with installation.replica(started=False) as one:
            assert one.log.content_hash("User lives in Berlin") == known


async def test_a_spool_that_is_full_is_reported_as_full(shared: Installation) -> None:
    """What fails locally while Redis is used is no outage of Redis."""
    async with shared.replica(started=False) as replica:
        with pytest.raises(TurnLogError) as caught:
            async with replica.log._using("pending"):
                raise TurnLogError("the disk is full", reason="log_full")
        assert (caught.value.reason, str(caught.value)) == ("log_full", "the disk is full")


def become_replica(server: RedisServer, *, of: RedisServer) -> None:
    with Redis.from_url(server.url) as client:
        client.replicaof("127.0.0.1", urlsplit(of.url).port)


@dataclass
class Address:
    """One address that leads new connections to another server when it is told to."""

    url: str
    server: RedisServer


@asynccontextmanager
async def behind_one_address(server: RedisServer) -> AsyncIterator[Address]:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        finally:
            writer.close()

    tasks: set[asyncio.Task[None]] = set()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = urlsplit(address.server.url).port
        its_reader, its_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, its_writer), copy(its_reader, writer))

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(lead(reader, writer)))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        address = Address(f"redis://127.0.0.1:{port}/0", server)
        yield address
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def has_accepted(installation: Installation, turns: int) -> bool:
    with installation.client() as client:
        return client.hget(f"{installation.prefix}:totals", "accepted") == str(turns).encode()


async def spool_is_empty(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as spool:
        (turns,) = spool.execute("SELECT count(*) FROM spool").fetchone()
    return not turns


async def more_than(things: Sequence[object], number: int) -> bool:
    return len(things) > number


async def is_responsive(connection: RedisConnection) -> bool:
    return connection.responsive


class TestAnotherVersion:
    @pytest.fixture
    def of_another(self, shared: Installation) -> Installation:
        with shared.client() as client:
            client.set(f"{shared.prefix}:format", FORMAT + 1)
        return shared

    async def test_what_it_wrote_is_refused_at_the_start(self, of_another: Installation) -> None:
        async with of_another.replica(started=False) as one:
            with pytest.raises(ConfigurationError, match=f"format {FORMAT + 1}.*knows {FORMAT}.*another version"):
                await one.log.start()

    async def test_it_is_not_written_to_where_redis_was_not_available_at_the_start(
        self, of_another: Installation
    ) -> None:
        """What is accepted meanwhile waits in the spool."""
        async with of_another.replica(started=False) as one:
            one.log.append(a_turn("I live in Oslo"), remember=False)
            with pytest.raises(TurnLogError, match="another version"):
                await one.log.forward()
            with of_another.client() as client:
                assert client.keys(f"{of_another.prefix}:*") == [f"{of_another.prefix}:format".encode()]


class TestAnotherServerBehindTheAddress:
    async def test_one_that_has_lost_everything_while_nothing_was_asked_gets_the_shared_key_again(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        """Or a replica with an empty data directory would make another one, and neither would see the other's deletions."""
        async with installation.replica(started=False) as one:
            await one.log.pending()

            def restart_empty() -> None:
                own_redis_server.kill()
                shutil.rmtree(own_redis_server.directory / "appendonlydir")
                own_redis_server.start()

            # The event loop runs meanwhile, and learns that the idle connection was closed.
            await asyncio.to_thread(restart_empty)
            await one.log.tombstone(Tombstone(scope=BOB, at=START, memory_id="m"))
            async with installation.replica("two", started=False) as two:
                await until(partial(knows_of_deletions, two.log, BOB))
                await two.log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m"))
            await until(partial(knows_of_deletions, one.log, ALICE))
            assert (await one.log.tombstones(ALICE)).covers(a_memory("m"))

    async def test_what_it_gives_out_after_it_has_lost_everything_is_no_earlier_turns_id(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        """Memories name the turns that they were learned from, and with a memory its turns are deleted."""
        async with installation.replica(started=False) as one:
            leave_the_spool_soon(one.log)
            before = await append(one.log, a_turn("I live in Oslo", session="s"))
            await one.log.compact()  # it has left the spool
            with installation.client() as client:
                client.flushall()
            own_redis_server.restart()
            await until(lambda: has_arrived(one.log, 0))
            after = await append(one.log, a_turn("I play the cello", session="t"))
            assert before.turn_id.rpartition("_")[0] == after.turn_id.rpartition("_")[0]
            await one.log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m"), turn_ids=[before.turn_id])
            told = [turn.user_text for turn in await one.log.list_turns(scope=ALICE, states=None, limit=9)]
            assert "I play the cello" in told

    async def test_one_that_became_a_replica_is_left_for_the_one_that_took_over(
        self, installation: Installation, own_redis_server: RedisServer, new_redis_server: Callable[[], RedisServer]
    ) -> None:
        """It keeps its clients' connections, and answers their reads with what it is told."""
        successor = new_redis_server()
        successor.start()
        async with (
            behind_one_address(own_redis_server) as address,
            replace(installation, url=address.url).replica() as replica,
        ):
            await replica.log.pending()
            become_replica(own_redis_server, of=successor)
            address.server = successor
            replica.log.append(a_turn("a"), remember=False)
            await until(lambda: has_arrived(replica.log, 1))
            await replica.log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m"))
            assert replica.errors == []


class TestShippingOnce:
    async def test_a_crash_before_the_spool_forgets_makes_no_second_turn(self, shared: Installation) -> None:
        async with shared.replica(started=False) as replica:
            replica.log.append(a_turn("a"), remember=False)
            replica.log.append(a_turn("tool call", response="r", complete=False), remember=False)
            copy_spool(replica.spool, shared.directory / "crashed")
            assert len(await replica.log.forward()) == 2
        async with shared.replica("crashed", started=False) as replica:
            assert await replica.log.totals() == TurnTotals(accepted=1, waiting=1)
            assert await replica.log.forward() == []
            assert await replica.log.totals() == TurnTotals(accepted=1, waiting=1)

    async def test_a_spool_that_comes_back_older_takes_new_turns(self, shared: Installation) -> None:
        async with shared.replica(started=False) as replica:
            replica.log.append(a_turn("before"), remember=False)
            copy_spool(replica.spool, shared.directory / "restored")
            for number in range(5):
                replica.log.append(a_turn(str(number)), remember=False)
            await replica.log.forward()
        async with shared.replica("restored", started=False) as replica:
            for number in range(3):
                replica.log.append(a_turn(f"new {number}"), remember=False)
            assert [item.outcome for item in await replica.log.forward()] == [AppendOutcome.ACCEPTED] * 3
            assert (await replica.log.totals()).accepted == 9

    async def test_a_redis_that_comes_back_without_the_last_turns_is_sent_them_again(
        self, installation: Installation, own_redis_server: RedisServer, tmp_path: Path
    ) -> None:
        """It answers before what it was told is safe on its disk."""
        async with installation.replica() as replica:
            replica.log.append(a_turn("a", session="s"), remember=False)
            await until(lambda: has_arrived(replica.log, 1))
            own_redis_server.kill()
            shutil.copytree(own_redis_server.directory, tmp_path / "earlier")
            own_redis_server.start()
            replica.log.append(a_turn("b", session="s"), remember=False)
            replica.log.append(a_turn("c", session="s"), remember=False)
            await until(lambda: has_arrived(replica.log, 3))
            own_redis_server.kill()
            shutil.rmtree(own_redis_server.directory)
            shutil.copytree(tmp_path / "earlier", own_redis_server.directory)
            own_redis_server.start()
            # Though nothing else happens, it is noticed before the turns leave the spool.
            await until(partial(has_accepted, installation, 3))
            assert [turn.user_text for turn in (await claimed(replica.log, replica.arrived[0][1])).turns] == list("abc")
            assert await replica.log.totals() == TurnTotals(accepted=3, waiting=3)

    async def test_what_has_arrived_leaves_the_spool_after_a_while(self, shared: Installation) -> None:
        async with shared.replica() as replica:
            leave_the_spool_soon(replica.log)
            replica.log.append(a_turn("a xylophone"), remember=False)
            await until(lambda: has_arrived(replica.log, 1))
            await until(partial(spool_is_empty, replica.spool))
            await replica.log.compact()
            assert "xylophone" not in text_of(replica.spool.parent)

    async def test_a_turn_that_cannot_be_read_holds_up_nobody(self, shared: Installation) -> None:
        async with shared.replica(started=False) as replica:
            replica.log.append(a_turn("damaged"), remember=False)
            with closing(sqlite3.connect(replica.spool)) as spool, spool:
                spool.execute("UPDATE spool SET payload = 'damaged'")
            replica.log.append(a_turn("whole"), remember=False)
            await replica.log.start()
            await until(lambda: has_arrived(replica.log, 1))
            await until(lambda: more_than(replica.errors, 0))
            totals = await replica.log.totals()
            assert (totals.accepted, totals.waiting) == (2, 2)

    async def test_turns_go_on_while_one_that_cannot_be_read_waits_to_be_tried_again(
        self, shared: Installation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("semrouter_memory.turn_log.spool._BACKOFF", Backoff(first=3600.0, longest=3600.0))
        async with shared.replica(started=False) as replica:
            for text in ("damaged", "damaged too"):
                replica.log.append(a_turn(text), remember=False)
            with closing(sqlite3.connect(replica.spool)) as spool, spool:
                spool.execute("UPDATE spool SET payload = 'damaged'")
            await replica.log.start()
            await until(lambda: more_than(replica.errors, 1))
            for number in range(1, 41):
                replica.log.append(a_turn(f"turn {number}", session="s"), remember=False)
                await until(lambda number=number: has_arrived(replica.log, number))  # type: ignore[misc]
            assert len(replica.errors) == 2
            await replica.log.forward()
            assert len(replica.errors) == 4
            totals = await replica.log.totals()
            assert (totals.accepted, totals.waiting) == (42, 42)

    async def test_a_second_replica_on_one_data_directory_is_refused(self, shared: Installation) -> None:
        async with shared.replica(started=False):
            with pytest.raises(ConfigurationError, match="another process has it open"):
                async with shared.replica(started=False):
                    pass

    async def test_the_spool_is_its_owners_alone(self, shared: Installation) -> None:
        async with shared.replica(started=False) as replica:
            replica.log.append(a_turn("a"), remember=False)
            assert {path.stat().st_mode & 0o077 for path in replica.spool.parent.iterdir()} == {0}


def copy_spool(spool: Path, directory: Path) -> None:
    """The files as they are at this moment are what a killed process leaves."""
    shutil.copytree(spool.parent, directory)


class TestTotals:
    async def test_what_is_spooled_waits(self, shared: Installation) -> None:
        async with shared.replica(started=False) as replica:
            for number in range(3):
                replica.log.append(a_turn(str(number)), remember=False)
            replica.log.append(a_turn("tool call", complete=False), remember=False)
            assert await replica.log.totals() == TurnTotals(accepted=3, waiting=3)
            await replica.log.forward()
            assert await replica.log.totals() == TurnTotals(accepted=3, waiting=3)

    async def test_turns_forgotten_before_they_were_shipped_are_deleted_ones(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            for replica in (one, two):
                replica.log.append(a_turn("a"), remember=False)
                replica.log.append(a_turn("b", scope=BOB), remember=False)
            await one.log.tombstone(Tombstone(scope=ALICE, at=START))
            assert [item.outcome for item in await one.log.forward()] == ["forgotten", "accepted"]
            assert [item.outcome for item in await two.log.forward()] == ["forgotten", "accepted"]
            assert await one.log.totals() == TurnTotals(accepted=4, deleted=2, waiting=2)


class TestEnding:
    async def test_the_text_of_a_session_that_is_done_with_expires_and_what_waits_does_not(
        self, shared: Installation
    ) -> None:
        async with shared.replica(started=False) as replica:
            appended = await append(replica.log, a_turn("a", session="s", request="q", response="r"))
            with shared.client() as client:
                assert text_ttls(client, shared) == [-1]
                claim = await claimed(replica.log, appended.session_id)
                await replica.log.mark_episode(claim, through=claim.turns[0].sequence)
                await replica.log.finish(claim, {claim.turns[0].id: True})
                (ttl,) = text_ttls(client, shared)
                assert ttl > 0
                await append(replica.log, a_turn("b", session="s"))
                assert text_ttls(client, shared) == [-1]


def text_ttls(client: "Redis", installation: Installation) -> list[int]:
    return [int(client.ttl(name)) for name in client.scan_iter(f"{installation.prefix}:*:content")]


class TestForgetting:
    async def test_nothing_of_it_is_left_in_redis_or_in_the_files(
        self, installation: Installation, own_redis_server: RedisServer
    ) -> None:
        secret = "xylophone"
        eve = Scope(f"{secret}-eve", f"{secret}-project")
        server = own_redis_server
        async with installation.replica(started=False) as replica, installation.replica("two", started=False) as two:
            for each in (replica, two):
                leave_the_spool_soon(each.log)
            for number in range(40):
                named = f"{secret} {number}"
                turn = a_turn(
                    named,
                    scope=eve,
                    answer=named,
                    session=named if number % 2 else "",
                    response=named,
                    request=named,
                    retry=named,
                    transcripts=(named,),
                    complete=number % 5 > 0,
                )
                appended = await append(replica.log, turn)
                if appended.outcome == "accepted":
                    claim = await claimed(replica.log, appended.session_id, eve)
                    if number % 3 == 0:
                        await replica.log.finish(claim, {claim.turns[0].id: True})
                    elif number % 3 == 1:
                        await replica.log.fail(claim, "error", retry_at=START, max_attempts=1)
            await append(replica.log, a_turn("bob stays", scope=BOB))
            replica.log.append(a_turn(f"{secret} in the spool", scope=eve), remember=False)
            two.log.append(a_turn(f"{secret} in the other spool", scope=eve), remember=False)
            assert secret in everything_in(installation)
            assert secret in text_of(replica.spool.parent)
            await replica.log.tombstone(Tombstone(scope=eve, at=START, reach=Reach.ALL))
            assert secret not in everything_in(installation)
            assert "bob stays" in everything_in(installation)
            await two.log.forward()
            for each in (replica, two):
                await each.log.compact()
                assert secret not in text_of(each.spool.parent)
            await until(lambda: rewritten(installation))
            server.kill()
            assert secret not in text_of(server.directory / "appendonlydir")
            server.start()
            await until(lambda: has_arrived(replica.log, 1))


async def rewritten(installation: Installation) -> bool:
    with installation.client() as client:
        state: dict[str, int] = client.info("persistence")
        return state["aof_rewrite_in_progress"] == 0 and state["aof_rewrite_scheduled"] == 0


def everything_in(installation: Installation) -> str:
    """Every key with its value, as text."""
    with installation.client() as client:
        parts = [part for name in client.scan_iter() for part in (name, client.type(name), whole(client, name))]
    return repr(parts)


def whole(client: "Redis", name: bytes) -> object:
    kind = client.type(name)
    match kind:
        case b"string":
            return client.get(name)
        case b"hash":
            return client.hgetall(name)
        case b"zset":
            return client.zrange(name, 0, -1, withscores=True)
        case b"set":
            return client.smembers(name)
        case b"stream":
            return client.xrange(name)
    raise AssertionError(kind)


def text_of(directory: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in directory.rglob("*") if path.is_file())


class TestSettings:
    @pytest.mark.parametrize("url", ["http://localhost:6379", "localhost:6379", "redis://", "unix://", ""])
    def test_a_url_of_another_kind_is_refused_with_the_fix(self, redis_server: RedisServer, url: str) -> None:
        with pytest.raises(ConfigurationError, match=r"memory\.redis\.url.*redis://127\.0\.0\.1:6379/0"):
            RedisConnection(redis_server.config().model_copy(update={"url": url}))

    def test_a_password_does_not_belong_into_the_url(self, redis_server: RedisServer) -> None:
        config = redis_server.config().model_copy(update={"url": "redis://user:geheim@localhost:6379/0"})
        with pytest.raises(ConfigurationError, match=r"memory\.redis\.password_file") as caught:
            RedisConnection(config)
        assert "geheim" not in str(caught.value)
