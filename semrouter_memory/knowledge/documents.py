"""Documents and their passages as rows of a memory store. Pure.

Strategy: a passage is a memory of an organisation in the form `passage`. Its project is its document, so what holds for a project
(selecting, hiding and deleting all of it) holds for a document. One more row describes the document and lists its passages; it is
written without a content hash before them and with it after them, so a document without one is not complete.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from semrouter_memory.language.splitting import Passage
from semrouter_memory.model import CONTEXT, FORM, IMPORTED_AT, Json, Memory, MemoryType, Scope, derived_id

PASSAGES = frozenset({MemoryType.SEMANTIC})
"""The type of passages, for a selection."""
DOCUMENTS = frozenset({MemoryType.REFLECTIVE})
"""The type of the rows that describe documents."""

_ID_CHARS = 16


def document_id(source: str) -> str:
    """The id of the document from there: adding it again replaces it."""
    return "doc_" + derived_id(source).removeprefix("mem_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A stored document.

    Attributes:
        source: path or URL that it came from.
        published_at: when it was last changed, as far as its source tells; else when it was added.
        added_at: when it was last read.
        content_hash: of its bytes; "" while it is not complete.
        is_titled: the title was given, and is not the document's own.
        passages: ids of its passages, in order.
    """

    id: str
    source: str
    title: str
    kind: str
    published_at: datetime
    added_at: datetime
    content_hash: str = ""
    size_bytes: int = 0
    tags: tuple[str, ...] = ()
    is_titled: bool = False
    passages: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return bool(self.content_hash)


def document_row(owner: Scope, document: Document, *, asserted: datetime) -> Memory:
    """Args: asserted: when it was added, by the turn log's times: earlier deletions do not cover it."""
    metadata: dict[str, Json] = {
        IMPORTED_AT: asserted.isoformat(),
        "kind": document.kind,
        "content_hash": document.content_hash,
        "size_bytes": document.size_bytes,
        "tags": list(document.tags),
        "is_titled": document.is_titled,
        # Without the document's id: Milvus bounds the metadata.
        "passages": [passage.rpartition(".")[2] for passage in document.passages],
    }
    return Memory(
        id=document.id,
        scope=owner.in_project(document.id),
        type=MemoryType.REFLECTIVE,
        content=document.title,
        source=document.source,
        observed_at=document.published_at,
        created_at=document.added_at,
        updated_at=document.added_at,
        metadata=metadata,
    )


def document_from(row: Memory) -> Document:
    metadata = row.metadata
    return Document(
        id=row.id,
        source=row.source,
        title=row.content,
        kind=_text(metadata, "kind"),
        published_at=row.observed_at,
        added_at=row.created_at,
        content_hash=_text(metadata, "content_hash"),
        size_bytes=size if isinstance(size := metadata.get("size_bytes"), int) else 0,
        tags=row.ids("tags"),
        is_titled=metadata.get("is_titled") is True,
        passages=tuple(f"{row.id}.{digest}" for digest in row.ids("passages")),
    )


def passage_rows(owner: Scope, document: Document, passages: Sequence[Passage], *, asserted: datetime) -> list[Memory]:
    """The rows of the passages, in order. A passage that stays as it is keeps its id."""
    return [_passage_row(owner, document, passage, asserted) for passage in passages]


def _passage_row(owner: Scope, document: Document, passage: Passage, asserted: datetime) -> Memory:
    digest = hashlib.sha256(f"{passage.page}\n{passage.context}\n\n{passage.text}".encode("utf-8", "replace"))
    metadata: dict[str, Json] = {
        FORM: "passage",
        CONTEXT: passage.context,
        IMPORTED_AT: asserted.isoformat(),
        "title": document.title,
        "page": passage.page,
    }
    return Memory(
        id=f"{document.id}.{digest.hexdigest()[:_ID_CHARS]}",
        scope=owner.in_project(document.id),
        type=MemoryType.SEMANTIC,
        content=passage.text,
        source=document.source,
        observed_at=document.published_at,
        created_at=document.added_at,
        updated_at=document.added_at,
        metadata=metadata,
    )


def _text(metadata: Mapping[str, Json], name: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) else ""
