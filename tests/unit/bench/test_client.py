"""The load client measures whole answers, over as many connections as it is told, and trusts none that failed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from bench.client import BenchError, load, status_of, stream
from bench.workload import http_request, question_body

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
REQUEST = http_request("alice", question_body("Where?"))

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """The port of a server that is gone, with all its connections, in the end."""
    handlers: list[asyncio.Task[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(
        lambda reader, writer: handlers.append(asyncio.create_task(handle(reader, writer))), "127.0.0.1", 0
    )
    async with server:
        yield server.sockets[0].getsockname()[1]
        # The client has closed its side, so each of them ends.
        async with asyncio.timeout(10):
            await asyncio.gather(*handlers, return_exceptions=True)


def answering(*pieces: bytes) -> tuple[Serve, list[int]]:
    """A server that answers every request with these pieces, and how many connections it had."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while await reader.read(len(REQUEST)):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    return serve, connections


@pytest.mark.parametrize("answer", [WHOLE, CHUNKED])
def test_an_answer_is_whole_with_its_last_byte_and_not_before(answer: bytes) -> None:
    assert [status_of(answer[:end]) for end in range(len(answer))] == [0] * len(answer)
    assert status_of(answer) == 200


@pytest.mark.parametrize("connections", [1, 4])
async def test_every_request_is_sent_once_over_so_many_connections(connections: int) -> None:
    serve, opened = answering(WHOLE[:20], WHOLE[20:])
    async with serving(serve) as port:
        done = await load(port, [REQUEST] * 20, connections=connections)

    assert len(done.times) == 20
    assert len(opened) == connections
    assert done.seconds * 1000 >= max(done.times)


async def test_an_answer_that_is_no_success_is_an_error() -> None:
    serve, _ = answering(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
    async with serving(serve) as port:
        with pytest.raises(BenchError, match="503"):
            await load(port, [REQUEST] * 3, connections=2)


async def test_a_connection_that_is_cut_is_an_error() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with serving(cut) as port:
        with pytest.raises(BenchError, match="cut"):
            await load(port, [REQUEST])


async def test_a_streams_tokens_are_counted_up_to_its_end() -> None:
    tokens = [b'data: {"choices":[{"delta":{"content":"1 "}}]}\n\n'] * 3
    serve, _ = answering(b"HTTP/1.1 200 OK\r\n\r\n", *tokens, b"data: [DONE]\n\n")
    async with serving(serve) as port:
        answer = await stream(port, REQUEST)

    assert len(answer.between) == 2
    assert len(answer.on_the_way) == 3
    assert answer.first_token > 0


async def test_pauses_between_requests_are_in_none_of_their_times() -> None:
    serve, _ = answering(WHOLE)
    async with serving(serve) as port:
        done = await load(port, [REQUEST] * 4, pause_seconds=0.05)

    assert done.seconds >= 0.14
    assert sum(done.times) < done.seconds * 1000 - 140
