"""A deletion covers what came before it, and nothing after it, wherever clocks are set in between."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import pytest

from semrouter_memory.model import AppendOutcome, Memory, MemoryType, Reach, Scope, Tombstone
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.contract.turn_logs import ALICE, START, SteppedClock, WholeTurnLog, a_turn, accept, append
from tests.redis_server import RedisServer
from tests.replicas import Installation

pytestmark = pytest.mark.usefixtures("patient")

DAY = 86_400
DECADE = 3_650 * DAY
STATEMENT = "User lives in Berlin"

Open = Callable[[SteppedClock], Awaitable[WholeTurnLog]]


@pytest.fixture(params=["sqlite", "redis"])
async def open_log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the same log, each time as another process with a clock of its own; a file belongs to the last one."""
    async with AsyncExitStack() as exit_stack:
        names = iter("abc")
        shared = None
        opened: list[SqliteTurnLog] = []
        if request.param == "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            shared = Installation(server.url, tmp_path)

        async def open_one(clock: SteppedClock) -> WholeTurnLog:
            if shared is not None:
                replica = await exit_stack.enter_async_context(shared.replica(next(names), started=False, clock=clock))
                # Not started: turns are shipped when they are appended. It learns the installation's key, and its times.
                await replica.log.pending()
                return replica.log
            for before in opened:
                before.close()
            opened.append(SqliteTurnLog(tmp_path / "turns.db", clock=clock))
            exit_stack.callback(opened[-1].close)
            return opened[-1]

        yield open_one


def a_memory(at: datetime, *, shown: datetime = START) -> Memory:
    memory = Memory(
        id="m",
        scope=ALICE,
        type=MemoryType.SEMANTIC,
        content=STATEMENT,
        source="api",
        observed_at=shown,
        created_at=shown,
        updated_at=shown,
    )
    return memory.asserted(at, now=shown)


async def delete(log: WholeTurnLog, scope: Scope = ALICE, reach: Reach = Reach.ALL) -> None:
    await log.tombstone(Tombstone(scope=scope, at=log.now(), reach=reach))


async def waiting(log: WholeTurnLog) -> list[str]:
    turns = await log.list_turns(scope=ALICE, states=None, limit=100)
    return sorted(turn.user_text for turn in turns)


@pytest.mark.parametrize("reach", [Reach.ALL, Reach.EXACT])
@pytest.mark.parametrize("seconds", [-20, -3_600, -DAY, DAY, DECADE])
async def test_a_scopes_deletion(open_log: Open, seconds: int, reach: Reach) -> None:
    clock = SteppedClock()
    log = await open_log(clock)
    said = log.now()
    await accept(log, a_turn("before", at=said))
    written, began = await log.timestamp(), log.now()
    clock.step(seconds)
    await delete(log, reach=reach)
    assert await waiting(log) == []
    deleted = await log.tombstones(ALICE)
    for time in (said, written, began):
        assert deleted.covers(a_memory(time))
        assert deleted.forbids(ALICE, STATEMENT, time)
    assert (await append(log, a_turn("in flight", at=began))).outcome is AppendOutcome.FORGOTTEN
    for text in ("after", "after that"):
        later = log.now()
        await accept(log, a_turn(text, session=text, at=later))
        deleted = await log.tombstones(ALICE)
        assert not deleted.covers(a_memory(later, shown=clock.now()))
        assert not deleted.forbids(ALICE, STATEMENT, later)
    assert await waiting(log) == ["after", "after that"]


@pytest.mark.parametrize("seconds", [-20, -DECADE])
async def test_a_memorys_deletion(open_log: Open, seconds: int) -> None:
    """What was said in the same words before is forbidden, and may be said again."""
    clock = SteppedClock()
    log = await open_log(clock)
    said = log.now()
    await accept(log, a_turn(STATEMENT, at=said))
    clock.step(seconds)
    content_hash = log.content_hash(STATEMENT)
    await log.tombstone(Tombstone(scope=ALICE, at=log.now(), memory_id="m", content_hash=content_hash))
    deleted = await log.tombstones(ALICE)
    assert deleted.forbids(ALICE, STATEMENT, said)
    assert not deleted.forbids(ALICE, STATEMENT, log.now())


@pytest.mark.parametrize("seconds", [-3_600, -DECADE])
async def test_times_go_on_where_the_clock_goes_back(open_log: Open, seconds: int) -> None:
    clock = SteppedClock()
    log = await open_log(clock)
    times = [log.now()]
    for step in (seconds, 1, 1, -seconds):
        clock.step(step)
        times.append(log.now())
    assert times == sorted(set(times))
    assert times[-1] == clock.now()


@pytest.mark.parametrize("open_log", ["redis"], indirect=True)
@pytest.mark.parametrize("seconds", [-3_600, DAY])
async def test_another_process_with_another_clock(open_log: Open, seconds: int) -> None:
    """What one accepted is deleted by the other, and what the first says after it has heard of it stays."""
    clock, other_clock = SteppedClock(), SteppedClock()
    other_clock.step(seconds)
    log = await open_log(clock)
    await accept(log, a_turn("before", at=log.now()))
    written = await log.timestamp()
    other = await open_log(other_clock)
    await delete(other)
    assert await waiting(log) == []
    assert (await log.tombstones(ALICE)).covers(a_memory(written))
    await accept(log, a_turn("after", at=log.now()))
    assert await waiting(other) == ["after"]
    await delete(log)
    assert await waiting(other) == []
    # Whoever looks for work has heard of it, too.
    await other.pending()
    await accept(other, a_turn("last", at=other.now()))
    assert await waiting(log) == ["last"]


@pytest.mark.parametrize("seconds", [-DAY, -3_600, DAY])
async def test_what_was_accepted_before_a_restart_with_another_clock_is_deleted(open_log: Open, seconds: int) -> None:
    before = await open_log(SteppedClock())
    await accept(before, a_turn("before", at=before.now()))
    written = await before.timestamp()
    clock = SteppedClock()
    clock.step(seconds)
    after = await open_log(clock)
    await delete(after)
    assert await waiting(after) == []
    assert (await after.tombstones(ALICE)).covers(a_memory(written))


async def test_a_restart_with_an_earlier_clock(open_log: Open) -> None:
    clock = SteppedClock()
    before = await open_log(clock)
    written = await before.timestamp()
    await delete(before)
    earlier = SteppedClock()
    earlier.step(-DAY)
    after = await open_log(earlier)
    assert after.now() > written
    await accept(after, a_turn("after", at=after.now()))
    assert await waiting(after) == ["after"]
