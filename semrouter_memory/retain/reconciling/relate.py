"""How a later statement stands to an earlier one, by what the two say. Pure.

Strategy: a later statement replaces an earlier one only when both are about the same subject and the same attribute and
give it different values. What counts as one attribute: the same key ("user's gym"), an attribute of which there is one
(home, job, name), the same words around a value of the same class (amounts, dates, times, measures), or a former value
that the statement itself names ("switched from A to B"). Everything else is distinct.
"""

from collections.abc import Callable

from semrouter_memory.retain.reconciling import han
from semrouter_memory.retain.reconciling.attributes import by_attribute
from semrouter_memory.retain.reconciling.denial import opposites
from semrouter_memory.retain.reconciling.filling import by_slot
from semrouter_memory.retain.reconciling.meaning import Meaning
from semrouter_memory.retain.reconciling.relation import Relation
from semrouter_memory.retain.reconciling.wording import by_inclusion, by_kind, by_value, overlap
from semrouter_memory.retain.reconciling.words import values

_SAME_STEPS = 0.75


def relate(newer: Meaning, older: Meaning) -> Relation:
    """How the later statement stands to the earlier one, by their words alone."""
    if newer.plain == older.plain:
        return Relation.SAME
    if newer.goal or older.goal:
        return _procedures(newer, older)
    return by_slot(newer, older) or _by_words(newer, older)


def _by_words(newer: Meaning, older: Meaning) -> Relation:
    if newer.ranked and older.ranked and set(newer.ranked) == set(older.ranked):
        return Relation.SAME if newer.ranked == older.ranked else Relation.REPLACES
    same_words = newer.words == older.words
    if newer.people != older.people and not same_words and not _introduces(newer, older):
        return Relation.DISTINCT
    if newer.former != older.former or _other_entity(newer, older):
        return Relation.DISTINCT
    if newer.negated != older.negated:
        return opposites(newer, older)
    if same_words and newer.words:
        return Relation.SAME
    return _first(newer, older, by_attribute, by_inclusion, by_value, by_kind)


def distinct_for_sure(newer: Meaning, older: Meaning) -> bool:
    """Whether two distinct statements are so beyond doubt: other people, or steps to another goal."""
    return bool(newer.people != older.people or newer.goal or older.goal or _other_entity(newer, older))


def paraphrase(new: Meaning, old: Meaning) -> bool:
    """Whether two statements that are very near differ in nothing that counts."""
    if han.is_chinese(new.plain) or distinct_for_sure(new, old) or new.negated != old.negated:
        return False
    same_values = values(new.words) == values(old.words)
    alike = new.names <= old.names or old.names <= new.names
    return same_values and alike and not new.ranked and not new.goal


def _first(newer: Meaning, older: Meaning, *rules: Callable[[Meaning, Meaning], Relation | None]) -> Relation:
    for rule in rules:
        if relation := rule(newer, older):
            return relation
    return Relation.DISTINCT


def _other_entity(newer: Meaning, older: Meaning) -> bool:
    """As in "User's sister Clara" and "User's sister Julia"; or a statement about somebody the other does not name."""
    if newer.stranger != older.stranger and not (newer.stranger <= older.words and older.stranger <= newer.words):
        return True
    if newer.stranger and older.stranger and newer.stranger != older.stranger:
        return True
    if newer.bound and older.bound and newer.bound != older.bound:
        return True
    return bool(newer.entity and older.entity) and not newer.entity & older.entity


def _introduces(newer: Meaning, older: Meaning) -> bool:
    """As in "User has a dog" and "User's dog Rex ...": the people are in words of the other."""
    return bool(older.people or newer.people) and older.people <= newer.words and newer.people <= older.words


def _procedures(newer: Meaning, older: Meaning) -> Relation:
    if newer.goal != older.goal:
        return Relation.DISTINCT
    steps, known = newer.words - newer.goal, older.words - older.goal
    return Relation.SAME if overlap(steps, known) >= _SAME_STEPS else Relation.REPLACES
