"""What a benchmark measured, as values, and the goals that follow from them. Pure."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ALONE, NOOP, PRODUCT = "alone", "noop", "product"
UNLEARNED = "product, auto_store off"
"""Chains of filters: none, the no-op service, the product, the product on a route that stores nothing."""

FLOOR_TARGET = 1.3
"""The product's p50 to the floor's, for an active user, with pauses between requests."""
THROUGHPUT_TARGET = 0.7
KNOWLEDGE_TARGET_MS, ADDING_TARGET = 25, 0.8
"""The product's requests per second to what the floor's CPU time allows, with many connections."""
SCALING_TARGET, _CORES_TO_SCALE = 0.9, 4
"""Requests per second of N processes to N times those of one, on a machine with so many cores; below it, to those of one."""
WITH_MEMORY_TARGET = 0.8
"""Share of the measured requests that get memories; below it the product's times are of something else."""
_RECALL_TARGETS_MS = {1_000: 1.5, 10_000: 3.0}
_TARGETS_EMBEDDING_MS = 0.8
"""p50 of recall in the process by memories of the user, on a machine that embeds a query in 0.8 ms; other machines scale."""


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
        with_memory: share of the requests that reached the upstream with memories in them.
    """

    ms: Times
    per_second: float
    cpu_ms: float
    cpu_with_learning_ms: float
    with_memory: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFigures:
    """Requests one after the other, and the parts that they are made of, in the same rounds.

    Attributes:
        active: e / (b + c), of a user whose memories are in the process.
        cold: e / (b + c + d), of users' first requests; None where none was asked.
        cold_in_time: share of these whose memories were searched within the deadline.
    """

    chains: Mapping[str, ChainFigures]
    embedding: Times
    embedding_cpu_ms: float
    search: Times
    active: Ratio
    cold: Ratio | None = None
    cold_ms: Times | None = None
    cold_in_time: float = 0.0

    @property
    def floor_ms(self) -> float:
        """The p50 of b + c."""
        return self.chains[NOOP].ms.p50 + self.embedding.p50


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Many connections at a time.

    Attributes:
        allowed: requests per second that the floor's CPU time allows: the no-op service's, times its CPU time for a
            request, by that time plus the CPU time of one embedding.
        share: the product's to it, the median of the rounds.
    """

    connections: int
    chains: Mapping[str, ChainFigures]
    allowed: float
    share: Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """One process and several behind one address, with many connections.

    Attributes:
        cores: of the machine, which client, Envoy, LLM and stores share with the processes.
        counts: by the number of processes.
        ratio: requests per second of the several to those of one, the median of the rounds.
    """

    connections: int
    cores: int
    counts: Mapping[int, ChainFigures]
    ratio: Ratio

    @property
    def several(self) -> int:
        return max(self.counts)

    @property
    def target(self) -> float:
        """Of the ratio: nearly one for each process where there are cores for them, else that nothing is lost."""
        return SCALING_TARGET * (self.several if self.cores >= _CORES_TO_SCALE else 1)


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
class UserFigures:
    """Requests of one user, one after the other.

    Attributes:
        back_to_back: without a pause, so that a request also waits for what is learned from the one before it.
        paced: with pauses, in which the learning ends.
    """

    back_to_back: PathFigures
    paced: PathFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Requests of users with few and with many memories.

    Attributes:
        memories: of the user that the goal is for.
        stored: memories of all users.
        users: by how many memories the user has.
        steps: of recall, with and without learning from what is asked, by the name of the chain.
        resident_bytes: by process, at the end.
    """

    memories: int
    stored: int
    pause_ms: float
    users: Mapping[int, UserFigures]
    steps: Mapping[str, Mapping[str, Step]]
    resident_bytes: Mapping[str, int]

    @property
    def main(self) -> UserFigures:
        return self.users[self.memories]


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
class GrowthPoint:
    """One size of the store.

    Attributes:
        settled: False: the store still worked on what was written while it was measured.
    """

    store: str
    memories: int
    users: int
    path: PathFigures
    settled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """In the order in which the stores grew."""

    points: Sequence[GrowthPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """By the size of the request's body in bytes."""

    paths: Mapping[int, PathFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRecall:
    """A user whose memories are not at hand in the process.

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
class KnowledgeFigures:
    """Documents of an organisation on a Milvus server, asked in the process by one active user.

    Attributes:
        embedding: the query alone, in the same minutes.
        alone, beside: recall without an organisation, and with one whose documents it searches as well.
        with_passages: requests that were given a passage.
        adding: seconds that embedding the passages of a document takes alone, for each second that adding it takes.
        settled: False: the server still worked on what was written while it was measured.
    """

    passages: int
    memories: int
    embedding: Times
    alone: Times
    beside: Times
    with_passages: int
    adding: Ratio
    settled: bool


def goals(sections: Mapping[str, Any]) -> dict[str, bool]:
    """Which goals there are for what was measured, and whether it reaches them; a section not measured has none."""
    return {goal: is_reached for figures in sections.values() for goal, is_reached in _goals(figures)}


def missed(sections: Mapping[str, Any]) -> list[str]:
    return [goal for goal, is_reached in goals(sections).items() if not is_reached]


def _goals(figures: Any) -> Iterator[tuple[str, bool]]:
    if isinstance(figures, Headline):
        ratio = figures.main.paced.active.median
        yield f"at most {FLOOR_TARGET} x the floor, active user, with pauses", ratio <= FLOOR_TARGET
        yield _with_memory("one at a time", figures.main.back_to_back.chains)
    elif isinstance(figures, Throughput):
        share = figures.share.median
        yield f"at least {THROUGHPUT_TARGET:.0%} of the throughput that the floor allows", share >= THROUGHPUT_TARGET
        yield _with_memory("many at a time", figures.chains)
    elif isinstance(figures, Processes):
        name = f"{figures.several} processes on {figures.cores} cores at least {figures.target:.1f} x one"
        yield name, figures.ratio.median >= figures.target
        got = min(chain.with_memory for chain in figures.counts.values())
        yield (
            f"memories in at least {WITH_MEMORY_TARGET:.0%} of the requests, one and several processes",
            (got >= WITH_MEMORY_TARGET),
        )
    elif isinstance(figures, KnowledgeFigures):
        yield f"recall beside documents within {KNOWLEDGE_TARGET_MS} ms", figures.beside.p50 <= KNOWLEDGE_TARGET_MS
        yield f"documents added at {ADDING_TARGET:.0%} of embedding's speed", figures.adding.median >= ADDING_TARGET
    elif isinstance(figures, ProcessFigures):
        for size, target_ms in _RECALL_TARGETS_MS.items():
            if size in figures.active:
                most = target_ms / _TARGETS_EMBEDDING_MS * figures.embedding.p50
                yield f"recall with {size:,} memories", figures.active[size].p50 <= most


def _with_memory(what: str, chains: Mapping[str, ChainFigures]) -> tuple[str, bool]:
    is_reached = chains[PRODUCT].with_memory >= WITH_MEMORY_TARGET
    return f"memories in at least {WITH_MEMORY_TARGET:.0%} of the requests, {what}", is_reached
