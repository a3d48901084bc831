"""What every turn log promises. An adapter joins by a parameter of `turn_log` (conftest)."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import (
    AppendOutcome,
    Claim,
    Memory,
    MemoryType,
    Message,
    Reach,
    Role,
    Scope,
    SessionHints,
    Tombstone,
    ToolUse,
    Turn,
)
from semrouter_memory.turn_log import claims, removal
from semrouter_memory.turn_log.log import StoredTurnLog
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
    texts_waiting,
)


def files_with(directory: Path, text: str) -> list[str]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return [path.name for path in found if text.encode() in path.read_bytes()]


HOSTILE = [
    pytest.param("'; DROP TABLE turns; --", id="sql"),
    pytest.param("a\x00b", id="nul"),
    pytest.param("\ud800", id="surrogate"),
    pytest.param("%_*?", id="wildcards"),
    pytest.param("x" * 100_000, id="long"),
    pytest.param("ünï\u202ecode", id="unicode"),
]


async def assert_balanced(log: WholeTurnLog) -> None:
    totals = await log.totals()
    parts = totals.extracted + totals.empty + totals.dead_lettered + totals.deleted + totals.waiting
    assert totals.accepted == parts


class TestSession:
    async def test_conversations_that_begin_alike_stay_apart(self, turn_log: WholeTurnLog) -> None:
        first = await accept(turn_log, a_turn("hi", transcripts=("h1",)))
        second = await accept(turn_log, a_turn("hi", transcripts=("h1",)))
        continued = await accept(turn_log, a_turn("I like tea", history="h1", transcripts=("h2",)))
        other = await accept(turn_log, a_turn("I like coffee", history="h1", transcripts=("h3",)))
        assert first != second
        assert {continued, other} == {first, second}
        third = await accept(turn_log, a_turn("hi", transcripts=("h1",)))
        assert await accept(turn_log, a_turn("I like milk", history="h1")) == third
        assert await accept(turn_log, a_turn("very much", history="h2")) == continued
        assert await accept(turn_log, a_turn("a lot", history="h3")) == other

    async def test_a_transcript_continues_its_session_from_any_choice(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("hi", transcripts=("h1", "h1b")))
        assert await accept(turn_log, a_turn("more", history="h1b", transcripts=("h2",))) == session
        assert await accept(turn_log, a_turn("and more", history="h2")) == session

    async def test_an_answer_from_the_middle_branches_within_the_session(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("hi", transcripts=("h1",)))
        await accept(turn_log, a_turn("more", history="h1", transcripts=("h2",)))
        assert await accept(turn_log, a_turn("something else", history="h1")) == session

    async def test_an_edited_history_begins_a_session(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("hi", transcripts=("h1",)))
        assert await accept(turn_log, a_turn("more", history="edited")) != session

    @pytest.mark.parametrize("hint", ["session", "conversation"])
    async def test_a_name_is_one_session_per_scope(self, turn_log: WholeTurnLog, hint: str) -> None:
        async def named(text: str, scope: Scope = ALICE) -> str:
            return await accept(turn_log, replace(a_turn(text, scope=scope), hints=_hints(hint, "my holiday")))

        session = await named("a")
        assert await named("b") == session
        assert len({session, await named("c", BOB), await named("d", Scope("alice", "work"))}) == 3
        assert "holiday" not in session

    async def test_a_header_and_a_conversation_of_one_name_differ(self, turn_log: WholeTurnLog) -> None:
        assert await accept(turn_log, a_turn("a", session="x")) != await accept(turn_log, a_turn("b", conversation="x"))

    async def test_the_first_hint_that_is_set_decides(self, turn_log: WholeTurnLog) -> None:
        by_header = await accept(turn_log, a_turn("a", session="s", response="r", transcripts=("h",)))
        by_conversation = await accept(turn_log, a_turn("b", conversation="c", before="r", history="h"))
        assert await accept(turn_log, a_turn("c", session="s", conversation="c", before="r", history="h")) == by_header
        assert by_conversation != by_header
        assert await accept(turn_log, a_turn("d", before="r", history="unknown")) == by_header

    async def test_a_chain_is_one_session(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", response="r1"))
        assert await accept(turn_log, a_turn("b", before="r1", response="r2")) == session
        assert await accept(turn_log, a_turn("c", before="r2")) == session

    async def test_siblings_of_an_unknown_response_meet(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", before="lost", response="r2"))
        assert await accept(turn_log, a_turn("b", before="lost")) == session
        assert await accept(turn_log, a_turn("c", before="r2")) == session
        assert await accept(turn_log, a_turn("d", before="lost", scope=BOB)) != session

    async def test_of_turns_that_share_a_response_id_the_newest_counts(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("a", response="r"))
        newest = await accept(turn_log, a_turn("b", response="r"))
        assert await accept(turn_log, a_turn("c", before="r")) == newest

    async def test_another_owner_finds_nothing(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", response="r", transcripts=("h",)))
        assert await accept(turn_log, a_turn("b", before="r", scope=BOB)) != session
        assert await accept(turn_log, a_turn("c", history="h", scope=BOB)) != session

    async def test_another_project_is_another_session(self, turn_log: WholeTurnLog) -> None:
        work = Scope("alice", "work")
        session = await accept(turn_log, a_turn("a", response="r", transcripts=("h",)))
        in_chain = await accept(turn_log, a_turn("b", before="r", scope=work))
        in_transcript = await accept(turn_log, a_turn("c", history="h", scope=work))
        assert session not in {in_chain, in_transcript}

    @pytest.mark.parametrize("value", HOSTILE)
    async def test_hostile_values_are_only_values(self, turn_log: WholeTurnLog, value: str) -> None:
        scope = Scope(value, value)
        await accept(turn_log, a_turn("before", scope=BOB))
        by_all = a_turn(
            value,
            scope=scope,
            answer=value,
            history=value,
            before=value,
            conversation=value,
            session=value,
            transcripts=(value,),
            response=value,
            request=value,
            retry=value,
            tools=(ToolUse(value, value),),
            agent=value,
        )
        session = await accept(turn_log, by_all)
        assert await outcome(turn_log, by_all) is AppendOutcome.DUPLICATE
        pending = [item for item in await turn_log.pending() if item.session_id == session]
        assert [item.scope for item in pending] == [scope]
        claim = await claimed(turn_log, session, scope)
        assert len(claim.turns) == 1
        assert claim.turns[0].scope == scope
        await turn_log.tombstone(
            Tombstone(scope=scope, at=START, memory_id=value, content_hash=turn_log.content_hash(value)),
            turn_ids=[value, claim.turns[0].id],
        )
        assert (await turn_log.tombstones(scope)).forbids(scope, value, START)
        assert await texts_waiting(turn_log) == ["before"]
        await assert_balanced(turn_log)

    async def test_owners_that_differ_in_what_is_no_character_stay_apart(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("a", scope=Scope("\ud800"), request="r"))
        await accept(turn_log, a_turn("a", scope=Scope("\ud801"), request="r"))
        await accept(turn_log, a_turn("a", scope=Scope("?"), request="r"))


def _hints(hint: str, value: str) -> SessionHints:
    return SessionHints(explicit=value) if hint == "session" else SessionHints(conversation_id=value)


class TestIdempotency:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            pytest.param(a_turn("a", request="q"), a_turn("a", request="q", answer="b"), id="request id"),
            pytest.param(a_turn("a", request="q", retry="k"), a_turn("a", request="p", retry="k"), id="retry key"),
            pytest.param(a_turn("a", history="h"), a_turn("a", history="h"), id="history"),
            pytest.param(a_turn("a", before="r"), a_turn("a", before="r"), id="chain"),
            pytest.param(a_turn("a", session="s"), a_turn("a", session="s"), id="session header"),
            pytest.param(a_turn("a", conversation="c"), a_turn("a", conversation="c"), id="conversation"),
            pytest.param(
                a_turn("a", session="s", history="h", request="q", response="r1"),
                a_turn("a", session="s", history="h", request="p", response="r2"),
                id="session header with history, all ids new",
            ),
        ],
    )
    async def test_the_same_again_is_a_duplicate(self, turn_log: WholeTurnLog, first: Turn, second: Turn) -> None:
        await accept(turn_log, a_turn("what they go on from", transcripts=("h",), response="r"))
        appended = await append(turn_log, first)
        again = await append(turn_log, second)
        assert again == replace(appended, outcome=AppendOutcome.DUPLICATE)
        assert (await turn_log.totals()).accepted == 2

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            pytest.param(a_turn("hi"), a_turn("hi"), id="first turns of two conversations"),
            pytest.param(a_turn("hi", request="1"), a_turn("hi", request="2"), id="the same with request ids"),
            pytest.param(a_turn("a", request="q"), a_turn("b", request="q"), id="a client's constant request id"),
            pytest.param(a_turn("a", retry="k"), a_turn("b", retry="k"), id="a client's constant retry key"),
            pytest.param(a_turn("a", request="q"), a_turn("a", request="q", scope=BOB), id="another owner"),
            pytest.param(a_turn("a", request="q"), a_turn("a", retry="q"), id="a retry key like a request id"),
            pytest.param(a_turn("a", "b", request="q"), a_turn("ab", request="q"), id="texts that run together"),
            pytest.param(a_turn("a", response="r"), a_turn("a", response="r"), id="response id"),
            pytest.param(
                a_turn("yes", session="s", history="h1"), a_turn("yes", session="s", history="h2"), id="later: history"
            ),
            pytest.param(a_turn("yes", before="r1"), a_turn("yes", before="r2"), id="later: chain"),
            pytest.param(
                a_turn("x" * 2000, request="q"), a_turn("x" * 2001, request="q"), id="texts that differ beyond the cut"
            ),
        ],
    )
    async def test_what_is_not_the_same_is_accepted(self, turn_log: WholeTurnLog, first: Turn, second: Turn) -> None:
        assert await accept(turn_log, first)
        assert await accept(turn_log, second)

    async def test_a_statement_can_be_taken_back_and_made_again(self, turn_log: WholeTurnLog) -> None:
        """Without a history only the repetition of the newest turn is taken for a retry."""
        for text in ("My budget is $10", "My budget is $12", "My budget is $10"):
            await accept(turn_log, a_turn(text, session="s"))
        assert await outcome(turn_log, a_turn("My budget is $10", session="s")) is AppendOutcome.DUPLICATE

    async def test_a_server_that_reuses_response_ids_loses_nothing(self, turn_log: WholeTurnLog) -> None:
        for number in range(200):
            await accept(turn_log, a_turn(f"turn {number}", request=f"q{number}", response=f"chatcmpl-{number % 7}"))
        assert (await turn_log.totals()).waiting == 200

    async def test_a_regenerated_answer_continues_the_session_too(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("hi", transcripts=("h1",)))
        session = await accept(turn_log, a_turn("tell me", history="h1", transcripts=("h2",), response="r2"))
        again = a_turn("tell me", history="h1", transcripts=("h2b",), response="r2b")
        assert await outcome(turn_log, again) is AppendOutcome.DUPLICATE
        assert await accept(turn_log, a_turn("thanks", history="h2b")) == session
        assert await accept(turn_log, a_turn("thank you", before="r2b")) == session

    async def test_a_retried_first_turn_continues_from_the_second_answer(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("hi", retry="k", transcripts=("h1",)))
        assert await outcome(turn_log, a_turn("hi", retry="k", transcripts=("h1b",))) is AppendOutcome.DUPLICATE
        assert await accept(turn_log, a_turn("more", history="h1b")) == session


class TestToolLoopOfAStoredChain:
    async def test_the_turn_counts_once_with_the_answer(self, turn_log: WholeTurnLog) -> None:
        search, book = ToolUse("search", "3 hotels"), ToolUse("book", "done")
        steps = [
            a_turn("I need a quiet hotel", response="r1", complete=False),
            a_turn(before="r1", response="r2", tools=(search,), complete=False),
            a_turn(before="r2", response="r3", tools=(book,), answer="booked", agent="bot"),
        ]
        outcomes = [(await append(turn_log, step)) for step in steps]
        assert [item.outcome for item in outcomes] == ["incomplete", "incomplete", "accepted"]
        assert len({item.session_id for item in outcomes}) == 1
        assert (await turn_log.totals()).accepted == 1
        claim = await claimed(turn_log, outcomes[0].session_id)
        assert [(turn.user_text, turn.assistant_text, turn.tools, turn.agent) for turn in claim.turns] == [
            ("I need a quiet hotel", "booked", (search, book), "bot")
        ]

    async def test_a_turn_in_the_middle_waits_for_its_end(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("hello", response="r0"))
        (await append(turn_log, a_turn("find it", before="r0", response="r1", complete=False), remember=True))
        assert [(item.waiting, item.remember) for item in await turn_log.pending()] == [(1, False)]
        await accept(turn_log, a_turn(before="r1", response="r2"))
        assert [(item.waiting, item.remember) for item in await turn_log.pending()] == [(2, True)]

    async def test_history_knows_what_the_user_asked(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("hello", answer="hi", response="r0"))
        (await append(turn_log, a_turn("find it", before="r0", response="r1", complete=False)))
        asked = [Message(Role.USER, "hello"), Message(Role.ASSISTANT, "hi"), Message(Role.USER, "find it")]
        assert await turn_log.history(ALICE, "r1", limit=10) == asked
        (await append(turn_log, a_turn(before="r1", response="r2", complete=False)))
        assert await turn_log.history(ALICE, "r2", limit=10) == asked

    async def test_a_step_that_is_tried_twice_finds_the_words(self, turn_log: WholeTurnLog) -> None:
        (await append(turn_log, a_turn("find it", response="r1", complete=False)))
        (await append(turn_log, a_turn(before="r1", response="r2", complete=False)))
        (await append(turn_log, a_turn(before="r1", response="r2b", complete=False)))
        await accept(turn_log, a_turn(before="r2b", response="r3"))
        assert await outcome(turn_log, a_turn(before="r2b", response="r3b")) is AppendOutcome.DUPLICATE
        assert await texts_waiting(turn_log) == ["find it"]

    async def test_words_on_the_way_belong_to_the_turn(self, turn_log: WholeTurnLog) -> None:
        (await append(turn_log, a_turn("find it", response="r1", complete=False)))
        await accept(turn_log, a_turn("quickly", before="r1"))
        assert await texts_waiting(turn_log) == ["find it\nquickly"]

    async def test_loops_of_a_conversation_are_connected_by_it(self, turn_log: WholeTurnLog) -> None:
        for question in ("one", "two"):
            (await append(turn_log, a_turn(question, conversation="c", response=question, complete=False)))
            await accept(turn_log, a_turn(conversation="c"))
        assert await outcome(turn_log, a_turn(conversation="c")) is AppendOutcome.DUPLICATE
        assert await texts_waiting(turn_log) == ["one", "two"]

    async def test_a_second_attempt_in_a_conversation_does_not_double_the_words(self, turn_log: WholeTurnLog) -> None:
        (await append(turn_log, a_turn("find it", conversation="c", response="r1", complete=False)))
        await accept(turn_log, a_turn("find it", conversation="c", response="r2"))
        assert await texts_waiting(turn_log) == ["find it"]

    async def test_loops_with_one_request_id_are_not_retries(self, turn_log: WholeTurnLog) -> None:
        for question in ("one", "two"):
            (await append(turn_log, a_turn(question, response=question, request="q", complete=False)))
            await accept(turn_log, a_turn(before=question, request="q"))
        assert sorted(await texts_waiting(turn_log)) == ["one", "two"]

    async def test_the_words_keep_their_time(self, turn_log: WholeTurnLog) -> None:
        """A deletion between the words and the answer must find them older than itself."""
        (await append(turn_log, a_turn("I live in Rome", response="r1", complete=False)))
        session = await accept(turn_log, a_turn(before="r1", at=START + timedelta(minutes=5)))
        assert (await claimed(turn_log, session)).turns[0].observed_at == START

    async def test_another_owner_or_project_takes_nothing_over(self, turn_log: WholeTurnLog) -> None:
        (await append(turn_log, a_turn("secret", response="r1", complete=False)))
        await accept(turn_log, a_turn(before="r1", scope=BOB))
        await accept(turn_log, a_turn(before="r1", scope=Scope("alice", "work")))
        assert await texts_waiting(turn_log) == ["", ""]

    async def test_an_end_without_its_beginning_is_accepted(self, turn_log: WholeTurnLog) -> None:
        """The chain goes on through it, though nothing was said that could be learned."""
        session = await accept(turn_log, a_turn(before="lost", response="r2"))
        assert await accept(turn_log, a_turn("more", before="r2")) == session


class TestHistory:
    async def test_the_last_messages_of_the_chain_oldest_first(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("a", answer="A", response="r1"))
        await accept(turn_log, a_turn("b", "b2", answer="B", before="r1", response="r2"))
        assert [item.text for item in await turn_log.history(ALICE, "r2", limit=10)] == ["a", "A", "b", "b2", "B"]
        assert [item.text for item in await turn_log.history(ALICE, "r2", limit=2)] == ["b2", "B"]
        assert [item.text for item in await turn_log.history(ALICE, "r1", limit=10)] == ["a", "A"]
        assert await turn_log.history(ALICE, "r2", limit=0) == []

    async def test_a_branch_does_not_see_its_sibling(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("a", answer="A", response="r1"))
        await accept(turn_log, a_turn("b", answer="B", before="r1", response="r2"))
        await accept(turn_log, a_turn("c", answer="C", before="r1", response="r3"))
        assert [item.text for item in await turn_log.history(ALICE, "r3", limit=10)] == ["a", "A", "c", "C"]

    async def test_only_of_the_owner(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("a", response="r1"))
        assert await turn_log.history(BOB, "r1", limit=10) == []
        assert await turn_log.history(ALICE, "r9", limit=10) == []
        assert await turn_log.history(ALICE, "", limit=10) == []


class TestBounds:
    async def test_texts_are_cut_at_the_bound(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("u" * 1001, answer="a" * 1001))
        (turn,) = (await claimed(turn_log, session)).turns
        assert (len(turn.user_text), len(turn.assistant_text)) == (1000, 1000)

    async def test_of_many_messages_the_last_are_kept(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("o" * 600, "m" * 600, "n" * 600))
        (turn,) = (await claimed(turn_log, session)).turns
        assert turn.user_text == "m" * 400 + "\n" + "n" * 600


class TestPending:
    async def test_what_triggers_decide_on(self, turn_log: WholeTurnLog) -> None:
        later = START + timedelta(minutes=3)
        first = await accept(turn_log, a_turn("a", session="one"))
        second = await accept(turn_log, a_turn("b", session="two", scope=BOB), remember=True)
        await accept(turn_log, a_turn("c", session="one", at=later))
        claim = await claimed(turn_log, first)
        await turn_log.mark_rules_done(claim, {claim.turns[0].id: True})
        await turn_log.release(claim)
        one, two = await turn_log.pending()
        assert (one.scope, one.session_id, one.waiting, one.rules_pending) == (ALICE, first, 2, 1)
        assert (one.remember, one.last_observed_at, one.not_before) == (False, later, None)
        assert (two.scope, two.session_id, two.waiting, two.remember) == (BOB, second, 1, True)

    async def test_a_claim_carries_what_was_found_and_asked_before(self, turn_log: WholeTurnLog) -> None:
        """Nothing is read or computed twice: a model's step learns from the claim which turns have a quote."""
        session = await accept(turn_log, a_turn("a", session="one"))
        for text in ("b", "c"):
            await accept(turn_log, a_turn(text, session="one"), remember=text == "c")
        claim = await claimed(turn_log, session)
        quoted, empty, unread = (turn.id for turn in claim.turns)
        await turn_log.mark_rules_done(claim, {quoted: True, empty: False})
        await turn_log.release(claim)
        turns = (await claimed(turn_log, session)).turns
        assert [turn.id for turn in turns] == [quoted, empty, unread]
        assert [(turn.rules_done, turn.rules_found) for turn in turns] == [(True, True), (True, False), (False, False)]
        assert [turn.remember for turn in turns] == [False, False, True]

    async def test_a_session_under_a_live_lease_is_not_offered(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("a"))
        await claimed(turn_log, session)
        assert await turn_log.pending() == []
        clock.step(LEASE.total_seconds())
        assert [item.session_id for item in await turn_log.pending()] == [session]


class TestClaim:
    async def test_it_is_exclusive_until_its_lease_ends(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, a_turn("a"))
        first = await claimed(turn_log, session)
        clock.step(LEASE.total_seconds() - 1)
        assert await turn_log.claim(ALICE, session, lease=LEASE, context=0) is None
        clock.step(1)
        second = await claimed(turn_log, session)
        assert second.token != first.token
        assert second.turns == first.turns

    async def test_a_stale_token_changes_nothing(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, a_turn("a"))
        stale = await claimed(turn_log, session)
        clock.step(LEASE.total_seconds())
        current = await claimed(turn_log, session)
        turn_id = stale.turns[0].id
        await turn_log.mark_rules_done(stale, {turn_id: True})
        await turn_log.finish(stale, {turn_id: True})
        assert await turn_log.fail(stale, "late", retry_at=clock.now(), max_attempts=1) == 0
        await turn_log.release(stale)
        assert await turn_log.surviving(stale) == frozenset()
        assert await turn_log.surviving(current) == {turn_id}
        assert (await turn_log.totals()).waiting == 1
        assert await turn_log.claim(ALICE, session, lease=LEASE, context=0) is None

    async def test_only_of_the_owner_and_only_what_waits(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a"))
        assert await turn_log.claim(BOB, session, lease=LEASE, context=0) is None
        assert await turn_log.claim(ALICE, "\ud800", lease=LEASE, context=0) is None
        claim = await claimed(turn_log, session)
        await turn_log.mark_episode(claim, through=claim.turns[0].sequence)
        await turn_log.finish(claim, {claim.turns[0].id: True})
        assert await turn_log.claim(ALICE, session, lease=LEASE, context=0) is None

    async def test_one_whose_turns_cannot_be_read_is_given_back(
        self, turn_log: WholeTurnLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = await accept(turn_log, a_turn("a"))

        async def failing(*_: object, **__: object) -> Claim:
            raise TurnLogError("the file cannot be read")

        with monkeypatch.context() as broken:
            broken.setattr(claims, "whole", failing)
            with pytest.raises(TurnLogError):
                await claimed(turn_log, session)
        assert [each.session_id for each in await turn_log.pending()] == [session]
        assert [turn.user_text for turn in (await claimed(turn_log, session)).turns] == ["a"]

    async def test_turns_come_in_order_with_the_finished_ones_before_them(self, turn_log: WholeTurnLog) -> None:
        for number in range(4):
            session = await accept(turn_log, a_turn(f"old {number}", session="s"))
        claim = await claimed(turn_log, session)
        await turn_log.finish(claim, {turn.id: number % 2 == 0 for number, turn in enumerate(claim.turns)})
        for number in range(3):
            await accept(turn_log, a_turn(f"new {number}", session="s"))
        claim = await claimed(turn_log, session, context=2)
        assert [turn.user_text for turn in claim.turns] == ["new 0", "new 1", "new 2"]
        assert [turn.user_text for turn in claim.context] == ["old 2", "old 3"]
        sequences = [turn.sequence for turn in (*claim.context, *claim.turns)]
        assert sequences == sorted(set(sequences))

    async def test_finish_ends_what_it_names(self, turn_log: WholeTurnLog) -> None:
        for text in ("a", "b", "c"):
            session = await accept(turn_log, a_turn(text, session="s"))
        claim = await claimed(turn_log, session)
        await turn_log.finish(claim, {claim.turns[0].id: True, claim.turns[1].id: False, "unknown": True})
        totals = await turn_log.totals()
        assert (totals.extracted, totals.empty, totals.waiting) == (1, 1, 1)
        assert [turn.user_text for turn in (await claimed(turn_log, session)).turns] == ["c"]

    async def test_turns_that_come_during_a_claim_are_not_part_of_it(self, turn_log: WholeTurnLog) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        claim = await claimed(turn_log, session)
        late = await append(turn_log, a_turn("b", session="s"))
        await turn_log.finish(claim, {claim.turns[0].id: True, late.turn_id: True})
        assert [turn.user_text for turn in (await claimed(turn_log, session)).turns] == ["b"]

    async def test_failures_back_off_and_end_as_dead_letters(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        for attempt in (1, 2):
            claim = await claimed(turn_log, session)
            assert claim.turns[0].attempts == attempt - 1
            retry_at = clock.step(10)
            dead = await turn_log.fail(claim, "timeout", retry_at=retry_at, max_attempts=3)
            (pending,) = await turn_log.pending()
            assert (dead, pending.not_before) == (0, retry_at)
        await accept(turn_log, a_turn("b", session="s"))
        claim = await claimed(turn_log, session)
        assert await turn_log.fail(claim, "timeout", retry_at=clock.now(), max_attempts=3) == 1
        claim = await claimed(turn_log, session)
        assert [(turn.user_text, turn.attempts) for turn in claim.turns] == [("b", 1)]
        totals = await turn_log.totals()
        assert (totals.dead_lettered, totals.waiting) == (1, 1)

    async def test_a_turn_after_dead_letters_does_not_wait_for_their_back_off(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        await turn_log.fail(await claimed(turn_log, session), "timeout", retry_at=clock.now() + LEASE, max_attempts=1)
        await accept(turn_log, a_turn("b", session="s"))
        assert [item.not_before for item in await turn_log.pending()] == [None]

    async def test_it_says_until_when_failed_turns_are_to_be_left_alone(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("a", session="s"))
        claim = await claimed(turn_log, session)
        assert claim.not_before is None
        retry_at = clock.now() + LEASE
        await turn_log.fail(claim, "timeout", retry_at=retry_at, max_attempts=5)
        again = await claimed(turn_log, session)
        assert again.not_before == retry_at
        await turn_log.release(again)
        assert (await claimed(turn_log, session)).not_before == retry_at

    async def test_it_holds_the_first_turns_and_the_first_that_the_rules_have_not_seen(
        self, turn_log: WholeTurnLog
    ) -> None:
        for number in range(330):
            session = await accept(turn_log, a_turn(str(number), session="s"))
        for _ in range(3):
            claim = await claimed(turn_log, session)
            unseen = [turn.id for turn in claim.turns if not turn.rules_done]
            assert len(unseen) == 100
            await turn_log.mark_rules_done(claim, dict.fromkeys(unseen, False))
            await turn_log.release(claim)
        claim = await claimed(turn_log, session)
        assert [turn.user_text for turn in claim.turns] == [str(number) for number in (*range(100), *range(300, 330))]
        assert (await turn_log.totals()).waiting == 330

    async def test_a_lease_that_is_renewed_ends_later(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, a_turn("a"))
        claim = await claimed(turn_log, session)
        for _ in range(5):
            clock.step(LEASE.total_seconds() - 1)
            assert await turn_log.renew(claim, lease=LEASE)
            assert await turn_log.claim(ALICE, session, lease=LEASE, context=0) is None
            assert await turn_log.pending() == []
        clock.step(LEASE.total_seconds())
        assert (await claimed(turn_log, session)).token != claim.token

    async def test_only_the_current_claim_can_be_renewed(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, a_turn("a"))
        stale = await claimed(turn_log, session)
        clock.step(LEASE.total_seconds())
        # As long as nobody else has taken it.
        assert await turn_log.renew(stale, lease=timedelta(0))
        current = await claimed(turn_log, session)
        assert not await turn_log.renew(stale, lease=10 * LEASE)
        await turn_log.release(current)
        assert not await turn_log.renew(current, lease=LEASE)
        assert await turn_log.claim(ALICE, session, lease=LEASE, context=0) is not None

    async def test_a_clock_that_is_set_back_does_not_keep_a_lease_alive(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("a"))
        first = await claimed(turn_log, session)
        clock.step(-3600)
        assert [item.session_id for item in await turn_log.pending()] == [session]
        second = await claimed(turn_log, session)
        assert await turn_log.surviving(first) == frozenset()
        assert await turn_log.pending() == []
        # A little behind is what the clocks of replicas are.
        clock.step(-5)
        assert await turn_log.pending() == []
        assert await turn_log.claim(ALICE, session, lease=LEASE, context=0) is None
        assert len(await turn_log.surviving(second)) == 1

    async def test_a_clock_that_is_set_back_does_not_prolong_a_back_off(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        session = await accept(turn_log, a_turn("a"))
        await turn_log.fail(await claimed(turn_log, session), "x", retry_at=clock.now() + LEASE, max_attempts=5)
        clock.step(-30 * 86_400)
        assert [item.not_before for item in await turn_log.pending()] == [None]
        assert (await claimed(turn_log, session)).not_before is None

    async def test_success_ends_the_back_off(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        for text in ("a", "b"):
            session = await accept(turn_log, a_turn(text, session="s"))
        await turn_log.fail(await claimed(turn_log, session), "timeout", retry_at=clock.now() + LEASE, max_attempts=5)
        claim = await claimed(turn_log, session)
        await turn_log.finish(claim, {claim.turns[0].id: True})
        assert [item.not_before for item in await turn_log.pending()] == [None]


def a_memory(memory_id: str, *, scope: Scope = ALICE, at: datetime = START) -> Memory:
    return Memory(
        id=memory_id,
        scope=scope,
        type=MemoryType.SEMANTIC,
        content="User lives in Berlin",
        source="conversation",
        observed_at=at,
        created_at=at,
        updated_at=at,
    )


class TestTombstones:
    async def test_a_memory_and_its_statement_stay_away(self, turn_log: WholeTurnLog) -> None:
        deleted_at = START + timedelta(minutes=1)
        later = deleted_at + timedelta(microseconds=1)
        content_hash = turn_log.content_hash("User lives in Berlin.")
        await turn_log.tombstone(Tombstone(scope=ALICE, at=deleted_at, memory_id="m1", content_hash=content_hash))
        deleted = await turn_log.tombstones(ALICE)
        assert deleted.covers(a_memory("m1"))
        assert not deleted.covers(a_memory("m2"))
        assert deleted.forbids(ALICE, "user  LIVES in Ｂｅｒｌｉｎ!", deleted_at)
        assert not deleted.forbids(ALICE, "User lives in Berlin", later)
        assert not deleted.forbids(ALICE, "User lives in Munich", START)
        assert not deleted.forbids(Scope("alice", "work"), "User lives in Berlin", START)
        assert not (await turn_log.tombstones(BOB)).covers(a_memory("m1", scope=BOB))
        assert not (await turn_log.tombstones(BOB)).forbids(BOB, "User lives in Berlin", START)

    @pytest.mark.parametrize(
        ("reach", "own", "project", "other"),
        [(Reach.ALL, True, True, True), (Reach.EXACT, False, True, False)],
    )
    async def test_a_scope_is_deleted_up_to_that_moment(
        self, turn_log: WholeTurnLog, reach: Reach, own: bool, project: bool, other: bool
    ) -> None:
        work, home = Scope("alice", "work"), Scope("alice", "home")
        await turn_log.tombstone(Tombstone(scope=work, at=START, reach=reach))
        deleted = await turn_log.tombstones(ALICE)
        for scope, expected in ((ALICE, own), (work, project), (home, other)):
            assert deleted.covers(a_memory("m", scope=scope)) is expected
            assert deleted.forbids(scope, "anything", START) is expected
            assert not deleted.covers(a_memory("m", scope=scope, at=START + timedelta(microseconds=1)))
        assert not (await turn_log.tombstones(BOB)).covers(a_memory("m", scope=BOB))

    async def test_later_deletions_join_earlier_ones(self, turn_log: WholeTurnLog) -> None:
        for memory_id in ("m1", "m2"):
            await turn_log.tombstone(Tombstone(scope=ALICE, at=START, memory_id=memory_id))
            assert (await turn_log.tombstones(ALICE)).covers(a_memory(memory_id))
        assert (await turn_log.tombstones(ALICE)).covers(a_memory("m1"))

    async def test_what_was_said_before_the_deletion_is_not_written_any_more(self, turn_log: WholeTurnLog) -> None:
        await turn_log.tombstone(Tombstone(scope=Scope("alice", "work"), at=START, reach=Reach.EXACT))
        work = a_turn("a", scope=Scope("alice", "work"))
        assert await outcome(turn_log, work) is AppendOutcome.FORGOTTEN
        assert await outcome(turn_log, replace(work, complete=False, response_id="r")) is AppendOutcome.FORGOTTEN
        await accept(turn_log, replace(work, observed_at=START + timedelta(microseconds=1)))
        await accept(turn_log, a_turn("a"))
        await accept(turn_log, a_turn("a", scope=Scope("bob", "work")))

    async def test_named_turns_go_with_their_memory(self, turn_log: WholeTurnLog) -> None:
        first = await append(turn_log, a_turn("a", session="s", response="r"))
        foreign = await append(turn_log, a_turn("b", scope=BOB))
        await accept(turn_log, a_turn("c", session="s"))
        claim = await claimed(turn_log, first.session_id)
        await turn_log.tombstone(
            Tombstone(scope=ALICE, at=START, memory_id="m"), turn_ids=[first.turn_id, first.turn_id, foreign.turn_id]
        )
        assert await turn_log.surviving(claim) == {claim.turns[1].id}
        assert await turn_log.history(ALICE, "r", limit=5) == []
        await turn_log.finish(claim, {turn.id: True for turn in claim.turns})
        totals = await turn_log.totals()
        assert (totals.accepted, totals.extracted, totals.deleted, totals.waiting) == (3, 1, 1, 1)

    async def test_a_scope_goes_with_all_that_was_said_in_it(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, a_turn("a", transcripts=("h",), response="r", request="q"))
        claim = await claimed(turn_log, session)
        (await append(turn_log, a_turn("b", response="r1", complete=False)))
        await accept(turn_log, a_turn("in a project", scope=Scope("alice", "work")))
        await accept(turn_log, a_turn("foreign", scope=BOB))
        await accept(turn_log, a_turn("said before, by a later clock", at=START + timedelta(seconds=2)))
        await turn_log.tombstone(Tombstone(scope=ALICE, at=clock.step(1)))
        assert await turn_log.surviving(claim) == frozenset()
        await turn_log.finish(claim, {claim.turns[0].id: True})
        assert await texts_waiting(turn_log) == ["foreign"]
        later = START + timedelta(seconds=3)
        assert await accept(turn_log, a_turn("a", history="h", at=later)) != session
        assert await accept(turn_log, a_turn("a", before="r", request="q", at=later)) != session
        assert await turn_log.history(ALICE, "r1", limit=5) == []
        assert (await turn_log.totals()).deleted == 3

    async def test_exact_leaves_other_projects_alone(self, turn_log: WholeTurnLog) -> None:
        await accept(turn_log, a_turn("own"))
        await accept(turn_log, a_turn("work", scope=Scope("alice", "work")))
        await turn_log.tombstone(Tombstone(scope=ALICE, at=START, reach=Reach.EXACT))
        assert await texts_waiting(turn_log) == ["work"]

    async def test_a_deletion_during_a_purge_is_not_taken_for_complete(
        self, turn_log: WholeTurnLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As when a sweep completes an older deletion, and the process ends right after the tombstone of a newer one."""
        assert isinstance(turn_log, StoredTurnLog)
        for number, project in enumerate(["gemini", "gemini", "apollo"]):
            await accept(turn_log, a_turn(str(number), scope=Scope("alice", project), session=str(number)))
        monkeypatch.setattr(removal, "BATCH", 1)
        storage = turn_log
        real, purged = storage.change, []

        async def change(operation: str, owner: Any, decide: Any) -> Any:
            result = await real(operation, owner, decide)
            if operation == "purge":
                purged.append(owner)
                if len(purged) == 2:
                    await turn_log._commit(Tombstone(scope=Scope("alice", "apollo"), at=START, reach=Reach.EXACT))
            return result

        monkeypatch.setattr(storage, "change", change)
        await turn_log.tombstone(Tombstone(scope=Scope("alice", "gemini"), at=START, reach=Reach.EXACT))
        await turn_log.sweep(finished_before=START)
        assert (await turn_log.totals()).deleted == 3

    async def test_dead_letters_are_deleted_and_finished_turns_stay_counted(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        for text, dies in (("a", False), ("b", True)):
            claim = await claimed(turn_log, await accept(turn_log, a_turn(text, session=text)))
            if dies:
                await turn_log.fail(claim, "error", retry_at=clock.now(), max_attempts=1)
            else:
                await turn_log.finish(claim, {claim.turns[0].id: True})
        await turn_log.tombstone(Tombstone(scope=ALICE, at=START))
        totals = await turn_log.totals()
        assert (totals.accepted, totals.extracted, totals.dead_lettered, totals.deleted) == (2, 1, 0, 1)


class TestSweep:
    async def test_old_finished_turns_go_with_their_traces(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        session = await accept(turn_log, a_turn("a", transcripts=("h",), response="r", request="q"))
        claim = await claimed(turn_log, session)
        await turn_log.finish(claim, {claim.turns[0].id: True})
        assert await turn_log.sweep(finished_before=clock.now()) == 0
        assert [item.text for item in await turn_log.history(ALICE, "r", limit=5)] == ["a", "fine"]
        clock.step(1)
        assert await turn_log.sweep(finished_before=clock.now()) == 1
        assert await turn_log.history(ALICE, "r", limit=5) == []
        assert await accept(turn_log, a_turn("b", history="h")) != session
        assert (await turn_log.totals()).extracted == 1
        await assert_balanced(turn_log)

    async def test_waiting_and_dead_turns_are_kept(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        claim = await claimed(turn_log, await accept(turn_log, a_turn("dead", session="s")))
        await turn_log.fail(claim, "error", retry_at=clock.now(), max_attempts=1)
        await accept(turn_log, a_turn("waiting", session="s"))
        (await append(turn_log, a_turn("never completed", response="r", complete=False)))
        clock.step(1)
        assert await turn_log.sweep(finished_before=clock.now()) == 1
        claim = await claimed(turn_log, claim.session_id)
        assert [turn.user_text for turn in (*claim.context, *claim.turns)] == ["dead", "waiting"]

    async def test_many_turns_go_in_one_call(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        for number in range(450):
            session = await accept(turn_log, a_turn(str(number), session="s"))
        while (await turn_log.totals()).waiting:
            claim = await claimed(turn_log, session)
            await turn_log.finish(claim, {turn.id: False for turn in claim.turns})
        clock.step(1)
        assert await turn_log.sweep(finished_before=clock.now()) == 450

    async def test_answers_since_a_moment_are_erased(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        """Of turns that do not wait, in all of the user's projects; what waits, what is older and what others say stays."""
        work = Scope("alice", "work")
        for number, scope in enumerate((ALICE, ALICE, work, BOB)):
            told = a_turn(f"text {number}", answer=f"answer {number}", scope=scope, at=clock.step(1), session="s")
            session = await accept(turn_log, replace(told, items=({"said": f"item {number}"},)))
            claim = await claimed(turn_log, session, scope)
            await turn_log.finish(claim, {turn.id: False for turn in claim.turns})
        await accept(turn_log, a_turn("waits", answer="answer 4", at=clock.step(1), session="s"))
        step = a_turn("never completed", answer="", at=clock.step(1), response="r", complete=False)
        await append(turn_log, replace(step, tools=(ToolUse("find", "found 5"),), items=({"said": "item 5"},)))
        for _ in range(2):
            await turn_log.erase_answers(ALICE, since=START + timedelta(seconds=2))
        shown = await turn_log.list_turns(scope=None, states=None, limit=50)
        assert sorted(turn.assistant_text for turn in shown if turn.assistant_text) == [
            "answer 0",
            "answer 3",
            "answer 4",
        ]
        assert {str(turn.items) for turn in shown if turn.items} == {"({'said': 'item 0'},)", "({'said': 'item 3'},)"}
        assert [turn.tools for turn in shown if turn.tools] == []
        assert "never completed" in {turn.user_text for turn in shown}
        await assert_balanced(turn_log)

    @pytest.mark.parametrize("appended", ["before", "after"])
    async def test_the_text_of_a_turn_under_way_during_a_deletion_goes_when_it_is_finished(
        self, turn_log: WholeTurnLog, clock: SteppedClock, tmp_path: Path, appended: str
    ) -> None:
        """It is accepted, extracted and counted all the same; the text of one that began later stays."""
        under_way = a_turn("Qaanaaq, 10,031", answer="Qaanaaq: ten thousand", session="s", response="r1")
        deletion = Tombstone(scope=ALICE, at=clock.step(1), memory_id="m", content_hash="x")
        if appended == "after":
            await turn_log.tombstone(deletion)
        session = await accept(turn_log, under_way)
        await turn_log.tombstone(deletion)
        await accept(turn_log, a_turn("later", answer="stays", at=clock.step(1), session="s", before="r1"))
        claim = await claimed(turn_log, session)
        assert [turn.user_text for turn in claim.turns] == ["Qaanaaq, 10,031", "later"]
        await turn_log.finish(claim, {turn.id: True for turn in claim.turns})
        shown = await turn_log.list_turns(scope=ALICE, states=None, limit=50)
        assert {turn.user_text + turn.assistant_text for turn in shown} - {""} == {"laterstays"}
        await turn_log.compact()
        assert files_with(tmp_path, "Qaanaaq") == []
        assert (await turn_log.totals()).extracted == 2
        await assert_balanced(turn_log)

    async def test_a_tombstone_outlives_every_sweep(self, turn_log: WholeTurnLog, clock: SteppedClock) -> None:
        """A store that was away at the deletion may show the row again at any later time."""
        content_hash = turn_log.content_hash("User lives in Berlin")
        await turn_log.tombstone(Tombstone(scope=ALICE, at=START, memory_id="m", content_hash=content_hash))
        clock.step(1)
        await turn_log.sweep(finished_before=clock.now())
        assert (await turn_log.tombstones(ALICE)).covers(a_memory("m"))
        assert (await turn_log.tombstones(ALICE)).forbids(ALICE, "User lives in Berlin", START)

    async def test_a_deletion_of_everything_covers_the_earlier_ones(
        self, turn_log: WholeTurnLog, clock: SteppedClock
    ) -> None:
        """The earlier tombstones go, and what they said still holds; another user's stay."""
        for scope in (ALICE, BOB):
            await turn_log.tombstone(Tombstone(scope=scope, at=START, memory_id="m"))
        later = clock.step(1)
        await turn_log.tombstone(Tombstone(scope=ALICE, at=later))
        assert (await turn_log.tombstones(ALICE)).covers(a_memory("m"))
        assert (await turn_log.tombstones(BOB)).covers(a_memory("m", scope=BOB))
