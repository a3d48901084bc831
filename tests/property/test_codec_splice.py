"""The scanner agrees with parsers about where every value stands, whatever the text looks like."""

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.codec.splice import Edit, apply, document, elements, members
from tests import json_texts

_texts = st.one_of(json_texts.value, st.builds(json_texts.nested, json_texts.value, st.integers(0, 40)))


class _Pairs(list[tuple[str, Any]]):
    """An object with its duplicate keys."""


def _check(raw: bytes, start: int, end: int) -> None:
    parsed = json.loads(raw[start:end], object_pairs_hook=_Pairs)
    if isinstance(parsed, _Pairs):
        found = list(members(raw, start))
        assert [member.key for member in found] == [key for key, _ in parsed]
        for member, (key, value) in zip(found, parsed, strict=True):
            assert json.JSONDecoder().raw_decode(raw[member.start :].decode())[0] == key
            assert json.loads(raw[slice(*member.value)], object_pairs_hook=_Pairs) == value
            _check(raw, *member.value)
    elif isinstance(parsed, list):
        spans = list(elements(raw, start))
        assert [json.loads(raw[slice(*span)], object_pairs_hook=_Pairs) for span in spans] == parsed
        for span in spans:
            _check(raw, *span)


@given(before=json_texts.space, text=_texts, after=json_texts.space)
def test_every_value_is_found_where_it_stands(before: bytes, text: bytes, after: bytes) -> None:
    raw = before + text + after
    orjson.loads(raw)  # what a codec accepts
    span = document(raw)
    assert raw[slice(*span)] == text
    _check(raw, *span)


@given(raw=st.binary(max_size=30), data=st.data())
def test_edits_change_nothing_outside_their_spans(raw: bytes, data: st.DataObject) -> None:
    """Edits in any order give what replacing them from the back gives."""
    places = sorted(
        data.draw(st.lists(st.integers(0, len(raw)), min_size=0, max_size=8).filter(lambda x: not len(x) % 2))
    )
    edits = [
        Edit(start, end, data.draw(st.binary(max_size=3))) for start, end in zip(places[::2], places[1::2], strict=True)
    ]
    expected = bytearray(raw)
    for edit in sorted(edits, reverse=True):
        expected[edit.start : edit.end] = edit.text
    assert apply(raw, data.draw(st.permutations(edits))) == bytes(expected)
