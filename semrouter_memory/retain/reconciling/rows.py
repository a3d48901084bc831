"""What a decision makes of memories: new, confirmed, superseded, flagged. Pure; time is given."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from semrouter_memory.model import (
    ASKED,
    CATEGORY,
    CONTEXT,
    FORM,
    PINNED,
    QUOTE,
    STATEMENTS,
    WITHIN,
    Candidate,
    Json,
    Memory,
    MemoryType,
    Scope,
    derived_id,
)

_MAX_SOURCES = 20
"""Bound on a memory's turn ids; the newest stay."""
_MAX_CONTRADICTED = 20
_UNFLAGGED = {"flagged": None, "contradicts": None}
_MAX_REPLACED = 50
"""Bound on the turn ids of replaced memories; the newest stay."""


class RowFactory:
    """Makes rows of candidates, and says how long they live.

    Args:
        ttl_days: how long memories of a type live; types left out do not expire.
    """

    def __init__(self, *, ttl_days: Mapping[MemoryType, float]) -> None:
        self._lifetimes = {kind: timedelta(days=days) for kind, days in ttl_days.items()}

    def new(self, scope: Scope, candidate: Candidate, *, now: datetime, memory_id: str = "") -> Memory:
        """A candidate as a memory, with where it comes from.

        Its id follows from the turn and the words: a replica that repeats another's write, which it may not see yet,
        writes the same row.
        """
        lifetime = self._lifetimes.get(candidate.type)
        memory = Memory(
            id=memory_id or _id(scope, candidate),
            scope=scope,
            type=candidate.type,
            content=candidate.content,
            source="conversation",
            observed_at=candidate.observed_at,
            created_at=now,
            updated_at=now,
            session_id=candidate.session_id,
            metadata=_provenance(candidate),
        ).asserted(candidate.observed_at, now=now)
        return replace(memory, expires_at=memory.observed_at + lifetime) if lifetime else memory

    def promoted(self, memory: Memory) -> Memory:
        """A session's memory as the owner's own."""
        lifetime = self._lifetimes.get(memory.type)
        return replace(memory.noting({WITHIN: None}), expires_at=memory.observed_at + lifetime if lifetime else None)

    def confirmed(self, known: Memory, candidate: Candidate, *, now: datetime) -> Memory:
        """A memory that was said again: deleting it must reach these turns too. Unchanged when they are known already.

        A quote takes the type of a procedure from a model's statement that says the same.
        """
        if candidate.extraction_model and candidate.type is MemoryType.PROCEDURAL and known.form == "quote":
            known = self._as_procedure(known, now)
        sources = list(known.ids("turn_ids"))
        added = [turn_id for turn_id in candidate.turn_ids if turn_id not in sources]
        if not added:
            return known
        confirmed = known.noting({"turn_ids": [*sources, *added][-_MAX_SOURCES:]}).changed(now)
        if known.superseded_at is not None:
            return confirmed
        confirmed = confirmed.noting({"confirmations": known.confirmations + 1})
        if candidate.observed_at <= known.asserted_at:
            return confirmed
        again = confirmed.asserted(candidate.observed_at, now=now)
        return replace(
            again,
            observed_at=max(known.observed_at, again.observed_at),
            expires_at=self._extended(known, again.observed_at),
        )

    def _as_procedure(self, known: Memory, now: datetime) -> Memory:
        if known.type is not MemoryType.SEMANTIC or known.superseded_at is not None:
            return known
        before, after = (self._lifetimes.get(kind) for kind in (known.type, MemoryType.PROCEDURAL))
        by_type = known.expires_at == (known.observed_at + before if before else None)
        expires_at = (known.observed_at + after if after else None) if by_type else known.expires_at
        return known.changed(now, type=MemoryType.PROCEDURAL, expires_at=expires_at)

    def _extended(self, known: Memory, said_at: datetime) -> datetime | None:
        """As long as its type lives, or as long as somebody gave it, from when it was said again."""
        if known.expires_at is None:
            return None
        lifetime = self._lifetimes.get(known.type, known.expires_at - known.observed_at)
        return max(known.expires_at, said_at + lifetime)


def superseded(old: Memory, newer: Memory, *, now: datetime) -> Memory:
    """As history: it held until the newer one was said. `updated_at` tells when that was learned."""
    # Their dates may be in no order where the clock was set back in between.
    until = max(old.observed_at, newer.observed_at)
    return old.noting(_UNFLAGGED).changed(now, superseded_at=until, superseded_by=newer.id)


def replacing(new: Memory, old: Sequence[Memory]) -> Memory:
    """The newer memory, with the turns in which it was said otherwise: what retells these is out of date.

    It is pinned in the place of a pinned one. Without a category it takes that of the newest memory that has one.
    """
    if any(each.pinned for each in old):
        new = replace(new.noting({PINNED: True}), expires_at=None)
    given = (each.metadata.get(CATEGORY) for each in sorted(old, key=lambda each: each.said_at, reverse=True))
    category = new.metadata.get(CATEGORY) or next(filter(None, given), None)
    if category:
        new = new.noting({CATEGORY: category})
    turns = [turn_id for each in old for turn_id in (*each.ids("replaces"), *each.ids("turn_ids"))]
    known = [*new.ids("replaces"), *turns]
    return new.noting({"replaces": list(dict.fromkeys(known))[-_MAX_REPLACED:]}) if turns else new


def flagged(new: Memory, known: Sequence[Memory], *, now: datetime) -> list[Memory]:
    """The new memory and those that it contradicts, each with the other's id."""
    return [
        _contradicting(new, [memory.id for memory in known]),
        *(_contradicting(memory, [new.id]).changed(now) for memory in known),
    ]


def unflagged(memory: Memory, gone: set[str], *, now: datetime) -> Memory:
    """A memory some of whose contradictions are decided."""
    left = [other for other in contradicted(memory) if other not in gone]
    return memory.noting({"flagged": True, "contradicts": left} if left else _UNFLAGGED).changed(now)


def _id(scope: Scope, candidate: Candidate) -> str:
    said = (candidate.form, candidate.content, candidate.context, candidate.asked)
    return derived_id(scope.owner, scope.project_id, *candidate.turn_ids, *said)


def _provenance(candidate: Candidate) -> dict[str, Json]:
    provenance: dict[str, Json] = {FORM: candidate.form} if candidate.form == "quote" else {}
    if candidate.context:
        provenance[CONTEXT] = candidate.context
    if candidate.asked:
        provenance[ASKED] = candidate.asked
    if candidate.facts:
        provenance[STATEMENTS] = [asdict(fact) for fact in candidate.facts]
    if candidate.quote:
        provenance[QUOTE] = candidate.quote
    provenance |= candidate.episode.metadata
    provenance |= {
        "turn_ids": list(candidate.turn_ids),
        "extractor": candidate.extractor,
        "model": candidate.model,
    }
    return provenance | ({"extraction_model": candidate.extraction_model} if candidate.extraction_model else {})


def contradicted(memory: Memory) -> tuple[str, ...]:
    """Ids of the memories that this one is flagged as contradicting."""
    return memory.ids("contradicts")


def _contradicting(memory: Memory, others: Sequence[str]) -> Memory:
    known = [other for other in contradicted(memory) if other not in others]
    return memory.noting({"flagged": True, "contradicts": [*known, *others][-_MAX_CONTRADICTED:]})
