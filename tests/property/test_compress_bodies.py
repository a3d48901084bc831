"""Leaving turns out of a body takes whole turns and nothing else."""

from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.model import Position
from tests import json_texts

BLOCK = '<!-- semrouter-memory:begin -->\n{"topic":"\\u003c"}\n<!-- semrouter-memory:end -->'

_text = st.sampled_from(["Hi", "Zürich 🏔", "a\nb", "", "我的预算"])
_id = st.sampled_from(["1", "2", "3", ""])
_parts = st.sampled_from(
    [
        [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
        [{"type": "new"}],
        [],
        None,
    ]
)
_content = st.one_of(_text, _text, _parts)
_chat_message = st.one_of(
    st.builds(lambda content: {"role": "user", "content": content}, _content),
    st.builds(lambda content: {"role": "user", "content": content}, _content),
    st.builds(lambda content: {"role": "assistant", "content": content}, _content),
    st.builds(lambda content: {"role": "assistant", "content": content}, _content),
    st.builds(lambda text: {"role": "system", "content": text}, _text),
    st.builds(lambda text: {"content": text, "role": "developer"}, _text),
    st.builds(
        lambda ids: {"role": "assistant", "tool_calls": [{"id": i, "function": {"name": "f"}} for i in ids]},
        st.lists(_id, min_size=1, max_size=2),
    ),
    st.builds(lambda call_id: {"role": "tool", "tool_call_id": call_id, "content": "r"}, _id),
    st.sampled_from([7, None, "text", [], {}, {"role": "weird", "content": "w"}]),
)
_item = st.one_of(
    st.builds(lambda content: {"role": "user", "content": content}, _content),
    st.builds(lambda content: {"type": "message", "role": "assistant", "content": content}, _content),
    st.builds(lambda text: {"role": "developer", "content": text}, _text),
    st.builds(lambda call_id: {"type": "function_call", "call_id": call_id, "name": "f"}, _id),
    st.builds(lambda call_id: {"type": "function_call_output", "call_id": call_id, "output": "r"}, _id),
    st.sampled_from([{"type": "reasoning", "id": "rs"}, {"type": "web_search_call"}, 7, None]),
    st.sampled_from([{"type": "compaction", "encrypted_content": "x"}, {"type": "new_kind"}]),
)


@st.composite
def _bodies(draw: st.DrawFn) -> tuple[Codec, bytes]:
    codec: Codec = ChatCodec() if draw(st.booleans()) else ResponsesCodec()
    chat = isinstance(codec, ChatCodec)
    elements = draw(st.lists(_chat_message if chat else _item, max_size=16))
    texts = [draw(json_texts.space) + orjson.dumps(element) + draw(json_texts.space) for element in elements]
    array = b"[" + b",".join(texts) + b"]"
    return codec, b'{"n": 1.50, "' + (b"messages" if chat else b"input") + b'":' + array + b', "x":null}'


def _array(codec: Codec, raw: bytes) -> list[Any]:
    found: list[Any] = orjson.loads(raw)["messages" if isinstance(codec, ChatCodec) else "input"]
    return found


def _shortened(codec: Codec, raw: bytes, count: int, *, block: str = "") -> tuple[bytes, frozenset[int]]:
    parsed = codec.parse(raw)
    turns = codec.outline(parsed).turns[:count]
    dropped = frozenset(place for turn in turns for place in turn.places)
    position = Position.SYSTEM
    return codec.rewrite(raw, block=block, position=position, parsed=parsed, dropped=dropped), dropped


_count = st.integers(0, 8)


@given(body=_bodies(), count=_count)
def test_what_stays_are_the_other_messages_and_every_byte_of_them(body: tuple[Codec, bytes], count: int) -> None:
    codec, raw = body
    rewritten, dropped = _shortened(codec, raw, count)
    before = _array(codec, raw)

    assert _array(codec, rewritten) == [element for at, element in enumerate(before) if at not in dropped]
    remaining = iter(raw)
    assert all(byte in remaining for byte in rewritten), "the result is the original with bytes left out"
    if not dropped:
        assert rewritten is raw


@given(body=_bodies(), count=_count)
def test_only_words_of_the_conversation_leave(body: tuple[Codec, bytes], count: int) -> None:
    codec, raw = body
    _, dropped = _shortened(codec, raw, count)
    elements = _array(codec, raw)

    assert all(isinstance(elements[at], dict) for at in dropped)
    assert all(elements[at].get("role") not in ("system", "developer", "weird") for at in dropped)


@given(body=_bodies(), count=_count)
def test_nothing_leaves_that_no_text_can_stand_for(body: tuple[Codec, bytes], count: int) -> None:
    codec, raw = body
    _, dropped = _shortened(codec, raw, count)
    elements = _array(codec, raw)

    for at in dropped:
        content = elements[at].get("content")
        assert not isinstance(content, list) or all(part["type"] == "text" for part in content)
        assert elements[at].get("type") not in ("compaction", "new_kind")


@given(body=_bodies(), count=_count)
def test_the_turn_under_way_stays_whole(body: tuple[Codec, bytes], count: int) -> None:
    codec, raw = body
    rewritten, _ = _shortened(codec, raw, count)
    before, after = codec.parse(raw), codec.parse(rewritten)

    assert after.turn_texts == before.turn_texts
    assert after.tools == before.tools
    assert after.in_tool_loop == before.in_tool_loop
    # What stays is in its order. It need not be the end: a message with an image stays in the middle of what leaves.
    remaining = iter(before.history)
    assert all(message in remaining for message in after.history)


@given(body=_bodies(), count=_count)
def test_no_call_is_parted_from_its_result(body: tuple[Codec, bytes], count: int) -> None:
    codec, raw = body
    _, dropped = _shortened(codec, raw, count)
    called: dict[str, int] = {}
    for at, element in enumerate(_array(codec, raw)):
        for call_id in _answers(element):
            if call_id in called:
                assert (called[call_id] in dropped) == (at in dropped)
        called.update(dict.fromkeys(_calls(element), at))


@given(body=_bodies(), count=_count)
def test_the_same_request_is_shortened_to_the_same_bytes(body: tuple[Codec, bytes], count: int) -> None:
    codec, raw = body
    once, dropped = _shortened(codec, raw, count, block=BLOCK)

    assert once == _shortened(codec, raw, count, block=BLOCK)[0]
    assert once == codec.rewrite(raw, block=BLOCK, position=Position.SYSTEM, dropped=dropped)
    orjson.loads(once)


@given(body=_bodies(), count=_count)
def test_the_state_is_seen_and_is_none_of_the_conversation(body: tuple[Codec, bytes], count: int) -> None:
    codec, raw = body
    bare, _ = _shortened(codec, raw, count)
    full, _ = _shortened(codec, raw, count, block=BLOCK)

    assert BLOCK in "\n".join(codec.parse(full).visible)
    assert codec.parse(full).history == codec.parse(bare).history


def _calls(element: Any) -> Sequence[str]:
    if not isinstance(element, dict):
        return ()
    if element.get("type") == "function_call":
        return (element["call_id"],)
    return [call["id"] or "f" for call in element.get("tool_calls", [])]


def _answers(element: Any) -> Sequence[str]:
    if not isinstance(element, dict):
        return ()
    if element.get("type") == "function_call_output":
        return (element["call_id"],)
    return (element["tool_call_id"],) if element.get("role") == "tool" else ()


_own = st.one_of(_text, st.lists(_item, max_size=4))
_members = st.fixed_dictionaries(
    {"input": _own, "previous_response_id": st.just("r1")},
    optional={"instructions": _text, "model": st.just("m"), "memory_config": st.just({}), "n": st.just(1.5)},
)


@given(members=_members, order=st.randoms(use_true_random=False), earlier=st.lists(_item, max_size=3), data=st.data())
def test_a_rebuilt_chain_is_the_parsed_body_with_the_items_before_its_own(
    members: dict[str, Any], order: Any, earlier: list[Any], data: st.DataObject
) -> None:
    names = list(members)
    order.shuffle(names)
    raw = orjson.dumps({name: members[name] for name in names})
    block = data.draw(st.sampled_from(["", BLOCK]))
    rewritten = ResponsesCodec().rewrite(raw, block=block, position=data.draw(st.sampled_from(Position)), items=earlier)
    own = members["input"]
    expected = {name: members[name] for name in names if name not in ("previous_response_id", "memory_config")}
    expected["input"] = [
        *earlier,
        *([{"type": "message", "role": "user", "content": own}] if isinstance(own, str) else own),
    ]
    if block:
        before = members.get("instructions")
        expected["instructions"] = f"{before}\n\n{block}" if before else block

    assert orjson.loads(rewritten) == expected
