"""Changes texts in a JSON document and leaves every other byte of it as it was. Pure.

The caller has parsed the document before, so nothing here validates.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import orjson

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
    """Whether this is a JSON object or array."""
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
