"""Long conversations, as the LLM gets them: a state in place of the beginning, and nothing else changed."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from .client import CHAT
from .conftest import BOB, Installation, all_streams_ended, eventually, installed
from .operator import ENVIRONMENT, totals

pytestmark = pytest.mark.asyncio(loop_scope="session")

TURNS, MIN_TURNS, RAW_TURNS = 30, 8, 5
SYSTEM = {"role": "system", "content": "You are Falcon.  Be brief,\n and  kind."}
FACTS = ("My budget for the Hawaii trip is $10,000", "I'm allergic to shellfish", "Let's go with the Sheraton hotel")
STATE_HEAD = "## Earlier in this conversation"
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def compressing(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    memory = {
        "compression": {"enabled": True, "min_turns": MIN_TURNS},
        "retain": {"tick_seconds": 0.1},
    }
    config = {"memory": memory, "telemetry": {"log_level": "DEBUG"}}
    options: dict[str, Any] = {"sidecar_config": config, "environment": ENVIRONMENT}
    async with installed(tmp_path_factory.mktemp("compressing"), model_directory, **options) as on:
        yield on


async def learned(on: Installation) -> None:
    """Wait until the state holds all that was said."""
    await all_streams_ended(on)

    async def none_waits() -> bool:
        return (await totals(on))["waiting"] == 0

    await eventually(none_waits, "a turn was not extracted")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answering(text: str) -> dict[str, str]:
    return {"x-stand-in": json.dumps({"text": text})}


def said_in(turn: int) -> str:
    return FACTS[turn] if turn < len(FACTS) else f"Tell me more  about beach {turn}, please"


async def conversation(on: Installation, turns: int, key: str = BOB) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """What the client has of a conversation, and what the LLM got at each of its turns."""
    messages: list[dict[str, Any]] = [SYSTEM]
    seen: list[list[Any]] = []
    for turn in range(turns):
        messages.append(user(said_in(turn)))
        text = f"Answer {turn}:  " + "sand and sun " * 10
        async with on.http(key, headers=answering(text)) as http:
            answer = (await http.post(CHAT, json={"model": "m", "messages": messages})).raise_for_status().json()
        seen.append(on.llm.last.json["messages"])
        messages.append(answer["choices"][0]["message"])
        await learned(on)
    return messages, seen


async def asked(on: Installation, messages: Sequence[dict[str, Any]], key: str = BOB, **fields: Any) -> list[Any]:
    """What the LLM gets of a conversation."""
    async with on.http(key) as http:
        (await http.post(CHAT, json={"model": "m", "messages": messages, **fields})).raise_for_status()
    got: list[Any] = on.llm.last.json["messages"]
    return got


async def test_a_long_chat_goes_up_as_its_state_and_its_last_turns(compressing: Installation) -> None:
    """System message and question whole; what was planted at the beginning is in the state."""
    messages, seen = await conversation(compressing, TURNS)
    question = "What's my budget, and what can I not eat?"
    got = await asked(compressing, [*messages, user(question)])
    assert len(got) == 1 + 2 * RAW_TURNS + 1
    assert got[1:-1] == messages[-2 * RAW_TURNS :]
    assert got[-1] == user(question)
    system = got[0]["content"]
    assert system.startswith(SYSTEM["content"])
    assert STATE_HEAD in system
    assert all(word in system for word in ("$10,000", "shellfish", "Sheraton"))
    # Before there is a state, and while the conversation is short, all goes up.
    assert [len(each) for each in seen[:MIN_TURNS]] == [2 * turn + 2 for turn in range(MIN_TURNS)]
    assert all(STATE_HEAD not in json.dumps(each) for each in seen[:MIN_TURNS])
    # The state may be a few turns behind; what it does not cover is there.
    for turn, each in enumerate(seen[MIN_TURNS:], MIN_TURNS):
        kept = len(each) - 2
        whole = [
            SYSTEM,
            *(part for number in range(turn) for part in (user(said_in(number)), messages[2 * number + 2])),
        ]
        assert each[1:-1] == whole[-kept:]


async def test_a_client_that_edits_its_history_is_given_the_full_history(compressing: Installation) -> None:
    messages, _ = await conversation(compressing, MIN_TURNS + 4)
    edited = [*messages, user("Thanks!")]
    edited[3] = user(f"{said_in(1)}, and to nuts")
    got = await asked(compressing, edited)
    assert got == edited
    shorter = [*messages[:3], *messages[5:], user("Thanks!")]
    got = await asked(compressing, shorter)
    assert got == shorter


async def test_tool_calls_keep_their_results(compressing: Installation) -> None:
    """Of an earlier turn that stays, and of the one that is under way."""
    messages, _ = await conversation(compressing, MIN_TURNS + 4)
    call = {"id": "call_7", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Hilo"}'}}
    step = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    result = [{"role": "tool", "tool_call_id": "call_7", "content": "sunny"}]
    loop = [*messages, user("Is it sunny in Hilo?"), *step, *result]
    got = await asked(compressing, loop, tools=TOOLS)
    assert STATE_HEAD in got[0]["content"]
    assert got[-3:] == loop[-3:]
    told = [*loop, {"role": "assistant", "content": "Yes, sunny."}, user("Thanks! And how do I get there?")]
    got = await asked(compressing, told)
    assert got[-5:] == told[-5:]
    calls = [each["tool_call_id"] for each in got if each["role"] == "tool"]
    assert calls == [call["id"] for each in got for call in each.get("tool_calls") or ()]


async def test_it_is_off_unless_asked_for(two_filter: Installation) -> None:
    messages: list[dict[str, Any]] = [SYSTEM]
    for turn in range(22):
        messages += [user(f"Tell me about beach {turn}"), {"role": "assistant", "content": f"Beach {turn} is sandy."}]
    messages.append(user("Write a quicksort"))
    assert await asked(two_filter, messages) == messages


# -- stored chains -----------------------------------------------------------------------------------------------------


async def chain(on: Installation, client: AsyncOpenAI, turns: int) -> str:
    """The last response's id."""
    previous: Any = None
    for turn in range(turns):
        headers = answering(f"Answer {turn}: sand")
        answer = await client.responses.create(
            model="m", input=said_in(turn), previous_response_id=previous, extra_headers=headers
        )
        previous = answer.id
        await learned(on)
    return str(previous)


def texts_of(body: Any) -> str:
    return json.dumps(body["input"])


async def test_a_stored_chain_is_rebuilt_from_the_log(compressing: Installation) -> None:
    """Once shortened it is rebuilt for good: with the state, and without one from its first word."""
    async with compressing.sdk(BOB) as client:
        previous = await chain(compressing, client, MIN_TURNS + 4)
        short = compressing.llm.last.json
        assert "previous_response_id" not in short
        assert STATE_HEAD in short["instructions"]
        assert "$10,000" in short["instructions"]
        assert len(short["input"]) == 2 * RAW_TURNS + 1
        await _lose_the_state(compressing)
        answer = await client.responses.create(model="m", input="What next?", previous_response_id=previous)
        whole = compressing.llm.last.json
        assert "previous_response_id" not in whole
        assert STATE_HEAD not in whole.get("instructions", "")
        assert len(whole["input"]) == 2 * (MIN_TURNS + 4) + 1
        assert all(said_in(turn) in texts_of(whole) for turn in range(MIN_TURNS + 4))
        assert whole["input"][-1]["content"] == "What next?"
        await learned(compressing)
        await client.responses.create(model="m", input="And then?", previous_response_id=answer.id)
        assert len(compressing.llm.last.json["input"]) == 2 * (MIN_TURNS + 4) + 3


async def test_a_turn_that_is_not_stored_is_sent_with_the_whole_chain(compressing: Installation) -> None:
    """The log cannot rebuild what comes after it, so the server must have all of it."""
    async with compressing.sdk(BOB) as client:
        previous = await chain(compressing, client, MIN_TURNS + 4)
        unstored = {"memory_config": {"auto_store": False}}
        answer = await client.responses.create(
            model="m", input="What next?", previous_response_id=previous, extra_body=unstored
        )
        whole = compressing.llm.last.json
        assert "previous_response_id" not in whole
        assert all(said_in(turn) in texts_of(whole) for turn in range(MIN_TURNS + 4))
        await client.responses.create(model="m", input="And then?", previous_response_id=answer.id)
        assert compressing.llm.last.json["previous_response_id"] == answer.id


async def test_a_chain_with_a_secret_is_sent_with_its_state(compressing: Installation) -> None:
    async with compressing.sdk(BOB) as client:
        previous = await chain(compressing, client, MIN_TURNS + 4)
        secret = "My key is sk-proj-abcd1234efgh5678ijkl9012mnop3456qrst"
        answer = await client.responses.create(model="m", input=secret, previous_response_id=previous)
        await learned(compressing)
        await client.responses.create(model="m", input="What next?", previous_response_id=answer.id)
        assert compressing.llm.last.json["previous_response_id"] == answer.id
        assert STATE_HEAD in compressing.llm.last.json["instructions"]


async def _lose_the_state(on: Installation) -> None:
    """As a user may: what is kept of conversations goes whenever a memory is forgotten."""
    async with on.http(BOB) as http:
        added = (await http.post("/v1/memory", json={"content": "User collects stamps"})).raise_for_status().json()
        (await http.delete(f"/v1/memory/{added['id']}")).raise_for_status()


async def test_a_chain_that_was_not_seen_from_its_beginning_passes_unchanged(compressing: Installation) -> None:
    async with compressing.sdk(BOB) as client:
        previous = "resp_from_before"
        for turn in range(MIN_TURNS + 2):
            text = f"Tell me about the {turn}th beach"
            answer = await client.responses.create(model="m", input=text, previous_response_id=previous)
            assert compressing.llm.last.json["previous_response_id"] == previous
            assert compressing.llm.last.json["input"] == text
            previous = answer.id


async def test_what_the_server_does_not_store_is_the_clients_to_repeat(compressing: Installation) -> None:
    """With `store: false` there is no chain: the items are shortened as a chat's messages are."""
    items: list[Any] = []
    async with compressing.sdk(BOB) as client:
        for turn in range(MIN_TURNS + 4):
            items.append(user(said_in(turn)))
            answer = await client.responses.create(
                model="m", input=items, store=False, extra_headers=answering(f"Answer {turn}: sea")
            )
            got = compressing.llm.last.json
            items.append({"role": "assistant", "content": answer.output_text})
            await learned(compressing)
    assert got["store"] is False
    assert STATE_HEAD in got["instructions"]
    assert "$10,000" in got["instructions"]
    assert got["input"] == items[-len(got["input"]) - 1 : -1]
    assert len(got["input"]) < len(items) - 1
