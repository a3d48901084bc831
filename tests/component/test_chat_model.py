"""The chat model client against a real HTTP server that behaves well and badly."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from semrouter_memory.config import ExternalModel, LlmEndpoint
from semrouter_memory.errors import ChatModelError
from semrouter_memory.llm.client import OpenAIChatModel
from semrouter_memory.model import ChatMessage

MESSAGES = [ChatMessage("system", "Be brief."), ChatMessage("user", "secret words")]


class StandInServer:
    """Answers `/v1/chat/completions` as it is told."""

    def __init__(self) -> None:
        self.answer: Any = {}
        self.status = 200
        self.hang = False
        self.requests: list[tuple[dict[str, Any], str]] = []
        routes = [Route("/v1/chat/completions", self.complete, methods=["POST"])]
        self._server = uvicorn.Server(
            uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=0, log_level="critical", lifespan="off")
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    async def complete(self, request: Request) -> Response:
        self.requests.append((await request.json(), request.headers["authorization"]))
        if self.hang:
            await asyncio.sleep(30)
        if isinstance(self.answer, str):
            return PlainTextResponse(self.answer, self.status, media_type="application/json")
        return JSONResponse(self.answer, self.status)

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


@pytest.fixture
def server() -> Iterator[StandInServer]:
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


async def test_the_answer_comes_back_as_it_is(server: StandInServer) -> None:
    server.content("<think>hm</think>[]")
    model = OpenAIChatModel(section(server.port), "k-1")
    assert await model.complete(MESSAGES) == "<think>hm</think>[]"
    ((body, authorization),) = server.requests
    assert body == {
        "model": "small",
        "max_tokens": 77,
        "temperature": 0.3,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "secret words"}],
    }
    assert (authorization, model.name) == ("Bearer k-1", "small")
    await model.aclose()


async def test_a_server_without_keys_needs_none(server: StandInServer) -> None:
    server.content("ok")
    model = OpenAIChatModel(section(server.port))
    assert await model.complete(MESSAGES) == "ok"
    await model.aclose()


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (500, {"error": {"message": "secret words"}}),
        (401, {"error": {"message": "no"}}),
        (200, "<html>garbage"),
        (200, "[]"),
        (200, '"text"'),
        (200, {}),
        (200, {"choices": []}),
        (200, {"choices": [{"message": {"role": "assistant", "content": None}}]}),
        (200, {"choices": [{"message": {"role": "assistant", "content": "  "}}]}),
        (200, {"choices": [{"message": None}]}),
    ],
)
async def test_every_failure_is_one_error_without_content(server: StandInServer, status: int, answer: Any) -> None:
    server.status, server.answer = status, answer
    model = OpenAIChatModel(section(server.port))
    with pytest.raises(ChatModelError) as raised:
        await model.complete(MESSAGES)
    assert "secret words" not in str(raised.value)
    assert raised.value.__cause__ is None
    await model.aclose()


async def test_a_server_that_hangs_is_given_up_after_the_timeout(server: StandInServer) -> None:
    server.hang = True
    model = OpenAIChatModel(section(server.port, timeout_seconds=0.2))
    async with asyncio.timeout(5):
        with pytest.raises(ChatModelError):
            await model.complete(MESSAGES)
    await model.aclose()


async def test_no_server_is_the_same_error() -> None:
    model = OpenAIChatModel(section(9))
    with pytest.raises(ChatModelError):
        await model.complete(MESSAGES)
    await model.aclose()


async def test_cancelling_stays_cancelling(server: StandInServer) -> None:
    server.hang = True
    model = OpenAIChatModel(section(server.port))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await model.complete(MESSAGES)
    await model.aclose()
