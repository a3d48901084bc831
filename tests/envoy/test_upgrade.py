"""What is no plain HTTP passes through the same listener: WebSocket, and the upgrades that some clients offer."""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from semrouter_memory.stack.loopback import LOOPBACK

from .client import CHAT, asking
from .conftest import ALICE, Installation, installed

pytestmark = pytest.mark.asyncio(loop_scope="session")

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""
KEY = base64.b64encode(b"sixteen bytes..!").decode()
ACCEPT = base64.b64encode(hashlib.sha1((KEY + _GUID).encode()).digest()).decode()
FRAME = b"\x81\x05Hello"
"""An unmasked text frame; nothing on the way looks inside."""
CHAINS = ["two-filter.yaml", "single-filter.yaml"]


async def echo_after_upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Shakes hands as a WebSocket server does and sends everything back; answers other requests with 200."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        if b"upgrade: websocket" not in head.lower():
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nplain")
        else:
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
                b"sec-websocket-accept: " + ACCEPT.encode() + b"\r\n\r\n"
            )
            while data := await reader.read(4096):
                writer.write(data)
                await writer.drain()
    writer.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=CHAINS)
async def on(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model_directory: Path
) -> AsyncIterator[Installation]:
    upstream = await asyncio.start_server(echo_after_upgrade, LOOPBACK, 0)
    url = f"http://{LOOPBACK}:{upstream.sockets[0].getsockname()[1]}/v1"
    async with (
        upstream,
        installed(tmp_path_factory.mktemp("upgrade"), model_directory, llm=url, chain=request.param) as installation,
    ):
        yield installation


@asynccontextmanager
async def connected(on: Installation) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(LOOPBACK, on.stack.port)
    try:
        async with asyncio.timeout(60):
            yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


def request_head(method: str, path: str, **fields: str) -> bytes:
    headers = {"host": "llm", "authorization": f"Bearer {ALICE}", **fields}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/realtime?model=m", "/socket"])
async def test_a_websocket_passes(on: Installation, path: str) -> None:
    """Also to the paths that memory is for: there it is a GET, and no exchange that memory knows."""
    head = request_head(
        "GET",
        path,
        connection="Upgrade",
        upgrade="websocket",
        sec_websocket_version="13",
        sec_websocket_key=KEY,
    )
    async with connected(on) as (reader, writer):
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101")
        assert ACCEPT.encode() in answer
        for _ in range(3):
            writer.write(FRAME)
            assert await reader.readexactly(len(FRAME)) == FRAME


async def test_a_websocket_without_a_key_does_not(on: Installation) -> None:
    head = request_head("GET", "/v1/responses", connection="Upgrade", upgrade="websocket", authorization="Bearer no")
    async with connected(on) as (reader, writer):
        writer.write(head)
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")


async def test_an_upgrade_by_post_does_not_hang(on: Installation) -> None:
    """No client does it; but a body of unknown end must not be waited for."""
    head = request_head("POST", "/v1/responses", connection="Upgrade", upgrade="websocket", sec_websocket_key=KEY)
    async with connected(on) as (reader, writer):
        writer.write(head)
        assert (await reader.readline()).startswith(b"HTTP/1.1 101")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(FRAME)
        assert await reader.readexactly(len(FRAME)) == FRAME


async def test_the_offer_of_http2_is_no_upgrade(on: Installation) -> None:
    """Java's HTTP client makes it with every request; Envoy passes it over and the request is an ordinary one."""
    body = asking(CHAT, "Hello?")
    head = request_head(
        "POST",
        CHAT,
        connection="Upgrade, HTTP2-Settings",
        upgrade="h2c",
        HTTP2_Settings="AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
        content_type="application/json",
        content_length=str(len(body)),
    )
    async with connected(on) as (reader, writer):
        writer.write(head + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
