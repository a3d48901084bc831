"""Positions of values in a JSON text, and editing the text there as bytes.

Strategy: the text was accepted by a JSON parser before, so nothing here validates; a scanner only has to tell where
each value begins and ends. What is neither long nor deep is skipped by one compiled pattern, a long string by searching
its closing quote, deep nesting bracket by bracket: linear in the text, without recursion, and a large base64 string
costs next to nothing. Edits are collected as spans and applied in one go, so bytes outside them stay.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from semrouter_memory.codec.json_text import BOM, parsed_json

_QUOTE, _BACKSLASH, _COMMA, _OPEN_OBJECT, _OPEN_ARRAY = b'"\\,{['
_CLOSING = frozenset(b"]}")

_SPACE = re.compile(rb"[ \t\n\r]*+")
_COLON = re.compile(rb"[ \t\n\r]*+:[ \t\n\r]*+")
_SCALAR = re.compile(rb"[^,\]} \t\n\r]++")
_STRING_REST = re.compile(rb'(?:[^"]*+"(?<=[^\\]\\"))*+[^"]*+"(?<!\\")')
"""From inside a string to behind its closing quote: over quotes behind one backslash to a quote behind none.

Looking only at quotes is several times faster than looking at every escape, but gives up at a quote behind several
backslashes. (`(?<=...)` looks back, the quote itself included.)
"""
_STRING_REST_EXACT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)

# Bounded, because a long string is found faster by its end alone.
_STRING = rb'"(?:[^"]{0,256}+"(?<=[^\\]\\")){0,32}+[^"]{0,256}+"(?<!\\")'
_PLAIN = rb'[^"\[\]{}]++|' + _STRING
_DEPTH = 10
"""Containers nested no deeper than this are skipped by the pattern alone."""


def _container(depth: int) -> bytes:
    nested = b"|" + _container(depth - 1) if depth > 1 else b""
    return rb"[\[{](?:" + _PLAIN + nested + rb")*+[\]}]"


_INSIDE = re.compile(rb"(?:" + _PLAIN + rb"|" + _container(_DEPTH) + rb")*+")
"""As much of a container's inside as can be skipped without counting brackets."""


class Span(NamedTuple):
    """Byte offsets of a value, white space around it excluded."""

    start: int
    end: int


class Member(NamedTuple):
    """A member of an object: from its key's opening quote to the end of its value."""

    key: str
    start: int
    value: Span


class Edit(NamedTuple):
    """Replace the bytes from `start` to `end` by `text`; with `start == end`, insert."""

    start: int
    end: int
    text: bytes = b""


def document(raw: bytes) -> Span:
    """The one value of a JSON text."""
    start = _after(_SPACE, raw, len(BOM) if raw.startswith(BOM) else 0)
    return Span(start, value_end(raw, start))


def members(raw: bytes, start: int) -> Iterator[Member]:
    """The members of the object that opens at `start`, in order, duplicates included; keys are decoded."""
    at = _after(_SPACE, raw, start + 1)
    while raw[at] not in _CLOSING:
        key_end = _string_end(raw, at)
        value = _after(_COLON, raw, key_end)
        end = value_end(raw, value)
        yield Member(_decoded(raw, at, key_end), at, Span(value, end))
        at = _next(raw, end)


def elements(raw: bytes, start: int) -> Iterator[Span]:
    """The elements of the array that opens at `start`, in order."""
    at = _after(_SPACE, raw, start + 1)
    while raw[at] not in _CLOSING:
        end = value_end(raw, at)
        yield Span(at, end)
        at = _next(raw, end)


def element(raw: bytes, array: Span, index: int) -> Span:
    """The element with that index, which must be there."""
    return next(islice(elements(raw, array.start), index, None))


def value_end(raw: bytes, start: int) -> int:
    """The offset behind the value that begins at `start`."""
    first = raw[start]
    if first == _QUOTE:
        return _string_end(raw, start)
    if first in (_OPEN_OBJECT, _OPEN_ARRAY):
        return _container_end(raw, start)
    return _after(_SCALAR, raw, start)


def apply(raw: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with edits that do not overlap; `raw` itself without any."""
    pieces: list[bytes] = []
    at = 0
    for edit in sorted(edits):
        pieces += (raw[at : edit.start], edit.text)
        at = edit.end
    return b"".join((*pieces, raw[at:])) if pieces else raw


def _container_end(raw: bytes, start: int) -> int:
    at, depth = start + 1, 1
    while depth:
        at = _after(_INSIDE, raw, at)
        byte = raw[at]
        if byte == _QUOTE:
            at = _string_end(raw, at)
        else:
            depth += -1 if byte in _CLOSING else 1
            at += 1
    return at


def _string_end(raw: bytes, start: int) -> int:
    quote = raw.find(b'"', start + 1)
    if raw[quote - 1] != _BACKSLASH:
        return quote + 1
    match = _STRING_REST.match(raw, start + 1)
    return match.end() if match is not None else _after(_STRING_REST_EXACT, raw, start + 1)


def _next(raw: bytes, end: int) -> int:
    """From the end of a value to the next key or element, or to the closing bracket."""
    at = _after(_SPACE, raw, end)
    return _after(_SPACE, raw, at + 1) if raw[at] == _COMMA else at


def _after(pattern: re.Pattern[bytes], raw: bytes, at: int) -> int:
    match = pattern.match(raw, at)
    assert match is not None, "the text was accepted by a parser before"
    return match.end()


def _decoded(raw: bytes, start: int, end: int) -> str:
    key: str = parsed_json(raw[start:end])
    return key
