"""Where a conversation can be cut, and what is left of the body when it is."""

from typing import Any

import orjson
import pytest

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import transcript_hash, transcript_hashes
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.model import Json, Message, PastTurn, Position, Role

_CHAT, _RESPONSES = ChatCodec(), ResponsesCodec()


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _call(call_id: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "function": {"name": "look"}}]}


def _result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "found"}


_SYSTEM = {"role": "system", "content": "Be kind."}
_IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}


def _chat(*messages: Json) -> bytes:
    return orjson.dumps({"messages": messages})


def _turns(codec: Codec, raw: bytes) -> tuple[PastTurn, ...]:
    return codec.outline(codec.parse(raw)).turns


@pytest.mark.parametrize(
    ("messages", "places", "numbers"),
    [
        pytest.param([_user("a"), _said("b"), _user("c")], [(0, 1)], [1], id="one turn"),
        pytest.param([_user("a")], [], [], id="no turn"),
        pytest.param([_user("a"), _said("b")], [], [], id="an answer that is to be continued is none"),
        pytest.param(
            [_SYSTEM, _user("a"), _SYSTEM, _said("b"), _SYSTEM, _user("c"), _said("d"), _user("e")],
            [(1, 3), (5, 6)],
            [1, 2],
            id="system messages belong to no turn",
        ),
        pytest.param(
            [_user("a"), _call("1"), _result("1"), _said("b"), _user("c")],
            [(0, 1, 2, 3)],
            [1],
            id="a tool loop is one turn",
        ),
        pytest.param(
            [_user("a"), _said("b"), _user("c"), _call("1"), _result("1")],
            [(0, 1)],
            [1],
            id="a loop under way is no past turn",
        ),
        pytest.param(
            [_user("a"), _call("1"), _user("b"), _said("c"), _user("d"), _result("1"), _said("e"), _user("f")],
            [(0, 1, 2, 3, 4, 5, 6)],
            [2],
            id="turns between a call and its result are one",
        ),
        pytest.param(
            [_user("a"), _call("1"), _user("b"), _said("c"), _user("d"), _result("1")],
            [],
            [],
            id="a call that this turn answers holds its turn",
        ),
        pytest.param(
            [_user("a"), _said("b"), _IMAGE, _said("c"), _user("d"), _said("e"), _user("f")],
            [(0, 1), (), (4, 5)],
            [1, 2, 3],
            id="a turn with an image stays, as a whole",
        ),
        pytest.param(
            [_user("a"), {"role": "assistant", "content": None, "audio": {"id": "x"}}, _said("b"), _user("c")],
            [()],
            [1],
            id="a turn with a spoken answer stays",
        ),
        pytest.param(
            [_user("a"), _said("b") | {"images": [{"type": "image_url"}]}, _user("c")],
            [()],
            [1],
            id="a turn with an answer that has an image beside its text stays",
        ),
        pytest.param([7, _user("a"), None, _said("b"), _user("c")], [(1, 3)], [1], id="what is no message stays"),
    ],
)
def test_turns_of_a_chat_are_told_apart(
    messages: list[Json], places: list[tuple[int, ...]], numbers: list[int]
) -> None:
    turns = _turns(_CHAT, _chat(*messages))

    assert [turn.places for turn in turns] == places
    assert [turn.number for turn in turns] == numbers


def test_texts_of_a_turn_are_those_of_its_messages() -> None:
    parsed = _CHAT.parse(_chat(_SYSTEM, _user("a"), _said("bcd"), _user("e")))
    (turn,) = _CHAT.outline(parsed).turns

    assert [parsed.visible[at] for at in turn.texts] == ["a", "bcd"]
    assert turn.chars == 4


def test_reasoning_goes_with_the_turn_before_it_and_the_servers_tools_too() -> None:
    raw = orjson.dumps(
        {
            "input": [
                {"role": "user", "content": "a"},
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "web_search_call", "id": "ws_1"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
                {"type": "mcp_list_tools", "id": "mcpl_1"},
                {"role": "developer", "content": "d"},
                {"role": "user", "content": "c"},
            ]
        }
    )
    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(0, 1, 2, 3, 4)]


def test_a_program_goes_with_the_turn_and_the_calls_that_it_makes() -> None:
    caller = {"type": "program", "caller_id": "p1"}
    raw = orjson.dumps(
        {
            "input": [
                _user("a"),
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "program", "id": "prog_1", "call_id": "p1", "code": "f()", "fingerprint": "x"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "caller": caller},
                {"type": "function_call_output", "call_id": "c1", "output": "7", "caller": caller},
                {"type": "program_output", "id": "po_1", "call_id": "p1", "result": "7", "status": "completed"},
                _said("b"),
                _user("c"),
            ]
        }
    )
    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(0, 1, 2, 3, 4, 5, 6)]


def test_a_call_that_no_answer_waits_for_stays_with_its_later_result() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "async": True}
    result = {"type": "function_call_output", "call_id": "c1", "output": "7"}
    turns = [_user("a"), call, _said("b"), _user("c"), _said("d")]
    raw = orjson.dumps({"input": [*turns, _user("e")]})
    later = orjson.dumps({"input": [*turns, _user("e"), result, _said("f"), _user("g")]})

    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(0, 1, 2), (3, 4)]
    assert [turn.places for turn in _turns(_RESPONSES, later)] == [(0, 1, 2, 3, 4, 5, 6, 7)]


@pytest.mark.parametrize("execution", ["client", "server"])
def test_a_turn_that_found_tools_stays(execution: str) -> None:
    found = [
        {"type": "tool_search_call", "call_id": "c1", "execution": execution, "arguments": {}},
        {"type": "tool_search_output", "call_id": "c1", "execution": execution, "tools": []},
    ]
    raw = orjson.dumps({"input": [_user("a"), *found, _said("b"), _user("c"), _said("d"), _user("e")]})

    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(), (4, 5)]


@pytest.mark.parametrize("item", [{"type": "compaction", "encrypted_content": "x"}, {"type": "item_reference"}])
def test_what_nobody_knows_belongs_to_no_turn(item: Json) -> None:
    raw = orjson.dumps({"input": [item, _user("a"), _said("b"), item, _user("c")]})

    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(1, 2)]


def test_what_a_compaction_stands_for_is_one_turn_and_the_compaction_stays() -> None:
    compaction = {"type": "compaction", "encrypted_content": "x"}
    raw = orjson.dumps({"input": [_user("a"), _user("b"), compaction, _user("c"), _said("d"), _user("e")]})

    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(0, 1), (3, 4)]
    assert orjson.loads(_RESPONSES.rewrite(raw, block="", position=Position.SYSTEM, dropped=(0, 1)))["input"] == [
        compaction,
        _user("c"),
        _said("d"),
        _user("e"),
    ]


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_file", "file_id": "f"}]},
        {"type": "image_generation_call", "id": "ig_1"},
        {"type": "item_reference", "id": "rs_1"},
    ],
)
def test_a_turn_of_items_that_no_text_can_stand_for_stays(item: Json) -> None:
    raw = orjson.dumps({"input": [_user("a"), item, _said("b"), _user("c"), _said("d"), _user("e")]})

    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(), (3, 4)]


def test_ids_of_calls_that_come_again_in_each_turn_hold_nothing_together() -> None:
    turns = [[_user("a"), _call("1"), _result("1"), _said("b")] for _ in range(3)]
    raw = _chat(*(message for turn in turns for message in turn), _user("c"), _result("1"))

    assert [turn.places for turn in _turns(_CHAT, raw)] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_an_approval_stays_with_what_it_approves() -> None:
    raw = orjson.dumps(
        {
            "input": [
                {"role": "user", "content": "a"},
                {"type": "mcp_approval_request", "id": "mcpr_1"},
                {"role": "assistant", "content": "May I?"},
                {"role": "user", "content": "yes"},
                {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"},
                {"role": "assistant", "content": "Done."},
                {"role": "user", "content": "c"},
            ]
        }
    )
    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(0, 1, 2, 3, 4, 5)]


def test_a_forced_call_is_an_answer_and_its_result_goes_with_it() -> None:
    tools = [{"type": "function", "name": "reply"}]
    calls = [{"type": "function_call", "call_id": name, "name": "reply", "arguments": "{}"} for name in "12"]
    results = [{"type": "function_call_output", "call_id": name, "output": "ok"} for name in "12"]
    raw = orjson.dumps(
        {
            "input": [_user("a"), *calls, *results, _user("b")],
            "tools": tools,
            "tool_choice": {"type": "function", "name": "reply"},
        }
    )
    assert _RESPONSES.parse(raw).history == (Message(Role.USER, "a"), Message(Role.ASSISTANT, "{}{}"))
    assert [turn.places for turn in _turns(_RESPONSES, raw)] == [(0, 1, 2, 3, 4)]


def test_hashes_of_beginnings_are_those_of_shorter_conversations() -> None:
    messages = [Message(Role.USER, "a"), Message(Role.ASSISTANT, "b"), Message(Role.USER, " "), Message(Role.USER, "c")]
    lengths = [0, 2, 3, 4]

    assert transcript_hashes(messages, lengths) == [transcript_hash(messages[:length]) for length in lengths]


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dropped", "after"),
    [
        ({0, 1}, b'{"messages":[ {"role":"user","content":"c"} ], "n":1.50}'),
        ({1}, b'{"messages":[ {"role":"user","content":"a"} ,\n {"role":"user","content":"c"} ], "n":1.50}'),
        ({0}, b'{"messages":[ {"role":"assistant","content":"b"} ,\n {"role":"user","content":"c"} ], "n":1.50}'),
    ],
)
def test_dropped_messages_leave_with_one_comma_each(dropped: set[int], after: bytes) -> None:
    raw = (
        b'{"messages":[ {"role":"user","content":"a"} , {"role":"assistant","content":"b"} ,\n'
        b' {"role":"user","content":"c"} ], "n":1.50}'
    )
    rewritten = _CHAT.rewrite(raw, block="", position=Position.SYSTEM, dropped=dropped)

    assert orjson.loads(rewritten) == orjson.loads(after)
    assert rewritten.replace(b" ", b"").replace(b"\n", b"") == after.replace(b" ", b"").replace(b"\n", b"")


def test_a_state_without_a_place_drops_nothing() -> None:
    raw = b'{"messages":[{"role":"system","content":7},{"role":"user","content":"a"},{"role":"user","content":"b"}]}'

    assert _CHAT.rewrite(raw, block="S", position=Position.SYSTEM, dropped={1}) == raw


def test_a_chain_is_rebuilt_before_the_requests_own_items() -> None:
    raw = b'{"previous_response_id":"r1","input":[ {"role":"user","content":"c\\u0041"}], "n":1.50}'
    rewritten = _RESPONSES.rewrite(raw, block="S", position=Position.SYSTEM, items=[{"a": 1}, {"b": 2}])

    assert rewritten == (
        b'{"input":[{"a":1},{"b":2}, {"role":"user","content":"c\\u0041"}], "n":1.50,"instructions":"S"}'
    )


@pytest.mark.parametrize("position", Position)
def test_a_text_becomes_the_item_that_it_stands_for(position: Position) -> None:
    raw = b'{"input":"c\\u0041","instructions":"I","previous_response_id":"r1"}'
    rewritten = _RESPONSES.rewrite(raw, block="S", position=position, items=[{"a": 1}])

    assert rewritten == (
        b'{"input":[{"a":1},{"type":"message","role":"user","content":"c\\u0041"}],"instructions":"I\\n\\nS"}'
    )


@pytest.mark.parametrize(
    "raw",
    [
        b'{"input":"c","previous_response_id":"r1"}',
        b'{"previous_response_id":"r1","input":"c"}',
        b'{"input":"c","previous_response_id":"r1","memory_config":{}}',
    ],
)
def test_the_state_goes_beside_the_input_wherever_that_is(raw: bytes) -> None:
    rewritten = _RESPONSES.rewrite(raw, block="S", position=Position.SYSTEM, items=[{"a": 1}])

    assert orjson.loads(rewritten) == {
        "input": [{"a": 1}, {"type": "message", "role": "user", "content": "c"}],
        "instructions": "S",
    }


def test_a_chain_is_rebuilt_from_nothing_too() -> None:
    raw = b'{"input":[],"previous_response_id":"r1"}'
    assert _RESPONSES.rewrite(raw, block="", position=Position.SYSTEM, items=[{"a": 1}]) == b'{"input":[{"a":1}]}'
    assert _RESPONSES.rewrite(raw, block="", position=Position.SYSTEM, items=[]) == b'{"input":[]}'


def test_a_request_that_brings_nothing_of_its_own_keeps_its_chain() -> None:
    raw = b'{"previous_response_id":"r1","prompt":{"id":"p"}}'

    assert _RESPONSES.items(_RESPONSES.parse(raw)) is None
    assert _RESPONSES.rewrite(raw, block="", position=Position.SYSTEM, items=[{"a": 1}]) is raw
