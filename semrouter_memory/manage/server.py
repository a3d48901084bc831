"""An ASGI application on a TCP port or a Unix socket, inside our own event loop and without signal handlers."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.sockets import clear_stale_socket

_UNIX = "unix:"
_SOCKET_MODE = 0o660
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
    path = Path(listen.removeprefix(_UNIX)) if listen.startswith(_UNIX) else None
    listening = _bind_unix(path) if path else _bind_tcp(listen)
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


def _bind_tcp(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigurationError(f"{listen!r} is not an address to listen at: host:port or unix:path")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By name: asyncio sends without delay only on sockets that say so.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, int(port)))
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigurationError(f"cannot listen at {listen}: {_why(error)}") from None
    return listening


def _bind_unix(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_stale_socket(path)
        listening.bind(str(path))
        # Nobody can connect before listen(), so the socket is never open to more than it should be.
        path.chmod(_SOCKET_MODE)
    except (OSError, ConfigurationError) as error:
        listening.close()
        raise ConfigurationError(f"cannot listen at {_UNIX}{path}: {_why(error)}") from None
    return listening


def _why(error: Exception) -> str:
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
