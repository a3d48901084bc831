"""The stand-in LLM, misbehaving as real servers do where the request header `x-stand-in` (a JSON object) says how."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Response
from starlette.responses import StreamingResponse

from semrouter_memory.codec.encoding import encoded
from semrouter_memory.stack.llm import ChatAnswer, ResponsesAnswer, Seen, StandInLlm, error, served


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How to answer one request.

    Attributes:
        status: other than 200: an error object with this status.
        delay_ms: before the answer, and between the pieces of a stream.
        split: bytes per piece of a stream, whatever the frames; 0 = a frame per piece.
        cut: end a stream after so many pieces, without its regular end; 0 = never.
        encoding: `gzip`, `br`, `zstd`, or "" for none; with another name the data is sent as it is.
        garbage: answer something that is no JSON.
        text: answer this.
        reasoning: put a <think> section before the answer.
        response_id: use this id, as servers that draw ids from a small range do.
    """

    status: int = 200
    delay_ms: float = 0
    split: int = 0
    cut: int = 0
    encoding: str = ""
    garbage: bool = False
    text: str = ""
    reasoning: str = ""
    response_id: str = ""


def _behaviour(seen: Seen) -> Behaviour:
    return Behaviour(**json.loads(seen.headers.get("x-stand-in", "{}")))


class MisbehavingLlm(StandInLlm):
    """The stand-in, which does what a request's header says.

    Attributes:
        failing: how many of the next requests are refused as by a server that is too busy.
        going_on: while it is not set, no answer is sent, and of a stream nothing behind its first piece.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failing = 0
        self.going_on = asyncio.Event()
        self.going_on.set()

    def says(self, seen: Seen, messages: list[Any]) -> str:
        how = _behaviour(seen)
        thought = f"<think>{how.reasoning}</think>" if how.reasoning else ""
        return thought + (how.text or super().says(seen, messages))

    def new_id(self, seen: Seen, prefix: str) -> str:
        return _behaviour(seen).response_id or super().new_id(seen, prefix)

    async def send(self, seen: Seen, answer: ChatAnswer | ResponsesAnswer | None) -> Response:
        how = _behaviour(seen)
        if self.failing:
            self.failing -= 1
            how = replace(how, status=503)
        await asyncio.sleep(how.delay_ms / 1000)
        if answer is None:
            echo = await super().send(seen, None)
            echo.status_code = how.status
            return echo
        if how.status != 200:
            return error(how.status, "the stand-in was asked to fail")
        if how.garbage:
            return Response(b"<html>not what you asked for", media_type="application/json")
        headers = {"content-encoding": how.encoding} if how.encoding else {}
        if not answer.is_streamed:
            await self.going_on.wait()
            return Response(encoded(answer.json(), how.encoding), media_type="application/json", headers=headers)
        pieces = self._paced(_pieces(answer.frames(), how), how)
        return StreamingResponse(pieces, media_type="text/event-stream", headers=headers)

    async def _paced(self, pieces: Iterator[bytes], how: Behaviour) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
            await self.going_on.wait()
            await asyncio.sleep(how.delay_ms / 1000)


def _pieces(frames: Iterator[bytes], how: Behaviour) -> Iterator[bytes]:
    if how.encoding or how.split:
        data = encoded(b"".join(frames), how.encoding)
        size = how.split or len(data)
        frames = (data[start : start + size] for start in range(0, len(data), size))
    return itertools.islice(frames, how.cut) if how.cut else frames


@asynccontextmanager
async def misbehaving_llm() -> AsyncIterator[tuple[MisbehavingLlm, str]]:
    """The stand-in in this process, and its base URL."""
    llm = MisbehavingLlm()
    async with served(llm) as url:
        yield llm, url
