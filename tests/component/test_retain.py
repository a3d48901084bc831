"""Retaining with the real turn log, locks and rules: what happens to a turn, and what goes wrong on the way."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from semrouter_memory import priority
from semrouter_memory.backends import Backends
from semrouter_memory.errors import (
    ChatModelError,
    LockLostError,
    ModelUnavailableError,
    StoreUnavailableError,
    TurnLogError,
)
from semrouter_memory.model import (
    Appended,
    AppendOutcome,
    Candidate,
    Claim,
    Criteria,
    EmbeddedMemory,
    LoggedTurn,
    Reach,
    Scope,
    SessionHints,
    Tombstone,
    Turn,
    TurnTotals,
)
from semrouter_memory.retain import steps
from tests.hashed import HashedEmbedder
from tests.retaining import ALICE, START, MakeBench, ScriptedModel

SECRET = "sk-abcdefghij1234567890"


def _bytes_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir())


async def test_a_statement_is_remembered_at_once_without_a_model(make_bench: MakeBench) -> None:
    bench = make_bench()
    appended = bench.say("My budget for the Hawaii trip is $10,000")
    await bench.work()
    (memory,) = await bench.memories()
    assert memory.content == "My budget for the Hawaii trip is $10,000"
    assert appended is not None
    assert memory.metadata["turn_ids"] == [appended.turn_id]
    assert memory.observed_at == START + timedelta(seconds=1)
    assert await bench.totals() == TurnTotals(accepted=1, extracted=1)
    assert bench.observer.reports[0].stored == 1


async def test_a_turn_without_a_statement_is_finished_as_empty(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("what is the capital of France?")
    await bench.work()
    assert await bench.contents() == []
    assert await bench.totals() == TurnTotals(accepted=1, empty=1)


async def test_a_newer_value_supersedes_and_the_old_one_stays_as_history(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Berlin")
    await bench.work()
    (old,) = await bench.memories()
    bench.say("I moved to Munich", session="s2")
    await bench.work()
    assert await bench.contents() == ["I moved to Munich"]
    history = await bench.store.get(ALICE, old.id)
    assert history is not None
    assert history.superseded_at == bench.clock.now()
    assert history.superseded_by == (await bench.memories())[0].id


@pytest.mark.parametrize(
    ("said", "corrected"),
    [
        ("My blood type is A+.", "My blood type is A-."),
        ("My favourite programming language is C++.", "My favourite programming language is C#."),
        ("My budget for the Hawaii trip is $500.", "My budget for the Hawaii trip is €500."),
    ],
)
async def test_a_correction_of_nothing_but_a_sign_counts(make_bench: MakeBench, said: str, corrected: str) -> None:
    bench = make_bench()
    bench.say(said)
    await bench.work()
    bench.say(corrected, session="s2")
    await bench.work()
    assert await bench.contents() == [corrected]


async def test_what_ended_takes_along_nothing_else_of_the_same_name(make_bench: MakeBench) -> None:
    bench = make_bench()
    said = ["I own a flat in Berlin.", "I no longer live in Berlin."]
    for number, text in enumerate(["I live in Berlin.", *said]):
        bench.say(text, session=f"s{number}")
        await bench.work()
    assert await bench.contents() == sorted(said)


async def test_what_ended_and_is_so_again_is_told_once(make_bench: MakeBench) -> None:
    bench = make_bench()
    for number, text in enumerate(["I work at Acme.", "I no longer work at Acme.", "I work at Acme again."]):
        bench.say(text, session=f"s{number}")
        await bench.work()
    assert await bench.contents() == ["I work at Acme again."]


async def test_the_newer_value_of_what_is_pinned_is_pinned(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Berlin")
    await bench.work()
    (old,) = await bench.memories()
    pinned = replace(old, metadata={**old.metadata, "pinned": True})
    (vector,) = await HashedEmbedder().embed_passages([old.content])
    await bench.store.upsert(ALICE, [EmbeddedMemory(pinned, vector)])
    bench.say("I moved to Munich", session="s2")
    await bench.work()
    (memory,) = await bench.memories()
    assert (memory.content, memory.pinned, memory.expires_at) == ("I moved to Munich", True, None)


async def test_a_late_extracted_older_statement_does_not_supersede(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Berlin", session="early")
    early = bench.woken.pop()
    bench.say("I live in Munich", session="late")
    await bench.work()
    await bench.retainer.process(early)
    assert await bench.contents() == ["I live in Munich"]


async def test_learning_gives_way_to_a_request(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_LONGEST_SECONDS", 60)
    bench = make_bench()
    bench.say("I live in Munich")
    with bench.priority.request():
        working = asyncio.create_task(bench.work())
        await asyncio.sleep(0.05)
        assert await bench.contents() == []
    await working
    assert await bench.contents() == ["I live in Munich"]


async def test_saying_it_again_adds_a_source_not_a_memory(make_bench: MakeBench) -> None:
    bench = make_bench()
    first = bench.say("I live in Berlin")
    again = bench.say("I live in Berlin", session="s2")
    await bench.work()
    (memory,) = await bench.memories()
    assert first is not None
    assert again is not None
    assert memory.metadata["turn_ids"] == [first.turn_id, again.turn_id]


async def test_of_turns_that_are_read_together_the_last_one_holds(make_bench: MakeBench) -> None:
    bench = make_bench()
    for said in ("I live in Bonn", "I live in Rome", "I live in Bonn"):
        bench.say(said)
    await bench.work()
    assert await bench.contents() == ["I live in Bonn"]


async def test_secrets_reach_neither_the_log_nor_the_memories(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = make_bench()
    bench.say("My api key is sk-abcdefghij1234567890. I live in Bonn.", answer="sk-zyxwvutsrq0987654321")
    await bench.work()
    assert await bench.contents() == ["I live in Bonn."]
    assert bench.observer.redacted == ["api_key", "api_key"]
    written = _bytes_of(tmp_path)
    assert b"sk-abc" not in written
    assert b"sk-zyx" not in written


async def test_words_that_begin_as_secrets_do_are_remembered(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I am allergic to pineapple.")
    await bench.work()
    assert await bench.contents() == ["I am allergic to pineapple."]
    assert bench.observer.redacted == []


async def test_a_log_that_cannot_be_written_drops_the_turn_and_says_so(make_bench: MakeBench) -> None:
    bench = make_bench()

    def refuse(turn: Turn, *, remember: bool) -> Appended:
        raise TurnLogError("disk full")

    bench.log.append = refuse  # type: ignore[method-assign]
    assert bench.say("I live in Bonn") is None
    assert bench.observer.dropped == ["log_failed"]
    assert bench.woken == []


async def test_what_is_said_in_a_pause_is_not_remembered(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Berlin")
    await bench.log.set_paused(ALICE, paused=True)
    bench.say("I am allergic to peanuts")
    await bench.work()
    await bench.log.set_paused(ALICE, paused=False)
    bench.say("My dog is called Rex")
    await bench.work()
    assert sorted(await bench.contents()) == ["I live in Berlin", "My dog is called Rex"]


async def test_a_conversation_that_is_not_to_be_remembered_leaves_no_memory(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Berlin", session="private")
    bench.say("Please don't remember this conversation", session="private")
    bench.say("I am allergic to peanuts", session="private")
    bench.say("My dog is called Rex", session="other")
    await bench.work()
    assert await bench.contents() == ["My dog is called Rex"]


async def test_a_duplicate_wakes_nobody(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Bonn")
    bench.clock.step(seconds=-1)
    again = bench.say("I live in Bonn")
    assert again is not None
    assert again.outcome is AppendOutcome.DUPLICATE
    assert len(bench.woken) == 1


async def test_without_a_store_turns_wait_and_no_attempt_is_counted(make_bench: MakeBench) -> None:
    bench = make_bench(retry_seconds=5)
    bench.say("I live in Bonn")
    bench.store.error = StoreUnavailableError("gone")
    await bench.work()
    assert bench.observer.store_failures == 1
    bench.store.error = None
    await bench.tick()
    assert await bench.contents() == []  # the pause is not over
    bench.clock.step(seconds=5)
    await bench.tick()
    assert await bench.contents() == ["I live in Bonn"]
    assert (await bench.totals()).extracted == 1


async def test_a_store_known_to_be_away_is_left_alone(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Bonn")
    bench.store.away = True
    await bench.work()
    await bench.tick()
    assert bench.observer.store_failures == 0
    bench.store.away = False
    await bench.tick()
    assert await bench.contents() == ["I live in Bonn"]


async def test_a_crash_after_the_write_loses_no_turn_and_duplicates_no_memory(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Munich")
    bench.say("My budget for the Hawaii trip is $10,000")
    bench.store.fail_after_write = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await bench.work()
    assert (await bench.totals()).waiting == 2
    await bench.tick()
    assert await bench.contents() == ["I live in Munich", "My budget for the Hawaii trip is $10,000"]
    assert await bench.totals() == TurnTotals(accepted=2, extracted=2)


async def test_an_error_of_our_own_is_tried_again_and_given_up_in_the_end(make_bench: MakeBench) -> None:
    bench = make_bench(max_attempts=2, retry_seconds=5)
    bench.say("I live in Bonn")
    bench.store.error = ValueError("a bug")
    await bench.work()
    await bench.tick()  # the back-off has not ended
    assert [report.failure for report in bench.observer.reports] == ["ValueError"]
    assert bench.observer.bugs == [bench.store.error]
    bench.clock.step(seconds=5)
    await bench.tick()
    assert bench.observer.reports[-1].dead_lettered == 1
    assert await bench.totals() == TurnTotals(accepted=1, dead_lettered=1)


async def test_the_text_of_finished_turns_is_swept_after_its_time(make_bench: MakeBench) -> None:
    bench = make_bench(turn_retention_days=7)
    swept: list[datetime] = []

    async def sweep(*, finished_before: datetime) -> int:
        swept.append(finished_before)
        return 0

    bench.log.sweep = sweep  # type: ignore[method-assign]
    await bench.tick()
    await bench.tick()
    bench.clock.step(hours=1)
    await bench.tick()
    assert swept == [START - timedelta(days=7), START + timedelta(hours=1) - timedelta(days=7)]


# -- with a model --------------------------------------------------------------------------------------------------------


async def test_the_model_is_asked_every_batch(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.facts = ["User's cousin runs a bakery in Ghent"]
    bench = make_bench(model, batch_size=3)
    for number in range(2):
        bench.say(f"what is {number} plus 1?")
        await bench.work()
        await bench.tick()
    assert model.prompts == []
    bench.say("would my cousin's bakery in Ghent be open?")
    await bench.work()
    assert len(model.prompts) == 1
    assert await bench.contents() == ["User's cousin runs a bakery in Ghent"]
    assert (await bench.totals()).waiting == 0


async def test_rules_do_not_wait_for_the_model(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model)
    bench.say("I live in Bonn")
    await bench.work()
    assert await bench.contents() == ["I live in Bonn"]
    assert (model.prompts, (await bench.totals()).waiting) == ([], 1)


async def test_a_turn_whose_wake_was_lost_is_found_by_the_tick_without_asking_the_model(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model)
    bench.say("I live in Bonn")
    bench.woken.clear()
    await bench.tick()
    assert (await bench.contents(), model.prompts) == (["I live in Bonn"], [])


async def test_a_session_that_falls_idle_is_read_by_the_model(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, session_idle_seconds=300)
    bench.say("hello there")
    await bench.work()
    bench.clock.step(seconds=299)
    await bench.tick()
    assert model.prompts == []
    bench.clock.step(seconds=1)
    await bench.tick()
    assert len(model.prompts) == 1
    assert await bench.totals() == TurnTotals(accepted=1, empty=1)


async def test_an_explicit_wish_asks_the_model_at_once(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model)
    bench.say("Remember that the gate code changes every May")
    await bench.work()
    assert len(model.prompts) == 1


async def test_what_is_said_and_found_again_is_stored_once(make_bench: MakeBench) -> None:
    """The quote; the model's statement of it says no more."""
    model = ScriptedModel()
    model.facts = ["The user has a budget of $10K for the Hawaii vacation"]
    bench = make_bench(model, batch_size=1)
    for session in ("s1", "s2"):
        bench.say("My budget for the Hawaii trip is $10,000", session=session)
        await bench.work()
    assert await bench.contents() == ["My budget for the Hawaii trip is $10,000"]
    assert (await bench.totals()).extracted == 2


async def test_earlier_turns_are_given_as_context(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, batch_size=1, context_turns=2)
    for text in ("first words", "second words", "third words", "fourth words"):
        bench.say(text)
        await bench.work()
    assert "first words" not in model.prompts[-1]
    assert model.prompts[-1].index("second words") < model.prompts[-1].index("Conversation:")


@pytest.mark.parametrize(
    ("error", "raw", "failure"), [(ChatModelError("down"), None, "model_failed"), (None, "oops", "parse_failed")]
)
async def test_a_failing_model_is_asked_again_later_and_given_up_in_the_end(
    make_bench: MakeBench, error: Exception | None, raw: str | None, failure: str
) -> None:
    model = ScriptedModel()
    model.error, model.raw = error, raw
    bench = make_bench(model, batch_size=1, retry_seconds=10, max_attempts=3)
    bench.say("I live in Bonn")
    await bench.work()
    for pause in (10, 20):
        bench.clock.step(seconds=pause - 1)
        await bench.tick()
        asked = len(model.prompts)
        bench.clock.step(seconds=1)
        await bench.tick()
        assert len(model.prompts) == asked + 1
    assert len(model.prompts) == 3
    assert {report.failure for report in bench.observer.reports[1:]} == {failure}
    assert bench.observer.reports[-1].dead_lettered == 1
    assert await bench.contents() == ["I live in Bonn"]
    assert await bench.totals() == TurnTotals(accepted=1, dead_lettered=1)


async def test_new_turns_are_read_by_the_rules_while_the_model_is_in_back_off(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.error = ChatModelError("down")
    bench = make_bench(model, batch_size=1)
    bench.say("I live in Bonn")
    await bench.work()
    bench.say("I have two cats")
    await bench.work()
    assert await bench.contents() == ["I have two cats", "I live in Bonn"]
    assert len(model.prompts) == 1


async def test_what_is_written_is_never_longer_than_the_embedding_model_reads(make_bench: MakeBench) -> None:
    """Whole sentences stay as far as they fit; a single one that does not is refused, and counted."""
    said = "User plays the cello in the orchestra of the town hall every Tuesday and every other Friday evening"
    model = ScriptedModel()
    model.facts = ["User owns a cello", "User owns a cello from Mittenwald. " + said, said]
    bench = make_bench(model, batch_size=1, max_passage_tokens=8, quotes=False)
    bench.say(f"I own a cello from Mittenwald. I own a cello. {said.replace('User plays', 'I play')}.")
    await bench.work()
    assert sorted(await bench.contents()) == ["User owns a cello from Mittenwald."]
    (report,) = bench.observer.reports
    assert report.actions["too_long"] == 1
    assert (await bench.totals()).extracted == 1


# -- taking back -------------------------------------------------------------------------------------------------------

TAKES_BACK = ["scratch that", "Please don't remember that.", "no wait, forget what I just said", "忘了刚才说的"]


@pytest.mark.parametrize("message", TAKES_BACK)
async def test_the_next_turn_takes_back_what_the_turn_before_stored(make_bench: MakeBench, message: str) -> None:
    bench = make_bench()
    for said in ("I have two cats", "I live in Bonn", message):
        bench.say(said)
        await bench.work()
    assert await bench.contents() == ["I have two cats"]
    assert bench.observer.reports[-1].actions == {"withdrawn": 1}
    assert (await bench.totals()).waiting == 0


async def test_what_was_superseded_holds_again_when_its_successor_is_taken_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    for said in ("I live in Berlin", "I moved to Munich", "scratch that"):
        bench.say(said)
        await bench.work()
    (memory,) = await bench.memories()
    assert (memory.content, memory.superseded_at, memory.superseded_by) == ("I live in Berlin", None, "")


async def test_a_quote_that_was_outdated_in_part_is_whole_again(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("My budget for the Hawaii trip is $10,000. I have two cats.")
    await bench.work()
    bench.say("my budget for the Hawaii trip is $15,000 now", session="s2")
    await bench.work()
    assert any(memory.outdated_by for memory in await bench.memories())
    bench.say("forget what I just said", session="s2")
    await bench.work()
    (memory,) = await bench.memories()
    assert memory.outdated_by == ()


async def test_a_new_value_is_stored_after_the_old_one_is_taken_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    for said in ("I live in Berlin", "I moved to Munich", "Scratch that. I moved to Hamburg."):
        bench.say(said)
        await bench.work()
    (memory,) = await bench.memories()
    assert memory.content == "I moved to Hamburg."
    (old,) = await bench.store.predecessors(ALICE, [memory.id])
    assert old.content == "I live in Berlin"


async def test_only_the_last_turn_of_the_same_session_is_taken_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Bonn")
    bench.say("I have two cats", session="s2")
    bench.say("what is a quark?", session="s2")
    await bench.work()
    for session in ("s1", "s2", "s2", "s3"):
        if session != "s1":
            bench.say("scratch that", session=session)
            await bench.work()
    assert await bench.contents() == ["I have two cats", "I live in Bonn"]


async def test_nobody_takes_back_what_another_user_said(make_bench: MakeBench) -> None:
    bench = make_bench()
    bob = Scope("bob")
    bench.say("I live in Bonn")
    await bench.work()
    for said in ("I live in Rome", "scratch that"):
        bench.clock.step(seconds=1)
        hints = SessionHints(explicit="s1")
        turn = Turn(scope=bob, hints=hints, user_texts=(said,), assistant_text="Noted.", observed_at=bench.log.now())
        bench.retainer.intake.accept(replace(turn, request_id=said))
        await bench.work()
    assert await bench.contents() == ["I live in Bonn"]
    assert (await bench.store.page(Criteria(bob), limit=9)).memories == ()


@pytest.mark.parametrize(
    "message",
    [
        "don't remember that guy's name",
        "forget that, what else is there?",
        "I scratched that car",
        "never mind",
        "forget it",
    ],
)
async def test_what_may_mean_something_else_takes_nothing_back(make_bench: MakeBench, message: str) -> None:
    bench = make_bench()
    for said in ("I live in Bonn", message):
        bench.say(said)
        await bench.work()
    assert "I live in Bonn" in await bench.contents()


async def test_what_other_turns_said_too_is_not_taken_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    for said in ("I live in Bonn", "what is a quark?", "I live in Bonn", "scratch that"):
        bench.say(said)
        await bench.work()
    assert await bench.contents() == ["I live in Bonn"]


@pytest.mark.parametrize("quotes", [True, False])
async def test_a_model_stores_nothing_of_a_turn_that_was_taken_back(make_bench: MakeBench, *, quotes: bool) -> None:
    model = ScriptedModel()
    model.raw = json.dumps([{"type": "semantic", "content": "User lives in Bonn", "turn": 1}])
    bench = make_bench(model, batch_size=1, quotes=quotes)
    bench.say("I live in Bonn")
    await bench.work()
    assert "User lives in Bonn" in await bench.contents() or "I live in Bonn" in await bench.contents()
    bench.say("scratch that")
    await bench.work()
    assert await bench.contents() == []


async def test_a_crash_while_taking_back_is_repaired(make_bench: MakeBench) -> None:
    bench = make_bench()
    for said in ("I live in Berlin", "I moved to Munich"):
        bench.say(said)
        await bench.work()
    bench.store.fail_after_write = RuntimeError("crash")
    bench.say("scratch that")
    await bench.work()
    bench.clock.step(hours=2)
    await bench.tick()
    assert await bench.contents() == ["I live in Berlin"]


async def test_the_owner_is_not_locked_while_the_model_thinks(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, batch_size=1)

    async def take_the_lock() -> None:
        async with asyncio.timeout(60), bench.locks.hold(ALICE):
            pass

    model.meanwhile = take_the_lock
    bench.say("hello")
    await bench.work()
    assert (await bench.totals()).waiting == 0


async def test_a_turn_deleted_while_the_model_read_it_spoils_the_batch(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.facts = ["User hides gold under the oak"]
    bench = make_bench(model, batch_size=2)
    secret = bench.say("the gold is under the oak, hm?")
    bench.say("what else is new?")
    assert secret is not None

    async def delete_it() -> None:
        model.meanwhile = None
        tombstone = Tombstone(scope=ALICE, at=bench.clock.now(), memory_id="mem_x")
        await bench.log.tombstone(tombstone, turn_ids=[secret.turn_id])

    model.meanwhile = delete_it
    await bench.work()
    assert await bench.contents() == []
    totals = await bench.totals()
    assert (totals.waiting, totals.deleted) == (1, 1)
    model.facts = []
    bench.clock.step(hours=1)
    await bench.tick()
    assert "oak" not in model.prompts[-1]
    assert (await bench.totals()).waiting == 0


async def test_of_a_quote_the_sentence_that_was_deleted_is_not_written_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    said = bench.say("My budget for the Hawaii trip is $10,000. I live in Bonn.")
    assert said is not None
    digest = bench.log.content_hash("my budget for the Hawaii trip is $10,000")
    tombstone = Tombstone(scope=ALICE, at=bench.clock.now(), memory_id="mem_x", content_hash=digest)
    await bench.log.tombstone(tombstone)
    await bench.work()
    (memory,) = await bench.memories()
    assert memory.content == "I live in Bonn."
    assert [fact.value for fact in memory.facts] == ["Bonn"]


async def test_what_was_deleted_after_it_was_said_is_not_written_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Bonn")
    bench.clock.step(seconds=1)
    digest = bench.log.content_hash("I live in Bonn")
    await bench.log.tombstone(Tombstone(scope=ALICE, at=bench.clock.now(), memory_id="mem_x", content_hash=digest))
    await bench.work()
    assert await bench.contents() == []
    bench.say("I live in Bonn", session="after")
    await bench.work()
    assert await bench.contents() == ["I live in Bonn"]


async def test_a_deleted_user_gets_nothing_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Bonn")
    bench.clock.step(seconds=1)
    await bench.log.tombstone(Tombstone(scope=ALICE, at=bench.clock.now(), reach=Reach.ALL))
    await bench.work()
    assert await bench.contents() == []


async def test_many_waiting_turns_are_read_in_batches(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, batch_size=3)
    for number in range(8):
        bench.say(f"what is {number} plus 1?")
    bench.clock.step(hours=1)
    await bench.tick()
    await bench.tick()
    assert [prompt.split("Conversation:")[1].count("User:") for prompt in model.prompts] == [3, 3, 2]


async def test_rules_can_be_switched_off(make_bench: MakeBench) -> None:
    bench = make_bench(quotes=False)
    bench.say("I live in Bonn")
    await bench.work()
    assert await bench.contents() == []
    assert await bench.totals() == TurnTotals(accepted=1, empty=1)


# -- what fails does not take others with it -------------------------------------------------------------------------------


async def test_new_turns_do_not_shorten_the_back_off_of_those_that_failed(make_bench: MakeBench) -> None:
    bench = make_bench(retry_seconds=600, max_attempts=3)
    bench.store.error = RuntimeError("a bug")
    for number in range(9):
        bench.say(f"My cat number {number} is called Tom")
        await bench.work()
    assert await bench.totals() == TurnTotals(accepted=9, waiting=9)
    assert len(bench.observer.bugs) == 1


async def test_a_turn_that_the_rules_step_cannot_bear_is_given_up_alone(make_bench: MakeBench) -> None:
    bench = make_bench(retry_seconds=5)
    write = bench.store.upsert

    async def upsert(scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        if any("poison" in row.memory.content for row in rows):
            raise RuntimeError("a bug")
        await write(scope, rows)

    bench.store.upsert = upsert  # type: ignore[method-assign]
    for text in ("I live in Bonn", "My boat is called poison", "I have two cats", "My sister is called Anna"):
        bench.say(text)
    for _ in range(40):
        await bench.work()
        bench.clock.step(minutes=15)
        await bench.tick()
    assert await bench.totals() == TurnTotals(accepted=4, extracted=3, dead_lettered=1)


async def test_one_refused_write_keeps_no_other_session_waiting_and_ends_as_a_dead_letter(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(retry_seconds=5, session_idle_seconds=100_000)
    write = bench.store.upsert

    async def upsert(scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        if any("poison" in row.memory.content for row in rows):
            raise StoreUnavailableError("refused")
        await write(scope, rows)

    bench.store.upsert = upsert  # type: ignore[method-assign]
    bench.say("My boat is called poison", session="bad")
    await bench.work()
    bench.say("I live in Bonn", session="good")
    bench.woken.clear()
    await bench.tick()
    assert await bench.contents() == ["I live in Bonn"]
    for _ in range(40):
        bench.clock.step(minutes=15)
        await bench.tick()
    assert await bench.totals() == TurnTotals(accepted=2, extracted=1, dead_lettered=1)


async def test_a_lost_lock_counts_no_attempt(make_bench: MakeBench) -> None:
    bench = make_bench(retry_seconds=5, max_attempts=2)
    bench.say("I live in Bonn")
    bench.store.error = LockLostError("lost")
    for _ in range(10):
        await bench.work()
        bench.clock.step(minutes=15)
        await bench.tick()
    assert await bench.totals() == TurnTotals(accepted=1, waiting=1)
    bench.store.error = None
    bench.clock.step(minutes=15)
    await bench.tick()
    assert await bench.totals() == TurnTotals(accepted=1, extracted=1)


async def test_a_clock_that_is_put_back_prolongs_no_pause(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, batch_size=1)
    bench.clock.step(hours=6)
    bench.say("I live in Bonn")
    bench.store.error = StoreUnavailableError("gone")
    await bench.work()
    bench.store.error = None
    model.error = ModelUnavailableError("away", wait_seconds=300, circuit_open=True)
    bench.clock.step(hours=-6)
    await bench.tick()
    assert await bench.contents() == ["I live in Bonn"]
    bench.clock.step(hours=-6)
    model.error = None
    await bench.tick()
    assert (await bench.totals()).waiting == 0


async def test_a_step_that_takes_longer_than_its_lease_is_not_done_by_two(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.facts = ["User lives in Bonn"]
    bench = make_bench(model, batch_size=1, lease_seconds=0.09)
    renewed = asyncio.Event()
    renew = bench.log.renew

    async def noticed(claim: Claim, *, lease: timedelta) -> bool:
        current = await renew(claim, lease=lease)
        renewed.set()
        return current

    bench.log.renew = noticed  # type: ignore[method-assign]
    seen: list[object] = []

    async def think() -> None:
        for _ in range(3):
            renewed.clear()
            bench.clock.step(seconds=0.08)
            await renewed.wait()
        seen.extend(await bench.log.pending())

    model.meanwhile = think
    bench.say("I live in Bonn")
    async with asyncio.timeout(30):
        await bench.work()
    assert seen == []
    assert len(model.prompts) == 1
    assert await bench.totals() == TurnTotals(accepted=1, extracted=1)


async def test_while_the_model_is_away_the_rules_read_new_turns_only(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel()
    model.error = ModelUnavailableError("away", wait_seconds=3600, circuit_open=True)
    bench = make_bench(model, batch_size=1)
    read: list[int] = []
    reading = steps.read

    async def counted(
        turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn], backends: Backends
    ) -> tuple[Candidate, ...]:
        read.append(len(turns))
        return await reading(turns, context, backends)

    monkeypatch.setattr(steps, "read", counted)
    for number in range(30):
        bench.say(f"My cat number {number} is called Tom")
        await bench.work()
    assert read == [1] * 30
    model.error = None
    bench.clock.step(hours=2)
    for _ in range(40):
        await bench.tick()
    assert await bench.totals() == TurnTotals(accepted=30, extracted=30)


# -- long turns ------------------------------------------------------------------------------------------------------------


async def test_long_turns_are_cleaned_beside_the_loop_and_stay_in_order(make_bench: MakeBench) -> None:
    bench = make_bench()
    long_text = "I live in Bonn. " + "the weather was fine that day, and we walked on. " * 1000 + SECRET
    assert bench.say(long_text) is None
    assert bench.say("I live in Munich") is None, "it waits for the one before it"
    assert (await bench.totals()).accepted == 0
    await bench.retainer.intake.settle()
    assert [appended.outcome for appended in bench.observer.appended] == [AppendOutcome.ACCEPTED] * 2
    await bench.work()
    assert "I live in Munich" in await bench.contents()
    assert bench.say("I have two cats") is not None
    newest, _, oldest = await bench.log.list_turns(scope=ALICE, states=None, limit=10)
    assert newest.user_text == "I have two cats"
    assert oldest.user_text.startswith("I live in Bonn")
    assert SECRET not in oldest.user_text


async def test_a_long_turn_that_cannot_be_written_is_told_of(make_bench: MakeBench) -> None:
    bench = make_bench()

    def refuse(*_: object, **__: object) -> Appended:
        raise TurnLogError("disk full")

    bench.log.append = refuse  # type: ignore[method-assign]
    assert bench.say("the weather was fine. " * 1000) is None
    await bench.retainer.intake.settle()
    assert bench.observer.dropped == ["log_failed"]


@pytest.mark.parametrize(
    "order", ["Forget what I told you about my salary of 4,200.", "忘掉我跟你说过的工资四千二的事"]
)
async def test_an_order_to_forget_is_not_stored(make_bench: MakeBench, order: str) -> None:
    """It names what is to be forgotten."""
    bench = make_bench()
    bench.say(order)
    await bench.work()
    assert await bench.contents() == []


@pytest.mark.parametrize(
    "asked", ["Pls remember the fox is in the shed on Mondays.", "dont let me forget: the blue van wants oil"]
)
async def test_what_the_user_asks_to_remember_is_stored_as_said(make_bench: MakeBench, asked: str) -> None:
    bench = make_bench()
    bench.say(asked)
    await bench.work()
    assert await bench.contents() == [asked]


async def test_a_secret_is_not_stored_though_the_user_asks_to_remember_it(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say(f"Please remember that my key is {SECRET}")
    await bench.work()
    assert SECRET not in "".join(await bench.contents())


@pytest.mark.parametrize("asked", ["Please don't remember this conversation.", "不要记住这次对话"])
async def test_a_conversation_is_not_remembered_where_the_user_says_so(make_bench: MakeBench, asked: str) -> None:
    """Neither what waits of it nor what is said later in it; another session is."""
    bench = make_bench()
    bench.say("I live in Quito.", session="private")
    bench.say(asked, session="private")
    bench.say("I work as a potter.", session="private")
    bench.say("I have two goats.", session="other")
    await bench.work()
    assert await bench.contents() == ["I have two goats."]


def slow_model() -> tuple[ScriptedModel, asyncio.Event, asyncio.Event]:
    """A model, what it sets when it is asked, and what it waits for before it answers."""
    model, asked, answers = ScriptedModel(), asyncio.Event(), asyncio.Event()

    async def think() -> None:
        asked.set()
        await answers.wait()

    model.meanwhile = think
    return model, asked, answers


async def test_a_slow_model_delays_no_quote(make_bench: MakeBench) -> None:
    """A session that waits for its place holds no worker; it is asked about when there is one, and ticks leave it alone until then."""
    model, asked, answers = slow_model()
    bench = make_bench(model, batch_size=1, workers=1)
    for session in ("s1", "s2", "s3"):
        bench.say(f"My dog in {session} is called Rex", session=session)
    first, *others = bench.woken
    bench.woken.clear()
    asking = asyncio.create_task(bench.retainer.process(first))
    await asked.wait()

    for key in others:
        await asyncio.wait_for(bench.retainer.process(key), 60)
    assert len(await bench.contents()) == 3
    await bench.retainer.tick()
    assert (len(model.prompts), bench.woken) == (1, [])
    answers.set()
    await asking
    assert bench.woken == [others[0]]
    await bench.work()
    assert len(model.prompts) == 3
    assert (await bench.totals()).waiting == 0


async def test_a_place_that_nobody_takes_is_found_by_the_next_tick(make_bench: MakeBench) -> None:
    model, asked, answers = slow_model()
    bench = make_bench(model, batch_size=1, workers=1)
    for session in ("s1", "s2"):
        bench.say("My dog is called Rex", session=session)
    first, second = bench.woken
    bench.woken.clear()
    asking = asyncio.create_task(bench.retainer.process(first))
    await asked.wait()
    await bench.retainer.process(second)
    answers.set()
    await asking
    bench.woken.clear()
    await bench.tick()
    assert (await bench.totals()).waiting == 0
