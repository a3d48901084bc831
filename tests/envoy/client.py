"""A client that looks at bytes and at when they come; an SDK hides both."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from semrouter_memory.stack.loopback import local_client

from .conftest import ALICE, Installation, eventually

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
APIS = (CHAT, RESPONSES)


@dataclass(frozen=True, slots=True)
class Piece:
    """What arrived at once.

    Attributes:
        at: seconds since the request was sent.
    """

    at: float
    data: bytes


def asking(path: str, text: str, **fields: Any) -> bytes:
    """A request's body, spaced as no serialiser does it, so that one that was written anew is noticed."""
    asked: Any = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"input": text}
    return json.dumps({"model": "m", **asked, **fields}, separators=(" , ", " :")).encode()


def behaving(how: dict[str, Any]) -> dict[str, str]:
    """The headers that make the stand-in LLM behave like that; its answers then differ in nothing else."""
    return {"content-type": "application/json", "x-stand-in": json.dumps({"response_id": "same", **how})}


async def ask(on: Installation, path: str, text: str, /, *, key: str = ALICE, **how: Any) -> httpx.Response:
    """One request, not streamed; the answer must be a success and the body that the LLM got the one sent here."""
    body = asking(path, text)
    async with on.http(key, headers=behaving(how)) as http:
        answer = (await http.post(path, content=body)).raise_for_status()
    assert on.llm.last.body == body
    return answer


async def told(on: Installation, path: str, text: str, *, key: str = ALICE) -> str:
    """What the client gets to read, whatever was put into the request."""
    async with on.http(key, headers=behaving({})) as http:
        answer = (await http.post(path, content=asking(path, text))).raise_for_status().json()
    if path == CHAT:
        return str(answer["choices"][0]["message"]["content"])
    return str(answer["output"][0]["content"][0]["text"])


@asynccontextmanager
async def streaming(
    on: Installation, path: str, text: str, /, *, key: str = ALICE, **how: Any
) -> AsyncIterator[AsyncIterator[Piece]]:
    """An answer in pieces, as they come from the socket."""
    async with (
        on.http(key, headers=behaving(how)) as http,
        http.stream("POST", path, content=asking(path, text, stream=True)) as answer,
    ):
        assert answer.status_code == httpx.codes.OK
        began = time.monotonic()
        yield (Piece(time.monotonic() - began, data) async for data in answer.aiter_raw())


async def streamed(on: Installation, path: str, text: str, /, *, key: str = ALICE, **how: Any) -> list[Piece]:
    """All pieces of an answer, and the body that the LLM got must be the one sent here."""
    async with streaming(on, path, text, key=key, **how) as pieces:
        whole = [piece async for piece in pieces]
    assert asking(path, text, stream=True) in [request.body for request in on.llm.requests]
    return whole


async def streamed_without_envoy(on: Installation, path: str, text: str, /, **how: Any) -> list[bytes]:
    """The pieces that the LLM sends for the same request when nothing stands between."""
    url = on.stack._options.llm.removesuffix("/v1") + path
    async with (
        local_client(headers=behaving(how), timeout=30) as http,
        http.stream("POST", url, content=asking(path, text, stream=True)) as answer,
    ):
        return [data async for data in answer.aiter_raw()]


async def sent_by_llm(on: Installation, path: str, text: str, /, **how: Any) -> bytes:
    """The same as a whole. The pauses between the pieces are left out: they change no byte."""
    return b"".join(await streamed_without_envoy(on, path, text, **how | {"delay_ms": 0}))


async def under_way(on: Installation, count: int) -> None:
    """Wait until the LLM has so many requests, and the sidecar its copies of them."""

    async def arrived() -> bool:
        return len(on.llm.requests) >= count

    await eventually(arrived, f"fewer than {count} requests came to the LLM")
    await asyncio.sleep(0.1)


@asynccontextmanager
async def answers_held_back(on: Installation) -> AsyncIterator[None]:
    """The LLM takes requests and answers none, and sends no second piece of a stream."""
    on.llm.going_on.clear()
    try:
        yield
    finally:
        on.llm.going_on.set()


def gaps(pieces: list[Piece]) -> list[float]:
    """Seconds from each piece to the next."""
    return [later.at - earlier.at for earlier, later in itertools.pairwise(pieces)]
