"""Understanding chat completion requests."""

from typing import Any

import orjson
import pytest

from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN, CALLS, BodySettings, ParsedRequest
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.settings import BODY
from semrouter_memory.errors import BodyError
from semrouter_memory.model import MemoryType, Message, Role, ToolUse

BLOCK = f"{BLOCK_OPEN}\n* a fact\n{BLOCK_CLOSE}"


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def calling(*calls: tuple[str, str], content: Any = None) -> dict[str, Any]:
    made = [{"id": call_id, "type": "function", "function": {"name": name}} for call_id, name in calls]
    return assistant(content, tool_calls=made)


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def said(text: str) -> Message:
    return Message(Role.USER, text)


def answered(text: str) -> Message:
    return Message(Role.ASSISTANT, text)


def parse(*messages: Any, **body: Any) -> ParsedRequest:
    return ChatCodec().parse(orjson.dumps({"model": "m1", "messages": messages, **body}))


@pytest.mark.parametrize(
    ("messages", "history", "turn"),
    [
        pytest.param([], (), (), id="none"),
        pytest.param([user("Hi")], (), ("Hi",), id="first message"),
        pytest.param([{"role": "system", "content": "S"}, user("Hi")], (), ("Hi",), id="system is none of it"),
        pytest.param([{"role": "developer", "content": "S"}, user("Hi")], (), ("Hi",), id="nor is developer"),
        pytest.param([user("A"), assistant("B"), user("C")], (said("A"), answered("B")), ("C",), id="after one answer"),
        pytest.param([user("A"), user("B")], (), ("A", "B"), id="two messages in a turn"),
        pytest.param(
            [user("A"), assistant("B"), user("C"), {"role": "system", "content": "S"}, user("D")],
            (said("A"), answered("B")),
            ("C", "D"),
            id="a system message in between",
        ),
        pytest.param(
            [user("A"), calling(("1", "f"), content="Looking."), result("1", "R"), assistant("B"), user("C")],
            (said("A"), answered("B")),
            ("C",),
            id="tool calls of an earlier turn are no answer",
        ),
        pytest.param(
            [user("A"), calling(("1", "f")), result("1", "R"), user("B")],
            (),
            ("A", "B"),
            id="interrupted tool loop",
        ),
        pytest.param([user("A"), assistant("B", tool_calls=[])], (), ("A",), id="the answer's beginning is given"),
        pytest.param(
            [user("A"), assistant("B", tool_calls=None), user("C")],
            (said("A"), answered("B")),
            ("C",),
            id="no tool calls after all",
        ),
        pytest.param(
            [user("A"), assistant([{"type": "text", "text": "B"}, {"type": "text", "text": "C"}]), user("D")],
            (said("A"), answered("BC")),
            ("D",),
            id="the parts of an answer are one text",
        ),
        pytest.param(
            [user("A"), assistant(None, refusal="No."), user("B")], (said("A"),), ("B",), id="a refusal has no text"
        ),
        pytest.param(
            [user("A"), assistant("B"), assistant("C"), user("D")],
            (said("A"), answered("B\nC")),
            ("D",),
            id="an answer in two messages",
        ),
        pytest.param(
            [user(f"A\n\n{BLOCK}"), assistant(f"<think>hm</think>B {BLOCK}"), user(f"{BLOCK}C")],
            (said("A"), answered("B")),
            ("C",),
            id="our block and reasoning are taken out",
        ),
        pytest.param([user(f"A{BLOCK}"), user(BLOCK), user(" ")], (), ("A",), id="messages without text do not count"),
    ],
)
def test_history_and_turn(messages: list[Any], history: tuple[Message, ...], turn: tuple[str, ...]) -> None:
    parsed = parse(*messages)
    assert (parsed.history, parsed.turn_texts) == (history, turn)
    assert parsed.query == (turn[-1] if turn else "")


PICTURE: dict[str, Any] = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}


@pytest.mark.parametrize(
    ("messages", "before", "last"),
    [
        pytest.param([user("A"), user("B")], (), ("A", "B"), id="no calls"),
        pytest.param([user("A"), calling(("1", "f")), result("1", "R")], (), ("A",), id="a loop"),
        pytest.param(
            [calling(("1", "f")), result("1", "R"), user("A")], (), ("A",), id="nothing said before the calls"
        ),
        pytest.param(
            [user("A"), user("B"), calling(("1", "f")), result("1", "R"), user("C"), calling(("2", "f")), user("D")],
            (said("A"), said("B"), CALLS, said("C"), CALLS),
            ("D",),
            id="twice",
        ),
        pytest.param(
            [user("A"), assistant("B"), user("C"), calling(("1", "f")), result("1", "R"), user("D")],
            (said("A"), answered("B"), said("C"), CALLS),
            ("D",),
            id="behind a text",
        ),
        pytest.param(
            [user("A"), calling(("1", "f")), result("1", "R"), PICTURE, calling(("2", "f")), result("2", "R")],
            (),
            ("A",),
            id="a picture that a tool took says nothing",
        ),
    ],
)
def test_what_the_user_says_behind_calls(
    messages: list[Any], before: tuple[Message, ...], last: tuple[str, ...]
) -> None:
    parsed = parse(*messages)
    assert ((*parsed.history, *parsed.steps_before), parsed.last_texts, parsed.said_by("alice")) == (before, last, last)


def test_what_frameworks_of_several_agents_send_of_the_user_is_the_users() -> None:
    said = [{"role": "user", "name": name, "content": name} for name in ("user", "poet", "alice", "User", "bob")]
    assert parse(*said).said_by("alice") == ("user", "alice", "User")


def test_of_several_speakers_only_what_is_said_behind_calls_is_new() -> None:
    messages = [user("A", name="alice"), calling(("1", "f")), user("B", name="alice"), user("C", name="bob")]
    assert parse(*messages).said_by("alice") == ("B",)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hi", "Hi"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}], "a\nb"),
        (
            [{"type": "image_url", "image_url": {"url": "data:x"}}, {"type": "text", "text": "What is it?"}],
            "What is it?",
        ),
        ([{"type": "input_audio", "input_audio": {}}, {"type": "file", "file": {}, "text": "no"}], ""),
        ([{"type": "refusal", "refusal": "no"}], ""),
        (["a", "b"], "a\nb"),
        ([{"type": "text", "text": None}, {"type": "text"}, {"type": ["text"], "text": "x"}, None, 7, []], ""),
        (None, ""),
        (7, ""),
        ({"type": "text", "text": "a"}, ""),
    ],
)
def test_text_of_content(content: Any, text: str) -> None:
    assert parse(user(content)).query == text


def test_tools_of_the_turn_with_their_results() -> None:
    parsed = parse(
        user("earlier"),
        calling(("0", "old")),
        result("0", "R"),
        assistant("done"),
        user("now"),
        calling(("1", "weather"), ("2", "time")),
        result("2", [{"type": "text", "text": "noon"}]),
        result("1", "sunny " * 100),
        calling(("3", "pending")),
        result("unknown", "R"),
    )
    assert parsed.tools == (
        ToolUse("weather", ("sunny " * 100)[:200]),
        ToolUse("time", "noon"),
        ToolUse("pending"),
    )
    assert parsed.in_tool_loop
    assert parsed.turn_texts == ("now",)


def test_a_call_id_that_returns_belongs_to_the_latest_call() -> None:
    parsed = parse(user("A"), calling(("0", "f")), result("0", "one"), calling(("0", "g")), result("0", "two"))
    assert parsed.tools == (ToolUse("f", "one"), ToolUse("g", "two"))


def test_older_function_calls() -> None:
    call = assistant(None, function_call={"name": "f", "arguments": "{}"})
    parsed = parse(user("A"), call, {"role": "function", "name": "f", "content": "R"})
    assert parsed.tools == (ToolUse("f", "R"),)
    assert parsed.in_tool_loop


USING = assistant([{"type": "text", "text": "Looking."}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}])
"""A call as a part of the content."""


def returned(*results: tuple[str, Any], text: str = "") -> dict[str, Any]:
    parts = [{"type": "tool_result", "tool_use_id": call_id, "content": content} for call_id, content in results]
    return user([*parts, {"type": "text", "text": text}] if text else parts)


@pytest.mark.parametrize("content", ["R", [{"type": "text", "text": "R"}]])
def test_calls_and_results_among_parts(content: Any) -> None:
    parsed = parse(user("A"), USING, returned(("1", content)))
    assert (parsed.history, parsed.turn_texts, parsed.tools) == ((), ("A",), (ToolUse("f", "R"),))
    assert parsed.in_tool_loop
    later = parse(user("A"), USING, returned(("1", content)), assistant("B"), user("C"))
    assert (later.history, later.turn_texts) == ((said("A"), answered("B")), ("C",))


def test_a_text_beside_a_result_is_the_users() -> None:
    parsed = parse(user("A"), USING, returned(("1", "R"), ("2", "S"), text="B"))
    assert (parsed.turn_texts, parsed.last_texts, parsed.in_tool_loop) == (("A", "B"), ("B",), False)
    assert parsed.visible == ("A", "Looking.", "R", "S", "B")


def test_calls_of_odd_shape_are_calls_all_the_same() -> None:
    parsed = parse(user("A"), assistant("B", tool_calls=[{"id": 7, "function": "f"}, None]), user("C"))
    assert (parsed.history, parsed.tools) == ((), ())


@pytest.mark.parametrize(
    ("messages", "loop"),
    [
        ([], False),
        ([user("A")], False),
        ([user("A"), assistant("B")], False),
        ([user("A"), calling(("1", "f"))], True),
        ([user("A"), calling(("1", "f")), result("1", "R")], True),
        ([user("A"), calling(("1", "f")), result("1", "R"), {"role": "system", "content": "S"}], True),
        ([user("A"), calling(("1", "f")), result("1", "R"), user("B")], False),
        ([result("1", "R")], True),
    ],
)
def test_in_tool_loop(messages: list[Any], loop: bool) -> None:
    assert parse(*messages).in_tool_loop is loop


def test_every_text_is_visible() -> None:
    parsed = parse(
        {"role": "system", "content": "S"},
        user([{"type": "text", "text": "A"}, {"type": "image_url"}]),
        calling(("1", "f"), content="Looking."),
        result("1", "R"),
        {"role": "critic", "content": "C"},
    )
    assert parsed.visible == ("S", "A", "Looking.", "R", "C")


def test_a_model_that_is_no_text_is_none() -> None:
    assert parse().model == "m1"
    assert parse(model=["m"]).model == ""


def test_a_chat_is_not_stored_by_the_server() -> None:
    parsed = parse(previous_response_id="x", conversation="y", store=True)
    assert (parsed.stored_by_server, parsed.previous_response_id, parsed.conversation_id) == (False, "", "")


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({}, BodySettings()),
        ({"memory_config": None}, BodySettings()),
        (
            {
                "memory_config": {
                    "enabled": False,
                    "auto_store": True,
                    "memory_types": ["semantic", " Episodic"],
                    "retrieval_limit": 3,
                    "similarity_threshold": 1,
                    "session_end": True,
                },
                "memory_context": {"user_id": "alice", "project_id": "p"},
            },
            BodySettings(
                enabled=False,
                auto_store=True,
                memory_types=frozenset({MemoryType.SEMANTIC, MemoryType.EPISODIC}),
                retrieval_limit=3,
                similarity_threshold=1.0,
                session_end=True,
                user_id="alice",
                project_id="p",
            ),
        ),
        (
            {
                "memory_config": {
                    "enabled": "false",
                    "auto_store": 0,
                    "memory_types": "semantic",
                    "retrieval_limit": True,
                    "similarity_threshold": False,
                    "session_end": "true",
                },
                "memory_context": {"user_id": 7, "project_id": None},
            },
            BodySettings(
                unreadable=(
                    "memory_config.enabled",
                    "memory_config.auto_store",
                    "memory_config.memory_types",
                    "memory_config.retrieval_limit",
                    "memory_config.similarity_threshold",
                    "memory_config.session_end",
                    "memory_context.user_id",
                ),
            ),
        ),
        (
            {
                "memory_config": {"enable": False, "limit": 3, "retrieval_limit": 3.0},
                "memory_context": {"agent_id": "a"},
            },
            BodySettings(
                retrieval_limit=3,
                unreadable=("memory_config.unknown", "memory_context.unknown"),
            ),
        ),
        ({"memory_config": dict.fromkeys(BODY["memory_config"])}, BodySettings()),
        (
            {"memory_config": [], "memory_context": "alice"},
            BodySettings(unreadable=("memory_config", "memory_context")),
        ),
    ],
)
def test_our_settings(fields: dict[str, Any], settings: BodySettings) -> None:
    """Null is absent; of what cannot be read, only a name from the table is kept."""
    assert parse(**fields).settings == settings


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"hello",
        b"[]",
        b'"text"',
        b"null",
        b'{"messages":"Hi"}',
        b'{"messages":null}',
        b'{"messages":{}}',
        b'{"messages":[]}\xff',
        b'{"a":"\xff"}',
        b'{"messages":[]}\x00',
        '{"messages":[]}'.encode("utf-16"),
        b"[" * 2000 + b"]" * 2000,
    ],
)
def test_other_bodies_are_a_body_error(raw: bytes) -> None:
    with pytest.raises(BodyError) as caught:
        ChatCodec().parse(raw)
    assert "Hi" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_missing_messages_are_none() -> None:
    assert ChatCodec().parse(b" {} ").visible == ()
