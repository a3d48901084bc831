"""Two replicas on one real Redis: one extracts, nothing is doubled, and every accepted turn is accounted for."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import AppendOutcome, Claim, Reach, Scope, Tombstone, ToolUse, TurnState, TurnTotals
from semrouter_memory.turn_log.redis_log import RedisTurnLog
from tests.contract.turn_logs import ALICE, BOB, LEASE, START, a_turn, append, claimed
from tests.redis_server import RedisServer
from tests.replicas import Installation, Replica, until

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def shared(redis_server: RedisServer, tmp_path: Path) -> Installation:
    """On the server that all tests share, for tests that leave it alone."""
    return Installation(redis_server.url, tmp_path)


class TestOneOfThemExtracts:
    async def test_of_many_that_ask_at_once_exactly_one_gets_the_claim(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            for number in range(20):
                session = (await append(one.log, a_turn(str(number)))).session_id
                asked = [log.claim(ALICE, session, lease=LEASE, context=0) for log in (one.log, two.log) * 3]
                claims = [claim for claim in await asyncio.gather(*asked) if claim is not None]
                assert len(claims) == 1

    async def test_a_replica_that_died_is_taken_over_after_its_lease(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            session = (await append(one.log, a_turn("a"))).session_id
            dead = await claimed(one.log, session)
            assert await two.log.pending() == []
            shared.clock.step(LEASE.total_seconds())
            assert [item.session_id for item in await two.log.pending()] == [session]
            current = await claimed(two.log, session)
            await one.log.finish(dead, {dead.turns[0].id: True})
            assert await one.log.surviving(dead) == frozenset()
            await two.log.finish(current, {current.turns[0].id: False})
            assert await one.log.totals() == TurnTotals(accepted=1, empty=1)

    async def test_a_claim_that_nobody_waits_for_any_more_is_given_back(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one:
            session = (await append(one.log, a_turn("a"))).session_id
            for _ in range(20):
                asking = asyncio.create_task(one.log.claim(ALICE, session, lease=LEASE, context=0))
                for _ in range(random.randrange(6)):
                    await asyncio.sleep(0)
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking
                assert [item.session_id for item in await one.log.pending()] == [session]

    async def test_one_offers_what_the_other_shipped(self, shared: Installation) -> None:
        async with shared.replica() as one, shared.replica("two", started=False) as two:
            one.log.append(a_turn("a", session="s"), remember=True)

            async def offered() -> bool:
                return [item.remember for item in await two.log.pending()] == [True]

            await until(offered)


class TestPauses:
    async def test_every_replica_heeds_them(self, shared: Installation) -> None:
        """What was spooled elsewhere in a pause is not stored when it arrives after it."""
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            await append(two.log, a_turn("before", session="s"))
            await one.log.set_paused(ALICE, paused=True)
            assert (await two.log.tombstones(ALICE)).paused_since is not None
            shared.clock.step(1)
            two.log.append(a_turn("meanwhile", session="s", at=shared.clock.now()), remember=False)
            shared.clock.step(1)
            await one.log.set_paused(ALICE, paused=False)
            assert (await two.log.tombstones(ALICE)).paused_since is None
            shared.clock.step(1)
            two.log.append(a_turn("after", session="s", at=shared.clock.now()), remember=False)
            assert [each.outcome for each in await two.log.forward()] == ["forgotten", "accepted"]
            asked = replace(a_turn("not this", session="s"), pauses_session=True)
            assert (await append(one.log, asked)).outcome is AppendOutcome.FORGOTTEN
            assert (await append(two.log, a_turn("more", session="s"))).outcome is AppendOutcome.FORGOTTEN
            assert await one.log.pending() == []
            assert await two.log.totals() == TurnTotals(accepted=5, deleted=5)


class TestLooking:
    async def test_again_reads_only_what_changed(self, own_redis_server: RedisServer, tmp_path: Path) -> None:
        shared = Installation(own_redis_server.url, tmp_path)
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            for number in range(50):
                session = (await append(one.log, a_turn(str(number)))).session_id
            assert len(await two.log.pending()) == 50
            with shared.client() as client:
                client.config_resetstat()
                await append(one.log, a_turn("more", session="s"))
                claim = await claimed(one.log, session)
                await one.log.mark_episode(claim, through=claim.turns[0].sequence)
                await one.log.finish(claim, {claim.turns[0].id: True})
                assert len(await two.log.pending()) == 50
                assert session not in [item.session_id for item in await two.log.pending()]
                assert "cmdstat_hscan" not in client.info("commandstats")

    async def test_after_more_changes_than_are_kept_reads_all_again(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            await append(one.log, a_turn("a"))
            assert len(await two.log.pending()) == 1
            await append(one.log, a_turn("b"))
            await append(one.log, a_turn("c"))
            with shared.client() as client:
                client.xtrim(f"{shared.prefix}:changed", maxlen=1, approximate=False)
            assert len(await two.log.pending()) == 3


class TestNothingIsDoubled:
    async def test_retries_that_both_ship_are_one_turn(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            for number in range(30):
                turn = a_turn(f"turn {number}", session="s", request=str(number))
                for replica in (one, two):
                    replica.log.append(turn, remember=False)
            await asyncio.gather(one.log.forward(), two.log.forward())
            assert await two.log.totals() == TurnTotals(accepted=30, waiting=30)

    @pytest.mark.parametrize("last_first", [False, True])
    async def test_a_loop_whose_steps_come_to_both_is_one_turn(self, shared: Installation, *, last_first: bool) -> None:
        """In whichever order they arrive."""
        later = START + timedelta(minutes=20)
        steps = [
            replace(a_turn("I live in Bergen.", answer=""), looped=True),
            replace(a_turn("I live in Bergen.", answer="Noted.", tools=(ToolUse("note"),), at=later), looped=True),
        ]
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            for replica, step in zip((one, two), reversed(steps) if last_first else steps, strict=True):
                await append(replica.log, step)
            (pending,) = await one.log.pending()
            (turn,) = (await claimed(two.log, pending.session_id)).turns
            assert (turn.user_text, turn.assistant_text) == ("I live in Bergen.", "Noted.")
            assert await two.log.totals() == TurnTotals(accepted=1, waiting=1)

    async def test_turns_of_one_user_that_come_to_both_are_all_there(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            for number in range(60):
                for name, replica in (("one", one), ("two", two)):
                    replica.log.append(a_turn(f"{name} {number}", session=name), remember=False)
            await asyncio.gather(one.log.forward(), two.log.forward())
            for name, replica in (("one", two), ("two", one)):
                ended = await replica.log.end_session(ALICE, name)
                assert ended is not None
                turns = (await claimed(replica.log, ended.session_id)).turns
                assert [turn.user_text for turn in turns] == [f"{name} {number}" for number in range(60)]

    async def test_a_chain_goes_on_from_replica_to_replica(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            first = await append(one.log, a_turn("a", answer="A", response="r1"))
            second = await append(two.log, a_turn("b", answer="B", before="r1", response="r2"))
            assert second.session_id == first.session_id
            assert [item.text for item in await one.log.history(ALICE, "r2", limit=9)] == ["a", "A", "b", "B"]


class TestDeletionsReachAll:
    async def test_the_others_know_at_once(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            for replica in (one, two):
                await replica.log.pending()
            assert not (await two.log.tombstones(ALICE)).forbids(ALICE, "anything", START)
            await one.log.tombstone(Tombstone(scope=ALICE, at=START))
            assert (await two.log.tombstones(ALICE)).forbids(ALICE, "anything", START)
            content_hash = one.log.content_hash("User likes tea")
            at = START + timedelta(seconds=1)
            await one.log.tombstone(Tombstone(scope=ALICE, at=at, memory_id="m", content_hash=content_hash))
            assert (await two.log.tombstones(ALICE)).forbids(ALICE, "user likes TEA.", at)

    async def test_turns_that_another_is_working_on_do_not_survive(self, shared: Installation) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            session = (await append(one.log, a_turn("a"))).session_id
            claim = await claimed(one.log, session)
            await two.log.tombstone(Tombstone(scope=ALICE, at=START))
            assert await one.log.surviving(claim) == frozenset()

    async def test_a_deletion_that_was_broken_off_is_brought_to_its_end_by_any_sweep(
        self, shared: Installation
    ) -> None:
        async with shared.replica(started=False) as one, shared.replica("two", started=False) as two:
            await append(one.log, a_turn("a"))
            await append(one.log, a_turn("b", scope=BOB))
            with shared.client() as client:
                (owner,) = [
                    json.loads(client.get(name))["owner"]  # type: ignore[arg-type]
                    for name in client.scan_iter(f"{shared.prefix}:turn:1")
                ]
                # What the first transaction of a deletion leaves.
                client.hset(f"{shared.prefix}:owner:{owner}:deleted", mapping={"e": 2**60, "v": "x"})
                client.sadd(f"{shared.prefix}:purges", owner)
            await two.log.sweep(finished_before=START)
            assert await one.log.totals() == TurnTotals(accepted=2, waiting=1, deleted=1)
            assert [turn.scope for turn in await one.log.list_turns(scope=None, states=None, limit=9)] == [BOB]


SCOPES = [ALICE, Scope("alice", "work"), BOB]


class Operations:
    """Whatever two replicas may be asked for, drawn at random; what fails because Redis is away is let go."""

    def __init__(self, installation: Installation, seed: int) -> None:
        self._installation = installation
        self._random = random.Random(seed)
        self._claims: list[tuple[RedisTurnLog, Claim]] = []
        self.accepted = 0
        self._number = 0

    async def once(self, replicas: list[Replica]) -> None:
        log = self._random.choice(replicas).log
        operations = [self._append] * 6 + [self._claim] * 3 + [self._end_claim] * 3 + [self._delete, self._sweep]
        with suppress(TurnLogError):
            await self._random.choice(operations)(log)

    async def _append(self, log: RedisTurnLog) -> None:
        for _ in range(self._random.randint(1, 8)):
            self._number += 1
            turn = a_turn(
                str(self._number),
                scope=self._random.choice(SCOPES),
                at=self._installation.clock.step(1),
                session=self._random.choice(["", "s", "t"]),
                response=str(self._number),
                before=self._random.choice(["", str(self._number - 1)]),
                complete=self._random.random() < 0.8,
            )
            if log.append(turn, remember=False).outcome is AppendOutcome.ACCEPTED:
                self.accepted += 1

    async def _claim(self, log: RedisTurnLog) -> None:
        await log.forward()
        for pending in (await log.pending())[:3]:
            lease = timedelta(seconds=self._random.choice([0, 30]))
            claim = await log.claim(pending.scope, pending.session_id, lease=lease, context=2)
            if claim is not None:
                self._claims.append((log, claim))

    async def _end_claim(self, log: RedisTurnLog) -> None:
        if not self._claims:
            return
        _, claim = self._claims.pop(self._random.randrange(len(self._claims)))
        match self._random.randrange(4):
            case 0:
                await log.fail(claim, "error", retry_at=self._installation.clock.now(), max_attempts=2)
            case 1:
                await log.release(claim)
            case _:
                await log.finish(claim, {turn.id: self._random.random() < 0.5 for turn in claim.turns[:2]})

    async def _delete(self, log: RedisTurnLog) -> None:
        turns = await log.list_turns(scope=None, states=None, limit=20)
        ids = [turn.id for turn in turns if self._random.random() < 0.2]
        match self._random.randrange(4):
            case 0:
                scope, reach = self._random.choice(SCOPES), self._random.choice([Reach.ALL, Reach.EXACT])
                await log.tombstone(Tombstone(scope=scope, at=self._installation.clock.now(), reach=reach))
            case 1:
                await log.tombstone(
                    Tombstone(scope=ALICE, at=self._installation.clock.now(), memory_id="m"), turn_ids=ids
                )
            case 2:
                await log.drop(ids)
            case _:
                await log.retry([turn.id for turn in turns if turn.state is TurnState.DEAD])

    async def _sweep(self, log: RedisTurnLog) -> None:
        await log.sweep(finished_before=self._installation.clock.now() - timedelta(seconds=100))


class TestEveryTurnIsAccountedFor:
    @pytest.mark.parametrize("seed", [1, 2])
    async def test_whatever_happens_and_whenever_the_server_dies(
        self, own_redis_server: RedisServer, tmp_path: Path, seed: int
    ) -> None:
        installation = Installation(own_redis_server.url, tmp_path)
        operations = Operations(installation, seed)
        async with installation.replica() as one, installation.replica("two") as two:
            for number in range(300):
                await operations.once([one, two])
                if number % 60 == 30:
                    own_redis_server.kill()
                if number % 60 == 40:
                    own_redis_server.start()
                    await until(lambda: both_available(one, two))
            await until(lambda: nothing_spooled(one, two))
            # What the server lost when it was killed comes again.
            await until(lambda: all_arrived(one, operations.accepted))
            totals = await one.log.totals()
            assert totals == await two.log.totals()
            ends = totals.extracted + totals.empty + totals.dead_lettered + totals.deleted + totals.waiting
            assert totals.accepted == ends == operations.accepted
            assert min(totals.extracted + totals.empty, totals.deleted) > 0
            states = [turn.state for turn in await one.log.list_turns(scope=None, states=None, limit=9999)]
            assert states.count(TurnState.WAITING) == totals.waiting
            assert states.count(TurnState.DEAD) == totals.dead_lettered
            assert one.errors == two.errors == []

    async def test_a_sidecar_that_is_killed_has_lost_nothing_that_it_acknowledged(
        self, redis_server: RedisServer, tmp_path: Path
    ) -> None:
        shared = Installation(redis_server.url, tmp_path)
        acknowledged = sum(acknowledged_before_a_kill(shared, tmp_path / "killed", run) for run in range(3))
        async with shared.replica("killed", started=False) as replica:
            await replica.log.forward()
            totals = await replica.log.totals()
            # A turn may be committed and its acknowledgement not written any more.
            assert acknowledged <= totals.accepted <= acknowledged + 3
            assert totals.waiting == totals.accepted
            texts = [turn.user_text for turn in await replica.log.list_turns(scope=None, states=None, limit=9999)]
            assert len(texts) == len(set(texts)) == totals.accepted


def acknowledged_before_a_kill(installation: Installation, directory: Path, run: int) -> int:
    """Let a sidecar accept turns in a process of its own, and kill it in the middle."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, __file__, installation.url, installation.prefix, str(directory), str(run)],
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    turns = random.Random(run).randint(20, 150)
    for _ in range(turns):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    # What it had acknowledged before it died, and nobody had read yet.
    unread = len(process.stdout.read().splitlines())
    process.stdout.close()
    process.wait()
    return turns + unread


async def both_available(one: Replica, two: Replica) -> bool:
    return one.connection.available and two.connection.available


async def all_arrived(replica: Replica, turns: int) -> bool:
    return (await replica.log.totals()).accepted == turns


async def nothing_spooled(one: Replica, two: Replica) -> bool:
    with suppress(TurnLogError):
        return await one.log.forward() == await two.log.forward() == []
    return False


async def append_until_killed(url: str, prefix: str, directory: Path, run: str) -> None:
    """What the killed sidecar does."""
    installation = Installation(url, directory.parent, prefix=prefix)
    async with installation.replica(directory.name) as replica:
        number = 0
        while True:
            number += 1
            replica.log.append(a_turn(f"run {run} turn {number}", session="s"), remember=False)
            sys.stdout.write("accepted\n")
            sys.stdout.flush()
            await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(append_until_killed(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
