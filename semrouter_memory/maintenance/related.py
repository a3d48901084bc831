"""Which memories say the same thing, or different things of the same attribute, and how they become one. Pure.

Strategy: merging must lose nothing, so it is shy. Everything joins the newest statement directly, never a chain of
neighbours; one that is flagged, that will expire, that tells of a single event, or that stands to the newest in no way
understood here, stays as it is. The merged text is made of the statements' own words:
"User's budget for Hawaii is $12,000 (earlier: $10,000)".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from semrouter_memory.language.terms import terms
from semrouter_memory.maintenance.eviction import is_flagged
from semrouter_memory.maintenance.facts import digits_of, is_past, keeps_everything, names_of, units_of, values_of
from semrouter_memory.model import Memory, MemoryType, Scope, Vector
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
_DENIAL = frozenset({"negated", "ended"})
_ASIDE = re.compile(r"^(?P<head>.*) \((?P<label>earlier|also): (?P<items>.*)\)$", re.DOTALL)


class Tie(StrEnum):
    """How an older statement stands to the newest."""

    SAID = "said"
    """It adds nothing, or is what the newest says in more detail."""
    EARLIER = "earlier"
    """Another value of the same attribute, which holds no longer."""
    ALSO = "also"
    """Another value of the same attribute, where there may be several."""


@dataclass(frozen=True)
class _Statement:
    """A memory taken apart, once."""

    memory: Memory

    @cached_property
    def statement(self) -> Statement:
        return statement(self.memory.content, procedural=self.memory.type is MemoryType.PROCEDURAL)

    @cached_property
    def values(self) -> frozenset[str]:
        return values_of(self.memory.content)

    @cached_property
    def units(self) -> frozenset[str]:
        return units_of(self.memory.content)

    @cached_property
    def topic(self) -> frozenset[str]:
        """What is left without values and without words like "added" and "final"."""
        return (self.statement.words | self.statement.names) - _SEQUENCE

    @cached_property
    def is_past(self) -> bool:
        return is_past(self.memory.content)


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
    kinds: dict[tuple[Scope, MemoryType], list[tuple[Memory, Vector]]] = {}
    for memory, vector in zip(memories, vectors, strict=True):
        if memory.type in MERGEABLE and memory.expires_at is None and not is_flagged(memory):
            kinds.setdefault((memory.scope, memory.type), []).append((memory, vector))
    return [group for kind in kinds.values() for group in _of_one_kind(kind)]


def _of_one_kind(pairs: list[tuple[Memory, Vector]]) -> list[Group]:
    pairs = sorted(pairs, key=lambda pair: (pair[0].observed_at, pair[0].id), reverse=True)[:MAX_COMPARED]
    statements = [_Statement(memory) for memory, _ in pairs]
    matrix = np.stack([vector for _, vector in pairs])
    taken: set[int] = set()
    found = []
    for index, newest in enumerate(statements):
        if index in taken:
            continue
        similarities = matrix @ matrix[index]
        older = [
            at for at in np.flatnonzero(similarities >= _RELATED_SIMILARITY).tolist() if at > index and at not in taken
        ]
        ties = {at: tie for at in older if (tie := _tie(newest, statements[at], float(similarities[at])))}
        members = list(ties)[: _MAX_GROUP - 1]
        if members and (group := _group(newest, [(statements[at], ties[at]) for at in members])):
            taken.update((index, *members))
            found.append(group)
    return found


def _group(newest: _Statement, older: Sequence[tuple[_Statement, Tie]]) -> Group | None:
    memories = (newest.memory, *(statement.memory for statement, _ in older))
    content = _merged(newest, older)
    turns = {turn_id for memory in memories for turn_id in memory.ids("turn_ids")}
    fits = len(content) <= MAX_CONTENT_CHARS and len(turns) <= _MAX_TURNS
    return Group(memories, content) if fits and keeps_everything(content, [each.content for each in memories]) else None


# -- how two statements stand to each other ----------------------------------------------------------------------------


def _tie(newer: _Statement, older: _Statement, similarity: float) -> Tie | None:
    new, old = newer.statement, older.statement
    if new.people != old.people or new.marks & _DENIAL != old.marks & _DENIAL or newer.is_past != older.is_past:
        return None
    if newer.memory.type is MemoryType.PROCEDURAL:
        return Tie.SAID if new.goal == old.goal and _says_all(newer, older) else None
    if _says_all(newer, older) or _says_all(older, newer) or _is_paraphrase(newer, older, similarity):
        return Tie.SAID
    if new.is_event or old.is_event:
        return Tie.EARLIER if _in_sequence(newer, older) else None
    return _by_attribute(newer, older)


def _says_all(more: _Statement, less: _Statement) -> bool:
    """The one has every word, value and unit of the other."""
    words = less.statement.content
    return bool(words) and words <= more.statement.content and less.units <= more.units and less.values <= more.values


def _is_paraphrase(newer: _Statement, older: _Statement, similarity: float) -> bool:
    first, second = newer.memory.content, older.memory.content
    return (
        similarity >= _SAME_SIMILARITY
        and newer.values == older.values
        and newer.units == older.units
        and digits_of(first) == digits_of(second)
        and names_of(first) == names_of(second)
    )


def _by_attribute(newer: _Statement, older: _Statement) -> Tie | None:
    new, old = newer.statement, older.statement
    if new.given and new.given == old.given:
        return Tie.EARLIER if _same_class(newer, older) else Tie.ALSO
    return Tie.EARLIER if _in_sequence(newer, older) else None


def _in_sequence(newer: _Statement, older: _Statement) -> bool:
    """As in "Budget for Hawaii is $10,000", "Added $2,000 to the Hawaii budget", "Final Hawaii budget is $12,000"."""
    if not newer.topic or newer.topic != older.topic or not _same_class(newer, older):
        return False
    return not _SEQUENCE.isdisjoint(newer.statement.order + older.statement.order)


def _same_class(newer: _Statement, older: _Statement) -> bool:
    """Both have a value of one class: two amounts, two dates."""
    new, old = ({value.partition(":")[0] for value in each.values if ":" in value} for each in (newer, older))
    return bool(new & old)


# -- the merged text ---------------------------------------------------------------------------------------------------


def _merged(newest: _Statement, older: Sequence[tuple[_Statement, Tie]]) -> str:
    said = [newest, *(statement for statement, tie in older if tie is Tie.SAID)]
    # The newest, unless another one says all of it and more.
    head = max(
        said, key=lambda each: _says_all(each, newest) and len(each.statement.content - newest.statement.content)
    )
    start, asides = _taken_apart(head.memory.content)
    for each, tie in ((newest, Tie.SAID), *older):
        if each is head:
            continue
        first, inner = _taken_apart(each.memory.content)
        if tie is not Tie.SAID or not _covered(first, start):
            _put(asides, tie, _difference(first, start))
        for label, items in inner.items():
            for item in items:
                _put(asides, label, item)
    return start + "".join(f" ({label.value}: {'; '.join(items)})" for label, items in asides.items() if items)


def _put(asides: dict[Tie, list[str]], tie: Tie, item: str) -> None:
    items = asides[Tie.ALSO if tie is Tie.SAID else tie]
    if item not in items:
        items.append(item)


def _covered(text: str, head: str) -> bool:
    """Nothing of the text is lost when the head stands for it: a paraphrase's other words are no loss."""
    return keeps_everything(head, [text])


def _taken_apart(content: str) -> tuple[str, dict[Tie, list[str]]]:
    """A text that was merged before: what it says, and what it lists behind that."""
    asides: dict[Tie, list[str]] = {Tie.EARLIER: [], Tie.ALSO: []}
    text = content.strip()
    while found := _ASIDE.match(text):
        asides[Tie(found["label"])] = found["items"].split("; ")
        text = found["head"]
    return text.rstrip(".。 "), asides


def _difference(text: str, head: str) -> str:
    """The part of a statement that is not in the head ("$10,000"), or all of it where that would say less."""
    words, others = text.split(), head.split()
    start = _common(words, others)
    end = min(_common(words[::-1], others[::-1]), min(len(words), len(others)) - start)
    middle = " ".join(words[start : len(words) - end])
    if start < _MIN_SHARED_PREFIX or not middle:
        return text
    return middle if set(terms(text)) <= {*terms(head), *terms(middle)} else text


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words both begin with."""
    return next(
        (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other),
        min(len(first), len(second)),
    )
