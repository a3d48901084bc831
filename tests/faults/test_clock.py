"""The clock jumps a day ahead, and back again: order is kept, nothing is stuck, nothing is lost."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from semrouter_memory.app import adapters
from semrouter_memory.errors import ChatModelError
from tests.envoy.conftest import Installation, eventually
from tests.retaining import MakeBench, ScriptedModel

from .conftest import Figures
from .parts import PATIENT, InProcess, installed_with, tell

pytestmark = [pytest.mark.asyncio(loop_scope="session")]

DAY = timedelta(days=1)
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
    memory = {**PATIENT, "retain": {"tick_seconds": 0.1, "session_idle_seconds": 1}}
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
    async with on.http() as http:
        memories = (await http.get("/v1/memory", params={"type": "semantic"})).raise_for_status().json()["data"]
    return [each["content"].rsplit(" ", 1)[-1] for each in memories] == [budget]


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
    bench.log._claims._longest_back_off = timedelta(seconds=60)
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


async def test_a_session_whose_last_turn_is_in_the_future_comes_to_its_end(make_bench: MakeBench) -> None:
    """Nobody knows how long ago it was said; the model is asked, and a session that goes on is summed up again."""
    model = ScriptedModel()
    model.facts = ["User collects stamps"]
    bench = make_bench(model, batch_size=10)
    bench.clock.set(days=1)
    bench.say("Would stamps be something to collect? I like to collect stamps.")
    await bench.work()
    bench.clock.set(days=-1)
    await bench.tick()
    assert (await bench.totals()).waiting == 0
