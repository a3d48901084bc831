"""Tools over MCP: the official SDK's client against both ports, over HTTP and over the bridge; and messages that no client sends."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, Literal

import httpx
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, TextContent

from semrouter_memory.cli.connection import ApiClient, ApiEndpoint
from semrouter_memory.cli.mcp import Bridge
from semrouter_memory.manage.tools import TOOLS
from tests.management_ports import TOKEN, Ports, open_ports

ALICE, BOB = {"x-authz-user-id": "alice"}, {"x-authz-user-id": "bob"}
OPERATOR = {"authorization": f"Bearer {TOKEN}"}
PATH = "/v1/memory/mcp"
BUDGET = "User's budget for the Hawaii trip is $10,000"
EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "25"))
Mode = Literal["auto", "legacy"]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with open_ports(tmp_path_factory.mktemp("ports")) as opened:
        yield opened


@pytest.fixture(scope="module")
def http(ports: Ports) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=ports.user_url, verify=False, trust_env=False) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_remembered(http: httpx.Client) -> None:
    for user in ("alice", "bob"):
        headers = {"x-authz-user-id": user}
        http.delete("/v1/memory", params={"user_id": user}, headers=headers).raise_for_status()


@pytest.fixture
def of_bob(http: httpx.Client) -> None:
    http.post("/v1/memory", json={"content": "User is code-named Zephyr"}, headers=BOB).raise_for_status()


@pytest.fixture
def of_session(http: httpx.Client) -> None:
    for fields in (
        {"content": "The demo is in room Zebra", "within_session": "chat-7"},
        {"content": "The demo is at noon"},
    ):
        http.post("/v1/memory", json=fields, headers=ALICE).raise_for_status()


@asynccontextmanager
async def connected(url: str, headers: dict[str, str] = ALICE, mode: Mode = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, verify=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def text(result: CallToolResult) -> str:
    (part,) = result.content
    assert isinstance(part, TextContent)
    return part.text


async def done(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool, which is the same as text and as JSON."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, text(result)
    assert json.loads(text(result)) == result.structured_content
    return dict(result.structured_content)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    return text(result)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_remembers_recalls_lists_and_forgets(ports: Ports, mode: Mode) -> None:
    async with connected(ports.user_url + PATH, mode=mode) as client:
        assert client.instructions is not None
        assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLS)
        stored = (await done(client, "remember", content=BUDGET))["stored"]
        (found,) = (await done(client, "recall", query="What's my budget?"))["memories"]
        assert found["content"] == BUDGET
        assert 0 < found["relevance"] <= 1
        assert (await done(client, "list_memories"))["memories"] == [stored]
        assert await done(client, "forget", id=stored["id"]) == {"forgotten": stored["id"]}
        assert (await done(client, "recall", query="What's my budget?"))["memories"] == []


async def test_a_question_is_answered_with_citations(ports: Ports, of_bob: None) -> None:
    async with connected(ports.user_url + PATH) as client:
        unknown = await done(client, "reflect", question="What is my budget?")
        assert (unknown["known"], unknown["citations"]) == (False, [])
        stored = (await done(client, "remember", content=BUDGET))["stored"]
        answer = await done(client, "reflect", question="What is my budget?", limit=3)
        (cited,) = answer["citations"]
        assert (answer["known"], cited["number"], cited["id"], cited["content"]) == (True, 1, stored["id"], BUDGET)
        assert "question" in await refused(client, "reflect", question=" ")


async def test_while_remembering_is_paused_models_do_without_it(ports: Ports) -> None:
    settings_path = ports.user_url + "/v1/memory/settings"
    async with connected(ports.user_url + PATH) as client, httpx.AsyncClient(headers=ALICE, verify=False) as http:
        stored = (await done(client, "remember", content=BUDGET))["stored"]
        (await http.put(settings_path, json={"paused": True})).raise_for_status()
        for tool, arguments in (("recall", {"query": "What's my budget?"}), ("remember", {"content": BUDGET})):
            assert (await refused(client, tool, **arguments)).startswith("The user has paused remembering.")
        assert await done(client, "forget", id=stored["id"]) == {"forgotten": stored["id"]}
        (await http.put(settings_path, json={"paused": False})).raise_for_status()
        assert (await done(client, "recall", query="What's my budget?"))["memories"] == []


async def test_a_model_is_told_that_a_memory_holds_within_one_session(ports: Ports, of_session: None) -> None:
    async with connected(ports.user_url + PATH) as client:
        found = (await done(client, "recall", query="Where is the demo?"))["memories"]
    assert {each["content"]: each.get("within_session") for each in found} == {
        "The demo is in room Zebra": "chat-7",
        "The demo is at noon": None,
    }


async def test_an_episode_is_recalled_apart_from_statements(ports: Ports) -> None:
    parts = {
        "goal": "Deploy the billing service",
        "steps": ["helm upgrade", "smoke test"],
        "outcome": "Rolled back: old k8s version",
        "lessons": ["Verify the k8s version first"],
    }
    async with connected(ports.user_url + PATH) as client:
        await done(client, "remember", content="User deploys the billing service on Fridays")
        recorded = (await done(client, "record_episode", **parts))["stored"]
        (found,) = (await done(client, "recall_episodes", query="deploy the billing service"))["memories"]
    assert found["id"] == recorded["id"]
    assert {name: found[name] for name in parts} == parts


async def test_a_model_may_sort_by_categories(ports: Ports) -> None:
    async with connected(ports.user_url + PATH) as client:
        await done(client, "remember", content="User runs the billing service", category="work")
        await done(client, "remember", content="User keeps bees")
        for tool, arguments in (("list_memories", {}), ("recall", {"query": "User"})):
            (found,) = (await done(client, tool, **arguments, filter="category=work"))["memories"]
            assert (found["content"], found["category"]) == ("User runs the billing service", "work")


async def test_a_page_leads_to_the_next(ports: Ports) -> None:
    async with connected(ports.user_url + PATH) as client:
        for day in range(3):
            await done(client, "remember", content=f"User ran {day + 7} km on day {day}")
        first = await done(client, "list_memories", limit=2)
        rest = await done(client, "list_memories", limit=2, cursor=first["next_cursor"])
    assert len({memory["id"] for memory in first["memories"] + rest["memories"]}) == 3
    assert "next_cursor" not in rest


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("recall", {}, ["query: is required", "What's my budget"]),
        ("recall", {"query": "  "}, ["query must not be blank"]),
        ("recall", {"query": "x" * 501}, ["query is longer than 500 characters"]),
        ("recall", {"query": "tea", "limit": "many"}, ["limit: ", "integer"]),
        ("recall", {"query": "tea", "limit": 101}, ["limit: ", "100"]),
        ("recall", {"query": "tea", "types": ["gossip"]}, ["types.0: ", "'episodic'"]),
        ("recall", {"query": "tea", "since": "yesterday"}, ["since: must be a date", "2026-03-01"]),
        ("recall", {"query": "tea", "since": "2026-03-02", "until": "2026-03-01"}, ["until: must be later"]),
        ("recall", {"query": "tea", "project_id": " a"}, ["project_id must have at most 256", "no blank at an end"]),
        ("recall", {"query": "tea", "user_id": "bob"}, ["user_id: unknown argument", "It takes: query, limit"]),
        ("recall", {"query": "tea", "filter": "tea"}, ["filter: is written like", "category=work"]),
        ("list_memories", {"filter": "colour=red"}, ["filter: has a name besides", "metadata.KEY"]),
        ("remember", {"content": "tea", "category": "a" * 129}, ["category: must have at most 128"]),
        ("remember", {"content": "User's password is hunter2-XKCD"}, ["content seems to hold a password"]),
        ("remember", {"content": "x" * 501}, ["content is longer than 500 characters"]),
        ("remember", {"content": ["tea"]}, ["content: ", "string"]),
        ("remember", {"content": "tea", "goal": "x"}, ["goal: unknown argument"]),
        ("remember", {"content": "tea", "expires_at": "2020-01-01T00:00:00Z"}, ["expires_at: must lie in the future"]),
        ("record_episode", {"goal": "Deploy"}, ["outcome: is required"]),
        ("record_episode", {"goal": "x" * 1001, "outcome": "y"}, ["goal: ", "1000"]),
        ("forget", {"id": None}, ["id: Input should be a valid string"]),
        ("forget", {"id": "mem_none"}, ["no such memory", "list_memories"]),
        ("forget", {"id": "\u0000"}, ["no such memory"]),
        ("list_memories", {"cursor": "mine"}, ["cursor"]),
        ("search_knowledge", {"query": ""}, ["query: "]),
    ],
)
async def test_an_error_names_the_field_and_the_fix(
    ports: Ports, tool: str, arguments: dict[str, Any], expected: list[str]
) -> None:
    async with connected(ports.user_url + PATH) as client:
        message = await refused(client, tool, **arguments)
        assert all(part in message for part in expected), message
        assert (await done(client, "list_memories"))["memories"] == []


async def test_an_unknown_tool_is_answered_with_those_there_are(ports: Ports) -> None:
    async with connected(ports.user_url + PATH) as client:
        with pytest.raises(MCPError, match="recall_episodes"):
            await client.call_tool("delete_everything", {})


async def test_users_reach_only_their_own(ports: Ports) -> None:
    async with connected(ports.user_url + PATH) as alice, connected(ports.user_url + PATH, BOB) as bob:
        theirs = (await done(alice, "remember", content=BUDGET))["stored"]
        assert (await done(bob, "recall", query=BUDGET))["memories"] == []
        assert (await done(bob, "list_memories"))["memories"] == []
        for hostile in (theirs["id"], f"{theirs['id']}' or owner == 'user:alice", "mcp", "../alice", "*", "%"):
            assert "no such memory" in await refused(bob, "forget", id=hostile)
        assert (await done(alice, "list_memories"))["memories"] == [theirs]


async def test_one_server_never_mixes_callers_that_ask_at_once(ports: Ports) -> None:
    async with connected(ports.user_url + PATH) as alice, connected(ports.user_url + PATH, BOB) as bob:
        await done(alice, "remember", content="User likes tea")
        await done(bob, "remember", content="User likes coffee")
        answers = await asyncio.gather(*(done(client, "list_memories") for client in (alice, bob) * 10))
    assert [answer["memories"][0]["content"].split()[-1] for answer in answers] == ["tea", "coffee"] * 10


async def test_the_operator_acts_for_a_named_user(ports: Ports) -> None:
    async with connected(f"{ports.operator_url}{PATH}?user_id=alice", OPERATOR) as client:
        await done(client, "remember", content=BUDGET)
    async with connected(ports.user_url + PATH) as client:
        assert [each["content"] for each in (await done(client, "list_memories"))["memories"]] == [BUDGET]


async def test_users_search_their_own_documents_too(ports: Ports) -> None:
    async with httpx.AsyncClient(base_url=ports.user_url, headers=ALICE, verify=False) as http:
        text = "# Garden\n\nThe plum tree is cut in late July."
        added = await http.post("/v1/knowledge", params={"source": "notes.md"}, content=text)
        for headers, passages in ((ALICE, 1), (ALICE | {"x-memory-org": "empty"}, 1), (BOB, 0)):
            async with connected(ports.user_url + PATH, headers) as client:
                found = await done(client, "search_knowledge", query="When is the plum tree cut?")
            assert len(found["passages"]) == passages
        (await http.delete(f"/v1/knowledge/{added.json()['id']}")).raise_for_status()


async def test_members_search_their_organisations_documents(ports: Ports) -> None:
    at = {"owner": "org:acme", "source": "/srv/handbook/leave.md"}
    async with httpx.AsyncClient(base_url=ports.operator_url, headers=OPERATOR, verify=False) as http:
        added = await http.post("/v1/knowledge", params=at, content="# Leave\n\nAnnounce leave ten days in advance.")
        assert added.status_code == httpx.codes.OK

        async def found(headers: dict[str, str]) -> list[dict[str, Any]]:
            async with connected(ports.user_url + PATH, headers) as client:
                answer = await done(client, "search_knowledge", query="How many days in advance is leave announced?")
                return list(answer["passages"])

        (passage,) = await found(ALICE | {"x-memory-org": "acme"})
        assert passage["source"] == "leave.md"
        assert "ten days" in passage["content"]
        assert "page" not in passage  # Markdown has no pages
        assert await found(ALICE | {"x-memory-org": "acme2"}) == await found(ALICE) == []
        await http.delete(f"/v1/knowledge/{added.json()['id']}", params={"owner": "org:acme"})
        assert await found(ALICE | {"x-memory-org": "acme"}) == []


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_there_are_no_sessions(http: httpx.Client, method: str) -> None:
    assert http.request(method, PATH).status_code == httpx.codes.UNAUTHORIZED
    answer = http.request(method, PATH, headers=ALICE)
    assert answer.status_code == httpx.codes.METHOD_NOT_ALLOWED
    assert answer.headers["allow"] == "POST"


# -- what no client sends ----------------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_ARGUMENTS = st.sampled_from(list(TOOLS)).flatmap(
    lambda name: st.fixed_dictionaries(
        {"name": st.just(name)},
        optional={
            "arguments": st.fixed_dictionaries({}, optional=dict.fromkeys(TOOLS[name].parameters, _JSON)) | _JSON
        },
    )
)
_META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | _JSON,
        "id": st.integers() | _JSON,
        "method": st.sampled_from(["tools/call", "tools/list", "initialize", "ping", "server/discover"]) | _JSON,
        "params": _ARGUMENTS | _ARGUMENTS.map(lambda params: {**params, "_meta": _META}) | _JSON,
    },
)
_CALLS = _ARGUMENTS.map(lambda params: {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
_MODERN = _ARGUMENTS.map(
    lambda params: {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": _META}}
)
_BODIES = st.binary(max_size=64) | (_MESSAGES | _CALLS | _MODERN | _JSON).map(lambda value: json.dumps(value).encode())


@settings(
    max_examples=3 * EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(body=_BODIES, version=st.sampled_from(["", "2025-06-18", "2026-07-28", "1"]))
def test_whatever_is_sent_is_answered_and_reaches_nobody_else(
    http: httpx.Client, of_bob: None, body: bytes, version: str
) -> None:
    name = json.loads(body).get("params", {}).get("name", "") if body.startswith(b'{"jsonrpc": "2.0", "id": 1') else ""
    headers = {"mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": name}
    sent = {"content-type": "application/json", **{key: value for key, value in headers.items() if value}}
    answer = http.post(PATH, content=body, headers=ALICE | sent)
    assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, (body, answer.text)
    assert answer.status_code == httpx.codes.ACCEPTED or answer.json()["jsonrpc"] == "2.0"
    assert "Zephyr" not in answer.text
    assert len(http.get("/v1/memory", headers=BOB).json()["data"]) == 1


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused(http: httpx.Client, *, chunked: bool) -> None:
    message = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "' + b"x" * (1 << 20) + b'"}}'
    answer = http.post(PATH, content=iter([message]) if chunked else message, headers=ALICE)
    assert answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE


# -- the bridge --------------------------------------------------------------------------------------------------------


def bridge(*options: str) -> StdioServerParameters:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEMROUTER_MEMORY")}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "semrouter_memory", "mcp", *options], env=environment
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_desktop_client_has_the_same_tools_over_stdin_and_stdout(ports: Ports, mode: Mode) -> None:
    async with Client(stdio_client(bridge("--url", ports.user_url, "--user", "alice")), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLS)
        facts = [f"User has {count} cousins in town {count}" for count in range(5)]
        await asyncio.gather(*(done(client, "remember", content=fact) for fact in facts))
        assert "id: is required" in await refused(client, "forget")
        listed = (await done(client, "list_memories"))["memories"]
    assert sorted(each["content"] for each in listed) == facts


@pytest.mark.parametrize(
    ("url", "expected"), [("http://127.0.0.1:1", "no answer from http://127.0.0.1:1"), ("", "not authenticated")]
)
def test_a_bridge_says_why_it_gets_no_answer(
    ports: Ports, capsys: pytest.CaptureFixture[str], url: str, expected: str
) -> None:
    """To the client, in the answer to its message, and on stderr; all that is on stdout is messages."""
    lines = [b'{"jsonrpc": "2.0", "id": "a", "method": "initialize"}\n', b"\n", b"no JSON\n", b'{"method": "notice"}\n']
    sink = BytesIO()
    with ApiClient(ApiEndpoint(url=url or ports.operator_url)) as client:
        Bridge(client, sink).run(lines)
    (answer,) = map(json.loads, sink.getvalue().splitlines())
    assert answer["id"] == "a"
    assert expected in answer["error"]["message"]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count(expected) == 3
