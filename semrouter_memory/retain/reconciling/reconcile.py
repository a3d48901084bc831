"""Decides what a new statement means for what is known: add, update, refine, retract, skip or flag. Pure.

Strategy: the cosine finds the neighbours but cannot judge them ("prefers dark mode" and "prefers light mode" are at
0.84, the same budget said twice in other words at 0.56), so `relate` compares what two statements say, and the cosine
counts only where it is silent. Newer means said later, whenever it arrives: a statement that arrives late takes its
place in the chain of what was said about the same thing. In doubt a statement is added: a duplicate is a nuisance, a
fact that was wrongly superseded is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from semrouter_memory.model import SESSION_SOURCE, Candidate, Hit, Memory, MemoryType, ReconcileAction, Reconciled
from semrouter_memory.retain.reconciling.meaning import Meaning, meaning
from semrouter_memory.retain.reconciling.relate import distinct_for_sure, paraphrase, relate
from semrouter_memory.retain.reconciling.relation import Relation
from semrouter_memory.retain.reconciling.rows import contradicted

PARAPHRASE_SIMILARITY = 0.95
"""From here on two statements with equal names, numbers and negation are one (measured: distinct facts stay below)."""
SAME_TURN_SIMILARITY = 0.8
"""The same for two statements that were read from one turn."""
GREY_SIMILARITY = 0.7
"""From here on two statements that only look distinct are worth asking a model about."""

NEAR_TYPES = {
    MemoryType.SEMANTIC: frozenset({MemoryType.SEMANTIC, MemoryType.EPISODIC}),
    MemoryType.EPISODIC: frozenset({MemoryType.SEMANTIC, MemoryType.EPISODIC}),
    MemoryType.PROCEDURAL: frozenset({MemoryType.PROCEDURAL}),
    MemoryType.REFLECTIVE: frozenset({MemoryType.REFLECTIVE}),
}
"""Types whose memories a statement may repeat or replace."""

_SKEW = timedelta(minutes=1)
"""Replicas' clocks differ."""

_OBSOLETE = frozenset({Relation.CONTRADICTS, Relation.REPLACES, Relation.REPLACES_ONE})
_BY_WEIGHT = (Relation.CONTRADICTS, Relation.REPLACES, Relation.REPLACES_ONE, Relation.REFINES)


@dataclass(slots=True)
class _Found:
    """How a candidate stands to all that is known.

    Attributes:
        said: the same, or more, is known.
        outdated: what the candidate makes obsolete, by relation.
        later: what was said later and makes the candidate obsolete.
        open: contradictions that nothing decides.
    """

    said: list[tuple[Relation, Memory]] = field(default_factory=list)
    outdated: list[tuple[Relation, Memory]] = field(default_factory=list)
    later: list[tuple[Relation, Memory]] = field(default_factory=list)
    open: list[tuple[Relation, Memory]] = field(default_factory=list)


def reconcile(candidate: Candidate, neighbours: Sequence[Hit], history: Sequence[Memory] = ()) -> Reconciled:
    """What to do with a candidate.

    Args:
        neighbours: the owner's nearest active memories, best first.
        history: superseded memories that lead to them; needed where `arrives_late` says so.
    """
    found = _Found()
    new = _meaning(candidate)
    for hit in neighbours:
        if is_near(candidate, hit.memory):
            _compare(candidate, new, hit, found)
    for memory in history:
        if is_near(candidate, memory) and _was_valid(memory, candidate.observed_at):
            _compare(candidate, new, Hit(memory, 0.0, 0.0), found)
    return _decide(candidate, new, found)


def arrives_late(candidate: Candidate, neighbours: Sequence[Hit]) -> bool:
    """Whether something near was said at the same time or later, so that history matters."""
    return any(is_near(candidate, hit.memory) and hit.memory.said_at >= candidate.observed_at for hit in neighbours)


def not_after(now: datetime, known: Memory, candidate: Candidate) -> Memory:
    """The memory; one from the future counts as said before the candidate: the clock was set back since it was said."""
    ahead = now + _SKEW
    if known.said_at <= ahead or candidate.observed_at > ahead:
        return known
    return known.asserted(candidate.observed_at - timedelta.resolution, now=ahead)


def is_near(candidate: Candidate, known: Memory) -> bool:
    """Whether the candidate may repeat or replace that memory at all."""
    return known.type in NEAR_TYPES[candidate.type] and known.source != SESSION_SOURCE


def grey(candidate: Candidate, neighbours: Sequence[Hit], decision: Reconciled) -> tuple[Memory, ...]:
    """The memories that a model could see more in than the rules do; none when the rules are sure.

    Args:
        decision: what the rules say.
    """
    if decision.action is ReconcileAction.FLAG:
        return decision.targets
    if decision.action is not ReconcileAction.ADD or decision.successor:
        return ()
    new = _meaning(candidate)
    return tuple(
        hit.memory
        for hit in neighbours
        if hit.similarity >= GREY_SIMILARITY
        and is_near(candidate, hit.memory)
        and hit.memory.said_at < candidate.observed_at
        and not distinct_for_sure(new, _meaning(hit.memory))
    )


def _compare(candidate: Candidate, new: Meaning, hit: Hit, found: _Found) -> None:
    known, old = hit.memory, _meaning(hit.memory)
    tie = known.said_at == candidate.observed_at
    after = known.said_at > candidate.observed_at or (tie and old.changing and not new.changing)
    relation = relate(old, new) if after else relate(new, old)
    if relation is Relation.DISTINCT and hit.similarity >= _cut(candidate, known) and paraphrase(new, old):
        relation = Relation.SAME
    if after:
        _note_later(relation, known, found)
    elif relation in {Relation.SAME, Relation.COVERED}:
        found.said.append((relation, known))
    elif relation is Relation.PARTLY or (tie and relation in _OBSOLETE and not new.changing):
        found.open.append((relation, known))
    elif relation is not Relation.DISTINCT:
        found.outdated.append((relation, known))


def _note_later(relation: Relation, known: Memory, found: _Found) -> None:
    """What was said earlier and is known in more detail adds nothing; the other way round it does."""
    if relation in {Relation.SAME, Relation.REFINES}:
        found.said.append((Relation.SAME if relation is Relation.SAME else Relation.COVERED, known))
    elif relation is Relation.PARTLY:
        found.open.append((relation, known))
    elif relation in _OBSOLETE:
        found.later.append((relation, known))


def _cut(candidate: Candidate, known: Memory) -> float:
    same_turn = bool(set(candidate.turn_ids) & set(known.ids("turn_ids")))
    return SAME_TURN_SIMILARITY if same_turn else PARAPHRASE_SIMILARITY


def _was_valid(memory: Memory, at: datetime) -> bool:
    """Whether superseded memory still held at that time."""
    return memory.superseded_at is not None and memory.superseded_at > at


def _decide(candidate: Candidate, new: Meaning, found: _Found) -> Reconciled:
    if found.said:
        relation, known = min(
            found.said, key=lambda pair: (pair[0] is not Relation.SAME, pair[1].superseded_at is not None)
        )
        rivals = _rivals(known, [memory for _, memory in found.outdated])
        if rivals and known.said_at < candidate.observed_at:
            repeated = (known,) if relation is Relation.SAME else ()
            return Reconciled(ReconcileAction.UPDATE, "contradiction_decided", (*repeated, *rivals))
        return Reconciled(ReconcileAction.SKIP, relation.value, (known,))
    if found.later:
        _, successor = min(found.later, key=lambda pair: pair[1].said_at)
        targets = tuple(memory for relation, memory in found.outdated if relation in _OBSOLETE)
        return Reconciled(ReconcileAction.ADD, "replaced_since", targets, successor)
    outdated = _sure(found)
    if not outdated and found.open:
        relation, _ = found.open[0]
        return Reconciled(ReconcileAction.FLAG, relation.value, tuple(memory for _, memory in found.open))
    if not outdated:
        return Reconciled(ReconcileAction.ADD, "new_statement")
    relation = next(relation for relation in _BY_WEIGHT if any(relation is each for each, _ in outdated))
    return Reconciled(_action(relation, new), relation.value, tuple(memory for _, memory in outdated))


def _rivals(known: Memory, outdated: Sequence[Memory]) -> list[Memory]:
    """Of what the candidate makes obsolete, what was flagged as contradicting the memory that it repeats."""
    return [memory for memory in outdated if memory.id in contradicted(known)]


def _sure(found: _Found) -> list[tuple[Relation, Memory]]:
    """Several memories of which the candidate can replace only one are left open instead."""
    one = [pair for pair in found.outdated if pair[0] is Relation.REPLACES_ONE and pair[1].superseded_at is None]
    if len(one) > 1:
        found.open.extend(one)
        return [pair for pair in found.outdated if pair not in one]
    return found.outdated


def _action(relation: Relation, new: Meaning) -> ReconcileAction:
    if relation is Relation.REFINES:
        return ReconcileAction.REFINE
    if relation is Relation.CONTRADICTS and new.negated:
        return ReconcileAction.RETRACT
    return ReconcileAction.UPDATE


def _meaning(statement: Candidate | Memory) -> Meaning:
    return meaning(statement.content, procedural=statement.type is MemoryType.PROCEDURAL)
