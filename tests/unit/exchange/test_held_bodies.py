"""Full duplex: Envoy forwards only what we send, so what was held of a body must go on, whatever comes in between."""

from datetime import UTC, datetime

import pytest

from semrouter_memory.config import MemoryConfig
from semrouter_memory.exchange.events import (
    BodyMode,
    Headers,
    Protocol,
    RequestBody,
    RequestHeaders,
    RequestTrailers,
    ResponseHeaders,
)
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import RouteSettings
from semrouter_memory.exchange.replies import Continue, NeedRecall, Silence, StreamBody
from semrouter_memory.exchange.turns import ExchangeSettings

DUPLEX = Protocol(request_body=BodyMode.FULL_DUPLEX_STREAMED, response_body=BodyMode.FULL_DUPLEX_STREAMED)
OPENING = RequestHeaders(
    Headers([(":path", "/v1/chat/completions"), (":method", "POST"), ("x-authz-user-id", "alice")]), protocol=DUPLEX
)
BODY = b'{"messages":[{"role":"user","content":"hi"}]}'


@pytest.fixture
def exchange() -> Exchange:
    settings = ExchangeSettings(MemoryConfig(), max_body_bytes=1 << 20, max_answer_bytes=1 << 20)
    opened = Exchange(settings, RouteSettings(), datetime(2026, 3, 15, tzinfo=UTC))
    assert opened.receive(OPENING) == Continue()
    assert opened.receive(RequestBody(BODY[:10], end_of_stream=False)) == Silence()
    return opened


def test_an_early_answer_lets_the_body_go_on_with_its_next_piece(exchange: Exchange) -> None:
    assert exchange.receive(ResponseHeaders(Headers([(":status", "413")]))) == Continue()
    assert exchange.receive(RequestBody(BODY[10:20], end_of_stream=False)) == StreamBody(BODY[:20], False)
    assert exchange.receive(RequestBody(BODY[20:], end_of_stream=True)) == StreamBody(BODY[20:], True)


def test_an_early_answer_lets_the_body_go_on_with_its_trailers(exchange: Exchange) -> None:
    exchange.receive(ResponseHeaders(Headers([(":status", "413")])))
    assert exchange.receive(RequestTrailers()) == StreamBody(BODY[:10], False)
    assert exchange.receive(RequestTrailers()) == Continue()


def test_an_exchange_is_opened_once(exchange: Exchange) -> None:
    """A second opening with other modes would have the bytes that are held forgotten."""
    other = Protocol(request_body=BodyMode.BUFFERED)
    assert exchange.receive(RequestHeaders(OPENING.headers, protocol=other)) == Continue()
    assert isinstance(exchange.receive(RequestBody(BODY[10:], end_of_stream=True)), NeedRecall)


def test_what_is_held_when_we_fail_goes_on_as_it_came(exchange: Exchange) -> None:
    assert exchange.abandon() == StreamBody(BODY[:10], False)
    assert exchange.abandon() == Silence()


def test_a_whole_body_whose_recall_failed_goes_on_to_its_end(exchange: Exchange) -> None:
    assert isinstance(exchange.receive(RequestBody(BODY[10:], end_of_stream=True)), NeedRecall)
    assert exchange.abandon() == StreamBody(BODY, True)


def test_a_body_that_comes_byte_by_byte_is_not_kept_byte_by_byte(exchange: Exchange) -> None:
    for _ in range(10_000):
        exchange.receive(RequestBody(b"xy", end_of_stream=False))
        exchange.receive(RequestBody(b"", end_of_stream=False))
    assert len(exchange._chunks) == 1
