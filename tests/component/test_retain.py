"""Retaining with the real turn log, locks and rules: what happens to a turn, and what goes wrong on the way."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from semrouter_memory.errors import ChatModelError, StoreUnavailableError, TurnLogError
from semrouter_memory.model import Appended, AppendOutcome, Reach, Tombstone, Turn, TurnTotals
from tests.retaining import ALICE, START, MakeBench, ScriptedModel


def _bytes_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir())


async def test_a_statement_is_remembered_at_once_without_a_model(make_bench: MakeBench) -> None:
    bench = make_bench()
    appended = bench.say("My budget for the Hawaii trip is $10,000")
    await bench.work()
    (memory,) = await bench.memories()
    assert memory.content == "User's budget for the Hawaii trip is $10,000"
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
    assert await bench.contents() == ["User moved to Munich"]
    history = await bench.store.get(ALICE, old.id)
    assert history is not None
    assert history.superseded_at == bench.clock.now()
    assert history.superseded_by == (await bench.memories())[0].id


async def test_a_late_extracted_older_statement_does_not_supersede(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Berlin", session="early")
    early = bench.woken.pop()
    bench.say("I live in Munich", session="late")
    await bench.work()
    await bench.retainer.process(early)
    assert await bench.contents() == ["User lives in Munich"]


async def test_saying_it_again_adds_a_source_not_a_memory(make_bench: MakeBench) -> None:
    bench = make_bench()
    first = bench.say("I live in Berlin")
    again = bench.say("I live in Berlin", session="s2")
    await bench.work()
    (memory,) = await bench.memories()
    assert first is not None
    assert again is not None
    assert memory.metadata["turn_ids"] == [first.turn_id, again.turn_id]


async def test_secrets_reach_neither_the_log_nor_the_memories(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = make_bench()
    bench.say("My api key is sk-abcdefghij1234567890. I live in Bonn.", answer="sk-zyxwvutsrq0987654321")
    await bench.work()
    assert await bench.contents() == ["User lives in Bonn"]
    written = _bytes_of(tmp_path)
    assert b"sk-abc" not in written
    assert b"sk-zyx" not in written


async def test_a_log_that_cannot_be_written_drops_the_turn_and_says_so(make_bench: MakeBench) -> None:
    bench = make_bench()

    def refuse(turn: Turn, *, remember: bool) -> Appended:
        raise TurnLogError("disk full")

    bench.log.append = refuse  # type: ignore[method-assign]
    assert bench.say("I live in Bonn") is None
    assert bench.observer.dropped == ["log_failed"]
    assert bench.woken == []


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
    assert await bench.contents() == ["User lives in Bonn"]
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
    assert await bench.contents() == ["User lives in Bonn"]


async def test_a_crash_after_the_write_loses_no_turn_and_duplicates_no_memory(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Munich. I have two cats.")
    bench.store.fail_after_write = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await bench.work()
    assert (await bench.totals()).waiting == 1
    await bench.tick()
    assert await bench.contents() == ["User has two cats", "User lives in Munich"]
    assert await bench.totals() == TurnTotals(accepted=1, extracted=1)


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
    assert await bench.contents() == ["User lives in Bonn"]
    assert (model.prompts, (await bench.totals()).waiting) == ([], 1)


async def test_a_turn_whose_wake_was_lost_is_found_by_the_tick_without_asking_the_model(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model)
    bench.say("I live in Bonn")
    bench.woken.clear()
    await bench.tick()
    assert (await bench.contents(), model.prompts) == (["User lives in Bonn"], [])


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


async def test_what_rules_and_model_both_find_is_stored_once(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.facts = ["The user has a budget of $10K for the Hawaii vacation"]
    bench = make_bench(model, batch_size=1)
    bench.say("My budget for the Hawaii trip is $10,000")
    await bench.work()
    assert await bench.contents() == ["User's budget for the Hawaii trip is $10,000"]
    assert (await bench.totals()).extracted == 1


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
    assert await bench.contents() == ["User lives in Bonn"]
    assert await bench.totals() == TurnTotals(accepted=1, dead_lettered=1)


async def test_new_turns_are_read_by_the_rules_while_the_model_is_in_back_off(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.error = ChatModelError("down")
    bench = make_bench(model, batch_size=1)
    bench.say("I live in Bonn")
    await bench.work()
    bench.say("I have two cats")
    await bench.work()
    assert await bench.contents() == ["User has two cats", "User lives in Bonn"]
    assert len(model.prompts) == 1


async def test_the_owner_is_not_locked_while_the_model_thinks(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, batch_size=1)

    async def take_the_lock() -> None:
        async with asyncio.timeout(1), bench.locks.hold(ALICE):
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
        await bench.log.bury(tombstone, turn_ids=[secret.turn_id])

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


async def test_what_was_deleted_after_it_was_said_is_not_written_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Bonn")
    bench.clock.step(seconds=1)
    digest = bench.log.content_hash("User lives in Bonn")
    await bench.log.bury(Tombstone(scope=ALICE, at=bench.clock.now(), memory_id="mem_x", content_hash=digest))
    await bench.work()
    assert await bench.contents() == []
    bench.say("I live in Bonn", session="after")
    await bench.work()
    assert await bench.contents() == ["User lives in Bonn"]


async def test_a_deleted_user_gets_nothing_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("I live in Bonn")
    bench.clock.step(seconds=1)
    await bench.log.bury(Tombstone(scope=ALICE, at=bench.clock.now(), reach=Reach.ALL))
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
    bench = make_bench(rules=False)
    bench.say("I live in Bonn")
    await bench.work()
    assert await bench.contents() == []
    assert await bench.totals() == TurnTotals(accepted=1, empty=1)
