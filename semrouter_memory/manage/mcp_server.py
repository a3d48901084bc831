"""The MCP server of one request, by the official SDK, which takes a second to load: `routes` imports this when it is needed.

Strategy: every request is answered by a server of its own, which knows the caller and forgets it with the answer. So any
replica answers any request, and nothing is shared between users.
"""

from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from semrouter_memory import __version__
from semrouter_memory.errors import name_of
from semrouter_memory.manage.access import OwnerAccess
from semrouter_memory.manage.tools import INSTRUCTIONS, TOOLS, is_expected
from semrouter_memory.model import Json

_log = structlog.get_logger("semrouter_memory.manage")
_PAUSED = "The user has paused remembering. Go on without it; forget works."


class McpResponse(Response):
    """The answer to a message of the streamable HTTP transport, as JSON."""

    def __init__(self, api: OwnerAccess, body: bytes) -> None:
        super().__init__()
        self._api, self._message = api, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the SDK's application on the body, which was read before, within its limit."""
        read = False

        async def again() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": self._message, "more_body": False}

        sessions = StreamableHTTPSessionManager(
            _server(self._api),
            json_response=True,
            stateless=True,
            max_request_body_size=len(self._message) + 1,
        )
        async with sessions.run():
            await sessions.handle_request(scope, again, send)


def _server(api: OwnerAccess) -> Server[Any]:
    async def list_tools(_context: object, _page: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(_DESCRIBED))

    async def call_tool(_context: object, asked: types.CallToolRequestParams) -> types.CallToolResult:
        return await _called(api, asked.name, asked.arguments or {})

    server: Server[Any] = Server(
        "semrouter-memory",
        version=__version__,
        title="Memory",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # Its spans would carry names that a client made up; requests are traced by Envoy.
    server.middleware.clear()
    return server


_DESCRIBED = [
    types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema(),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads,
            destructive_hint=tool.deletes,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )
    for name, tool in TOOLS.items()
]


async def _called(api: OwnerAccess, name: str, arguments: Mapping[str, Json]) -> types.CallToolResult:
    tool = TOOLS.get(name)
    if tool is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no such tool; there are {', '.join(TOOLS)}")
    try:
        # Models do without it then, as requests do.
        if not tool.deletes and await api.service.paused_since(api.owner) is not None:
            return types.CallToolResult(content=[_text(_PAUSED)], is_error=True)
        answer = await tool.run(api, arguments)
    except Exception as error:  # noqa: BLE001 - a model is told in words, whatever failed
        if not is_expected(error):
            _log.error("Tool call failed", error=name_of(error), tool=name)
        return types.CallToolResult(content=[_text(tool.advice(error))], is_error=True)
    return types.CallToolResult(content=[_text(orjson.dumps(answer).decode())], structured_content=answer)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
