"""One owner's changes happen one after another; owners do not wait for each other."""

import asyncio
import contextlib

from semrouter_memory.model import Scope
from semrouter_memory.state.local import InProcessOwnerLocks

ALICE = Scope("alice")


async def test_one_owner_is_served_in_order_whatever_the_project() -> None:
    locks, entered = InProcessOwnerLocks(), list[int]()

    async def enter(number: int) -> None:
        async with locks.hold(Scope("alice", project_id=str(number))):
            entered.append(number)
            await asyncio.sleep(0)
            assert entered[-1] == number

    async with locks.hold(ALICE):
        tasks = [asyncio.create_task(enter(number)) for number in range(5)]
        await asyncio.sleep(0)
        assert entered == []
    await asyncio.gather(*tasks)
    assert entered == list(range(5))


async def test_owners_do_not_wait_for_each_other() -> None:
    locks = InProcessOwnerLocks()
    async with locks.hold(ALICE), asyncio.timeout(1), locks.hold(Scope("bob")):
        pass


async def test_unused_locks_are_dropped_also_after_failure_and_cancellation() -> None:
    locks = InProcessOwnerLocks()
    with contextlib.suppress(ValueError):
        async with locks.hold(ALICE):
            waiting = asyncio.create_task(_enter(locks))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            # Its traceback still refers to the lock.
            del waiting
            raise ValueError
    assert not locks._locks
    await _enter(locks)


async def _enter(locks: InProcessOwnerLocks) -> None:
    async with locks.hold(ALICE):
        pass
