"""How many values a body may hold: real ones, not what looks like them inside a string."""

import pytest

from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.json_text import MAX_VALUES, holds_too_many_values
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.errors import BodyError


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        (b"[1,2,3]", 4),
        (b'{"a":{},"b":[[]]}', 5),
        (b'["a,[{","\\",",3]', 4),
        (b'[["x"]]', 3),
        (b'"' + b"," * 99 + b'"', 2),
    ],
)
def test_values_are_counted_and_strings_are_one(raw: bytes, values: int) -> None:
    """One more is counted at the least: the comma and the bracket before a value."""
    assert not holds_too_many_values(raw, max_values=values)
    assert holds_too_many_values(raw, max_values=1)


@pytest.mark.parametrize(
    "filler", [b"[],", b"{},", b'{"a":0},', b'"ab",', b"1,", b"[[]],", b"[" * 500 + b"]" * 500 + b","]
)
@pytest.mark.parametrize("codec", [ChatCodec(), ResponsesCodec()], ids=["chat", "responses"])
def test_a_body_of_nothing_but_small_values_is_refused(codec: ChatCodec | ResponsesCodec, filler: bytes) -> None:
    raw = b'{"messages":[' + filler * (3_000_000 // len(filler)) + b"0]}"
    with pytest.raises(BodyError):
        codec.parse(raw)


@pytest.mark.parametrize("text", [rb"\"a\", [1, 2], {}, ", rb"\\\",", b"a, b, c, ", rb"\u0022,"])
def test_a_long_text_of_code_is_read(text: bytes) -> None:
    raw = b'{"messages":[{"role":"user","content":"' + text * (5_000_000 // len(text)) + b'"}]}'
    assert len(ChatCodec().parse(raw).query) > 1_000_000


def test_thousands_of_messages_are_read() -> None:
    message = b'{"role":"user","content":[{"type":"text","text":"a, b"}]}'
    raw = b'{"messages":[' + b",".join([message] * 20_000) + b"]}"
    assert len(ChatCodec().parse(raw).turn_texts) == 20_000


@pytest.mark.parametrize("raw", [b'"' + rb"\"" * 500_000, b'"' * 999_999, b"\\" * 999_999, b'"' + b"\\" * 999_999])
def test_what_is_no_json_is_counted_in_one_pass(raw: bytes) -> None:
    """A string without an end must not be looked for from each of its quotes: the suite's time limit would tell."""
    holds_too_many_values(raw + b"," * (MAX_VALUES + 1))
