"""What every turn log promises about turns whose first answer is nothing but calls, of clients that repeat the conversation."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from semrouter_memory.model import AppendOutcome, Scope, Tombstone, ToolUse, Turn, TurnState
from tests.contract.turn_logs import (
    ALICE,
    BOB,
    START,
    SteppedClock,
    WholeTurnLog,
    a_turn,
    accept,
    append,
    claimed,
    outcome,
)

TOLD = "I live in Bergen. Will it rain?"
RAIN = ToolUse("weather", "rain")
LATER = START + timedelta(hours=1)
PLACES = pytest.mark.parametrize(
    "place", [{}, {"session": "s"}, {"history": "h"}, {"session": "s", "history": "h"}], ids=str
)


def called(text: str = TOLD, *, at: datetime = START, leaves: str = "", scope: Scope = ALICE, **place: Any) -> Turn:
    """The first step.

    Args:
        leaves: the transcript behind its calls.
    """
    turn = a_turn(text, at=at, scope=scope, looped=True, answer="", **place)
    return replace(turn, transcript_hashes=(leaves,) if leaves else ())


def ended(text: str = TOLD, *, at: datetime = LATER, leaves: str = "", scope: Scope = ALICE, **place: Any) -> Turn:
    """The last step, which may come long after."""
    turn = a_turn(text, at=at, scope=scope, looped=True, answer="Yes.", tools=(RAIN,), **place)
    return replace(turn, transcript_hashes=(leaves,) if leaves else ())


async def stored(log: WholeTurnLog) -> list[tuple[str, str, TurnState]]:
    turns = await log.list_turns(scope=None, states=None, limit=100)
    return [(turn.user_text, turn.assistant_text, turn.state) for turn in reversed(turns)]


async def finish(log: WholeTurnLog, session: str) -> None:
    claim = await claimed(log, session)
    await log.mark_rules_done(claim, {turn.id: True for turn in claim.turns})
    await log.finish(claim, {turn.id: True for turn in claim.turns})


async def sum_up(log: WholeTurnLog, session: str) -> None:
    claim = await claimed(log, session)
    turns = await log.session_turns(claim, limit=10)
    await log.mark_episode(claim, through=turns[-1].sequence)
    await log.release(claim)


async def assert_accepted(log: WholeTurnLog, count: int) -> None:
    totals = await log.totals()
    parts = totals.extracted + totals.empty + totals.dead_lettered + totals.deleted + totals.waiting
    assert totals.accepted == parts == count


class TestLoop:
    @PLACES
    async def test_it_is_one_turn_with_its_answer(self, turn_log: WholeTurnLog, place: dict[str, Any]) -> None:
        name = place.get("session", "")
        session = await accept(turn_log, called(**place))
        assert await stored(turn_log) == [(TOLD, "", TurnState.WAITING)]
        appended = await append(turn_log, ended(leaves="after", **place))
        assert (appended.outcome, appended.session_id) == (AppendOutcome.COMPLETED, session)
        assert await stored(turn_log) == [(TOLD, "Yes.", TurnState.WAITING)]
        claim = await claimed(turn_log, session)
        ((turn,), at) = (claim.turns, claim.turns[0].observed_at)
        assert (turn.id, turn.tools, at, turn.rules_done) == (appended.turn_id, (RAIN,), START, False)
        assert await accept(turn_log, a_turn("thanks", history="after", session=name)) == session
        await assert_accepted(turn_log, 2)

    @PLACES
    async def test_what_was_learned_from_is_read_once_more_with_the_answer(
        self, turn_log: WholeTurnLog, place: dict[str, Any]
    ) -> None:
        session = await accept(turn_log, called(**place))
        await finish(turn_log, session)
        await sum_up(turn_log, session)
        assert await turn_log.pending() == []
        await append(turn_log, ended(**place))
        assert await stored(turn_log) == [(TOLD, "Yes.", TurnState.WAITING)]
        (pending,) = await turn_log.pending()
        assert (pending.waiting, pending.rules_pending, pending.unsummarised) == (1, 1, 1)
        assert pending.last_observed_at == LATER
        await assert_accepted(turn_log, 1)
        await finish(turn_log, session)
        await sum_up(turn_log, session)
        await assert_accepted(turn_log, 1)
        assert await turn_log.pending() == []

    @PLACES
    async def test_no_step_that_is_tried_again_is_a_second_turn(
        self, turn_log: WholeTurnLog, place: dict[str, Any]
    ) -> None:
        await accept(turn_log, called(**place))
        steps = [called(at=START + timedelta(seconds=9), **place), ended(**place), ended(**place)]
        found = [await outcome(turn_log, step) for step in steps]
        assert found == ["duplicate", "completed", "duplicate"]
        await assert_accepted(turn_log, 1)

    @PLACES
    async def test_the_first_step_may_arrive_last(self, turn_log: WholeTurnLog, place: dict[str, Any]) -> None:
        """As where another replica saw it."""
        await accept(turn_log, ended(**place))
        assert await outcome(turn_log, called(**place)) is AppendOutcome.DUPLICATE
        assert await stored(turn_log) == [(TOLD, "Yes.", TurnState.WAITING)]

    async def test_a_second_try_without_calls_is_its_answer(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, called())
        text = a_turn(TOLD, answer="Yes.", at=START + timedelta(seconds=5))
        assert await outcome(turn_log, text) is AppendOutcome.COMPLETED
        await assert_accepted(turn_log, 1)

    async def test_a_second_try_brings_the_answer_that_was_cut(self, turn_log: WholeTurnLog) -> None:
        """Also in a stored chain, with the items of which it is made."""
        place: dict[str, Any] = {"before": "r0", "session": "s"}
        await accept(turn_log, a_turn("And what of Rex?", answer="", response="r1", **place))
        again = a_turn("And what of Rex?", answer="Rex.", response="r2", at=START + timedelta(seconds=5), **place)
        assert await outcome(turn_log, replace(again, items=({"type": "message"},))) is AppendOutcome.COMPLETED
        found = await turn_log.chain(ALICE, "r2", limit=5)
        assert [(turn.assistant_text, turn.items) for turn in found.turns] == [("Rex.", ({"type": "message"},))]

    async def test_turns_of_others_between_its_steps_make_no_difference(self, turn_log: WholeTurnLog) -> None:
        """As of agents that share a session by its header."""
        await accept(turn_log, called(session="s"))
        await accept(turn_log, called("And you?", session="s"))
        assert await outcome(turn_log, ended(session="s")) is AppendOutcome.COMPLETED
        assert await outcome(turn_log, ended(session="t")) is AppendOutcome.ACCEPTED

    async def test_what_was_said_since_may_have_taken_it_back(self, turn_log: WholeTurnLog) -> None:
        """Then its answer is stored, and it is not read again."""
        session = await accept(turn_log, called(leaves="calls"))
        await accept(turn_log, a_turn("Scratch that.", history="calls"))
        await finish(turn_log, session)
        await sum_up(turn_log, session)
        assert await outcome(turn_log, ended()) is AppendOutcome.COMPLETED
        assert (TOLD, "Yes.", TurnState.EXTRACTED) in await stored(turn_log)
        (pending,) = await turn_log.pending()
        assert (pending.waiting, pending.unsummarised) == (0, 2)
        await assert_accepted(turn_log, 2)

    async def test_another_owner_or_project_answers_nothing(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, called())
        await accept(turn_log, ended(scope=BOB))
        await accept(turn_log, ended(scope=Scope("alice", "work")))
        assert (TOLD, "", TurnState.WAITING) in await stored(turn_log)

    async def test_the_sessions_end_comes_with_either(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, replace(called(), ends_session=True))
        await finish(turn_log, session)
        await sum_up(turn_log, session)
        await append(turn_log, replace(ended(), ends_session=True))
        (pending,) = await turn_log.pending()
        assert (pending.ended, pending.waiting, pending.unsummarised) == (True, 1, 1)

    async def test_a_dead_letter_stays_one(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, called())
        claim = await claimed(turn_log, session)
        await turn_log.fail(claim, "timeout", retry_at=clock.now(), max_attempts=1)
        assert await outcome(turn_log, ended()) is AppendOutcome.DUPLICATE
        assert await stored(turn_log) == [(TOLD, "", TurnState.DEAD)]
        await assert_accepted(turn_log, 1)


class TestNoLaterStep:
    async def test_what_the_user_says_next_goes_on_in_its_session(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, called(leaves="calls 1"))
        second = called("I have a dog.", history="calls 1", leaves="calls 2")
        assert await accept(turn_log, second) == session
        assert await outcome(turn_log, second) is AppendOutcome.DUPLICATE
        assert await accept(turn_log, a_turn("bye", history="calls 2")) == session
        assert [text for text, *_ in await stored(turn_log)] == [TOLD, "I have a dog.", "bye"]

    async def test_the_same_words_much_later_are_said_again(self, turn_log: WholeTurnLog) -> None:
        """ "I have a headache", told each week to a client that begins anew."""
        first = await accept(turn_log, called())
        second = await accept(turn_log, called(at=LATER))
        assert first != second
        appended = await append(turn_log, ended(at=LATER))
        assert (appended.outcome, appended.session_id) == (AppendOutcome.COMPLETED, second)
        assert [answer for _, answer, _ in await stored(turn_log)] == ["", "Yes."]

    async def test_a_conversation_that_begins_alike_stays_apart(self, turn_log: WholeTurnLog) -> None:
        """Once the first one is answered, or much later."""
        first = await accept(turn_log, called())
        text = await accept(turn_log, a_turn(TOLD, at=LATER))
        await append(turn_log, ended())
        second = await accept(turn_log, called(at=START + timedelta(seconds=30)))
        assert len({first, text, second}) == 3
        assert (await append(turn_log, ended())).session_id == second
        await assert_accepted(turn_log, 3)


class TestNoAnswer:
    """The client dropped what there was of a stopped answer, and sends the user's words of both turns."""

    CHAINS = pytest.mark.parametrize("place", [{"before": "r0"}, {"conversation": "c"}], ids=str)

    def after(self, *texts: str, seconds: float = 5, answer: str = "Yes.", **place: Any) -> Turn:
        return a_turn(*texts, at=START + timedelta(seconds=seconds), answer=answer, looped=not answer, **place)

    @PLACES
    async def test_what_was_said_before_is_not_said_again(self, turn_log: WholeTurnLog, place: dict[str, Any]) -> None:
        await accept(turn_log, a_turn("what they go on from", transcripts=("h",), scope=ALICE if place else BOB))
        session = await accept(turn_log, called(**place))
        stopped = self.after(TOLD, "Or snow?", answer="", **place)
        assert await accept(turn_log, stopped) == session
        assert await outcome(turn_log, stopped) is AppendOutcome.DUPLICATE
        third = replace(self.after(TOLD, "Or snow?", "Or hail?", **place), transcript_hashes=("leaves",))
        assert await accept(turn_log, third) == session
        assert await accept(turn_log, a_turn("bye", history="leaves", session=place.get("session", ""))) == session
        assert [text for text, *_ in await stored(turn_log)][1:] == [TOLD, "Or snow?", "Or hail?", "bye"]

    @PLACES
    async def test_the_stopped_turn_may_arrive_last(self, turn_log: WholeTurnLog, place: dict[str, Any]) -> None:
        """The proxy tells after a minute that a client has left."""
        await accept(turn_log, a_turn("what they go on from", transcripts=("h",), scope=ALICE if place else BOB))
        await accept(turn_log, self.after(TOLD, "Or snow?", **place))
        assert await outcome(turn_log, called(**place)) is AppendOutcome.DUPLICATE
        assert [text for text, *_ in await stored(turn_log)][1:] == [f"{TOLD}\nOr snow?"]

    @CHAINS
    async def test_nor_where_the_server_keeps_the_conversation(
        self, turn_log: WholeTurnLog, place: dict[str, Any]
    ) -> None:
        """The turn goes on from the same response, with all of its items."""
        session = await accept(turn_log, a_turn("Hello", response="r0", conversation=place.get("conversation", "")))
        assert await accept(turn_log, a_turn(TOLD, answer="", **place)) == session
        both = replace(self.after(TOLD, "Or snow?", response="r2", **place), items=(TOLD, "Or snow?", "Yes."))
        assert await accept(turn_log, both) == session
        assert await outcome(turn_log, both) is AppendOutcome.DUPLICATE
        assert [text for text, *_ in await stored(turn_log)] == ["Hello", TOLD, "Or snow?"]
        chain = await turn_log.chain(ALICE, "r2", limit=5)
        assert chain.turns[-1].items == both.items

    @CHAINS
    async def test_nor_where_it_arrives_last_there(self, turn_log: WholeTurnLog, place: dict[str, Any]) -> None:
        await accept(turn_log, a_turn("Hello", response="r0", conversation=place.get("conversation", "")))
        await accept(turn_log, self.after(TOLD, "Or snow?", **place))
        assert await outcome(turn_log, a_turn(TOLD, answer="", **place)) is AppendOutcome.DUPLICATE
        assert [text for text, *_ in await stored(turn_log)] == ["Hello", f"{TOLD}\nOr snow?"]

    async def test_of_a_message_that_is_edited_the_one_before_it_is_said_once(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("what they go on from", transcripts=("h",)))
        await accept(turn_log, self.after(TOLD, "Or snow?", history="h"))
        await accept(turn_log, self.after(TOLD, "Or hail?", history="h"))
        assert [text for text, *_ in await stored(turn_log)][1:] == [f"{TOLD}\nOr snow?", "Or hail?"]

    async def test_what_was_erased_does_not_come_back(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, called())
        clock.step(60)
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.now(), memory_id="m", content_hash="c"))
        await finish(turn_log, session)
        assert await accept(turn_log, self.after(TOLD, "Or snow?", seconds=70)) == session
        assert [text for text, *_ in await stored(turn_log)] == ["", "Or snow?"]

    async def test_a_conversation_that_begins_alike_has_its_own_words(self, turn_log: WholeTurnLog) -> None:
        """Much later, or once the first one is answered, or of another owner or project."""
        first = await accept(turn_log, called())
        late = await accept(turn_log, self.after(TOLD, "Or snow?", seconds=3600))
        bob = await accept(turn_log, self.after(TOLD, "Or snow?", scope=BOB))
        work = await accept(turn_log, self.after(TOLD, "Or snow?", scope=Scope("alice", "work")))
        await append(turn_log, ended(at=START + timedelta(seconds=1)))
        alike = await accept(turn_log, self.after(TOLD, "Or snow?"))
        assert len({first, late, bob, work, alike}) == 5
        assert [text for text, *_ in await stored(turn_log)][1:] == [f"{TOLD}\nOr snow?"] * 4

    @pytest.mark.parametrize(("added", "repeated"), [("abcdefgh", 0), ("abcdefghi", 1)])
    async def test_only_so_many_texts_are_compared(self, turn_log: WholeTurnLog, added: str, repeated: int) -> None:
        await accept(turn_log, called())
        await accept(turn_log, self.after(TOLD, *added))
        assert [text.count(TOLD) for text, *_ in await stored(turn_log)] == [1, repeated]


class TestDeletion:
    async def test_erased_words_may_be_said_again(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, called())
        clock.step(60)
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.now(), memory_id="m", content_hash="c"))
        await finish(turn_log, session)
        assert await stored(turn_log) == [("", "", TurnState.EXTRACTED)]
        assert await outcome(turn_log, ended(at=clock.step(1))) is AppendOutcome.DUPLICATE
        assert await outcome(turn_log, called(at=clock.step(1))) is AppendOutcome.ACCEPTED

    async def test_an_answer_after_a_deletion_of_a_memory_is_not_stored(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        """It may repeat the memory."""
        session = await accept(turn_log, called())
        await finish(turn_log, session)
        clock.step(60)
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.now(), memory_id="m", content_hash="c"))
        assert await outcome(turn_log, ended()) is AppendOutcome.DUPLICATE
        assert await stored(turn_log) == [(TOLD, "", TurnState.EXTRACTED)]

    async def test_nothing_is_added_to_a_turn_that_is_deleted(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        await accept(turn_log, called())
        clock.step(60)
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.now()))
        assert await outcome(turn_log, called()) is AppendOutcome.FORGOTTEN
        assert await stored(turn_log) == []

    async def test_a_pause_leaves_the_answer_out(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        await accept(turn_log, called())
        clock.step(60)
        await turn_log.set_paused(ALICE, paused=True)
        assert await outcome(turn_log, ended()) is AppendOutcome.FORGOTTEN
        assert await stored(turn_log) == [(TOLD, "", TurnState.WAITING)]

    async def test_a_session_that_is_not_remembered_gets_no_words(self, turn_log: WholeTurnLog) -> None:
        asked = replace(called("Off the record.", session="s"), pauses_session=True)
        assert await outcome(turn_log, asked) is AppendOutcome.FORGOTTEN
        again = replace(ended("Off the record.", session="s"), pauses_session=True)
        assert await outcome(turn_log, again) is AppendOutcome.DUPLICATE
        assert await outcome(turn_log, called(session="s")) is AppendOutcome.FORGOTTEN
        assert await outcome(turn_log, ended(session="s")) is AppendOutcome.DUPLICATE
        assert {(text, answer) for text, answer, _ in await stored(turn_log)} == {("", "")}
