"""`semrouter-memory mcp`: an MCP server on stdin and stdout, for clients that start one, in front of the sidecar's over HTTP.

Strategy: each line is a message and is sent as it is; the sidecar answers it, whatever version of the protocol the client
speaks. Only what HTTP wants to have in headers is read from it.
"""

import json
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, BinaryIO

import typer

from semrouter_memory.cli.connection import ApiClient, user_command
from semrouter_memory.errors import MemoryServiceError

app = typer.Typer()
_AT_ONCE = 8
"""Messages on their way to the sidecar; further ones wait."""
_META_VERSION = "io.modelcontextprotocol/protocolVersion"
_FAILED = -32000
"""The first code that JSON-RPC leaves to servers."""


@user_command(app, "mcp")
def _mcp(client: ApiClient) -> None:
    """Give a desktop client the memory's tools: MCP over stdin and stdout, answered by a running sidecar.

    The client starts this command; `docs/mcp.md` has its configuration. Errors are written to stderr.
    """
    Bridge(client, sys.stdout.buffer).run(sys.stdin.buffer)


class Bridge:
    """Sends lines to the sidecar and writes its answers."""

    def __init__(self, client: ApiClient, sink: BinaryIO) -> None:
        self._client, self._sink = client, sink
        self._writing = Lock()
        self._version = ""

    def run(self, lines: Iterable[bytes]) -> None:
        """Until the client closes its end; what is on its way is answered."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for line in lines:
                if line.strip():
                    pool.submit(self._forward, line)

    def _forward(self, line: bytes) -> None:
        message = _object(line)
        try:
            answer = self._client.send_mcp(line, self._headers(message))
        except MemoryServiceError as error:
            typer.secho(f"semrouter-memory: {error}", fg="red", err=True)
            answer = _error(message, str(error))
        if message.get("method") == "initialize":
            self._version = str(_object(_object(answer).get("result")).get("protocolVersion", ""))
        # Outside of strings, where JSON has none, a line break means nothing.
        line = answer.replace(b"\r", b" ").replace(b"\n", b" ").strip()
        if line:
            with self._writing:
                self._sink.write(line + b"\n")
                self._sink.flush()

    def _headers(self, message: dict[str, Any]) -> dict[str, str]:
        """What the streamable HTTP transport has in headers."""
        parameters = _object(message.get("params"))
        stated = _object(parameters.get("_meta")).get(_META_VERSION)
        headers = {"mcp-protocol-version": stated or self._version}
        if stated:
            headers |= {"mcp-method": message.get("method"), "mcp-name": parameters.get("name")}
        return {name: value for name, value in headers.items() if value and _fits_header(value)}


def _fits_header(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable()


def _object(value: Any) -> dict[str, Any]:
    """A JSON object, or the one that bytes hold; an empty one in place of anything else."""
    if isinstance(value, bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _error(message: dict[str, Any], text: str) -> bytes:
    """The answer to a message that did not arrive; nothing to a notification."""
    if "id" not in message:
        return b""
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": _FAILED, "message": text}}).encode()
