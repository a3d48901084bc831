"""Loads what the model client's library loads with its first call, so that no request waits for it.

Strategy. One call over a real socket, to a server in this process that knows one answer: the same code as any later call.
No configured server is asked, so one that is absent delays no start.
"""

import asyncio

from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from semrouter_memory.llm.authorities import tls_context

_PATIENCE_SECONDS = 5.0
_BODY = (
    b'{"id":"warm","object":"chat.completion","created":0,"model":"warm","choices":'
    b'[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"warm"}}]}'
)
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)


async def warm() -> bool:
    """Make one call; returns whether it was answered. Never raises (but for cancellation): the first call is slow then."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            server = await asyncio.start_server(_answer, "127.0.0.1", 0)
            async with server:
                port = server.sockets[0].getsockname()[1]
                await _ask(f"http://127.0.0.1:{port}/v1")
    except Exception:  # noqa: BLE001 - whatever is not to be had here, the models' own calls decide
        return False
    return True


async def _ask(base_url: str) -> None:
    # Without the environment: a proxy has nothing to do with this.
    client = AsyncOpenAI(
        api_key="none",
        base_url=base_url,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(trust_env=False, verify=tls_context()),
    )
    async with client:
        await client.chat.completions.create(model="warm", messages=[{"role": "user", "content": "warm"}])


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(_ANSWER)
    writer.close()
