"""Turns while the extraction model is away for long: the real client, circuit, turn log and quotes, on a stepped clock."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.errors import ModelUnavailableError
from semrouter_memory.llm.circuit import ModelCircuits
from semrouter_memory.llm.client import OpenAIChatModel
from semrouter_memory.model import ToolUse, TurnTotals
from semrouter_memory.resilience import Backoff
from semrouter_memory.telemetry.metrics import Metrics, TelemetryObserver
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.chat_server import StandInServer, section
from tests.retaining import Bench, MakeBench, ScriptedModel, SteppingClock

BACKOFF = Backoff(first=30, longest=300)
FEW_FAILURES: dict[str, Any] = {"batch_size": 2, "max_attempts": 4, "retry_seconds": 5, "retry_max_seconds": 60}


class Outage:
    """A retainer whose model is reached over HTTP."""

    def __init__(
        self,
        make_bench: MakeBench,
        server: StandInServer,
        *,
        port: int | None = None,
        timeout_seconds: float = 5,
        log: SqliteTurnLog | None = None,
    ) -> None:
        self.server = server
        self._time = SteppingClock()
        observer = TelemetryObserver(Metrics())
        circuits = ModelCircuits(BACKOFF, failures=3, observer=observer, monotonic=self._seconds, jitter=lambda: 0.0)
        settings = section(port or server.port, timeout_seconds)
        self.model = OpenAIChatModel(settings, circuit=circuits.circuit(settings.llm_endpoint.url))
        self.bench: Bench = make_bench(self.model, log=log, **FEW_FAILURES)
        self._time = self.bench.clock
        self.claims: Counter[str] = Counter()
        claim = self.bench.log.claim

        async def counted(scope: Any, session_id: str, **how: Any) -> Any:
            self.claims[session_id] += 1
            return await claim(scope, session_id, **how)

        self.bench.log.claim = counted  # type: ignore[method-assign]

    def _seconds(self) -> float:
        return self._time.now().timestamp()

    def move(self, port: int) -> None:
        """The model answers at this port from now on."""
        self.model._client.base_url = f"http://127.0.0.1:{port}/v1"

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


async def test_a_day_without_the_model_gives_up_no_turn_and_keeps_quotes_coming(outage: Outage) -> None:
    outage.server.status = 503
    bench = outage.bench
    for hour in range(24):
        text = f"My budget for trip number {hour} is ${hour}00"
        bench.say(text, session=f"s{hour % 5}", tools=(ToolUse("find_trip", "ok"),))
        await bench.work()
        await outage.run(hours=1)
    totals = await bench.totals()
    assert (totals.accepted, totals.waiting, totals.dead_lettered) == (24, 24, 0)
    assert sum(report.stored for report in bench.observer.reports if report.extractor == "quotes") == 24
    assert await bench.episodes(), "agents' runs are told without it meanwhile"
    assert len(outage.server.requests) < 320, "one probe in five minutes"
    assert outage.claims.total() < 500, "sessions are not taken in vain"
    outage.heal()
    await outage.run(hours=1)
    totals = await bench.totals()
    assert (totals.extracted, totals.waiting, totals.dead_lettered) == (24, 0, 0)


@pytest.mark.parametrize(
    ("trouble", "status", "cause"),
    [
        ({"status": 500}, 500, "Internal Server Error"),
        ({"status": 429, "retry_after": "12"}, 429, "Too Many Requests"),
        ({"hang": True}, None, "timeout"),
        ({"port": 9}, None, "Connection refused"),
    ],
)
async def test_a_sessions_end_that_meets_a_failing_model_is_read_once_it_is_back(
    make_bench: MakeBench, chat_server: StandInServer, trouble: dict[str, Any], status: int | None, cause: str
) -> None:
    """Within the back-off, not at the idle time; the warning names status and cause."""
    outage = Outage(make_bench, chat_server, port=trouble.pop("port", chat_server.port), timeout_seconds=0.2)
    chat_server.__dict__.update(trouble)
    bench = outage.bench
    bench.say("My budget for the trip is $900", tools=(ToolUse("find_trip", "ok"),), ends=True)
    await bench.work()
    (failed,) = [report for report in bench.observer.reports if report.failure]
    assert (failed.extractor, failed.status, failed.cause) == ("llm", status, cause)
    await outage.run(hours=3 / 3600, step_seconds=1)
    assert len(await bench.episodes()) == 1
    assert bench.retainer.retrying == 1
    chat_server.hang = False
    outage.move(chat_server.port)
    outage.heal()
    asked = len(chat_server.requests)
    pause = 12 if status == 429 else 5
    await outage.run(hours=(pause - 4) / 3600, step_seconds=1)
    assert len(chat_server.requests) == asked, "the pause is kept, the server's too"
    await outage.run(hours=2 / 3600, step_seconds=1)
    assert (await bench.totals()).waiting == 0
    assert await bench.log.pending() == []
    assert bench.retainer.retrying == 0
    await outage.model.aclose()


async def test_no_attempt_is_counted_while_the_model_is_away(outage: Outage, chat_server: StandInServer) -> None:
    chat_server.status = 500
    bench = outage.bench
    bench.say("what is 1 plus 1?")
    await bench.work()
    await outage.run(hours=6)
    (session,) = await bench.log.pending()
    claim = await bench.log.claim(session.scope, session.session_id, lease=timedelta(seconds=1), context=0)
    assert claim is not None
    assert claim.turns[0].attempts == 0


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
    """Between its failures the others are asked, and it is given up alone."""
    outage.heal()
    outage.server.unbearable = "poison"
    bench = outage.bench
    bench.say("this is poison", session="bad", ends=True)
    await bench.work()
    for number in range(3):
        bench.say(f"what is {number} plus 1?", session=f"good{number}", ends=True)
    await outage.run(hours=0.1)
    assert (await bench.totals()).empty == 3
    await outage.run(hours=2)
    assert await bench.totals() == TurnTotals(accepted=4, empty=3, dead_lettered=1)


async def test_a_lone_turn_that_cannot_be_borne_is_given_up_once_the_model_is_seen_to_answer(outage: Outage) -> None:
    outage.heal()
    outage.server.unbearable = "poison"
    bench = outage.bench
    bench.say("this is poison", ends=True)
    await bench.work()
    await outage.run(hours=2)
    assert await bench.totals() == TurnTotals(accepted=1, dead_lettered=1)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_outage_that_many_replicas_see_gives_up_no_turn(
    make_bench: MakeBench, chat_server: StandInServer, status: int
) -> None:
    """Each has a circuit of its own, which counts from nothing; they share the log."""
    outage = Outage(make_bench, chat_server)
    chat_server.status = status
    outage.bench.say("Please remember that my cat is called Tom")
    replicas = [outage] + [Outage(make_bench, chat_server, log=outage.bench.log) for _ in range(5)]
    for other in replicas:
        other.bench.clock.time = outage.bench.clock.time
    for _ in range(120):
        for replica in replicas:
            replica.bench.clock.step(minutes=1)
            await replica.bench.tick()
    assert await outage.bench.totals() == TurnTotals(accepted=1, waiting=1)
    for replica in replicas:
        await replica.model.aclose()


async def test_a_model_that_takes_too_long_is_asked_about_fewer_turns_at_a_time(make_bench: MakeBench) -> None:
    model = ScriptedModel()
    bench = make_bench(model, batch_size=4, retry_seconds=5, context_turns=0)

    async def too_slow() -> None:
        model.error = ModelUnavailableError("APITimeoutError") if model.prompts[-1].count("User:") > 1 else None

    model.meanwhile = too_slow
    for number in range(4):
        bench.say(f"what is {number} plus 1?")
    for _ in range(60):
        bench.clock.step(seconds=30)
        await bench.tick()
    assert await bench.totals() == TurnTotals(accepted=4, empty=4)


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
