"""A deletion is complete when the call returns: no recall, no background write and no other conversation brings it back."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from .client import CHAT, answers_held_back, under_way
from .conftest import ALICE, BOB, Installation, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the Hawaii trip?"
APOLLO: Any = {"memory_context": {"project_id": "apollo"}}
FLAT = (
    "I live in Bergen, in a flat above the old bakery on the harbour, where the windows look out on the fish market and the"
    " ferries, and where the rent has not gone up since I moved in with my brother five years ago."
)
DOG = (
    "My dog is called Rex, he is a brown spaniel of seven years who sleeps on the sofa all day, barks at the postman every"
    " morning, is afraid of thunder, and has to be carried down the stairs since his hind leg was operated on last autumn."
)

Delete = Callable[[Installation], Awaitable[httpx.Response]]


async def say(on: Installation, text: str, key: str = ALICE, **fields: object) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **fields}
    async with on.http(key) as http:
        (await http.post(CHAT, json=body)).raise_for_status()


async def settled(on: Installation, key: str = ALICE) -> list[str]:
    """The user's memories after everything said so far was looked at: what is said last is in them."""
    await say(on, "Remember that my marker is set", key)
    await on.remembers("marker", key)
    return [content for content in await on.memories(key) if "marker" not in content]


async def delete_by_id(on: Installation) -> httpx.Response:
    async with on.http() as http:
        (memory,) = (await http.get("/v1/memory")).json()["data"]
        return await http.delete(f"/v1/memory/{memory['id']}")


async def delete_user(on: Installation) -> httpx.Response:
    async with on.http() as http:
        return await http.delete("/v1/memory", params={"user_id": "alice"})


async def delete_project(on: Installation) -> httpx.Response:
    async with on.http() as http:
        return await http.delete("/v1/memory", params={"user_id": "alice", "project_id": "apollo"})


WAYS: list[Delete] = [delete_by_id, delete_user, delete_project]


@pytest.mark.parametrize("delete", WAYS)
async def test_no_request_that_begins_after_it_sees_the_memory(two_filter: Installation, delete: Delete) -> None:
    """While four clients keep asking."""
    await say(two_filter, TOLD, **APOLLO)
    await two_filter.remembers("$10,000")
    seen: list[tuple[float, bool]] = []
    stop = asyncio.Event()

    async def keep_asking() -> None:
        body = {"model": "m", "messages": [{"role": "user", "content": ASKED}], **APOLLO}
        async with two_filter.http() as http:
            while not stop.is_set():
                began = time.monotonic()
                seen.append((began, "$10,000" in (await http.post(CHAT, json=body)).text))

    async def found_some() -> bool:
        return any(found for _, found in seen)

    async def asked_again() -> bool:
        return sum(began >= deleted for began, _ in seen) > 8

    asking = [asyncio.create_task(keep_asking()) for _ in range(4)]
    await eventually(found_some, "it is not recalled")
    assert (await delete(two_filter)).json()["deleted"]
    deleted = time.monotonic()
    await eventually(asked_again, "nothing is answered any more")
    stop.set()
    await asyncio.gather(*asking)
    assert not any(found for began, found in seen if began >= deleted)
    assert await settled(two_filter) == []


@pytest.mark.parametrize("delete", [delete_user, delete_project])
async def test_what_still_waits_to_be_learned_from_goes_too(two_filter: Installation, delete: Delete) -> None:
    """The deletion comes while the turn is on its way through log, extraction and store."""
    for pause in (0, 0.005, 0.01, 0.02, 0.04, 0.08):
        await say(two_filter, TOLD, **APOLLO)
        await asyncio.sleep(pause)
        assert (await delete(two_filter)).status_code == 200
    assert await settled(two_filter) == []


async def test_a_turn_under_way_when_everything_is_deleted_is_not_learned_from(two_filter: Installation) -> None:
    """It was said before, though its answer ends after."""
    two_filter.llm.requests.clear()
    async with answers_held_back(two_filter):
        saying = asyncio.create_task(say(two_filter, TOLD))
        await under_way(two_filter, 1)
        assert (await delete_user(two_filter)).status_code == 200
    await saying
    assert await settled(two_filter) == []


@pytest.mark.parametrize("delete", WAYS)
async def test_what_is_said_again_is_remembered_again(two_filter: Installation, delete: Delete) -> None:
    """In the same words, in a conversation of its own, and also in the middle of the old one."""
    await say(two_filter, TOLD, **APOLLO)
    await two_filter.remembers("$10,000")
    assert (await delete(two_filter)).json()["deleted"]
    assert await settled(two_filter) == []
    await say(two_filter, TOLD, **APOLLO)
    await two_filter.remembers("$10,000")
    assert (await delete_user(two_filter)).status_code == 200
    again = [
        {"role": "user", "content": TOLD},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": TOLD},
    ]
    async with two_filter.http() as http:
        (await http.post(CHAT, json={"model": "m", "messages": again})).raise_for_status()
    await two_filter.remembers("$10,000")


async def test_an_old_conversation_that_goes_on_does_not_bring_it_back(two_filter: Installation) -> None:
    """A chat client repeats the whole history with each request; only what is new in it counts."""
    await say(two_filter, TOLD)
    await two_filter.remembers("$10,000")
    await delete_by_id(two_filter)
    history = [{"role": "user", "content": TOLD}, {"role": "assistant", "content": "Noted."}]
    async with two_filter.http() as http:
        body = {"model": "m", "messages": [*history, {"role": "user", "content": "I live in Bergen"}]}
        (await http.post(CHAT, json=body)).raise_for_status()
    await two_filter.remembers("Bergen")
    assert await settled(two_filter) == ["I live in Bergen"]


async def test_a_projects_deletion_leaves_the_rest(two_filter: Installation) -> None:
    await say(two_filter, TOLD, **APOLLO)
    await say(two_filter, "I live in Bergen")
    await say(two_filter, "My budget for the Oslo trip is $300", BOB, **APOLLO)
    await two_filter.remembers("$10,000")
    await two_filter.remembers("Bergen")
    await two_filter.remembers("$300", BOB)
    assert (await delete_project(two_filter)).json()["deleted"] == 1
    assert await settled(two_filter) == ["I live in Bergen"]
    assert await settled(two_filter, BOB) == ["My budget for the Oslo trip is $300"]


async def test_one_quote_of_a_turn_goes_and_the_other_stays(two_filter: Installation) -> None:
    """Of a message that is long enough for two."""
    await say(two_filter, f"{FLAT} {DOG}")
    await two_filter.remembers("Rex")
    async with two_filter.http() as http:
        stored = {memory["content"]: memory["id"] for memory in (await http.get("/v1/memory")).json()["data"]}
        (dog,) = [memory_id for content, memory_id in stored.items() if "Rex" in content]
        (await http.delete(f"/v1/memory/{dog}")).raise_for_status()
    assert await settled(two_filter) == [FLAT]


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        ({}, 400),
        ({"user_id": ""}, 400),
        ({"user_id": "bob"}, 404),
        ({"user_id": "alice", "project_id": ""}, 400),
        ({"user_id": "alice", "projectid": "apollo"}, 400),
        ({"user_id": ["alice", "bob"]}, 400),
    ],
)
async def test_a_deletion_that_is_not_clear_deletes_nothing(
    two_filter: Installation, parameters: dict[str, str | list[str]], status: int
) -> None:
    await say(two_filter, TOLD)
    await two_filter.remembers("$10,000")
    async with two_filter.http() as http:
        refused = await http.delete("/v1/memory", params=parameters)
    assert refused.status_code == status
    assert set(refused.json()["error"]) == {"message", "type", "param", "code"}
    assert len(await two_filter.memories()) == 1
