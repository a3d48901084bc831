"""A session's end: what makes it, the episodic memory that comes of it, and what may go wrong on the way."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.app.management import new_memory_id
from semrouter_memory.config import ManagementConfig
from semrouter_memory.errors import (
    ChatModelError,
    InvalidRequestError,
    LockLostError,
    ModelUnavailableError,
    StoreUnavailableError,
)
from semrouter_memory.manage.schemas import StoreRequest, UpdateRequest
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import (
    Appended,
    Candidate,
    Claim,
    LoggedTurn,
    Memory,
    MemoryType,
    OwnerKind,
    Scope,
    SessionKey,
    Tombstone,
    ToolUse,
    TurnTotals,
)
from semrouter_memory.retain import episodes, extract_llm
from semrouter_memory.retain.redact import redact
from tests.hashed import HashedEmbedder
from tests.memory_service import backends_of, memory_service
from tests.retaining import ALICE, Bench, MakeBench, ScriptedModel

BOB = Scope("bob")
BUDGET = "My budget for the Hawaii trip is $10,000"
SUMMARY = "On 2026-03-20 the user planned a trip to Hawaii with a budget of $10,000."
DEPLOYED = (
    ToolUse("run_tests", "412 passed"),
    ToolUse("docker_push", "error: denied"),
    ToolUse("docker_push", "pushed"),
)


PLAN = "Book a hotel for the Hawaii trip, with a budget of $10,000."
BOOKED = (ToolUse("book_hotel", "ok"),)


def plan(bench: Bench, *, session: str = "s1", ends: bool = False) -> Appended | None:
    """A turn in which a tool is used: without a model only such a session makes an episode."""
    return bench.say(PLAN, session=session, answer="Booked.", tools=BOOKED, ends=ends)


async def only_episode(bench: Bench) -> str:
    (episode,) = await bench.episodes()
    return episode.content


async def is_done_with(bench: Bench) -> bool:
    return await bench.log.pending() == []


async def test_an_idle_session_becomes_one_dated_memory(make_bench: MakeBench) -> None:
    bench = make_bench(session_idle_seconds=300)
    first = plan(bench)
    second = bench.say("I prefer window seats")
    await bench.work()
    bench.clock.step(seconds=299)
    await bench.tick()
    assert await bench.episodes() == []
    bench.clock.step(seconds=1)
    await bench.tick()
    (episode,) = await bench.episodes()
    assert episode.content == f'On 2026-03-20 the user asked: "{PLAN}" Steps: book_hotel. Outcome: Booked.'
    assert first is not None
    assert second is not None
    assert episode.source == "session"
    assert episode.session_id == first.session_id
    assert episode.metadata["turn_ids"] == [first.turn_id, second.turn_id]
    assert episode.metadata["extractor"] == "episode_runs"
    assert await is_done_with(bench)
    assert bench.observer.triggers[-1] == "idle"


async def test_an_announced_end_is_summed_up_at_once(make_bench: MakeBench) -> None:
    bench = make_bench()
    plan(bench)
    bench.say("thanks, that is all", ends=True)
    await bench.work()
    assert "$10,000" in await only_episode(bench)
    assert await is_done_with(bench)
    assert bench.observer.triggers[-1] == "end"
    assert await bench.totals() == TurnTotals(accepted=2, extracted=1, empty=1)


async def test_an_end_announced_by_its_name_is_found_by_the_next_tick(make_bench: MakeBench) -> None:
    bench = make_bench()
    plan(bench, session="mine")
    await bench.work()
    await bench.log.end_session(ALICE, "mine")
    await bench.tick()
    assert "$10,000" in await only_episode(bench)


async def test_with_a_model_everything_is_read_before_the_session_is_summed_up(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.facts, model.episode = ["User's cousin runs a bakery in Ghent"], SUMMARY
    bench = make_bench(model, batch_size=2)
    plan(bench)
    for text in ("what is 1 plus 1?", "what is 2 plus 2?"):
        bench.say(text)
    bench.say("bye", ends=True)
    await bench.work()
    assert [prompt.split(":")[0] for prompt in model.prompts] == [
        "Conversation",
        "Earlier, for context only; list nothing from here",
        "Session",
    ]
    (episode,) = await bench.episodes()
    assert episode.content == SUMMARY
    assert episode.metadata["extractor"] == "episode_llm"
    assert (await bench.totals()).waiting == 0
    assert await is_done_with(bench)


async def test_what_a_model_answers_is_held_against_the_turns_beside_the_loop(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many facts, or a long session, take seconds."""
    read_in: set[int] = set()

    def recorded(read: Callable[..., object]) -> Callable[..., object]:
        def reading(*args: object, **kwargs: object) -> object:
            read_in.add(threading.get_ident())
            return read(*args, **kwargs)

        return reading

    for module, name in ((extract_llm, "ground"), (episodes, "ground"), (episodes, "run_of")):
        monkeypatch.setattr(module, name, recorded(getattr(module, name)))
    model = ScriptedModel()
    model.facts, model.episode = ["User's budget for the Hawaii trip is $10,000"], SUMMARY
    bench = make_bench(model)
    plan(bench, ends=True)
    await bench.work()
    assert await only_episode(bench) == SUMMARY
    assert read_in
    assert threading.get_ident() not in read_in


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ('[{"type": "semantic", "content": "x"}]', []),
        ("On 1999-01-01 the user slept.", []),
        ("User budget", []),
        (SUMMARY.replace("10,000", "90,000"), [("episode_llm", {"number_not_said": 1})]),
    ],
)
async def test_a_model_that_answers_garbage_leaves_what_the_run_tells(
    make_bench: MakeBench, answer: str, refused: list[tuple[str, dict[str, int]]]
) -> None:
    model = ScriptedModel()
    model.episode = answer
    bench = make_bench(model)
    plan(bench, ends=True)
    await bench.work()
    (episode,) = await bench.episodes()
    assert episode.metadata["extractor"] == "episode_runs"
    assert bench.observer.refused == refused


@pytest.mark.parametrize(
    "error", [ChatModelError("500"), ModelUnavailableError("away", wait_seconds=60, circuit_open=True)]
)
async def test_a_model_that_is_away_does_not_keep_the_episode_away(make_bench: MakeBench, error: Exception) -> None:
    model = ScriptedModel()
    bench = make_bench(model)
    plan(bench, ends=True)
    model.error = error
    await bench.work()
    for _ in range(3):
        bench.clock.step(seconds=2)
        await bench.tick()
    if isinstance(error, ModelUnavailableError):
        assert "$10,000" in await only_episode(bench)
        assert (await bench.totals()).waiting == 1, "the turn still waits for the model"
    model.error = None
    for _ in range(4):
        bench.clock.step(minutes=6)
        await bench.tick()
    assert "$10,000" in await only_episode(bench)
    assert (await bench.totals()).waiting == 0
    assert await is_done_with(bench)


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailableError("500"),
        ModelUnavailableError("429", wait_seconds=7),
        ModelUnavailableError("away", wait_seconds=7, circuit_open=True),
    ],
)
async def test_a_model_that_is_away_uses_up_no_end(make_bench: MakeBench, error: Exception) -> None:
    """Neither of the session that meets the failure nor of one that ends meanwhile; what the runs tell stands for now."""
    model = ScriptedModel()
    model.facts, model.episode = ["User's cousin runs a bakery in Ghent"], SUMMARY
    model.error = error
    bench = make_bench(model, retry_seconds=5, session_idle_seconds=300)
    plan(bench, session="first")
    bench.say("would my cousin's bakery in Ghent be open?", session="first", ends=True)
    await bench.work()
    plan(bench, session="second", ends=True)
    for _ in range(3):
        bench.clock.step(seconds=1)
        await bench.tick()
    assert {episode.metadata["extractor"] for episode in await bench.episodes()} == {"episode_runs"}
    assert len(bench.observer.episodes) == 2, "each is summed up once"
    assert bench.retainer.retrying == 2
    assert bench.retainer.waiting_seconds == 2, "since the first look, and all the time, though it is tried again"
    model.error = None
    for _ in range(15):
        bench.clock.step(seconds=1)
        await bench.tick()
    assert "User's cousin runs a bakery in Ghent" in await bench.contents()
    assert [episode.content for episode in await bench.episodes()] == [SUMMARY, SUMMARY]
    assert (await bench.totals()).waiting == 0
    assert await is_done_with(bench)
    assert (bench.retainer.retrying, bench.retainer.waiting_seconds) == (0, 0)


async def test_an_episode_that_the_model_does_not_serve_is_tried_again_with_back_off(make_bench: MakeBench) -> None:
    """What the run tells stands until then."""
    model = ScriptedModel()
    model.episode = SUMMARY
    bench = make_bench(model, retry_seconds=5)

    async def fail_at_the_episode() -> None:
        asked = model.prompts[-1].startswith("Session:")
        model.error = ModelUnavailableError("500", status=500, cause="Internal Server Error") if asked else None

    model.meanwhile = fail_at_the_episode
    plan(bench, ends=True)
    await bench.work()
    asked: list[int] = []
    for _ in range(16):
        bench.clock.step(seconds=1)
        await bench.tick()
        asked.append(sum(prompt.startswith("Session:") for prompt in model.prompts))
    assert (asked[3], asked[4], asked[13], asked[14]) == (1, 2, 2, 3), "after 5 s, and after 10 s more"
    (episode,) = await bench.episodes()
    assert episode.metadata["extractor"] == "episode_runs"
    assert bench.retainer.retrying == 1
    (failed, *_) = [report for report in bench.observer.reports if report.failure]
    assert (failed.extractor, failed.status, failed.cause) == ("llm", 500, "Internal Server Error")
    model.meanwhile = model.error = None
    bench.clock.step(seconds=20)
    await bench.tick()
    assert await only_episode(bench) == SUMMARY
    assert await is_done_with(bench)


async def test_an_episode_that_the_model_never_serves_is_what_the_run_tells(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, max_attempts=3, retry_seconds=5)

    async def fail_at_the_episode() -> None:
        model.error = ModelUnavailableError("500") if model.prompts[-1].startswith("Session:") else None

    model.meanwhile = fail_at_the_episode
    plan(bench, ends=True)
    for _ in range(60):
        bench.clock.step(seconds=1)
        await bench.tick()
    assert sum(prompt.startswith("Session:") for prompt in model.prompts) == 3
    assert "$10,000" in await only_episode(bench)
    assert await is_done_with(bench)


@pytest.mark.parametrize("told_by", ["model", "run"])
async def test_an_episode_is_no_longer_than_the_embedding_model_reads(make_bench: MakeBench, told_by: str) -> None:
    model = ScriptedModel()
    model.episode = SUMMARY if told_by == "model" else "NONE"
    bench = make_bench(model, max_passage_tokens=40)
    bench.say("I prefer window seats")
    plan(bench, ends=True)
    await bench.work()
    (episode,) = await bench.episodes()
    assert episode.metadata["extractor"] == ("episode_llm" if told_by == "model" else "episode_runs")
    assert 10 < HashedEmbedder().passage_tokens(episode.content) <= 40


async def test_an_episode_of_the_models_that_is_too_long_is_what_the_run_tells(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.episode = f"{SUMMARY} The user planned the trip to Hawaii with a budget of $10,000."
    bench = make_bench(model, max_passage_tokens=25)
    plan(bench, ends=True)
    await bench.work()
    (episode,) = await bench.episodes()
    assert episode.metadata["extractor"] == "episode_runs"


async def test_a_conversation_without_tools_makes_no_episode_without_a_model(make_bench: MakeBench) -> None:
    """It could only repeat the quotes."""
    bench = make_bench()
    bench.say(BUDGET)
    bench.say("I live in Bonn", ends=True)
    await bench.work()
    assert await bench.contents() == ["I live in Bonn", BUDGET]
    assert await bench.episodes() == []
    assert await is_done_with(bench)


@pytest.mark.parametrize(("told", "episodes"), [([BUDGET], 0), ([BUDGET, "I live in Bonn"], 1)])
async def test_a_model_sums_up_what_is_more_than_one_statement(
    make_bench: MakeBench, told: list[str], episodes: int
) -> None:
    model = ScriptedModel()
    model.episode = SUMMARY
    bench = make_bench(model)
    for text in told:
        bench.say(text)
    bench.say("bye", ends=True)
    await bench.work()
    assert len(await bench.episodes()) == episodes
    assert sum(prompt.startswith("Session:") for prompt in model.prompts) == episodes
    assert await is_done_with(bench)


async def test_small_talk_and_questions_make_no_episode(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    model.episode = "On 2026-03-20 the user asked for the capital of France."
    bench = make_bench(model)
    bench.say("what is the capital of France?", answer="Paris.")
    bench.say("thanks!", ends=True)
    await bench.work()
    assert await bench.memories() == []
    assert bench.observer.episodes == [("", False)]
    assert await is_done_with(bench)


async def test_a_continued_session_rewrites_its_episode(make_bench: MakeBench) -> None:
    bench = make_bench()
    plan(bench, ends=True)
    await bench.work()
    (before,) = await bench.episodes()
    bench.clock.step(hours=2)
    bench.say("Reserve the seats.", tools=(ToolUse("book_seats", "ok"),), ends=True)
    await bench.work()
    (after,) = await bench.episodes()
    assert after.id == before.id
    assert after.created_at == before.created_at
    assert "$10,000" in after.content
    assert "book_hotel, book_seats" in after.content


async def test_a_second_end_changes_nothing(make_bench: MakeBench) -> None:
    bench = make_bench()
    plan(bench, session="mine", ends=True)
    await bench.work()
    before = await bench.episodes()
    await bench.log.end_session(ALICE, "mine")
    bench.clock.step(hours=1)
    await bench.tick()
    assert await bench.episodes() == before
    assert await is_done_with(bench)


async def test_a_crash_after_the_episode_was_written_writes_the_same_one_again(make_bench: MakeBench) -> None:
    bench = make_bench()
    plan(bench)
    await bench.work()
    bench.clock.step(minutes=6)
    bench.store.fail_after_write = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await bench.tick()
    bench.clock.step(seconds=1)
    await bench.tick()
    assert len(await bench.episodes()) == 1
    assert await is_done_with(bench)


@pytest.mark.parametrize("error", [StoreUnavailableError("gone"), LockLostError("gone")])
async def test_an_episode_waits_for_a_store_or_a_lock_that_is_away(make_bench: MakeBench, error: Exception) -> None:
    bench = make_bench(retry_seconds=5)
    plan(bench)
    await bench.work()
    bench.clock.step(minutes=6)
    bench.store.error = error
    await bench.tick()
    await bench.tick()
    assert bench.observer.store_failures == 1
    bench.store.error = None
    bench.clock.step(seconds=5)
    await bench.tick()
    assert "$10,000" in await only_episode(bench)
    assert await is_done_with(bench)


async def test_an_episode_that_fails_for_a_bug_of_ours_is_done_without(make_bench: MakeBench) -> None:
    bench = make_bench()
    plan(bench)
    await bench.work()
    bench.clock.step(minutes=6)
    bench.store.error = ValueError("a bug")
    await bench.tick()
    assert bench.observer.bugs == [bench.store.error]
    assert await is_done_with(bench)
    assert (await bench.totals()).extracted == 1


async def test_a_turn_deleted_while_the_session_is_summed_up_is_not_told(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model)
    secret = bench.say("I hide my gold under the oak")
    plan(bench)
    bench.clock.step(minutes=6)
    await bench.tick()
    assert secret is not None
    bench.say("bye", ends=True)
    model.episode = "On 2026-03-20 the user hid gold under the oak."

    async def delete_it() -> None:
        if model.prompts[-1].startswith("Session:"):
            model.meanwhile, model.episode = None, SUMMARY
            tombstone = Tombstone(scope=ALICE, at=bench.clock.now(), memory_id="mem_x")
            await bench.log.tombstone(tombstone, turn_ids=[secret.turn_id])

    model.meanwhile = delete_it
    await bench.work()
    await bench.tick()
    assert SUMMARY in {memory.content for memory in await bench.episodes()}


async def test_an_agents_run_is_told_by_goal_steps_outcome_and_lesson(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say(
        "Deploy payment-service to staging.",
        answer="Deployed version 1.4 to staging. The user likes pizza.",
        tools=DEPLOYED,
    )
    bench.say("next time run the smoke tests too", ends=True)
    await bench.work()
    told = await only_episode(bench)
    assert told.startswith('On 2026-03-20 the user asked: "Deploy payment-service to staging."')
    assert "Steps: run_tests, docker_push." in told
    assert "Outcome: Deployed version 1.4 to staging." in told
    assert "smoke tests" in told.split("Lesson:")[1]
    assert "docker_push failed at first" in told
    assert "denied" not in told
    assert "pizza" not in told


async def test_without_episodes_sessions_are_only_closed(make_bench: MakeBench) -> None:
    bench = make_bench(episodes=False)
    plan(bench, ends=True)
    await bench.work()
    assert await bench.episodes() == []
    assert await is_done_with(bench)


async def test_a_claim_lost_while_summing_up_writes_nothing(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, lease_seconds=10)
    plan(bench)
    bench.clock.step(minutes=6)
    model.episode = SUMMARY
    taken: list[Claim | None] = []

    async def take_over() -> None:
        if model.prompts[-1].startswith("Session:"):
            model.meanwhile = None
            bench.clock.step(seconds=11)
            (session,) = await bench.log.pending()
            taken.append(await bench.log.claim(ALICE, session.session_id, lease=timedelta(seconds=10), context=0))

    model.meanwhile = take_over
    await bench.tick()
    assert await bench.episodes() == []
    (claim,) = taken
    assert claim is not None
    await bench.log.release(claim)
    await bench.tick()
    assert await only_episode(bench) == SUMMARY


async def test_a_topic_that_changes_makes_the_model_read_what_waits(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, drift_similarity=0.2)
    for text in (
        "hotel beach Hawaii flights booking",
        "Hawaii beach hotel with flights in May",
        "beach hotel Hawaii price flights",
    ):
        bench.say(text)
        await bench.work()
    bench.say("ok thanks")
    bench.say("python traceback sqlite database locked")
    await bench.work()
    assert model.prompts == [], "one turn may be an aside"
    bench.say("sqlite database locked python pytest")
    await bench.work()
    assert len(model.prompts) == 1
    assert "drift" in bench.observer.triggers
    bench.say("python sqlite database pool size")
    await bench.work()
    assert len(model.prompts) == 1, "the new topic is the topic now"


async def test_states_are_told_of_turns_that_were_read_for_quotes_and_by_the_model(make_bench: MakeBench) -> None:
    told: list[tuple[int, list[str], bool]] = []

    class States:
        async def turns_read(self, claim: Claim, turns: list[LoggedTurn], candidates: list[Candidate]) -> None:
            held = bool(await bench.log.surviving(claim))
            told.append((len(turns), [each.extractor for each in candidates], held))

    model = ScriptedModel()
    model.facts = ["User's cousin runs a bakery in Ghent"]
    bench = make_bench(model, batch_size=2, states=States())
    bench.say(BUDGET)
    bench.say("would my cousin's bakery in Ghent be open?")
    await bench.work()
    assert told == [(2, ["quotes"], True), (2, ["llm"], True)]


async def test_a_turn_whose_session_is_not_known_yet_wakes_nobody(make_bench: MakeBench) -> None:
    bench = make_bench()
    append = bench.log.append

    bench.log.append = lambda turn, *, remember: replace(append(turn, remember=remember), session_id="")  # type: ignore[method-assign]
    plan(bench)
    assert bench.woken == []


async def test_work_on_a_session_that_is_not_at_its_end_gives_it_back(make_bench: MakeBench) -> None:
    bench = make_bench()
    appended = plan(bench)
    await bench.work()
    assert appended is not None
    await bench.retainer.process(SessionKey(ALICE, appended.session_id))
    assert await bench.episodes() == []
    assert len(await bench.log.pending()) == 1


async def test_a_long_session_makes_episodes_that_do_not_overlap(make_bench: MakeBench) -> None:
    bench = make_bench(session_idle_seconds=60)
    for day in range(3):
        for number in range(205 if day == 0 else 3):
            bench.say(f"Book room {number} for day {day}.", tools=BOOKED)
        await bench.work()
        bench.clock.step(seconds=100)
        await bench.tick()
    told = [set(episode.metadata["turn_ids"]) for episode in await bench.episodes()]
    assert len(told) == 3
    assert sum(map(len, told)) == len(set[str]().union(*told))


async def test_a_session_whose_first_turns_are_swept_gets_an_episode_of_what_is_new(make_bench: MakeBench) -> None:
    bench = make_bench(session_idle_seconds=60)
    plan(bench)
    await bench.work()
    bench.clock.step(days=3)
    await bench.tick()
    bench.say("Reserve the seats.", tools=(ToolUse("book_seats", "ok"),))
    await bench.work()
    bench.clock.step(days=3)
    await bench.tick()
    assert len(await bench.episodes()) == 1
    await bench.log.sweep(finished_before=bench.clock.now() - timedelta(days=4))
    bench.say("Rent a car.", tools=(ToolUse("rent_car", "ok"),))
    await bench.work()
    bench.clock.step(minutes=2)
    await bench.tick()
    older, newer = sorted(await bench.episodes(), key=lambda episode: episode.observed_at)
    assert "book_seats" in older.content
    assert "book_seats" not in newer.content
    assert "rent_car" in newer.content


# -- what agents learn -------------------------------------------------------------------------------------------------

BOT = Scope("bot", kind=OwnerKind.AGENT)
ADVICE = "Next time verify the k8s version first."
LESSON = "Steps: get_version. Lesson: Next time verify the k8s version first."
VERSION = (ToolUse("get_version", "1.29"),)


def run(bench: Bench, *, session: str = "s1", agent: str = "bot", answer: str = f"Deployed. {ADVICE}") -> str:
    said = bench.say(
        "Deploy the billing service", session=session, answer=answer, tools=VERSION, ends=True, agent=agent
    )
    assert said is not None
    return said.turn_id


async def learned(bench: Bench, agent: Scope = BOT) -> list[str]:
    return [memory.content for memory in await bench.memories(agent)]


async def test_an_agents_lesson_is_the_agents_and_leads_to_no_user(make_bench: MakeBench) -> None:
    bench = make_bench(agent_lessons=True)
    run(bench)
    await bench.work()
    (lesson,) = await bench.memories(BOT)
    assert (lesson.content, lesson.type, lesson.session_id) == (LESSON, MemoryType.PROCEDURAL, "")
    assert (lesson.metadata["turn_ids"], lesson.metadata["model"]) == ([], "")
    assert "alice" not in repr(lesson)
    assert len(await bench.episodes()) == 1, "the episode is the user's"
    assert LESSON not in await bench.contents()
    assert await learned(bench, Scope("bot")) == await learned(bench, Scope("bot", kind=OwnerKind.ORGANISATION)) == []
    assert await is_done_with(bench)


async def test_agents_learn_nothing_unless_that_is_switched_on(make_bench: MakeBench) -> None:
    bench = make_bench()
    run(bench)
    await bench.work()
    assert await learned(bench) == []
    assert len(await bench.episodes()) == 1


async def test_lessons_need_an_agent_and_no_episodes(make_bench: MakeBench) -> None:
    bench = make_bench(agent_lessons=True, episodes=False)
    run(bench, session="s1", agent="")
    run(bench, session="s2")
    await bench.work()
    assert await bench.episodes() == []
    assert await learned(bench) == [LESSON]
    assert await is_done_with(bench)


async def test_a_lesson_is_stored_once_however_often_it_is_learned(make_bench: MakeBench) -> None:
    bench = make_bench(agent_lessons=True)
    for session in ("s1", "s1", "s2"):
        run(bench, session=session)
        await bench.work()
    assert await learned(bench) == [LESSON]


async def test_no_lesson_has_a_word_of_what_is_known_of_the_user(make_bench: MakeBench) -> None:
    bench = make_bench(agent_lessons=True)
    bench.say("My company migrates everything to k8s this year", session="other")
    await bench.work()
    run(bench)
    await bench.work()
    assert await learned(bench) == []


async def test_a_deletion_before_the_end_leaves_no_lesson(make_bench: MakeBench) -> None:
    bench = make_bench(agent_lessons=True)
    run(bench)
    await bench.log.tombstone(Tombstone(scope=ALICE, at=bench.log.now()))
    await bench.work()
    assert await learned(bench) == []


async def test_a_deleted_lesson_returns_only_when_it_is_learned_again(make_bench: MakeBench) -> None:
    bench = make_bench(agent_lessons=True)
    run(bench)
    deleted = Tombstone(scope=BOT, at=bench.log.now(), content_hash=bench.log.content_hash(LESSON))
    await bench.log.tombstone(deleted)
    await bench.work()
    assert await learned(bench) == []
    run(bench, session="s2")
    await bench.work()
    assert await learned(bench) == [LESSON]


async def test_lessons_wait_for_the_store(make_bench: MakeBench) -> None:
    bench = make_bench(agent_lessons=True, episodes=False)
    bench.store.error = StoreUnavailableError("away")
    run(bench)
    await bench.work()
    bench.store.error = None
    bench.clock.step(seconds=60)
    await bench.tick()
    assert await learned(bench) == [LESSON]
    assert await is_done_with(bench)


# -- memories that hold within a session -------------------------------------------------------------------------------


def api(bench: Bench) -> MemoryService:
    """What the management API asks."""
    backends = backends_of(
        store=bench.store, embedder=HashedEmbedder(), turn_log=bench.log, locks=bench.locks, clock=bench.clock
    )
    return memory_service(backends, new_id=new_memory_id, redact=redact, config=ManagementConfig())


async def note(
    bench: Bench, content: str, *, session: str = "s1", promote: bool = False, scope: Scope = ALICE, **more: Any
) -> Memory:
    return await api(bench).store(scope, StoreRequest(content=content, within_session=session, promote=promote, **more))


async def test_a_sessions_memory_is_gone_at_its_end_and_others_stay(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("Hello there", ends=False)
    await note(bench, "The draft is in folder A")
    other = await note(bench, "The draft is in folder B", session="S1")
    foreign = await note(bench, "The draft is in folder C", scope=BOB)
    lasting = await api(bench).store(ALICE, StoreRequest(content="The printer is on floor two"))
    bench.say("Bye", ends=True)
    await bench.work()
    assert sorted(await bench.contents()) == sorted([other.content, lasting.content])
    assert await bench.memories(BOB) == [foreign]
    assert await is_done_with(bench)


async def test_a_promoted_memory_is_the_users_own_after_the_end(make_bench: MakeBench) -> None:
    bench = make_bench(episodes=False)
    noted = await note(bench, "User prefers the blue theme", promote=True, metadata={"origin": "crm"})
    assert (noted.within_session, noted.promote, noted.expires_at) == ("s1", True, noted.created_at + timedelta(days=1))
    plan(bench, ends=True)
    await bench.work()
    (kept,) = [memory for memory in await bench.memories() if memory.id == noted.id]
    assert (kept.content, kept.within_session, kept.promote, kept.expires_at) == (noted.content, "", False, None)
    assert kept.metadata["origin"] == "crm"
    plan(bench, ends=True)
    await bench.work()
    assert kept in await bench.memories(), "a second end changes nothing"


async def test_promoting_reconciles_with_what_is_known(make_bench: MakeBench) -> None:
    bench = make_bench(episodes=False)
    known = await api(bench).store(ALICE, StoreRequest(content="User's budget for the trip is $10,000"))
    bench.clock.step(minutes=1)
    newer = await note(bench, "User's budget for the trip is $12,000", promote=True)
    same = await note(bench, "User's budget for the trip is $10,000", session="s2", promote=True)
    assert known in await bench.memories(), "what holds within a session replaces nothing"
    assert same.id != known.id
    bench.say("Bye", session="s2", ends=True)
    await bench.work()
    assert {memory.id for memory in await bench.memories()} == {known.id, newer.id}
    bench.say("Bye", ends=True)
    await bench.work()
    assert [memory.id for memory in await bench.memories()] == [newer.id]
    replaced = await bench.store.get(ALICE, known.id)
    assert replaced is not None
    assert replaced.superseded_by == newer.id


async def test_what_is_said_is_learned_though_a_session_knows_it(make_bench: MakeBench) -> None:
    bench = make_bench()
    await note(bench, BUDGET, session="s2")
    bench.say(BUDGET)
    await bench.work()
    assert BUDGET in [memory.content for memory in await bench.memories() if not memory.within_session]


async def test_a_sessions_memory_expires_without_an_end(make_bench: MakeBench) -> None:
    bench = make_bench()
    late = bench.clock.now() + timedelta(days=9)
    await note(bench, "The draft is in folder A", expires_at=late)
    soon = await note(bench, "The printer is on floor two", expires_at=bench.clock.now() + timedelta(hours=1))
    assert soon.expires_at == soon.created_at + timedelta(hours=1)
    edited = await api(bench).update(ALICE, soon.id, UpdateRequest(expires_at=None))
    assert edited.expires_at == soon.created_at + timedelta(days=1)
    bench.clock.step(hours=25)
    assert await bench.memories() == []


async def test_a_deleted_memory_is_not_promoted(make_bench: MakeBench) -> None:
    bench = make_bench(episodes=False)
    noted = await note(bench, "User prefers the blue theme", promote=True)
    bench.clock.step(seconds=1)
    await bench.log.tombstone(Tombstone(scope=ALICE, at=bench.log.now(), memory_id=noted.id))
    bench.say("Bye", ends=True)
    await bench.work()
    assert await bench.memories() == []


async def test_sessions_in_a_project_end_what_holds_in_it(make_bench: MakeBench) -> None:
    """Session names are the project's own: the end of a session elsewhere touches none of them."""
    bench = make_bench(episodes=False)
    noted = await note(bench, "The draft is in folder A", scope=ALICE.in_project("apollo"))
    bench.say("Bye", ends=True)
    await bench.work()
    assert await bench.memories() == [noted]


@pytest.mark.parametrize(
    ("scope", "fields"), [(Scope("acme", kind=OwnerKind.ORGANISATION), {}), (ALICE, {"session": "", "promote": True})]
)
async def test_only_users_have_sessions(make_bench: MakeBench, scope: Scope, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        await note(make_bench(), "The draft is in folder A", scope=scope, **fields)
