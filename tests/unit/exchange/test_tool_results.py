"""Old results of tools are one line each; everything else of a request stays."""

import itertools
import json
from typing import Any

import pytest

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import ParsedRequest
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.config import CompressionConfig
from semrouter_memory.exchange.tool_results import shortened
from semrouter_memory.model import RecallOptions

LIMIT = 300
"""Three results of `SIZE`."""
SIZE = 400
"""A hundred tokens."""


def bounds(limit: int, last: int) -> tuple[RecallOptions, CompressionConfig]:
    return RecallOptions(limit=5, threshold=0.6, tool_result_tokens=limit), CompressionConfig(raw_tool_results=last)


def chat_loop(*texts: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go"}]
    for number, text in enumerate(texts):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": f"tool{number}", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": text})
    return messages


def items_loop(*outputs: Any, kind: str = "function_call") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"role": "user", "content": "Go"}]
    for number, output in enumerate(outputs):
        items.append({"type": kind, "call_id": f"call_{number}", "name": f"tool{number}", "arguments": "{}"})
        items.append({"type": f"{kind}_output", "call_id": f"call_{number}", "output": output})
    return items


def texts(count: int) -> list[str]:
    return [f"result {number} " + "x" * (SIZE - len(f"result {number} ")) for number in range(count)]


def after(codec: Codec, body: dict[str, Any], *, limit: int = LIMIT, last: int = 1) -> dict[str, Any] | None:
    raw = json.dumps(body).encode()
    found = shortened(codec, raw, codec.parse(raw), *bounds(limit, last))
    changed: dict[str, Any] | None = json.loads(found.body) if found else None
    return changed


def left_out(messages: list[dict[str, Any]], changed: dict[str, Any] | None) -> list[int]:
    """Which results are a line."""
    now = changed["messages"] if changed else messages
    places = [place for place, message in enumerate(messages) if message["role"] == "tool"]
    return [number for number, place in enumerate(places) if now[place] != messages[place]]


@pytest.mark.parametrize(
    ("count", "last", "gone"),
    [
        (3, 1, []),  # exactly the limit
        (4, 1, [0, 1, 2]),
        (4, 3, [0]),
        (4, 4, []),
        (5, 1, [0, 1, 2]),  # what is whole is below the limit again
        (6, 1, [0, 1, 2]),
        (7, 1, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_beyond_the_limit_all_but_the_last_results_are_replaced(count: int, last: int, gone: list[int]) -> None:
    messages = chat_loop(*texts(count))
    assert left_out(messages, after(ChatCodec(), {"messages": messages}, last=last)) == gone


def test_one_byte_beyond_the_limit_is_beyond_it() -> None:
    body = {"messages": chat_loop("x" * 200, "y" * 1000)}
    assert after(ChatCodec(), body) is None
    assert after(ChatCodec(), {"messages": chat_loop("x" * 201, "y" * 1000)}) is not None


def test_without_a_limit_every_result_stays() -> None:
    """As it is by default."""
    assert RecallOptions(limit=5, threshold=0.6).tool_result_tokens == CompressionConfig().tool_result_tokens == 0
    assert after(ChatCodec(), {"messages": chat_loop(*texts(9))}, limit=0) is None


def test_what_was_replaced_stays_replaced_in_later_steps() -> None:
    """So the request's beginning is the same, for the provider's prompt cache."""
    steps = [chat_loop(*texts(count)) for count in range(1, 12)]
    sent = [(after(ChatCodec(), {"messages": step}) or {"messages": step})["messages"] for step in steps]
    gone = [left_out(step, {"messages": now}) for step, now in zip(steps, sent, strict=True)]
    assert all(earlier == later[: len(earlier)] for earlier, later in itertools.pairwise(gone))
    same = [later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(sent)]
    assert same.count(False) == 3


def test_the_line_tells_tool_outcome_and_size() -> None:
    failing = "Error: no such cluster\n" + "x" * SIZE
    messages = chat_loop(failing, "\n 42 pods \n" + "y" * SIZE, "fine", *texts(3))
    changed = after(ChatCodec(), {"messages": messages})
    assert changed is not None
    lines = [message["content"] for message in changed["messages"] if message["role"] == "tool"]
    assert lines[0] == "[tool0: failed, 423 characters left out; it began: Error: no such cluster]"
    assert lines[1] == "[tool1: ok, 411 characters left out; it began: 42 pods]"
    assert lines[2] == "fine", "a line would be no shorter"


def test_what_it_says_of_the_body_is_how_much_is_left_out() -> None:
    raw = json.dumps({"messages": chat_loop(*texts(4))}).encode()
    codec = ChatCodec()
    found = shortened(codec, raw, codec.parse(raw), *bounds(LIMIT, 1))
    assert found is not None
    body, read, results = found.body, found.parsed, found.results
    assert results.results == 3
    assert 0 < results.tokens <= (len(raw) - len(body)) // 4 + 3
    assert read == codec.parse(body)


def test_results_that_hold_more_than_text_stay() -> None:
    picture = [{"type": "text", "text": "x" * SIZE}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    parts = [{"type": "text", "text": "x" * SIZE}]
    messages = chat_loop(picture, parts, *texts(3))
    assert left_out(messages, after(ChatCodec(), {"messages": messages})) == [1, 2]


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_items_of_the_responses_api(kind: str) -> None:
    items = items_loop(*texts(3), [{"type": "input_text", "text": "last"}], kind=kind)
    assert after(ResponsesCodec(), {"input": items}, limit=LIMIT - 1) is not None
    changed = after(ResponsesCodec(), {"input": items, "model": "m"}, limit=LIMIT - 1, last=2)
    assert changed is not None
    assert changed["input"][2]["output"].startswith("[tool0: ok, 400 characters left out;")
    assert [item for place, item in enumerate(changed["input"]) if place != 2] == items[:2] + items[3:]


def test_results_with_a_structure_stay() -> None:
    shot = {"type": "computer_screenshot", "image_url": "data:," + "x" * SIZE}
    items = items_loop(shot, kind="computer_call") + items_loop("x" * SIZE, kind="shell_call")[1:]
    assert after(ResponsesCodec(), {"input": items}, limit=1) is None


class _Mistaken(ChatCodec):
    """Changes more than it should."""

    def __init__(self, old: bytes, new: bytes) -> None:
        self._change = old, new

    def with_results(self, raw: bytes, texts: Any) -> bytes:
        return super().with_results(raw, texts).replace(*self._change)


@pytest.mark.parametrize(
    ("old", "new"), [(b"Go", b"Stop"), (b"call_1", b"call_9"), (b'"tool2"', b'"tool3"'), (b'"Go"}', b'"Go"')]
)
def test_a_body_that_is_another_conversation_is_not_sent(old: bytes, new: bytes) -> None:
    """A user's word, a call's id, a tool's name, and what is no JSON any more."""
    raw = json.dumps({"messages": chat_loop(*texts(4))}).encode()
    codec = _Mistaken(old, new)
    parsed: ParsedRequest = codec.parse(raw)
    assert shortened(ChatCodec(), raw, parsed, *bounds(LIMIT, 1)) is not None
    assert shortened(codec, raw, parsed, *bounds(LIMIT, 1)) is None
