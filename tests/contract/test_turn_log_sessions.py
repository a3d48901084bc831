"""What every turn log promises about sessions' ends, chains with their items, and turns one by one."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.model import (
    AppendOutcome,
    LoggedTurn,
    PendingSession,
    Reach,
    Scope,
    StoredChain,
    Tombstone,
    Turn,
    TurnState,
)
from semrouter_memory.turn_log import removal
from tests.contract.turn_logs import (
    ALICE,
    BOB,
    LEASE,
    START,
    SteppedClock,
    WholeTurnLog,
    a_turn,
    accept,
    append,
    claimed,
    outcome,
)

WORK = Scope("alice", "work")


async def finished(log: WholeTurnLog, session: str, scope: Scope = ALICE) -> None:
    """Everything that waits in the session is extracted."""
    claim = await claimed(log, session, scope)
    await log.finish(claim, {turn.id: True for turn in claim.turns})


async def dead(log: WholeTurnLog, session: str, clock: SteppedClock, scope: Scope = ALICE) -> None:
    """Everything that waits in the session is a dead letter."""
    claim = await claimed(log, session, scope)
    await log.fail(claim, "timeout", retry_at=clock.now() + LEASE, max_attempts=1)


async def only_pending(log: WholeTurnLog) -> PendingSession:
    (pending,) = await log.pending()
    return pending


def texts(turns: Sequence[LoggedTurn]) -> list[str]:
    return [turn.user_text for turn in turns]


class TestEpisodes:
    async def test_a_session_is_pending_until_it_is_summed_up(self, turn_log: WholeTurnLog) -> None:
        for text in ("a", "b"):
            session = await accept(turn_log, a_turn(text, session="s"))
        pending = await only_pending(turn_log)
        assert (pending.waiting, pending.unsummarised, pending.ended) == (2, 2, False)
        await finished(turn_log, session)
        pending = await only_pending(turn_log)
        assert (pending.waiting, pending.rules_pending, pending.unsummarised) == (0, 0, 2)
        assert (pending.scope, pending.session_id, pending.last_observed_at) == (ALICE, session, START)
        claim = await claimed(turn_log, session)
        assert (claim.turns, claim.context, claim.unsummarised, claim.ended) == ((), (), 2, False)
        turns = await turn_log.session_turns(claim, limit=10)
        await turn_log.mark_episode(claim, through=turns[-1].sequence)
        await turn_log.release(claim)
        assert await turn_log.pending() == []
        assert await turn_log.claim(ALICE, session, lease=LEASE, context=0) is None

    async def test_only_turns_since_the_last_episode_count(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        claim = await claimed(turn_log, session)
        await accept(turn_log, a_turn("b", session="s"))
        await turn_log.mark_episode(claim, through=claim.turns[-1].sequence)
        await turn_log.release(claim)
        pending = await only_pending(turn_log)
        assert (pending.waiting, pending.unsummarised) == (2, 1)
        await finished(turn_log, session)
        claim = await claimed(turn_log, session)
        assert claim.unsummarised == 1
        summarised, new = await turn_log.session_turns(claim, limit=10)
        assert texts([summarised, new]) == ["a", "b"]
        await turn_log.release(claim)
        await turn_log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m"), turn_ids=[summarised.id])
        assert (await only_pending(turn_log)).unsummarised == 1
        await turn_log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m"), turn_ids=[new.id])
        assert await turn_log.pending() == []

    async def test_waiting_turns_wait_whatever_is_summed_up(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a"))
        claim = await claimed(turn_log, session)
        await turn_log.mark_episode(claim, through=claim.turns[-1].sequence)
        await turn_log.release(claim)
        pending = await only_pending(turn_log)
        assert (pending.waiting, pending.unsummarised) == (1, 0)

    async def test_the_last_accepted_turns_come_oldest_first_whatever_their_state(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("first", session="s"))
        await finished(turn_log, session)
        await accept(turn_log, a_turn("second", session="s"))
        await dead(turn_log, session, clock)
        await accept(turn_log, a_turn("third", session="s", transcripts=("h3",)))
        await append(turn_log, a_turn("half said", session="s", response="r", complete=False))
        claim = await claimed(turn_log, session)
        turns = await turn_log.session_turns(claim, limit=10)
        assert texts(turns) == ["first", "second", "third"]
        assert [turn.state for turn in turns] == [TurnState.EXTRACTED, TurnState.DEAD, TurnState.WAITING]
        assert (turns[1].error, turns[1].attempts) == ("timeout", 1)
        assert turns[2].transcript_hashes == ("h3",)
        assert texts(await turn_log.session_turns(claim, limit=2)) == ["second", "third"]
        assert await turn_log.session_turns(claim, limit=0) == ()

    async def test_a_claim_that_is_lost_sees_and_marks_nothing(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("a"))
        stale = await claimed(turn_log, session)
        clock.step(LEASE.total_seconds())
        current = await claimed(turn_log, session)
        assert await turn_log.session_turns(stale, limit=10) == ()
        await turn_log.mark_episode(stale, through=stale.turns[-1].sequence)
        await turn_log.release(current)
        assert (await only_pending(turn_log)).unsummarised == 1

    async def test_a_failed_episode_backs_off_and_kills_no_turn(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, replace(a_turn("a"), ends_session=True))
        await finished(turn_log, session)
        claim = await claimed(turn_log, session)
        retry_at = clock.now() + LEASE
        assert await turn_log.fail(claim, "model_failed", retry_at=retry_at, max_attempts=1) == 0
        pending = await only_pending(turn_log)
        assert (pending.unsummarised, pending.ended, pending.not_before) == (1, True, retry_at)
        assert (await turn_log.totals()).extracted == 1

    async def test_sessions_with_waiting_turns_come_first(self, turn_log: WholeTurnLog) -> None:
        idle = await accept(turn_log, a_turn("a", session="idle"))
        await finished(turn_log, idle)
        busy = await accept(turn_log, a_turn("b", session="busy"))
        assert [pending.session_id for pending in await turn_log.pending()] == [busy, idle]

    async def test_a_repetition_is_no_further_turn_to_sum_up(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("a", session="s"))
        assert await outcome(turn_log, a_turn("a", session="s")) is AppendOutcome.DUPLICATE
        assert (await only_pending(turn_log)).unsummarised == 1

    async def test_transcripts_of_repetitions_are_known_too(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", session="s", transcripts=("h1", "h1b")))
        await append(turn_log, a_turn("a", session="s", transcripts=("h2", "h1")))
        (turn,) = (await claimed(turn_log, session)).turns
        assert turn.transcript_hashes == ("h1", "h1b", "h2")

    async def test_what_retention_takes_is_not_summed_up_any_more(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        await finished(turn_log, await accept(turn_log, a_turn("a")))
        clock.step(1)
        await turn_log.sweep(finished_before=clock.now())
        assert await turn_log.pending() == []


class TestAnnouncedEnd:
    async def test_it_stands_until_an_episode_covers_it_whatever_becomes_of_its_turns(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, replace(a_turn("a", session="s"), ends_session=True))
        await turn_log.release(await claimed(turn_log, session))
        assert (await only_pending(turn_log)).ended is True
        await turn_log.fail(await claimed(turn_log, session), "model_failed", retry_at=clock.now(), max_attempts=9)
        assert (await only_pending(turn_log)).ended is True
        await finished(turn_log, session)
        pending = await only_pending(turn_log)
        assert (pending.waiting, pending.unsummarised, pending.ended) == (0, 1, True)

    async def test_with_a_turn(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        assert (await only_pending(turn_log)).ended is False
        await accept(turn_log, replace(a_turn("b", session="s"), ends_session=True))
        assert (await only_pending(turn_log)).ended is True
        claim = await claimed(turn_log, session)
        assert claim.ended is True
        await turn_log.mark_episode(claim, through=claim.turns[-1].sequence)
        await turn_log.finish(claim, {turn.id: True for turn in claim.turns})
        assert await turn_log.pending() == []
        await accept(turn_log, a_turn("c", session="s"))
        assert (await only_pending(turn_log)).ended is False

    async def test_a_repetition_may_announce_it(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("a", session="s"))
        again = replace(a_turn("a", session="s"), ends_session=True)
        assert await outcome(turn_log, again) is AppendOutcome.DUPLICATE
        assert (await only_pending(turn_log)).ended is True

    @pytest.mark.parametrize("by_call", [True, False])
    async def test_it_stands_while_a_deletion_elsewhere_is_not_complete(
        self, turn_log: WholeTurnLog, monkeypatch: pytest.MonkeyPatch, *, by_call: bool
    ) -> None:
        async def interrupted(*_: object) -> None:
            pass

        await accept(turn_log, a_turn("a", session="s"))
        if by_call:
            await turn_log.end_session(ALICE, "s")
        else:
            await append(turn_log, replace(a_turn("a", session="s"), ends_session=True))
        monkeypatch.setattr(removal, "purge", interrupted)
        await turn_log.tombstone(Tombstone(scope=WORK, at=START, reach=Reach.EXACT))
        assert (await only_pending(turn_log)).ended is True

    async def test_with_the_first_step_of_a_tool_loop_it_counts_from_the_answer_on(
        self, turn_log: WholeTurnLog
    ) -> None:
        await accept(turn_log, a_turn("hello", response="r0"))
        await append(
            turn_log, replace(a_turn("find it", before="r0", response="r1", complete=False), ends_session=True)
        )
        assert (await only_pending(turn_log)).ended is False
        await accept(turn_log, a_turn(before="r1", response="r2"))
        pending = await only_pending(turn_log)
        assert (pending.unsummarised, pending.ended) == (2, True)

    async def test_one_that_comes_during_an_episode_is_not_lost(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        claim = await claimed(turn_log, session)
        await accept(turn_log, replace(a_turn("b", session="s"), ends_session=True))
        await turn_log.mark_episode(claim, through=claim.turns[-1].sequence)
        await turn_log.release(claim)
        pending = await only_pending(turn_log)
        assert (pending.unsummarised, pending.ended) == (1, True)

    @pytest.mark.parametrize(
        "turn",
        [a_turn("a", session="my holiday"), a_turn("a", conversation="my holiday")],
        ids=["header", "conversation"],
    )
    async def test_by_what_the_client_calls_the_session(self, turn_log: WholeTurnLog, turn: Turn) -> None:
        session = await accept(turn_log, turn)
        ended = await turn_log.end_session(ALICE, "my holiday")
        assert ended is not None
        assert (ended.session_id, ended.waiting, ended.unsummarised, ended.ended) == (session, 1, 1, True)
        assert ended == await only_pending(turn_log)

    async def test_by_the_logs_own_id(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a"))
        assert await turn_log.end_session(ALICE, session) == await only_pending(turn_log)
        assert (await only_pending(turn_log)).ended is True

    async def test_a_name_is_looked_up_in_its_scope(self, turn_log: WholeTurnLog) -> None:
        own = await accept(turn_log, a_turn("a", session="s"))
        at_work = await accept(turn_log, a_turn("b", session="s", scope=WORK))
        ended = await turn_log.end_session(WORK, "s")
        assert ended is not None
        assert (ended.session_id, ended.scope) == (at_work, WORK)
        assert {pending.session_id: pending.ended for pending in await turn_log.pending()} == {
            own: False,
            at_work: True,
        }

    @pytest.mark.parametrize("name", ["", "unknown", "ses_x", "\ud800", "'; --", "x" * 100_000])
    async def test_a_name_that_nobody_gave_is_nobodys(self, turn_log: WholeTurnLog, name: str) -> None:
        await accept(turn_log, a_turn("a", session="s"))
        assert await turn_log.end_session(ALICE, name) is None

    async def test_of_another_owner_nothing_is_ended(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        assert await turn_log.end_session(BOB, "s") is None
        assert await turn_log.end_session(BOB, session) is None
        assert (await only_pending(turn_log)).ended is False

    async def test_a_session_that_is_summed_up_has_nothing_to_end(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        claim = await claimed(turn_log, session)
        await turn_log.mark_episode(claim, through=claim.turns[-1].sequence)
        await turn_log.finish(claim, {claim.turns[0].id: True})
        ended = await turn_log.end_session(ALICE, "s")
        assert ended is not None
        assert (ended.session_id, ended.unsummarised, ended.ended) == (session, 0, False)
        assert ended.last_observed_at == START
        assert await turn_log.pending() == []

    async def test_a_session_under_a_lease_can_be_ended(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        claim = await claimed(turn_log, session)
        ended = await turn_log.end_session(ALICE, "s")
        assert ended is not None
        assert ended.ended is True
        await turn_log.release(claim)
        assert (await only_pending(turn_log)).ended is True


def with_items(turn: Turn, *names: str) -> Turn:
    return replace(turn, items=tuple({"type": "message", "content": name} for name in names))


def names_of(chain: StoredChain) -> list[Any]:
    return [None if turn.items is None else [item["content"] for item in turn.items] for turn in chain.turns]


class TestChain:
    async def test_whole_from_its_beginning(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, with_items(a_turn("a", response="r1"), "a", "A"))
        await accept(turn_log, with_items(a_turn("b", before="r1", response="r2"), "b", "B"))
        chain = await turn_log.chain(ALICE, "r2", limit=10)
        assert (names_of(chain), chain.complete) == ([["a", "A"], ["b", "B"]], True)
        assert texts(chain.turns) == ["a", "b"]
        first = await turn_log.chain(ALICE, "r1", limit=10)
        assert (names_of(first), first.complete) == ([["a", "A"]], True)

    async def test_items_come_back_as_they_were(self, turn_log: WholeTurnLog) -> None:
        items = (
            {"type": "function_call", "call_id": "c1", "arguments": '{"x": "ü\\n"}', "deep": [{"n": 1.5, "b": None}]},
            {"type": "function_call_output", "call_id": "c1", "output": "三"},
        )
        await accept(turn_log, replace(a_turn("a", response="r1"), items=items))
        assert (await turn_log.chain(ALICE, "r1", limit=1)).turns[0].items == items

    async def test_steps_of_a_tool_loop_are_joined_in_order(self, turn_log: WholeTurnLog) -> None:
        await append(turn_log, with_items(a_turn("find it", response="r1", complete=False), "find it", "call"))
        half = await turn_log.chain(ALICE, "r1", limit=10)
        assert (names_of(half), half.complete) == ([["find it", "call"]], True)
        assert half.turns[0].state is TurnState.INCOMPLETE
        await accept(turn_log, with_items(a_turn(before="r1", response="r2"), "output", "found"))
        chain = await turn_log.chain(ALICE, "r2", limit=10)
        assert (names_of(chain), chain.complete) == ([["find it", "call", "output", "found"]], True)

    @pytest.mark.parametrize(("first", "second"), [((), None), (None, ())])
    async def test_where_one_step_is_unknown_the_turn_is(
        self, turn_log: WholeTurnLog, first: tuple[()] | None, second: tuple[()] | None
    ) -> None:
        await append(turn_log, replace(a_turn("a", response="r1", complete=False), items=first))
        await accept(turn_log, replace(a_turn(before="r1", response="r2"), items=second))
        chain = await turn_log.chain(ALICE, "r2", limit=10)
        assert (names_of(chain), chain.complete) == ([None], False)

    async def test_a_step_that_was_tried_twice_is_not_in_it_twice(self, turn_log: WholeTurnLog) -> None:
        await append(turn_log, with_items(a_turn("a", response="r1", complete=False), "a", "call 1"))
        await append(turn_log, with_items(a_turn(before="r1", response="r2", complete=False), "out 1", "call 2"))
        await append(turn_log, with_items(a_turn(before="r1", response="r2b", complete=False), "out 1", "call 2b"))
        chain = await turn_log.chain(ALICE, "r2b", limit=10)
        assert chain.complete is False

    async def test_the_answer_of_a_repetition_is_not_the_one_that_is_known(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, with_items(a_turn("a", session="s", response="r1"), "a", "A"))
        again = with_items(a_turn("a", session="s", response="r1b"), "a", "another A")
        assert await outcome(turn_log, again) is AppendOutcome.DUPLICATE
        assert (await turn_log.chain(ALICE, "r1b", limit=10)).complete is False
        assert (await turn_log.chain(ALICE, "r1", limit=10)).complete is True
        await accept(turn_log, with_items(a_turn("b", before="r1b", response="r2"), "b", "B"))
        assert (await turn_log.chain(ALICE, "r2", limit=10)).complete is False

    async def test_a_turn_without_items_breaks_it(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("a", response="r1"))
        await accept(turn_log, with_items(a_turn("b", before="r1", response="r2"), "b"))
        chain = await turn_log.chain(ALICE, "r2", limit=10)
        assert (names_of(chain), chain.complete) == ([None, ["b"]], False)

    async def test_what_goes_on_from_the_unknown_has_no_beginning(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, with_items(a_turn("a", before="lost", response="r1"), "a"))
        assert (await turn_log.chain(ALICE, "r1", limit=10)).complete is False

    async def test_what_a_conversation_held_before_is_not_known(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, with_items(a_turn("a", conversation="c", response="r1"), "a"))
        assert (await turn_log.chain(ALICE, "r1", limit=10)).complete is False

    async def test_beyond_the_limit_it_is_not_whole(self, turn_log: WholeTurnLog) -> None:
        before = ""
        for number in range(4):
            await accept(turn_log, with_items(a_turn(str(number), before=before, response=f"r{number}"), str(number)))
            before = f"r{number}"
        short = await turn_log.chain(ALICE, "r3", limit=3)
        assert (texts(short.turns), short.complete) == (["1", "2", "3"], False)
        assert (await turn_log.chain(ALICE, "r3", limit=4)).complete is True
        assert await turn_log.chain(ALICE, "r3", limit=0) == StoredChain()

    async def test_a_branch_does_not_see_its_sibling(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, with_items(a_turn("a", response="r1"), "a"))
        await accept(turn_log, with_items(a_turn("b", before="r1", response="r2"), "b"))
        await accept(turn_log, with_items(a_turn("c", before="r1", response="r3"), "c"))
        chain = await turn_log.chain(ALICE, "r3", limit=10)
        assert (names_of(chain), chain.complete) == ([["a"], ["c"]], True)

    async def test_a_deleted_turn_breaks_it(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, with_items(a_turn("a", response="r1"), "a"))
        turn_id = (await claimed(turn_log, session)).turns[0].id
        await accept(turn_log, with_items(a_turn("b", before="r1", response="r2"), "b"))
        await turn_log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m"), turn_ids=[turn_id])
        chain = await turn_log.chain(ALICE, "r2", limit=10)
        assert (texts(chain.turns), chain.complete) == (["b"], False)

    async def test_only_of_the_owner(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, with_items(a_turn("a", response="r1"), "a"))
        assert await turn_log.chain(BOB, "r1", limit=10) == StoredChain()
        assert await turn_log.chain(ALICE, "r9", limit=10) == StoredChain()
        assert await turn_log.chain(ALICE, "", limit=10) == StoredChain()

    @pytest.mark.parametrize(
        "item",
        [{"text": "x" * 100_000}, {"text": "\ud800"}, {"number": 2**70}],
        ids=["long", "no character", "no number"],
    )
    async def test_items_that_do_not_fit_are_not_known(self, turn_log: WholeTurnLog, item: dict[str, Any]) -> None:
        await accept(turn_log, replace(a_turn("a", response="r1"), items=(item,)))
        chain = await turn_log.chain(ALICE, "r1", limit=10)
        assert (names_of(chain), texts(chain.turns), chain.complete) == ([None], ["a"], False)


class TestRecords:
    async def test_newest_first_page_by_page(self, turn_log: WholeTurnLog) -> None:
        for number in range(5):
            await accept(turn_log, a_turn(str(number), session="s"))
        first = await turn_log.list_turns(scope=None, states=None, limit=2)
        second = await turn_log.list_turns(scope=None, states=None, limit=2, before=first[-1].sequence)
        last = await turn_log.list_turns(scope=None, states=None, limit=2, before=second[-1].sequence)
        assert texts([*first, *second, *last]) == ["4", "3", "2", "1", "0"]
        assert await turn_log.list_turns(scope=None, states=None, limit=2, before=last[-1].sequence) == []

    async def test_of_one_user_in_whatever_project(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("own"))
        await accept(turn_log, a_turn("foreign", scope=BOB))
        await accept(turn_log, a_turn("work", scope=WORK))
        assert texts(await turn_log.list_turns(scope=ALICE, states=None, limit=9)) == ["work", "own"]
        assert texts(await turn_log.list_turns(scope=WORK, states=None, limit=9)) == ["work", "own"]
        assert texts(await turn_log.list_turns(scope=None, states=None, limit=9)) == ["work", "foreign", "own"]
        assert await turn_log.list_turns(scope=Scope("\ud800"), states=None, limit=9) == []

    async def test_by_state(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        await finished(turn_log, await accept(turn_log, a_turn("extracted", session="1")))
        await dead(turn_log, await accept(turn_log, a_turn("dead", session="2")), clock)
        await accept(turn_log, a_turn("waiting", session="3"))
        await append(turn_log, a_turn("half said", session="4", response="r", complete=False))

        async def listed(*states: TurnState) -> list[str]:
            return texts(await turn_log.list_turns(scope=None, states=frozenset(states), limit=9))

        assert await listed(TurnState.DEAD) == ["dead"]
        assert await listed(TurnState.WAITING, TurnState.EXTRACTED) == ["waiting", "extracted"]
        assert await listed(TurnState.INCOMPLETE) == ["half said"]
        assert await listed(TurnState.EMPTY) == []
        assert len(await turn_log.list_turns(scope=None, states=None, limit=9)) == 4

    async def test_one_turn_is_shown_whole(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        turn = replace(with_items(a_turn("a", scope=WORK, transcripts=("h",)), "item"), model="gpt")
        session = await accept(turn_log, turn)
        await dead(turn_log, session, clock, WORK)
        (listed,) = await turn_log.list_turns(scope=None, states=None, limit=1)
        shown = await turn_log.get_turn(listed.id)
        assert shown == listed
        assert (shown.scope, shown.session_id, shown.state) == (WORK, session, TurnState.DEAD)
        assert (shown.user_text, shown.assistant_text, shown.model, shown.observed_at) == ("a", "fine", "gpt", START)
        assert (shown.attempts, shown.error, shown.items) == (1, "timeout", turn.items)

    @pytest.mark.parametrize("turn_id", ["", "turn_x", "turn_000000000000_1", "\ud800"])
    async def test_of_what_is_no_turn_nothing_is_known(self, turn_log: WholeTurnLog, turn_id: str) -> None:
        await accept(turn_log, a_turn("a"))
        assert await turn_log.get_turn(turn_id) is None
        assert await turn_log.retry([turn_id]) == 0
        assert await turn_log.drop([turn_id]) == 0

    async def test_a_dead_letter_is_tried_again_with_all_attempts_before_it(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("dead", session="s"))
        await dead(turn_log, session, clock)
        await accept(turn_log, a_turn("waiting", session="s"))
        claim = await claimed(turn_log, session)
        await turn_log.fail(claim, "timeout", retry_at=clock.now() + LEASE, max_attempts=9)
        ids = [turn.id for turn in await turn_log.list_turns(scope=None, states=None, limit=9)]
        assert await turn_log.retry([*ids, *ids]) == 1
        totals = await turn_log.totals()
        assert (totals.accepted, totals.dead_lettered, totals.waiting) == (2, 0, 2)
        assert (await only_pending(turn_log)).not_before is None
        claim = await claimed(turn_log, session)
        assert [(turn.user_text, turn.attempts, turn.error) for turn in claim.turns] == [
            ("dead", 0, ""),
            ("waiting", 1, "timeout"),
        ]

    async def test_a_dead_letter_that_was_summed_up_is_not_summed_up_again(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("a"))
        await dead(turn_log, session, clock)
        claim = await claimed(turn_log, session)
        (turn,) = await turn_log.session_turns(claim, limit=1)
        await turn_log.mark_episode(claim, through=turn.sequence)
        await turn_log.release(claim)
        assert await turn_log.retry([turn.id]) == 1
        pending = await only_pending(turn_log)
        assert (pending.waiting, pending.unsummarised) == (1, 0)

    async def test_dead_and_waiting_turns_can_be_dropped_and_count_as_deleted(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        await finished(turn_log, await accept(turn_log, a_turn("extracted", session="1")))
        await dead(turn_log, await accept(turn_log, a_turn("dead", session="2")), clock)
        waiting = await accept(turn_log, a_turn("waiting", session="3"))
        claim = await claimed(turn_log, waiting)
        ids = [turn.id for turn in await turn_log.list_turns(scope=None, states=None, limit=9)]
        assert await turn_log.drop([*ids, *ids]) == 2
        totals = await turn_log.totals()
        assert (totals.accepted, totals.extracted, totals.dead_lettered, totals.deleted, totals.waiting) == (
            3,
            1,
            0,
            2,
            0,
        )
        assert await turn_log.surviving(claim) == frozenset()
        assert texts(await turn_log.list_turns(scope=None, states=None, limit=9)) == ["extracted"]


class TestForgottenScope:
    @pytest.mark.parametrize("reach", [Reach.ALL, Reach.EXACT])
    async def test_of_many_turns_nothing_is_left_when_the_call_returns(
        self, turn_log: WholeTurnLog, clock: SteppedClock, reach: Reach
    ) -> None:
        for number in range(450):
            await accept(turn_log, a_turn(str(number), session=str(number % 7), response=f"r{number}"))
        await dead(turn_log, await accept(turn_log, a_turn("dead", session="dead")), clock)
        await accept(turn_log, a_turn("foreign", scope=BOB))
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.now(), reach=reach))
        assert texts(await turn_log.list_turns(scope=None, states=None, limit=999)) == ["foreign"]
        assert [pending.scope for pending in await turn_log.pending()] == [BOB]
        assert await turn_log.chain(ALICE, "r449", limit=9) == StoredChain()
        assert await turn_log.end_session(ALICE, "0") is None
        totals = await turn_log.totals()
        assert (totals.accepted, totals.deleted, totals.dead_lettered, totals.waiting) == (452, 451, 0, 1)

    async def test_the_same_words_said_later_are_a_turn_of_their_own(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        turn = with_items(a_turn("a", session="s", request="q", response="r", transcripts=("h",)), "a")
        await accept(turn_log, turn)
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.now()))
        session = await accept(turn_log, replace(turn, observed_at=clock.now() + timedelta(seconds=1)))
        assert texts((await claimed(turn_log, session)).turns) == ["a"]
        assert (await turn_log.chain(ALICE, "r", limit=9)).complete is True


class TestMaintenance:
    async def test_a_compaction_changes_nothing_that_can_be_seen(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        for number in range(100):
            await accept(turn_log, with_items(a_turn(str(number), session=str(number % 9)), str(number)))
        await turn_log.drop([turn.id for turn in await turn_log.list_turns(scope=None, states=None, limit=30)])
        before = await turn_log.list_turns(scope=None, states=None, limit=999)
        assert len(before) == 70
        for _ in range(2):
            await turn_log.compact()
            assert await turn_log.list_turns(scope=None, states=None, limit=999) == before
        await accept(turn_log, a_turn("after"))
        assert (await turn_log.totals()).waiting == 71

    async def test_a_backup_can_be_written_into_a_directory(self, turn_log: WholeTurnLog, tmp_path: Path) -> None:
        await accept(turn_log, a_turn("a"))
        directory = tmp_path / "backup"
        directory.mkdir()
        await turn_log.backup(directory)
        assert (await turn_log.totals()).waiting == 1
