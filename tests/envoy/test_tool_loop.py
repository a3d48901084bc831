"""An agent's tool loop is one turn: the text put into its requests does not change, and what was said is learned once."""

from collections.abc import Sequence
from typing import Any

import pytest

from .client import CHAT, RESPONSES
from .conftest import Installation, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

KNOWN = "User's budget for the Hawaii trip is $10,000"
LATER = "User's weather budget for the Hawaii trip is sun"
ASKED = "What's the weather budget for my Hawaii trip?"
TOLD = "I live in Bergen. What's the weather there?"

CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
OUTPUT: Any = {"type": "function", "function": {"name": "output", "parameters": {"type": "object"}}}
TOOLS: Any = [{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}]


async def remember(on: Installation, content: str) -> None:
    async with on.http() as http:
        (await http.post("/v1/memory", json={"content": content})).raise_for_status()


def calls(*names: str) -> dict[str, Any]:
    """An assistant's message that calls several tools at once."""
    functions = [{"name": name, "arguments": "{}"} for name in names]
    found = [
        {"id": f"call_{name}", "type": "function", "function": function}
        for name, function in zip(names, functions, strict=True)
    ]
    return {"role": "assistant", "content": None, "tool_calls": found}


def result(name: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{name}", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def bodies(on: Installation, path: str, steps: Sequence[dict[str, Any]]) -> list[Any]:
    """What the model gets at each step. After the first one, something is remembered that fits better."""
    seen = []
    async with on.http() as http:
        for number, step in enumerate(steps):
            (await http.post(path, json={"model": "m", **step})).raise_for_status()
            seen.append(on.llm.last.json)
            if number == 0:
                await remember(on, LATER)
    return seen


async def test_the_block_stays_the_same_through_a_chat_loop(two_filter: Installation) -> None:
    """Byte for byte, with parallel calls, text beside a call, and a result that quotes the memory."""
    await remember(two_filter, KNOWN)
    loop: list[Any] = [{"role": "system", "content": "Be brief."}, user(ASKED)]
    steps = [{"messages": list(loop), "tools": CHAT_TOOLS}]
    loop += [calls("weather", "hotels"), result("weather", "sunny"), result("hotels", KNOWN)]
    steps.append({"messages": list(loop), "tools": CHAT_TOOLS})
    loop += [{**calls("weather"), "content": "Let me look again."}, result("weather", "still sunny")]
    steps.append({"messages": list(loop), "tools": CHAT_TOOLS})
    first, *rest = await bodies(two_filter, CHAT, steps)
    assert KNOWN in first["messages"][0]["content"]
    assert [seen["messages"][0] for seen in rest] == [first["messages"][0]] * 2
    assert rest[-1]["messages"][1:] == loop[1:]
    # The next turn is another one.
    loop += [{"role": "assistant", "content": "Sunny."}, user("And what's the weather budget for my Hawaii trip?")]
    (after,) = await bodies(two_filter, CHAT, [{"messages": loop}])
    assert LATER in after["messages"][0]["content"]


@pytest.mark.parametrize(
    "asked", [ASKED, [user(ASKED)], [user("I'm on Maui."), user(ASKED)]], ids=["text", "message", "two messages"]
)
async def test_the_block_stays_the_same_through_a_stored_chain(two_filter: Installation, asked: Any) -> None:
    """The steps of a loop that the server keeps bring nothing but results: the question is in the turn log."""
    incomplete = 'semrouter_memory_turns_total{outcome="incomplete"}'
    before = await two_filter.metric(incomplete)

    async def in_the_log() -> bool:
        return await two_filter.metric(incomplete) > before

    await remember(two_filter, KNOWN)
    async with two_filter.sdk() as client:
        answer = await client.responses.create(model="m", input=asked, tools=TOOLS)
        first = two_filter.llm.last.json
        await remember(two_filter, LATER)
        await eventually(in_the_log, "the observer has no copy of the question")
        for outcome in ("sunny", "still sunny"):
            (call,) = answer.output
            assert call.type == "function_call"
            output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": outcome}]
            await client.responses.create(model="m", previous_response_id=answer.id, input=output, tools=TOOLS)
            seen = two_filter.llm.last.json
            assert seen["input"] == output
            assert seen["instructions"] == first["instructions"]
    assert KNOWN in first["instructions"]


async def test_the_block_stays_the_same_when_the_client_repeats_the_items(two_filter: Installation) -> None:
    await remember(two_filter, KNOWN)
    call = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}
    items = [user(ASKED), reasoning, call, output]
    steps = [{"input": items[:1], "store": False}, {"input": items, "store": False}]
    first, second = await bodies(two_filter, RESPONSES, steps)
    assert KNOWN in first["instructions"]
    assert second["instructions"] == first["instructions"]
    assert second["input"] == items


async def test_a_chat_loop_is_learned_from_once(two_filter: Installation) -> None:
    accepted = await two_filter.turns("accepted")
    loop: list[Any] = [user(TOLD)]
    async with two_filter.sdk() as client:
        for outcome in ("rain", "more rain"):
            answer = await client.chat.completions.create(model="m", messages=[*loop], tools=CHAT_TOOLS)
            if message := answer.choices[0].message:
                loop += [
                    message.model_dump(exclude_none=True),
                    {"role": "tool", "tool_call_id": "call_1", "content": outcome},
                ]
        await client.chat.completions.create(model="m", messages=loop, tools=CHAT_TOOLS)
    await two_filter.remembers("Bergen")
    assert await two_filter.memories() == ["I live in Bergen."]
    # The stand-in answers a tool's result with text, so the second step is an answer as well: one turn again.
    assert await two_filter.turns("accepted") == accepted + 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_whose_every_answer_is_a_call_is_learned_from(two_filter: Installation, *, stream: bool) -> None:
    """As with tools and a structured output: no step follows the last call, and nothing in it tells that it is the last."""
    accepted = await two_filter.turns("accepted")
    loop: list[Any] = []
    async with two_filter.sdk() as client:
        for number, told in enumerate(("I live in Bergen.", "My sister is called Ingrid.")):
            loop.append(user(told))
            answer: Any = await client.chat.completions.create(
                model="m", messages=[*loop], tools=[*CHAT_TOOLS, OUTPUT], tool_choice="required", stream=stream
            )
            if stream:
                assert [chunk async for chunk in answer]
            await two_filter.remembers(told)
            # The next run of such a client has what the output tool "returned".
            loop += [calls("weather"), result("weather", "Final result processed.")]
            assert await two_filter.turns("accepted") == accepted + number + 1
    assert sorted(await two_filter.memories()) == ["I live in Bergen.", "My sister is called Ingrid."]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stored_chain_is_learned_from_once_it_is_answered(two_filter: Installation, *, stream: bool) -> None:
    accepted, incomplete = await two_filter.turns("accepted"), await two_filter.turns("incomplete")
    async with two_filter.sdk() as client:
        answer: Any = await client.responses.create(model="m", input=TOLD, tools=TOOLS, stream=stream)
        if stream:
            answer = [event async for event in answer][-1].response

        async def kept_aside() -> bool:
            return await two_filter.turns("incomplete") == incomplete + 1

        await eventually(kept_aside, "the first step was not kept")
        assert await two_filter.memories() == []
        output: Any = [{"type": "function_call_output", "call_id": answer.output[0].call_id, "output": "rain"}]
        await client.responses.create(model="m", previous_response_id=answer.id, input=output, tools=TOOLS)
    await two_filter.remembers("Bergen")
    assert await two_filter.turns("accepted") == accepted + 1


async def test_a_loop_in_a_conversation_of_the_server(two_filter: Installation) -> None:
    """Its steps name neither the question nor the response before."""
    await remember(two_filter, KNOWN)
    output: Any = [{"type": "function_call_output", "call_id": "call_1", "output": "rain"}]
    async with two_filter.sdk() as client:
        await client.responses.create(model="m", input=f"{ASKED} {TOLD}", tools=TOOLS, conversation="conv_bergen")
        first = two_filter.llm.last.json
        await remember(two_filter, LATER)
        await client.responses.create(model="m", input=output, tools=TOOLS, conversation="conv_bergen")
    assert KNOWN in first["instructions"]
    assert two_filter.llm.last.json["instructions"] == first["instructions"]
    await two_filter.remembers("Bergen")
