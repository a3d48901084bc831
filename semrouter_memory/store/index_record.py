"""What one memory adds to its owner's index, in the shape in which the index holds it. Pure.

Strategy: terms, categories and the short vector are computed when a memory is written, and stored with its row. So reading an
owner in copies them, and computes them only for rows without a record, or with one that other code made.

A record is text of three lines, since all stores hold text: the numbers and the terms (`_HEAD`, the vector, 64 bits a term), in
base64; what many memories have in common (project, what a filter can name); and the memory's row, from which it is decoded.
"""

import json
import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from semrouter_memory.databases import micros, moment
from semrouter_memory.language.bm25 import term_hash
from semrouter_memory.language.terms import search_terms
from semrouter_memory.model import Attached, EmbeddedMemory, Memory, MemoryType, Scope, Vector, attached_to
from semrouter_memory.store.schema import MAX_VARCHAR_BYTES, NEVER, is_searched

Label: TypeAlias = Callable[[Memory], int]
"""Sorts a memory into classes that the ranking knows, as bits (0..65535)."""

KINDS = tuple(MemoryType)
"""`OwnerIndex.kinds` are positions in it."""

_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
_KINDS_BY_NAME = {kind.value: kind for kind in KINDS}
_HEAD = np.dtype(
    [
        ("keys", "<u8"),
        ("created_at", "<i8"),
        ("expires_at", "<i8"),
        ("importances", "<f8"),
        ("factors", "<f4"),
        ("terms", "<u4"),
        ("labels", "<u2"),
        ("kinds", "<u2"),
    ]
)
_PACK_HEAD = struct.Struct("<QqqdfIHH").pack
"""A head, in a tenth of numpy's time."""
_LATEST_ROWS = 64
_LARGEST = 127
_TINY = 1e-30


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """Makes the records that are stored, and recognises them.

    Attributes:
        version: of all code that makes a record; another version's records are not read.
    """

    label: Label
    version: str

    def stored(self, row: EmbeddedMemory) -> str:
        """The row's record for the store; "" for one that does not fit there. Of a memory that no index holds, the version alone."""
        is_held = row.memory.superseded_at is None and is_searched(row.memory)
        text = "\n".join((self.version, *(records_of([row], self.label) if is_held else ())))
        return text if len(text.encode("utf-8", "replace")) <= MAX_VARCHAR_BYTES else ""

    def is_current(self, stored: str) -> bool:
        return stored.startswith(self.version)

    def record(self, stored: str) -> str:
        """The record of a current text; "" for a memory that no index holds."""
        return stored[len(self.version) + 1 :]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Records, taken apart, in the order of an index (time of creation, id, passage).

    Attributes:
        plain: the columns that an index holds as they are, by name.
        groups: of each memory, the position of its project and of what a filter can name of it, among these.
        terms: of all memories, one after another; `lengths` tells how many each has.
    """

    plain: dict[str, NDArray[Any]]
    project_ids: Sequence[str]
    attached: Sequence[Attached]
    groups: NDArray[np.uint32]
    terms: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    rows: Sequence[bytes]


def records_of(rows: Sequence[EmbeddedMemory], label: Label) -> list[str]:
    """The record of each memory."""
    return [_record(row, label) for row in rows]


@lru_cache(_LATEST_ROWS)
def _record(row: EmbeddedMemory, label: Label) -> str:
    """Of a row that is written, the index takes it first and the store a moment later."""
    memory = row.memory
    terms = search_terms(memory.searched)
    vector, factor = _quantised(row.vector)
    hashes = np.fromiter(map(term_hash, terms), np.uint64, len(terms))
    head = _PACK_HEAD(
        key_of(memory.id),
        micros(memory.created_at),
        NEVER if memory.expires_at is None else micros(memory.expires_at),
        memory.importance,
        factor,
        len(terms),
        label(memory),
        _KIND_CODES[memory.type],
    )
    numbers = b2a_base64(head + vector.tobytes() + hashes.tobytes(), newline=False).decode()
    common = _json([memory.scope.project_id, sorted(attached_to(memory.metadata))])
    return f"{numbers}\n{common}\n{_json(_row_of(memory))}"


def columns_of(records: Iterable[str]) -> Columns:
    """The records' columns."""
    parts = [record.split("\n") for record in records]
    packed = [a2b_base64(numbers) for numbers, _, _ in parts]
    rows = [row.encode() for _, _, row in parts]
    heads = np.frombuffer(b"".join([each[: _HEAD.itemsize] for each in packed]), _HEAD)
    order = _order(heads["created_at"], rows)
    heads, packed, rows = heads[order], [packed[at] for at in order], [rows[at] for at in order]
    codes: dict[str, int] = {}
    groups = np.fromiter((codes.setdefault(parts[at][1], len(codes)) for at in order), np.uint32, len(order))
    common = [_decoded(each.encode()) for each in codes]
    lengths = heads["terms"].astype(np.int64)
    dimension = len(packed[0]) - _HEAD.itemsize - 8 * int(lengths[0]) if packed else 0
    ends = _HEAD.itemsize + dimension
    vectors = np.frombuffer(b"".join([each[_HEAD.itemsize : ends] for each in packed]), np.int8)
    plain = {name: np.ascontiguousarray(heads[name]) for name in _HEAD.names or () if name not in {"terms", "kinds"}}
    return Columns(
        plain=plain | {"kinds": heads["kinds"].astype(np.uint8), "vectors": vectors.reshape(len(packed), dimension)},
        project_ids=[project for project, _ in common],
        attached=[frozenset((key, value) for key, value in pairs) for _, pairs in common],
        groups=groups,
        terms=np.frombuffer(b"".join([each[ends:] for each in packed]), np.uint64),
        lengths=lengths,
        rows=rows,
    )


def _order(created_at: NDArray[np.int64], rows: Sequence[bytes]) -> list[int]:
    """By time of creation; of those of one time, which alone are decoded for it, by id and passage."""
    order = np.argsort(created_at, kind="stable")
    times = created_at[order]
    same = np.flatnonzero(times[1:] == times[:-1])
    found: list[int] = order.tolist()
    if not len(same):
        return found
    tied = set(np.concatenate((same, same + 1)).tolist())

    def by_id(at: int) -> tuple[int, str, int]:
        row = _decoded(rows[at])
        return int(created_at[at]), row[0], row[-1]

    places = sorted(tied)
    for place, at in zip(places, sorted((found[place] for place in places), key=by_id), strict=True):
        found[place] = at
    return found


def key_of(memory_id: str) -> int:
    """A hash of the id. Ids that are no Unicode text are different ones, too."""
    return int.from_bytes(blake2b(memory_id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _quantised(vector: Vector) -> tuple[NDArray[np.int8], np.float32]:
    """The vector as 8-bit numbers, and what makes its length one."""
    largest = max(vector.max(), -vector.min(), np.float32(_TINY))
    rounded = np.rint(vector * (np.float32(_LARGEST) / largest))
    # A sum of squares of small whole numbers is exact.
    length = np.sqrt(np.dot(rounded, rounded))
    return rounded.astype(np.int8), np.float32(1) / max(length, np.float32(1))


# -- rows --------------------------------------------------------------------------------------------------------------


def _row_of(memory: Memory) -> list[Any]:
    return [
        memory.id,
        memory.scope.project_id,
        memory.type,
        # As the store keeps it.
        memory.content.encode("utf-8", "replace").decode(),
        memory.source,
        micros(memory.observed_at),
        micros(memory.created_at),
        micros(memory.updated_at),
        memory.session_id,
        None if memory.expires_at is None else micros(memory.expires_at),
        float(memory.importance),
        dict(memory.metadata),
        memory.superseded_by,
        memory.passage,
    ]


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # An id that is no Unicode text.
        return json.dumps(value)


def _decoded(row: bytes) -> Any:
    try:
        return orjson.loads(row)
    except ValueError:
        return json.loads(row)


def id_in(row: bytes) -> str:
    """The id of the memory in a row."""
    memory_id: str = _decoded(row)[0]
    return memory_id


@lru_cache(2_048)
def memory_in(owner: str, row: bytes) -> Memory:
    """The memory in a row. Two dozen are decoded for each request, of an active user often the same ones."""
    (memory_id, project_id, kind, content, source, observed_at, created_at, updated_at, session_id, *rest) = _decoded(
        row
    )
    expires_at, importance, metadata, superseded_by, passage = rest
    created = moment(created_at)
    return Memory(
        id=memory_id,
        scope=Scope.of_owner(owner, project_id),
        type=_KINDS_BY_NAME[kind],
        content=content,
        source=source,
        # As a rule they are one time.
        observed_at=created if observed_at == created_at else moment(observed_at),
        created_at=created,
        updated_at=created if updated_at == created_at else moment(updated_at),
        session_id=session_id,
        superseded_by=superseded_by,
        expires_at=None if expires_at is None else moment(expires_at),
        importance=importance,
        metadata=metadata,
        passage=passage,
    )
