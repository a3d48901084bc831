"""The route of MCP clients: the same owner as for every route, and one message of JSON-RPC a request."""

import asyncio
from http import HTTPStatus
from importlib import import_module

from fastapi import Request
from starlette.responses import Response

from semrouter_memory.manage.access import PREFIX, Api, Owner, api_router
from semrouter_memory.manage.exception_handlers import refusal
from semrouter_memory.manage.tools import Caller

PATH = f"{PREFIX}/mcp"
# Not described: its messages are those of MCP, and `tools/list` describes them.
router = api_router(PATH, "mcp", in_schema=False)


@router.post("")
async def message(request: Request, owner: Owner, api: Api) -> Response:
    """Answer one message; none is stored, so any replica answers the next."""
    body = await request.body()
    # In a thread, and at first use: loading the SDK takes a second.
    server = await asyncio.to_thread(import_module, "semrouter_memory.manage.mcp_server")
    response: Response = server.McpResponse(Caller(owner, api, api.organisation_of(request, owner)), body)
    return response


@router.get("")
@router.delete("")
async def no_session() -> None:
    """There are no sessions to listen to or to end."""
    raise refusal(HTTPStatus.METHOD_NOT_ALLOWED, "send messages with POST", "method_not_allowed", {"allow": "POST"})
