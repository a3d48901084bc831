"""What an exchange tells of its conversation, and what it does with the answer."""

from typing import Any

import orjson
import pytest

from semrouter_memory.exchange.events import ResponseBody
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.replies import NeedRecall, ReplaceBody, Reply
from semrouter_memory.exchange.turns import MAX_ITEMS_BYTES
from semrouter_memory.model import Compression, CompressionReason, Json, Reason, RecallRequest, RecallResult, Turn
from tests.unit.exchange.conftest import (
    RECALL,
    RETAIN,
    MakeExchange,
    body,
    chat,
    request_headers,
    response_headers,
)

ON = {"compression": {"enabled": True, "min_turns": 6}}
LONG = chat(*(f"{word} {number}" for number in range(7) for word in ("question", "answer")), "next")
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
REPLY = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Fine."}]}


def _needed(exchange: Exchange, raw: bytes, path: str = "/v1/chat/completions") -> RecallRequest:
    exchange.receive(request_headers(RECALL, path=path))
    step = exchange.receive(body(raw))
    assert isinstance(step, NeedRecall)
    return step.request


def _responses(**fields: Json) -> bytes:
    return orjson.dumps({"model": "m", **fields})


def _turn(exchange: Exchange, raw: bytes, output: list[Json]) -> Turn:
    exchange.receive(request_headers(RETAIN, path="/v1/responses"))
    exchange.receive(body(raw))
    exchange.receive(response_headers())
    answer = {"id": "r1", "status": "completed", "output": output}
    exchange.receive(ResponseBody(orjson.dumps(answer), end_of_stream=True))
    turn = exchange.take_turn()
    assert turn is not None
    return turn


def test_a_long_conversation_is_described(make_exchange: MakeExchange) -> None:
    request = _needed(make_exchange(ON), LONG)

    assert request.compressible
    assert [turn.number for turn in request.turns] == [1, 2, 3, 4, 5, 6, 7]
    assert len({turn.transcript_hash for turn in request.turns}) == 7


@pytest.mark.parametrize(
    ("memory", "raw", "path"),
    [
        pytest.param({}, LONG, "/v1/chat/completions", id="off"),
        pytest.param(ON, chat("a", "b", "c"), "/v1/chat/completions", id="short"),
        pytest.param(
            ON, _responses(input="a", previous_response_id="r", conversation="c"), "/v1/responses", id="conversation"
        ),
        pytest.param(ON, _responses(previous_response_id="r"), "/v1/responses", id="nothing of its own"),
    ],
)
def test_what_cannot_be_compressed_is_not_asked_about(
    make_exchange: MakeExchange, memory: dict[str, Any], raw: bytes, path: str
) -> None:
    assert not _needed(make_exchange(memory), raw, path).compressible


def test_a_chained_request_is_compressible_whatever_it_shows(make_exchange: MakeExchange) -> None:
    raw = _responses(
        previous_response_id="r", input=[{"type": "function_call_output", "call_id": "c1", "output": "found"}]
    )
    request = _needed(make_exchange(ON), raw, "/v1/responses")

    assert request.compressible
    assert request.answers_calls == {"c1"}


def _answered(exchange: Exchange, compression: Compression | None) -> Reply:
    return exchange.recalled(
        RecallResult(
            reason=Reason.BELOW_THRESHOLD, text=compression.text if compression else "", compression=compression
        )
    )


def test_turns_leave_and_the_state_comes(make_exchange: MakeExchange) -> None:
    exchange = make_exchange(ON)
    _needed(exchange, LONG)
    reply = _answered(exchange, Compression(reason=CompressionReason.COMPRESSED, text="S", dropped_turns=5))

    assert isinstance(reply, ReplaceBody)
    messages = orjson.loads(LONG)["messages"]
    assert orjson.loads(reply.body)["messages"] == [{"role": "system", "content": "S"}, *messages[10:]]


@pytest.mark.parametrize("compression", [None, Compression(reason=CompressionReason.NO_STATE)])
def test_without_a_state_nothing_is_changed(make_exchange: MakeExchange, compression: Compression | None) -> None:
    exchange = make_exchange(ON)
    _needed(exchange, LONG)

    assert not isinstance(_answered(exchange, compression), ReplaceBody)


def test_a_chain_is_rebuilt_from_its_items(make_exchange: MakeExchange) -> None:
    exchange = make_exchange(ON)
    _needed(exchange, _responses(previous_response_id="r", input="next"), "/v1/responses")
    reply = _answered(exchange, Compression(reason=CompressionReason.REBUILT, items=(CALL,)))

    assert isinstance(reply, ReplaceBody)
    assert orjson.loads(reply.body) == {
        "model": "m",
        "input": [CALL, {"type": "message", "role": "user", "content": "next"}],
    }


# -- items of a turn ---------------------------------------------------------------------------------------------------


def test_a_turn_keeps_what_went_in_and_what_came_out(make_exchange: MakeExchange) -> None:
    turn = _turn(make_exchange(ON), _responses(input="Hi"), [{"type": "reasoning", "id": "rs"}, REPLY])

    assert turn.items == (
        {"type": "message", "role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs"},
        REPLY,
    )


def test_a_step_of_a_tool_loop_keeps_its_items_too(make_exchange: MakeExchange) -> None:
    turn = _turn(make_exchange(ON), _responses(input=[{"role": "user", "content": "Hi"}]), [CALL])

    assert not turn.complete
    assert turn.items == ({"role": "user", "content": "Hi"}, CALL)


def test_a_streamed_answers_items_come_from_its_final_event(make_exchange: MakeExchange) -> None:
    exchange = make_exchange(ON)
    exchange.receive(request_headers(RETAIN, path="/v1/responses"))
    exchange.receive(body(_responses(input="Hi", stream=True)))
    exchange.receive(response_headers("200", "text/event-stream"))
    final = {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": [REPLY]}}
    exchange.receive(ResponseBody(b"data: " + orjson.dumps(final) + b"\n\n", end_of_stream=True))
    turn = exchange.take_turn()

    assert turn is not None
    assert turn.items is not None
    assert turn.items[-1] == REPLY


@pytest.mark.parametrize(
    ("memory", "fields"),
    [
        pytest.param({}, {"input": "Hi"}, id="compression is off"),
        pytest.param(ON, {"input": "Hi", "store": False}, id="the server keeps nothing"),
        pytest.param(ON, {"input": "Hi", "conversation": "c"}, id="a conversation"),
        pytest.param(
            ON,
            {
                "input": [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": "b"},
                    {"role": "user", "content": "c"},
                ]
            },
            id="the request repeats the conversation",
        ),
        pytest.param(ON, {"input": "x" * MAX_ITEMS_BYTES}, id="too large"),
    ],
)
def test_items_are_not_kept_where_they_are_of_no_use(
    make_exchange: MakeExchange, memory: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert _turn(make_exchange(memory), _responses(**fields), [REPLY]).items is None


@pytest.mark.parametrize("odd", [b"[" * 500 + b"]" * 500, b"[NaN, %d]" % 10**30], ids=["nested", "a long number"])
def test_items_that_cannot_be_written_make_a_turn_without(make_exchange: MakeExchange, odd: bytes) -> None:
    raw = b'{"input":[{"type":"message","role":"user","content":"Hi"},{"type":"odd","x":' + odd + b"}]}"
    turn = _turn(make_exchange(ON), raw, [REPLY])
    assert (turn.user_texts, turn.assistant_text, turn.items) == (("Hi",), "Fine.", None)


def test_an_answer_whose_items_are_not_known_makes_a_turn_without(make_exchange: MakeExchange) -> None:
    exchange = make_exchange(ON)
    exchange.receive(request_headers(RETAIN, path="/v1/responses"))
    exchange.receive(body(_responses(input="Hi")))
    exchange.receive(response_headers("200", "text/event-stream"))
    delta = {"type": "response.output_text.delta", "delta": "Fine."}
    final = {"type": "response.completed", "response": {"id": "r1", "output": []}}
    events = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in (delta, final))
    exchange.receive(ResponseBody(events, end_of_stream=True))
    turn = exchange.take_turn()

    assert turn is not None
    assert (turn.assistant_text, turn.items) == ("Fine.", None)
