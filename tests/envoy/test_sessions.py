"""Which turns are one session, and that a turn is learned from once, however often a client has to send it."""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.deploy_files import Chain

from .client import CHAT
from .conftest import OTHERS, Installation, eventually, installed

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOTED = {"role": "assistant", "content": "Noted."}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def say(on: Installation, *messages: dict[str, Any], **headers: str) -> None:
    async with on.http(headers=headers) as http:
        (await http.post(CHAT, json={"model": "m", "messages": messages})).raise_for_status()


async def sessions(on: Installation, *words: str) -> list[str]:
    """The sessions of the memories that contain these words, in their order."""
    for word in words:
        await on.remembers(word)
    async with on.http() as http:
        data = (await http.get("/v1/memory")).json()["data"]
    return [memory["session_id"] for word in words for memory in data if word in memory["content"]]


async def test_two_conversations_that_begin_alike(two_filter: Installation) -> None:
    """Each goes on in its own session, for as long as it goes on, in whatever order the two are continued."""
    for _ in range(2):
        await say(two_filter, user("hi"))
    bergen = [user("hi"), NOTED, user("I live in Bergen")]
    shellfish = [user("hi"), NOTED, user("I'm allergic to shellfish")]
    await say(two_filter, *bergen)
    await say(two_filter, *shellfish)
    await say(two_filter, *shellfish, NOTED, user("My dog is called Rex"))
    await say(two_filter, *bergen, NOTED, user("My cat is called Tom"))
    city, allergy, dog, cat = await sessions(two_filter, "Bergen", "shellfish", "Rex", "Tom")
    assert city == cat
    assert allergy == dog
    assert city != allergy


async def test_an_edited_history_is_another_session(two_filter: Installation) -> None:
    await say(two_filter, user("I live in Bergen"))
    await say(two_filter, user("I live in Bergen"), NOTED, user("My dog is called Rex"))
    await say(two_filter, user("I live in Bergen!"), NOTED, user("My cat is called Tom"))
    city, dog, cat = await sessions(two_filter, "Bergen", "Rex", "Tom")
    assert city == dog != cat


async def test_what_clients_change_in_an_answer_makes_no_difference(two_filter: Installation) -> None:
    """They trim it, drop its reasoning, and send it as parts."""
    thinking = json.dumps({"reasoning": "A city.", "text": "Lovely.\n"})
    await say(two_filter, user("I live in Bergen"), **{"x-stand-in": thinking})
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Lovely."}]}
    await say(two_filter, user("I live in Bergen "), answer, user("My dog is called Rex"))
    city, dog = await sessions(two_filter, "Bergen", "Rex")
    assert city == dog


async def test_a_header_names_the_session(two_filter: Installation) -> None:
    await say(two_filter, user("I live in Bergen"), **{"x-session-id": "one"})
    await say(two_filter, user("My dog is called Rex"), **{"x-session-id": "one"})
    await say(two_filter, user("My cat is called Tom"), **{"x-session-id": "two"})
    city, dog, cat = await sessions(two_filter, "Bergen", "Rex", "Tom")
    assert city == dog != cat


async def test_responses_are_chained_by_their_ids_and_by_conversations(two_filter: Installation) -> None:
    async with two_filter.sdk() as client:
        first = await client.responses.create(model="m", input="I live in Bergen")
        await client.responses.create(model="m", input="My dog is called Rex", previous_response_id=first.id)
        await client.responses.create(model="m", input="My cat is called Tom", conversation="conv_1")
        await client.responses.create(model="m", input="I work as a nurse", conversation={"id": "conv_1"})
        await client.responses.create(model="m", input="I'm allergic to shellfish", store=False)
    city, dog, cat, work, allergy = await sessions(two_filter, "Bergen", "Rex", "Tom", "nurse", "shellfish")
    assert city == dog
    assert cat == work
    assert len({city, cat, allergy}) == 3


async def test_a_vague_question_is_completed_from_the_chain(two_filter: Installation) -> None:
    """Its body holds nothing but a word or two."""
    async with two_filter.http() as http:
        for content in ("User's budget for Hawaii is $10,000", *OTHERS):
            (await http.post("/v1/memory", json={"content": content})).raise_for_status()
    async with two_filter.sdk() as client:
        alone = await client.responses.create(model="m", input="And?")
        assert "$10,000" not in alone.output_text
        # What an answer says already is not given again.
        says: Any = {"extra_headers": {"x-stand-in": json.dumps({"text": "Gladly."})}}
        first = await client.responses.create(model="m", input="Help me with planning the Hawaii vacation", **says)
        second = await client.responses.create(
            model="m", input="And the hotels?", previous_response_id=first.id, **says
        )
        third = await client.responses.create(model="m", input="How much?", previous_response_id=second.id)
    assert "$10,000" in third.output_text


async def test_a_retry_with_an_idempotency_key_is_one_turn(two_filter: Installation) -> None:
    before = await two_filter.turns("accepted")
    for _ in range(3):
        await say(two_filter, user("I live in Bergen"), **{"idempotency-key": "once"})
    await say(two_filter, user("My dog is called Rex"), **{"idempotency-key": "twice"})
    await two_filter.remembers("Bergen")
    await two_filter.remembers("Rex")
    assert await two_filter.turns("accepted") == before + 2


async def test_the_sdks_own_retries_are_one_turn(two_filter: Installation) -> None:
    before = await two_filter.turns("accepted")
    two_filter.llm.failing = 2
    async with two_filter.sdk().with_options(max_retries=2) as client:
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "I live in Bergen"}])
    attempts = [request.headers["x-stainless-retry-count"] for request in list(two_filter.llm.requests)[-3:]]
    assert attempts == ["0", "1", "2"]
    await two_filter.remembers("Bergen")
    assert await two_filter.turns("accepted") == before + 1


async def test_a_server_that_uses_its_ids_again_loses_nothing(two_filter: Installation) -> None:
    """Twenty conversations at a time, all answered under the same two ids."""
    before = await two_filter.turns("accepted")
    names = [f"Rex{letter}" for letter in "abcdefghijklmnopqrst"]
    await asyncio.gather(
        *(
            say(
                two_filter,
                user(f"My dog {name} is called {name}"),
                **{"x-stand-in": json.dumps({"response_id": f"chatcmpl-{number % 2}"})},
            )
            for number, name in enumerate(names)
        )
    )

    async def all_accepted() -> bool:
        return await two_filter.turns("accepted") == before + len(names)

    await eventually(all_accepted, "turns were lost")


async def test_what_envoy_mirrors_is_one_turn_and_passes_a_second_gateway_as_one(
    tmp_path: Path, model_directory: Path
) -> None:
    """The second gateway is the same one again: a shadow of each request, which keeps its id."""

    def mirror(bootstrap: dict[str, Any]) -> None:
        chain = Chain(bootstrap)
        chain.manager["preserve_external_request_id"] = True
        chain.filters["envoy.filters.http.api_key_auth"]["typed_config"]["forwarding"]["hide_credentials"] = False
        again = copy.deepcopy(chain.clusters["llm"]) | {"name": "again"}
        endpoint = again["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        endpoint["address"] = bootstrap["static_resources"]["listeners"][0]["address"]
        bootstrap["static_resources"]["clusters"].append(again)
        shadow = copy.deepcopy(chain.routes["llm"])
        shadow["match"]["headers"].append({"name": "x-shadow", "present_match": True})
        shadow["route"]["request_mirror_policies"] = [{"cluster": "llm"}]
        first = chain.routes["llm"]
        first["route"]["request_mirror_policies"] = [{"cluster": "again"}]
        first["request_headers_to_add"] = [{"header": {"key": "x-shadow", "value": "1"}}]
        chain.manager["route_config"]["virtual_hosts"][0]["routes"].insert(0, shadow)

    async with installed(tmp_path, model_directory, edit_envoy=mirror) as on:
        async with on.sdk() as client:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "I live in Oslo"}])

        async def both_passed() -> bool:
            return len(on.llm.requests) == 3 and await on.turns() == 2

        await eventually(both_passed, "a mirrored request is missing")
        assert await on.turns("accepted") == 1
        await on.remembers("Oslo")
        assert await on.memories() == ["I live in Oslo"]
