"""What a benchmark measured, as values, and what follows from them. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FLOOR_TARGET = 1.3
"""The product's p50 to the floor's, for an active user and nothing else going on."""
THROUGHPUT_TARGET = 0.7
"""The product's requests per second to what the floor's CPU time allows, with many connections."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds, and of how many they are the percentiles."""

    p50: float
    p95: float
    p99: float
    count: int

    @classmethod
    def of(cls, times: Sequence[float]) -> "Times":
        if len(times) == 1:
            return cls(times[0], times[0], times[0], 1)
        percent = statistics.quantiles(times, n=100, method="inclusive")
        return cls(statistics.median(times), percent[94], percent[98], len(times))


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the ratios of all rounds, and the middle half of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> "Ratio":
        if len(ratios) == 1:
            return cls(ratios[0], ratios[0], ratios[0])
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFigures:
    """Requests through one chain of filters.

    Attributes:
        per_second: requests, the median of the rounds.
        cpu_ms: of the service's process and its children for one request, while requests came.
        cpu_with_learning_ms: the same until nothing was left to do, of what was learned from them.
        machine_cpu_ms: for one request, of all that takes part: Envoy, service, upstream, client.
        with_memory: share of the requests that reached the upstream with memories in them.
    """

    ms: Times
    per_second: float
    cpu_ms: float
    cpu_with_learning_ms: float
    machine_cpu_ms: float
    with_memory: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFigures:
    """Requests one after the other, and the parts that they are made of, in the same rounds.

    Attributes:
        active: e / (b + c), of a user whose memories are in the process.
        cold: e / (b + c + d), of users' first requests; None where none was asked.
        cold_with_memory: share of these that got memories within the deadline.
    """

    chains: Mapping[str, ChainFigures]
    embedding: Times
    embedding_cpu_ms: float
    search: Times
    active: Ratio
    cold: Ratio | None = None
    cold_ms: Times | None = None
    cold_with_memory: float = 0.0

    @property
    def floor_ms(self) -> float:
        """The p50 of b + c."""
        return self.chains["noop"].ms.p50 + self.embedding.p50


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Many connections at a time.

    Attributes:
        allowed: requests per second that the floor's CPU time allows: the no-op service's, times its CPU time for a
            request, by that time plus the CPU time of one embedding.
        share: the product's to it, the median of the rounds.
        strict_allowed: the same with the CPU time of all that takes part instead of the service's alone.
        strict_share: the product's to that.
    """

    connections: int
    chains: Mapping[str, ChainFigures]
    allowed: float
    share: Ratio
    strict_allowed: float
    strict_share: Ratio


def allowed_per_second(measured: float, *, cpu_ms: float, further_cpu_ms: float) -> float:
    """What is left of so many requests per second when each costs more CPU time than it was measured with."""
    return measured * cpu_ms / (cpu_ms + further_cpu_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of recall as the service itself counts it.

    Attributes:
        p50_ms: interpolated in the bucket of its histogram.
    """

    mean_ms: float
    p50_ms: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Requests.

    Attributes:
        memories: of the user that asks alone.
        alone: requests that follow one another at once, so that each also waits for what is learned from the one before.
        paced: the same with pauses: nothing else goes on.
        steps: of recall, with and without learning from what is asked, by the name of the chain.
        resident_bytes: by process, at the end.
    """

    memories: int
    stored: int
    alone: PathFigures
    paced: PathFigures
    pause_ms: float
    many: Throughput
    steps: Mapping[str, Mapping[str, Step]]
    resident_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """Streamed answers through one chain.

    Attributes:
        first_token: from sending the request to reading the first token.
        between: two tokens, as the client reads them.
        on_the_way: a token, from the upstream sending it to the client reading it.
    """

    first_token: Times
    between: Times
    on_the_way: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Attributes: pause_ms: between two tokens at the upstream."""

    pause_ms: float
    chains: Mapping[str, StreamFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixFigures:
    """How much of one prompt is there again, from its beginning, in the next one of the conversation.

    Attributes:
        kept: share of the earlier prompt, the mean of the turns.
        cached: share of all prompts but the first that a prompt cache would have had.
        with_memory: turns that got memories.
    """

    turns: int
    kept: float
    cached: float
    with_memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefixes:
    """By API and position: `chat, system` and so on; `chat, no memory` is the most that there can be."""

    conversations: Mapping[str, PrefixFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPoint:
    """One size of the store.

    Attributes:
        resident_bytes: of the service and, on Lite, of its store's process.
        loading_seconds: to write what is more than in the point before, and until the store had settled.
        settled: False: the store still worked on what was written while it was measured.
    """

    store: str
    memories: int
    users: int
    path: PathFigures
    resident_bytes: Mapping[str, int]
    loading_seconds: float
    settled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """In the order in which the stores grew."""

    points: Sequence[GrowthPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSizes:
    """By how many memories the one user has."""

    paths: Mapping[int, PathFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """By the size of the request's body in bytes."""

    paths: Mapping[int, PathFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """By how many processes serve; the no-op service has as many."""

    cores: int
    throughput: Mapping[int, Throughput]
    resident_bytes: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRecall:
    """A user who was away.

    Attributes:
        recall: of the first request.
        at_hand: from then on until all memories are at hand in the process.
    """

    recall: Times
    at_hand: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What a turn of some 30 words takes to be read and stored, in processor time of this process.

    Attributes:
        embedding: of the message alone, in the same minutes.
        kept: memories a turn.
    """

    turn: Times
    embedding: Times
    kept: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """Recall in the process, by how many memories the user has.

    Attributes:
        embedding: the query alone, in the same minutes.
    """

    embedding: Times
    active: Mapping[int, Times]
    first: Mapping[int, FirstRecall]
    learning: Learning


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The owner indexes' memory after so many users were active.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprints:
    """One after the other, each in a process of its own."""

    measured: Sequence[Footprint] = field(default_factory=list)
