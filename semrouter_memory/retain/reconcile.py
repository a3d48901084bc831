"""Decides what a new statement means for what is known: add, update or skip. Pure.

Strategy: the cosine finds the neighbours but cannot judge them ("prefers dark mode" and "prefers light mode" are at
0.84, the same budget said twice in other words at 0.56), so subject, attribute, value and negation decide, and the
cosine only where they are silent. Newer means said later. In doubt a statement is added: a duplicate is a nuisance, a
fact that was wrongly superseded is lost.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum

from semrouter_memory.model import Candidate, Hit, Memory, MemoryType, ReconcileAction, Reconciled
from semrouter_memory.retain.meaning import Meaning, meaning
from semrouter_memory.retain.rules.lexicon import RELATIONS
from semrouter_memory.retain.wordlist import words
from semrouter_memory.retain.words import tokens, values

PARAPHRASE_SIMILARITY = 0.95
"""From here on two statements with equal names, numbers and negation are one (measured: distinct facts stay below)."""
SAME_TURN_SIMILARITY = 0.8
"""The same for two statements that were read from one turn."""
_DIGITS = re.compile(r"(?<![\w.])\d[\d,.:]*(?!\w)")
_SAME_STEPS = 0.75
_SAME_CHARACTERS = 0.72

_ONLY_ONE = frozenset({"name"}).union(
    *(tokens(word) for word in ("email", "phone", "address", "username", "nickname", "age"))
)
"""Attributes of which there is one, whatever the value looks like."""
_ONE_AT_A_TIME = words(
    "landlord boss manager wife husband spouse partner girlfriend boyfriend dentist therapist doctor"
)
_MULTIPLE = frozenset().union(
    *(tokens(word) for word in RELATIONS - _ONE_AT_A_TIME),
    tokens(
        "hobby hobbies allergy interest skill language goal dream project instrument sport medication book song food"
    ),
)
"""Attributes of which a person has several."""

NEAR_TYPES = {
    MemoryType.SEMANTIC: frozenset({MemoryType.SEMANTIC, MemoryType.EPISODIC}),
    MemoryType.EPISODIC: frozenset({MemoryType.SEMANTIC, MemoryType.EPISODIC}),
    MemoryType.PROCEDURAL: frozenset({MemoryType.PROCEDURAL}),
    MemoryType.REFLECTIVE: frozenset({MemoryType.REFLECTIVE}),
}
"""Types whose memories a statement may repeat or replace."""


class Relation(StrEnum):
    """How a later statement stands to an earlier one."""

    SAME = "same_statement"
    COVERED = "already_known"
    """The later says less than the earlier."""
    REFINES = "more_detail"
    REPLACES = "same_attribute_new_value"
    CONTRADICTS = "contradiction"
    DISTINCT = "distinct"


_UPDATES = (Relation.CONTRADICTS, Relation.REPLACES, Relation.REFINES)


def reconcile(candidate: Candidate, neighbours: Sequence[Hit]) -> Reconciled:
    """What to do with a candidate.

    Args:
        neighbours: the owner's nearest active memories, best first.
    """
    updates: dict[Relation, Memory] = {}
    for hit in neighbours:
        known = hit.memory
        if known.type not in NEAR_TYPES[candidate.type]:
            continue
        relation = _related(candidate, hit)
        if relation in {Relation.SAME, Relation.COVERED}:
            return Reconciled(ReconcileAction.SKIP, relation.value, known)
        if relation is Relation.DISTINCT:
            continue
        if known.observed_at > candidate.observed_at:
            return Reconciled(ReconcileAction.SKIP, "older_than_known", known)
        updates.setdefault(relation, known)
    for relation in _UPDATES:
        if relation in updates:
            return Reconciled(ReconcileAction.UPDATE, relation.value, updates[relation])
    return Reconciled(ReconcileAction.ADD, "new_statement")


def _related(candidate: Candidate, hit: Hit) -> Relation:
    """The relation of the later of the two to the earlier, turned so that SAME and COVERED mean "skip"."""
    known, procedural = hit.memory, candidate.type is MemoryType.PROCEDURAL
    new, old = (meaning(text, procedural=procedural) for text in (candidate.content, known.content))
    same_turn = bool(set(candidate.turn_ids) & set(known.metadata.get("turn_ids", ())))
    cut = SAME_TURN_SIMILARITY if same_turn else PARAPHRASE_SIMILARITY
    if known.observed_at <= candidate.observed_at:
        relation = relate(new, old)
        return _by_similarity(relation, new, old, hit.similarity >= cut)
    relation = _by_similarity(relate(old, new), new, old, hit.similarity >= cut)
    # What was said earlier and is known in more detail adds nothing; the other way round it does.
    return {Relation.REFINES: Relation.COVERED, Relation.COVERED: Relation.DISTINCT}.get(relation, relation)


def _by_similarity(relation: Relation, new: Meaning, old: Meaning, near: bool) -> Relation:  # noqa: FBT001 - private
    """Near statements without any difference that counts are paraphrases."""
    if (
        relation is not Relation.DISTINCT
        or not near
        or _mostly_han(new)
        or new.people != old.people
        or new.negated != old.negated
    ):
        return relation
    same_values = values(new.words) == values(old.words)
    alike = new.names <= old.names or old.names <= new.names
    return Relation.SAME if same_values and alike and not new.ranked and not new.goal else relation


def relate(newer: Meaning, older: Meaning) -> Relation:
    """How the later statement stands to the earlier one, by their words alone."""
    if newer.plain == older.plain:
        return Relation.SAME
    if newer.goal or older.goal:
        return _procedures(newer, older)
    if newer.ranked and older.ranked and set(newer.ranked) == set(older.ranked):
        return Relation.SAME if newer.ranked == older.ranked else Relation.REPLACES
    same_words = newer.words == older.words
    if newer.people != older.people and not same_words and not _introduces(newer, older):
        return Relation.DISTINCT
    if newer.negated != older.negated:
        return _opposites(newer, older)
    if same_words and newer.words:
        return Relation.SAME
    return _first(newer, older, _by_attribute, _by_inclusion, _by_slot)


def _first(newer: Meaning, older: Meaning, *rules: Callable[[Meaning, Meaning], Relation | None]) -> Relation:
    for rule in rules:
        if relation := rule(newer, older):
            return relation
    return Relation.DISTINCT


def _introduces(newer: Meaning, older: Meaning) -> bool:
    """As in "User has a dog" and "User's dog Rex ...": the people are in words of the other."""
    return bool(older.people or newer.people) and older.people <= newer.words and newer.people <= older.words


def _procedures(newer: Meaning, older: Meaning) -> Relation:
    if newer.goal != older.goal:
        return Relation.DISTINCT
    steps, known = newer.words - newer.goal, older.words - older.goal
    return Relation.SAME if _overlap(steps, known) >= _SAME_STEPS else Relation.REPLACES


def _opposites(newer: Meaning, older: Meaning) -> Relation:
    """As in "does not like watching football" denies "likes watching football on TV", not "likes playing football"."""
    negative, positive = (newer, older) if newer.negated else (older, newer)
    denied = negative.words - {"like"} if "like" not in positive.words else negative.words
    if denied and (denied <= positive.words or _status(newer, older)):
        return Relation.CONTRADICTS
    if newer.diet and older.diet and newer.diet != older.diet:
        return Relation.REPLACES
    return Relation.CONTRADICTS if denied and _status(newer, older) else Relation.DISTINCT


def _status(newer: Meaning, older: Meaning) -> bool:
    """Two steps of one relationship: engaged to Tomasz, married Tomasz."""
    if not newer.relationship or not older.relationship or newer.relationship == older.relationship:
        return False
    return bool((newer.names & older.names) or not newer.names or not older.names)


def _by_attribute(newer: Meaning, older: Meaning) -> Relation | None:
    """A new value for an attribute of which there is one."""
    if _status(newer, older):
        return Relation.REPLACES
    if newer.diet and older.diet:
        return Relation.COVERED if newer.diet == older.diet and newer.words <= older.words else Relation.REPLACES
    if newer.home and older.home and _same_subject(newer, older) and not _included(newer.home, older.home):
        return Relation.REPLACES
    if _another_job(newer, older) or _another_preference(newer, older) or _another_value(newer, older):
        return Relation.REPLACES
    if (
        newer.replaced
        and newer.replaced <= older.words
        and (newer.words - newer.replaced) & (older.words - newer.replaced)
    ):
        return Relation.REPLACES
    return None


def _same_subject(newer: Meaning, older: Meaning) -> bool:
    return _included(newer.subject, older.subject)


def _another_job(newer: Meaning, older: Meaning) -> bool:
    if not _same_subject(newer, older) or "also" in newer.plain.split():
        return False
    another_role = bool(newer.role and older.role and not newer.role <= older.role and not older.role <= newer.role)
    another_employer = bool(newer.employer and older.employer and not newer.employer & older.employer)
    return another_role or (
        another_employer and not (newer.role and older.role and newer.role == older.role and not newer.changing)
    )


def _another_preference(newer: Meaning, older: Meaning) -> bool:
    """As in "prefers dark mode" and "prefers light mode", in the same place."""
    new, old = newer.preferred, older.preferred
    return bool(
        len(new) > 1
        and len(old) > 1
        and new[-1] == old[-1]
        and new != old
        and newer.context == older.context
        and _same_subject(newer, older)
    )


def _another_value(newer: Meaning, older: Meaning) -> bool:
    """The same key gets another value of the same class."""
    if (older.key | newer.key) & _MULTIPLE or "name" in {older.verb, newer.verb}:
        return False
    if newer.key == older.key and newer.verb == older.verb:
        return bool(older.key & _ONLY_ONE) or _same_class(newer, older, newer.value, older.value)
    if newer.key and newer.changing and newer.verb == "be" and not older.key and newer.key <= older.words:
        return _shared_values(newer.value, older.words)
    if newer.key and newer.key < older.key and newer.changing and newer.verb == older.verb:
        return bool(newer.value) and _shared_values(newer.value, older.value)
    if newer.changing and older.key and older.verb == "be" and older.key <= newer.words:
        return _same_class(newer, older, newer.words - older.key, older.value)
    return False


def _same_class(newer: Meaning, older: Meaning, new: frozenset[str], old: frozenset[str]) -> bool:
    if _shared_values(new, old):
        return new != old
    named = bool(newer.names and older.names)
    return (named or "favorite" in older.key) and not _included(new, old)


def _shared_values(new: frozenset[str], old: frozenset[str]) -> bool:
    """A class of values that both have, with different ones."""
    ours, theirs = values(new), values(old)
    return any(ours[kind] != theirs[kind] for kind in ours.keys() & theirs.keys())


def _by_inclusion(newer: Meaning, older: Meaning) -> Relation | None:
    """The one says all that the other says."""
    if not newer.words or not older.words:
        return None
    if newer.words < older.words:
        return Relation.COVERED
    if older.words < newer.words:
        return Relation.REFINES
    return Relation.SAME if _mostly_han(newer) and _han_alike(newer, older) else None


def _mostly_han(found: Meaning) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in found.plain)


def _han_alike(newer: Meaning, older: Meaning) -> bool:
    return values(newer.words) == values(older.words) and _overlap(newer.words, older.words) >= _SAME_CHARACTERS


def _by_slot(newer: Meaning, older: Meaning) -> Relation | None:
    """The same words but for a number, an amount or a weekday."""
    if newer.event or older.event:
        return None
    if _DIGITS.sub("#", newer.plain) == _DIGITS.sub("#", older.plain):
        return Relation.REPLACES
    ours, theirs = newer.words - older.words, older.words - newer.words
    if not ours or not theirs or not newer.words & older.words:
        return None
    new, old = values(ours), values(theirs)
    only_values = sum(map(len, new.values())) == len(ours) and sum(map(len, old.values())) == len(theirs)
    return Relation.REPLACES if only_values and new.keys() == old.keys() else None


def _included(first: frozenset[str], second: frozenset[str]) -> bool:
    return first <= second or second <= first


def _overlap(first: frozenset[str], second: frozenset[str]) -> float:
    union = first | second
    return len(first & second) / len(union) if union else 1.0
