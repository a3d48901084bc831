"""A way to search memories: what every strategy of `memory.recall.strategy` offers to recall."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from semrouter_memory.model import Hit, RecallRequest
from semrouter_memory.recall.deadline import Deadline, StepTimer
from semrouter_memory.recall.query import Query


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        hits: in the order in which they are to be injected.
        pinned: ids of those that are injected whatever their relevance, because they say how to answer.
        empty: there was no memory to search.
        rewrite_late: the rewrite of the query took longer than its deadline.
    """

    hits: Sequence[Hit] = ()
    pinned: frozenset[str] = frozenset()
    empty: bool = False
    rewrite_late: bool = False

    def joined(self, other: "SearchResult") -> "SearchResult":
        """What both found, best first; a memory that both did counts with its better relevance."""
        hits = {hit.memory.id: hit for hit in sorted((*self.hits, *other.hits), key=lambda hit: hit.relevance)}
        return SearchResult(
            best_first(hits.values()),
            self.pinned | other.pinned,
            empty=self.empty or other.empty,
            rewrite_late=self.rewrite_late or other.rewrite_late,
        )

    @property
    def best(self) -> float:
        return self.hits[0].relevance if self.hits else 0.0


class Strategy(Protocol):
    """Searches one owner's memories."""

    @property
    def any_message(self) -> bool:
        """Whether it also searches for a greeting and for an empty message."""
        ...

    @property
    def limit(self) -> int | None:
        """How many memories are injected at most; None: as many as the request says."""
        ...

    async def prepare(self) -> None:
        """Do what can be done before the first request. Raises `UnavailableError`."""
        ...

    async def search(self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer) -> SearchResult:
        """Search.

        Raises:
            UnavailableError: the model does not answer.
            StoreUnavailableError: the owner has no index, and the store is unavailable.
        """
        ...


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """By relevance; ties by id, for which alone memories are decoded."""
    ordered = sorted(hits, key=lambda hit: -hit.relevance)
    if all(one.relevance != other.relevance for one, other in pairwise(ordered)):
        return ordered
    return sorted(ordered, key=lambda hit: (-hit.relevance, hit.memory.id))
