"""Understanding requests of the Responses API; what it shares with chat completions is tested there."""

from typing import Any

import orjson
import pytest

from semrouter_memory.codec.base import ParsedRequest
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Message, Role, ToolUse

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}


def item(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def message(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(role, [{"type": kind, "text": text} for text in texts], type="message")


def reference(item_id: str) -> dict[str, Any]:
    return {"type": "item_reference", "id": item_id}


def parse(given: Any = None, **body: Any) -> ParsedRequest:
    return ResponsesCodec().parse(orjson.dumps({"model": "m1", "input": given, **body}))


A, B, C = Message(Role.USER, "A"), Message(Role.ASSISTANT, "B"), Message(Role.ASSISTANT, "C")


@pytest.mark.parametrize(
    ("given", "history", "turn"),
    [
        pytest.param("Hi", (), ("Hi",), id="string"),
        pytest.param(None, (), (), id="none"),
        pytest.param([], (), (), id="empty list"),
        pytest.param([item("user", "Hi")], (), ("Hi",), id="item without a type"),
        pytest.param([message("user", "a", "b")], (), ("a\nb",), id="parts"),
        pytest.param([item("developer", "S"), item("user", "Hi")], (), ("Hi",), id="developer"),
        pytest.param([message("user", "A"), message("assistant", "B"), item("user", "D")], (A, B), ("D",), id="answer"),
        pytest.param(
            [message("user", "A"), REASONING, message("assistant", "B"), item("user", "D")],
            (A, B),
            ("D",),
            id="reasoning before the answer",
        ),
        pytest.param(
            [message("user", "A"), message("assistant", "B", "C"), message("assistant", "C"), item("user", "D")],
            (A, Message(Role.ASSISTANT, "BCC")),
            ("D",),
            id="an answer in several parts and messages is joined like output_text",
        ),
        pytest.param(
            [
                item("user", "A"),
                message("assistant", "Looking."),
                CALL,
                RESULT,
                message("assistant", "B"),
                item("user", "D"),
            ],
            (A, B),
            ("D",),
            id="text of a response that calls a tool is no answer",
        ),
        pytest.param(
            [item("user", "A"), CALL, message("assistant", "Looking."), RESULT],
            (),
            ("A",),
            id="nor behind the call",
        ),
        pytest.param(
            [item("user", "A"), CALL, message("assistant", "B"), item("user", "D")],
            (A, B),
            ("D",),
            id="but where there is no result: the server made the call",
        ),
        pytest.param(
            [item("user", "A"), message("assistant", "B"), CALL | {"async": True}, item("user", "D")],
            (A, B),
            ("D",),
            id="but where the model does not wait for the result",
        ),
        pytest.param(
            [item("user", "A"), CALL | {"async": True}, RESULT, message("assistant", "B"), item("user", "D")],
            (A, B),
            ("D",),
            id="which may be there all the same",
        ),
        pytest.param(
            [item("user", "A"), item("user", "D"), COMPACTION, item("user", "E")],
            (A, Message(Role.USER, "D")),
            ("E",),
            id="what a compaction stands for is answered",
        ),
        pytest.param(
            [item("user", "A"), item("user", "D"), COMPACTION],
            (A,),
            ("D",),
            id="but for the message that the loop is about",
        ),
        pytest.param(
            [item("user", "A"), item("user", "D"), COMPACTION, CALL, RESULT], (A,), ("D",), id="also when it goes on"
        ),
        pytest.param(
            [item("user", "A"), COMPACTION, message("assistant", "B"), item("user", "D")],
            (A, B),
            ("D",),
            id="a compaction beside an answer",
        ),
        pytest.param(
            [
                item("user", "A"),
                message("assistant", "Done.") | {"agent": {"agent_name": "/root/reviewer"}},
                message("assistant", "B") | {"agent": {"agent_name": "/root"}},
                item("user", "D"),
            ],
            (A, B),
            ("D",),
            id="what a subagent says is no answer",
        ),
        pytest.param([COMPACTION, item("user", "D")], (), ("D",), id="nothing else of the conversation"),
        pytest.param(
            [item("user", "A"), {"type": "web_search_call"}, message("assistant", "B"), item("user", "D")],
            (A, B),
            ("D",),
            id="the server's own tools are part of its answer",
        ),
        pytest.param(
            [
                item("user", "A"),
                reference("rs_1"),
                {"id": "msg_1"},
                item("user", "D"),
                reference("msg_2"),
                item("user", "E"),
            ],
            (A, Message(Role.USER, "D")),
            ("E",),
            id="answers that only the server has",
        ),
        pytest.param(
            [
                item("user", "A"),
                {"type": "image_generation_call", "id": "ig_1", "result": "AAAA"},
                item("user", "D"),
                reference("ig_2"),
                item("user", "E"),
            ],
            (A, Message(Role.USER, "D")),
            ("E",),
            id="images are answers",
        ),
        pytest.param(
            [item("user", "A"), {"type": "image_generation_call", "id": "ig_1"}],
            (),
            ("A",),
            id="an image that the user speaks of",
        ),
        pytest.param(
            [item("user", "A"), reference("msg_1"), reference("fc_1"), RESULT, reference("msg_2"), item("user", "D")],
            (A,),
            ("D",),
            id="and calls",
        ),
        pytest.param(
            [item("user", "A"), reference("msg_1"), reference("fc_1"), RESULT], (), ("A",), id="a loop of such calls"
        ),
        pytest.param(
            [{"type": "item_reference", "id": "x"}, {"type": None}, 7, item("user", "D"), {"type": ["message"]}],
            (),
            ("D",),
            id="unknown items",
        ),
    ],
)
def test_history_and_turn(given: Any, history: tuple[Message, ...], turn: tuple[str, ...]) -> None:
    parsed = parse(given)
    assert (parsed.history, parsed.turn_texts) == (history, turn)


@pytest.mark.parametrize(
    ("call", "output", "tool"),
    [
        (CALL, RESULT, ToolUse("get_weather", "sunny")),
        (CALL, RESULT | {"output": [{"type": "input_text", "text": "sunny"}]}, ToolUse("get_weather", "sunny")),
        (CALL, RESULT | {"output": {"odd": 1}}, ToolUse("get_weather")),
        (
            CALL | {"type": "custom_tool_call"},
            RESULT | {"type": "custom_tool_call_output"},
            ToolUse("get_weather", "sunny"),
        ),
        (
            {"type": "local_shell_call", "call_id": "c1"},
            {"type": "local_shell_call_output", "call_id": "c1", "output": "ok"},
            ToolUse("local_shell", "ok"),
        ),
        (
            {"type": "local_shell_call", "id": "l1", "call_id": "c1"},
            {"type": "local_shell_call_output", "id": "c1", "output": "ok"},
            ToolUse("local_shell", "ok"),
        ),
        (
            {"type": "shell_call", "call_id": "c1"},
            {
                "type": "shell_call_output",
                "call_id": "c1",
                "output": [{"stdout": "a", "stderr": ""}, {"stdout": "", "stderr": "command not found"}],
            },
            ToolUse("shell", "a\ncommand not found"),
        ),
        (
            {"type": "apply_patch_call", "call_id": "c1"},
            {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed"},
            ToolUse("apply_patch", "failed"),
        ),
        (
            {"type": "mcp_approval_request", "id": "m1", "name": "book", "server_label": "s", "arguments": "{}"},
            {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True},
            ToolUse("book"),
        ),
        (
            {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {}},
            {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": []},
            ToolUse("tool_search"),
        ),
    ],
)
def test_tools(call: dict[str, Any], output: dict[str, Any], tool: ToolUse) -> None:
    parsed = parse([item("user", "A"), REASONING, call, output])
    assert parsed.tools == (tool,)
    assert parsed.in_tool_loop
    assert parsed.turn_texts == ("A",)


@pytest.mark.parametrize(
    "result",
    [
        RESULT,
        {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True},
        {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": []},
    ],
    ids=lambda result: result["type"],
)
def test_a_result_in_a_stored_chain_is_a_loop_without_a_turn_text(result: dict[str, Any]) -> None:
    parsed = parse([result], previous_response_id="resp_1")
    assert parsed.in_tool_loop
    assert (parsed.turn_texts, parsed.tools, parsed.query) == ((), (), "")


def test_every_text_is_visible() -> None:
    parsed = parse([item("system", "S"), item("user", "A"), CALL, RESULT], instructions="I")
    assert parsed.visible == ("I", "S", "A", "sunny")
    assert parse("A", instructions=["odd"]).visible == ("A",)


@pytest.mark.parametrize(
    ("body", "previous", "conversation", "stored"),
    [
        ({}, "", "", True),
        ({"store": None}, "", "", True),
        ({"store": False}, "", "", False),
        ({"previous_response_id": "resp_1"}, "resp_1", "", True),
        ({"previous_response_id": None}, "", "", True),
        ({"conversation": "conv_1"}, "", "conv_1", True),
        ({"conversation": {"id": "conv_1"}}, "", "conv_1", True),
        ({"conversation": {"id": 7}, "previous_response_id": 7}, "", "", True),
        ({"conversation": None}, "", "", True),
    ],
)
def test_chain(body: dict[str, Any], previous: str, conversation: str, stored: bool) -> None:
    parsed = parse("Hi", **body)
    assert parsed.previous_response_id == previous
    assert parsed.conversation_id == conversation
    assert parsed.stored_by_server is stored


def test_settings_and_model() -> None:
    parsed = parse("Hi", memory_config={"enabled": False})
    assert (parsed.model, parsed.settings.enabled) == ("m1", False)


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"input":7}', b'{"input":{}}', b'{"input":true}'])
def test_other_bodies_are_a_body_error(raw: bytes) -> None:
    with pytest.raises(BodyError):
        ResponsesCodec().parse(raw)
