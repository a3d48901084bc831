"""What the strategies of `memory.recall.strategy` share: what each offers to recall, and where it searches.

Strategy: memories are searched in the owner's index if there is one, else in the store. An owner without an index has very many
memories, or they are not at hand. The store gives a few dozen of them, and the same formula ranks these; the statistics of words
are those of the few, so the store should find by words too.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from semrouter_memory.config import RecallConfig
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import (
    ALWAYS,
    Criteria,
    Hit,
    Memory,
    Period,
    Reach,
    RecallOptions,
    RecallRequest,
)
from semrouter_memory.ports import Clock, MemoryIndex, MemoryReader, OwnerIndexes
from semrouter_memory.recall.categories import MemoryCategory
from semrouter_memory.recall.deadline import Deadline, StepTimer
from semrouter_memory.recall.features import written_in
from semrouter_memory.recall.query import Query

_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        hits: in the order in which they are to be injected.
        pinned: ids of those that are injected whatever their relevance, because they say how to answer.
        pinned_by_user: ids of those that are injected whatever their relevance and before others, because the user wants it.
        empty: there was no memory to search.
        rewrite_late: the rewrite of the query took longer than its deadline.
        is_overview: the request asks for all, and so for more than for a question.
    """

    hits: Sequence[Hit] = ()
    pinned: frozenset[str] = frozenset()
    pinned_by_user: frozenset[str] = frozenset()
    empty: bool = False
    rewrite_late: bool = False
    is_overview: bool = False

    def joined(self, other: "SearchResult") -> "SearchResult":
        """What both found, best first; a memory that both did counts with its better relevance."""
        hits = {hit.memory.id: hit for hit in sorted((*self.hits, *other.hits), key=lambda hit: hit.relevance)}
        return SearchResult(
            best_first(hits.values()),
            self.pinned | other.pinned,
            self.pinned_by_user | other.pinned_by_user,
            empty=self.empty or other.empty,
            rewrite_late=self.rewrite_late or other.rewrite_late,
            is_overview=self.is_overview or other.is_overview,
        )

    @property
    def best(self) -> float:
        return self.hits[0].relevance if self.hits else 0.0


class Strategy(Protocol):
    """Searches one owner's memories."""

    @property
    def any_message(self) -> bool:
        """Whether it also searches for a greeting and for an empty message."""

    async def prepare(self) -> None:
        """Do what can be done before the first request. Raises `UnavailableError`."""

    async def search(self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer) -> SearchResult:
        """Search.

        Raises:
            UnavailableError: the model does not answer.
            StoreUnavailableError: the owner has no index, and the store is unavailable.
        """


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """By relevance; ties by id, for which alone memories are decoded."""
    ordered = sorted(hits, key=lambda hit: -hit.relevance)
    if all(one.relevance != other.relevance for one, other in pairwise(ordered)):
        return ordered
    return sorted(ordered, key=lambda hit: (-hit.relevance, hit.memory.id))


def pinned_tokens(options: RecallOptions, config: RecallConfig) -> int:
    """The bound on what is pinned: the route's, else the configured one."""
    return config.pinned_tokens if options.pinned_tokens is None else options.pinned_tokens


class MemorySource:
    """One owner's memories.

    Args:
        indexes: of recently active owners; None: the store is always searched.

    Attributes:
        reader: of the store, for owners without an index.
    """

    def __init__(self, *, reader: MemoryReader, indexes: OwnerIndexes | None, clock: Clock) -> None:
        self.reader = reader
        self._indexes = indexes
        self.now = clock.now

    async def index(self, request: RecallRequest, deadline: Deadline) -> MemoryIndex | None:
        """The owner's index; None: search the store.

        Raises:
            StoreUnavailableError: there is neither.
        """
        if self._indexes is not None:
            index = await self._indexes.get(request.scope, until=deadline.owner_index())
            if index is not None:
                return index
        if not self.reader.available:
            raise StoreUnavailableError("the store is known to be unavailable")
        return None

    def criteria(self, request: RecallRequest) -> Criteria:
        """The memories that may be recalled now."""
        options = request.options
        return Criteria(
            request.scope,
            reach=Reach.RECALL,
            active_at=self.now(),
            types=options.types,
            memory_filter=options.memory_filter,
        )

    async def in_order(
        self, request: RecallRequest, deadline: Deadline, *, oldest_first: bool, written: Period = ALWAYS
    ) -> Iterator[Memory]:
        """The memories that may be recalled, the user's pinned ones and then by age; of an owner without an index, the first ones.

        Args:
            written: only those of this period.

        Raises:
            StoreUnavailableError: the owner has no index, and the store is unavailable.
        """
        index, criteria = await self.index(request, deadline), self.criteria(request)
        if index is None:
            page = await self.reader.page(replace(criteria, observed=written), limit=_PAGE, oldest_first=oldest_first)
            return iter(sorted(page.memories, key=lambda memory: not memory.pinned))
        positions = index.positions(criteria)
        if written != ALWAYS:
            positions = positions[written_in(written, index.created_at[positions])]
        positions = positions if oldest_first else positions[::-1]
        others = (index.labels[positions] & MemoryCategory.PINNED) == 0
        # A stable order: by age among the pinned, and among the others.
        positions = positions[np.argsort(others, kind="stable")]
        return (index.memory(int(position)) for position in positions)
