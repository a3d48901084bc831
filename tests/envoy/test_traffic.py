"""Everything that works without the filters works with them, and what memory does not touch arrives as it was sent."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from semrouter_memory.stack.loopback import local_client

from .conftest import ALICE, Installation, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 200}}
WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {}}},
}
PATHS = {
    "/v1/chat/completions": b'{"messages": [{"role": "user", "content": "%s"}], "model": "m"}',
    "/v1/responses": b'{"input": "%s", "model": "m"}',
}


async def post(on: Installation, content: bytes, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
    async with on.http(headers={"content-type": "application/json", **headers}) as http:
        return await http.post(path, content=content)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[{"role":"user","content":"zebra?"}],"temperature":1e-1,"seed":12345678901234567890}',
        b'{ "messages" : [ {"content":"zebra \\u00e9\\ud83d\\ude00", "role":"user"} ] , "x":{"b":1,"a":[1.0,1.00]} }\n',
        b'{"messages":[{"role":"user","content":"zebra","content":"zebra again"}],"n":1,"n":1}',
    ],
)
async def test_a_body_arrives_byte_for_byte(two_filter: Installation, body: bytes) -> None:
    assert (await post(two_filter, body)).status_code == 200
    assert two_filter.llm.last.body == body


@pytest.mark.parametrize("path", PATHS)
async def test_our_fields_do_not_reach_the_model(two_filter: Installation, path: str) -> None:
    body = PATHS[path] % b"zebra?"
    extended = body[:-1] + b', "memory_config": {"enabled": true}, "memory_context": {"user_id": "alice"}}'
    assert (await post(two_filter, extended, path)).status_code == 200
    assert two_filter.llm.last.body == body


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[1, 2]", b'"text"', b"\xff\xfe\x00", b'{"messages": "none"}', b'{"a": NaN}', b"{}" * 3],
)
async def test_what_is_not_json_arrives_as_it_is(two_filter: Installation, path: str, body: bytes) -> None:
    """The model's server answers for it, not we."""
    seen = len(two_filter.llm.requests)
    answer = await post(two_filter, body, path)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    if len(two_filter.llm.requests) > seen:
        assert two_filter.llm.last.body == body


async def test_an_encoded_request_passes_untouched(two_filter: Installation) -> None:
    packed = gzip.compress(PATHS["/v1/chat/completions"] % b"What is my budget?")
    await post(two_filter, packed, **{"content-encoding": "gzip"})
    assert two_filter.llm.last.body == packed
    assert two_filter.llm.last.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("megabytes", [1, 10])
async def test_large_bodies_pass(two_filter: Installation, megabytes: int) -> None:
    body = PATHS["/v1/chat/completions"] % (b"z" * (megabytes << 20))
    assert (await post(two_filter, body)).status_code == 200
    assert two_filter.llm.last.body == body


async def test_a_large_body_with_memory_in_it(two_filter: Installation) -> None:
    """The inserted text makes the body longer than the length that the client announced."""
    async with two_filter.http() as http:
        (await http.post("/v1/memory", json={"content": "User's favourite zebra is called Marty"})).raise_for_status()
    parts = [{"type": "text", "text": "What's my favourite zebra called?"}, *[IMAGE] * 2000]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": parts}]}).encode()
    answer = await post(two_filter, body)
    assert "Marty" in answer.json()["choices"][0]["message"]["content"]
    assert two_filter.llm.last.json["messages"][1:] == json.loads(body)["messages"]


async def test_beyond_the_stated_limit_envoy_refuses(two_filter: Installation) -> None:
    answer = await post(two_filter, PATHS["/v1/chat/completions"] % (b"z" * (65 << 20)))
    assert answer.status_code == 413


async def test_a_chunked_upload(two_filter: Installation) -> None:
    body = PATHS["/v1/chat/completions"] % b"zebra?"

    async def pieces() -> AsyncIterator[bytes]:
        for byte in body:
            yield bytes([byte])
            await asyncio.sleep(0)

    async with two_filter.http() as http:
        answer = await http.post("/v1/chat/completions", content=pieces())
    assert answer.status_code == 200
    assert two_filter.llm.last.body == body


async def test_http2(two_filter: Installation) -> None:
    """Prior knowledge, many requests on one connection."""
    headers = {"authorization": f"Bearer {ALICE}"}
    async with local_client(http1=False, http2=True, base_url=two_filter.url, headers=headers, timeout=30) as http:
        body = PATHS["/v1/chat/completions"] % b"zebra?"
        answers = await asyncio.gather(*(http.post("/v1/chat/completions", content=body) for _ in range(20)))
    assert {(answer.status_code, answer.http_version) for answer in answers} == {(200, "HTTP/2")}


async def test_other_paths_pass(two_filter: Installation) -> None:
    async with two_filter.sdk() as client:
        assert [model.id async for model in client.models.list()] == ["stand-in"]
    for path in ("/v1/embeddings", "/v1/responses/resp_1", "/anything?x=1"):
        assert (await post(two_filter, b"\x00raw", path)).content == b"\x00raw"


async def test_tools_and_images_with_the_sdk(two_filter: Installation) -> None:
    """A whole agent's loop: call, result, answer; it is one turn, which the final answer completes."""
    accepted, completed = [await two_filter.turns(outcome) for outcome in ("accepted", "completed")]
    messages: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What's the weather at the zoo?"}, IMAGE]},
    ]
    async with two_filter.sdk() as client:
        call = (await client.chat.completions.create(model="m", messages=messages, tools=[WEATHER])).choices[0].message
        assert call.tool_calls
        messages += [call.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
        final = await client.chat.completions.create(model="m", messages=messages, tools=[WEATHER])
    assert final.choices[0].message.content
    assert two_filter.llm.last.json["messages"] == messages

    async def one_more() -> bool:
        return await two_filter.turns("completed") == completed + 1

    await eventually(one_more, "the final answer did not complete the turn")
    assert await two_filter.turns("accepted") == accepted + 1


async def test_streams_with_the_sdk(two_filter: Installation) -> None:
    async with two_filter.sdk() as client:
        stream = await client.chat.completions.create(
            model="m",
            n=2,
            messages=[{"role": "user", "content": "What about zebras?"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        assert chunks[-1].usage is not None
        assert {choice.index for chunk in chunks for choice in chunk.choices} == {0, 1}
        async with client.responses.stream(model="m", input="What about zebras?") as events:
            kinds = [event.type async for event in events]
            assert (await events.get_final_response()).output_text
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_errors_of_the_server_reach_the_client_as_they_are(two_filter: Installation, status: int) -> None:
    behaviour = {"x-stand-in": json.dumps({"status": status})}
    async with two_filter.sdk(default_headers=behaviour) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "I live in Oslo"}])
    assert caught.value.status_code == status
    assert "asked to fail" in caught.value.message


async def test_what_the_server_failed_at_is_not_remembered(two_filter: Installation) -> None:
    body = PATHS["/v1/chat/completions"]
    for how in ({"status": 500}, {"garbage": True}):
        await post(two_filter, body % b"My dog is called Rex", **{"x-stand-in": json.dumps(how)})
    streamed = (body % b"I am allergic to walnuts").replace(b'"model"', b'"stream": true, "model"')
    await post(two_filter, streamed, **{"x-stand-in": json.dumps({"cut": 1})})
    await post(two_filter, body % b"I live in Bergen")
    await two_filter.remembers("Bergen")
    assert await two_filter.memories() == ["I live in Bergen"]


@pytest.mark.parametrize(
    "how",
    [
        {"encoding": "gzip"},
        {"split": 1},
        {"split": 7, "encoding": "gzip"},
        {"reasoning": "The user lives in Mordor."},
        {"response_id": "always-the-same"},
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True])
async def test_answers_in_every_form_become_turns(
    two_filter: Installation, how: dict[str, Any], *, stream: bool
) -> None:
    body = json.dumps(
        {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "I live in Bergen"}]}
    ).encode()
    answer = await post(two_filter, body, **{"x-stand-in": json.dumps(how)})
    assert "Noted." in answer.text.replace('"}}', "") or stream
    await two_filter.remembers("Bergen")


async def test_conversations_and_their_sessions(two_filter: Installation) -> None:
    """Two conversations that begin alike are two sessions; each continues its own."""

    async def say(*texts: str) -> None:
        roles = ["user", "assistant"] * len(texts)
        messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
        await post(two_filter, json.dumps({"model": "m", "messages": messages}).encode())

    await say("hi")
    await say("hi")
    await say("hi", "Noted.", "I live in Bergen")
    await say("hi", "Noted.", "I work as a zookeeper")
    await two_filter.remembers("Bergen")
    await two_filter.remembers("zookeeper")
    async with two_filter.http() as http:
        sessions = {memory["session_id"] for memory in (await http.get("/v1/memory")).json()["data"]}
    assert len(sessions) == 2
