"""Tools over MCP through the real Envoy: its authentication is the identity of every call, over HTTP and over the bridge."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from .client import CHAT, told
from .conftest import ALICE, BOB, Installation

pytestmark = pytest.mark.asyncio(loop_scope="session")

BUDGET = "User's budget for the Hawaii trip is $10,000"


@asynccontextmanager
async def mcp_client(on: Installation, key: str = ALICE, **headers: str) -> AsyncIterator[Client]:
    identity = {"authorization": f"Bearer {key}", **headers}
    async with (
        httpx2.AsyncClient(headers=identity, trust_env=False, verify=False, timeout=30) as http,
        Client(streamable_http_client(f"{on.url}/v1/memory/mcp", http_client=http)) as client,
    ):
        yield client


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    (part,) = result.content
    assert isinstance(part, TextContent)
    assert not result.is_error, part.text
    return dict(json.loads(part.text))


async def contents(client: Client) -> list[str]:
    return [memory["content"] for memory in (await called(client, "list_memories"))["memories"]]


async def test_what_a_tool_remembers_is_recalled_in_traffic_and_forgotten_there(two_filter: Installation) -> None:
    async with mcp_client(two_filter) as client:
        stored = (await called(client, "remember", content=BUDGET))["stored"]
        assert "$10,000" in await told(two_filter, CHAT, "What's my budget for the trip?")
        (found,) = (await called(client, "recall", query="What's my budget for the trip?", threshold=0.6))["memories"]
        assert found["id"] == stored["id"]
        await called(client, "forget", id=stored["id"])
        assert "$10,000" not in await told(two_filter, CHAT, "What's my budget for the trip?")


@pytest.mark.parametrize("forged", [{}, {"x-authz-user-id": "alice"}, {"X-Authz-User-Id": "alice"}])
async def test_a_client_is_who_its_key_says(two_filter: Installation, forged: dict[str, str]) -> None:
    async with mcp_client(two_filter) as alice, mcp_client(two_filter, BOB, **forged) as bob:
        stored = (await called(alice, "remember", content=BUDGET))["stored"]
        assert await contents(bob) == []
        refused = await bob.call_tool("forget", {"id": stored["id"]})
        assert isinstance(refused, CallToolResult)
        assert refused.is_error
        assert await contents(alice) == [BUDGET]


async def test_without_a_key_no_message_is_answered(two_filter: Installation) -> None:
    async with two_filter.http("wrong") as http:
        answer = await http.post("/v1/memory/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code == 401


async def test_the_bridge_takes_the_key(two_filter: Installation) -> None:
    options = ["-m", "semrouter_memory", "mcp", "--url", two_filter.url, "--api-key", ALICE]
    server = StdioServerParameters(command=sys.executable, args=options, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        await called(client, "remember", content=BUDGET)
        assert await contents(client) == [BUDGET]
