"""Answers as real servers send them, whole and byte by byte (the property tests split them at random)."""

import json

import pytest

from semrouter_memory.codec import codec_for
from semrouter_memory.codec.base import Answer, AnswerReader
from tests.answer_bodies import CASES, CHAT, DONE, JSON, RESPONSES, SSE, AnswerCase, chunk, delta, typed

_ids = [case.name for case in CASES]


def reader(path: str, content_type: str, *, max_bytes: int = 1_000_000) -> AnswerReader:
    codec = codec_for(path)
    assert codec is not None
    found = codec.answer_reader(content_type, max_bytes=max_bytes)
    assert found is not None
    return found


def read(path: str, content_type: str, body: bytes, *, max_bytes: int = 1_000_000) -> Answer | None:
    answer_reader = reader(path, content_type, max_bytes=max_bytes)
    answer_reader.feed(body)
    return answer_reader.finish()


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_whole(case: AnswerCase) -> None:
    assert read(case.path, case.content_type, case.body) == case.expected


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_byte_by_byte(case: AnswerCase) -> None:
    answer_reader = reader(case.path, case.content_type)
    for byte in case.body:
        answer_reader.feed(bytes((byte,)))
    assert answer_reader.finish() == case.expected


@pytest.mark.parametrize(
    "content_type",
    ["application/json; charset=utf-8", "Application/JSON", " application/json ;q=1"],
)
def test_content_type_parameters_and_case_make_no_difference(content_type: str) -> None:
    assert read(CHAT, content_type, b'{"choices":[{"message":{"content":"Hi"}}]}') is not None
    assert read(CHAT, content_type.lower().replace("application/json", "Text/Event-Stream"), chunk(delta())) is not None


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("content_type", ["", "text/html", "application/x-ndjson", "application/jsonp", "json"])
def test_other_content_types_carry_no_answer(path: str, content_type: str) -> None:
    codec = codec_for(path)
    assert codec is not None
    assert codec.answer_reader(content_type, max_bytes=100) is None


def test_json_bound_is_inclusive() -> None:
    body = b'{"choices":[{"message":{"content":"Hi"}}]}'
    assert read(CHAT, JSON, body, max_bytes=len(body)) is not None
    assert read(CHAT, JSON, body, max_bytes=len(body) - 1) is None


def test_framing_of_a_stream_does_not_count_as_its_answer() -> None:
    body = chunk(delta(content="x")) * 40 + DONE
    answer = read(CHAT, SSE, body, max_bytes=len(body) // 10)
    assert answer is not None
    assert answer.text == "x" * 40


_MANY_CHOICES = b"".join(chunk(delta(index)) for index in range(100))
_MANY_CALLS = b"".join(chunk(delta(tool_calls=[{"index": index, "id": f"c{index}"}])) for index in range(100))
_MANY_ITEMS = b"".join(
    typed("response.output_item.added", output_index=index, item={"type": "shell_call"}) for index in range(100)
)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(CHAT, chunk(delta(content="x" * 100)) * 10, id="text"),
        pytest.param(RESPONSES, typed("response.output_text.delta", delta="x" * 100) * 10, id="typed text"),
        pytest.param(CHAT, chunk(delta(content="x" * 1000)), id="one event"),
        pytest.param(CHAT, b"data: " + b"x" * 1000, id="one unfinished event"),
        pytest.param(CHAT, _MANY_CHOICES, id="empty choices"),
        pytest.param(CHAT, _MANY_CALLS, id="nameless calls"),
        pytest.param(RESPONSES, _MANY_ITEMS, id="items"),
        pytest.param(CHAT, b": ping\n\n" * 100_000, id="endless comments"),
    ],
)
def test_stream_over_the_bound_has_no_answer(path: str, body: bytes) -> None:
    """Text, one event, the number of entries and the stream itself are bounded; beyond, nothing is kept or read."""
    answer_reader = reader(path, SSE, max_bytes=900)
    answer_reader.feed(chunk(delta(content="Hi")) if path == CHAT else typed("response.output_text.delta", delta="Hi"))
    for at in range(0, len(body), 100):
        answer_reader.feed(body[at : at + 100])
    answer_reader.feed(chunk(delta(content="more")) + DONE)
    assert answer_reader.finish() is None


def test_an_item_that_is_announced_again_counts_once() -> None:
    event = typed("response.output_item.done", output_index=0, item={"type": "shell_call"})
    answer = read(RESPONSES, SSE, event * 50, max_bytes=300)
    assert answer is not None
    assert answer.calls == ("shell",)


@pytest.mark.parametrize("value", [None, 1, True, "x", [], {}, [None, 1, "x", []], {"index": "x", "delta": []}])
@pytest.mark.parametrize("field", ["id", "model", "choices", "output", "status", "response", "item", "delta", "type"])
def test_odd_shapes_are_no_error(field: str, value: object) -> None:
    """Whatever an upstream puts into a field, reading goes on."""
    body = {"choices": [{"message": {"content": "Hi"}, "delta": {"content": "Hi"}}], "output": [], field: value}
    for path in (CHAT, RESPONSES):
        read(path, JSON, json.dumps(body).encode())
        for kind in ("response.output_text.delta", "response.output_item.done", "response.completed"):
            event = {"type": kind, **body}
            read(path, SSE, b"data: " + json.dumps(event).encode() + b"\n\n")
