"""Settings of a chain (`initial_metadata`) and of a route (`ExtProcPerRoute`): request beats route beats chain beats file."""

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from .client import CHAT, RESPONSES, asking, behaving
from .conftest import Installation, eventually, installed

pytestmark = pytest.mark.asyncio(loop_scope="session")

PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"
FILTERS = ("memory.retain", "memory.recall")
CHAIN = {"x-memory-position": "user_tail", "x-memory-limit": "2"}
ROUTES = {
    "off": {"x-memory-enabled": "false"},
    "read-only": {"x-memory-auto-store": "false"},
    "one": {"x-memory-limit": "1"},
    "strict": {"x-memory-threshold": "1.0"},
    "how-to": {"x-memory-types": "procedural"},
    "system": {"x-memory-position": "system"},
    "mistyped": {"x-memory-limit": "many", "x-memory-types": "facts"},
    "agents": {"x-memory-tool-result-tokens": "300"},
    "words": {"x-memory-strategy": "keywords", "x-memory-render": "xml", "x-memory-auto-store": "false"},
    "asia": {"x-memory-filter": "category=travel,metadata.region=asia"},
    "misnamed": {"x-memory-autostore": "false"},
}
FACTS = [
    ("User's budget for the Hawaii trip is $10,000", "semantic"),
    ("User's budget for the Japan trip is $7,000", "semantic"),
    ("User's budget for the Norway trip is $4,000", "semantic"),
    ("To plan the budget of a trip: add flights and hotels", "procedural"),
]
ASKED = "What's my budget for the trip?"


def metadata(settings: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in settings.items()]


def with_routes(config: dict[str, Any]) -> None:
    """A route per entry of ROUTES, chosen by the header x-route, before the shipped one."""
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    for one in manager["http_filters"]:
        if one["name"] in FILTERS:
            one["typed_config"]["grpc_service"]["initial_metadata"] = metadata(CHAIN)
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    shipped = routes[0]
    for name, settings in ROUTES.items():
        route = copy.deepcopy(shipped)
        route["name"] = name
        route["match"]["headers"].append({"name": "x-route", "string_match": {"exact": name}})
        overrides = {"@type": PER_ROUTE, "overrides": {"grpc_initial_metadata": metadata(settings)}}
        route["typed_per_filter_config"] = dict.fromkeys(FILTERS, overrides)
        shown = {"header": {"key": "x-shortened", "value": "%DYNAMIC_METADATA(semrouter.memory:shortened_results)%"}}
        route["response_headers_to_add"] = [shown]
        routes.insert(0, route)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    async with installed(tmp_path_factory.mktemp("routes"), model_directory, edit_envoy=with_routes) as installation:
        async with installation.http() as http:
            for content, kind in FACTS:
                attached = {"category": "travel", "metadata": {"region": "asia" if "Japan" in content else "other"}}
                (await http.post("/v1/memory", json={"content": content, "type": kind, **attached})).raise_for_status()
        yield installation


async def send(on: Installation, route: str, text: str, **memory_config: Any) -> list[dict[str, str]]:
    """The messages that the LLM got."""
    body = asking(CHAT, text, **({"memory_config": memory_config} if memory_config else {}))
    async with on.http(headers={**behaving({}), "x-route": route}) as http:
        (await http.post(CHAT, content=body)).raise_for_status()
    messages: list[dict[str, str]] = on.llm.last.json["messages"]
    return messages


async def recalled(on: Installation, route: str, **memory_config: Any) -> list[str]:
    """Which of the facts were put into the request."""
    seen = json.dumps(await send(on, route, ASKED, **memory_config))
    return [content for content, _ in FACTS if content in seen]


async def test_the_chains_settings_hold_where_a_route_is_silent(on: Installation) -> None:
    (message,) = await send(on, "none", ASKED)
    assert message["content"].startswith(ASKED)
    assert len(await recalled(on, "none")) == 2
    assert len(await recalled(on, "strict", similarity_threshold=0.1)) == 2


async def test_a_route_beats_the_chain(on: Installation) -> None:
    assert len(await recalled(on, "one")) == 1
    assert await recalled(on, "strict") == []
    assert await recalled(on, "how-to") == [FACTS[3][0]]
    assert [message["role"] for message in await send(on, "system", ASKED)] == ["system", "user"]


async def test_a_route_may_name_the_strategy_and_the_format(on: Installation) -> None:
    (message,) = await send(on, "words", "budget Hawaii")
    assert f">{FACTS[0][0]}</memory>" in message["content"]
    assert [content for content, _ in FACTS if content in message["content"]] == [FACTS[0][0]]


async def test_a_request_only_narrows_the_filter_of_its_route(on: Installation) -> None:
    assert await recalled(on, "asia") == [FACTS[1][0]]
    assert await recalled(on, "asia", filter="metadata.region=asia,min_importance=0.2") == [FACTS[1][0]]
    assert await recalled(on, "asia", filter="metadata.region=other") == []
    assert await recalled(on, "asia", filter="min_importance=0.9") == []
    assert await recalled(on, "none", filter="metadata.region=asia") == [FACTS[1][0]]
    assert await recalled(on, "none", filter="region=asia") == []


async def test_a_request_beats_its_route(on: Installation) -> None:
    assert len(await recalled(on, "one", retrieval_limit=3)) == 3
    assert len(await recalled(on, "strict", similarity_threshold=0.3)) == 2
    assert FACTS[3][0] not in await recalled(on, "how-to", memory_types=["semantic"])


async def test_a_switch_that_is_off_anywhere_stays_off(on: Installation) -> None:
    """Both filters heed it: nothing is read, and nothing is learned."""
    assert await recalled(on, "off") == []
    assert await recalled(on, "off", enabled=True) == []
    assert await recalled(on, "read-only") != []
    # Four things that have nothing to do with each other: one must not replace another.
    await send(on, "off", "I am allergic to peanuts")
    await send(on, "read-only", "My dog is called Rex")
    await send(on, "read-only", "I work as a zookeeper", auto_store=True)
    await send(on, "one", "I live in Bergen")
    await on.remembers("Bergen")
    assert len(await on.memories()) == len(FACTS) + 1


async def test_a_mistyped_setting_is_counted_and_what_it_governs_is_off(on: Installation) -> None:
    before = await on.metric("semrouter_memory_unreadable_settings_total")
    assert await recalled(on, "mistyped") == []
    assert await recalled(on, "misnamed", enabled=True) == []

    async def counted() -> bool:
        return await on.metric("semrouter_memory_unreadable_settings_total") == before + 3

    await eventually(counted, "not counted, or twice")


def loop(*results: str) -> dict[str, list[dict[str, Any]]]:
    """An agent's run, by path."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be  brief."},
        {"role": "user", "content": "Deploy"},
    ]
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": "Deploy"}]
    for number, text in enumerate(results):
        name = f"call_{number}"
        call = {"id": name, "type": "function", "function": {"name": "shell", "arguments": json.dumps({"n": number})}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": name, "content": text})
        items.append({"type": "function_call", "call_id": name, "name": "shell", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": name, "output": text})
    return {CHAT: messages, RESPONSES: items}


@pytest.mark.parametrize(("path", "field", "held"), [(CHAT, "messages", "content"), (RESPONSES, "input", "output")])
async def test_old_tool_results_are_one_line_where_a_route_says_so(
    on: Installation, path: str, field: str, held: str
) -> None:
    """Beyond the limit all but the last three; every call and id, and what was said, goes up as it is."""

    async def sent(route: str, count: int) -> tuple[list[int], str]:
        items = loop(*(f"Timeout {number}: " + "x" * 400 for number in range(count)))[path]
        async with on.http(headers={**behaving({}), "x-route": route}) as http:
            answer = await http.post(path, json={"model": "m", field: items, "memory_config": {"retrieval_limit": 0}})
        answer.raise_for_status()
        got = on.llm.last.json[field]
        changed = [place for place, (one, other) in enumerate(zip(items, got, strict=True)) if one != other]
        for place in changed:
            assert {**got[place], held: ""} == {**items[place], held: ""}
            assert got[place][held].startswith("[shell: failed, 411 characters left out; it began: Timeout ")
        results = [place for place, item in enumerate(items) if held in item and "call_id" in str(item)]
        return [results.index(place) for place in changed], answer.headers.get("x-shortened", "")

    before = await on.metric("semrouter_memory_shortened_tool_results_total")
    assert (await sent("agents", 2))[0] == []
    assert await sent("agents", 4) == ([0], "1")
    assert await sent("agents", 6) == ([0, 1, 2], "3")
    assert (await sent("none", 6))[0] == [], "off by default"

    async def counted() -> bool:
        return await on.metric("semrouter_memory_shortened_tool_results_total") == before + 4

    await eventually(counted, "not counted")
