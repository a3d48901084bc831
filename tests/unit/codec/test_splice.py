"""The scanner on texts that its short cuts were made for, and on those that they must not trip over."""

import json

import pytest

from semrouter_memory.codec.splice import Edit, Span, apply, document, element, elements, members


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b'""', id="empty string"),
        pytest.param(rb'"\""', id="escaped quote"),
        pytest.param(rb'"\\"', id="escaped backslash"),
        pytest.param(rb'"\\\""', id="escaped backslash and quote"),
        pytest.param(rb'"a\\\\\\"', id="three escaped backslashes"),
        pytest.param(rb'"\\\"\\"', id="both in turn"),
        pytest.param(b'"' + b"x" * 5000 + b'"', id="long string"),
        pytest.param(b'"' + b"x" * 5000 + rb"\\" + b'"', id="long string that ends in a backslash"),
        pytest.param(b'"' + rb"\"" * 500 + b'"', id="many quotes"),
        pytest.param(b'"' + rb"\\\"" * 500 + b'"', id="JSON in JSON in JSON"),
        pytest.param(b'"' + (b"x" * 1025 + rb"\"") * 3 + b'"', id="quotes far apart"),
        pytest.param(b"[" * 9 + b"]" * 9, id="nested as deep as the pattern goes"),
        pytest.param(b"[" * 11 + b"]" * 11, id="nested deeper"),
        pytest.param(b"[[1]," * 900 + b"1" + b"]" * 900, id="nested as deep as parsers go"),
        pytest.param(b'[{"a":"]"},"{",[[]],{}]', id="brackets in strings"),
        pytest.param(b"-1.5e+10", id="number"),
        pytest.param(b"null", id="null"),
    ],
)
def test_value_ends_where_it_ends(value: bytes) -> None:
    """Alone, as a member, as an element, and inside of deeper containers."""
    json.loads(value)
    assert document(value) == Span(0, len(value))
    raw = b' { "k" : ' + value + b' , "l":' + value + b"}"
    assert [raw[slice(*member.value)] for member in members(raw, 1)] == [value, value]
    raw = b"[" + value + b" , " + value + b"]"
    assert [raw[slice(*span)] for span in elements(raw, 0)] == [value, value]
    raw = b'{"a":[[' + value + b'],{"b":' + value + b"}]} "
    assert document(raw) == Span(0, len(raw) - 1)


@pytest.mark.parametrize("raw", [b"{}", b"{ }", b"[]", b"[\r\n\t ]"])
def test_empty_containers_have_nothing_in_them(raw: bytes) -> None:
    assert list(members(raw, 0)) == []
    assert list(elements(raw, 0)) == []
    assert document(raw) == Span(0, len(raw))


def test_keys_are_decoded_and_duplicates_kept() -> None:
    raw = rb'{"a":1,"\u0061":2,"b\"":3,"Z\u00fcrich":4,"":5}'
    assert [member.key for member in members(raw, 0)] == ["a", "a", 'b"', "Zürich", ""]


def test_element_by_index() -> None:
    raw = b'[1, "two" ,[3]]'
    assert [raw[slice(*element(raw, document(raw), index))] for index in range(3)] == [b"1", b'"two"', b"[3]"]


def test_no_edits_give_the_same_object() -> None:
    raw = b"{}"
    assert apply(raw, []) is raw


def test_insertion_goes_before_a_replacement_at_the_same_place() -> None:
    assert apply(b"abc", [Edit(1, 2), Edit(1, 1, b"X")]) == b"aXc"
