"""One address for several processes: accepts connections and passes the bytes of each to one of them.

gRPC in Python can neither listen on a socket that it is given nor take over a connection, and with SO_REUSEPORT the kernel
draws the process, so that the few connections of an Envoy may all be with one. Here a connection goes to the process that has
the fewest. A process that does not accept is passed over, so that one that is being restarted costs no connection.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from semrouter_memory.sockets import listening_socket
from semrouter_memory.workers import BackgroundTasks

_BACKLOG = 512
_ACCEPT_AGAIN_SECONDS = 0.1
"""After a failed accept: the process has no file descriptor left, for example."""


class Relay:
    """Listens at one address in front of the Unix sockets of some processes.

    Args:
        listen: host:port or unix:path; bound at once, so that no other process takes it.
        targets: the processes' sockets.

    Raises:
        ConfigurationError: the address cannot be bound.
    """

    def __init__(self, listen: str, targets: Sequence[Path]) -> None:
        self._socket, self._path = listening_socket(listen)
        self._connections = dict.fromkeys(targets, 0)
        self._tasks = BackgroundTasks()

    @property
    def port(self) -> int | None:
        """The bound port; None on a Unix socket."""
        return None if self._path else self._socket.getsockname()[1]

    def start(self) -> None:
        """Accept connections."""
        self._socket.setblocking(False)  # noqa: FBT003 - as the standard library has it
        self._socket.listen(_BACKLOG)
        self._tasks.start(self._accept(), name="relay")

    async def stop(self) -> None:
        """Accept no more; connections that are open stay until an end of them closes."""
        await self._tasks.stop()
        self._socket.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    async def _accept(self) -> None:
        while True:
            try:
                accepted, _ = await asyncio.get_running_loop().sock_accept(self._socket)
            except OSError:
                await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
            else:
                self._tasks.start(self._pass_on(accepted), name="relayed connection")

    async def _pass_on(self, accepted: socket.socket) -> None:
        """Join it to the process that has the fewest connections, of those that accept one."""
        loop = asyncio.get_running_loop()
        for target in sorted(self._connections, key=self._connections.__getitem__):
            # Counted before it is made, or connections that arrive together would all go to one process.
            self._connections[target] += 1
            inner, outer = _End(partial(self._lost, target)), _End()
            try:
                await loop.create_unix_connection(partial(_same, inner), str(target))
            except OSError:
                self._lost(target)
                continue
            try:
                await loop.connect_accepted_socket(partial(_same, outer), accepted)
            except OSError:  # the client has left
                inner.transport.close()
                break
            inner.join(outer)
            outer.join(inner)
            return
        accepted.close()

    def _lost(self, target: Path) -> None:
        self._connections[target] -= 1


class _End(asyncio.Protocol):
    """One end of a relayed connection: writes what it receives to the other end, no faster than that takes it."""

    transport: asyncio.Transport

    def __init__(self, on_lost: Callable[[], object] = bool) -> None:
        self._on_lost = on_lost
        self._other: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def join(self, other: "_End") -> None:
        """From now on, bytes go there; those first that were received before."""
        self._other = other.transport
        self._write(b"".join(self._early))
        if self.transport.is_closing():
            self._other.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own class

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early.append(data)
        else:
            self._write(data)

    def pause_writing(self) -> None:
        """This end's client is slower than the other's."""
        if self._other is not None:
            self._other.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        self._on_lost()
        if self._other is not None:
            self._other.close()

    def _write(self, data: bytes) -> None:
        if self._other is not None and not self._other.is_closing():
            self._other.write(data)


def _same(end: _End) -> _End:
    return end
