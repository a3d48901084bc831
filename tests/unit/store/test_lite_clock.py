"""A clock that is set back under Milvus Lite is noticed, before a call and during one; others cost nothing."""

from dataclasses import dataclass

import pytest

from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.store.lite import LiteClock
from tests.raising import raising

SECOND = 1_000_000_000


@dataclass
class Machine:
    wall: int = 1_000 * SECOND
    monotonic: int = 5 * SECOND

    def watched(self) -> LiteClock:
        return LiteClock(wall=lambda: self.wall, monotonic=lambda: self.monotonic)

    def passes(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.monotonic += nanoseconds


async def called(
    clock: LiteClock, machine: Machine, *, writes: bool, step: int = 0, lasts: int = SECOND // 100
) -> None:
    async with clock.steady("search", writes=writes):
        machine.passes(lasts)
        machine.wall += step


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("back", [SECOND, 20 * SECOND, 86_400 * SECOND])
async def test_set_back_during_a_call(back: int, writes: bool) -> None:
    machine = Machine()
    clock = machine.watched()
    with raising(StoreUnavailableError, connection_lost=True):
        await called(clock, machine, writes=writes, step=-back)


@pytest.mark.parametrize("writes", [True, False])
async def test_set_back_before_the_last_write(writes: bool) -> None:
    machine = Machine()
    clock = machine.watched()
    await called(clock, machine, writes=True)
    machine.wall -= SECOND
    with raising(StoreUnavailableError, connection_lost=True):
        await called(clock, machine, writes=writes)
    machine.passes(2 * SECOND)
    await called(clock, machine, writes=writes)


async def test_set_back_to_a_time_after_the_last_write_hides_nothing() -> None:
    machine = Machine()
    clock = machine.watched()
    await called(clock, machine, writes=True)
    machine.passes(60 * SECOND)
    machine.wall -= 20 * SECOND
    await called(clock, machine, writes=False)


async def test_a_write_that_a_step_met_counts_at_the_latest_time_it_can_have_had() -> None:
    machine = Machine()
    clock = machine.watched()
    with raising(StoreUnavailableError, connection_lost=True):
        await called(clock, machine, writes=True, lasts=2 * SECOND, step=-SECOND)
    with raising(StoreUnavailableError, connection_lost=True):
        await called(clock, machine, writes=False)


async def test_a_clock_that_goes_slowly_or_is_set_ahead_is_no_matter() -> None:
    machine = Machine()
    clock = machine.watched()
    await called(clock, machine, writes=True, lasts=SECOND, step=-SECOND // 12)
    await called(clock, machine, writes=True, step=3_600 * SECOND)
    await called(clock, machine, writes=False)
