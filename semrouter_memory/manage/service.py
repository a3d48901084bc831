"""What a user may do with their own memories: list, get, search, store, update, forget, export.

Strategy. Everything happens within the owner of the given scope; a foreign id is an unknown id. Changes of one owner are
serialised with the background's (`OwnerLocks`). A deletion commits its tombstone first and deletes rows second; every
read asks the tombstones *after* the store, so that from the moment the tombstone is committed no read shows the memory,
however late the store catches up.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace

from semrouter_memory.config import ManagementConfig
from semrouter_memory.errors import InvalidRequestError, NotFoundError, StoreUnavailableError
from semrouter_memory.manage.admission import PROVENANCE, Redact, admissible_content, admissible_metadata
from semrouter_memory.model import EmbeddedMemory, Hit, Json, Memory, MemoryType, Page, Reach, Scope, Tombstone
from semrouter_memory.ports import Clock, Embedder, MemoryReader, MemoryWriter, NewId, OwnerLocks, TurnLog

SOURCE = "api"
"""`Memory.source` of what was stored here."""

_EXPORT_PAGE = 200
_MAX_ID_CHARS = 128
"""Ours have about 30; a longer one is unknown without asking the store."""


class DeletionUnfinishedError(StoreUnavailableError):
    """The store was away: the deletion is on record and hides its rows from every read, but they are not erased yet.

    Asking again erases them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """What a caller wants to have remembered."""

    content: str
    type: MemoryType = MemoryType.SEMANTIC
    importance: float = 0.5
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEdit:
    """Changes to a memory; None leaves a field as it is.

    Attributes:
        project_id: "" moves the memory to the user's own space.
        metadata: merged into what is there; a key with None is removed (as in RFC 7396).
    """

    content: str | None = None
    type: MemoryType | None = None
    importance: float | None = None
    project_id: str | None = None
    metadata: Mapping[str, Json] | None = None


class MemoryService:
    """One user's view of the store.

    Args:
        redact: finds secrets; what it would change is refused.

    Every method raises `StoreUnavailableError` and `TurnLogError`, and those that embed `EmbeddingError`, when that
    part is away.
    """

    def __init__(
        self,
        *,
        reader: MemoryReader,
        writer: MemoryWriter,
        embedder: Embedder,
        turn_log: TurnLog,
        locks: OwnerLocks,
        clock: Clock,
        new_id: NewId,
        redact: Redact,
        config: ManagementConfig,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._embedder = embedder
        self._turn_log = turn_log
        self._locks = locks
        self._clock = clock
        self._new_id = new_id
        self._redact = redact
        self._config = config

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str = "",
        types: frozenset[MemoryType] | None = None,
        reach: Reach = Reach.ALL,
    ) -> Page:
        """Active memories, newest first. A page may hold fewer than `limit` and still have a successor.

        Raises:
            InvalidRequestError: the cursor is not one of ours.
        """
        page = await self._reader.page(
            scope, limit=limit, cursor=cursor, types=types, reach=reach, now=self._clock.now()
        )
        deleted = await self._turn_log.tombstones(scope)
        return Page(tuple(memory for memory in page.memories if not deleted.covers(memory)), page.cursor)

    async def export(self, scope: Scope) -> AsyncIterator[Memory]:
        """Every active memory of the owner, newest first."""
        cursor = ""
        while True:
            page = await self.page(scope, limit=_EXPORT_PAGE, cursor=cursor)
            for memory in page.memories:
                yield memory
            if not (cursor := page.cursor):
                return

    async def get(self, scope: Scope, memory_id: str) -> Memory:
        """One memory, a superseded one too.

        Raises:
            NotFoundError: the owner has no such memory.
        """
        memory = await self._stored(scope, memory_id)
        if memory is None or (await self._turn_log.tombstones(scope)).covers(memory):
            raise NotFoundError("no such memory")
        return memory

    async def search(
        self,
        scope: Scope,
        query: str,
        *,
        limit: int,
        types: frozenset[MemoryType] | None = None,
        reach: Reach = Reach.ALL,
        threshold: float | None = None,
    ) -> list[Hit]:
        """The memories nearest to a query, best first; with a threshold only those at least as relevant.

        Raises:
            InvalidRequestError: the query is blank or too long.
        """
        if not query.strip():
            raise InvalidRequestError("query must not be blank", field="query")
        if len(query) > self._config.max_content_chars:
            raise InvalidRequestError(
                f"query is longer than {self._config.max_content_chars} characters", field="query"
            )
        vector = await self._embedder.embed_query(query)
        hits = await self._reader.search(
            scope, vector, limit=limit, now=self._clock.now(), types=types, reach=reach, fresh=True
        )
        deleted = await self._turn_log.tombstones(scope)
        return [
            hit for hit in hits if not deleted.covers(hit.memory) and (threshold is None or hit.relevance >= threshold)
        ]

    async def store(self, scope: Scope, new: NewMemory) -> Memory:
        """Remember a statement in the scope's project.

        Raises:
            InvalidRequestError: it may not be stored; the message says why.
        """
        content = self._admissible(new.content)
        self._check_metadata(new.metadata)
        async with self._locks.hold(scope):
            now = self._clock.now()
            memory = Memory(
                id=self._new_id(),
                scope=scope,
                type=new.type,
                content=content,
                source=SOURCE,
                observed_at=now,
                created_at=now,
                updated_at=now,
                importance=new.importance,
                metadata=dict(new.metadata),
            )
            return await self._write(scope, memory)

    async def update(self, scope: Scope, memory_id: str, edit: MemoryEdit) -> Memory:
        """Change a memory; it counts as said again now.

        Raises:
            InvalidRequestError: the new value may not be stored.
            NotFoundError: the owner has no such memory.
        """
        if edit.metadata is not None:
            self._check_metadata(edit.metadata)
        content = None if edit.content is None else self._admissible(edit.content)
        async with self._locks.hold(scope):
            memory = self._edited(await self.get(scope, memory_id), replace(edit, content=content))
            return await self._write(scope, memory)

    async def forget(self, scope: Scope, memory_id: str) -> None:
        """Delete one memory, and the turns that it was learned from.

        Raises:
            NotFoundError: the owner has no such memory.
            DeletionUnfinishedError: the store is away.
        """
        async with self._locks.hold(scope):
            try:
                memory = await self._stored(scope, memory_id)
            except StoreUnavailableError as error:
                await self._turn_log.bury(Tombstone(scope=scope, at=self._clock.now(), memory_id=memory_id))
                raise DeletionUnfinishedError from error
            # A row that is buried already is found here on purpose: the store was away when it was to be deleted.
            if memory is None:
                raise NotFoundError("no such memory")
            await self._bury(memory)
            try:
                await self._writer.delete(scope, [memory.id])
            except StoreUnavailableError as error:
                raise DeletionUnfinishedError from error

    async def forget_all(self, scope: Scope, reach: Reach) -> int:
        """Delete everything of the owner (`ALL`) or of the scope's project (`EXACT`), the waiting turns too.

        Returns:
            How many memories were deleted.

        Raises:
            DeletionUnfinishedError: the store is away.
        """
        async with self._locks.hold(scope):
            await self._turn_log.bury(Tombstone(scope=scope, at=self._clock.now(), reach=reach))
            try:
                return await self._writer.delete_all(scope, reach)
            except StoreUnavailableError as error:
                raise DeletionUnfinishedError from error

    async def _bury(self, memory: Memory) -> None:
        tombstone = Tombstone(
            scope=memory.scope,
            at=self._clock.now(),
            memory_id=memory.id,
            content_hash=self._turn_log.content_hash(memory.content),
        )
        await self._turn_log.bury(tombstone, turn_ids=_source_turns(memory))

    async def _stored(self, scope: Scope, memory_id: str) -> Memory | None:
        if not 0 < len(memory_id) <= _MAX_ID_CHARS or not memory_id.isprintable():
            return None
        return await self._reader.get(scope, memory_id)

    async def _write(self, scope: Scope, memory: Memory) -> Memory:
        vectors = await self._embedder.embed_passages([memory.content])
        await self._writer.upsert(scope, [EmbeddedMemory(memory, vectors[0])])
        return memory

    def _edited(self, memory: Memory, edit: MemoryEdit) -> Memory:
        now = self._clock.now()
        return replace(
            memory,
            content=memory.content if edit.content is None else edit.content,
            type=edit.type or memory.type,
            importance=memory.importance if edit.importance is None else edit.importance,
            scope=memory.scope if edit.project_id is None else replace(memory.scope, project_id=edit.project_id),
            metadata=self._merged(memory.metadata, edit.metadata) if edit.metadata else memory.metadata,
            observed_at=now,
            updated_at=now,
        )

    def _merged(self, old: Mapping[str, Json], changes: Mapping[str, Json]) -> dict[str, Json]:
        merged = {key: value for key, value in {**old, **changes}.items() if value is not None}
        self._check_metadata({key: value for key, value in merged.items() if key not in PROVENANCE})
        return merged

    def _admissible(self, content: str) -> str:
        return admissible_content(content, max_chars=self._config.max_content_chars, redact=self._redact)

    def _check_metadata(self, metadata: Mapping[str, Json]) -> None:
        admissible_metadata(metadata, max_bytes=self._config.max_metadata_bytes, redact=self._redact)


def _source_turns(memory: Memory) -> tuple[str, ...]:
    turn_ids = memory.metadata.get("turn_ids")
    return tuple(str(turn_id) for turn_id in turn_ids) if isinstance(turn_ids, list | tuple) else ()
