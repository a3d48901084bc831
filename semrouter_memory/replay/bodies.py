"""Bodies with other texts: JSON, server-sent events and plain text, whole or in chunks, compressed or not. Pure.

Strategy: a body is changed as a whole, because a secret or a word may be cut by chunks, and then cut again where it was
cut before. Of JSON only the texts change; of a stream of events only the texts of their JSON, those that arrive in
pieces (deltas) joined, changed and cut again. Unreadable parts are blanked out, because
their content is unknown.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import AnyStr, NamedTuple, Protocol

import orjson

from semrouter_memory.codec.encoding import decoder_for, encoded
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Json

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")

Path = tuple[str, ...]


class Value(NamedTuple):
    """A string or number of the document.

    Attributes:
        path: the keys that lead to it; the elements of an array have the array's.
        start: where it begins, in bytes.
        raw: as it is written, quotes included.
    """

    path: Path
    start: int
    raw: bytes

    @property
    def is_text(self) -> bool:
        return self.raw[:1] == b'"'

    @property
    def text(self) -> str:
        text: str = orjson.loads(self.raw) if self.is_text else self.raw.decode()
        return text


def is_json(data: bytes) -> bool:
    if data.lstrip()[:1] not in _OPENING:
        return False
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def values(data: bytes) -> Iterator[Value]:
    """The strings, numbers and literals of the document that are no keys, in order."""
    path: list[str] = []
    in_object: list[bool] = []
    key: str | None = None
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token in _OPENING:
            path.append(key if key is not None else "")
            in_object.append(token == b"{")
            key = None
        elif token in _CLOSING:
            path.pop()
            in_object.pop()
            key = None
        elif token == b",":
            key = None
        elif in_object and in_object[-1] and key is None:
            key = orjson.loads(token)
        elif token != b":":
            yield Value(tuple(name for name in (*path, key) if name), match.start(), token)


def replaced(data: bytes, new: Callable[[Value], str | None]) -> bytes:
    """The document with other values.

    Args:
        new: the text for a value, None to leave it as it is.
    """
    pieces: list[bytes] = []
    at = 0
    for value in values(data):
        text = new(value)
        if text is None:
            continue
        pieces += (data[at : value.start], orjson.dumps(text) if value.is_text else text.encode())
        at = value.start + len(value.raw)
    return b"".join((*pieces, data[at:])) if pieces else data


BLANK = b"[not recorded]"

_DATA_LINE = re.compile(rb"^data: ?([^\r\n]*)", re.MULTILINE)
_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry|):")
_MAX_DECODED_BYTES = 256 * 1024 * 1024


class Scrubber(Protocol):
    """Says what stands in place of what."""

    def text(self, text: str) -> str:
        """Of running text."""

    def value(self, value: Value) -> str | None:
        """Of a JSON value; None: it stays."""

    def inner(self, value: Value) -> str | None:
        """Of a value of JSON that is a text itself, as tools' arguments are; None: it stays."""

    def binary(self, data: bytes) -> bytes:
        """Of what is no text."""


def scrubbed_chunks(chunks: Sequence[bytes], content_encoding: str, scrubber: Scrubber) -> list[bytes]:
    """The chunks of a body, as many as there were."""
    whole = b"".join(chunks)
    if not whole:
        return list(chunks)
    plain = _decoded(whole, content_encoding)
    if plain is None:
        return recut(BLANK, [len(chunk) for chunk in chunks])
    changed = scrubbed(plain, scrubber)
    if changed == plain:
        return list(chunks)
    return recut(encoded(changed, content_encoding), [len(chunk) for chunk in chunks])


def scrubbed(data: bytes, scrubber: Scrubber) -> bytes:
    """A whole body that is not compressed."""
    if is_json(data):
        return replaced(data, scrubber.value)
    if _EVENTS.match(data):
        return _events(data, scrubber)
    try:
        return scrubber.text(data.decode()).encode()
    except UnicodeDecodeError:
        return scrubber.binary(data)


def recut(data: AnyStr, sizes: Sequence[int]) -> list[AnyStr]:
    """The data in as many pieces as there are sizes, cut at the same places, or in proportion when it is not as long."""
    ends = list(accumulate(sizes, initial=0))
    total = ends[-1]
    places = [end if total == len(data) else end * len(data) // max(total, 1) for end in ends]
    return [data[start:end] for start, end in pairwise(places)]


def _decoded(data: bytes, content_encoding: str) -> bytes | None:
    decoder = decoder_for(content_encoding, max_bytes=_MAX_DECODED_BYTES)
    try:
        return decoder.decode(data) if decoder else None
    except BodyError:
        return None


class _Piece(NamedTuple):
    """A delta of an event.

    Attributes:
        event: number of its data line.
        start: where its value begins in that line's JSON.
    """

    event: int
    start: int
    text: str


def _events(data: bytes, scrubber: Scrubber) -> bytes:
    lines = [match.span(1) for match in _DATA_LINE.finditer(data)]
    payloads = [data[start:end] for start, end in lines]
    deltas = _scrubbed_deltas(payloads, scrubber)
    pieces: list[bytes] = []
    at = 0
    for number, ((start, end), payload) in enumerate(zip(lines, payloads, strict=True)):
        pieces += (data[at:start], _payload(payload, deltas.get(number, {}), scrubber))
        at = end
    return b"".join((*pieces, data[at:]))


def _payload(payload: bytes, deltas: dict[int, str], scrubber: Scrubber) -> bytes:
    if payload == b"[DONE]":
        return payload
    if not is_json(payload):
        # An event of another shape; line feeds cannot come in by changing words.
        return scrubbed(payload, scrubber) if not _EVENTS.match(payload) else BLANK
    return replaced(payload, lambda value: deltas.get(value.start) or _unless_delta(value, scrubber))


def _unless_delta(value: Value, scrubber: Scrubber) -> str | None:
    return "" if value.is_text and _is_delta(value) and not value.text else scrubber.value(value)


def _is_delta(value: Value) -> bool:
    return "delta" in value.path and value.path[-1] in _DELTAS


_DELTAS = frozenset({"delta", "content", "reasoning_content", "reasoning", "refusal", "arguments", "text"})


def _scrubbed_deltas(payloads: Sequence[bytes], scrubber: Scrubber) -> dict[int, dict[int, str]]:
    """Event -> offset of a value -> its text, of all texts that arrive in pieces."""
    channels: dict[Json, list[_Piece]] = {}
    for number, payload in enumerate(payloads):
        if not is_json(payload):
            continue
        found = list(values(payload))
        whose = tuple(value.raw for value in found if value.path and value.path[-1] in _CHANNEL)
        for value in found:
            if value.is_text and _is_delta(value):
                channels.setdefault((value.path, whose), []).append(_Piece(number, value.start, value.text))
    new: dict[int, dict[int, str]] = {}
    for pieces in channels.values():
        whole = "".join(piece.text for piece in pieces)
        texts = recut(nested(whole, scrubber) or scrubber.text(whole), [len(piece.text) for piece in pieces])
        for piece, text in zip(pieces, texts, strict=True):
            new.setdefault(piece.event, {})[piece.start] = text
    return new


_CHANNEL = frozenset({"index", "output_index", "content_index", "summary_index", "item_id", "type"})
"""What tells the texts of one stream apart."""


def nested(text: str, scrubber: Scrubber) -> str | None:
    """A text that is JSON itself, as tools' arguments are; None when it is not."""
    data = text.encode("utf-8", "replace")
    if not is_json(data):
        return None
    return replaced(data, scrubber.inner).decode()
