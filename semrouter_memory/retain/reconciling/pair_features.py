"""What the relation model is told of two statements: what they share, and what each has in the other's place. Pure."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from semrouter_memory.learned import Features
from semrouter_memory.retain.reconciling.statement import MANY_VALUED, ONE_VALUED, Statement

_ALIKE = 0.5
"""Share of their tokens that statements with one piece substituted have around it."""
_MANY = 4
"""Words that only one of the statements has are counted up to here."""

_DATES = frozenset({"date", "day", "month", "year"})
"""Kinds of number that tell when: of what happened, another time tells of another event."""


def features(older: Statement, newer: Statement, similarity: float) -> Features:
    """Features of a pair by name; the similarity is the cosine of their vectors."""
    language = "zh" if newer.is_chinese else "en"
    told = dict.fromkeys((*_facts(older, newer), language), 1.0)
    return {**_overlaps(older, newer, similarity), **told, f"{language} similarity": similarity}


def swapped(older: Statement, newer: Statement) -> frozenset[str]:
    """Kinds of content in which each of the two has something that the other lacks: a value, a name, another word."""
    old, new = older.kinds, newer.kinds
    found = {kind for kind in old.keys() & new.keys() if not old[kind] & new[kind]}
    if newer.names - older.content and older.names - newer.content:
        found.add("name")
    if newer.words - older.content and older.words - newer.content:
        found.add("word")
    return frozenset(found)


def is_change(said: Statement) -> bool:
    """Whether it says that something is not as it was."""
    return bool(said.marks & {"changed", "ended", "again"})


def is_substituted(older: Statement, newer: Statement) -> bool:
    """Whether the two are alike but for one piece, in whose place each has another."""
    one, other = older.pieces, newer.pieces
    start, end = around(one, other)
    return start + end < min(len(one), len(other)) and (start + end) >= _ALIKE * max(len(one), len(other))


def said_in(said: Statement) -> frozenset[str]:
    """All that a topic could be known by: stems, and Chinese characters one by one."""
    return said.content | said.former | frozenset(said.pieces)


def has_other_topic(older: Statement, newer: Statement) -> bool:
    """Whether each tells of something that the other does not mention: "roofer comes on the 2nd", "plumber comes on the 9th".

    Also where the newer one is of somebody else: "Lena's interview is on Monday". Not where another stands before the same
    words, in a place that one has at a time: "Anna is our manager", "Priya is our manager".
    """
    if newer.topic & newer.owners - said_in(older):
        return True
    if "ended" in newer.marks and newer.topic & older.names:
        return False
    if not older.topic - said_in(newer) or not newer.topic - said_in(older):
        return False
    same = older.content - older.topic == newer.content - newer.topic
    return not (same and older.attributes & newer.attributes & ONE_VALUED)


def is_renewed_elsewhere(older: Statement, newer: Statement) -> bool:
    """What is new is something that the older one does not tell of: "has a new bike", of who goes to a school."""
    unknown = newer.renewed & newer.words - said_in(older)
    return bool(unknown) and not older.attributes & newer.attributes & ONE_VALUED


def is_turned(older: Statement, newer: Statement) -> bool:
    """The same place in another direction: "to Rome", "from Rome"."""
    return any((other, place) in newer.ways for way, place in older.ways for other in {"from", "to"} - {way})


def _overlaps(older: Statement, newer: Statement, similarity: float) -> Features:
    shared = len(older.content & newer.content)
    of_old, of_new = shared / max(1, len(older.content)), shared / max(1, len(newer.content))
    return {
        "similarity": similarity,
        "similarity above 0.5": max(0.0, similarity - 0.5),
        "similarity above 0.8": max(0.0, similarity - 0.8),
        "share of the older": of_old,
        "share of the newer": of_new,
        "share of both": of_old * of_new,
        "frame": _frame(older.pieces, newer.pieces),
        "words of the older alone": min(_MANY, len(older.words - newer.content)) / _MANY,
        "words of the newer alone": min(_MANY, len(newer.words - older.content)) / _MANY,
        "longer": math.log((1 + len(newer.content)) / (1 + len(older.content))),
    }


def _facts(older: Statement, newer: Statement) -> Iterator[str]:
    yield from _set_facts("value", older.values, newer.values)
    yield from _set_facts("name", older.names, newer.names)
    yield from _set_facts("person", older.people, newer.people)
    yield from _set_facts("key", older.key, newer.key)
    yield from _set_facts("topic", older.topic, newer.topic)
    yield from _set_facts("purpose", older.purposes, newer.purposes)
    yield from _marks(older, newer)
    yield from _values(older, newer)
    yield f"third person {older.in_third_person} {newer.in_third_person}"
    yield from (f"says {piece}" for piece in {*newer.pieces} - {*older.pieces})
    if newer.key:
        yield f"key known {newer.key <= older.content}"
    if newer.topic:
        yield f"topic known {newer.topic <= said_in(older)}"
    if older.topic and newer.topic:
        yield f"topic shared {bool(older.topic & newer.topic)}, changed {is_change(newer)}"
    if older.ways and newer.ways and is_turned(older, newer):
        yield "turned"
    if newer.is_event or older.is_event:
        yield f"event {older.is_event} {newer.is_event}"


def _marks(older: Statement, newer: Statement) -> Iterator[str]:
    changed = is_change(newer)
    yield from (f"newer {mark}" for mark in newer.marks)
    yield from (f"older {mark}" for mark in older.marks)
    yield from (f"both {mark}" for mark in older.marks & newer.marks)
    if ("negated" in newer.marks) != ("negated" in older.marks):
        yield "negation differs"
        yield f"negation differs, changed {changed}"
    yield f"same attribute {bool(older.attributes & newer.attributes)}, changed {changed}"
    yield f"shared words {bool(older.words & newer.words)}, changed {changed}"
    if newer.over:
        yield f"over known {_part(newer.over & newer.content, older.content)}, others {bool(older.words - newer.content)}"
    if newer.renewed:
        yield f"renewed known {newer.renewed <= said_in(older)}"
        yield f"renewed elsewhere {is_renewed_elsewhere(older, newer)}"
    yield from (f"only newer {kind}" for kind in newer.kinds.keys() - older.kinds.keys())
    if newer.former:
        yield f"former known {bool(newer.former & older.content)}"


def _values(older: Statement, newer: Statement) -> Sequence[str]:
    """What stands in another's place, and whether its attribute has one value at a time."""
    return _value_facts(
        swapped(older, newer),
        older.attributes & newer.attributes,
        same_key=bool(older.key) and older.key == newer.key,
        key_within=bool(newer.key) and newer.key <= older.key,
        slot=is_substituted(older, newer),
        inside=bool(around(older.pieces, newer.pieces)[1]),
        changed=is_change(newer),
    )


# Of many pairs, few differ in this.
@lru_cache(1_024)
def _value_facts(
    others: frozenset[str],
    attributes: frozenset[str],
    *,
    same_key: bool,
    key_within: bool,
    slot: bool,
    inside: bool,
    changed: bool,
) -> Sequence[str]:
    classes = " ".join(sorted({kind if kind in {"name", "word"} else "number" for kind in others}))
    how_many = "one" if attributes & ONE_VALUED else "several" if attributes & MANY_VALUED else "unknown"
    found = [
        f"swapped {classes}",
        f"attribute of {how_many}",
        *(f"about {attribute}" for attribute in attributes),
        f"substituted {slot}, attribute of {how_many}",
        f"substituted {slot}, same key {same_key}",
        f"substituted {slot}, same key {same_key}, attribute of {how_many}",
        f"substituted {slot}, {classes}",
        f"substituted {slot}, attribute of {how_many}, changed {changed}",
    ]
    if slot:
        found.append(f"substituted inside {inside}, attribute of {how_many}")
        found += [f"substituted inside {inside}, about {attribute}" for attribute in attributes]
    if others - {"name", "word"}:
        found.append(f"other number, attribute of {how_many}")
        found.append(f"other number, other {' '.join(sorted(others & {'name', 'word'}))}")
        found.append(f"other number, same key {same_key}")
        found.append(f"other number, key within {key_within}")
    if others & _DATES:
        found.append(f"other date, same key {same_key}")
    if others - {"word"}:
        found += [f"other {attribute}" for attribute in attributes]
        found.append(f"other value, same attribute {bool(attributes)}")
        found.append(f"other value, changed {changed}")
    return tuple(found)


def _part(of: frozenset[str], among: frozenset[str]) -> str:
    return "all" if of <= among else "some" if of & among else "none"


def _set_facts(name: str, older: frozenset[str], newer: frozenset[str]) -> Iterator[str]:
    """How two sets stand to each other, where there is anything in them."""
    if not older and not newer:
        return
    if older == newer:
        yield f"{name} equal"
    elif older <= newer:
        yield f"{name} more" if older else f"{name} only newer"
    elif newer <= older:
        yield f"{name} less" if newer else f"{name} only older"
    else:
        yield f"{name} other" if older & newer else f"{name} all other"


def _frame(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    """Share of the pieces that both begin or end with: what is around a value that was put in another's place."""
    return sum(around(one, other)) / max(1, len(one), len(other))


@lru_cache(64)
def around(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[int, int]:
    """How many pieces both begin with, and how many of the rest both end with."""
    start = _common(one, other)
    return start, _common(one[start:][::-1], other[start:][::-1])


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
