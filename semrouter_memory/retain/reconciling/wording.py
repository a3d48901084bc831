"""What two statements share and where they differ, word by word: the last rules of `relate`. Pure.

Strategy: whoever says all that another says repeats or refines it; the same words around another value of the same
class (an amount, a date, a measure) are a new value.
"""

import re

from semrouter_memory.retain.reconciling import han
from semrouter_memory.retain.reconciling.meaning import Meaning
from semrouter_memory.retain.reconciling.relation import Relation
from semrouter_memory.retain.reconciling.words import implied, tokens, values
from semrouter_memory.retain.wordlist import words

_DIGITS = re.compile(r"(?<![\w.])\d[\d,.:]*(?!\w)")
_EMPLOYMENT = re.compile(
    r"\b(?:work\w*|job|employ\w*|role|position|joined|hired|is an?|at|team|career|shift|colleagues?)\b|[\u4e00-\u9fff]"
)
"""What speaks of a job."""
_ACHIEVED = re.compile(
    r"^user (?:finally |just )?(?:got|received|won|passed|was accepted|was given|bought|signed|finished)\b"
)
"""What is done now, and was not when the other was said: "got the flat" is more than "is on the list for the flat"."""
_SAME_CHARACTERS = 0.72
_SELF_EVIDENT = frozenset({"age", "email", "phone"})
"""Classes of values that name their attribute themselves."""
_PERIODS = frozenset({"date", "month", "year"})
_MOMENTS = frozenset({"date", "day", "month", "time"})
_APPOINTED = re.compile(r"user (?:has|will have|is having) an? ")
_ABOUT = frozenset({"teach", "like", "learn", "foot", "plan", "sell"})
"""Acts of which having or using the same thing is no shorter way to say them."""
_DOSES = frozenset({"mg", "mcg", "iu", "ml"})
_TIMES = frozenset({"day", "time", "part"})
_KINDS = {
    "instrument": words(
        "piano guitar violin cello flute clarinet oboe trumpet saxophone drum harp bass ukulele viola banjo accordion organ"
        " trombone harmonica mandolin bassoon keyboard"
    ),
    "sport": words(
        "football soccer tennis volleyball basketball rugby hockey golf badminton squash baseball cricket handball climb"
        " swim row judo karate fenc padel lacross"
    ),
    "pet": words("dog cat rabbit hamster parrot horse fish turtle budgie"),
    "language": words(
        "spanish french german italian portuguese japanese korean chinese mandarin arabic russian dutch swedish polish turkish"
        " hindi greek norwegian danish finnish czech hebrew"
    ),
}
_GENERIC = {next(iter(tokens(kind))): frozenset().union(*map(tokens, members)) for kind, members in _KINDS.items()}
"""Words for a kind, and what is of that kind: "plays an instrument", "plays the oboe"."""


def by_inclusion(newer: Meaning, older: Meaning) -> Relation | None:
    """The one says all that the other says."""
    if not older.words and newer.plain.startswith(f"{older.plain} "):
        return Relation.REFINES  # "is moving", "is moving to Tallinn"
    if not newer.words or not older.words:
        return None
    if _only_employer(newer, older) or _only_employer(older, newer):
        return None
    if newer.words < implied(older.words):
        if _ACHIEVED.search(newer.plain) and not _ACHIEVED.search(older.plain):
            return None
        return None if newer.stranger and len(newer.words) == 1 else Relation.COVERED
    if older.words < implied(newer.words):
        return Relation.REFINES if _says_more_of_it(newer, older) else None
    return Relation.SAME if han.is_chinese(newer.plain) and _han_alike(newer, older) else None


def _only_employer(one: Meaning, other: Meaning) -> bool:
    """As in "works at Spotify" and "uses Spotify for music": the name alone makes no job of the other."""
    return bool(one.employer) and one.words == one.employer and not _EMPLOYMENT.search(other.plain)


def _says_more_of_it(newer: Meaning, older: Meaning) -> bool:
    """As in "has a car" and "has a blue car", not "the car insurance is due in May" or "teaches driving a car"."""
    if newer.plain.startswith("user's") and older.words <= newer.key and newer.key - older.words - newer.entity:
        return False
    return newer.act == older.act or newer.act not in _ABOUT


def _han_alike(newer: Meaning, older: Meaning) -> bool:
    return values(newer.words) == values(older.words) and overlap(newer.words, older.words) >= _SAME_CHARACTERS


def by_value(newer: Meaning, older: Meaning) -> Relation | None:
    """The same words around another value of the same class: a number, an amount, a date, a weekday."""
    if newer.event or older.event or (_one_of_several(newer, older) and not newer.changing):
        return None
    if _DIGITS.sub("#", newer.plain) == _DIGITS.sub("#", older.plain):
        return Relation.REPLACES
    if not _another_of_one_class(newer, older):
        return None
    ours, theirs = values(newer.words), values(older.words)
    new, old = newer.words.difference(*ours.values()), older.words.difference(*theirs.values())
    if not new and not old and ours.keys() & theirs.keys() & _SELF_EVIDENT:
        return Relation.REPLACES
    return _around_value(newer, older, new, old)


def _one_of_several(newer: Meaning, older: Meaning) -> bool:
    """As in "has a meeting at 9:00" and "has a meeting at 14:00": nobody said that it is the same one."""
    dated = any(values(each.words).keys() & _MOMENTS for each in (newer, older))
    return dated and all(_APPOINTED.match(each.plain) for each in (newer, older))


def _around_value(newer: Meaning, older: Meaning, new: frozenset[str], old: frozenset[str]) -> Relation | None:
    """Whether the words around a new value name the same thing; a statement of a change may use fewer or more."""
    if not new & old or not (newer.changing or _acts_alike(newer, older)):
        return None
    if new == old:
        return Relation.REPLACES
    if newer.changing and new < old:
        return Relation.REPLACES_ONE
    if newer.changing and old < new and not _names_another(newer, older, new - old):
        return Relation.REPLACES
    return None


def _another_of_one_class(newer: Meaning, older: Meaning) -> bool:
    """Some class has other values in both, and none of these is part of the name of the thing."""
    ours, theirs = values(newer.words), values(older.words)
    differing = {kind for kind in ours.keys() & theirs.keys() if ours[kind] != theirs[kind]}
    if not newer.changing and differing & _PERIODS and differing - _PERIODS - _TIMES:
        return False  # what was measured in March and in April
    named = values(newer.key).keys() | values(older.key).keys()
    return bool(differing) and not named & differing


def _acts_alike(newer: Meaning, older: Meaning) -> bool:
    return newer.act == older.act or "" in {newer.act, older.act} or bool(newer.key and older.key)


def _names_another(newer: Meaning, older: Meaning, more: frozenset[str]) -> bool:
    """Whether the words that only the later has make it another thing: "parking rent" is not "rent"."""
    if re.search(r"\b(?:pays?|costs?)\b", older.plain):
        more = more - {"bill"}  # as in "pays 39 euros for internet" and "the internet bill"
    return bool(newer.key and more & newer.key and newer.key != older.key)


def by_kind(newer: Meaning, older: Meaning) -> Relation | None:
    """The older names only the kind of what the later names."""
    if "medication" in older.words and newer.words.isdisjoint({"medication"}) and values(newer.words).keys() & _DOSES:
        return Relation.REFINES if older.words - {"medication"} <= newer.words else None
    for kind, members in _GENERIC.items():
        if kind in older.words and newer.words & members and older.words - {kind} <= newer.words:
            return Relation.REFINES
    return None


def included(first: frozenset[str], second: frozenset[str]) -> bool:
    return first <= second or second <= first


def overlap(first: frozenset[str], second: frozenset[str]) -> float:
    union = first | second
    return len(first & second) / len(union) if union else 1.0
