"""What is kept between the steps of a tool loop."""

import asyncio
from dataclasses import replace

import pytest

from semrouter_memory.model import RecallOptions, RecallRequest, Scope
from semrouter_memory.recall import conversation
from semrouter_memory.recall.conversation import ToolLoopCache

STEP = RecallRequest(
    scope=Scope("alice"),
    query="budget?",
    options=RecallOptions(limit=5, threshold=0.6),
    loop_key="turn",
    continues_loop=True,
)


@pytest.mark.usefixtures("stepped_time")
async def test_a_decision_is_found_until_it_is_too_old() -> None:
    decisions = ToolLoopCache[str]()
    decisions.put(STEP, "decision")

    await asyncio.sleep(599)
    assert decisions.get(STEP) == "decision"
    await asyncio.sleep(2)
    assert decisions.get(STEP) is None


async def test_only_a_later_step_of_a_turn_has_an_earlier_decision() -> None:
    decisions = ToolLoopCache[str]()
    decisions.put(replace(STEP, continues_loop=False), "decision")
    decisions.put(replace(STEP, loop_key=""), "of no turn")

    assert decisions.get(STEP) == "decision"
    assert decisions.get(replace(STEP, continues_loop=False)) is None
    assert decisions.get(replace(STEP, loop_key="")) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(STEP, scope=Scope("bob")),
        replace(STEP, scope=Scope("alice", project_id="p")),
        replace(STEP, loop_key="other"),
        replace(STEP, options=RecallOptions(limit=4, threshold=0.6)),
        replace(STEP, options=RecallOptions(limit=5, threshold=0.5)),
        replace(STEP, options=RecallOptions(limit=5, threshold=0.6, types=frozenset())),
    ],
)
async def test_another_user_project_turn_or_setting_has_another_decision(other: RecallRequest) -> None:
    decisions = ToolLoopCache[str]()
    decisions.put(STEP, "decision")

    assert decisions.get(other) is None


async def test_the_oldest_decision_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "_MAX_TURNS", 2)
    decisions = ToolLoopCache[str]()
    for name in ("first", "second", "first", "third"):
        decisions.put(replace(STEP, loop_key=name), name)

    kept = [name for name in ("first", "second", "third") if decisions.get(replace(STEP, loop_key=name))]
    assert kept == ["first", "third"]


@pytest.mark.usefixtures("stepped_time")
async def test_what_is_too_old_is_not_kept_in_memory() -> None:
    decisions = ToolLoopCache[str]()
    for minutes in (0, 1, 10):
        decisions.put(replace(STEP, loop_key=str(minutes)), "decision")
        await asyncio.sleep(540 if minutes == 1 else 60)
    decisions.put(STEP, "decision")

    assert len(decisions._values) == 2
