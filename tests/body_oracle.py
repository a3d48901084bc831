"""An independent judge of changed request bodies: only our insertion and the removal of our fields may tell them apart.

It knows nothing of how bodies are edited. Both are read by the standard library, with numbers as they are spelled, keys
in their order and duplicates kept, and compared value by value.
"""

import codecs
import json
import sys
from typing import Any

BOM = codecs.BOM_UTF8
OUR_FIELDS = ("memory_config", "memory_context")
_DEPTH = 1024
"""What the product's parser accepts."""


class _Number(str):
    """A number as it is spelled: 1.0 is not 1."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """An object's members in their order, duplicates included."""


def assert_undamaged(original: bytes, sent: bytes, block: str) -> None:
    """`sent` is `original`, or the same JSON without our fields and with the block inserted once at most."""
    if sent == original:
        return
    assert original.startswith(BOM) == sent.startswith(BOM), "a byte order mark stays"
    before, after = _read(original), _read(sent)
    assert isinstance(before, _Object), "what is no object is not changed"
    assert isinstance(after, _Object)
    bare = _Object(member for member in before if member[0] not in OUR_FIELDS)
    insertions = _insertions(bare, after, block)
    assert insertions <= bool(block), f"{insertions} insertions"
    assert insertions or len(bare) < len(before), "changed without need"
    if len(bare) == len(before):
        _assert_one_insertion(original, sent)


def _assert_one_insertion(original: bytes, sent: bytes) -> None:
    """Every byte outside one place is the same; there, at most a null was replaced."""
    prefix = next((at for at, (a, b) in enumerate(zip(original, sent, strict=False)) if a != b), len(original))
    suffix = len(original) - prefix
    while suffix and not sent.endswith(original[len(original) - suffix :]):
        suffix -= 1
    assert original[prefix : len(original) - suffix] in (b"", b"null")


def _read(raw: bytes) -> Any:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 4 * _DEPTH)
    try:
        return json.loads(
            raw.removeprefix(BOM).decode("utf-8", "surrogatepass"),
            object_pairs_hook=_Object,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
        )
    finally:
        sys.setrecursionlimit(limit)


def _insertions(before: Any, after: Any, block: str) -> int:
    """How often the block was inserted; fails where anything else is different."""
    found = 0
    pairs = [(before, after)]
    while pairs:
        old, new = pairs.pop()
        if isinstance(old, _Object) and isinstance(new, _Object):
            more, kept = _added_member(old, new, block)
            assert [key for key, _ in old] == [key for key, _ in kept]
            found += more
            pairs += [(a, b) for (_, a), (_, b) in zip(old, kept, strict=True)]
        elif isinstance(old, list) and isinstance(new, list):
            more, elements = _added_element(old, new, block)
            found += more
            pairs += zip(old, elements, strict=True)
        elif _appended(old, new, block):
            found += 1
        else:
            assert (type(old), old) == (type(new), new)
    return found


def _added_member(old: _Object, new: _Object, block: str) -> tuple[int, _Object]:
    if len(new) == len(old):
        return 0, new
    assert new[-1] in (("content", block), ("instructions", block))
    return 1, _Object(new[:-1])


def _added_element(old: list[Any], new: list[Any], block: str) -> tuple[int, list[Any]]:
    if len(new) == len(old):
        return 0, new
    if new[0] == [("role", "system"), ("content", block)]:
        return 1, new[1:]
    text = f"\n\n{block}" if old else block
    assert new[-1] in ([("type", "text"), ("text", text)], [("type", "input_text"), ("text", text)])
    return 1, new[:-1]


def _appended(old: Any, new: Any, block: str) -> bool:
    if not block or type(new) is not str or new == old:
        return False
    return new == block if old is None or old == "" else type(old) is str and new == f"{old}\n\n{block}"
