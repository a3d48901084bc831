"""A chat model's server on loopback that behaves as it is told, and the client's settings for it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from semrouter_memory.config import ExternalModel, LlmEndpoint


class StandInServer:
    """Answers `/v1/chat/completions` as it is told."""

    def __init__(self) -> None:
        self.answer: Any = {}
        self.status = 200
        self.hang = False
        self.trickle = False
        """It sends a blank every 50 ms, as servers do that keep a connection alive, and no answer."""
        self.retry_after = ""
        self.unbearable = ""
        """A prompt with this in it is answered with the status `unbearable_status` and `unbearable_answer`."""
        self.unbearable_status = 500
        self.unbearable_answer: Any = {}
        self.unsupported: tuple[str, ...] = ()
        """Parameters that the model refuses."""
        self.before: Callable[[], object] | None = None
        """Called, in the server's thread, before a request is answered."""
        self.requests: list[tuple[dict[str, Any], str]] = []
        routes = [Route("/v1/chat/completions", self.complete, methods=["POST"])]
        self._server = uvicorn.Server(
            uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=0, log_level="critical", lifespan="off")
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    async def complete(self, request: Request) -> Response:
        self.requests.append((await request.json(), request.headers["authorization"]))
        if self.before:
            self.before()
        if self.hang:
            await asyncio.sleep(30)
        if self.trickle:
            return StreamingResponse(_blanks(), media_type="application/json")
        if self.unbearable and self.unbearable in self.requests[-1][0]["messages"][-1]["content"]:
            if isinstance(self.unbearable_answer, str):
                return PlainTextResponse(self.unbearable_answer, self.unbearable_status, media_type="text/html")
            return JSONResponse(self.unbearable_answer, self.unbearable_status)
        for name in self.unsupported:
            if name in self.requests[-1][0]:
                error = {"message": "secret words", "param": name, "code": "unsupported_parameter"}
                return JSONResponse({"error": error}, 400)
        if isinstance(self.answer, str):
            return PlainTextResponse(self.answer, self.status, media_type="application/json")
        return JSONResponse(self.answer, self.status, {"retry-after": self.retry_after} if self.retry_after else None)

    def content(self, text: Any) -> None:
        message = {"role": "assistant", "content": text}
        self.answer = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        }

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join()

    @property
    def port(self) -> int:
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port


async def _blanks() -> AsyncIterator[bytes]:
    for _ in range(100):
        yield b"\n"
        await asyncio.sleep(0.05)


@pytest.fixture
def chat_server() -> Iterator[StandInServer]:
    with StandInServer() as running:
        yield running


def section(port: int, timeout_seconds: float = 5) -> ExternalModel:
    return ExternalModel(
        model_role="memory_extraction",
        llm_endpoint=LlmEndpoint(address="127.0.0.1", port=port),
        llm_model_name="small",
        llm_timeout_seconds=timeout_seconds,
        max_tokens=77,
        temperature=0.3,
    )
