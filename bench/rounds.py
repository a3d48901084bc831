"""The measuring itself: what is compared is measured in turn, a little of each, again and again.

Strategy: a shared machine is half as fast from one minute to the next. In turn, every figure has its part of the slow and
of the fast minutes. A ratio is taken within a round; the median of the rounds is what counts. What learns from requests in
the background is left to finish before it is somebody else's turn.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench import accounting
from bench.client import BenchError, load
from bench.figures import (
    ALONE,
    NOOP,
    PRODUCT,
    UNLEARNED,
    ChainFigures,
    PathFigures,
    Ratio,
    Throughput,
    Times,
    allowed_per_second,
)
from bench.histograms import StepCounts, failures, look
from bench.installation import Installation
from bench.parts import BareParts, BareTimes
from bench.workload import Asker, http_request, question_body

TURN = 25
"""Requests to each chain before it is the next one's turn."""
_WARM_UP = 5
"""Of each turn: caches hold what ran before."""
PAUSE_SECONDS = 0.04
"""Between two requests: time enough to learn from the one before, which users leave as well."""
_COLD_WARM_UP = 3
_ACTIVATIONS = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """One chain's turn. CPU times are seconds."""

    times: list[float]
    requests: int
    seconds: float
    cpu: float
    cpu_with_learning: float
    with_memory: int


@dataclass(slots=True)
class Round:
    """Everybody's turn.

    Attributes:
        cold: milliseconds of users' first requests since the start, and whether recall was done in time.
    """

    samples: dict[str, Sample] = field(default_factory=dict)
    bare: BareTimes | None = None
    cold: list[tuple[float, bool]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Requests one after the other.

    Attributes:
        user: who asks, and is active.
        away: users who have not asked yet; each asks once.
        body: of a question.
        pause_seconds: between two requests, and two embeddings.
    """

    chains: Sequence[str]
    user: str
    rounds: int
    turn: int = TURN
    away: Sequence[str] = ()
    body: Callable[[str], bytes] = question_body
    pause_seconds: float = 0.0


class Rounds:
    """Measures an installation.

    Args:
        parts: of the same memories.

    Attributes:
        steps: of recall, by chain, of requests one after the other.
    """

    def __init__(self, on: Installation, parts: BareParts) -> None:
        self._on = on
        self._parts = parts
        self._asker = Asker()
        self.steps: dict[str, StepCounts] = defaultdict(StepCounts)

    async def activate(self, users: Sequence[str], *, chains: Sequence[str] = (PRODUCT,)) -> None:
        """Let these users' memories come to hand, and every chain's connections be made."""
        for _ in range(_ACTIVATIONS):
            for chain in chains:
                requests = [self._request(user) for user in users]
                await load(self._on.ports[chain], requests, connections=min(len(requests), len(users)))
            await accounting.quiet(self._on.service(PRODUCT))

    async def path(self, plan: Path, *, done: Callable[[int], object]) -> PathFigures:
        """Measure requests one after the other; `done` is told of every round."""
        rounds = []
        for number, away in enumerate(_shared_out(plan.away, plan.rounds)):
            rounds.append(await self._path_round(plan, number, away))
            done(1)
        return path_figures(rounds)

    async def throughput(
        self,
        users: Sequence[str],
        chains: Sequence[str],
        *,
        rounds: int,
        per_connection: int,
        done: Callable[[int], object],
    ) -> Throughput:
        """Measure as many connections as there are users, with so many requests each."""
        measured = []
        for number in range(rounds):
            round_ = Round(bare=await self._parts.measure(users[0], self._asker.take(TURN)))
            for chain in _in_turn(chains, number):
                round_.samples[chain] = await self.many(users, chain, per_connection=per_connection)
            measured.append(round_)
            done(1)
        return throughput_figures(measured, connections=len(users))

    async def many(self, users: Sequence[str], chain: str, *, per_connection: int) -> Sample:
        """As many connections as there are users, with so many requests each."""
        asked = self._asker.take(len(users) * per_connection)
        requests = [http_request(users[place % len(users)], question_body(text)) for place, text in enumerate(asked)]
        return await self._sample(chain, requests, connections=len(users))

    async def _path_round(self, plan: Path, number: int, away: Sequence[str]) -> Round:
        round_ = Round()
        for chain in _in_turn(plan.chains, number):
            requests = [
                http_request(plan.user, plan.body(text)) for text in self._asker.take(plan.turn + _warm_up(plan.turn))
            ]
            round_.samples[chain] = await self._observed(chain, requests, plan)
        round_.bare = await self._parts.measure(
            plan.user, self._asker.take(plan.turn), pause_seconds=plan.pause_seconds
        )
        for user in away:
            round_.cold.append(await self._first(plan, user))
        return round_

    async def _observed(self, chain: str, requests: Sequence[bytes], plan: Path) -> Sample:
        """A turn, and what the service counts of it."""
        warm_up, pause = _warm_up(plan.turn), plan.pause_seconds
        if chain in (ALONE, NOOP):
            return await self._sample(chain, requests, warm_up=warm_up, pause_seconds=pause)
        before = await look(self._on.operator_url)
        sample = await self._sample(chain, requests, warm_up=warm_up, pause_seconds=pause)
        self.steps[chain].add(before, await look(self._on.operator_url))
        return sample

    async def _first(self, plan: Path, user: str) -> tuple[float, bool]:
        """A user's first request, on a connection that is warm."""
        port = self._on.ports[PRODUCT]
        warm = [http_request(plan.user, plan.body(text)) for text in self._asker.take(_COLD_WARM_UP)]
        await load(port, warm)
        before = await failures(self._on.operator_url)
        (question,) = self._asker.take(1)
        # The first of the two wakes the connection and changes no count.
        asked = [http_request(plan.user, b"{}"), http_request(user, plan.body(question))]
        times = (await load(port, asked)).times
        await accounting.quiet(self._on.service(PRODUCT))
        return times[-1], await failures(self._on.operator_url) == before

    async def _sample(
        self,
        chain: str,
        requests: Sequence[bytes],
        *,
        connections: int = 1,
        warm_up: int = 0,
        pause_seconds: float = 0.0,
    ) -> Sample:
        on, service = self._on, self._on.service(chain)
        learns = chain not in (NOOP, UNLEARNED)
        _, memory_before = await on.seen()
        cpu = accounting.cpu_seconds(service)
        done = await load(on.ports[chain], requests, connections=connections, pause_seconds=pause_seconds)
        cpu_after = accounting.cpu_seconds(service)
        if learns and service and not await accounting.quiet(service):
            raise BenchError("the service still learns three minutes after the last request")
        _, memory_after = await on.seen()
        return Sample(
            times=done.times[warm_up:],
            requests=len(requests),
            seconds=done.seconds,
            cpu=cpu_after - cpu,
            cpu_with_learning=accounting.cpu_seconds(service) - cpu,
            with_memory=memory_after - memory_before,
        )

    def _request(self, user: str) -> bytes:
        return http_request(user, question_body(self._asker.take(1)[0]))


def path_figures(rounds: Sequence[Round]) -> PathFigures:
    """What the rounds say together. Pure."""
    bare = [each.bare for each in rounds if each.bare is not None]
    cold = [each for round_ in rounds for each in round_.cold]
    return PathFigures(
        chains=chain_figures(rounds),
        embedding=Times.of([ms for each in bare for ms in each.embedding]),
        embedding_cpu_ms=statistics.median(each.embedding_cpu_ms for each in bare),
        search=Times.of([ms for each in bare for ms in each.search]),
        active=Ratio.of([_median(each, PRODUCT) / _floor(each, search=False) for each in rounds]),
        cold=Ratio.of(
            [statistics.median(ms for ms, _ in each.cold) / _floor(each, search=True) for each in rounds if each.cold]
        )
        if cold
        else None,
        cold_ms=Times.of([ms for ms, _ in cold]) if cold else None,
        cold_in_time=sum(in_time for _, in_time in cold) / len(cold) if cold else 0.0,
    )


def throughput_figures(rounds: Sequence[Round], *, connections: int) -> Throughput:
    """What the rounds say together. Pure."""
    allowed, share = list[float](), list[float]()
    for each in rounds:
        noop = each.samples[NOOP]
        per_second = {name: sample.requests / sample.seconds for name, sample in each.samples.items()}
        embedding_ms = each.bare.embedding_cpu_ms if each.bare else 0.0
        allowed.append(
            allowed_per_second(per_second[NOOP], cpu_ms=noop.cpu * 1000 / noop.requests, further_cpu_ms=embedding_ms)
        )
        share.append(per_second[PRODUCT] / allowed[-1])
    return Throughput(
        connections=connections,
        chains=chain_figures(rounds),
        allowed=statistics.median(allowed),
        share=Ratio.of(share),
    )


def chain_figures(rounds: Sequence[Round]) -> Mapping[str, ChainFigures]:
    by_chain: dict[str, list[Sample]] = defaultdict(list)
    for each in rounds:
        for name, sample in each.samples.items():
            by_chain[name].append(sample)
    # In the order of the first round, which is the one that was asked for.
    return {name: figures_of(samples) for name, samples in by_chain.items()}


def figures_of(samples: Sequence[Sample]) -> ChainFigures:
    requests = sum(each.requests for each in samples)
    return ChainFigures(
        ms=Times.of([ms for each in samples for ms in each.times]),
        per_second=statistics.median(each.requests / each.seconds for each in samples),
        cpu_ms=sum(each.cpu for each in samples) * 1000 / requests,
        cpu_with_learning_ms=sum(each.cpu_with_learning for each in samples) * 1000 / requests,
        with_memory=sum(each.with_memory for each in samples) / requests,
    )


def _median(each: Round, chain: str) -> float:
    return statistics.median(each.samples[chain].times)


def _floor(each: Round, *, search: bool) -> float:
    """This round's b + c, or b + c + d."""
    assert each.bare is not None
    found = statistics.median(each.bare.search) if search else 0.0
    return _median(each, NOOP) + statistics.median(each.bare.embedding) + found


def _warm_up(turn: int) -> int:
    return min(_WARM_UP, turn)


def _in_turn(chains: Sequence[str], number: int) -> list[str]:
    """There and back: nobody always runs after the same one."""
    return list(chains) if number % 2 == 0 else list(reversed(chains))


def _shared_out(users: Sequence[str], rounds: int) -> list[Sequence[str]]:
    return [users[number::rounds] for number in range(rounds)]
