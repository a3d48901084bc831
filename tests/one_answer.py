"""A server that has one answer for everything, or none."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def answering(
    body: str,
    status: str = "200 OK",
    *,
    protocol: str = "HTTP/1.1",
    hang: bool = False,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Its port.

    Args:
        protocol: how the answer begins.
        hang: it takes requests and does not answer.
    """
    connected: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connected[task] = writer
        await reader.read(1)
        if hang:
            await reader.read()
        head = f"{protocol} {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write((head + body).encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
    for writer in connected.values():
        writer.close()
    await asyncio.gather(*connected, return_exceptions=True)
