"""The documents of an organisation or a user: to add, list, show, remove and search.

Strategy: reading and embedding take long and are done first, without the owner's lock; writing is done under it, in an order that
leaves a document as it was or incomplete, and listed as such. Adding it again completes it. A removal commits its tombstone first,
as that of a project of memories does: from then on nothing shows the document, and no writer brings it back.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from semrouter_memory.backends import Backends
from semrouter_memory.config import KnowledgeConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.knowledge.documents import (
    DOCUMENTS,
    PASSAGES,
    Document,
    document_from,
    document_id,
    document_row,
    passage_rows,
)
from semrouter_memory.knowledge.reading import ReadDocument, kind_of, read
from semrouter_memory.language.splitting import split
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.lineage import all_memories
from semrouter_memory.model import (
    Criteria,
    EmbeddedMemory,
    EvictionCandidate,
    EvictionReason,
    Hit,
    Memory,
    OwnerKind,
    Reach,
    Scope,
)
from semrouter_memory.ports import OwnerHold, Tombstones
from semrouter_memory.priority import DOCUMENT_READING
from semrouter_memory.recall.documents import DocumentSearch
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.strategy import best_first

_EMBEDDED_AT_ONCE = 16
"""Passages in one call of the embedder, which memories of other requests wait for."""
_WRITTEN_AT_ONCE = 200
"""Rows that the store writes at once: a smaller document is complete or not there."""
_FORMAT = "1"
"""To be changed when documents are read or split in another way: the next refresh then reads all of them again."""


class AddOutcome(StrEnum):
    """What became of a document that was added."""

    ADDED = "added"
    REFRESHED = "refreshed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A document to add.

    Attributes:
        source: path or URL that it comes from; names it from then on.
        media_type: "" or a general one: the ending of the source tells the kind.
        title: "" for the one that it was given before, else its own, else its file's name.
        tags: None for those that it was given before.
        published_at: None: now.
    """

    source: str
    data: bytes
    media_type: str = ""
    title: str = ""
    tags: tuple[str, ...] | None = None
    published_at: datetime | None = None

    def completed(self, known: Document | None) -> "Upload":
        """With what was given before."""
        title = known.title if known is not None and known.is_titled else ""
        return replace(self, title=self.title or title, tags=self.tags or (known.tags if known else ()))

    @property
    def content_hash(self) -> str:
        """Of everything that decides what is stored."""
        digest = hashlib.sha256(self.data)
        digest.update("\x00".join(("", _FORMAT, self.title, *(self.tags or ()))).encode("utf-8", "replace"))
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A page of a listing, documents added last first; `cursor` "" at the end."""

    documents: tuple[Document, ...]
    cursor: str


class KnowledgeService:
    """Documents of every organisation, and of users where that is switched on.

    Args:
        documents: with the collection of documents in place of that of memories.
        deletion: deletes within that collection.

    Every method raises `UnavailableError` when a part that it needs is unavailable.
    """

    def __init__(self, documents: Backends, *, deletion: DeletionService, config: KnowledgeConfig) -> None:
        self._priority = documents.priority
        self._reader, self._writer, self._embedder = documents.store, documents.writer, documents.embedder
        self._deletions, self._clock = documents.turn_log, documents.clock
        self._locked_change = documents.locked_change
        self._deletion, self._config = deletion, config
        self._search = DocumentSearch(
            reader=self._reader, vectors=QueryVectors(self._embedder), clock=self._clock, config=config
        )

    def serves(self, owner: Scope) -> bool:
        """Whether this owner may have documents."""
        of_user = owner.kind is OwnerKind.USER and self._config.user_documents
        return owner.kind is OwnerKind.ORGANISATION or of_user

    async def add(self, owner: Scope, upload: Upload) -> tuple[Document, AddOutcome]:
        """Store a document, or its new version in place of the old one; one that is stored already is not read.

        Raises:
            InvalidRequestError: it cannot be read, is too large, or was removed meanwhile; nothing is changed.
            ConfigurationError: the packages that read documents are not installed.
        """
        while (added := await self._added(owner, upload)) is None:
            pass
        return added

    async def _added(self, owner: Scope, upload: Upload) -> tuple[Document, AddOutcome] | None:
        """Same as `add`; None where another version was stored meanwhile, of whose passages nothing was known here."""
        kind = kind_of(upload.source, upload.media_type)
        known = await self._known(owner, document_id(upload.source))
        upload = upload.completed(known)
        if known is not None and known.content_hash == upload.content_hash:
            return known, AddOutcome.UNCHANGED
        found = await DOCUMENT_READING.run(lambda: read(upload.source, upload.data, kind))
        asserted = await self._deletions.timestamp()
        document = _described(upload, kind, found.title, now=min(asserted, self._clock.now()))
        rows = await DOCUMENT_READING.run(lambda: self._passages(owner, document, found, asserted))
        complete = replace(document, content_hash=upload.content_hash, passages=tuple(row.id for row in rows))
        unchanged = frozenset(known.passages) if known is not None and known.is_complete else frozenset()
        embedded = await self._embedded([row for row in rows if row.id not in unchanged])
        description = await self._description(document_row(owner, complete, asserted=asserted), embedded)
        incomplete = replace(description, memory=document_row(owner, document, asserted=asserted))

        async def write(hold: OwnerHold) -> bool:
            if (await self._deletions.tombstones(owner)).covers(description.memory):
                raise InvalidRequestError(f"{upload.source}: was removed while it was added; add it again")
            # What is repeated because the lock was lost finds its own.
            if await self._known(owner, complete.id) not in (known, document, complete):
                return False
            await hold.confirm()
            if known is None and len(embedded) < _WRITTEN_AT_ONCE:
                await self._writer.upsert(owner, [*embedded, description])
            else:
                await self._writer.upsert(owner, [incomplete, *embedded])
                await self._delete_others(owner, complete)
                # Last: a document that is complete is not read again, and what it has too much would stay.
                await self._writer.upsert(owner, [description])
            return True

        outcome = AddOutcome.ADDED if known is None else AddOutcome.REFRESHED
        return (complete, outcome) if await self._locked_change(owner, write) else None

    async def search(self, owner: Scope, text: str, *, limit: int) -> list[Hit]:
        """The passages most relevant to a text, best first, those of documents just added among them."""
        query = Query(text=text, now=self._clock.now(), max_chars=len(text))
        found = await self._search.search(query, owner, fresh=True)
        deleted = await self._deletions.tombstones(owner)
        return [hit for hit in found if not deleted.covers(hit.memory)][:limit]

    def served(self, owners: Iterable[Scope | None]) -> list[Scope]:
        """Those of the owners that may have documents, each once."""
        return [owner for owner in dict.fromkeys(owners) if owner is not None and self.serves(owner)]

    async def search_all(self, owners: Iterable[Scope | None], text: str, *, limit: int) -> list[Hit]:
        """Same as `search`, of all those owners that may have documents."""
        found = [hit for owner in self.served(owners) for hit in await self.search(owner, text, limit=limit)]
        return best_first(found)[:limit]

    async def page(self, owner: Scope, *, limit: int, cursor: str = "") -> DocumentPage:
        """Raises: InvalidRequestError: the cursor is not one of ours."""
        page = await self._reader.page(Criteria(owner, types=DOCUMENTS), limit=limit, cursor=cursor)
        deleted = await self._deletions.tombstones(owner)
        return DocumentPage(tuple(document_from(row) for row in page.memories if not deleted.covers(row)), page.cursor)

    async def show(self, owner: Scope, document: str) -> tuple[Document, list[Memory]]:
        """A document and its passages, in order.

        Raises:
            NotFoundError: the owner has no such document.
        """
        known = await self._known(owner, document)
        if known is None:
            raise _unknown()
        rows = {row.id: row for row in await self._stored(owner, known.id)}
        return known, [rows[passage] for passage in known.passages if passage in rows]

    async def remove(self, owner: Scope, document: str) -> int:
        """Delete a document with every passage; returns how many passages there were.

        Raises:
            NotFoundError: the owner has no such document.
        """
        if not _is_id(document):
            raise _unknown()
        own = await self._reader.get(owner, document)
        # Also one that is deleted in part: repeating the removal completes it.
        if own is None and not await self._stored(owner, document):
            raise _unknown()
        removed = await self._deletion.tombstone_all(owner.in_project(document), Reach.EXACT)
        return removed - (own is not None)

    async def finish_removals(self) -> None:
        """Delete the rows that interrupted removals left, which nothing shows any more."""
        tombstones: dict[Scope, Tombstones] = {}
        left: dict[Scope, list[EvictionCandidate]] = {}
        async for rows in self._reader.scan():
            for row in rows:
                owner = row.scope.in_project("")
                if owner not in tombstones:
                    tombstones[owner] = await self._deletions.tombstones(owner)
                if tombstones[owner].covers(row):
                    left.setdefault(owner, []).append(EvictionCandidate(row, EvictionReason.TOMBSTONED))
        for owner, candidates in left.items():
            await self._deletion.purge(owner, candidates)

    async def _known(self, owner: Scope, document: str) -> Document | None:
        row = await self._reader.get(owner, document) if _is_id(document) else None
        if row is None or (await self._deletions.tombstones(owner)).covers(row):
            return None
        return document_from(row)

    def _passages(self, owner: Scope, document: Document, found: ReadDocument, asserted: datetime) -> list[Memory]:
        passages = split(
            found.blocks,
            title=document.title,
            limit=min(self._config.passage_tokens, self._embedder.max_passage_tokens),
            overlap=self._config.overlap_tokens,
            count=self._embedder.passage_tokens,
        )
        if len(passages) > (most := self._config.max_passages):
            raise InvalidRequestError(
                f"{document.source}: has {len(passages)} passages, and memory.knowledge.max_passages is {most}; split it"
            )
        return passage_rows(owner, document, passages, asserted=asserted)

    async def _embedded(self, rows: Sequence[Memory]) -> list[EmbeddedMemory]:
        found: list[EmbeddedMemory] = []
        for start in range(0, len(rows), _EMBEDDED_AT_ONCE):
            batch = rows[start : start + _EMBEDDED_AT_ONCE]
            await self._priority.pause()
            vectors = await self._embedder.embed_passages([embedded_text(row) for row in batch])
            found += map(EmbeddedMemory, batch, vectors)
        return found

    async def _description(self, row: Memory, passages: Sequence[EmbeddedMemory]) -> EmbeddedMemory:
        """The document's own row. It is not searched by its vector, so that of a passage will do."""
        return EmbeddedMemory(row, passages[0].vector) if passages else (await self._embedded([row]))[0]

    async def _stored(self, owner: Scope, document: str) -> list[Memory]:
        within = Criteria(owner.in_project(document), reach=Reach.EXACT, types=PASSAGES)
        return await all_memories(self._reader, within)

    async def _delete_others(self, owner: Scope, document: Document) -> None:
        current = frozenset(document.passages)
        stale = [row.id for row in await self._stored(owner, document.id) if row.id not in current]
        if stale:
            await self._writer.delete(owner, stale)


def _described(upload: Upload, kind: str, own_title: str, *, now: datetime) -> Document:
    return Document(
        id=document_id(upload.source),
        source=upload.source,
        title=upload.title or own_title or upload.source.rstrip("/").rpartition("/")[2],
        kind=kind,
        published_at=min(upload.published_at or now, now),
        added_at=now,
        size_bytes=len(upload.data),
        tags=upload.tags or (),
        is_titled=bool(upload.title),
    )


def _is_id(document: str) -> bool:
    return document.startswith("doc_") and document.isprintable() and len(document) <= len(document_id(""))


def _unknown() -> NotFoundError:
    return NotFoundError("no such document", kind="document")
