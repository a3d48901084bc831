"""Bodies before and after, to the byte."""

from time import process_time

import pytest

from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.model import Position

_CHAT, _RESPONSES = ChatCodec(), ResponsesCodec()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"memory_config":{}}', b"{}"),
        (b'{ "memory_config" : {} }', b"{  }"),
        (b'{"memory_config":{},"memory_context":null}', b"{}"),
        (b'{"a":1,"memory_config":{"x":"}"}}', b'{"a":1}'),
        (b'{"memory_config":1,"a":1}', b'{"a":1}'),
        (b'{"a":1,"memory_config":1,"b":2}', b'{"a":1,"b":2}'),
        (b'{"memory_config":1,"a":1,"memory_context":{},"memory_config":2,"b":2}', b'{"a":1,"b":2}'),
        (
            b'{\n  "a": 1.50,\n  "memory_config": {\n    "enabled": true\n  },\n  "b": 2\n}\n',
            b'{\n  "a": 1.50,\n  "b": 2\n}\n',
        ),
        (b'{\n  "memory_config": {},\n  "a": 1\n}', b'{\n  "a": 1\n}'),
        (b'{\n  "a": 1,\n  "memory_config": {}\n}', b'{\n  "a": 1\n}'),
        (rb'{"memory\u005fconfig":1,"a":"memory_config"}', b'{"a":"memory_config"}'),
        (b'{"a":{"memory_config":1}}', b'{"a":{"memory_config":1}}'),
        (b'{"memory_config ":1}', b'{"memory_config ":1}'),
    ],
)
def test_our_fields_are_taken_out(before: bytes, after: bytes) -> None:
    for codec in (_CHAT, _RESPONSES):
        assert codec.rewrite(before, block="", position=Position.SYSTEM) == after


@pytest.mark.parametrize("codec", [_CHAT, _RESPONSES], ids=["chat", "responses"])
def test_a_field_that_is_repeated_without_end_takes_no_long_time(codec: ChatCodec | ResponsesCodec) -> None:
    """All streams share one loop; 100,000 fields took it 40 s while each was looked up in a list of all."""
    raw = b"{" + b'"memory_config":null,' * 100_000 + b'"a":1}'
    began = process_time()
    assert codec.rewrite(raw, block="", position=Position.SYSTEM) == b'{"a":1}'
    assert process_time() - began < 5


def _chat(messages: bytes) -> bytes:
    return b'{"messages": [' + messages + b'], "n":1}'


_U = b'{"role":"user","content":"Hi"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(_U, b'{"role":"system","content":"<B>"},' + _U, id="no system message"),
        pytest.param(b"", b'{"role":"system","content":"<B>"}', id="no messages"),
        pytest.param(
            b'{"role":"system","content":"Be kind."}, ' + _U,
            b'{"role":"system","content":"Be kind.\\n\\n<B>"}, ' + _U,
            id="string",
        ),
        pytest.param(
            _U + b',{"content":"S\\u0041\\\\" ,"role":"developer"},{"role":"system","content":"T"}',
            _U + b',{"content":"S\\u0041\\\\\\n\\n<B>" ,"role":"developer"},{"role":"system","content":"T"}',
            id="the first one, wherever it is",
        ),
        pytest.param(b'{"role":"system","content":""}', b'{"role":"system","content":"<B>"}', id="empty string"),
        pytest.param(
            b'{"role":"system","content":[{"type":"text","text":"S"} ]}',
            b'{"role":"system","content":[{"type":"text","text":"S"},{"type":"text","text":"\\n\\n<B>"} ]}',
            id="parts",
        ),
        pytest.param(
            b'{"role":"system","content":[ ]}',
            b'{"role":"system","content":[{"type":"text","text":"<B>"} ]}',
            id="no parts",
        ),
        pytest.param(b'{"role":"system","content":null}', b'{"role":"system","content":"<B>"}', id="null"),
        pytest.param(b'{"role":"system"}', b'{"role":"system","content":"<B>"}', id="no content"),
        pytest.param(b'{"role":"system","content":7}', b'{"role":"system","content":7}', id="content of no known form"),
        pytest.param(
            b'{"role":"user","role":"system","content":"a","content":"b"}',
            b'{"role":"user","role":"system","content":"a","content":"b\\n\\n<B>"}',
            id="of duplicate keys the last one counts",
        ),
        pytest.param(b'"system",7', b'{"role":"system","content":"<B>"},"system",7', id="messages that are none"),
    ],
)
def test_chat_system(before: bytes, after: bytes) -> None:
    assert _CHAT.rewrite(_chat(before), block="<B>", position=Position.SYSTEM) == _chat(after)


_A = b'{"role":"assistant","content":"Yes"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(_U, b'{"role":"user","content":"Hi\\n\\n<B>"}', id="string"),
        pytest.param(
            _U + b"," + _A + b"," + _U, _U + b"," + _A + b',{"role":"user","content":"Hi\\n\\n<B>"}', id="last"
        ),
        pytest.param(
            _U + b',{"role":"assistant","tool_calls":[{}]},{"role":"tool","content":"R"}',
            b'{"role":"user","content":"Hi\\n\\n<B>"},{"role":"assistant","tool_calls":[{}]},{"role":"tool","content":"R"}',
            id="the same place throughout a tool loop",
        ),
        pytest.param(
            _U + b',{"role":"user","content":[{"type":"tool_result"}]}',
            b'{"role":"user","content":"Hi\\n\\n<B>"},{"role":"user","content":[{"type":"tool_result"}]}',
            id="nor behind a result among parts",
        ),
        pytest.param(
            b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}',
            b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}},{"type":"text","text":"\\n\\n<B>"}]}',
            id="parts",
        ),
        pytest.param(_A, _A, id="no user message"),
        pytest.param(b"", b"", id="no messages"),
    ],
)
def test_chat_user_tail(before: bytes, after: bytes) -> None:
    assert _CHAT.rewrite(_chat(before), block="<B>", position=Position.USER_TAIL) == _chat(after)


def test_block_is_escaped() -> None:
    rewritten = _CHAT.rewrite(_chat(_U), block='"\\\n\x00Zürich 🏔\u2028', position=Position.USER_TAIL)
    assert '"Hi\\n\\n\\"\\\\\\n\\u0000Zürich 🏔\u2028"'.encode() in rewritten


def test_lone_surrogate_in_the_block_costs_no_request() -> None:
    assert b"Hi\\n\\n?" in _CHAT.rewrite(_chat(_U), block="\ud800", position=Position.USER_TAIL)


def test_the_last_messages_member_is_the_one_that_counts() -> None:
    raw = b'{"messages":[],"messages":[' + _U + b"]}"
    assert _CHAT.rewrite(raw, block="B", position=Position.SYSTEM).startswith(
        b'{"messages":[],"messages":[{"role":"sys'
    )


def test_without_messages_there_is_no_place_for_a_block() -> None:
    for position in Position:
        assert _CHAT.rewrite(b'{"model":"m"}', block="B", position=position) == b'{"model":"m"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"input":"Hi"}', b'{"input":"Hi","instructions":"<B>"}'),
        (b'{"input":"Hi" }', b'{"input":"Hi","instructions":"<B>" }'),
        (b'{"input":"Hi","memory_config":{}}', b'{"input":"Hi","instructions":"<B>"}'),
        (b'{"memory_config":{},"input":"Hi","memory_context":{}}', b'{"input":"Hi","instructions":"<B>"}'),
        (b'{ "memory_config":{} }', b'{"instructions":"<B>"  }'),
        (b'{"instructions":"I","input":"Hi"}', b'{"instructions":"I\\n\\n<B>","input":"Hi"}'),
        (b'{"instructions":"","input":"Hi"}', b'{"instructions":"<B>","input":"Hi"}'),
        (b'{"instructions":null,"input":"Hi"}', b'{"instructions":"<B>","input":"Hi"}'),
        (b'{"instructions":["I"],"input":"Hi"}', b'{"instructions":["I"],"input":"Hi"}'),
        (b'{"instructions":["I"],"memory_config":{}}', b'{"instructions":["I"]}'),
        (b'{"instructions":"a","instructions":"b"}', b'{"instructions":"a","instructions":"b\\n\\n<B>"}'),
    ],
)
def test_responses_system(before: bytes, after: bytes) -> None:
    assert _RESPONSES.rewrite(before, block="<B>", position=Position.SYSTEM) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"input":"Hi"}', b'{"input":"Hi\\n\\n<B>"}'),
        (b'{"input":""}', b'{"input":"<B>"}'),
        (b'{"input":[' + _U + b"]}", b'{"input":[{"role":"user","content":"Hi\\n\\n<B>"}]}'),
        (
            b'{"input":[{"type":"message","role":"user","content":[{"type":"input_image"}]},{"type":"reasoning"}]}',
            b'{"input":[{"type":"message","role":"user","content":[{"type":"input_image"},{"type":"input_text","text":"\\n\\n<B>"}]},{"type":"reasoning"}]}',
        ),
        (b'{"input":[{"type":"other","role":"user","content":"x"}]}', None),
        (b'{"input":[{"type":"function_call_output","output":"R"}]}', None),
        (b'{"input":[]}', None),
        (b'{"input":null}', None),
        (b"{}", None),
    ],
)
def test_responses_user_tail(before: bytes, after: bytes | None) -> None:
    rewritten = _RESPONSES.rewrite(before, block="<B>", position=Position.USER_TAIL)
    assert rewritten == (before if after is None else after)
    if after is None:
        assert rewritten is before


@pytest.mark.parametrize("codec", [_CHAT, _RESPONSES], ids=["chat", "responses"])
def test_nothing_to_change_gives_the_same_object(codec: ChatCodec | ResponsesCodec) -> None:
    raw = b' {"messages": [ ], "input": "Hi", "x": 1.0 }\n'
    for position in Position:
        assert codec.rewrite(raw, block="", position=position) is raw
