"""Reconciles candidates with what is known, and writes, under the owner's lock.

Strategy: all that takes long (embedding, asking a model) happens before the owner's lock is taken. Under the lock the
neighbours are read again and the rules decide again; what a model said counts only when nothing has changed since.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from semrouter_memory.backends import Backends
from semrouter_memory.errors import ChatModelError
from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import (
    SESSION_SOURCE,
    Candidate,
    Claim,
    EmbeddedMemory,
    LoggedTurn,
    Memory,
    MemoryType,
    ReconcileAction,
    Reconciled,
    Scope,
    Vector,
)
from semrouter_memory.ports import ChatModel, OwnerHold, Tombstones
from semrouter_memory.retain import statements
from semrouter_memory.retain.passages import embedded, fitted, reads_all
from semrouter_memory.retain.reconciling.neighbours import Near, NeighbourReader
from semrouter_memory.retain.reconciling.reconcile import MAX_SHOWN, decided_by_model, grey, grey_prompt
from semrouter_memory.retain.reconciling.rows import (
    RowFactory,
    contradicted,
    flagged,
    replacing,
    superseded,
    unflagged,
)
from semrouter_memory.retain.redact import is_redacted
from semrouter_memory.retain.superseding import marked

_NEWER_TURNS = 100
"""Turns that may have come while a session was summed up; with more of them it is tried again."""


@dataclass(slots=True)
class Written:
    """What became of a claim's candidates.

    Attributes:
        alive: the claim's turns that were not deleted since.
        actions: how often each action was taken; `dropped` for candidates that may not be stored, `too_long` for those
            that the embedding model does not read to the end, `withdrawn` for memories that the user took back.
        sources: turns that something is known from now.
    """

    alive: frozenset[str]
    actions: Counter[str] = field(default_factory=Counter)
    sources: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Opinion:
    """A model's decision, and what it was made from."""

    decision: Reconciled
    without: Reconciled
    asked: tuple[Memory, ...]


class _Prepared(NamedTuple):
    """A candidate as it may be written, its vector, and what a model says of it."""

    candidate: Candidate
    vector: Vector
    opinion: _Opinion | None


class ReconcilingWriter:
    """Writes candidates under the owner's lock.

    Args:
        ttl_days: how long memories of a type live; types left out do not expire.
        adjudicator: the model that is asked where the rules are not sure.
        written: told of each owner whose memories were changed.
    """

    def __init__(
        self,
        backends: Backends,
        *,
        ttl_days: Mapping[MemoryType, float] | None = None,
        adjudicator: ChatModel | None = None,
        written: Callable[[Scope], object] | None = None,
    ) -> None:
        self._reader, self._writer, self._embedder = backends.store, backends.writer, backends.embedder
        self._turn_log, self._locks, self._clock = backends.turn_log, backends.locks, backends.clock
        self._priority = backends.priority
        self._neighbours = NeighbourReader(backends)
        self._fits = reads_all(backends.embedder)
        self._rows = RowFactory(ttl_days=ttl_days or {})
        self._adjudicator = adjudicator
        self._written = written

    async def write(
        self,
        claim: Claim,
        candidates: Sequence[Candidate],
        *,
        needed: frozenset[str] = frozenset(),
        withdrawn: Sequence[LoggedTurn] = (),
    ) -> Written | None:
        """Reconcile and write, in order.

        Args:
            needed: turns that must all be there still; a model that read a deleted turn may have used it anywhere.
            withdrawn: turns of the claim's session that the user has taken back since: what they stored is deleted first.

        Returns:
            None, with nothing written, when the claim is no longer current or a needed turn was deleted.

        Raises:
            LockLostError: the owner's lock was lost; what was written until then is whole, and doing all of it again
                changes nothing.
        """
        prepared = await self._prepared(claim.scope, candidates)
        async with self._locks.hold(claim.scope) as hold:
            written = Written(await self._turn_log.surviving(claim))
            if not written.alive or not needed <= written.alive:
                return None
            if refused := len(candidates) - len(prepared):
                written.actions["too_long"] = refused
            tombstones = await self._turn_log.tombstones(claim.scope)
            if withdrawn and (count := await self._withdraw(claim.scope, withdrawn, tombstones, hold)):
                written.actions["withdrawn"] = count
            await self._write_each(claim.scope, prepared, tombstones, hold, written)
            return written

    async def _write_each(
        self, scope: Scope, prepared: Sequence[_Prepared], tombstones: Tombstones, hold: OwnerHold, written: Written
    ) -> None:
        allowed = [each for each in prepared if self._allowed(scope, each.candidate, tombstones, written.alive)]
        if dropped := len(prepared) - len(allowed):
            written.actions["dropped"] = dropped
        await self._priority.pause()
        around = await self._neighbours.read(scope, [each.vector for each in allowed], tombstones)
        for index, (candidate, _, opinion) in enumerate(allowed):
            near = await self._neighbours.near(around, index, candidate)
            decision = _agreed(await near.decide(), near, opinion)
            around.add(await self._carry_out(scope, near.candidate, decision, hold))
            written.actions[decision.action] += 1
            written.sources.update(candidate.turn_ids)

    async def replace(self, claim: Claim, candidate: Candidate, *, memory_id: str) -> bool:
        """Write the candidate as the memory with exactly that id, new or over its former version. Nothing is reconciled.

        Returns:
            False, with nothing written, when the claim is no longer current or the statement may not be stored.

        Raises:
            LockLostError: the owner's lock was lost.
        """
        (vector,) = await self._embedder.embed_passages([embedded_text(candidate)])
        async with self._locks.hold(claim.scope) as hold:
            # Not `surviving`: a session that is summed up has turns that wait no more.
            stored = await self._turn_log.session_turns(claim, limit=len(candidate.turn_ids) + _NEWER_TURNS)
            alive = frozenset(turn.id for turn in stored)
            tombstones = await self._turn_log.tombstones(claim.scope)
            if not alive or not self._allowed(claim.scope, candidate, tombstones, alive):
                return False
            former = await self._reader.get(claim.scope, memory_id)
            now = self._clock.now()
            memory = replace(
                self._rows.new(claim.scope, candidate, now=now, memory_id=memory_id),
                source=SESSION_SOURCE,
                created_at=former.created_at if former else now,
            )
            if tombstones.covers(memory):
                return False
            await self._upsert(claim.scope, [EmbeddedMemory(memory, vector)], hold)
            return True

    async def share(
        self, claim: Claim, turns: Sequence[LoggedTurn], scope: Scope, candidates: Sequence[Candidate]
    ) -> None:
        """Reconcile and write for another owner what a session taught, unless one of its turns was deleted.

        Args:
            candidates: lead to no turn.

        Raises:
            LockLostError: an owner's lock was lost.
        """
        prepared = await self._prepared(scope, candidates)
        # The only two locks that one task holds: the user's first, so that two tasks cannot wait for each other.
        async with self._locks.hold(claim.scope) as users, self._locks.hold(scope) as hold:
            stored = await self._turn_log.session_turns(claim, limit=len(turns) + _NEWER_TURNS)
            if not {turn.id for turn in turns} <= {turn.id for turn in stored}:
                return
            tombstones = await self._turn_log.tombstones(scope)
            await users.confirm()
            await self._write_each(scope, prepared, tombstones, hold, Written(frozenset()))

    async def settle(self, scope: Scope, memories: Sequence[Memory]) -> None:
        """Make those memories of a session the owner's own that are to be promoted, as if said when stored; delete the others.

        Raises:
            LockLostError: the owner's lock was lost; doing it again completes it.
        """
        vectors = await self._embedder.embed_passages([embedded_text(each) for each in memories])
        async with self._locks.hold(scope) as hold:
            tombstones = await self._turn_log.tombstones(scope)
            for each, vector in zip(memories, vectors, strict=True):
                memory = await self._reader.get(each.scope, each.id)
                if memory is None or not memory.within_session:
                    continue
                written = await self._promote(memory, vector, tombstones, hold) if memory.promote else ()
                if memory.id not in {row.memory.id for row in written}:
                    await hold.confirm()
                    await self._writer.delete(memory.scope, [memory.id])
        if self._written:
            self._written(scope)

    async def _promote(
        self, memory: Memory, vector: Vector, tombstones: Tombstones, hold: OwnerHold
    ) -> Sequence[EmbeddedMemory]:
        if tombstones.covers(memory) or memory.superseded_at is not None:
            return ()
        around = await self._neighbours.read(memory.scope, [vector], tombstones)
        candidate = Candidate(
            type=memory.type, content=memory.content, observed_at=memory.observed_at, extractor="", form=memory.form
        )
        decision = await (await self._neighbours.near(around, 0, candidate)).decide()
        row = self._rows.promoted(memory)
        return await self._carry_out(memory.scope, candidate, decision, hold, row=row)

    async def _prepared(self, scope: Scope, candidates: Sequence[Candidate]) -> list[_Prepared]:
        deleted = await self._turn_log.tombstones(scope)
        whole = [_without_deleted(scope, each, deleted) for each in candidates]
        fitting = [each for each in [await self._fitted(each) for each in whole] if each]
        texts = [embedded_text(each) for each in fitting]
        await self._priority.pause()
        vectors = await self._embedder.embed_passages(texts) if texts else []
        return [
            _Prepared(candidate, vector, await self._opinion(scope, candidate, vector, deleted))
            for candidate, vector in zip(fitting, vectors, strict=True)
        ]

    async def _fitted(self, candidate: Candidate) -> Candidate | None:
        """The candidate with no more than the embedding model reads; None when its first sentence is longer."""
        if self._fits(candidate.content):
            return candidate
        content = await asyncio.to_thread(fitted, candidate.content, self._fits)
        return _cut(candidate, content) if content else None

    # -- deciding ------------------------------------------------------------------------------------------------------

    async def _opinion(
        self, scope: Scope, candidate: Candidate, vector: Vector, tombstones: Tombstones
    ) -> _Opinion | None:
        """What a model says of a candidate that the rules are not sure of."""
        if self._adjudicator is None or is_redacted(candidate.content):
            return None
        around = await self._neighbours.read(scope, [vector], tombstones)
        near = await self._neighbours.near(around, 0, candidate)
        without = await near.decide()
        asked = grey(near.candidate, near.hits, without)
        decision = await _asked(self._adjudicator, candidate, asked[:MAX_SHOWN]) if asked else None
        return _Opinion(decision, without, asked) if decision else None

    def _allowed(self, scope: Scope, candidate: Candidate, tombstones: Tombstones, alive: frozenset[str]) -> bool:
        return (
            alive.issuperset(candidate.turn_ids)
            and not is_redacted(candidate.content)
            and not any(tombstones.forbids(scope, part, candidate.observed_at) for part in _parts(candidate))
        )

    # -- carrying out --------------------------------------------------------------------------------------------------

    async def _carry_out(
        self, scope: Scope, candidate: Candidate, decision: Reconciled, hold: OwnerHold, *, row: Memory | None = None
    ) -> list[EmbeddedMemory]:
        """Returns what was written.

        Args:
            row: the candidate as a memory, if it is one already.
        """
        now = self._clock.now()
        if decision.action is ReconcileAction.SKIP:
            changed = [self._rows.confirmed(known, candidate, now=now) for known in decision.targets]
            changed = [memory for memory in changed if memory not in decision.targets]
        else:
            memory = row or self._rows.new(scope, candidate, now=now)
            if decision.action is ReconcileAction.FLAG:
                memory, *changed = flagged(memory, decision.targets, now=now)
            else:
                memory = replacing(memory, decision.targets)
                changed = [superseded(old, memory, now=now) for old in decision.targets]
                changed += [marked(old, memory) for old in decision.outdated]
                changed += await self._unflagged(scope, decision.targets)
                if decision.successor:
                    memory = superseded(memory, decision.successor, now=now)
            changed = [*changed, memory]
        rows = await embedded(self._embedder, changed)
        if rows:
            await self._upsert(scope, rows, hold)
        return rows

    async def _withdraw(
        self, scope: Scope, turns: Sequence[LoggedTurn], tombstones: Tombstones, hold: OwnerHold
    ) -> int:
        """Delete what these turns stored; returns how many memories."""
        withdrawal = await self._neighbours.withdrawal(scope, turns, tombstones)
        if withdrawal.changed:
            await self._upsert(scope, withdrawal.changed, hold)
        if withdrawal.ids:
            await hold.confirm()
            await self._writer.delete(scope, withdrawal.ids)
            if self._written:
                self._written(scope)
        return len(withdrawal.ids)

    async def _unflagged(self, scope: Scope, replaced: Sequence[Memory]) -> list[Memory]:
        """The memories that the replaced ones contradicted, with that taken back."""
        gone = {memory.id for memory in replaced}
        others = {other for memory in replaced for other in contradicted(memory)} - gone
        found = [await self._reader.get(scope, memory_id) for memory_id in sorted(others)]
        return [unflagged(memory, gone, now=self._clock.now()) for memory in found if memory]

    async def _upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory], hold: OwnerHold) -> None:
        await self._priority.pause()
        await hold.confirm()
        await self._writer.upsert(scope, rows)
        if self._written:
            self._written(scope)


async def _asked(model: ChatModel, candidate: Candidate, known: Sequence[Memory]) -> Reconciled | None:
    """What the model says, or None when it says nothing that can be used. Never raises for what it does."""
    try:
        return decided_by_model(await model.complete(grey_prompt(candidate, known)), known)
    except ChatModelError:
        return None


def _agreed(decision: Reconciled, near: Near, opinion: _Opinion | None) -> Reconciled:
    """The model's decision where all it was asked about is as it was, else that of the rules."""
    if opinion is None or decision != opinion.without:
        return decision
    known = [hit.memory for hit in near.hits]
    return opinion.decision if all(memory in known for memory in opinion.asked) else decision


def _parts(candidate: Candidate) -> list[str]:
    """What of a candidate may have been deleted: all of it, and each sentence of a quote."""
    whole = [candidate.content]
    return whole + sentences(candidate.content) if candidate.form == "quote" else whole


def _without_deleted(scope: Scope, candidate: Candidate, deleted: Tombstones) -> Candidate:
    """A quote without the sentences that were deleted as a memory of their own; what is deleted whole is refused later."""
    if candidate.form != "quote":
        return candidate
    texts = (candidate.content, candidate.context, candidate.asked)
    content, context, asked = (_without_forbidden(scope, text, candidate, deleted) for text in texts)
    return _cut(replace(candidate, context=context, asked=asked), content or candidate.content)


def _without_forbidden(scope: Scope, text: str, candidate: Candidate, deleted: Tombstones) -> str:
    parts = [part for part in sentences(text) if not deleted.forbids(scope, part, candidate.observed_at)]
    return "".join(parts).strip()


def _cut(candidate: Candidate, content: str) -> Candidate:
    """The candidate with that content; of a quote that is shorter now, with the facts that are still said."""
    if candidate.form != "quote" or content == candidate.content:
        return replace(candidate, content=content)
    said = {fact.text for fact in statements.facts(content, candidate.context)}
    return replace(candidate, content=content, facts=tuple(fact for fact in candidate.facts if fact.text in said))
