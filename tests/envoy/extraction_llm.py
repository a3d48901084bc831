"""A model with the role `memory_extraction`, as good or as bad as a test wants it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.stack.loopback import LOOPBACK, free_port

HANGING_SECONDS = 30
_TIMEOUT_SECONDS = 10
"""A busy machine is no model that hangs: what is asked twice is counted twice."""


class ExtractionLlm:
    """Its port is known before anybody listens there.

    Attributes:
        facts: what it answers while it works.
        says: what it answers instead, when this is set.
        status: of its answers.
        hangs: it takes the question and does not answer.
        asked: what it was asked, as text.
    """

    def __init__(self) -> None:
        self.url = f"http://{LOOPBACK}:{free_port()}/v1"
        self.facts: list[str] = []
        self.says: str | None = None
        self.status = 200
        self.hangs = False
        self.asked: list[str] = []
        self._closing = asyncio.Event()
        self._app = FastAPI(openapi_url=None)
        self._app.add_api_route("/v1/chat/completions", self._complete, methods=["POST"])

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        self._closing.clear()
        server = await serve_http(self._app, self.url.removeprefix("http://").removesuffix("/v1"))
        try:
            yield
        finally:
            self._closing.set()
            await server.stop()

    def works(self, *facts: str) -> None:
        self.facts, self.says, self.status, self.hangs = list(facts), None, 200, False

    async def _complete(self, request: Request) -> Response:
        self.asked.append((await request.body()).decode())
        if self.hangs:
            await asyncio.wait([asyncio.create_task(self._closing.wait())], timeout=HANGING_SECONDS)
        if self.status != 200:
            return Response(json.dumps({"error": {"message": self.asked[-1]}}), self.status)
        facts = json.dumps([{"type": "semantic", "content": fact} for fact in self.facts])
        message = {"role": "assistant", "content": facts if self.says is None else self.says}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "extractor", "choices": [choice]}
        return Response(json.dumps(answer), media_type="application/json")


def extracting(llm: ExtractionLlm, *, timeout_seconds: float = _TIMEOUT_SECONDS, **retain: Any) -> dict[str, Any]:
    """Settings of a sidecar that asks this model about every turn, and tries again soon."""
    model = {
        "model_role": "memory_extraction",
        "llm_endpoint": {"base_url": llm.url},
        "llm_model_name": "extractor",
        "llm_timeout_seconds": timeout_seconds,
    }
    soon = {
        "tick_seconds": 0.1,
        "retry_seconds": 0.2,
        "retry_max_seconds": 0.5,
        "breaker_seconds": 0.2,
        "breaker_max_seconds": 0.5,
    }
    return {
        "external_models": [model],
        "memory": {"extraction_batch_size": 1, "retain": {**soon, **retain}},
        "telemetry": {"log_level": "DEBUG"},
    }
