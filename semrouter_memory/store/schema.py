"""The columns of a row, and the filter expression of a query. Pure.

Isolation rests on three things, none of which trusts the database's expression parser:

* Ids that come from outside (owner, project, session, memory) are stored percent-encoded, so all that ever stands
  inside a literal is ASCII without quotes, backslashes, braces or control characters. JSON's escapes do not
  suffice: Milvus Lite does not undo the one for a newline and its like, so a row with such an id could not be found.
* Every expression about an owner's rows begins with the owner.
* The primary key starts with a digest of the owner: one owner cannot overwrite or delete another's row by knowing its id.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
import orjson

from semrouter_memory.databases import micros, moment
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.language.terms import search_terms
from semrouter_memory.model import (
    ALWAYS,
    PINNED,
    Criteria,
    EmbeddedMemory,
    Memory,
    MemoryFilter,
    MemoryType,
    Reach,
    Scope,
    Vector,
    filterable,
)
from semrouter_memory.model.filters import NO_TEXT

Row: TypeAlias = dict[str, Any]
"""A row as Milvus takes and gives it: column name -> value."""

VERSION = 6
"""Of this schema; stored with the collection."""

WITHOUT_WORDS = 5
"""The same without `WORD_COLUMNS`: collections on servers that cannot search words."""

WITHOUT_RECORDS = frozenset({3, 4})
"""The same two without `RECORD`: collections that an earlier version made."""

MAX_VARCHAR_BYTES = 65_535
"""Milvus's own bound on a text column, in UTF-8 bytes."""

MAX_JSON_BYTES = 65_536
"""Milvus's own bound on a JSON column."""

NEVER = 253_402_300_800_000_000
"""The first microsecond after the year 9999: stands for a time that is not set."""

_MAX_ASKED_TERMS = 1_000
"""Milvus Lite takes some 12 ms for so many."""

_MAX_CONDITIONS = 16
"""Milvus reads no expression that is nested deeper than some fifty of them."""

_ENCODED = re.compile(rb"[^A-Za-z0-9._~:@+/|,= -]+")
_OWNER_DIGEST_CHARS = 32
_DIGEST = "%sha256%"
"""Begins what stands for an id that is too long."""
_PASSAGE = "#"
"""Marks the row of a passage in its key (before its number), session (before the id of its memory) and type (at the end). No
stored id has it: it is encoded there."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `kind` is the name of a Milvus data type."""

    name: str
    kind: str


ID = Column("id", "VARCHAR")
OWNER = Column("owner", "VARCHAR")
EMBEDDING = Column("embedding", "FLOAT_VECTOR")
COLUMNS = (
    ID,
    OWNER,
    Column("project_id", "VARCHAR"),
    Column("session_id", "VARCHAR"),
    Column("type", "VARCHAR"),
    Column("content", "VARCHAR"),
    Column("source", "VARCHAR"),
    Column("observed_at", "INT64"),
    Column("created_at", "INT64"),
    Column("updated_at", "INT64"),
    Column("superseded_at", "INT64"),
    Column("superseded_by", "VARCHAR"),
    Column("expires_at", "INT64"),
    Column("importance", "DOUBLE"),
    Column("metadata", "JSON"),
    EMBEDDING,
)
"""Times are microseconds since 1970 in UTC."""

TERMS = Column("terms", "VARCHAR")
LEXICAL = Column("lexical", "SPARSE_FLOAT_VECTOR")
WORD_COLUMNS = (TERMS, LEXICAL)
"""What words are searched by, where the store can: the content's terms, and what BM25 makes of them. Never read."""

RECORD = Column("record", "VARCHAR")
"""What the row adds to its owner's index, see `index_record`; "" where that is not known."""

RECORD_COLUMNS = (ID.name, RECORD.name)

OWNER_COLUMNS = (ID.name, OWNER.name, "updated_at")
"""Who owns a row, and when it was changed last."""

READ_COLUMNS = tuple(column.name for column in COLUMNS if column.name not in {"owner", "embedding"})
"""The columns of a `Memory`. The caller knows the owner, and the vector is not read."""

SCAN_COLUMNS = ("owner", *READ_COLUMNS)
"""The same, of rows of many owners."""

EMBEDDED_COLUMNS = (*READ_COLUMNS, EMBEDDING.name)
"""What makes an `EmbeddedMemory`."""


# -- ids ---------------------------------------------------------------------------------------------------------------


def stored_id(value: str) -> str:
    """An id as it is stored: percent-encoded, so that two ids are equal exactly when their stored forms are.

    One that would not fit is replaced by its SHA-256, in a form that no encoded id takes.
    """
    # What urllib's `quote` gives, in a quarter of the time where an id is long.
    encoded = _ENCODED.sub(_percent_encoded, value.encode("utf-8", "surrogatepass")).decode()
    if len(encoded) <= MAX_VARCHAR_BYTES:
        return encoded
    return f"{_DIGEST}{hashlib.sha256(encoded.encode()).hexdigest()}"


def _percent_encoded(found: re.Match[bytes]) -> bytes:
    return b"%" + found[0].hex("%").upper().encode()


def stored_owner(scope: Scope) -> str:
    """The partition key, for example `user:alice`."""
    return stored_id(scope.owner)


def primary_key(scope: Scope, memory_id: str) -> str:
    digest = hashlib.sha256(scope.owner.encode("utf-8", "surrogatepass")).hexdigest()[:_OWNER_DIGEST_CHARS]
    return stored_id(f"{digest}:{memory_id}")


def read_id(stored: str) -> str:
    """The id that `stored_id` encoded."""
    return unquote(stored, encoding="utf-8", errors="surrogatepass")


# -- selections --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of an owner's rows are meant.

    Attributes:
        criteria: an empty set of types is for the caller to notice. The rows found may be more than those that a memory
            filter wants: a text and a number that read the same are both found, and of many conditions the first ones count.
        ids: only memories with these ids; None: whatever their id.
        created_until: only rows created then or before, in microseconds.
        superseded_by: only memories that one of these superseded.
        pinned: only pinned memories.
        passages: also the passages of long memories.
    """

    criteria: Criteria
    _: KW_ONLY
    passages: bool = False
    ids: Sequence[str] | None = None
    created_until: int | None = None
    superseded_by: Sequence[str] | None = None
    pinned: bool = False


def projects_within(scope: Scope, reach: Reach) -> frozenset[str] | None:
    """The project ids that the reach takes in, None for every project."""
    match reach:
        case Reach.ALL:
            return None
        case Reach.EXACT:
            return frozenset({scope.project_id})
        case Reach.RECALL:
            return frozenset({scope.project_id, ""})


def filter_expression(selection: Selection | None, *, after_key: str = "") -> str:
    """The selection in Milvus's filter language.

    Args:
        selection: None: every owner's rows, for maintenance. Every other expression begins with the owner.
        after_key: only rows with a greater primary key, to read on where a bounded answer ended.
    """
    if selection is None:
        return _after(after_key)
    criteria = selection.criteria
    scope = criteria.scope
    terms = [f"owner == {_literal(stored_owner(scope))}"]
    if (projects := projects_within(scope, criteria.reach)) is not None:
        terms.append(_one_of("project_id", (stored_id(project) for project in projects)))
    if criteria.active_at is not None:
        terms += [f"superseded_at == {NEVER}", f"expires_at > {micros(criteria.active_at)}"]
    if (types := types_of(selection)) is not None:
        terms.append(_one_of("type", types))
    terms += _wanted(criteria.memory_filter)
    terms += _times_of(selection)
    if selection.ids is not None:
        named = _one_of("id", (primary_key(scope, memory_id) for memory_id in selection.ids))
        passages = _one_of("session_id", map(_passages_of, selection.ids))
        terms.append(f"({named} or {passages})" if selection.passages else named)
    if selection.superseded_by is not None:
        terms.append(_one_of("superseded_by", (stored_id(memory_id) for memory_id in selection.superseded_by)))
    terms += [f'metadata["{PINNED}"] == true'] if selection.pinned else []
    terms += [_after(after_key)] if after_key else []
    return " and ".join(terms)


def _wanted(memory_filter: MemoryFilter) -> Iterator[str]:
    """A value may be stored as a text, a number or a boolean."""
    for key, text in sorted(memory_filter.conditions)[:_MAX_CONDITIONS]:
        column = f"metadata[{_plain_literal(key)}]"
        plain = f" or {column} == {text}" if NO_TEXT.fullmatch(text) else ""
        yield f"({column} == {_plain_literal(text)}{plain})"
    if memory_filter.min_importance > 0:
        yield f"importance >= {memory_filter.min_importance!r}"


def _times_of(selection: Selection) -> Iterator[str]:
    criteria = selection.criteria
    if criteria.observed.start > ALWAYS.start:
        yield f"observed_at >= {micros(criteria.observed.start)}"
    if criteria.observed.end < ALWAYS.end:
        yield f"observed_at < {micros(criteria.observed.end)}"
    if criteria.expires_by is not None:
        yield f"expires_at <= {micros(criteria.expires_by)}"
    if selection.created_until is not None:
        yield f"created_at <= {selection.created_until}"


def types_of(selection: Selection) -> frozenset[str] | None:
    """The selected values of the column `type`; None: every value."""
    types = selection.criteria.types
    if types is None and (selection.passages or selection.ids is not None):
        return None
    whole = frozenset(kind.value for kind in (MemoryType if types is None else types))
    return whole | {kind + _PASSAGE for kind in whole} if selection.passages else whole


def _passages_of(memory_id: str) -> str:
    return _PASSAGE + stored_id(memory_id)


def _after(key: str) -> str:
    return f"id > {_literal(key)}"


def keys_expression(keys: Sequence[str]) -> str:
    """Rows with these primary keys, as a row gave them."""
    return _one_of("id", keys)


def _one_of(column: str, values: Iterable[str]) -> str:
    ordered = sorted(set(values))
    if len(ordered) == 1:
        return f"{column} == {_literal(ordered[0])}"
    return f"{column} in [{', '.join(map(_literal, ordered))}]"


def _literal(value: str) -> str:
    """A string literal; `value` is ASCII by now, escaping it is the second line of defence."""
    return json.dumps(value)


def _plain_literal(text: str) -> str:
    """Same, of a text as it is stored, in any script. What could end or bend the literal was refused: this is the second check."""
    if filterable(text) != text:
        raise InvalidRequestError("cannot be searched for", field="filter")
    return f'"{text}"'


# -- words -------------------------------------------------------------------------------------------------------------


def indexed_terms(content: str) -> str:
    """What a content is found by when words are searched: all of its terms, as often as they stand there.

    Where these are too long for the column (Chinese takes four times its bytes), each term stands once, short ones first:
    single characters cover every word, whatever is left out after them.
    """
    found = search_terms(content)
    if sum(len(term.encode()) + 1 for term in found) > MAX_VARCHAR_BYTES:
        found = sorted(dict.fromkeys(found), key=len)
    return _joined(found)


def asked_terms(text: str) -> str:
    """A query in the same terms; "" when no word of it carries content."""
    return _joined(search_terms(text)[:_MAX_ASKED_TERMS])


def _joined(found: Sequence[str]) -> str:
    encoded = " ".join(found).encode()
    if len(encoded) > MAX_VARCHAR_BYTES:
        encoded = encoded[: MAX_VARCHAR_BYTES + 1].rpartition(b" ")[0]
    return encoded.decode()


# -- rows --------------------------------------------------------------------------------------------------------------


def row_from(scope: Scope, embedded: EmbeddedMemory, *, dimension: int) -> Row:
    """The row to write.

    Characters that are no Unicode text (lone surrogates) are replaced in the content by `?`.

    Raises:
        InvalidRequestError: the memory is another owner's, or a value is larger than Milvus can hold, or no vector of
            that dimension, or no JSON.
    """
    memory = embedded.memory
    if memory.scope.owner != scope.owner:
        raise InvalidRequestError("a memory can only be written by its owner")
    content = memory.content.encode("utf-8", "replace")
    if len(content) > MAX_VARCHAR_BYTES:
        raise InvalidRequestError(f"content is longer than {MAX_VARCHAR_BYTES} bytes", field="content")
    if embedded.vector.shape != (dimension,) or not np.isfinite(embedded.vector).all():
        raise InvalidRequestError(f"the embedding is no vector of {dimension} finite numbers")
    of_passage = memory.passage > 0
    return {
        "id": _storable("id", primary_key(scope, memory.id)) + (f"{_PASSAGE}{memory.passage}" if of_passage else ""),
        "owner": stored_owner(scope),
        "project_id": _storable("project_id", stored_id(memory.scope.project_id)),
        "session_id": _passages_of(memory.id) if of_passage else _storable("session_id", stored_id(memory.session_id)),
        "type": memory.type.value + (_PASSAGE if of_passage else ""),
        "content": content.decode(),
        "source": _storable("source", stored_id(memory.source)),
        "observed_at": micros(memory.observed_at),
        "created_at": micros(memory.created_at),
        "updated_at": micros(memory.updated_at),
        "superseded_at": _optional_microseconds(memory.superseded_at),
        "superseded_by": _storable("superseded_by", stored_id(memory.superseded_by)),
        "expires_at": _optional_microseconds(memory.expires_at),
        "importance": _finite(memory.importance),
        "metadata": _json_object(memory.metadata),
        "embedding": np.ascontiguousarray(embedded.vector, dtype=np.float32),
    }


def memory_from(scope: Scope, row: Mapping[str, Any]) -> Memory:
    """The memory in a row that was selected within `scope`'s owner."""
    return Memory(
        id=memory_id_of(row),
        scope=scope.in_project(read_id(row["project_id"])),
        type=MemoryType(row["type"].removesuffix(_PASSAGE)),
        content=row["content"],
        source=read_id(row["source"]),
        observed_at=moment(row["observed_at"]),
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        session_id="" if row["session_id"].startswith(_PASSAGE) else read_id(row["session_id"]),
        superseded_at=_optional_time(row["superseded_at"]),
        superseded_by=read_id(row["superseded_by"]),
        expires_at=_optional_time(row["expires_at"]),
        importance=row["importance"],
        metadata=row["metadata"],
        passage=int(row["id"].partition(_PASSAGE)[2] or 0),
    )


def embedded_from(scope: Scope, row: Mapping[str, Any]) -> EmbeddedMemory:
    """Same as `memory_from`, with its vector, of a row of `EMBEDDED_COLUMNS`."""
    return EmbeddedMemory(memory_from(scope, row), np.asarray(row["embedding"], dtype=np.float32))


def cosine(one: Vector, other: Any) -> float:
    """0 for a vector without a direction."""
    vector = np.asarray(other, dtype=np.float32)
    lengths = float(np.linalg.norm(one) * np.linalg.norm(vector))
    return float(np.dot(one, vector)) / lengths if lengths else 0.0


def anyones_memories_from(rows: Iterable[Mapping[str, Any]]) -> list[Memory]:
    """The memories in rows of `SCAN_COLUMNS`, of every owner.

    Left out are those of an owner whose id is stored as a digest: it is unknown.
    """
    return [memory_from(Scope.of_owner(read_id(row["owner"])), row) for row in rows if not is_unnamed(row)]


def is_unnamed(row: Mapping[str, Any]) -> bool:
    """Whether the row is one of an owner whose id is stored as a digest."""
    return bool(row["owner"].startswith(_DIGEST))


def memory_key_of(row: Mapping[str, Any]) -> str:
    """The primary key of the memory that the row is, or is a passage of."""
    key: str = row["id"]
    return key.partition(_PASSAGE)[0]


def is_searched(memory: Memory) -> bool:
    """Whether a search finds it: a long memory is found by its passages."""
    return not memory.passage_count or memory.passage > 0


def is_passage(row: Mapping[str, Any]) -> bool:
    return _PASSAGE in row["id"]


def memory_id_of(row: Mapping[str, Any]) -> str:
    return read_id(memory_key_of(row))[_OWNER_DIGEST_CHARS + 1 :]


def _optional_microseconds(time: datetime | None) -> int:
    return NEVER if time is None else micros(time)


def _optional_time(value: int) -> datetime | None:
    return None if value >= NEVER else moment(value)


def _storable(field: str, stored: str) -> str:
    """`stored`, unless it is a digest, which could be found but not read back."""
    if stored.startswith(_DIGEST):
        raise InvalidRequestError(f"{field} is longer than {MAX_VARCHAR_BYTES} bytes when encoded", field=field)
    return stored


def _finite(importance: float) -> float:
    if not math.isfinite(importance):
        raise InvalidRequestError("importance is not a number", field="importance")
    return importance


def _json_object(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy, as it will come back."""
    try:
        encoded = orjson.dumps(dict(metadata))
    except TypeError:
        raise InvalidRequestError("metadata is not JSON", field="metadata") from None
    if len(encoded) > MAX_JSON_BYTES:
        raise InvalidRequestError(f"metadata is longer than {MAX_JSON_BYTES} bytes", field="metadata")
    decoded: dict[str, Any] = orjson.loads(encoded)
    return decoded
