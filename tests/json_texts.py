"""Hypothesis strategies for JSON texts as nobody pretty-prints them: any white space, escapes, duplicate keys."""

import json

from hypothesis import strategies as st

space = st.sampled_from([b"", b"", b"", b" ", b"\n\t", b" \r\n "])

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_tricky = st.sampled_from(
    [
        rb'""',
        rb'"\\"',
        rb'"\""',
        rb'"\\\""',
        rb'"\\\\"',
        rb'"a\\\\\"b\\"',
        rb'"\u0022\u005c"',
        rb'"[{,:"',
        rb'"}]\"]}"',
        rb'"/\/\b\f\n"',
        b'"' + b"x" * 3000 + b'"',
        b'"' + rb"\"" * 100 + b'"',
        b'"' + rb"\\\"\\" * 100 + b'"',
    ]
)
string = st.one_of(
    _text.map(lambda text: json.dumps(text).encode()),
    _text.map(lambda text: json.dumps(text, ensure_ascii=False).encode()),
    _tricky,
)
scalar = st.one_of(
    string, st.sampled_from([b"null", b"true", b"false", b"0", b"-0", b"1.50", b"1E+2", b"-1.0e-7", b"12345678901234"])
)


@st.composite
def array(draw: st.DrawFn, element: st.SearchStrategy[bytes]) -> bytes:
    elements = draw(st.lists(element, max_size=5))
    padded = [draw(space) + element + draw(space) for element in elements]
    return b"[" + (b",".join(padded) or draw(space)) + b"]"


@st.composite
def member(draw: st.DrawFn, key: st.SearchStrategy[bytes], value: st.SearchStrategy[bytes]) -> bytes:
    return draw(key) + draw(space) + b":" + draw(space) + draw(value)


@st.composite
def object_of(draw: st.DrawFn, members: st.SearchStrategy[list[bytes]]) -> bytes:
    padded = [draw(space) + member + draw(space) for member in draw(members)]
    return b"{" + (b",".join(padded) or draw(space)) + b"}"


value = st.recursive(
    scalar,
    lambda inner: st.one_of(array(inner), object_of(st.lists(member(string, inner), max_size=4))),
    max_leaves=12,
)
"""Any JSON value, without white space around it."""


def nested(text: bytes, depth: int) -> bytes:
    """The value, that many containers deep, with siblings on the way."""
    for level in range(depth):
        text = b'{"a":[], "b":' + text + b',"c":"]"}' if level % 2 else b'[0,"}", ' + text + b" ,{}]"
    return text
