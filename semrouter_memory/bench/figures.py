"""What a benchmark measured. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of a table: milliseconds."""

    p50: float
    p95: float

    @classmethod
    def of(cls, times: Sequence[float]) -> "Measured":
        return cls(statistics.median(times), statistics.quantiles(times, n=20)[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFigures:
    """Through Envoy. Requests first, then the delay of a streamed token."""

    envoy: Measured
    noop: Measured
    embedding: Measured
    search: Measured
    product: Measured
    envoy_token: Measured
    noop_token: Measured
    product_token: Measured

    @property
    def floor(self) -> float:
        """What any service of this kind costs: Envoy with a no-op service, plus embedding the query; p50."""
        return self.noop.p50 + self.embedding.p50


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRecall:
    """A user who was away.

    Attributes:
        recall: of the first request.
        at_hand: from then on until all memories are at hand in the process.
    """

    recall: Measured
    at_hand: Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """Recall in the process, by how many memories the user has.

    Attributes:
        embedding: the query alone, in the same minutes.
    """

    embedding: Measured
    active: Mapping[int, Measured]
    first: Mapping[int, FirstRecall]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The working set's memory after so many users were active.

    Attributes:
        bound_bytes: as configured.
        counted_bytes: what it counts of itself at the end.
        most_bytes: the most that it counted at any time.
        resident_bytes: by how much the process has grown.
        kept: how many of the users are at hand at the end.
    """

    users: int
    memories: int
    bound_bytes: int
    counted_bytes: int
    most_bytes: int
    resident_bytes: int
    kept: int
