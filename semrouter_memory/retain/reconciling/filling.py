"""How two statements stand that fill one attribute of one owner, however each speaks of it. Pure.

Strategy: every clause is read with the ways of `slots`; the same value says the same, another value replaces where the
attribute allows it, and the end of an attribute denies its value. Circumstances (at work, on servers) must agree, and a
statement of what is planned, was or comes beside ("also") replaces nothing. None means: not known here.
"""

import re
from dataclasses import dataclass

from semrouter_memory.retain.reconciling import forms, han, slots
from semrouter_memory.retain.reconciling.meaning import Meaning
from semrouter_memory.retain.reconciling.relation import Relation
from semrouter_memory.retain.reconciling.slots import Attribute, Turnover, ValueClass
from semrouter_memory.retain.reconciling.words import tokens, values
from semrouter_memory.retain.rules.lexicon import RELATIONS
from semrouter_memory.retain.wordlist import words

_BESIDES = words("also second another additionally too part-time weekends side both sometimes occasionally former")
_OWNER = re.compile(r"^(?:on \S+ )?(?:user|用户)(?='s|\s|[\u4e00-\u9fff])")
_TAIL = re.compile(
    r"\s(?:since|after|because|as|from|for|instead|now|again|in|on|at|this|last|next|with|every|when|while)\s.*$|\s(?:now|instead|again)$|[,;(].*$|，.*$"
)
_REASON = re.compile(r"\s(?:since|after|because|due to|thanks to)\s.*$|\sfor (?:[\w-]+ )?(?:reasons|good)\b.*$")
_WHEN = frozenset({"date", "month", "year", "ord"})
_TOLD = re.compile(
    r"\b(?:new|now|switched|changed|moved|relocated|replaced|different|(?:down|up) to|upgraded|downgraded|promoted|extension|reports to \w+ since)\b|换|改|新|变成"
)
_NO_ROLE = frozenset().union(
    *(tokens(word) for word in RELATIONS),
    tokens("hobby name goal dream wish plan problem reason idea allergy skill son daughter"),
) - frozenset().union(*(tokens(word) for word in words("boss manager dentist therapist doctor landlord plumber")))


@dataclass(frozen=True, slots=True)
class Filled:
    """An attribute with the value that a statement gives it.

    Attributes:
        value: tokens of the value.
        around: tokens of its circumstances, without dates.
        negated: the clause denies it.
    """

    attribute: Attribute
    name: str
    value: frozenset[str]
    around: frozenset[str]
    negated: bool


def by_slot(newer: Meaning, older: Meaning) -> Relation | None:
    """How the later stands to the earlier where both fill one attribute."""
    if _ends(newer, older):
        return Relation.CONTRADICTS
    if _other_plan(newer, older) and not _beside(newer, older):
        return Relation.REPLACES
    if newer.planned or older.planned or newer.former or older.former or older.negated or _beside(newer, older):
        return None
    if _promoted(newer, older) or _extended(newer, older):
        return Relation.REPLACES
    had = _filled(older)
    kind_only = bool(older.words) and older.words <= slots.FAMILIES.keys() and not newer.changing and not newer.people
    if not had and not kind_only:
        return None
    ours = {each.name: each for each in _filled(newer)}
    if kind_only and older.words <= ours.keys():
        return Relation.REFINES  # "has a car", "has a blue Clio"
    for known in had:
        new = ours.get(known.name)
        if new and not new.negated and not known.negated:
            return _compared(newer, new, known)
    return None


def _beside(newer: Meaning, older: Meaning) -> bool:
    return bool(_BESIDES & {*newer.plain.split(), *older.plain.split()}) or "也" in newer.plain


def _compared(newer: Meaning, new: Filled, known: Filled) -> Relation | None:
    if new.value == known.value:
        if new.around == known.around:
            return Relation.SAME
        if new.around < known.around:
            return Relation.COVERED
        return Relation.REFINES if known.around < new.around else None
    if new.value <= known.value or known.value <= new.value:
        return None
    if new.attribute.value_class is ValueClass.LISTED and new.around != known.around:
        return None
    if known.around - new.around or (known.around and new.around - known.around):
        return None  # one for each place or purpose
    turnover = new.attribute.turnover
    told = turnover is Turnover.TOLD and (newer.changing or _TOLD.search(newer.plain))
    return Relation.REPLACES if turnover is Turnover.ALWAYS or told else None


def _filled(statement: Meaning) -> list[Filled]:
    """All attributes that the user gets a value for, in the whole statement or in a clause of it."""
    start = _OWNER.match(statement.plain)
    if not start:
        return []
    rest = statement.plain[start.end() :]
    clauses = [clause for clause in forms.CLAUSE.split(rest) if clause.strip()]
    joint = "" if han.is_chinese(rest) else " "
    parts = dict.fromkeys([rest, *(each if each.startswith(("'s", " ")) else f"{joint}{each}" for each in clauses)])
    found = [_read(attribute, part, statement) for part in parts for attribute in slots.ATTRIBUTES]
    return [each for each in found if each]


def _read(attribute: Attribute, part: str, statement: Meaning) -> Filled | None:
    if attribute.name == "home" and forms.TOOLS.search(statement.plain):
        return None
    for way in attribute.ways:
        match = way.match(part)
        if not match:
            continue
        said = match.group("value")
        head = _TAIL.sub("", said)
        if not _of_class(attribute, head, statement):
            continue
        value = tokens(head)
        role = match.groupdict().get("role")
        kind = tokens(role) if role else frozenset()
        if not value or (role and (not kind or kind & _NO_ROLE)):
            continue
        name = f"{attribute.name} {' '.join(sorted(kind))}" if role else attribute.name
        around = _around(said[len(head) :]) - {attribute.name}
        return Filled(attribute, name, value - kind, around, bool(forms.NEGATION.search(part)))
    return None


def _around(tail: str) -> frozenset[str]:
    """Where and what for; "at work" counts, though "work" is no content of its own elsewhere."""
    tail = _REASON.sub("", tail)
    return _timeless(tokens(tail)) | (frozenset({"work", "job"}) & set(tail.split()))


def _timeless(around: frozenset[str]) -> frozenset[str]:
    when = {word for kind, found in values(around).items() if kind in _WHEN for word in found}
    return around - when


def _of_class(attribute: Attribute, said: str, statement: Meaning) -> bool:
    match attribute.value_class:
        case ValueClass.NAMED:
            return han.is_chinese(said) or any(word in statement.names for word in re.findall(r"[\w'’-]+", said))
        case ValueClass.NUMBER:
            return any(char.isdigit() for char in said)
        case ValueClass.LISTED:
            members = slots.FAMILIES[attribute.name]
            if han.is_chinese(said):
                return any(member in said for member in members)
            said_words = set(re.findall(r"[a-z]+", said))
            return bool(members & said_words) and not said_words & slots.OTHER_PRODUCTS
    return True


def _ends(newer: Meaning, older: Meaning) -> bool:
    """As in "works at Lidl" and "got fired", "girlfriend is Rosa" and "broke up"."""
    if older.negated or older.former or _beside(newer, older):
        return False
    for name, pattern in slots.ENDS.items():
        match = pattern.search(newer.plain)
        if match and (held := _held(name, older)):
            named = tokens(next((part for part in match.groups() if part), ""))
            return _timeless(named) <= held | older.words
    return False


def _held(name: str, older: Meaning) -> frozenset[str]:
    """The value of the attribute that may have come to its end."""
    if name == "trip":
        match = slots.TRIP.search(older.plain)
        return tokens(next(part for part in match.groups() if part)) if match else frozenset()
    if name == "employer" and not older.people and (older.employer or (older.role and "works" in older.plain)):
        return older.employer or older.role
    return next((each.value for each in _filled(older) if each.name == name and not each.negated), frozenset())


def _promoted(newer: Meaning, older: Meaning) -> bool:
    """Another rank of the same occupation."""
    new, old = slots.PROMOTED.search(newer.plain), slots.TITLE.match(older.plain)
    if not new or not old or newer.people != older.people or not newer.plain.startswith("user "):
        return False
    rank = _TAIL.sub("", new.group("value") or new.group("value2")).split()
    title = _TAIL.sub("", old.group("value")).split()
    if not rank or not title or rank == title:
        return False
    ranked = slots.SENIORITY & {*rank, *title}
    return bool(ranked) and rank[-1] == title[-1]


def _extended(newer: Meaning, older: Meaning) -> bool:
    """A deadline that got an extension."""
    new, old = slots.EXTENSION.search(newer.plain), slots.DEADLINE.search(older.plain)
    if not new or not old or newer.people != older.people:
        return False
    of_new = tokens(new.group("thing") or new.group("thing2") or "")
    of_old = tokens(next((old[name] for name in ("thing", "thing2", "thing3", "thing4") if old[name]), ""))
    return bool(of_new) and (of_new <= of_old or of_old <= of_new) and bool(of_old)


def _other_plan(newer: Meaning, older: Meaning) -> bool:
    """Another plan of the same product."""
    new, old = slots.NEW_PLAN.search(newer.plain), slots.PLAN.search(older.plain)
    if not new or not old or newer.people != older.people:
        return False
    product, value, had = (tokens(part) for part in (new.group("product"), new.group("value"), old.group("value")))
    return bool(product and value) and product <= had and not value <= had
