"""Many holders at a time, or an exclusive one."""

import asyncio

import pytest

from semrouter_memory.store.rw_lock import RWLock


async def until_idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_exclusive_holder_waits_for_shared_ones_and_keeps_new_ones_out() -> None:
    lock, order, leave = RWLock(), list[str](), asyncio.Event()

    async def share(name: str) -> None:
        async with lock.shared():
            order.append(name)
            await leave.wait()

    async def hold(name: str) -> None:
        async with lock.exclusive():
            order.append(name)
            await until_idle()
            order.append(f"{name} left")

    async with asyncio.TaskGroup() as group:
        for name in ("one", "two"):
            group.create_task(share(name))
        await until_idle()
        group.create_task(hold("first holder"))
        group.create_task(hold("second holder"))
        await until_idle()
        group.create_task(share("late"))
        await until_idle()
        assert order == ["one", "two"]
        leave.set()
    assert order.index("first holder left") == order.index("first holder") + 1
    assert order.index("second holder left") == order.index("second holder") + 1
    assert order[2] == "first holder"
    assert set(order) >= {"late"}


async def test_a_cancelled_wait_leaves_the_lock_as_it_was() -> None:
    lock = RWLock()
    async with lock.shared():
        waiting = asyncio.create_task(lock.exclusive().__aenter__())
        await until_idle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(5), lock.shared():
            pass
    async with asyncio.timeout(5), lock.exclusive():
        pass


async def test_the_lock_is_shared_at_once_or_not_at_all() -> None:
    """Not from an exclusive request until its release; the exclusive holder waits for one that shares the lock."""
    lock, is_exclusive, leave = RWLock(), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with lock.exclusive():
            is_exclusive.set()
            await leave.wait()

    async with lock.shared():
        with lock.try_shared() as shared:
            assert shared
            holding = asyncio.create_task(hold())
            await until_idle()
            with lock.try_shared() as also_shared:
                assert not also_shared
        await until_idle()
        assert not is_exclusive.is_set()
    await is_exclusive.wait()
    with lock.try_shared() as shared:
        assert not shared
    leave.set()
    await holding
    with lock.try_shared() as shared:
        assert shared


async def test_a_cancelled_exclusive_request_keeps_nothing_out() -> None:
    lock = RWLock()
    async with lock.shared():
        waiting = asyncio.create_task(lock.exclusive().__aenter__())
        await until_idle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with lock.try_shared() as shared:
            assert shared
