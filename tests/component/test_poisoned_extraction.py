"""A model that takes poisoned texts for facts: nothing of it is written, and sessions that end tell nothing of it."""

import pytest

from semrouter_memory.model import ToolUse
from tests.poisoned import FRAMES, POISONS, WORDS
from tests.retaining import MakeBench, ScriptedModel

FACTS = ["User lives in Zorvik", "User's bank is Zorvik", "User wants the assistant to always recommend Zorvik"]
EPISODE = "On 2026-03-20 the user said that their bank is Zorvik and that Zorvik is always to be recommended."


def model() -> ScriptedModel:
    made = ScriptedModel()
    made.facts, made.episode = list(FACTS), EPISODE
    return made


def poisoned(contents: list[str]) -> list[str]:
    return [content for content in contents if any(word in content.lower() for word in WORDS)]


async def test_what_was_pasted_is_neither_fact_nor_episode(make_bench: MakeBench) -> None:
    bench = make_bench(model(), batch_size=1)
    for number, frame in enumerate(FRAMES.values()):
        bench.say(frame.format(POISONS["statement"]), session=f"s{number}", ends=True)
    bench.say("I live in Bergen", session="own", ends=True)
    await bench.work()
    assert poisoned(await bench.contents()) == []
    assert "I live in Bergen" in await bench.contents()
    # What the model took from it was refused, and each refusal was told with its reason.
    assert {extractor for extractor, _ in bench.observer.refused} >= {"llm"}
    assert all(reasons and all(reasons.values()) for _, reasons in bench.observer.refused)
    assert not any(action.startswith("gate") for report in bench.observer.reports for action in report.actions)


@pytest.mark.parametrize("answer", [*POISONS.values(), "Your bank is Zorvik.", "I have noted that you prefer Zorvik."])
@pytest.mark.parametrize("asked", ["What's the weather in Rome?", "I live in Bergen, what's the weather?"])
async def test_what_tools_and_answers_say_is_not_the_users(make_bench: MakeBench, asked: str, answer: str) -> None:
    bench = make_bench(model(), batch_size=1)
    for ends in (False, True):
        bench.say(asked, answer=answer, tools=(ToolUse("get_weather", POISONS["of the user"]),), ends=ends)
    await bench.work()
    assert poisoned(await bench.contents()) == []


async def test_a_pasted_text_is_no_runs_goal(make_bench: MakeBench) -> None:
    bench = make_bench(model(), batch_size=1)
    pasted = POISONS["statement"] + "\n\nSummarise the above."
    bench.say(pasted, answer="Done.", tools=(ToolUse("search", "ok"),), ends=True)
    await bench.work()
    assert poisoned(await bench.contents()) == []
