"""Turns while the extraction model is away for long: the real client, circuit, turn log and rules, on a stepped clock."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.llm.breaker import Limits
from semrouter_memory.llm.circuit import Circuits
from semrouter_memory.llm.client import OpenAIChatModel
from semrouter_memory.model import TurnTotals
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.telemetry.observer import TelemetryObserver
from tests.chat_server import StandInServer, section
from tests.retaining import Bench, MakeBench, SteppingClock

LIMITS = Limits(failures=3, first_seconds=30, longest_seconds=300)
FEW_FAILURES: dict[str, Any] = {"batch_size": 2, "max_attempts": 4, "retry_seconds": 5, "retry_max_seconds": 60}


class Outage:
    """A retainer whose model is reached over HTTP."""

    def __init__(self, make_bench: MakeBench, server: StandInServer) -> None:
        self.server = server
        self._time = SteppingClock()
        observer = TelemetryObserver(Metrics())
        circuits = Circuits(LIMITS, observer=observer, monotonic=self._seconds, jitter=lambda: 0.0)
        settings = section(server.port)
        self.model = OpenAIChatModel(settings, circuit=circuits.circuit(settings.llm_endpoint.url))
        self.bench: Bench = make_bench(self.model, **FEW_FAILURES)
        self._time = self.bench.clock
        self.claims: Counter[str] = Counter()
        claim = self.bench.log.claim

        async def counted(scope: Any, session_id: str, **how: Any) -> Any:
            self.claims[session_id] += 1
            return await claim(scope, session_id, **how)

        self.bench.log.claim = counted  # type: ignore[method-assign]

    def _seconds(self) -> float:
        return self._time.now().timestamp()

    def heal(self) -> None:
        self.server.status = 200
        self.server.content("[]")

    async def run(self, *, hours: float, step_seconds: float = 60) -> None:
        for _ in range(int(hours * 3600 / step_seconds)):
            self.bench.clock.step(seconds=step_seconds)
            await self.bench.tick()


@pytest.fixture
async def outage(make_bench: MakeBench, chat_server: StandInServer) -> AsyncIterator[Outage]:
    made = Outage(make_bench, chat_server)
    yield made
    await made.model.aclose()


async def test_a_day_without_the_model_gives_up_no_turn_and_keeps_the_rules_at_work(outage: Outage) -> None:
    outage.server.status = 503
    bench = outage.bench
    for hour in range(24):
        bench.say(f"My budget for trip number {hour} is ${hour}00", session=f"s{hour % 5}")
        await bench.work()
        await outage.run(hours=1)
    totals = await bench.totals()
    assert (totals.accepted, totals.waiting, totals.dead_lettered) == (24, 24, 0)
    assert sum(report.stored for report in bench.observer.reports if report.extractor == "rules") == 24
    assert await bench.episodes(), "sessions are summed up by the rule meanwhile"
    assert len(outage.server.requests) < 320, "one probe in five minutes"
    assert outage.claims.total() < 500, "sessions are not taken in vain"
    outage.heal()
    await outage.run(hours=1)
    totals = await bench.totals()
    assert (totals.extracted, totals.waiting, totals.dead_lettered) == (24, 0, 0)


async def test_no_attempt_is_counted_while_the_circuit_is_open(outage: Outage, chat_server: StandInServer) -> None:
    chat_server.status = 500
    bench = outage.bench
    bench.say("what is 1 plus 1?")
    await bench.work()
    await outage.run(hours=6)
    (session,) = await bench.log.pending()
    claim = await bench.log.claim(session.scope, session.session_id, lease=timedelta(seconds=1), context=0)
    assert claim is not None
    assert claim.turns[0].attempts == LIMITS.failures


async def test_a_turn_that_a_healthy_model_cannot_bear_is_given_up_alone(outage: Outage) -> None:
    outage.heal()
    outage.server.unbearable = "poison"
    bench = outage.bench
    for text in ("what is 1 plus 1?", "this is poison", "what is 2 plus 2?", "what is 3 plus 3?"):
        bench.say(text, session="bad")
    await bench.work()
    for minute in range(240):
        bench.say(f"what is {minute} plus 1?", session=f"good{minute}")
        await bench.work()
        await outage.run(hours=1 / 60)
    await outage.run(hours=1)
    assert await bench.totals() == TurnTotals(accepted=244, empty=243, dead_lettered=1)


async def test_one_turn_that_cannot_be_borne_does_not_keep_the_circuit_open_for_others(outage: Outage) -> None:
    """It fails often enough to open the circuit; then the sessions take turns at probing."""
    outage.heal()
    outage.server.unbearable = "poison"
    bench = outage.bench
    bench.say("this is poison", session="bad", ends=True)
    await bench.work()
    await outage.run(hours=1)
    assert (await bench.totals()).dead_lettered == 0, "nobody else shows that the model is well"
    for number in range(3):
        bench.say(f"what is {number} plus 1?", session=f"good{number}", ends=True)
    await outage.run(hours=1)
    totals = await bench.totals()
    assert totals.empty == 3
    assert totals.waiting + totals.dead_lettered == 1


@pytest.mark.parametrize("status", [401, 404])
async def test_a_wrong_key_or_name_costs_no_turn(outage: Outage, status: int) -> None:
    outage.server.status = status
    bench = outage.bench
    bench.say("what is 1 plus 1?", ends=True)
    await bench.work()
    await outage.run(hours=6)
    assert await bench.totals() == TurnTotals(accepted=1, waiting=1)
    assert all(not report.failure for report in bench.observer.reports)
    outage.heal()
    await outage.run(hours=0.2)
    assert await bench.totals() == TurnTotals(accepted=1, empty=1)


async def test_garbage_is_an_attempt_and_ends_in_a_dead_letter(outage: Outage) -> None:
    outage.server.content("no array here")
    bench = outage.bench
    bench.say("what is 1 plus 1?", ends=True)
    await bench.work()
    await outage.run(hours=1)
    assert await bench.totals() == TurnTotals(accepted=1, dead_lettered=1)
    assert await bench.log.pending() == []
