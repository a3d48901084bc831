"""A shelf as bytes, for other processes of this version. Pure.

Strategy: a line of JSON that says what follows, then the arrays as they lie in memory. Unpacking copies each of them:
views would keep all of the bytes, and a shelf would take twice of what it says.
"""

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.bm25 import TermIndex
from semrouter_memory.store.schema import microseconds, time_from
from semrouter_memory.store.shelf import Shelf

_ALIGNED = 8
_LINE_END = b"\n"


def packed(shelf: Shelf, *, read_at: datetime) -> bytes:
    """The shelf and when the store was read."""
    arrays = {**_arrays(shelf), **_arrays(shelf.index)}
    header = {
        "read_at": microseconds(read_at),
        "project_ids": shelf.project_ids,
        "arrays": [(name, array.dtype.str, array.shape) for name, array in arrays.items()],
        "rows": len(shelf.rows),
    }
    # In ASCII, since a project's id need be no Unicode text.
    parts = [_padded(json.dumps(header).encode() + _LINE_END, b" ")]
    parts += [_padded(array.tobytes(), b"\0") for array in arrays.values()]
    return b"".join((*parts, shelf.rows))


def unpacked(user_id: str, value: bytes) -> tuple[Shelf, datetime] | None:
    """The shelf and when the store was read; None for bytes that are not one's."""
    line, _, _ = value.partition(_LINE_END)
    try:
        header = json.loads(line)
        at = _aligned(len(line) + 1)
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind, shape in header["arrays"]:
            dtype = np.dtype(kind)
            count = int(np.prod(shape))
            arrays[name] = np.frombuffer(value, dtype, count, at).reshape(shape).copy()
            at += _aligned(count * dtype.itemsize)
        if at + header["rows"] != len(value):
            return None
        index = TermIndex(**{each.name: arrays.pop(each.name) for each in fields(TermIndex)})
        shelf = Shelf(
            user_id=user_id,
            project_ids=tuple(header["project_ids"]),
            index=index,
            rows=value[at:],
            **arrays,
        )
        return shelf, time_from(header["read_at"])
    except (ValueError, KeyError, TypeError):
        return None


def _arrays(source: Shelf | TermIndex) -> dict[str, NDArray[Any]]:
    values = ((each.name, getattr(source, each.name)) for each in fields(source))
    return {name: value for name, value in values if isinstance(value, np.ndarray)}


def _padded(part: bytes, filler: bytes) -> bytes:
    return part + filler * (_aligned(len(part)) - len(part))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
