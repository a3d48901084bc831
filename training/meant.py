"""The decision *meant?*: which memories an order to forget means."""

import asyncio
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from semrouter_memory.config import RecallConfig
from semrouter_memory.deletion.meant import compared
from semrouter_memory.language.sentences import sentences
from semrouter_memory.learned import Logistic
from semrouter_memory.model import Criteria, EmbeddedMemory
from semrouter_memory.ports import MemoryIndex
from semrouter_memory.recall.categories import categories_of
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.vector_search import HybridSearch
from semrouter_memory.retain.subjects import subjects
from semrouter_memory.store.owner_index import build_index
from training import fitting
from training.fitting import Example, fit, read
from training.relevance import SCOPE, embedded_memories

_STRENGTH = 4.0
_FOUND = 20
_FEW = 3
"""Every order is given a second time, of an owner who has what it means and at most so many memories besides: the fewer there are, the
more relevant each looks."""
_AT = datetime(2026, 4, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Source:
    """One owner's memories, as a search asks for them."""

    index: MemoryIndex | None = None

    @property
    def reader(self) -> "_Source":
        return self

    def now(self) -> datetime:
        return _AT

    async def search_index(self, *_: Any, **__: Any) -> MemoryIndex | None:
        return self.index


@dataclass(frozen=True, slots=True)
class Case:
    """One order, and the features of each memory that was found.

    Attributes:
        gone: ids of the memories that it means.
        rows: by id; without those that may go or stay.
    """

    person: str
    language: str
    gone: frozenset[str]
    rows: Mapping[str, Mapping[str, float]]


def examples(cases: Sequence[Case]) -> list[Example]:
    return [
        Example(row, "yes" if each in case.gone else "no", case.person)
        for case in cases
        for each, row in case.rows.items()
    ]


def model() -> dict[str, Any]:
    """The weights."""
    return fit(examples(asyncio.run(cases())), strength=_STRENGTH) | {"cut": RecallConfig().forget_threshold}


async def cases(*, held_out: bool = False, few: bool = True) -> list[Case]:
    """Every labelled order; with `few` also among few memories."""
    embedder, source, found = fitting.embedder(), _Source(), list[Case]()
    search = HybridSearch(source=cast("Any", source), vectors=QueryVectors(embedder), config=RecallConfig())
    for person in read("orders.jsonl", held_out=held_out):
        every = await embedded_memories(embedder, {**person, "memories": list(_quotes(person["memories"]))})
        for order in person["orders"]:
            for memories in (every, _few(every, order))[: 1 + few]:
                source.index = build_index(SCOPE.owner, memories, label=categories_of)
                found.append(await _case(search, person, order))
    return found


def _quotes(memories: Sequence[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    return ({**each, "at": "2026-03-15", "form": "quote"} for each in memories)


def _few(every: Sequence[EmbeddedMemory], order: Mapping[str, Any]) -> list[EmbeddedMemory]:
    others = [each for each in every if _id(each.memory.id) not in order["gone"]]
    chance = random.Random(order["text"])  # noqa: S311 - the same each time
    few = {each.memory.id for each in chance.sample(others, min(chance.randint(1, _FEW), len(others)))}
    return [each for each in every if each.memory.id in few or _id(each.memory.id) in order["gone"]]


def _id(memory_id: str) -> str:
    return memory_id.rpartition(" ")[2]


async def _case(search: HybridSearch, person: Mapping[str, Any], order: Mapping[str, Any]) -> Case:
    named = [each for sentence in sentences(order["text"]) for each in subjects(sentence)]
    found = [(each, await search.search_fresh(Criteria(SCOPE), each.text, limit=_FOUND)) for each in named]
    rows = {_id(memory.id): features for memory, features in compared(found)}
    counted = {each: row for each, row in rows.items() if each not in order.get("fine", ())}
    return Case(person["person"], person["language"], frozenset(order["gone"]), counted)


def measured(decision: Logistic, told: Sequence[Case]) -> dict[str, tuple[int, int, int, int]]:
    """By language and kind of order: how many memories are found, of how many, how many others, and how many orders."""
    totals = dict[str, tuple[int, int, int, int]]()
    for case in told:
        taken = {each for each, row in case.rows.items() if decision.log_odds(row) >= decision.log_cut}
        kind = ("nothing", "one", "several")[min(len(case.gone), 2)]
        key, more = f"{case.language} {kind}", (len(taken & case.gone), len(case.gone), len(taken - case.gone), 1)
        totals[key] = tuple(map(sum, zip(totals.get(key, (0,) * 4), more, strict=True)))  # type: ignore[assignment]
    return totals


if __name__ == "__main__":
    decision = Logistic.read(model())
    for few in (False, True):
        for kind, figures in sorted(measured(decision, asyncio.run(cases(held_out=True, few=few))).items()):
            sys.stdout.write(f"{kind}{', also among few' if few else ''}: {figures}\n")
