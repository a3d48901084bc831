"""How a later statement stands to an earlier one: a learned model, within guards that are rules. Pure.

Strategy: the model gives a probability to each relation, and a relation that would make something history, or drop what is
new, holds only where no guard speaks against it. In doubt two statements are unrelated: a duplicate is a nuisance, a fact
that was wrongly superseded is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from semrouter_memory.learned import Multinomial
from semrouter_memory.retain.reconciling.pair_features import (
    features,
    has_other_topic,
    is_change,
    is_substituted,
    said_in,
    swapped,
)
from semrouter_memory.retain.reconciling.statement import MANY_VALUED_KEYS, ONE_VALUED, Statement, statement

_MODEL = Multinomial.load("relation")
# Probabilities from which on a relation holds. High, because the error that matters is a fact that is wrongly superseded;
# `python -m training.relation` shows what they do on people left out.
REPLACES_CUT = 0.6
_OUTDATES_CUT = 0.5
"""Of a change: the older one may still hold, and stays, marked."""
_LIKELY_CUT = 0.75
"""The same where they have nothing in common, or it is unclear whether what ends or is denied is what the older one says."""
_SAME_CUT = 0.7
_UNRELATED_CUT = 0.5
_CONTRADICTS_CUT = 0.6
_MORE = 1
"""Further words of a statement that says the same."""
_SAME_STEPS = 0.75
"""Share of their words that two procedures for one goal have in common when they are the same."""
_OPEN = frozenset({"num", "date", "time", "day", "month", "year"})
"""Kinds of number that tell no attribute by themselves."""
_ONE_AT_A_TIME = frozenset({"lives in", "works as", "works at", "works for", "reports to", "住在"})
_ONE = ONE_VALUED - {"count"}
_NAMED = _ONE - {"deadline"}
"""Without what a preposition names, too: "by the way", "until the bugs are fixed"."""
_SPOUSES = frozenset({"partner", "wife", "husband"})
_STANCE = frozenset({"negated", "ended", "past", "planned"})


class Relation(StrEnum):
    """How a later statement stands to an earlier one."""

    SAME = "same_statement"
    REFINES = "more_detail"
    REPLACES = "same_attribute_new_value"
    OUTDATES = "changed_in_part"
    """Some of it seems to have changed, and it is not sure enough to make it history."""
    CONTRADICTS = "contradiction"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements that are related to one another.

    Attributes:
        similarity: the cosine of their vectors.
        sure: probability from which on the newer replaces the older.
    """

    older: Statement
    newer: Statement
    similarity: float
    sure: float = REPLACES_CUT


def relate(pairs: Sequence[Pair]) -> list[Relation]:
    """How the later statement of each pair stands to the earlier one. The model is asked once, which is cheaper."""
    told = [_by_rules(pair.older, pair.newer) for pair in pairs]
    asked = [
        features(pair.older, of_the_same(pair.older, pair.newer), pair.similarity)
        for pair, relation in zip(pairs, told, strict=True)
        if relation is None
    ]
    found = iter(_MODEL.of_each(asked))
    return [
        relation or by_probabilities(pair.older, pair.newer, next(found), sure=pair.sure)
        for pair, relation in zip(pairs, told, strict=True)
    ]


def _by_rules(older: Statement, newer: Statement) -> Relation | None:
    """The relation where the model need not be asked, else None."""
    if older.plain == newer.plain:
        return Relation.SAME
    if about_others(older, newer):
        if _is_put_right(older, newer):
            return Relation.OUTDATES
        return None if _is_named_again(older, newer) else Relation.UNRELATED
    return _by_steps(older, newer) if older.goal else None


def by_probabilities(
    older: Statement, newer: Statement, probabilities: Mapping[str, float], *, sure: float = REPLACES_CUT
) -> Relation:
    """What the model's probabilities mean within the guards."""
    if about_others(older, newer):
        outdates = _is_named_again(older, newer) and _outdates(older, newer, probabilities)
        return Relation.OUTDATES if outdates else Relation.UNRELATED
    if _is_reversed(older, newer) or _is_signed_anew(older, newer) or _is_resumed(older, newer):
        return Relation.REPLACES
    if _is_given_anew(older, newer) and not keeps_both(older, newer):
        return Relation.REPLACES
    return _decided(older, newer, probabilities, sure)


def _decided(older: Statement, newer: Statement, by_relation: Mapping[str, float], sure: float) -> Relation:
    changed = is_change(newer)
    replaces = by_relation["replaces"] + (by_relation["contradicts"] if changed else 0.0)
    if _is_alike(older, newer) and _is_more(newer, older) and "changed" not in newer.marks - older.marks:
        return Relation.SAME
    if _is_alike(older, newer) and by_relation["replaces"] < sure:
        if _is_more(older, newer):
            return Relation.REFINES if by_relation["unrelated"] < _UNRELATED_CUT else Relation.UNRELATED
        if by_relation["same"] >= _SAME_CUT and _says_no_more(older, newer):
            return Relation.SAME
    denied = "negated" in older.marks ^ newer.marks and not changed
    if denied and newer.content and newer.content <= older.content:
        return Relation.CONTRADICTS
    # What changed may be something else at the same place.
    unsaid = "negated" in older.marks - newer.marks and not _denies(newer, older)
    if replaces >= sure and not denied and not unsaid and not keeps_both(older, newer):
        return Relation.REPLACES
    if (changed and _is_put_right(older, newer)) or _outdates(older, newer, by_relation):
        return Relation.OUTDATES
    against = by_relation["contradicts"] + (by_relation["replaces"] if denied and _denies(older, newer) else 0.0)
    if against >= _CONTRADICTS_CUT:
        return Relation.CONTRADICTS
    return Relation.UNRELATED


def _outdates(older: Statement, newer: Statement, by_relation: Mapping[str, float]) -> bool:
    """Whether it is a change that is likely to be one of the older statement."""
    likely = by_relation["replaces"] + by_relation["contradicts"]
    enough = likely >= (_LIKELY_CUT if keeps_both(older, newer) else _OUTDATES_CUT)
    return enough and is_change(newer) and not _is_of_another(older, newer)


def _is_bare(older: Statement, newer: Statement) -> bool:
    """It tells nothing but a number of the same size: "weighs 78 kg", "down to 75"."""
    one, other = ([_number(value) for value in said.values] for said in (older, newer))
    near = (old and new and old != new and old <= 2 * new and new <= 2 * old for old in one for new in other)
    return newer.content <= newer.values and len(other) == 1 and any(near)


def _number(value: str) -> float:
    figure = value.partition(":")[2]
    return float(figure) if figure.replace(".", "", 1).isdecimal() else 0.0


def _is_named_again(older: Statement, newer: Statement) -> bool:
    """Whether it goes on about somebody by name alone: "my sister Noor lives in Leicester", "Noor moved to Hull"."""
    same_goal = older.goal == newer.goal and newer.is_difference <= older.is_difference
    named = older.names & (newer.names | newer.topic) if not newer.plain.startswith("user ") else frozenset()
    return same_goal and not newer.people and bool(named or older.topic & newer.topic)


def of_the_same(older: Statement, newer: Statement) -> Statement:
    """The newer one, of the older one's people where it names them alone."""
    return replace(newer, people=older.people) if older.people and _is_named_again(older, newer) else newer


def _is_put_right(older: Statement, newer: Statement) -> bool:
    """It is denied, and of another or another thing is told: "no, my sister has asthma, not my brother"."""
    told = bool(older.topic) and older.topic <= newer.content if older.people else older.content <= newer.content
    denied = "negated" in newer.marks - older.marks and bool(older.words & newer.words)
    return denied and told and len(older.content & newer.content) * 2 >= len(older.content)


def repeats(older: Statement, newer: Statement) -> bool:
    """Whether two statements with very near vectors differ in nothing that counts."""
    return not about_others(older, newer) and _is_alike(older, newer) and _says_no_more(older, newer)


def _is_alike(older: Statement, newer: Statement) -> bool:
    """Neither denies, plans or ends what the other tells, and no value, sign or name stands in another's place."""
    if older.signs.differ(newer.signs):
        return False
    return not (older.marks ^ newer.marks) & _STANCE and not swapped(older, newer) - {"word"}


def _is_more(less: Statement, more: Statement) -> bool:
    """Whether the one has all that the other says."""
    return less.content <= more.content and not (is_substituted(less, more) and less.content != more.content)


def _says_no_more(older: Statement, newer: Statement) -> bool:
    """Whether other words are all that the newer statement adds to the older one."""
    alone = len(newer.words - older.content), len(older.words - newer.content)
    return (
        alone[0] <= alone[1] + _MORE
        and newer.values | newer.names | newer.purposes <= older.content
        and not (is_substituted(older, newer) and swapped(older, newer))
    )


def about_others(older: Statement, newer: Statement) -> bool:
    """Whether the two are about different persons, a value and its change, or procedures with different goals."""
    people = older.people ^ newer.people
    related = people <= _SPOUSES and "relationship" in older.attributes & newer.attributes
    return bool(people and not related) or older.goal != newer.goal or newer.is_difference > older.is_difference


def names_change(older: Statement, newer: Statement) -> bool:
    """Whether a change tells what of the older statement it changes: by its subject, the former value or another one in its place.

    A word or two in common are not enough: much of what a person says has these, and is about something else.
    """
    return bool(
        newer.topic & said_in(older)
        or newer.former & older.content
        or newer.key & older.content
        or "ended" in newer.marks
        or older.attributes & newer.attributes & _NAMED
        or swapped(older, newer) - {"word"}
    )


def keeps_both(older: Statement, newer: Statement) -> bool:
    """Whether a guard forbids that the newer statement supersedes the older one, whatever the model says."""
    unclear = bool(newer.marks & {"ended", "negated"}) and not _denies(older, newer)
    return unclear or not _has_common(older, newer) or _is_of_another(older, newer)


def _is_of_another(older: Statement, newer: Statement) -> bool:
    """Whether it is sure that the newer statement is not a change of the older one."""
    ended = bool(newer.marks & {"ended", "negated"})
    return (
        "also" in newer.marks - older.marks
        or ("planned" in newer.marks - older.marks and not ended)
        or ("past" in newer.marks ^ older.marks and not is_change(newer))
        or "bygone" in older.marks - newer.marks
        or older.is_event
        or (_is_other_plan(older, newer) and not _tells_of(older, newer))
        or (older.key and newer.key and _other_key(older, newer))
        or bool(newer.key & newer.names - older.content)
        or has_other_topic(older, newer)
        or _is_qualified(older, newer)
        or (_all_other(older.purposes, newer.purposes) and not newer.former & older.content)
        or _is_of_two(older, newer)
        or _is_otherwise(older, newer)
    )


def _is_other_plan(older: Statement, newer: Statement) -> bool:
    return "planned" in older.marks - newer.marks and len(newer.content & older.content) * 2 < len(older.content)


def _tells_of(older: Statement, newer: Statement) -> bool:
    """It is a change, and what it tells of is in the older statement: "plans the hike in June", "the hike fell through"."""
    return is_change(newer) and bool(newer.topic) and newer.topic <= said_in(older)


def _other_key(older: Statement, newer: Statement) -> bool:
    """Chinese words have no ends: two names of one thing share a character there."""
    if newer.is_chinese:
        return not older.key & newer.key
    return bool(older.key - newer.content) and bool(newer.key - older.content)


def _all_other(older: frozenset[str], newer: frozenset[str]) -> bool:
    """Both name something that the other does not: "car insurance", "home insurance"."""
    return bool(older - newer) and bool(newer - older)


def _has_common(older: Statement, newer: Statement) -> bool:
    """A word, an age, or an attribute of which there is one, is in both."""
    old, new = older.content | older.former, newer.content | newer.former
    same_kind = older.kinds.keys() & newer.kinds.keys()
    one = (
        older.attributes & newer.attributes & _ONE
        or "age" in same_kind
        or (same_kind - _OPEN and _is_bare(older, newer))
    )
    return bool(old & new or one)


def _is_otherwise(older: Statement, newer: Statement) -> bool:
    """Another kind of thing is said with the same key, and nothing tells of a change: "is from 1911", "has five rooms"."""
    if not older.given or is_change(newer):
        return False
    if older.given == newer.given:
        return _names_value(older) != _names_value(newer)
    return bool(older.key) and older.key == newer.key and not newer.given


def _is_of_two(older: Statement, newer: Statement) -> bool:
    """Another number of another word: "opens at 9:00", "closes at 18:00"."""
    others = swapped(older, newer)
    changed = bool(newer.marks & {"changed", "ended"})
    return (
        not changed
        and is_substituted(older, newer)
        and bool({"name", "word"} & others)
        and bool(others - {"name", "word"})
    )


def _denies(older: Statement, newer: Statement) -> bool:
    """What ends or is denied is what the older statement says, and not something else."""
    every = (newer.words | newer.names) & newer.over
    said = every - newer.topic or every
    if "ended" in newer.marks and older.key and older.key & said and not older.key <= newer.content:
        return False
    named = newer.over & older.names
    if "ended" in newer.marks and older.given and named and len(older.names - named) > 1:
        # One of several.
        return False
    if not said - older.content:
        return True
    if newer.names & older.names - newer.topic:
        # Who lives in Berlin no more may own a flat there: what is denied must be said. What is sold or left needs its name.
        return "negated" not in newer.marks or not newer.words or bool(newer.words & older.words)
    shared = len(said & older.content)
    # What ended may be another of the same kind: "allergic to nuts", "no longer allergic to cats".
    most = "negated" in newer.marks or older.words - newer.content
    return shared * 2 > len(said) if most else shared * 3 >= len(said)


def _is_qualified(older: Statement, newer: Statement) -> bool:
    """Another thing of one name is told of: "the rent", "the garage rent"."""
    more = bool(older.topic) and older.topic < newer.topic and not newer.topic <= said_in(older)
    return more and not newer.is_chinese


def _is_given_anew(older: Statement, newer: Statement) -> bool:
    """The same key has another value of the same kind: "User's favourite book is A", "User's favourite book is B"."""
    only = "count" in older.attributes or newer.content == newer.values
    if only and older.pieces == newer.pieces and swapped(older, newer) in ({"num"}, {"age"}):
        return True
    if not older.given or older.given != newer.given or older.people or older.key & MANY_VALUED_KEYS:
        return False
    old, new = statement(older.value), statement(newer.value)
    if old.content & new.content or not old.content or not new.content:
        return False
    others = swapped(older, newer) - {"word"}
    one = older.given in _ONE_AT_A_TIME or "favourite" in older.attributes
    return bool(others or one) and _names_value(older) == _names_value(newer)


def _is_signed_anew(older: Statement, newer: Statement) -> bool:
    """The same key has the same words or number with another sign: "A+", "A-"; "$500", "€500"."""
    return (
        bool(older.given)
        and older.given == newer.given
        and older.content == newer.content
        and older.signs.differ(newer.signs)
        and not older.people
        and not older.key & MANY_VALUED_KEYS
        and not (older.marks ^ newer.marks) & (_STANCE | {"also"})
    )


def _is_resumed(older: Statement, newer: Statement) -> bool:
    """What had ended is so again: "no longer works at Acme", "works at Acme again"."""
    over = {"ended", "negated"}
    return (
        "again" in newer.marks
        and bool(newer.content)
        and older.content == newer.content
        and bool(older.marks & over)
        and not newer.marks & over
        and "changed" not in older.marks
    )


def _names_value(said: Statement) -> bool:
    """Whether the value is a name or a number, not a description."""
    value = statement(said.value)
    return bool(value.values or value.content & said.names)


def _is_reversed(older: Statement, newer: Statement) -> bool:
    """The same two things in the other order: "tea over coffee", "coffee over tea"."""
    if older.content != newer.content or not _is_ranked(older) or not _is_ranked(newer):
        return False
    return [each for each in older.order if each in older.content] != [
        each for each in newer.order if each in newer.content
    ]


def _is_ranked(said: Statement) -> bool:
    return "ranked" in said.marks or ("to" in said.pieces and bool({"prefers", "prefer"} & set(said.pieces)))


def _by_steps(older: Statement, newer: Statement) -> Relation:
    """Two procedures for one goal."""
    shared, every = len(older.content & newer.content), len(older.content | newer.content)
    return Relation.SAME if shared >= _SAME_STEPS * every else Relation.REPLACES
