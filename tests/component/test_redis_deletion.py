"""Deletions beside other replicas, and beside turns that have ended by themselves, on a real Redis."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from semrouter_memory.model import AppendOutcome, Reach, Scope, Tombstone, TurnTotals
from semrouter_memory.turn_log import removal
from semrouter_memory.turn_log.redis.log import RedisTurnLog
from semrouter_memory.turn_log.storage import Storage
from tests.contract.turn_logs import ALICE, BOB, a_turn, accept, append, claimed
from tests.redis_server import RedisServer
from tests.replicas import Installation, until

SHORT = timedelta(milliseconds=200)
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


def short_lived(log: RedisTurnLog) -> None:
    """From now on what is finished ends after a moment."""
    log._redis.known = None
    log._redis._keep = SHORT


async def a_turn_that_ended(log: RedisTurnLog, shared: Installation, *, before_a_dead_letter: bool = False) -> str:
    """A finished turn whose own key is gone; returns its session."""
    session = await accept(log, a_turn("a xylophone", session="s", request="1"))
    claim = await claimed(log, session)
    first = claim.turns[0].id
    await log.finish(claim, {first: True})
    if before_a_dead_letter:
        await accept(log, a_turn("second", session="s", request="2", at=shared.clock.step(1)))
        claim = await claimed(log, session)
        await log.fail(claim, "x", retry_at=shared.clock.now(), max_attempts=1)

    async def has_ended() -> bool:
        return await log.get_turn(first) is None

    await until(has_ended)
    return session


def streams(shared: Installation) -> list[object]:
    with shared.client() as client:
        names = list(client.scan_iter(f"{shared.prefix}:session:*:content"))
        return [client.xrange(name) for name in names]


class TestTurnsThatEndedBeforeASweep:
    @pytest.mark.parametrize("way", ["sweep", "deletion"])
    async def test_their_words_do_not_stay_in_a_session_that_goes_on(self, shared: Installation, way: str) -> None:
        async with shared.replica(started=False) as replica:
            short_lived(replica.log)
            await a_turn_that_ended(replica.log, shared, before_a_dead_letter=True)
            assert "xylophone" in str(streams(shared))
            if way == "sweep":
                await replica.log.sweep(finished_before=shared.clock.step(100))
                assert "second" in str(streams(shared))
            else:
                await replica.log.tombstone(Tombstone(scope=ALICE, at=shared.clock.step(1), reach=EVERYTHING))
            assert "xylophone" not in str(streams(shared))

    async def test_a_session_goes_with_its_last_turn(self, shared: Installation) -> None:
        async with shared.replica(started=False) as replica:
            short_lived(replica.log)
            session = await a_turn_that_ended(replica.log, shared)
            # Nobody has summed it up, so it is there still, with nothing in it.
            assert [item.session_id for item in await replica.log.pending()] == [session]
            await replica.log.sweep(finished_before=shared.clock.step(100))
            assert await replica.log.pending() == []
            with shared.client() as client:
                assert list(client.scan_iter(f"{shared.prefix}:session:*")) == []
                assert client.zcard(f"{shared.prefix}:kept") == 0

    async def test_a_deletion_takes_such_a_session_too(self, shared: Installation) -> None:
        async with shared.replica(started=False) as replica:
            await accept(replica.log, a_turn("of another owner", scope=BOB, session="s"))
            short_lived(replica.log)
            await a_turn_that_ended(replica.log, shared)
            await replica.log.tombstone(Tombstone(scope=ALICE, at=shared.clock.step(1), reach=EVERYTHING))
            assert [item.scope for item in await replica.log.pending()] == [BOB]

    @pytest.mark.parametrize("way", ["claim", "deletion"])
    async def test_a_pending_session_whose_keys_are_gone_is_none_any_more(self, shared: Installation, way: str) -> None:
        async with shared.replica(started=False) as replica:
            session = await accept(replica.log, a_turn("a", session="s"))
            with shared.client() as client:
                client.delete(
                    *client.scan_iter(f"{shared.prefix}:session:*"), *client.scan_iter(f"{shared.prefix}:turn:*")
                )
            assert len(await replica.log.pending()) == 1
            if way == "claim":
                assert await replica.log.claim(ALICE, session, lease=SHORT, context=0) is None
            else:
                await replica.log.tombstone(Tombstone(scope=ALICE, at=shared.clock.step(1), reach=EVERYTHING))
            assert await replica.log.pending() == []
            with shared.client() as client:
                assert client.hlen(f"{shared.prefix}:pending") == 0
