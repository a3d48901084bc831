"""Whatever is in a request: of a request whose old tool results are replaced, every other byte is the same."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.edit import last, top_level
from semrouter_memory.codec.responses import ResponsesCodec
from semrouter_memory.codec.splice import elements, members
from semrouter_memory.config import CompressionConfig
from semrouter_memory.exchange.tool_results import shortened
from semrouter_memory.model import RecallOptions
from tests import json_texts

_id = st.sampled_from(["a", "b", "c"])
_long = st.one_of(st.text(max_size=30), st.integers(100, 900).map("é".__mul__))
_chat_messages: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, _long),
    st.builds(lambda text: {"role": "assistant", "content": text}, _long),
    st.builds(
        lambda name: {"role": "assistant", "tool_calls": [{"id": name, "function": {"name": f"tool {name}"}}]}, _id
    ),
    *[st.builds(lambda name, text: {"role": "tool", "tool_call_id": name, "content": text}, _id, _long)] * 3,
    st.builds(lambda name: {"role": "tool", "tool_call_id": name, "content": [{"type": "image_url"}]}, _id),
)
_items: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, _long),
    st.builds(lambda name: {"type": "function_call", "call_id": name, "name": f"tool {name}"}, _id),
    *[st.builds(lambda name, text: {"type": "function_call_output", "call_id": name, "output": text}, _id, _long)] * 3,
    st.builds(lambda name: {"type": "computer_call_output", "call_id": name, "output": {"x": "y" * 900}}, _id),
    st.just({"type": "item_reference", "id": "x"}),
)
_KEYS: dict[type[Codec], tuple[str, str]] = {ChatCodec: ("messages", "content"), ResponsesCodec: ("input", "output")}


def bounds(limit: int, last: int) -> tuple[RecallOptions, CompressionConfig]:
    return RecallOptions(limit=5, threshold=0.6, tool_result_tokens=limit), CompressionConfig(raw_tool_results=last)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Codec, bytes]:
    codec, each = draw(st.sampled_from([(ChatCodec(), _chat_messages), (ResponsesCodec(), _items)]))
    parts = [json.dumps(part, ensure_ascii=draw(st.booleans())).encode() for part in draw(st.lists(each, max_size=12))]
    array = b"[" + b",".join(draw(json_texts.space) + part for part in parts) + b"]"
    other = draw(json_texts.member(st.just(b'"other"'), json_texts.value))
    key = f'"{_KEYS[type(codec)][0]}":'.encode()
    return codec, b"{" + draw(json_texts.space) + other + b"," + key + array + b"}"


def _apart(codec: Codec, raw: bytes, places: set[int]) -> tuple[bytes, list[bytes]]:
    """The body without the results at these places, and the results."""
    array, key = _KEYS[type(codec)]
    member = last(top_level(raw), array)
    assert member is not None
    rest, found, at = b"", [], 0
    for place, span in enumerate(elements(raw, member.value.start)):
        held = last(list(members(raw, span.start)), key) if place in places else None
        if held is not None:
            rest += raw[at : held.value.start]
            found.append(raw[held.value.start : held.value.end])
            at = held.value.end
    return rest + raw[at:], found


@given(body=bodies(), limit=st.integers(1, 600), whole=st.integers(1, 4))
def test_every_byte_but_those_of_old_results_stays(body: tuple[Codec, bytes], limit: int, whole: int) -> None:
    codec, raw = body
    parsed = codec.parse(raw)
    results = codec.results(parsed)
    old = {result.place for result in results[: max(0, len(results) - whole)] if result.replaceable}
    found = shortened(codec, raw, parsed, *bounds(limit, whole))
    if found is None:
        return
    changed, read, report = found.body, found.parsed, found.results
    before, was = _apart(codec, raw, old)
    after, now = _apart(codec, changed, old)
    assert after == before
    differing = [(one, other) for one, other in zip(was, now, strict=True) if one != other]
    assert 0 < len(differing) == report.results
    assert all(b"\n" not in json.loads(line).encode() for _, line in differing)
    assert sum(len(result.text) for result in codec.results(read)) < sum(len(result.text) for result in results)
    assert (read.history, read.turn_texts) == (parsed.history, parsed.turn_texts)


@given(body=bodies(), limit=st.integers(1, 600), whole=st.integers(1, 4))
def test_it_stays_whole_exactly_below_the_limit(body: tuple[Codec, bytes], limit: int, whole: int) -> None:
    codec, raw = body
    parsed = codec.parse(raw)
    tokens = sum(-(-len(result.text.encode()) // 4) for result in codec.results(parsed))
    found = shortened(codec, raw, parsed, *bounds(limit, whole))
    assert found is None or tokens > limit
