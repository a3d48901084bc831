"""How a client announces that its session is at its end."""

from typing import Any

import pytest

from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.model import Turn

from .conftest import RETAIN, SINGLE, MakeExchange, answer, body, chat, request_headers, response_headers


def turn_of(exchange: Exchange, *headers: tuple[str, str], protocol: Any = RETAIN, **config: Any) -> Turn:
    fields = {"memory_config": config} if config else {}
    exchange.receive(request_headers(protocol, *headers))
    exchange.receive(body(chat("bye", **fields)))
    exchange.receive(response_headers())
    exchange.receive(answer("Bye."))
    turn = exchange.take_turn()
    assert turn is not None
    return turn


@pytest.mark.parametrize("value", ["true", "1", " YES ", "on"])
def test_the_header_ends_the_session(make_exchange: MakeExchange, value: str) -> None:
    assert turn_of(make_exchange(), ("x-session-end", value)).ends_session


@pytest.mark.parametrize("value", ["", "false", "0", "no", "maybe"])
def test_a_header_that_does_not_say_yes_ends_nothing(make_exchange: MakeExchange, value: str) -> None:
    assert not turn_of(make_exchange(), ("x-session-end", value)).ends_session


@pytest.mark.parametrize(("value", "ends"), [(True, True), (False, False), ("true", False), (1, False)])
def test_the_body_ends_the_session(make_exchange: MakeExchange, value: Any, *, ends: bool) -> None:
    assert turn_of(make_exchange(), session_end=value).ends_session is ends


def test_without_a_word_the_session_goes_on(make_exchange: MakeExchange) -> None:
    assert not turn_of(make_exchange()).ends_session


def test_name_and_values_of_the_header_are_settings(make_exchange: MakeExchange) -> None:
    memory = {"identity": {"session_end_header": "x-bye"}, "signals": {"truthy": ["ciao"]}}
    assert turn_of(make_exchange(memory), ("x-bye", "ciao")).ends_session
    assert not turn_of(make_exchange(memory), ("x-session-end", "true")).ends_session


def test_the_field_is_ours_and_does_not_go_upstream(make_exchange: MakeExchange) -> None:
    exchange = make_exchange()
    exchange.receive(request_headers(SINGLE))
    exchange.receive(body(chat("bye", memory_config={"session_end": True, "enabled": False})))
    assert exchange.take_turn() is None, "switched off is switched off, also for an end"
