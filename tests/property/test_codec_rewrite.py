"""Rewriting bodies as bytes does what editing the parsed body would do, and nothing else."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.edit import has_our_fields
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.codec.settings import OUR_FIELDS
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Message, Position, Role
from tests import json_texts

BLOCK = f'{BLOCK_OPEN}\n* "quoted" \\ Zürich 🏔\u2028\x01\n{BLOCK_CLOSE}'

_OURS = st.sampled_from(
    [b'"memory_config"', b'"memory_context"', rb'"memory\u005fconfig"', rb'"\u006demory_\u0063ontext"']
)
_ours = json_texts.member(_OURS, json_texts.value)
_other = json_texts.member(st.one_of(json_texts.string, st.just(b'"memory_config "')), json_texts.value)
_role = st.sampled_from(
    [b'"user"', b'"user"', rb'"us\u0065r"', b'"assistant"', b'"system"', b'"developer"', b'"tool"', b"null", b"[]"]
)
_part = st.one_of(json_texts.value, json_texts.string.map(lambda text: b'{"type": "text","text":' + text + b"}"))
_content = st.one_of(json_texts.string, json_texts.array(_part), st.sampled_from([b"null", b"7", b"{}"]))
_message = json_texts.object_of(
    st.lists(
        st.one_of(
            json_texts.member(st.sampled_from([b'"role"', rb'"rol\u0065"']), _role),
            json_texts.member(st.sampled_from([b'"content"', rb'"\u0063ontent"']), _content),
            _other,
        ),
        max_size=5,
    )
)
_messages = json_texts.array(st.one_of(_message, _message, _message, json_texts.value))
_chat = json_texts.object_of(
    st.lists(st.one_of(_ours, _other, json_texts.member(st.just(b'"messages"'), _messages)), max_size=6)
)
_typed = _message.map(lambda text: b'{"type":"message"' + (b"," if text.strip(b"{} \r\n\t") else b"") + text[1:])
_input = st.one_of(json_texts.string, json_texts.array(st.one_of(_message, _typed, json_texts.value)), st.just(b"null"))
_instructions = st.one_of(json_texts.string, st.sampled_from([b"null", b"7", b"[]"]))
_responses = json_texts.object_of(
    st.lists(
        st.one_of(
            _ours,
            _other,
            json_texts.member(st.just(b'"input"'), _input),
            json_texts.member(st.sampled_from([b'"instructions"', rb'"instruct\u0069ons"']), _instructions),
        ),
        max_size=6,
    )
)
bodies = st.one_of(
    st.tuples(st.just(ChatCodec()), st.builds(bytes.join, json_texts.space, st.tuples(st.just(b""), _chat))),
    st.tuples(st.just(ResponsesCodec()), _responses),
)


def _appended(content: Any, part_type: str | None) -> Any:
    if content is None:
        return BLOCK
    if isinstance(content, str):
        return f"{content}\n\n{BLOCK}" if content else BLOCK
    if isinstance(content, list) and part_type:
        return [*content, {"type": part_type, "text": f"\n\n{BLOCK}" if content else BLOCK}]
    return content


def _edited(codec: Codec, body: dict[str, Any], position: Position) -> dict[str, Any]:
    """The parsed body, edited as a parsed body."""
    body = {key: value for key, value in body.items() if key not in OUR_FIELDS}
    field, part_type = ("messages", "text") if isinstance(codec, ChatCodec) else ("input", "input_text")
    if isinstance(codec, ResponsesCodec) and position is Position.SYSTEM:
        return body | {"instructions": _appended(body.get("instructions"), None)}
    if field not in body:
        return body
    if isinstance(body[field], str):
        return body | {field: _appended(body[field], None)}
    items = body[field] or []
    roles = ("user",) if position is Position.USER_TAIL else ("system", "developer")
    places = [
        index
        for index, item in enumerate(items)
        if isinstance(item, dict)
        and item.get("role") in roles
        and (isinstance(codec, ChatCodec) or item.get("type", "message") == "message")
    ]
    if places:
        index = places[-1 if position is Position.USER_TAIL else 0]
        message = items[index] | {"content": _appended(items[index].get("content"), part_type)}
        items = [*items[:index], message, *items[index + 1 :]]
    elif position is Position.SYSTEM:
        items = [{"role": "system", "content": BLOCK}, *items]
    return body | {field: items} if items else body


def _accepted(codec: Codec, raw: bytes) -> bool:
    try:
        codec.parse(raw)
    except BodyError:
        return False
    return True


@given(body=bodies, position=st.sampled_from(Position))
def test_rewriting_is_editing_the_parsed_body(body: tuple[Codec, bytes], position: Position) -> None:
    codec, raw = body
    if _accepted(codec, raw):
        rewritten = codec.rewrite(raw, block=BLOCK, position=position)
        assert orjson.loads(rewritten) == _edited(codec, orjson.loads(raw), position)


@given(body=bodies, position=st.sampled_from(Position))
def test_insertion_is_one_piece_and_every_other_byte_stays(body: tuple[Codec, bytes], position: Position) -> None:
    """Only null, where a text belongs, is replaced."""
    codec, raw = body
    if not _accepted(codec, raw):
        return
    bare = codec.rewrite(raw, block="", position=position)
    full = codec.rewrite(raw, block=BLOCK, position=position)
    prefix = next((at for at, (a, b) in enumerate(zip(bare, full, strict=False)) if a != b), len(bare))
    suffix = len(bare) - prefix
    while suffix and not full.endswith(bare[-suffix:]):
        suffix -= 1
    assert bare[prefix : len(bare) - suffix] in (b"", b"null")


@given(body=bodies, position=st.sampled_from(Position))
def test_a_place_is_announced_exactly_when_something_is_inserted(body: tuple[Codec, bytes], position: Position) -> None:
    codec, raw = body
    if _accepted(codec, raw):
        inserted = codec.rewrite(raw, block=BLOCK, position=position) != codec.rewrite(raw, block="", position=position)
        assert codec.has_place(codec.parse(raw), position) == inserted


@given(body=bodies, position=st.sampled_from(Position), odd=st.sampled_from(["1e400", "-1E+999", "NaN", "-Infinity"]))
def test_what_only_lenient_parsers_read_is_edited_like_the_rest(
    body: tuple[Codec, bytes], position: Position, odd: str
) -> None:
    """A byte order mark, numbers beyond a double, halves of surrogate pairs: our fields leave, the block comes."""
    codec, raw = body
    if not _accepted(codec, raw):
        return
    begin = raw.index(b"{") + 1
    more = f'"odd":{odd},"hal\\ud83d":"\\udc00 \\ud83d"'.encode() + (b"," if orjson.loads(raw) else b"")
    inserted = b"\xef\xbb\xbf" + raw[:begin] + more + raw[begin:]
    expected = codec.rewrite(raw, block=BLOCK, position=position)
    rewritten = codec.rewrite(inserted, block=BLOCK, position=position)
    assert not has_our_fields(codec.parse(rewritten).body or {})
    if orjson.loads(expected) and orjson.loads(raw):
        assert codec.parse(rewritten).visible == codec.parse(expected).visible
    assert rewritten.startswith(inserted[: begin + len(more) - 1])


@given(body=bodies, position=st.sampled_from(Position))
def test_taking_our_fields_out_leaves_the_rest_as_it_was(body: tuple[Codec, bytes], position: Position) -> None:
    codec, raw = body
    if not _accepted(codec, raw):
        return
    bare = codec.rewrite(raw, block="", position=position)
    parsed = orjson.loads(raw)
    if any(field in parsed for field in OUR_FIELDS):
        assert not has_our_fields(codec.parse(bare).body or {})
        assert orjson.loads(bare) == {key: value for key, value in parsed.items() if key not in OUR_FIELDS}
        remaining = iter(raw)
        assert all(byte in remaining for byte in bare), "the result is the original with bytes left out"
    else:
        assert bare is raw


@given(members=st.lists(st.one_of(_ours, _other), max_size=6), data=st.data())
def test_members_that_stay_are_the_same_bytes(members: list[bytes], data: st.DataObject) -> None:
    raw = data.draw(json_texts.object_of(st.just(members)))
    bare = ChatCodec().rewrite(raw, block="", position=Position.SYSTEM)
    at = 0
    for member in members:
        if not has_our_fields(ChatCodec().parse(b"{" + member + b"}").body or {}):
            assert member in bare[at:]
            at = bare.index(member, at) + len(member)


@given(value=json_texts.value | st.binary(max_size=20))
@pytest.mark.parametrize("codec", [ChatCodec(), ResponsesCodec()], ids=["chat", "responses"])
@pytest.mark.parametrize("field", ["messages", "input", "memory_config", "memory_context", "tools", "conversation"])
def test_parsing_raises_nothing_but_body_errors(codec: Codec, field: str, value: bytes) -> None:
    _accepted(codec, value)
    _accepted(codec, b'{"' + field.encode() + b'":' + value + b"}")


@given(body=bodies, position=st.sampled_from(Position))
def test_a_block_is_seen_but_is_none_of_the_conversation(body: tuple[Codec, bytes], position: Position) -> None:
    """When a rewritten body comes back, history and turn are those of the original, but for white space at an end."""
    codec, raw = body
    if not _accepted(codec, raw):
        return
    before = codec.parse(raw)
    after = codec.parse(codec.rewrite(raw, block=BLOCK, position=position))
    assert _trimmed(after.history) == _trimmed(before.history)
    assert after.query.rstrip() == before.query.rstrip()


def _trimmed(history: Sequence[Message]) -> list[tuple[Role, str]]:
    return [(message.role, message.text.rstrip()) for message in history]
