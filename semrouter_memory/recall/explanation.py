"""Why recall chose what it chose: filled in by the recall itself, where somebody asks for it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from semrouter_memory.model import Hit, RecallOptions
from semrouter_memory.recall.features import QueryFeatures
from semrouter_memory.recall.query import Query


class Verdict(StrEnum):
    """What recall decided about a candidate."""

    CHOSEN = "chosen"
    PINNED = "pinned"
    """Chosen because the user has pinned it: its relevance is below the threshold."""
    BELOW_THRESHOLD = "below_threshold"
    FORBIDDEN_TYPE = "forbidden_type"
    """The request asks for memories of other types."""
    FILTERED = "filtered"
    """The request or its route asks for memories with other attributes."""
    OTHER_SESSION = "other_session"
    """It holds within another session only."""
    QUOTE_PREFERRED = "quote_preferred"
    """The quote that the statement was derived from is shown instead."""
    OUTDATED = "outdated"
    """An episode in which a fact has changed since."""
    OVER_LIMIT = "over_limit"
    DUPLICATE = "duplicate"
    """A chosen memory says the same."""
    VISIBLE = "visible"
    """The model can read it in the request anyway."""
    OVER_BUDGET = "over_budget"
    DELETED = "deleted"
    DEADLINE = "deadline"
    """Recall ran out of time before it decided."""
    UNDECIDED = "undecided"
    """Recall failed before it decided."""

    @property
    def is_chosen(self) -> bool:
        return self in {Verdict.CHOSEN, Verdict.PINNED}


Judge: TypeAlias = Callable[[Hit, Verdict], object]


def unrecorded(_hit: Hit, _verdict: Verdict) -> None:
    """The judge of a recall that needs no explanation."""


@dataclass(frozen=True, slots=True)
class Considered:
    """A candidate and what was decided about it."""

    hit: Hit
    verdict: Verdict


@dataclass(slots=True)
class Explanation:
    """What one recall records of itself.

    Attributes:
        query: the question; None where the request was not read.
        features: of the query; None where it was not searched by meaning.
        searched: the texts that were searched for.
        columns: features of candidates, by owner and memory id.
    """

    query: Query | None = None
    features: QueryFeatures | None = None
    searched: list[str] = field(default_factory=list)
    columns: dict[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    _considered: dict[tuple[str, str], Considered] = field(default_factory=dict)

    def judge(self, hit: Hit, verdict: Verdict) -> None:
        """Record a verdict; it replaces an earlier one."""
        self._considered[hit.memory.scope.owner, hit.memory.id] = Considered(hit, verdict)

    def found(self, hits: Iterable[Hit], existing: Sequence[Hit]) -> None:
        """Record the candidates of a search, and which of them are not deleted."""
        ids = {hit.memory.id for hit in existing}
        for hit in hits:
            self.judge(hit, Verdict.UNDECIDED if hit.memory.id in ids else Verdict.DELETED)

    def adopt(self, other: "Explanation") -> None:
        """Take over what a search of another owner records; of the question, what no search of the user's own records."""
        self.columns.update(other.columns)
        self.searched += other.searched
        self.features = self.features or other.features

    def left_out(self, hits: Iterable[Hit], options: RecallOptions) -> None:
        """Record hits that the request does not ask for, by their type or by its filter."""
        for hit in hits:
            if (hit.memory.scope.owner, hit.memory.id) not in self._considered:
                of_type = options.types is None or hit.memory.type in options.types
                self.judge(hit, Verdict.FILTERED if of_type else Verdict.FORBIDDEN_TYPE)

    def timed_out(self) -> None:
        """What is not decided is too late."""
        for each in self.considered:
            if each.verdict is Verdict.UNDECIDED:
                self.judge(each.hit, Verdict.DEADLINE)

    @property
    def considered(self) -> list[Considered]:
        """Every candidate, most relevant first."""
        return sorted(self._considered.values(), key=lambda each: (-each.hit.relevance, each.hit.memory.id))
