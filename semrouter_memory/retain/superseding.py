"""What follows for quotes and statements from the facts that they say for certain. Pure.

Strategy: the relation of two texts is decided elsewhere (`reconciling`). Here it is completed: a fact with another value
supersedes the quote that said the old one, where that quote says nothing else; a quote that says more stays, marked as
outdated. A quote and the statements made from it share their fate, and neither makes the other history.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from semrouter_memory.language.scripts import CJK, CJK_RANGE, simplified
from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.signs import signs
from semrouter_memory.language.terms import terms
from semrouter_memory.language.words import words
from semrouter_memory.model import (
    OUTDATED_BY,
    SESSION_SOURCE,
    Candidate,
    Fact,
    Hit,
    Memory,
    ReconcileAction,
    Reconciled,
)
from semrouter_memory.retain import facts, statements
from semrouter_memory.retain.directives import corrects

_OVER = frozenset({ReconcileAction.UPDATE, ReconcileAction.REFINE, ReconcileAction.RETRACT})
REASON = "same_attribute_new_value"
KNOWN = "same_statement"
_MAX_OUTDATED = 20
"""Bound on the ids of what outdates a quote; the newest stay."""
_PARTS = re.compile(rf"[,;:](?=[\s{CJK_RANGE}])|(?<=[{CJK_RANGE}])\s|\s(?:-|–|—|and|but)\s|[，；、。]")
"""Where a sentence may begin to tell something else: "on June 5 at Villa Borromeo, about 90 guests"."""
_MOST_TOLD = 0.5
"""Of the terms of a Chinese part that tells something else: they are single characters, of which any two parts share some."""


def source_of(candidate: Candidate, hits: Sequence[Hit]) -> str:
    """The id of the quote of the same turn that a model's statement was made from: the nearest; "" for none."""
    if candidate.form == "quote":
        return ""
    turns = {*candidate.turn_ids}
    quotes = (hit for hit in hits if hit.memory.form == "quote" and turns & {*hit.memory.ids("turn_ids")})
    return next((hit.memory.id for hit in quotes), "")


def completed(candidate: Candidate, hits: Sequence[Hit], decision: Reconciled) -> Reconciled:
    """A decision with what the facts of the candidate and of the memories add to it.

    Args:
        hits: the owner's active memories that the candidate was compared with.
        decision: made from the texts.
    """
    if decision.action is ReconcileAction.SKIP or decision.successor:
        return decision
    known, new = [hit.memory for hit in hits if hit.memory.source != SESSION_SOURCE], facts_of(candidate)
    if decision.action is ReconcileAction.ADD and (same := _same(candidate, new, known)):
        return Reconciled(ReconcileAction.SKIP, KNOWN, (same,))
    others = tuple(memory for memory in decision.targets if memory.id != candidate.quote)
    replaced = {memory.id: memory for memory in others if decision.action in _OVER}
    replaced |= {
        memory.id: memory for memory in known if memory.said_at < candidate.observed_at and _is_replaced(memory, new)
    }
    replaced.pop(candidate.quote, None)
    changed = {memory.id for memory in decision.outdated} - {candidate.quote}
    unsure = [memory for memory in known if memory.id not in replaced]
    corrected = [memory for memory in unsure if memory.id in changed or _is_corrected(memory, candidate)]
    if not replaced and not corrected:
        action = decision.action if others or not decision.targets else ReconcileAction.ADD
        return replace(decision, action=action, targets=others, outdated=())
    whole = [memory for memory in replaced.values() if not _says_more(memory, candidate, new)]
    parts = [*(memory for memory in replaced.values() if memory not in whole), *corrected]
    whole, parts = _with_linked(whole, parts, known, candidate)
    if not whole:
        return Reconciled(ReconcileAction.ADD, REASON, outdated=tuple(parts))
    action = decision.action if decision.action in _OVER else ReconcileAction.UPDATE
    reason = decision.reason if decision.action in _OVER else REASON
    return Reconciled(action, reason, tuple(whole), outdated=tuple(parts))


def stored(hits: Sequence[Hit], memory: Memory) -> Reconciled:
    """What to do with a memory that a caller stores: known already, or what it gives a new value."""
    candidate = Candidate(
        type=memory.type,
        content=memory.content,
        observed_at=memory.said_at + timedelta.resolution,
        extractor=memory.source,
    )
    return completed(candidate, hits, Reconciled(ReconcileAction.ADD, "new_statement"))


def facts_of(said: Candidate | Memory) -> tuple[Fact, ...]:
    """A quote's facts as they were derived, a statement's as it reads; of a long memory none: it says more than they do."""
    if isinstance(said, Memory) and said.passage_count:
        return ()
    return said.facts if said.form == "quote" else statements.facts(said.content)


def _same(candidate: Candidate, new: Sequence[Fact], known: Sequence[Memory]) -> Memory | None:
    """A memory that says all of what the candidate says, whatever its type or form."""
    if candidate.form == "statement" and (same := next((each for each in known if _reads_same(each, candidate)), None)):
        return same
    if len(new) != 1 or not _is_said_by(candidate, new):
        return None
    return next((memory for memory in known if _repeats(memory, candidate, new[0])), None)


def _reads_same(memory: Memory, candidate: Candidate) -> bool:
    one, other = memory.content, candidate.content
    return words(simplified(one)) == words(simplified(other)) and not signs(one).differ(signs(other))


def _repeats(memory: Memory, candidate: Candidate, new: Fact) -> bool:
    same = [old for old in facts_of(memory) if facts.same_attribute(old, new) and facts.same_value(old, new)]
    return bool(same) and (candidate.form != "quote" or _is_said_by(memory, same))


def _is_said_by(said: Candidate | Memory, told: Sequence[Fact]) -> bool:
    """Whether the text says no more than these facts."""
    return facts.covers(" ".join(fact.text for fact in told), said.content)


def _is_replaced(memory: Memory, new: Sequence[Fact]) -> bool:
    return any(facts.is_replaced(old, each) for each in new for old in facts_of(memory))


def _is_corrected(memory: Memory, candidate: Candidate) -> bool:
    """Whether the candidate corrects this quote: "sorry, Friday, not Thursday"."""
    told, said = memory.content, candidate.content
    if not candidate.context or memory.said_at >= candidate.observed_at or not told.startswith(candidate.context):
        return False
    return memory.session_id == candidate.session_id and corrects(said, told)


def _says_more(memory: Memory, candidate: Candidate, new: Sequence[Fact]) -> bool:
    """Whether a quote says something besides what the candidate replaces."""
    if memory.form != "quote":
        return False
    old = [each for each in facts_of(memory) if any(facts.is_replaced(each, fact) for fact in new)]
    if old:
        return not _is_said_by(memory, old)
    said = {*terms(candidate.searched)}
    parts = [{*terms(part)} for piece in sentences(memory.content) for part in _PARTS.split(piece)]
    shares = sorted(len(said & part) / len(part) for part in parts if part)
    most = _MOST_TOLD if CJK.search(memory.content) else 0.0
    return len(shares) > 1 and shares[0] <= most and shares[-1] > 0


def _with_linked(
    whole: Sequence[Memory], parts: Sequence[Memory], known: Sequence[Memory], candidate: Candidate
) -> tuple[list[Memory], list[Memory]]:
    """With the statements of what is replaced, and with the quotes that said nothing else."""
    found, marked = {memory.id: memory for memory in whole}, {memory.id: memory for memory in parts}
    for memory in known:
        if memory.quote and memory.quote in found:
            found[memory.id] = memory
    for quote in _quotes(found.values(), known):
        if quote.id in found or quote.id == candidate.quote:
            continue
        said = " ".join(memory.content for memory in found.values() if memory.quote == quote.id)
        (found if facts.covers(said, quote.content) else marked)[quote.id] = quote
    return list(found.values()), [memory for memory in marked.values() if memory.id not in found]


def _quotes(of: Iterable[Memory], known: Sequence[Memory]) -> list[Memory]:
    wanted = {memory.quote for memory in of}
    return [memory for memory in known if memory.id in wanted]


def marked(memory: Memory, newer: Memory) -> Memory:
    """A quote of which a part has changed since the newer memory was said."""
    known = [each for each in memory.outdated_by if each != newer.id]
    return memory.noting({OUTDATED_BY: [*known, newer.id][-_MAX_OUTDATED:]})


def unmarked(memory: Memory, gone: Collection[str]) -> Memory:
    """Same as before these newer memories were said."""
    return memory.noting({OUTDATED_BY: [each for each in memory.outdated_by if each not in gone] or None})
