"""The clock jumps ahead, and back again: order is kept, what is deleted stays away, nothing is stuck, nothing is lost."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from semrouter_memory.app import adapters
from semrouter_memory.errors import ChatModelError
from semrouter_memory.stack.stack import Process
from tests.envoy.conftest import Installation, eventually
from tests.retaining import MakeBench, ScriptedModel

from .conftest import Figures, sized
from .parts import PATIENT, InProcess, installed_with, tell, waited
from .system_clock import SystemClock, Timed

pytestmark = [pytest.mark.asyncio(loop_scope="session")]

DAY = timedelta(days=1)
STEPS = sized((timedelta(seconds=20), timedelta(hours=1)), (timedelta(seconds=20), timedelta(hours=1), DAY, 365 * DAY))
BUDGETS = ["$10,000", "$15,000", "$20,000", "$25,000"]


class JumpingClock:
    """The machine's, and what somebody has set it ahead."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> JumpingClock:
    clock = JumpingClock()
    monkeypatch.setattr(adapters, "SystemClock", lambda: clock)
    return clock


@pytest_asyncio.fixture(loop_scope="session")
async def on(tmp_path: Path, model_directory: Path, clock: JumpingClock) -> AsyncIterator[Installation]:
    # Without a sweep, which deletes for good what has expired by the clock as it stands then.
    retain, ageing = {"tick_seconds": 0.1, "session_idle_seconds": 1}, {"sweep_seconds": 30 * DAY.total_seconds()}
    memory = {**PATIENT, "retain": retain, "ageing": ageing}
    async with installed_with(tmp_path, model_directory, InProcess, sidecar_config={"memory": memory}) as installation:
        yield installation


async def test_what_is_said_last_holds_however_the_clock_jumps(
    on: Installation, clock: JumpingClock, figures: Figures
) -> None:
    """Ahead, back, and further back than it began; what was said before is history, in the order in which it was said."""
    jumps = (timedelta(), DAY, timedelta(), -DAY)
    for budget, ahead in zip(BUDGETS, jumps, strict=True):
        clock.ahead = ahead
        await tell(on, f"My budget for the Hawaii trip is {budget}")
        await eventually(partial(holds, on, budget), f"{budget} does not hold")
    async with on.http() as http:
        (current,) = (await http.get("/v1/memory", params={"type": "semantic"})).json()["data"]
        chain = (await http.get(f"/v1/memory/{current['id']}/history")).json()["data"]
    order = [memory["content"].rsplit(" ", 1)[-1] for memory in chain]
    held = [
        datetime.fromisoformat(each["superseded_at"]) - datetime.fromisoformat(each["observed_at"])
        for each in chain
        if each["superseded_at"]
    ]
    figures(jumps=len(jumps) - 1, order=" ".join(order), shortest_held_s=min(held).total_seconds())
    assert order == BUDGETS
    assert min(held) >= timedelta()


async def holds(on: Installation, budget: str) -> bool:
    return [content.rsplit(" ", 1)[-1] for content in await listed(on, type="semantic")] == [budget]


async def test_what_expires_does_so_by_the_clock_and_comes_back_with_it(on: Installation, clock: JumpingClock) -> None:
    """A day ahead it is past its time; set right again, it is not."""
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    async with on.http() as http:
        body = {"content": "User's parking spot is B12", "expires_at": until}
        (await http.post("/v1/memory", json=body)).raise_for_status()
        (await http.post("/v1/memory", json={"content": "User's locker is C7"})).raise_for_status()
    assert len(await on.memories()) == 2
    clock.ahead = DAY
    assert await on.memories() == ["User's locker is C7"]
    clock.ahead = timedelta()
    assert len(await on.memories()) == 2


# -- the clock of all processes ----------------------------------------------------------------------------------------


@pytest.fixture
def system_clock(tmp_path: Path) -> SystemClock:
    return SystemClock(tmp_path)


@pytest_asyncio.fixture(loop_scope="session")
async def machine(tmp_path: Path, model_directory: Path, system_clock: SystemClock) -> AsyncIterator[Installation]:
    memory = {**PATIENT, "retain": {"tick_seconds": 0.1, "session_idle_seconds": 600}}

    def timed(name: str, log: Path) -> Process:
        return Timed(name, log, system_clock)

    async with installed_with(tmp_path, model_directory, timed, sidecar_config={"memory": memory}) as installation:
        yield installation


@pytest.mark.timeout(300)
async def test_set_back_for_all_processes_it_hides_nothing_and_brings_nothing_back(
    machine: Installation, system_clock: SystemClock, figures: Figures
) -> None:
    """What is said supersedes, what is deleted stays away for good, what is said after that is remembered."""
    behind, unfinished = timedelta(), 0
    for number, step in enumerate(STEPS):
        before, after, name = f"${number + 1},000", f"${number + 1},500", f"Robin{chr(ord('a') + number)}"
        await tell(machine, f"My budget for the Hawaii trip is {before}")
        await eventually(partial(holds, machine, before), f"{before} does not hold")
        behind += step
        system_clock.set(-behind)
        await tell(machine, f"My budget for the Hawaii trip is {after}")
        await eventually(partial(holds, machine, after), f"{after} does not hold with the clock {behind} behind")
        assert not await listed(machine, type="episodic"), "a session has ended"
        unfinished += await forget(machine)
        assert await everything(machine) == []
        await tell(machine, f"My name is {name}")
        await eventually(partial(remembered, machine, f"My name is {name}"), f"{name} is not remembered")
        if step is STEPS[-1]:
            await machine.stack.sidecar.stop(kill=True)
            await machine.stack.start_sidecar()
        assert await everything(machine) == [f"My name is {name}"]
        behind += step
        system_clock.set(-behind)
        unfinished += await forget(machine)
    await tell(machine, "I live in Berlin")
    await eventually(partial(remembered, machine, "I live in Berlin"), "Berlin is not remembered")
    system_clock.set(timedelta())
    assert await everything(machine) == ["I live in Berlin"]
    await tell(machine, "I live in Munich")
    await eventually(partial(remembered, machine, "I live in Munich"), "Munich is not remembered")
    assert sorted(await everything(machine)) == ["I live in Berlin", "I live in Munich"]
    assert await machine.memories() == ["I live in Munich"]
    figures(steps_back=2 * len(STEPS), deletions=2 * len(STEPS), answered_unfinished=unfinished)


async def remembered(on: Installation, content: str) -> bool:
    return content in await listed(on)


async def everything(on: Installation) -> list[str]:
    """All that there is of the user, history included."""
    return await listed(on, include="history")


async def listed(on: Installation, **params: str) -> list[str]:
    """What a listing holds; one that the store is not there for is asked for again."""
    async with on.http() as http:
        while (answer := await http.get("/v1/memory", params=params)).status_code == httpx.codes.SERVICE_UNAVAILABLE:
            await waited(0.1)
    return [memory["content"] for memory in answer.raise_for_status().json()["data"]]


async def forget(on: Installation) -> int:
    """Delete all of the user, again while the answer is that it is not finished; returns how often it was."""
    unfinished = 0
    async with on.http() as http:
        while (answer := await http.delete("/v1/memory", params={"user_id": "alice"})).status_code != httpx.codes.OK:
            assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
            unfinished += 1
            # It is on record all the same.
            assert await everything(on) == []
    return unfinished


# -- claims, back-offs, ends of sessions -------------------------------------------------------------------------------


async def test_a_claim_from_the_future_is_no_claim(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.say("My budget for the Hawaii trip is $10,000")
    (session,) = await bench.log.pending()
    lease = timedelta(minutes=2)
    claim = partial(bench.log.claim, session.scope, session.session_id, lease=lease, context=0)
    bench.clock.set(days=1)
    assert await claim() is not None
    assert await claim() is None
    bench.clock.set(days=-1)
    assert await bench.log.pending()
    assert await claim() is not None


@pytest.mark.parametrize("days", [1, -1])
async def test_a_back_off_does_not_last_a_day(make_bench: MakeBench, days: int) -> None:
    """Turns that failed are tried again soon, wherever the clock is set meanwhile."""
    model = ScriptedModel()
    bench = make_bench(model, batch_size=1, retry_seconds=5, retry_max_seconds=60)
    bench.log._longest_back_off = timedelta(seconds=60)
    model.error = ChatModelError("down")
    bench.say("what is 1 plus 1?")
    await bench.work()
    bench.clock.set(days=days)
    model.error = None
    for _ in range(5):
        bench.clock.step(minutes=1)
        await bench.tick()
    totals = await bench.totals()
    assert (totals.accepted, totals.empty, totals.waiting) == (1, 1, 0)


@pytest.mark.parametrize("days", [1, -1])
async def test_a_session_ends_when_it_was_idle_for_long_enough(make_bench: MakeBench, days: int) -> None:
    """Not because the clock was set: time that has passed counts, and that alone."""
    model = ScriptedModel()
    model.facts = ["User collects stamps"]
    bench = make_bench(model, batch_size=10, session_idle_seconds=300)
    bench.say("Would stamps be something to collect? I like to collect stamps.")
    await bench.work()
    await bench.tick()
    bench.clock.set(days=days)
    await bench.tick()
    assert (await bench.totals()).waiting == 1
    assert await bench.episodes() == []
    bench.clock.step(minutes=6)
    await bench.tick()
    assert (await bench.totals()).waiting == 0
