"""An ASGI application on a TCP port or a Unix socket, inside our own event loop and without signal handlers."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from semrouter_memory.sockets import listening_socket

_BACKLOG = 512


class HttpServer:
    """A running server.

    Attributes:
        port: the bound port; None on a Unix socket.
    """

    def __init__(self, server: uvicorn.Server, listening: socket.socket, path: Path | None) -> None:
        self._server = server
        self._path = path
        self.port: int | None = None if path else listening.getsockname()[1]
        self._serving = asyncio.create_task(server.serve([listening]), name="management-http")

    async def stop(self) -> None:
        """Answer what is running, for a bounded time, and close. Safe to call twice."""
        self._server.should_exit = True
        await asyncio.wait([self._serving])
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class _EmbeddedServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's business, not this server's."""
        yield


async def serve_http(app: ASGIApp, listen: str, *, drain_seconds: int = 5) -> HttpServer:
    """Serve at host:port (port 0: any free one) or unix:path.

    Returns:
        The server, accepting connections.

    Raises:
        ConfigurationError: the address cannot be listened on; the message says why.
    """
    listening, path = listening_socket(listen)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=drain_seconds,
    )
    listening.listen(_BACKLOG)
    return HttpServer(_EmbeddedServer(config), listening, path)
