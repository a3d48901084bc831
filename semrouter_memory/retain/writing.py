"""Reconciles candidates with what is known, and writes, while nobody else changes this owner's memories."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from semrouter_memory.model import (
    Candidate,
    Claim,
    EmbeddedMemory,
    Hit,
    Memory,
    Reach,
    ReconcileAction,
    Reconciled,
    Scope,
    Vector,
)
from semrouter_memory.ports import Clock, Embedder, MemoryReader, MemoryWriter, NewId, OwnerLocks, Tombstones, TurnLog
from semrouter_memory.retain.reconcile import NEAR_TYPES, reconcile
from semrouter_memory.retain.redact import is_redacted

_NEIGHBOURS = 20
_MAX_SOURCES = 20
"""Turn ids kept with a memory; the newest."""


@dataclass(slots=True)
class Written:
    """What became of a claim's candidates.

    Attributes:
        alive: the claim's turns that were not deleted since.
        actions: how often each action was taken; `dropped` for candidates that may not be stored.
        sources: turns that something is known from now.
    """

    alive: frozenset[str]
    actions: Counter[str] = field(default_factory=Counter)
    sources: set[str] = field(default_factory=set)


class ReconcilingWriter:
    """Writes candidates under the owner's lock."""

    def __init__(
        self,
        *,
        turn_log: TurnLog,
        reader: MemoryReader,
        writer: MemoryWriter,
        embedder: Embedder,
        locks: OwnerLocks,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._turn_log = turn_log
        self._reader = reader
        self._writer = writer
        self._embedder = embedder
        self._locks = locks
        self._clock = clock
        self._new_id = new_id

    async def write(
        self, claim: Claim, candidates: Sequence[Candidate], *, needed: frozenset[str] = frozenset()
    ) -> Written | None:
        """Reconcile and write, in order.

        Args:
            needed: turns that must all be there still; a model that read a deleted turn may have used it anywhere.

        Returns:
            None, with nothing written, when the claim is no longer current or a needed turn was deleted.
        """
        vectors = await self._embedder.embed_passages([each.content for each in candidates]) if candidates else []
        async with self._locks.hold(claim.scope):
            written = Written(await self._turn_log.surviving(claim))
            if not written.alive or not needed <= written.alive:
                return None
            tombstones = await self._turn_log.tombstones(claim.scope)
            for candidate, vector in zip(candidates, vectors, strict=True):
                await self._take(claim.scope, candidate, vector, tombstones, written)
            return written

    async def _take(
        self, scope: Scope, candidate: Candidate, vector: Vector, tombstones: Tombstones, written: Written
    ) -> None:
        if (
            not written.alive.issuperset(candidate.turn_ids)
            or is_redacted(candidate.content)
            or tombstones.forbids(scope, candidate.content, candidate.observed_at)
        ):
            written.actions["dropped"] += 1
            return
        decision = reconcile(candidate, await self._neighbours(scope, candidate, vector, tombstones))
        await self._carry_out(scope, candidate, vector, decision)
        written.actions[decision.action] += 1
        written.sources.update(candidate.turn_ids)

    async def _neighbours(
        self, scope: Scope, candidate: Candidate, vector: Vector, tombstones: Tombstones
    ) -> list[Hit]:
        hits = await self._reader.search(
            scope,
            vector,
            limit=_NEIGHBOURS,
            now=self._clock.now(),
            types=NEAR_TYPES[candidate.type],
            reach=Reach.EXACT,
            fresh=True,
        )
        return [hit for hit in hits if not tombstones.covers(hit.memory)]

    async def _carry_out(self, scope: Scope, candidate: Candidate, vector: Vector, decision: Reconciled) -> None:
        if decision.action is ReconcileAction.SKIP and decision.target:
            await self._confirm(scope, candidate, decision)
            return
        memory = self._memory(scope, candidate)
        rows = [EmbeddedMemory(memory, vector)]
        if decision.action is ReconcileAction.UPDATE and decision.target:
            rows.append(await self._embedded(self._superseded(decision.target, memory)))
        await self._writer.upsert(scope, rows)

    async def _confirm(self, scope: Scope, candidate: Candidate, decision: Reconciled) -> None:
        """Note that a known memory was said again: deleting it must reach these turns too."""
        known = decision.target
        if known is None or candidate.observed_at < known.observed_at:
            return
        sources = list(known.metadata.get("turn_ids", ()))
        added = [turn_id for turn_id in candidate.turn_ids if turn_id not in sources]
        if added:
            confirmed = replace(
                known,
                observed_at=candidate.observed_at,
                updated_at=self._clock.now(),
                metadata={**known.metadata, "turn_ids": [*sources, *added][-_MAX_SOURCES:]},
            )
            await self._writer.upsert(scope, [await self._embedded(confirmed)])

    async def _embedded(self, memory: Memory) -> EmbeddedMemory:
        (vector,) = await self._embedder.embed_passages([memory.content])
        return EmbeddedMemory(memory, vector)

    def _superseded(self, old: Memory, new: Memory) -> Memory:
        return replace(old, superseded_at=new.created_at, superseded_by=new.id, updated_at=new.created_at)

    def _memory(self, scope: Scope, candidate: Candidate) -> Memory:
        now = self._clock.now()
        return Memory(
            id=self._new_id(),
            scope=scope,
            type=candidate.type,
            content=candidate.content,
            source="conversation",
            observed_at=candidate.observed_at,
            created_at=now,
            updated_at=now,
            session_id=candidate.session_id,
            metadata={
                "turn_ids": list(candidate.turn_ids),
                "extractor": candidate.extractor,
                "model": candidate.model,
            },
        )
