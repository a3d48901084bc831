"""How a later statement stands to an earlier one, by what the two say. Pure.

Strategy: a later statement replaces an earlier one only when both are about the same subject and the same attribute and
give it different values. What counts as one attribute: the same key ("user's gym"), an attribute of which there is one
(home, job, name), the same words around a value of the same class (amounts, dates, times, measures), or a former value
that the statement itself names ("switched from A to B"). Everything else is distinct.
"""

import re
from collections.abc import Callable
from enum import StrEnum

from semrouter_memory.retain import han
from semrouter_memory.retain.meaning import Meaning
from semrouter_memory.retain.rules.lexicon import RELATIONS
from semrouter_memory.retain.wordlist import words
from semrouter_memory.retain.words import implied, tokens, values

_DIGITS = re.compile(r"(?<![\w.])\d[\d,.:]*(?!\w)")
_SLOT_WORDS = 3
_SLOT_CONTEXT = 2
"""One place of at most so many words differs, and so many words that say something are the same."""
_FORMS = words(
    "user user's is are was has have a an the in on at to of for with by from as and or his her their takes uses likes"
    " named called be been having also"
)
_SAME_STEPS = 0.75
_SAME_CHARACTERS = 0.72

_ONLY_ONE = frozenset({"name"}).union(
    *(tokens(word) for word in ("email", "phone", "address", "username", "nickname", "age"))
)
"""Attributes of which there is one, whatever the value looks like."""
_ONE_AT_A_TIME = words(
    "landlord boss manager wife husband spouse partner girlfriend boyfriend dentist therapist doctor"
)
_MULTIPLE = (
    frozenset()
    .union(
        *(tokens(word) for word in RELATIONS),
        tokens(
            "hobby hobbies allergy interest skill language goal dream project instrument sport medication book song food"
        ),
    )
    .difference(*(tokens(word) for word in _ONE_AT_A_TIME))
)
"""Attributes of which a person has several."""
_SELF_EVIDENT = frozenset({"age", "email", "phone"})
"""Classes of values that name their attribute themselves."""
_BESIDES = words("also part-time weekends weekend side second freelance additionally too volunteer volunteers")
"""Words that put a job beside another."""
_PERIODS = frozenset({"date", "month", "year"})
_TIMES = frozenset({"day", "time", "part"})
_HOLDING = frozenset({"be", "car", "live", "like", ""})
"""Acts by which a thing is had; what ends is the having."""
_TASTE = frozenset({"like", "eat", "drink"})
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
_GOES_ON = re.compile(
    r"(?:a|about|after|again|all|an|and|any\w*|as|at|because|before|but|by|daily|during|each|every|for|from|her|his|if|in|into|most"
    r"|much|near|now|of|often|on|once|or|over|since|so|than|that|the|their|to|too|until|very|weekly|when|where|which|while|who|with"
    r"|without|\W.*)$"
)
"""After these a noun is at its end."""


class Relation(StrEnum):
    """How a later statement stands to an earlier one."""

    SAME = "same_statement"
    COVERED = "already_known"
    """The later says less than the earlier."""
    REFINES = "more_detail"
    REPLACES = "same_attribute_new_value"
    REPLACES_ONE = "shorter_name_new_value"
    """The same, where the later names the attribute in fewer words, and so may mean only one of several."""
    CONTRADICTS = "contradiction"
    PARTLY = "contradicts_a_part"
    DISTINCT = "distinct"


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
    if newer.former != older.former or _other_entity(newer, older):
        return Relation.DISTINCT
    if newer.negated != older.negated:
        return _opposites(newer, older)
    if same_words and newer.words:
        return Relation.SAME
    return _first(newer, older, _by_attribute, _by_inclusion, _by_value, _by_kind)


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
    return Relation.SAME if _overlap(steps, known) >= _SAME_STEPS else Relation.REPLACES


# -- negation ----------------------------------------------------------------------------------------------------------


def _opposites(newer: Meaning, older: Meaning) -> Relation:
    """As in "does not like watching football" denies "likes watching football on TV", not "likes playing football"."""
    negative, positive = (newer, older) if newer.negated else (older, newer)
    if newer.diet and newer.diet == older.diet:
        return _by_inclusion(newer, older) or Relation.SAME
    if newer.diet and older.diet:
        return Relation.REPLACES
    if _named_former(newer, older) or (newer.negated and _by_attribute(newer, older) is Relation.REPLACES):
        return Relation.REPLACES
    denied = _denied(negative, positive)
    if not denied:
        return Relation.DISTINCT
    if _status(newer, older):
        return Relation.CONTRADICTS
    if not denied <= positive.words or not _same_act(negative, positive, denied):
        return Relation.DISTINCT
    taste = "like" in positive.words and not negative.ended
    partly = _part_of_several(positive.plain, denied) or (taste and _part_of_a_compound(positive.plain, denied))
    return Relation.PARTLY if partly else Relation.CONTRADICTS


def _part_of_a_compound(positive: str, denied: frozenset[str]) -> bool:
    """As in "likes olive oil", which "does not like olives" need not deny: the word belongs to the next one."""
    said = positive.split()
    ends = [at for at, word in enumerate(said) if tokens(word) and tokens(word) <= denied]
    if not ends or ends[-1] + 1 == len(said):
        return False
    return not _GOES_ON.match(said[ends[-1] + 1])


def _denied(negative: Meaning, positive: Meaning) -> frozenset[str]:
    denied = negative.denied
    if "like" not in positive.words:
        denied = denied - {"like"}
    if not denied <= positive.words and not re.search(r"\b\w+ing\b|\bto\b", positive.plain):
        denied = denied - (_TASTE - positive.words)
    return denied


def _same_act(negative: Meaning, positive: Meaning, denied: frozenset[str]) -> bool:
    """Whether what is denied is what the other asserts: "has no car" says nothing of "wants to buy a car"."""
    if positive.key and negative.ended and positive.value and positive.value <= denied:
        return True
    if positive.key and positive.key != negative.key and not positive.key <= denied | positive.people:
        return False
    if negative.act == positive.act or denied == positive.words or han.is_chinese(negative.plain):
        return True
    if negative.planned != positive.planned and not negative.ended:
        return "decided" in negative.plain and positive.planned
    return {negative.act, positive.act} <= _HOLDING | _TASTE or (negative.ended and negative.act in {"", "be"})


def _part_of_several(text: str, denied: frozenset[str]) -> bool:
    """As in "likes cats and dogs", of which only dogs are denied."""
    parts = [re.findall(r"[\w'-]+", part) for part in re.split(r",\s(?:and\s|or\s)?|\sand\s|\sor\s", text)]
    members = [parts[0][-1:], *(part[:1] for part in parts[1:])] if len(parts) > 1 and all(parts) else []
    is_denied = [bool(tokens(" ".join(member)) & denied) for member in members]
    return any(is_denied) and not all(is_denied)


def _status(newer: Meaning, older: Meaning) -> bool:
    """Two steps of one relationship: engaged to Tomasz, married Tomasz."""
    if not newer.relationship or not older.relationship or newer.relationship == older.relationship:
        return False
    return bool((newer.names & older.names) or not newer.names or not older.names)


# -- attributes --------------------------------------------------------------------------------------------------------


def _by_attribute(newer: Meaning, older: Meaning) -> Relation | None:
    """A new value for an attribute of which there is one."""
    if _status(newer, older):
        return Relation.REPLACES
    if newer.diet and older.diet:
        return Relation.COVERED if newer.diet == older.diet and newer.words <= older.words else Relation.REPLACES
    if _another_home(newer, older) or _another_job(newer, older) or _another_preference(newer, older):
        return Relation.REPLACES
    if _another_use(newer, older):
        return Relation.REPLACES
    if _named_former(newer, older):
        return Relation.REPLACES
    return _another_value(newer, older)


def _same_subject(newer: Meaning, older: Meaning) -> bool:
    return _included(newer.subject, older.subject)


def _another_home(newer: Meaning, older: Meaning) -> bool:
    if not newer.home or not older.home or newer.planned or older.planned or newer.people != older.people:
        return False
    # A street and a city are two views of one home.
    alike = bool(values(newer.home)) == bool(values(older.home)) or newer.changing
    return alike and not _included(newer.home, older.home)


def _another_job(newer: Meaning, older: Meaning) -> bool:
    if (
        newer.planned
        or older.planned
        or not _same_subject(newer, older)
        or _BESIDES & {*newer.plain.split(), *older.plain.split()}
    ):
        return False
    another_role = bool(newer.role and older.role and not newer.role <= older.role and not older.role <= newer.role)
    another_employer = bool(newer.employer and older.employer and not newer.employer & older.employer)
    promoted = another_role or bool(newer.role and older.role and newer.changing and newer.role != older.role)
    return promoted or (
        another_employer and not (newer.role and older.role and newer.role == older.role and not newer.changing)
    )


def _another_preference(newer: Meaning, older: Meaning) -> bool:
    """As in "prefers dark mode" and "prefers light mode", in the same place; or now another one for the same purpose."""
    new, old = newer.preferred, older.preferred
    if not new or not old or new == old or newer.context != older.context or not _same_subject(newer, older):
        return False
    return (len(new) > 1 and len(old) > 1 and new[-1] == old[-1]) or bool(newer.changing and newer.context)


def _another_use(newer: Meaning, older: Meaning) -> bool:
    """As in "uses Notion for notes" and "switched to Obsidian for notes"; or to another of the same noun."""
    if newer.planned != older.planned or not newer.changing or not _same_subject(newer, older):
        return False
    if newer.used and older.used and newer.used[1] and newer.used[1] == older.used[1]:
        return not _included(newer.used[0], older.used[0])
    if "commute" in newer.words & older.words:
        return not _included(newer.words, older.words)
    if _one_slot(newer.plain, older.plain):
        return True
    return bool(newer.becomes) and newer.becomes == older.head and newer.becomes not in newer.people


def _one_slot(newer: str, older: str) -> bool:
    """As in "now wants replies in German": all words of "wants replies in English" but for one place."""
    if not re.search(r"\b(?:now|instead|currently)\b", newer):
        return False
    new, old = (re.sub(r"\b(?:now|instead|currently)\b", " ", text).split() for text in (newer, older))
    start = next((at for at, pair in enumerate(zip(new, old, strict=False)) if pair[0] != pair[1]), 0)
    end = next((at for at, pair in enumerate(zip(new[::-1], old[::-1], strict=False)) if pair[0] != pair[1]), 0)
    changed = max(len(new), len(old)) - start - end
    same = [*new[:start], *new[len(new) - end :]]
    return 0 < changed <= _SLOT_WORDS and len([word for word in same if word not in _FORMS]) >= _SLOT_CONTEXT


def _named_former(newer: Meaning, older: Meaning) -> bool:
    """The statement names the former value, and that is what the older says: "replaced the Yaris with a Kia"."""
    former = newer.replaced - older.key
    if not former or not former <= older.words or older.planned != newer.planned:
        return False
    rest = older.words - newer.replaced
    if older.key:
        return older.value <= former | older.key
    return rest <= newer.words | {"car"} or bool(rest & (newer.words - newer.replaced))


def _another_value(newer: Meaning, older: Meaning) -> Relation | None:
    """The same key gets another value of the same class."""
    if (older.key | newer.key) & _MULTIPLE:
        return None
    if "name" in {older.verb, newer.verb} and not (newer.changing and newer.key and newer.key == older.key):
        return None
    if _gives_key(newer, older):
        return Relation.REPLACES
    if newer.planned != older.planned and not newer.changing:
        return None
    if newer.key and newer.key < older.key and newer.changing and newer.verb == older.verb:
        return Relation.REPLACES_ONE if _shared_values(newer.value, older.value) else None
    if newer.changing and not newer.key and older.key and older.verb == "be" and older.key <= newer.words:
        return Relation.REPLACES if _same_class(newer, older, newer.words - older.key, older.value) else None
    return None


def _gives_key(newer: Meaning, older: Meaning) -> bool:
    if newer.key and newer.key == older.key and (newer.verb == older.verb or "name" in {newer.verb, older.verb}):
        if _included(newer.value, older.value):
            return False
        return bool(older.key & _ONLY_ONE) or newer.changing or _same_class(newer, older, newer.value, older.value)
    if newer.key and newer.changing and newer.verb == "be" and not older.key and newer.key <= older.words:
        return _shared_values(newer.value, older.words)
    return False


def _same_class(newer: Meaning, older: Meaning, new: frozenset[str], old: frozenset[str]) -> bool:
    if _shared_values(new, old):
        return new != old
    named = newer.verb in {"be", ""} and bool(newer.names and older.names)
    return (named or "favorite" in older.key) and not _included(new, old)


def _shared_values(new: frozenset[str], old: frozenset[str]) -> bool:
    """A class of values that both have, with different ones."""
    ours, theirs = values(new), values(old)
    return any(ours[kind] != theirs[kind] for kind in ours.keys() & theirs.keys())


# -- words -------------------------------------------------------------------------------------------------------------


def _by_inclusion(newer: Meaning, older: Meaning) -> Relation | None:
    """The one says all that the other says."""
    if not newer.words or not older.words:
        return None
    if newer.words < implied(older.words):
        return None if newer.stranger and len(newer.words) == 1 else Relation.COVERED
    if older.words < implied(newer.words):
        return Relation.REFINES
    return Relation.SAME if han.is_chinese(newer.plain) and _han_alike(newer, older) else None


def _han_alike(newer: Meaning, older: Meaning) -> bool:
    return values(newer.words) == values(older.words) and _overlap(newer.words, older.words) >= _SAME_CHARACTERS


def _by_value(newer: Meaning, older: Meaning) -> Relation | None:
    """The same words around another value of the same class: a number, an amount, a date, a weekday."""
    if newer.event or older.event:
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
    return bool(newer.key and more & newer.key and newer.key != older.key)


def _by_kind(newer: Meaning, older: Meaning) -> Relation | None:
    """The older names only the kind of what the later names."""
    for kind, members in _GENERIC.items():
        if kind in older.words and newer.words & members and older.words - {kind} <= newer.words:
            return Relation.REFINES
    return None


def _included(first: frozenset[str], second: frozenset[str]) -> bool:
    return first <= second or second <= first


def _overlap(first: frozenset[str], second: frozenset[str]) -> float:
    union = first | second
    return len(first & second) / len(union) if union else 1.0
