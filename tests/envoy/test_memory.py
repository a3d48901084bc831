"""The main job: what is said in one session is known in the next, for its user alone."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from .conftest import ALICE, BOB, Installation

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the trip?"

Ask = Callable[[Installation, str, str], Awaitable[str]]


def user(text: str) -> Any:
    return [{"role": "user", "content": text}]


async def chat(on: Installation, key: str, text: str) -> str:
    async with on.sdk(key) as client:
        answer = await client.chat.completions.create(model="m", messages=user(text))
    return answer.choices[0].message.content or ""


async def chat_streamed(on: Installation, key: str, text: str) -> str:
    async with on.sdk(key) as client:
        stream = await client.chat.completions.create(model="m", messages=user(text), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def respond(on: Installation, key: str, text: str) -> str:
    async with on.sdk(key) as client:
        return (await client.responses.create(model="m", input=text)).output_text


async def respond_streamed(on: Installation, key: str, text: str) -> str:
    async with on.sdk(key) as client:
        stream = await client.responses.create(model="m", input=text, stream=True)
        return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


WAYS = [chat, chat_streamed, respond, respond_streamed]


@pytest.mark.parametrize("tell", WAYS)
@pytest.mark.parametrize("ask", WAYS)
async def test_told_in_one_way_known_in_another(two_filter: Installation, tell: Ask, ask: Ask) -> None:
    await tell(two_filter, ALICE, TOLD)
    await two_filter.remembers("$10,000")
    assert "$10,000" in await ask(two_filter, ALICE, ASKED)
    assert "$10,000" not in await ask(two_filter, BOB, ASKED)


async def test_unrelated_questions_get_nothing(two_filter: Installation) -> None:
    """The body that the model gets is the one that the client sent, byte for byte."""
    await chat(two_filter, ALICE, TOLD)
    await two_filter.remembers("$10,000")
    body = (
        b'{"model" : "m", "temperature": 1e-1, "messages":[{"content":"write a quicksort in Python","role":"user"}] }'
    )
    async with two_filter.http() as http:
        (await http.post("/v1/chat/completions", content=body)).raise_for_status()
    assert two_filter.llm.last.body == body


async def test_what_is_injected_is_not_remembered_again(two_filter: Installation) -> None:
    await chat(two_filter, ALICE, TOLD)
    await two_filter.remembers("$10,000")
    for _ in range(3):
        await chat(two_filter, ALICE, ASKED)
    await chat(two_filter, ALICE, "I live in Berlin")
    await two_filter.remembers("Berlin")
    assert sorted(await two_filter.memories()) == ["I live in Berlin", TOLD]


async def test_a_retry_is_remembered_once(two_filter: Installation) -> None:
    for _ in range(3):
        await chat(two_filter, ALICE, TOLD)
    await chat(two_filter, ALICE, "I live in Berlin")
    await two_filter.remembers("Berlin")
    assert len(await two_filter.memories()) == 2


async def test_a_forgotten_memory_stays_forgotten(two_filter: Installation) -> None:
    await chat(two_filter, ALICE, TOLD)
    await two_filter.remembers("$10,000")
    async with two_filter.http() as http:
        (memory,) = (await http.get("/v1/memory")).json()["data"]
        assert (await http.delete(f"/v1/memory/{memory['id']}")).status_code == 200
        assert (await http.get(f"/v1/memory/{memory['id']}")).status_code == 404
    assert "$10,000" not in await chat(two_filter, ALICE, ASKED)


async def test_opting_out_is_for_reading_and_writing(two_filter: Installation) -> None:
    await chat(two_filter, ALICE, TOLD)
    await two_filter.remembers("$10,000")
    async with two_filter.sdk(default_headers={"x-memory-opt-out": "true"}) as client:
        answer = await client.chat.completions.create(model="m", messages=user(ASKED))
        assert "$10,000" not in (answer.choices[0].message.content or "")
        await client.chat.completions.create(model="m", messages=user("My dog is called Rex"))
    async with two_filter.sdk() as client:
        off = {"memory_config": {"enabled": False}}
        await client.chat.completions.create(model="m", messages=user("I am allergic to walnuts"), extra_body=off)
        assert "memory_config" not in two_filter.llm.last.json
        no_store = {"memory_config": {"auto_store": False}}
        await client.chat.completions.create(model="m", messages=user("I work as a pilot"), extra_body=no_store)
    await chat(two_filter, ALICE, "I live in Berlin")
    await two_filter.remembers("Berlin")
    assert sorted(await two_filter.memories()) == ["I live in Berlin", TOLD]


async def test_projects_see_their_own_and_the_users(two_filter: Installation) -> None:
    apollo = {"memory_context": {"user_id": "alice", "project_id": "apollo"}}
    async with two_filter.sdk() as client:
        told = user("My deadline for the report is 3 May")
        await client.chat.completions.create(model="m", messages=told, extra_body=apollo)
        await two_filter.remembers("3 May")
        asked = user("What's my deadline for the report?")
        inside = await client.chat.completions.create(model="m", messages=asked, extra_body=apollo)
        outside = await client.chat.completions.create(model="m", messages=asked)
    assert "3 May" in (inside.choices[0].message.content or "")
    assert "3 May" not in (outside.choices[0].message.content or "")
