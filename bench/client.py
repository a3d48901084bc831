"""The load: requests over so many connections, each sending the next one when the one before is answered.

Strategy: everything is made before the clock starts, and what runs while it does is a few lines for each answer, because
client, Envoy and service share the machine's cores.
"""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from semrouter_memory.errors import MemoryServiceError
from semrouter_memory.stack.loopback import LOOPBACK

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STAMP = re.compile(rb'"content":"(\d+) "')
_CHUNKED = b"transfer-encoding: chunked"
_PATIENCE_SECONDS = 120
_OK = 200


class BenchError(MemoryServiceError):
    """Something of the benchmark failed: its figures would mean nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """What became of it: milliseconds of each request in the order of the answers, seconds of all."""

    times: list[float]
    seconds: float


@dataclass(frozen=True, slots=True)
class Streamed:
    """One streamed answer, in milliseconds; see `StreamFigures`."""

    first_token: float
    between: list[float]
    on_the_way: list[float]


async def load(port: int, requests: Sequence[bytes], *, connections: int = 1, pause_seconds: float = 0.0) -> Load:
    """Send all requests, each connection with so long a pause between two.

    Raises:
        BenchError: one was not answered with 200.
    """
    loop = asyncio.get_running_loop()
    waiting, times = iter(requests), list[float]()
    opened = [
        await loop.create_connection(lambda: _Connection(waiting, times, pause_seconds), LOOPBACK, port)
        for _ in range(connections)
    ]
    try:
        started = time.perf_counter()
        for _, connection in opened:
            connection.send_next()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.gather(*(connection.done for _, connection in opened))
        return Load(times, time.perf_counter() - started)
    except TimeoutError:
        raise BenchError(f"requests were not answered within {_PATIENCE_SECONDS} s") from None
    finally:
        for transport, connection in opened:
            connection.done.cancel()
            transport.close()


class _Connection(asyncio.Protocol):
    """Takes requests from all connections' common supply until there are none."""

    def __init__(self, waiting: Iterator[bytes], times: list[float], pause_seconds: float) -> None:
        self._waiting = waiting
        self._pause_seconds = pause_seconds
        self._times = times
        self._answer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def send_next(self) -> None:
        request = next(self._waiting, None)
        if request is None:
            self.done.set_result(None)
            return
        assert self._transport is not None
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        status = status_of(self._answer)
        if not status:
            return
        self._times.append((time.perf_counter() - self._sent_at) * 1000)
        self._answer.clear()
        if status != _OK:
            self._failed(f"a request was answered with {status}")
        elif self._pause_seconds:
            asyncio.get_running_loop().call_later(self._pause_seconds, self.send_next)
        else:
            self.send_next()

    def connection_lost(self, _: Exception | None) -> None:
        self._failed("a connection was cut")

    def _failed(self, what: str) -> None:
        if not self.done.done():
            self.done.set_exception(BenchError(what))


def status_of(answer: bytes | bytearray) -> int:
    """The status of an HTTP answer; 0 while there is more to come of it."""
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return 0
    if _CHUNKED in head.lower():
        whole = body.endswith(b"0\r\n\r\n")
    else:
        length = _LENGTH.search(head)
        whole = len(body) >= (int(length[1]) if length else 0)
    return int(head[9:12]) if whole else 0


async def stream(port: int, request: bytes) -> Streamed:
    """Read one streamed answer, token by token.

    Raises:
        BenchError: it is not answered with 200, or has fewer than two tokens.
    """
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            sent_at = time.perf_counter()
            writer.write(request)
            first = await reader.readline()
            if b" 200 " not in first:
                raise BenchError("a stream was not answered with 200")
            read_at, delays = await _tokens(reader)
    finally:
        writer.close()
    if len(read_at) < 2:  # noqa: PLR2004 - nothing is between fewer
        raise BenchError("a stream had no tokens")
    between = [(later - earlier) * 1000 for earlier, later in pairwise(read_at)]
    return Streamed((read_at[0] - sent_at) * 1000, between, delays)


async def _tokens(reader: asyncio.StreamReader) -> tuple[list[float], list[float]]:
    """When each token was read, and how long it was on its way."""
    read_at, delays = list[float](), list[float]()
    while line := await reader.readline():
        if stamp := _STAMP.search(line):
            # The upstream is another process of this machine, whose monotonic clock is the same.
            delays.append((time.monotonic_ns() - int(stamp[1])) / 1e6)
            read_at.append(time.perf_counter())
        elif b"[DONE]" in line:
            break
    return read_at, delays
