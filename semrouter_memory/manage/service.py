"""What a user may do with their own memories: list, get, search, store, update, delete, export and import.

Strategy. Everything happens within the owner of the given scope; a foreign id is an unknown id. Changes of one owner are
serialised with background changes (`OwnerLocks`). A deletion commits its tombstone before it deletes rows
(`DeletionService`); every read checks the tombstones *after* it read the store, so that from the moment the tombstone is
committed no read shows the memory, even while the store lags behind.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from semrouter_memory.backends import Backends
from semrouter_memory.config import ManagementConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import InvalidRequestError, NotFoundError, UnavailableError
from semrouter_memory.language.names import Entity, entities
from semrouter_memory.lineage import all_memories, lineage, pages
from semrouter_memory.maintenance.recall_journal import may_name_deleted, receipt_lines
from semrouter_memory.manage.admission import (
    AdmissionPolicy,
    Redact,
    confirmed,
    corrected,
    earliest,
    edited_episode,
    expiry,
    merged_json,
    new_memory,
    require_future,
    require_lasting,
    require_own_session,
    with_content,
    with_pin,
)
from semrouter_memory.manage.explaining import Explainer, Receipt
from semrouter_memory.manage.importing import Importer, Written
from semrouter_memory.manage.schemas import StoreRequest, UpdateRequest
from semrouter_memory.model import (
    ALWAYS,
    CATEGORY,
    Criteria,
    EmbeddedMemory,
    Episode,
    Hit,
    Json,
    Memory,
    MemoryType,
    Page,
    PendingSession,
    Period,
    Reach,
    ReconcileAction,
    Scope,
    Usage,
)
from semrouter_memory.ports import NewId, OwnerHold, Tombstones
from semrouter_memory.recall.vector_search import VectorSearch
from semrouter_memory.retain.episodes import rendered
from semrouter_memory.retain.passages import embedded, whole
from semrouter_memory.retain.reconciling.rows import replacing, superseded
from semrouter_memory.retain.superseding import marked, stored

_EXPORT_PAGE = 1_000
"""To choose a page, the store looks at all of the owner's memories."""
_NEIGHBOURS = 50
"""Nearest memories that a new one is compared with."""
_FURTHER = 4
"""By so much more is searched where a page is not full yet."""
_MAX_ID_CHARS = 128
"""Ours have about 30; a longer one is unknown without asking the store."""


def _every(_memory: Memory) -> bool:
    return True


class MemoryService:
    """One user's view of the store.

    Args:
        redact: finds secrets; content that it would change is refused.
        explainer: says what recall would do.
        searcher: scores search results as recall does.
        written: called with the scope of an owner whose memories changed.
        ttl_days: lifetime of memories, by type, for which a caller names no expiry; types left out do not expire.
        session_lifetime: how long a memory that holds within a session lasts at most.

    Every method raises `UnavailableError` when a part that it needs is unavailable.
    """

    def __init__(
        self,
        backends: Backends,
        *,
        new_id: NewId,
        redact: Redact,
        config: ManagementConfig,
        deletion: DeletionService,
        explainer: Explainer,
        searcher: VectorSearch,
        written: Written,
        ttl_days: Mapping[MemoryType, float],
        session_lifetime: timedelta,
    ) -> None:
        self._backends = backends
        self._reader, self._turn_log, self._clock = backends.store, backends.turn_log, backends.clock
        self._new_id, self._written, self._searcher = new_id, written, searcher
        self._admission = AdmissionPolicy(config, redact=redact)
        self._lifetimes = {kind: timedelta(days=days) for kind, days in ttl_days.items()}
        self._deletion, self._session_lifetime = deletion, session_lifetime
        self._one_names = asyncio.Lock()
        self.explainer = explainer
        self.importer = Importer(
            backends=backends, written=written, admit=self._admission.check_line, max_lines=config.max_import_lines
        )

    async def page(
        self,
        criteria: Criteria,
        *,
        limit: int,
        cursor: str = "",
        wanted: Callable[[Memory], bool] = _every,
        history: bool = False,
    ) -> Page:
        """Active memories, newest first. A page may hold fewer than `limit` and still have a successor.

        Args:
            wanted: which of them.
            history: superseded ones too; expired ones never.

        Raises:
            InvalidRequestError: the cursor is not one of ours.
        """
        now = self._clock.now()
        criteria = replace(criteria, active_at=None if history else now)
        page = await self._reader.page(criteria, limit=limit, cursor=cursor)
        deleted = await self._turn_log.tombstones(criteria.scope)
        return Page(tuple(filter(wanted, _valid(page.memories, deleted, now))), page.cursor)

    async def history(self, scope: Scope, memory_id: str) -> list[Memory]:
        """All memories that replaced one another to which that one belongs, oldest first; deleted ones never.

        Raises:
            NotFoundError: the owner has no such memory.
        """
        members = await lineage(self._reader, scope, await self.get(scope, memory_id))
        deleted = await self._turn_log.tombstones(scope)
        return [memory for memory in members if not deleted.covers(memory)]

    async def export(
        self, scope: Scope, *, observed: Period = ALWAYS, history: bool = True
    ) -> AsyncIterator[Sequence[Memory]]:
        """Every memory of the owner that has not expired, newest first, page by page.

        Args:
            observed: only memories of what was said in this period.
            history: superseded ones too.
        """
        now = self._clock.now()
        criteria = Criteria(scope, active_at=None if history else now, observed=observed)
        async for page in pages(self._reader, criteria, limit=_EXPORT_PAGE):
            deleted = await self._turn_log.tombstones(scope)
            yield _valid(page, deleted, now)

    async def entities(self, scope: Scope) -> list[Entity]:
        """The names in the owner's active memories.

        For one caller after the other: that takes seconds of a processor where there are thousands, and requests need a part of it.
        """
        async with self._one_names:
            exported = self.export(scope, history=False)
            texts = {memory.id: memory.content async for memories in exported for memory in memories}
            return await asyncio.to_thread(entities, texts)

    async def get(self, scope: Scope, memory_id: str) -> Memory:
        """One memory, a superseded one too.

        Raises:
            NotFoundError: the owner has no such memory.
        """
        memory = await self._reader.get(scope, memory_id) if _askable(memory_id) else None
        if memory is None or (await self._turn_log.tombstones(scope)).covers(memory):
            raise NotFoundError("no such memory")
        return memory

    async def search(
        self,
        criteria: Criteria,
        query: str,
        *,
        limit: int,
        wanted: Callable[[Memory], bool] = _every,
        threshold: float | None = None,
        cursor: str = "",
    ) -> tuple[list[Hit], str]:
        """The most relevant active memories for a query, best first, and the next page's cursor; "" at the end.

        Args:
            wanted: which of them.
            threshold: only those that are at least as relevant.
            cursor: of the page before, of a search that asked the same.

        Raises:
            InvalidRequestError: the query is blank or too long, or the cursor is not one of ours.
        """
        self._admission.check_query(query)
        start = _start(cursor)
        # In the order of the pages: how relevant a memory is depends on how many were searched with it.
        found: dict[str, Hit] = {}
        searched, is_last = limit, False
        while not is_last and len(found) <= start + limit:
            hits = await self._searcher.search_fresh(criteria, query, limit=searched)
            deleted = await self._turn_log.tombstones(criteria.scope)
            relevant = [hit for hit in hits if threshold is None or hit.relevance >= threshold]
            visible = [hit for hit in relevant if not deleted.covers(hit.memory)]
            for hit in await whole(self._reader, criteria.scope, visible):
                if wanted(hit.memory):
                    found.setdefault(hit.memory.id, hit)
            is_last = len(hits) < searched or len(relevant) < len(hits)
            searched *= _FURTHER
        page = list(found.values())[start : start + limit]
        return page, str(start + limit) if len(found) > start + limit else ""

    async def usage(self, scope: Scope, memories: Iterable[Memory]) -> Mapping[str, Usage] | None:
        """How often these memories were put into requests, by id; unused ones are left out. None: unknown at present."""
        try:
            return await self._backends.state.usage(scope, [memory.id for memory in memories])
        except UnavailableError:
            return None

    async def receipts(self, scope: Scope) -> list[Receipt]:
        """What the last recalls of the owner did, the newest first; none that may name what was deleted since."""
        found = [Receipt.model_validate_json(line) for line in await receipt_lines(self._backends.state, scope)]
        deleted = await self._turn_log.tombstones(scope)
        return [each for each in found if not may_name_deleted(deleted, scope.in_project(each.project_id), each.at)]

    async def store(self, scope: Scope, new: StoreRequest) -> Memory:
        """Remember a statement in the scope's project, once: one that is known already is returned as said again now.

        Raises:
            InvalidRequestError: it may not be stored; the message says why.
        """
        content = self._admission.content(new.content or rendered(new.episode))
        self._admission.check_metadata(new.metadata)
        self._admission.check_text(new.category, "category")
        self._admission.check_text(new.within_session, "within_session")
        self._admission.check_episode(new.episode, new.type)
        require_future(new.expires_at, self._clock.now())
        require_own_session(new)

        async def store(hold: OwnerHold) -> Memory:
            time = await self._turn_log.timestamp()
            now = min(time, self._clock.now())
            expires_at = expiry(new, now, self._lifetimes, self._session_lifetime)
            memory = new_memory(new, scope, content, memory_id=self._new_id(), now=now, expires_at=expires_at)
            return await self._stored(scope, memory.asserted(time, now=now), new, hold)

        return await self._backends.locked_change(scope, store)

    async def update(self, scope: Scope, memory_id: str, edit: UpdateRequest) -> Memory:
        """Change a memory; it counts as said again now.

        Raises:
            InvalidRequestError: the new value may not be stored.
            NotFoundError: the owner has no such memory.
        """
        changes = edit.changes()
        self._admission.check_metadata(changes.get("metadata", {}))
        require_future(changes.get("expires_at"), self._clock.now())
        if "content" in changes:
            changes["content"] = self._admission.content(edit.content)

        async def update(hold: OwnerHold) -> Memory:
            memory = await self.get(scope, memory_id)
            edited = await self._edited(memory, dict(changes), edit)
            linked = await self._linked(scope, memory) if edited.content != memory.content else []
            return await self._write(scope, edited, hold, corrected(memory, edited, linked))

        return await self._backends.locked_change(scope, update)

    async def forget(self, scope: Scope, memory_id: str) -> None:
        """Delete one memory with all its traces: history, linked memories, turns, usage, state.

        Raises:
            NotFoundError: the owner has no such memory.
            UnavailableError: a part is unavailable.
        """
        if not _askable(memory_id):
            raise NotFoundError("no such memory")
        try:
            await self._deletion.tombstone(scope, memory_id)
        finally:
            self._written(scope)

    async def forget_all(self, scope: Scope, reach: Reach) -> int:
        """Delete everything of the owner (`ALL`) or of the scope's project (`EXACT`): history, waiting turns, state.

        Returns:
            How many memories were deleted.

        Raises:
            UnavailableError: a part is unavailable.
        """
        try:
            return await self._deletion.tombstone_all(scope, reach)
        finally:
            self._written(scope)

    async def paused_since(self, scope: Scope) -> datetime | None:
        """Since when the user has paused remembering; None: it is not paused."""
        return (await self._turn_log.tombstones(scope)).paused_since

    async def set_paused(self, scope: Scope, *, paused: bool) -> datetime | None:
        """Pause or resume remembering; returns since when it is paused."""
        await self._turn_log.set_paused(scope, paused=paused)
        return await self.paused_since(scope)

    async def end_session(self, scope: Scope, session: str) -> PendingSession:
        """Announce that a session is at its end.

        Args:
            session: what the client calls it, or our own id of it.

        Raises:
            NotFoundError: the owner has no session of that name.
        """
        pending = await self._turn_log.end_session(scope, session) if session else None
        if pending is None:
            raise NotFoundError("no such session", kind="session")
        return pending

    async def _stored(self, scope: Scope, memory: Memory, new: StoreRequest, hold: OwnerHold) -> Memory:
        """The memory, or the one that says the same already; what it gives a new value becomes history."""
        (row,) = await embedded(self._backends.embedder, [memory])
        criteria = Criteria(scope, reach=Reach.EXACT, active_at=self._clock.now())
        hits = await self._reader.search(criteria, row.vector, limit=_NEIGHBOURS, fresh=True)
        hits = await whole(self._reader, scope, hits)
        deleted = await self._turn_log.tombstones(scope)
        alike = (hit for hit in hits if hit.memory.within_session == memory.within_session)
        decision = stored([hit for hit in alike if not deleted.covers(hit.memory)], memory)
        if decision.action is ReconcileAction.SKIP:
            again = decision.targets[0].asserted(memory.asserted_at, now=memory.updated_at)
            return await self._write(
                scope, confirmed(again, memory, new, self._merged(again.metadata, new.metadata)), hold
            )
        memory = replacing(memory, decision.targets)
        older = [superseded(old, memory, now=memory.updated_at) for old in decision.targets]
        older += [marked(old, memory) for old in decision.outdated]
        changed = await embedded(self._backends.embedder, older)
        await self._put(scope, [*changed, EmbeddedMemory(memory, row.vector)], hold)
        return memory

    async def _linked(self, scope: Scope, memory: Memory) -> list[Memory]:
        """The active statements of a quote, or the quote of a statement."""
        if memory.superseded_at is not None or not (memory.quote or memory.form == "quote"):
            return []
        deleted = await self._turn_log.tombstones(scope)
        active = await all_memories(self._reader, Criteria(scope, active_at=self._clock.now()))
        linked = (each for each in active if memory.id == each.quote or each.id == memory.quote)
        return [each for each in linked if not deleted.covers(each)]

    async def _write(self, scope: Scope, memory: Memory, hold: OwnerHold, others: Sequence[Memory] = ()) -> Memory:
        await self._put(scope, await embedded(self._backends.embedder, [*others, memory]), hold)
        return memory

    async def _put(self, scope: Scope, rows: Sequence[EmbeddedMemory], hold: OwnerHold) -> None:
        await hold.confirm()
        await self._backends.writer.upsert(scope, rows)
        self._written(scope)

    async def _edited(self, memory: Memory, changes: dict[str, Any], edit: UpdateRequest) -> Memory:
        time = await self._turn_log.timestamp()
        now = min(time, self._clock.now())
        episode, content = edited_episode(memory, changes, edit), changes.pop("content", memory.content)
        self._admission.check_episode(episode, changes.get("type", memory.type))
        if content == rendered(memory.episode) and episode not in (memory.episode, Episode()):
            content = self._admission.content(rendered(episode))
        memory = with_content(memory, content, episode)
        if "pinned" in changes:
            memory = with_pin(memory, pinned=changes.pop("pinned"))
        if "expires_at" in changes and memory.within_session:
            changes["expires_at"] = earliest(changes["expires_at"], memory.created_at + self._session_lifetime)
        if "project_id" in changes:
            changes["scope"] = replace(memory.scope, project_id=changes.pop("project_id"))
        metadata = changes.pop("metadata", {})
        if "category" in changes:
            metadata = {**metadata, CATEGORY: changes.pop("category") or None}
        if metadata:
            changes["metadata"] = self._merged(memory.metadata, metadata)
        changed = memory.changed(now, **changes)
        require_lasting(changed)
        # A pin says nothing: the memory is as old as it was.
        return changed if edit.model_fields_set == {"pinned"} else changed.asserted(time, now=now)

    def _merged(self, old: Mapping[str, Json], changes: Mapping[str, Json]) -> dict[str, Json]:
        merged = merged_json(old, changes)
        self._admission.check_metadata(merged, stored=True)
        return merged


def _start(cursor: str) -> int:
    """Where a page of a search begins."""
    if not re.fullmatch(r"\d{0,6}", cursor, re.ASCII):
        raise InvalidRequestError("the cursor is not one that a search gave", field="cursor")
    return int(cursor or 0)


def _valid(memories: Iterable[Memory], deleted: Tombstones, now: datetime) -> list[Memory]:
    """Those that were not deleted and have not expired."""
    return [
        memory
        for memory in memories
        if not deleted.covers(memory) and (memory.expires_at is None or memory.expires_at > now)
    ]


def _askable(memory_id: str) -> bool:
    return 0 < len(memory_id) <= _MAX_ID_CHARS and memory_id.isprintable()
