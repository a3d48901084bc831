"""Which memories say the same thing, or different things of the same attribute, and how they become one. Pure.

Strategy: merging must lose nothing, so it is shy. Everything joins the newest statement directly, never a chain of
neighbours; one that is flagged, that will expire, that tells of a single event, or that stands to the newest in no way
understood here, stays as it is. The merged text is made of the statements' own words:
"User's budget for Hawaii is $12,000 (earlier: $10,000)". A merged text, by rule or by a model, keeps every value, unit and
name; a model's adds none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from semrouter_memory.language.names import capitalised
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.signs import signs
from semrouter_memory.language.terms import terms
from semrouter_memory.language.values import MONTHS, split, units
from semrouter_memory.language.words import STOP_WORDS
from semrouter_memory.maintenance.eviction import is_flagged
from semrouter_memory.model import DERIVED_FROM, Form, Memory, MemoryType, Scope, Vector
from semrouter_memory.retain.reconciling.pair_features import around
from semrouter_memory.retain.reconciling.statement import Statement, statement

MERGEABLE = frozenset({MemoryType.SEMANTIC, MemoryType.PROCEDURAL, MemoryType.REFLECTIVE})
MAX_CONTENT_CHARS = 1_000
MAX_COMPARED = 2_000
"""Memories of one project and type that are compared with each other; the newest."""
_MAX_GROUP = 10
_MAX_TURNS = 200
"""Source turns of one memory; deleting it must reach them all."""
_RELATED_SIMILARITY = 0.5
"""Pairs further apart are not looked at; those that are related are well above (a changed budget: 0.56)."""
_SAME_SIMILARITY = 0.95
_MIN_SHARED_PREFIX = 3
_SEQUENCE = frozenset(
    terms(
        "added adding final finally initial initially total extra additional increase increased raise raised reduced"
        " lowered updated original originally plus minus budgeted spent top up more less 增加 追加 最终 最后 初始 总共 减少 加了"
    )
)
_STANCE = frozenset({"negated", "ended", "past"})
_FUNCTION_CHARS = frozenset("用户的是了在也和有就都着过得地")


class Tie(StrEnum):
    """How an older statement stands to the newest."""

    SAID = "said"
    """It adds nothing, or is what the newest says in more detail."""
    EARLIER = "earlier"
    """Another value of the same attribute, which holds no longer."""
    ALSO = "also"
    """Another value of the same attribute, where there may be several."""


@dataclass(frozen=True, slots=True)
class Group:
    """Memories that are one statement, and its text.

    Attributes:
        memories: the newest first.
    """

    memories: tuple[Memory, ...]
    content: str


def groups(memories: Sequence[Memory], vectors: Sequence[Vector]) -> list[Group]:
    """The groups among one owner's active memories; no memory is in two of them."""
    # What is said in the user's words is told from statements, and by what it was said about.
    kinds: dict[tuple[Scope, MemoryType, Form, str], list[tuple[Memory, Vector]]] = {}
    for memory, vector in zip(memories, vectors, strict=True):
        lasts = memory.expires_at is None and not memory.within_session
        # An insight is deleted with any of its sources, which others must not be.
        derived = bool(memory.ids(DERIVED_FROM))
        doubtful = is_flagged(memory) or bool(memory.outdated_by)
        if memory.type in MERGEABLE and lasts and not derived and not doubtful:
            kind = (memory.scope, memory.type, memory.form, memory.context)
            kinds.setdefault(kind, []).append((memory, vector))
    return [group for kind in kinds.values() for group in _of_one_kind(kind)]


def _of_one_kind(pairs: list[tuple[Memory, Vector]]) -> list[Group]:
    pairs = sorted(pairs, key=lambda pair: (pair[0].observed_at, pair[0].id), reverse=True)[:MAX_COMPARED]
    memories = [memory for memory, _ in pairs]
    matrix = np.stack([vector for _, vector in pairs])
    taken: set[int] = set()
    found = []
    for index, newest in enumerate(memories):
        if index in taken:
            continue
        similarities = matrix @ matrix[index]
        older = [
            at for at in np.flatnonzero(similarities >= _RELATED_SIMILARITY).tolist() if at > index and at not in taken
        ]
        ties = {at: tie for at in older if (tie := _tie(newest, memories[at], float(similarities[at])))}
        members = list(ties)[: _MAX_GROUP - 1]
        if members and (group := _group(newest, [(memories[at], ties[at]) for at in members])):
            taken.update((index, *members))
            found.append(group)
    return found


def _group(newest: Memory, older: Sequence[tuple[Memory, Tie]]) -> Group | None:
    memories = (newest, *(memory for memory, _ in older))
    content = _merged(newest, older)
    turns = {turn_id for memory in memories for turn_id in memory.ids("turn_ids")}
    fits = len(content) <= MAX_CONTENT_CHARS and len(turns) <= _MAX_TURNS
    return Group(memories, content) if fits and keeps_everything(content, [each.content for each in memories]) else None


# -- what must not be lost or made up ----------------------------------------------------------------------------------


class _Stated(NamedTuple):
    """What a text states.

    Attributes:
        values: amounts, dates, times and whatever else has digits in it, in one spelling.
        names: its capitalised words and its first one, which may be a name.
    """

    values: frozenset[str]
    units: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]


@lru_cache(4_096)
def _stated(text: str) -> _Stated:
    values, rest = split(text)
    numbered = {term for term in terms(rest) if any(char.isdigit() for char in term)}
    names = [
        *capitalised(text),
        *(word for word in text.split()[:1] if word[:1].isupper() and _SEQUENCE.isdisjoint(terms(word))),
    ]
    return _Stated(
        values | numbered | signs(text).signed,
        units(text),
        frozenset(map(_bare, names)) - STOP_WORDS,
        frozenset(map(_bare, text.replace("/", " ").split())),
    )


def _bare(word: str) -> str:
    return word.casefold().replace("’", "'").strip(".,;:!?()\"“”'-").removesuffix("'s")


def keeps_everything(summary: str, originals: Sequence[str]) -> bool:
    """Whether every number, date, unit and name of the originals is in the summary."""
    said, characters = _stated(summary), {*CJK.findall(summary)}
    return all(
        each.values <= said.values
        and each.units <= said.units
        and each.names <= said.words
        and {*CJK.findall(text)} - _FUNCTION_CHARS <= characters
        for text in originals
        if (each := _stated(text))
    )


def adds_nothing(summary: str, originals: Sequence[str]) -> bool:
    """Whether every number, date, unit and name of the summary is in an original, and it denies as they do."""
    new, known = _stated(summary), _stated(" ; ".join(originals))
    return (
        new.values <= known.values
        and new.units <= known.units
        # A month is part of a date, which is compared as a value.
        and all(name in known.words or name[:3] in _MONTHS for name in new.names)
        and _denies(summary) == any(map(_denies, originals))
    )


_MONTHS = frozenset(name[:3] for name in MONTHS)


def _denies(text: str) -> bool:
    return bool({"negated", "ended"} & statement(text).marks)


# -- how two statements stand to each other ----------------------------------------------------------------------------


def _statement(memory: Memory) -> Statement:
    return statement(memory.content, procedural=memory.type is MemoryType.PROCEDURAL)


def _tie(newer: Memory, older: Memory, similarity: float) -> Tie | None:
    new, old = _statement(newer), _statement(older)
    if new.people != old.people or (new.marks ^ old.marks) & _STANCE:
        return None
    if newer.type is MemoryType.PROCEDURAL:
        return Tie.SAID if new.goal == old.goal and _says_all(newer, older) else None
    if _says_all(newer, older) or _says_all(older, newer):
        return Tie.SAID
    one, other = _stated(newer.content), _stated(older.content)
    if similarity >= _SAME_SIMILARITY and one[:3] == other[:3]:
        return Tie.SAID
    is_event = new.is_event or old.is_event
    same_class = bool(_classes(one.values) & _classes(other.values))
    if not is_event and new.given and new.given == old.given:
        return Tie.EARLIER if same_class else Tie.ALSO
    return Tie.EARLIER if same_class and _in_sequence(new, old) else None


def _says_all(more: Memory, less: Memory) -> bool:
    """The one has every word, value and unit of the other."""
    words, one, other = _statement(less).content, _stated(more.content), _stated(less.content)
    return bool(words) and words <= _statement(more).content and other.units <= one.units and other.values <= one.values


def _in_sequence(new: Statement, old: Statement) -> bool:
    """As in "Budget for Hawaii is $10,000", "Added $2,000 to the Hawaii budget", "Final Hawaii budget is $12,000"."""
    topic, other = ((each.words | each.names) - _SEQUENCE for each in (new, old))
    return bool(topic) and topic == other and not _SEQUENCE.isdisjoint(new.order + old.order)


def _classes(values: frozenset[str]) -> set[str]:
    return {value.partition(":")[0] for value in values if ":" in value}


# -- the merged text ---------------------------------------------------------------------------------------------------


def _merged(newest: Memory, older: Sequence[tuple[Memory, Tie]]) -> str:
    said = [newest, *(memory for memory, tie in older if tie is Tie.SAID)]
    # The newest, unless another one says all of it and more.
    known = _statement(newest).content
    head = max(said, key=lambda each: _says_all(each, newest) and len(_statement(each).content - known))
    start, asides = _taken_apart(head.content)
    for each, tie in ((newest, Tie.SAID), *older):
        if each is head:
            continue
        first, inner = _taken_apart(each.content)
        # A paraphrase's other words are no loss.
        if tie is not Tie.SAID or not keeps_everything(start, [first]):
            asides[Tie.ALSO if tie is Tie.SAID else tie].append(_difference(first, start))
        for label, items in inner.items():
            asides[label] += items
    listed = ((label, dict.fromkeys(items)) for label, items in asides.items() if items)
    return start + "".join(f" ({label.value}: {'; '.join(items)})" for label, items in listed)


def _taken_apart(content: str) -> tuple[str, dict[Tie, list[str]]]:
    """A text that was merged before: what it says, and what it lists behind that."""
    asides: dict[Tie, list[str]] = {Tie.EARLIER: [], Tie.ALSO: []}
    text = content.strip()
    for tie in (Tie.ALSO, Tie.EARLIER):
        head, found, items = text.rpartition(f" ({tie.value}: ")
        if found and items.endswith(")"):
            text, asides[tie] = head, items[:-1].split("; ")
    return text.rstrip(".。 "), asides


def _difference(text: str, head: str) -> str:
    """The part of a statement that is not in the head ("$10,000"), or all of it where that would say less."""
    words = tuple(text.split())
    start, end = around(words, tuple(head.split()))
    middle = " ".join(words[start : len(words) - end])
    if start < _MIN_SHARED_PREFIX or not middle:
        return text
    return middle if set(terms(text)) <= {*terms(head), *terms(middle)} else text
