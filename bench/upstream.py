"""A fast LLM server for measuring: canned answers, and streams whose tokens carry the time at which they were sent.

It tells what it saw: `GET /seen` answers with counts.
Run as a process of its own (`upstream.py PORT`), so that it shares no event loop with what
is measured.
"""

import asyncio
import json
import re
import sys
import time

import uvloop

from semrouter_memory.codec.base import BLOCK_OPEN

TOKENS = 40
TOKEN_PAUSE_SECONDS = 0.005

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ANSWER = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Fine."},"finish_reason":"stop"}]}'
)
_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_CANNED = _WHOLE % (len(_ANSWER), _ANSWER)
_MEMORY = BLOCK_OPEN.encode()
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_TOKEN = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%d "}}]}\n\n'


class _Upstream:
    """All connections' requests."""

    def __init__(self) -> None:
        self._requests = 0
        self._with_memory = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if head.startswith(b"GET"):
                    told = self._seen()
                    writer.write(_WHOLE % (len(told), told))
                else:
                    await self._answer(body, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        self._requests += 1
        self._with_memory += _MEMORY in body
        if b'"stream":true' in body:
            await _stream(writer)
        else:
            writer.write(_CANNED)

    def _seen(self) -> bytes:
        return json.dumps({"requests": self._requests, "with_memory": self._with_memory}).encode()


async def _stream(writer: asyncio.StreamWriter) -> None:
    writer.write(_STREAM)
    for _ in range(TOKENS):
        # The monotonic clock is the machine's: the reader, another process, subtracts it from its own.
        _write_chunk(writer, _TOKEN % time.monotonic_ns())
        await writer.drain()
        await asyncio.sleep(TOKEN_PAUSE_SECONDS)
    _write_chunk(writer, b"data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")


def _write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def _main(port: int) -> None:
    server = await asyncio.start_server(_Upstream().serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
