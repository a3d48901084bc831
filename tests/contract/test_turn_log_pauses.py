"""What the user does not want remembered: the contract of the turn log, over SQLite and Redis."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from semrouter_memory.model import AppendOutcome, Reach, Scope, Tombstone, Turn, TurnState
from tests.contract.test_turn_log import assert_balanced, files_with
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
    texts_waiting,
)

SECOND = timedelta(seconds=1)


async def pause(log: WholeTurnLog, clock: SteppedClock, *, paused: bool = True, scope: Scope = ALICE) -> None:
    """A moment passes before and after."""
    clock.step(1)
    await log.set_paused(scope, paused=paused)
    clock.step(1)


class TestPause:
    async def test_it_lasts_until_it_is_resumed(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        assert (await turn_log.tombstones(ALICE)).paused_since is None
        await pause(turn_log, clock)
        first = (await turn_log.tombstones(ALICE)).paused_since
        assert first == clock.now() - SECOND
        await pause(turn_log, clock)
        assert (await turn_log.tombstones(ALICE.in_project("work"))).paused_since == first
        assert (await turn_log.tombstones(BOB)).paused_since is None
        await pause(turn_log, clock, paused=False)
        await pause(turn_log, clock, paused=False)
        assert (await turn_log.tombstones(ALICE)).paused_since is None

    async def test_what_is_said_in_it_is_not_stored(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        await accept(turn_log, a_turn("before", session="s", at=clock.now()))
        await pause(turn_log, clock)
        said = a_turn("meanwhile", session="s", at=clock.now())
        assert await outcome(turn_log, said) is AppendOutcome.FORGOTTEN
        work = a_turn("meanwhile", scope=ALICE.in_project("work"), at=clock.now(), complete=False)
        assert await outcome(turn_log, work) is AppendOutcome.FORGOTTEN
        await accept(turn_log, a_turn("another user", scope=BOB, at=clock.now()))
        await pause(turn_log, clock, paused=False)
        await accept(turn_log, a_turn("after", session="s", at=clock.now()))
        assert await texts_waiting(turn_log) == ["before", "after", "another user"]
        await assert_balanced(turn_log)

    async def test_what_arrives_late_is_not_stored_either(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        await pause(turn_log, clock)
        meanwhile = clock.now()
        await pause(turn_log, clock, paused=False)
        between = clock.now()
        await pause(turn_log, clock)
        await pause(turn_log, clock, paused=False)
        assert await outcome(turn_log, a_turn("meanwhile", at=meanwhile)) is AppendOutcome.FORGOTTEN
        # The exchange went on through the second pause.
        assert await outcome(turn_log, a_turn("between", at=between)) is AppendOutcome.FORGOTTEN

    async def test_an_exchange_that_it_interrupts_is_not_stored(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        asked = clock.now()
        await pause(turn_log, clock)
        assert await outcome(turn_log, a_turn("before", answer="meanwhile", at=asked)) is AppendOutcome.FORGOTTEN
        assert await texts_waiting(turn_log) == []

    async def test_an_incomplete_turn_is_not_completed_in_it(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        await append(turn_log, a_turn("find it", response="r1", complete=False))
        await pause(turn_log, clock)
        assert await outcome(turn_log, a_turn(before="r1", at=clock.now())) is AppendOutcome.FORGOTTEN

    @pytest.mark.parametrize("reach", [Reach.ALL, Reach.EXACT])
    async def test_it_outlives_a_deletion(self, turn_log: WholeTurnLog, clock: SteppedClock, reach: Reach) -> None:
        await pause(turn_log, clock)
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.now(), reach=reach))
        assert (await turn_log.tombstones(ALICE)).paused_since == clock.now() - SECOND
        clock.step(1)
        assert await outcome(turn_log, a_turn("meanwhile", at=clock.now())) is AppendOutcome.FORGOTTEN

    async def test_what_waits_is_extracted_as_usual(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, a_turn("before", at=clock.now()))
        await pause(turn_log, clock)
        claim = await claimed(turn_log, session)
        assert len(await turn_log.surviving(claim)) == 1
        await turn_log.finish(claim, {claim.turns[0].id: True})
        assert (await turn_log.totals()).extracted == 1

    async def test_many_pauses_are_all_heeded(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        meanwhile = []
        for _ in range(70):
            await pause(turn_log, clock)
            meanwhile.append(clock.now())
            await pause(turn_log, clock, paused=False)
        deleted = await turn_log.tombstones(ALICE)
        assert len(deleted.pauses) == 64  # type: ignore[attr-defined]
        late = [await outcome(turn_log, a_turn("meanwhile", at=at)) for at in (meanwhile[0], meanwhile[5])]
        assert late == [AppendOutcome.FORGOTTEN] * 2


def not_to_be_remembered(turn: Turn) -> Turn:
    return replace(turn, pauses_session=True)


async def silence(log: WholeTurnLog, session: str, text: str = "do not remember this", at: datetime = START) -> None:
    asked = not_to_be_remembered(a_turn(text, session=session, at=at))
    assert await outcome(log, asked) is AppendOutcome.FORGOTTEN


class TestSession:
    async def test_what_waits_and_what_follows_is_not_stored(self, turn_log: WholeTurnLog, tmp_path: Path) -> None:
        session = await accept(turn_log, a_turn("an earlier confession", session="s"))
        other = await accept(turn_log, a_turn("elsewhere", session="other"))
        await silence(turn_log, "s", "do not remember this confession")
        assert await outcome(turn_log, a_turn("a later confession", session="s")) is AppendOutcome.FORGOTTEN
        assert [each.session_id for each in await turn_log.pending()] == [other]
        assert await turn_log.claim(ALICE, session, lease=SECOND, context=5) is None
        shown = await turn_log.list_turns(scope=ALICE, states=None, limit=10)
        assert {turn.user_text for turn in shown} == {"elsewhere", ""}
        assert {turn.state for turn in shown if turn.session_id == session} == {TurnState.EMPTY}
        await assert_balanced(turn_log)
        assert (await turn_log.totals()).waiting == 1
        await turn_log.compact()
        assert files_with(tmp_path, "confession") == []

    async def test_words_of_turns_that_are_finished_are_erased(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a confession", session="s"))
        claim = await claimed(turn_log, session)
        await turn_log.finish(claim, {claim.turns[0].id: True})
        await silence(turn_log, "s")
        turns = await turn_log.list_turns(scope=ALICE, states=None, limit=10)
        assert [(turn.user_text, turn.assistant_text) for turn in turns] == [("", ""), ("", "")]
        assert [turn.state for turn in turns] == [TurnState.EMPTY, TurnState.EXTRACTED]
        await assert_balanced(turn_log)

    async def test_a_claim_on_it_can_store_nothing(self, turn_log: WholeTurnLog) -> None:
        claim = await claimed(turn_log, await accept(turn_log, a_turn("a confession", session="s")))
        await silence(turn_log, "s")
        assert await turn_log.surviving(claim) == frozenset()

    async def test_from_its_first_turn_on(self, turn_log: WholeTurnLog) -> None:
        await silence(turn_log, "s")
        assert await outcome(turn_log, a_turn("a confession", session="s")) is AppendOutcome.FORGOTTEN
        await accept(turn_log, a_turn("of another project", scope=ALICE.in_project("work"), session="s"))
        await accept(turn_log, a_turn("of another user", scope=BOB, session="s"))

    async def test_a_transcript_goes_on_unremembered(self, turn_log: WholeTurnLog) -> None:
        """A client without sessions: the turn that asks for it is not stored, and what follows is still found to be of it."""
        await accept(turn_log, a_turn("hello", transcripts=("h1",)))
        for number, text in enumerate(["do not remember this", "first", "second"], start=1):
            turn = a_turn(text, history=f"h{number}", transcripts=(f"h{number + 1}",))
            asked = not_to_be_remembered(turn) if number == 1 else turn
            assert await outcome(turn_log, asked) is AppendOutcome.FORGOTTEN
        assert await texts_waiting(turn_log) == []
        await accept(turn_log, a_turn("a new conversation"))

    async def test_a_chain_of_responses_goes_on_unremembered(self, turn_log: WholeTurnLog) -> None:
        await append(turn_log, not_to_be_remembered(a_turn("keep this to yourself", response="r1")))
        steps = [
            a_turn("find it", before="r1", response="r2", complete=False),
            a_turn(before="r2", response="r3"),
            a_turn("thanks", before="r3", response="r4"),
        ]
        assert {await outcome(turn_log, step) for step in steps} == {AppendOutcome.FORGOTTEN}
        assert await turn_log.history(ALICE, "r4", limit=10) == []

    async def test_it_outlives_a_pause_and_a_deletion(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        await pause(turn_log, clock)
        asked = not_to_be_remembered(a_turn("keep this to yourself", transcripts=("h1",), at=clock.now()))
        assert await outcome(turn_log, asked) is AppendOutcome.FORGOTTEN
        more = a_turn("more", history="h1", transcripts=("h2",), at=clock.now())
        assert await outcome(turn_log, more) is AppendOutcome.FORGOTTEN
        await pause(turn_log, clock, paused=False)
        after = a_turn("after", history="h2", at=clock.now())
        assert await outcome(turn_log, after) is AppendOutcome.FORGOTTEN
        await silence(turn_log, "s", at=clock.now())
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.now()))
        clock.step(1)
        assert await outcome(turn_log, a_turn("again", session="s", at=clock.now())) is AppendOutcome.FORGOTTEN
