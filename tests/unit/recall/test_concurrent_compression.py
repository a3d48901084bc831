"""Compression beside the search: together, and each without the other."""

import asyncio
import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from semrouter_memory.compress.pipeline import Compressor
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Compression, CompressionReason, PastTurn, Reason, RecallRequest
from semrouter_memory.transport.request_phase import RequestPhase
from tests.stepped_time import SteppedTime
from tests.unit.recall.conftest import MakeHit
from tests.unit.recall.test_recaller import REQUEST, World

BUDGET = "User's budget for the Hawaii trip is $10,000"
STATE = Compression(reason=CompressionReason.COMPRESSED, text="STATE", dropped_turns=1)
LONG = replace(
    REQUEST,
    compressible=True,
    visible=("Be kind.", "My budget for the Hawaii trip is $10,000", "Nice!", REQUEST.query),
    turns=(PastTurn(number=1, messages=2, places=(1, 2), texts=(1, 2)),),
    loop_key="turn",
)


@dataclass
class Compressing(Compressor):
    """Answers as it is told, and remembers what it was asked."""

    result: Compression = STATE
    delay: float = 0.0
    asked: list[Compression | None] = field(default_factory=list)
    cancelled: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    gives_up_in_time: bool = False

    async def compress(
        self, request: RecallRequest, before: Compression | None = None, *, until: float = math.inf
    ) -> Compression:
        self.asked.append(before)
        self.begun.set()
        try:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(until - loop.time() if self.gives_up_in_time else self.delay)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return self.result


@pytest.fixture
def world(make_hit: MakeHit, stepped_time: SteppedTime) -> World:
    return World(hits={"": [make_hit(BUDGET, 0.7, memory_id="m1")]}, time=stepped_time)


def _recaller(world: World, compressing: Compressing, **config: Any) -> RequestPhase:
    return world.recaller(compressor=compressing, **config)


async def test_the_state_stands_before_the_memories(world: World) -> None:
    result = await _recaller(world, Compressing()).recall(LONG)

    assert result.text.startswith("STATE\n\n<!-- semrouter-memory:begin -->")
    assert BUDGET in result.text
    assert result.compression is STATE
    assert "compress" in result.steps_ms


async def test_what_leaves_with_its_turn_is_no_longer_visible_and_comes_as_a_memory(world: World) -> None:
    nothing = Compressing(Compression(reason=CompressionReason.NO_STATE))

    assert (await _recaller(world, nothing).recall(LONG)).reason is Reason.ALREADY_VISIBLE
    assert (await _recaller(world, Compressing()).recall(LONG)).reason is Reason.INJECTED


async def test_what_the_state_says_is_not_said_again(world: World) -> None:
    saying = Compressing(replace(STATE, statements=(BUDGET,)))
    result = await _recaller(world, saying).recall(LONG)

    assert (result.reason, result.text) == (Reason.ALREADY_VISIBLE, "STATE")


@pytest.mark.parametrize("compressible", [True, False])
async def test_only_a_compressible_request_is_asked_about(world: World, compressible: bool) -> None:
    compressing = Compressing()
    await _recaller(world, compressing).recall(replace(LONG, compressible=compressible))

    assert len(compressing.asked) == compressible


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreUnavailableError("away"), Reason.STORE_UNAVAILABLE),
        (TimeoutError(), Reason.TIMEOUT),
        (RuntimeError("a bug"), Reason.INTERNAL),
    ],
)
async def test_a_search_that_fails_keeps_no_conversation_long(world: World, error: Exception, reason: Reason) -> None:
    world.error = {"search": error}
    result = await _recaller(world, Compressing()).recall(LONG)

    assert (result.reason, result.text, result.compression) == (reason, "STATE", STATE)


async def test_a_greeting_is_answered_in_a_short_conversation_too(world: World) -> None:
    result = await _recaller(world, Compressing()).recall(replace(LONG, query="thanks!"))

    assert (result.reason, result.text) == (Reason.GREETING, "STATE")


async def test_a_state_that_is_late_is_done_without(world: World) -> None:
    late = Compressing(delay=60)
    result = await _recaller(world, late, deadline_ms=20).recall(LONG)

    assert result.compression == Compression(reason=CompressionReason.TIMEOUT)
    await asyncio.sleep(0)
    assert late.cancelled


async def test_a_state_that_is_late_costs_no_memories(world: World, make_hit: MakeHit) -> None:
    world.hits = {"": [make_hit("User lives in Basel", 0.9)]}
    late = Compressing(delay=60)
    result = await _recaller(world, late, deadline_ms=500).recall(LONG)

    assert (result.reason, result.compression) == (
        Reason.INJECTED,
        Compression(reason=CompressionReason.TIMEOUT),
    )
    await asyncio.sleep(0)
    assert late.cancelled


async def test_a_stored_chain_that_is_late_costs_no_memories_and_is_waited_for(world: World) -> None:
    chained = replace(LONG, previous_response_id="resp_1", turns=(), visible=())
    result = await _recaller(world, Compressing(delay=0.6), deadline_ms=400).recall(chained)

    assert (result.reason, result.compression) == (Reason.INJECTED, STATE)


async def test_a_stored_chain_is_told_when_to_go_without_its_state(world: World) -> None:
    chained = replace(LONG, previous_response_id="resp_1", turns=())
    result = await _recaller(world, Compressing(gives_up_in_time=True), deadline_ms=150).recall(chained)

    assert result.compression is STATE


async def test_the_items_of_a_chain_are_not_kept_for_its_later_steps(world: World) -> None:
    compressing = Compressing(replace(STATE, items=({"role": "user"},), statements=("long text",)))
    recaller = _recaller(world, compressing)
    chained = replace(LONG, previous_response_id="resp_1", turns=())
    first = await recaller.recall(chained)
    await recaller.recall(replace(chained, continues_loop=True))

    assert first.compression is compressing.result
    assert compressing.asked == [None, STATE]


async def test_a_stored_chain_is_waited_for_when_memories_are_late(world: World) -> None:
    """One that was compressed before must not go up as the server has it."""
    world.delay = {"search": 60}
    chained = replace(LONG, previous_response_id="resp_1", turns=())
    result = await _recaller(world, Compressing(delay=0.3), deadline_ms=200).recall(chained)

    assert (result.reason, result.compression) == (Reason.TIMEOUT, STATE)


async def test_a_request_that_is_given_up_leaves_no_task_behind(world: World) -> None:
    late = Compressing(delay=60)
    world.delay = {"search": 60}
    recalling = asyncio.create_task(_recaller(world, late, deadline_ms=60_000).recall(LONG))
    await late.begun.wait()
    recalling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await recalling
    await asyncio.sleep(0)

    assert late.cancelled


async def test_later_steps_of_a_turn_are_told_of_the_first(world: World) -> None:
    compressing = Compressing()
    recaller = _recaller(world, compressing)
    first = await recaller.recall(LONG)
    second = await recaller.recall(replace(LONG, continues_loop=True))
    await recaller.recall(replace(LONG, loop_key="another", continues_loop=True))

    assert compressing.asked == [None, STATE, None]
    assert second.text == first.text
