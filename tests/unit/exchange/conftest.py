"""Events as Envoy sends them, in short form."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from semrouter_memory.config import MemoryConfig
from semrouter_memory.exchange.events import (
    BodyMode,
    Headers,
    Protocol,
    RequestBody,
    RequestHeaders,
    ResponseBody,
    ResponseHeaders,
)
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import RouteSettings
from semrouter_memory.exchange.turns import ExchangeSettings

RECALL = Protocol(request_body=BodyMode.BUFFERED, response_body=BodyMode.NONE)
RETAIN = Protocol(observing=True, request_body=BodyMode.STREAMED, response_body=BodyMode.STREAMED)
SINGLE = Protocol(request_body=BodyMode.BUFFERED, response_body=BodyMode.STREAMED)
OLD_ENVOY = Protocol()
DUPLEX = Protocol(request_body=BodyMode.FULL_DUPLEX_STREAMED, response_body=BodyMode.FULL_DUPLEX_STREAMED)

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)

MakeExchange = Callable[..., Exchange]


@pytest.fixture
def make_exchange() -> MakeExchange:
    def make(memory: dict[str, Any] | None = None, route: RouteSettings | None = None, **limits: int) -> Exchange:
        bounds = {"max_body_bytes": 1 << 20, "max_answer_bytes": 1 << 20, **limits}
        settings = ExchangeSettings(memory=MemoryConfig.model_validate(memory or {}), **bounds)
        return Exchange(settings, route or RouteSettings(), NOW)

    return make


def request_headers(protocol: Protocol, *extra: tuple[str, str], user: str = "alice", **fields: str) -> RequestHeaders:
    pseudo = {"method": "POST", "path": "/v1/chat/completions", **fields}
    pairs = [(f":{name}", value) for name, value in pseudo.items()]
    identity = [("x-authz-user-id", user)] if user else []
    return RequestHeaders(Headers([*pairs, ("x-request-id", "req-1"), *identity, *extra]), protocol=protocol)


def chat(*texts: str, **fields: Any) -> bytes:
    """A chat request whose messages are user and assistant in turn, the user last."""
    roles = ["user", "assistant"] * len(texts)
    first = (len(texts) - 1) % 2
    messages = [{"role": role, "content": text} for role, text in zip(roles[first:], texts, strict=False)]
    return orjson.dumps({"model": "m", "messages": messages, **fields})


def body(data: bytes) -> RequestBody:
    return RequestBody(data, end_of_stream=True)


def response_headers(status: str = "200", kind: str = "application/json", *extra: tuple[str, str]) -> ResponseHeaders:
    return ResponseHeaders(Headers([(":status", status), ("content-type", kind), *extra]))


def answer(text: str, **fields: Any) -> ResponseBody:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return ResponseBody(
        orjson.dumps({"id": "chatcmpl-1", "model": "m", "choices": [choice], **fields}), end_of_stream=True
    )
