"""What becomes of a request's conversation."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from semrouter_memory.codec.base import transcript_hashes
from semrouter_memory.compress import record
from semrouter_memory.compress.builder import StateBuilder
from semrouter_memory.compress.pipeline import Compressor
from semrouter_memory.config import CompressionConfig
from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import (
    Candidate,
    Compression,
    CompressionReason,
    LoggedTurn,
    MemoryType,
    PastTurn,
    RecallOptions,
    RecallRequest,
    StoredChain,
    TurnState,
)
from semrouter_memory.retain.grounding import telling
from tests.unit.compress.conftest import ALICE, NOW, MakeTurns, Said, World, claim_of, small_talk, transcript_of

CONFIG = CompressionConfig(enabled=True, min_turns=6, raw_turns=2)
FACT = "User's budget is $300"


def _compressor(world: World) -> Compressor:
    return Compressor(world.backends, CONFIG)


async def _built(world: World, turns: Sequence[LoggedTurn]) -> None:
    builder = StateBuilder(world.backends, chat_model=None, config=CONFIG, redact=str, telling=telling)
    found = Candidate(
        type=MemoryType.SEMANTIC,
        content=FACT,
        observed_at=turns[0].observed_at,
        extractor="quotes",
        turn_ids=(turns[0].id,),
    )
    await builder.turns_read(claim_of(turns), turns, [found])


def _chat(said: Said, **fields: Any) -> RecallRequest:
    messages = transcript_of(said)
    hashes = transcript_hashes(messages, range(2, len(messages) + 1, 2))
    turns = tuple(
        PastTurn(
            number=at + 1, messages=2 * at + 2, places=(2 * at, 2 * at + 1), texts=(), chars=20, transcript_hash=value
        )
        for at, value in enumerate(hashes)
    )
    options = RecallOptions(limit=5, threshold=0.6)
    request = RecallRequest(scope=ALICE, query="next?", options=options, compressible=True, turns=turns, retained=True)
    return replace(request, **fields)


def _chained(response_id: str = "r", **fields: Any) -> RecallRequest:
    return replace(_chat(()), previous_response_id=response_id, **fields)


async def _asked(world: World, request: RecallRequest, before: Compression | None = None) -> Compression:
    return await _compressor(world).compress(request, before)


# -- transcripts -------------------------------------------------------------------------------------------------------


async def test_a_state_stands_for_all_but_the_last_turns(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said))
    result = await _asked(world, _chat(said))

    assert result.reason is CompressionReason.COMPRESSED
    assert result.dropped_turns == 6
    assert "6 turns" in result.text
    assert '"budget":"$300"' in result.text
    assert FACT in result.statements
    assert result.tokens_after < result.tokens_before + 30
    assert result.items is None


async def test_what_the_state_does_not_cover_yet_stays(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said[:4]))

    assert (await _asked(world, _chat(said))).dropped_turns == 4


async def test_a_retry_finds_the_state_of_its_own_history(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(9)
    await _built(world, make_turns(said))

    assert (await _asked(world, _chat(said[:7]))).dropped_turns == 5


async def test_another_conversation_stays_whole(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said))
    other = [("something else", "yes"), *said[1:]]

    assert await _asked(world, _chat(other)) == Compression(reason=CompressionReason.NO_STATE)


async def test_a_state_of_another_number_of_turns_does_not_count(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said))
    request = _chat(said)
    longer = replace(request, turns=tuple(replace(turn, number=turn.number + 1) for turn in request.turns))

    assert (await _asked(world, longer)).reason is CompressionReason.NO_STATE


async def test_a_short_conversation_stays_whole(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(5)
    await _built(world, make_turns(said))

    assert (await _asked(world, _chat(said))).reason is CompressionReason.TOO_SHORT


async def test_another_user_and_another_project_find_nothing(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said))

    for scope in (replace(ALICE, owner_id="bob"), replace(ALICE, project_id="p")):
        assert (await _asked(world, _chat(said, scope=scope))).reason is CompressionReason.NO_STATE


async def test_what_was_deleted_is_not_in_the_state(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    turns = make_turns([("I booked room 12.", "Good."), *said])
    await _built(world, turns)
    request = _chat([("I booked room 12.", "Good."), *said])
    world.forbidden = {FACT}
    result = await _asked(world, request)

    assert result.reason is CompressionReason.COMPRESSED
    assert "$300" not in result.text
    world.forbidden = {FACT, "I booked room 12."}
    assert (await _asked(world, request)).reason is CompressionReason.NO_STATE


async def test_a_later_step_of_a_turn_keeps_to_its_first(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said[:7]))
    first = await _asked(world, _chat(said[:7]))
    await _built(world, make_turns(said))

    assert await _asked(world, _chat(said), first) is first
    whole = Compression(reason=CompressionReason.NO_STATE)
    assert await _asked(world, _chat(said), whole) is whole


@pytest.mark.parametrize("built", [True, False])
async def test_a_step_of_another_conversation_does_not_take_this_ones_state(
    world: World, make_turns: MakeTurns, built: bool
) -> None:
    """Two conversations may go on with the same words."""
    await _built(world, make_turns(small_talk(8)))
    first = await _asked(world, _chat(small_talk(8)))
    other = [("something else", "yes"), *small_talk(8)[1:]]
    if built:
        await _built(world, make_turns(other, first=100))
    result = await _asked(world, _chat(other), first)

    assert result == await _asked(world, _chat(other))
    assert result.reason is (CompressionReason.COMPRESSED if built else CompressionReason.NO_STATE)
    assert result.proof != first.proof


async def test_what_was_deleted_since_the_first_step_is_not_said_at_a_later_one(
    world: World, make_turns: MakeTurns
) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said))
    first = await _asked(world, _chat(said))
    world.forbidden = {FACT}
    later = await _asked(world, _chat(said), first)

    assert "$300" in first.text
    assert "$300" not in later.text


async def test_a_turn_that_stays_counts(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said))
    request = _chat(said)
    with_image = replace(request, turns=(replace(request.turns[0], places=(), chars=200), *request.turns[1:]))

    assert (await _asked(world, with_image)).tokens_after > (await _asked(world, request)).tokens_after + 20


async def test_a_store_that_is_away_leaves_the_conversation_whole(world: World) -> None:
    world.broken = {"get"}

    assert await _asked(world, _chat(small_talk(8))) == Compression(reason=CompressionReason.UNAVAILABLE)


async def test_the_same_request_is_always_compressed_the_same_way(world: World, make_turns: MakeTurns) -> None:
    said = small_talk(8)
    await _built(world, make_turns(said))

    assert await _asked(world, _chat(said)) == await _asked(world, _chat(said))


# -- stored chains -----------------------------------------------------------------------------------------------------


async def _chain(world: World, make_turns: MakeTurns, count: int = 8, *, state: bool = True) -> list[LoggedTurn]:
    turns = make_turns(small_talk(count), transcripts=False)
    world.chains["r"] = StoredChain(turns=tuple(turns), complete=True)
    if state:
        await _built(world, turns)
    return turns


def _items(turns: Sequence[LoggedTurn]) -> tuple[Any, ...]:
    return tuple(item for turn in turns for item in turn.items or ())


async def test_a_chain_is_rebuilt_from_its_last_turns(world: World, make_turns: MakeTurns) -> None:
    turns = await _chain(world, make_turns)
    result = await _asked(world, _chained())

    assert result.reason is CompressionReason.COMPRESSED
    assert result.items == _items(turns[6:])
    assert '"budget":"$300"' in result.text
    assert "question 8?" in "\n".join(result.statements)
    assert ("alice", "\x00marks", record.Key.MARK.of("s1")) in world.values


async def test_a_compressed_chain_without_state_is_rebuilt_whole(world: World, make_turns: MakeTurns) -> None:
    turns = await _chain(world, make_turns)
    await _asked(world, _chained())
    world.values = {key: value for key, value in world.values.items() if ":mark:" in key[2]}
    result = await _asked(world, _chained())

    assert result.reason is CompressionReason.REBUILT
    assert result.items == _items(turns)
    assert result.text == ""


async def test_a_compressed_chain_in_another_project_is_rebuilt_whole(world: World, make_turns: MakeTurns) -> None:
    turns = await _chain(world, make_turns)
    await _asked(world, _chained())
    result = await _asked(world, _chained(scope=replace(ALICE, project_id="p")))

    assert (result.reason, result.items) == (CompressionReason.REBUILT, _items(turns))


async def test_a_chain_that_was_never_compressed_and_has_no_state_is_left_to_the_server(
    world: World, make_turns: MakeTurns
) -> None:
    await _chain(world, make_turns, state=False)

    assert await _asked(world, _chained()) == Compression(reason=CompressionReason.NO_STATE)


@pytest.mark.parametrize("marked", [False, True])
async def test_a_chain_with_an_unknown_item_stays_and_the_state_tells_what_the_server_lacks(
    world: World, make_turns: MakeTurns, marked: bool
) -> None:
    turns = await _chain(world, make_turns)
    if marked:
        await _asked(world, _chained())
    turns[3] = replace(turns[3], items=None)
    world.chains["r"] = StoredChain(turns=tuple(turns), complete=True)
    result = await _asked(world, _chained())

    assert result.reason is (CompressionReason.CHAIN_LOST if marked else CompressionReason.CHAIN_INCOMPLETE)
    assert result.items is None
    assert ('"budget":"$300"' in result.text) is (FACT in result.statements) is marked
    world.values = {key: value for key, value in world.values.items() if ":mark:" in key[2]}
    assert (await _asked(world, _chained())).text == ""


@pytest.mark.parametrize("paused", [False, True])
async def test_a_turn_that_the_log_will_lack_has_the_whole_chain_sent(
    world: World, make_turns: MakeTurns, paused: bool
) -> None:
    """What goes on from it is not known any more, and passes as it is."""
    turns = await _chain(world, make_turns)
    world.paused_since = NOW if paused else None
    request = _chained(retained=paused)
    assert await _asked(world, request) == Compression(reason=CompressionReason.CHAIN_INCOMPLETE)
    world.paused_since = None
    await _asked(world, _chained())
    world.paused_since = NOW if paused else None
    result = await _asked(world, request)

    assert (result.reason, result.items, result.text) == (CompressionReason.REBUILT, _items(turns), "")


async def test_a_chain_whose_mark_cannot_be_written_is_left_alone(world: World, make_turns: MakeTurns) -> None:
    await _chain(world, make_turns)
    world.broken = {"put"}

    assert await _asked(world, _chained()) == Compression(reason=CompressionReason.NOT_MARKED)


async def test_a_chain_of_which_nothing_can_be_looked_up_is_rebuilt_whole(world: World, make_turns: MakeTurns) -> None:
    turns = await _chain(world, make_turns)
    world.broken = {"get"}

    assert (await _asked(world, _chained())).items == _items(turns)


async def test_an_unknown_chain_passes_unchanged(world: World) -> None:
    assert await _asked(world, _chained("x")) == Compression(reason=CompressionReason.CHAIN_INCOMPLETE)


async def test_a_state_of_other_turns_does_not_count_for_a_chain(world: World, make_turns: MakeTurns) -> None:
    turns = await _chain(world, make_turns)
    others = ((replace(turns[0], id="another"), *turns[1:]), tuple(turns[1:]))
    for branch in others:
        world.chains["r"] = StoredChain(turns=branch, complete=True)

        assert (await _asked(world, _chained())).reason is CompressionReason.NO_STATE


async def test_a_loop_under_way_stays_and_its_later_steps_begin_with_the_same_items(
    world: World, make_turns: MakeTurns
) -> None:
    turns = await _chain(world, make_turns)
    first = await _asked(world, _chained())
    call = {"type": "function_call", "call_id": "c1", "name": "look"}
    step = replace(turns[-1], id="t9", sequence=9, state=TurnState.INCOMPLETE, items=({"role": "user"}, call))
    world.chains["r2"] = StoredChain(turns=(*turns, step), complete=True)
    await _built(world, [*turns, replace(step, state=TurnState.EXTRACTED)])
    second = await _asked(world, _chained("r2", continues_loop=True, answers_calls=frozenset({"c1"})), first)

    assert first.items is not None
    assert second.items == (*first.items, *(step.items or ()))
    assert second.text == first.text


async def test_a_later_step_whose_items_are_not_known_keeps_the_state(world: World, make_turns: MakeTurns) -> None:
    turns = await _chain(world, make_turns)
    first = await _asked(world, _chained())
    step = replace(turns[-1], id="t9", sequence=9, state=TurnState.INCOMPLETE, items=None)
    world.chains["r2"] = StoredChain(turns=(*turns, step), complete=True)
    later = await _asked(world, _chained("r2", continues_loop=True), first)

    assert (later.text, later.items) == (first.text, None)


async def test_a_step_of_an_unknown_chain_takes_no_state(world: World, make_turns: MakeTurns) -> None:
    await _chain(world, make_turns)
    first = await _asked(world, _chained())

    assert (await _asked(world, _chained("unknown", continues_loop=True), first)).text == ""


async def test_a_step_of_another_chain_keeps_its_own_history(world: World, make_turns: MakeTurns) -> None:
    await _chain(world, make_turns)
    first = await _asked(world, _chained())
    others = [replace(turn, session_id="s2") for turn in make_turns(small_talk(8), transcripts=False, first=100)]
    world.chains["other"] = StoredChain(turns=tuple(others), complete=True)
    step = _chained("other", continues_loop=True)

    assert await _asked(world, step, first) == Compression(reason=CompressionReason.NO_STATE)
    world.values["alice", "\x00marks", record.Key.MARK.of("s2")] = b"1"
    for before in (first, Compression(reason=CompressionReason.NO_STATE)):
        assert (await _asked(world, step, before)).items == _items(others)


@pytest.mark.parametrize("count", [3, 8])
@pytest.mark.usefixtures("stepped_time")
async def test_a_chain_whose_state_is_late_is_rebuilt_whole(
    world: World, make_turns: MakeTurns, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    turns = await _chain(world, make_turns, count)

    async def late(*_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(world, "get", late)
    now = asyncio.get_running_loop().time()
    result = await _compressor(world).compress(_chained(), until=now + 0.01)

    assert (result.reason, result.items) == (CompressionReason.REBUILT, _items(turns))


@pytest.mark.parametrize("marked", [False, True])
async def test_a_chain_that_is_too_large_is_left_to_the_server(
    world: World, make_turns: MakeTurns, marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = await _chain(world, make_turns)
    if marked:
        await _asked(world, _chained())
    monkeypatch.setattr(record, "MAX_CHAIN_BYTES", len(orjson.dumps(_items(turns[6:]))) - 10)
    result = await _asked(world, _chained())

    assert result == Compression(reason=CompressionReason.CHAIN_LOST if marked else CompressionReason.NO_STATE)


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
        {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
        {"type": "image_generation_call", "id": "ig"},
    ],
)
async def test_a_chain_is_not_cut_behind_what_no_text_can_stand_for(
    world: World, make_turns: MakeTurns, item: dict[str, Any]
) -> None:
    turns = make_turns(small_talk(8), transcripts=False)
    turns[4] = replace(turns[4], items=(item, *(turns[4].items or ())))
    world.chains["r"] = StoredChain(turns=tuple(turns), complete=True)
    await _built(world, turns)

    assert (await _asked(world, _chained())).items == _items(turns[4:])


@pytest.mark.parametrize("item", [{"type": "compaction", "encrypted_content": "x"}, {"type": "new"}, 7])
async def test_items_of_a_chain_that_nobody_knows_stay(world: World, make_turns: MakeTurns, item: Any) -> None:
    turns = make_turns(small_talk(8), transcripts=False)
    turns[0] = replace(turns[0], items=(item, *(turns[0].items or ())))
    world.chains["r"] = StoredChain(turns=tuple(turns), complete=True)
    await _built(world, turns)

    assert (await _asked(world, _chained())).items == (item, *_items(turns[6:]))


async def test_a_chain_is_not_cut_between_a_call_and_its_result(world: World, make_turns: MakeTurns) -> None:
    turns = make_turns(small_talk(8), transcripts=False)
    turns[4] = replace(turns[4], items=(*(turns[4].items or ()), {"type": "function_call", "call_id": "c1"}))
    turns[6] = replace(turns[6], items=({"type": "function_call_output", "call_id": "c1"}, *(turns[6].items or ())))
    world.chains["r"] = StoredChain(turns=tuple(turns), complete=True)
    await _built(world, turns)

    assert (await _asked(world, _chained())).items == _items(turns[4:])


async def test_system_and_developer_messages_of_a_chain_stay(world: World, make_turns: MakeTurns) -> None:
    turns = make_turns(small_talk(8), transcripts=False)
    rule = {"role": "developer", "content": "Be brief."}
    turns[1] = replace(turns[1], items=(rule, *(turns[1].items or ())))
    world.chains["r"] = StoredChain(turns=tuple(turns), complete=True)
    await _built(world, turns)

    assert (await _asked(world, _chained())).items == (rule, *_items(turns[6:]))


async def test_a_bug_costs_no_request(world: World, make_turns: MakeTurns, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(world, "chain", fail)
    assert (await _asked(world, _chained())).reason is CompressionReason.INTERNAL

    async def away(*_: Any, **__: Any) -> Any:
        raise TurnLogError("away")

    monkeypatch.setattr(world, "chain", away)
    assert (await _asked(world, _chained())).reason is CompressionReason.UNAVAILABLE
