"""Deletions beside other replicas, and of turns whose texts have expired, on a real Redis."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.model import AppendOutcome, Reach, Scope, Tombstone, TurnTotals
from semrouter_memory.state.redis import RedisOwnerLocks
from semrouter_memory.store import supervisor
from semrouter_memory.turn_log import removal
from semrouter_memory.turn_log.storage import Storage
from tests.component.test_milvus_write_ahead import eventually_open, interrupted, opened, version
from tests.contract.turn_logs import ALICE, BOB, START, a_turn, accept, append, claimed
from tests.memories import memory
from tests.redis_server import RedisServer
from tests.replicas import Installation, until

pytestmark = pytest.mark.usefixtures("patient")

EVERYTHING = Reach.ALL


@pytest.fixture
def shared(redis_server: RedisServer, tmp_path: Path) -> Installation:
    return Installation(redis_server.url, tmp_path)


@pytest.fixture
def between_tombstone_and_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As long as this is in force, a deletion comes as far as its tombstone."""

    async def nothing(storage: Storage, scope_or_owner: Scope | str) -> None:
        pass

    monkeypatch.setattr(removal, "purge", nothing)
    yield
    monkeypatch.undo()


async def test_a_replica_knows_its_own_deletions_when_redis_is_too_slow_to_ask(
    shared: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shared.replica(started=False) as replica:
        said = shared.clock.step(1)
        for memory_id in ("one", "two"):
            deleted = Tombstone(scope=ALICE, at=shared.clock.step(1), memory_id=memory_id, content_hash="hash")
            await replica.log.tombstone(deleted)
        await replica.log.tombstone(Tombstone(scope=BOB, at=shared.clock.step(1), reach=EVERYTHING))
        monkeypatch.setattr(RedisConnection, "responsive", False)
        known = await replica.log.tombstones(ALICE)
        assert [known.covers(memory(ALICE, name)) for name in ("one", "two", "three")] == [True, True, False]
        assert (await replica.log.tombstones(BOB)).forbids(BOB, "anything", said)


async def test_a_write_that_was_interrupted_waits_for_redis_which_knows_what_was_deleted(
    own_redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the memory would be recalled until Redis is back."""
    monkeypatch.setattr(supervisor, "UNSETTLED_SECONDS", 0.1)
    interrupted(tmp_path, [version(ALICE, "deleted", 1), version(ALICE, "kept", 1)])
    installation = Installation(own_redis_server.url, tmp_path / "logs")
    async with installation.replica("two") as two:
        await two.log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="deleted"))
    own_redis_server.kill()
    async with installation.replica() as one:
        locks = RedisOwnerLocks(one.connection, prefix=installation.prefix, lock_seconds=30)
        async with opened(tmp_path, tombstones=one.log.tombstones, locks=locks) as store:
            assert await store.get(ALICE, "deleted") is None
            own_redis_server.start()
            await eventually_open(tmp_path, 0)
            assert await store.get(ALICE, "deleted") is None
            assert await store.get(ALICE, "kept") is not None


class TestBetweenTheTombstoneAndTheTurns:
    async def test_a_step_that_arrives_takes_over_nothing_of_what_was_deleted(
        self, shared: Installation, monkeypatch: pytest.MonkeyPatch, between_tombstone_and_turns: None
    ) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            await append(one.log, a_turn("my secret is blue", complete=False, response="r1"))
            now = shared.clock.step(10)
            await one.log.tombstone(Tombstone(scope=ALICE, at=now, reach=EVERYTHING))
            last = a_turn("", at=shared.clock.step(1), before="r1", response="r2", answer="all right")
            session = await accept(two.log, last)
            monkeypatch.undo()
            claim = await claimed(one.log, session)
            assert [(turn.user_text, turn.assistant_text) for turn in claim.turns] == [("", "all right")]
            assert await one.log.surviving(claim) == {claim.turns[0].id}
            await one.log.finish(claim, {claim.turns[0].id: False})
            await one.log.sweep(finished_before=now)
            assert [turn.user_text for turn in await one.log.list_turns(scope=ALICE, states=None, limit=9)] == [""]
            assert await one.log.totals() == TurnTotals(accepted=1, empty=1)

    async def test_what_is_said_again_is_no_repetition_of_what_was_deleted(
        self, shared: Installation, between_tombstone_and_turns: None
    ) -> None:
        async with shared.replica(started=False) as replica:
            await accept(replica.log, a_turn("I like tea", request="q"))
            await replica.log.tombstone(Tombstone(scope=ALICE, at=shared.clock.step(10), reach=EVERYTHING))
            again = await append(replica.log, a_turn("I like tea", at=shared.clock.step(1), request="q"))
            assert again.outcome is AppendOutcome.ACCEPTED


class TestExpiredTexts:
    @pytest.mark.parametrize("way", ["sweep", "deletion"])
    async def test_a_turn_without_its_text_goes_with_all_that_leads_to_it(self, shared: Installation, way: str) -> None:
        async with shared.replica(started=False) as replica:
            replica.log._known = None
            replica.log._keep = timedelta(milliseconds=50)
            await accept(replica.log, a_turn("of another owner", scope=BOB, session="s"))
            before = keys(shared)
            for session in ("s", "t"):
                stored = await accept(
                    replica.log, a_turn("a xylophone", session=session, request=session, response="r")
                )
                claim = await claimed(replica.log, stored)
                await replica.log.mark_episode(claim, through=claim.turns[0].sequence)
                await replica.log.finish(claim, {claim.turns[0].id: True})

            async def has_expired() -> bool:
                return await replica.log.list_turns(scope=ALICE, states=None, limit=5) == []

            await until(has_expired)
            if way == "sweep":
                assert await replica.log.sweep(finished_before=shared.clock.step(100)) == 2
            else:
                await replica.log.tombstone(Tombstone(scope=ALICE, at=shared.clock.step(1), reach=EVERYTHING))
            left = {name for name in keys(shared) - before if not name.endswith((b":version", b":deleted", b":dead"))}
            assert left == set()


def keys(shared: Installation) -> set[bytes]:
    with shared.client() as client:
        return set(client.scan_iter(f"{shared.prefix}:*"))
