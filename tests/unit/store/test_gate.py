"""Many at a time, or one alone."""

import asyncio

import pytest

from semrouter_memory.store.gate import Gate


async def until_idle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_is_alone_waits_for_those_inside_and_keeps_others_out() -> None:
    gate, order, leave = Gate(), list[str](), asyncio.Event()

    async def among(name: str) -> None:
        async with gate.among_others():
            order.append(name)
            await leave.wait()

    async def alone(name: str) -> None:
        async with gate.alone():
            order.append(name)
            await until_idle()
            order.append(f"{name} left")

    async with asyncio.TaskGroup() as group:
        for name in ("one", "two"):
            group.create_task(among(name))
        await until_idle()
        group.create_task(alone("first alone"))
        group.create_task(alone("second alone"))
        await until_idle()
        group.create_task(among("late"))
        await until_idle()
        assert order == ["one", "two"]
        leave.set()
    assert order.index("first alone left") == order.index("first alone") + 1
    assert order.index("second alone left") == order.index("second alone") + 1
    assert order[2] == "first alone"
    assert set(order) >= {"late"}


async def test_who_gives_up_waiting_leaves_the_gate_as_it_was() -> None:
    gate = Gate()
    async with gate.among_others():
        waiting = asyncio.create_task(gate.alone().__aenter__())
        await until_idle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(5), gate.among_others():
            pass
    async with asyncio.timeout(5), gate.alone():
        pass


async def test_who_would_not_wait_gets_in_at_once_or_not_at_all() -> None:
    """Not from the moment that somebody wants to be alone until they have left; inside, they are waited for."""
    gate, is_alone, leave = Gate(), asyncio.Event(), asyncio.Event()

    async def alone() -> None:
        async with gate.alone():
            is_alone.set()
            await leave.wait()

    async with gate.among_others():
        with gate.among_others_at_once() as inside:
            assert inside
            being_alone = asyncio.create_task(alone())
            await until_idle()
            with gate.among_others_at_once() as also_inside:
                assert not also_inside
        await until_idle()
        assert not is_alone.is_set()
    await is_alone.wait()
    with gate.among_others_at_once() as inside:
        assert not inside
    leave.set()
    await being_alone
    with gate.among_others_at_once() as inside:
        assert inside


async def test_who_gives_up_being_alone_does_not_keep_others_out() -> None:
    gate = Gate()
    async with gate.among_others():
        waiting = asyncio.create_task(gate.alone().__aenter__())
        await until_idle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with gate.among_others_at_once() as inside:
            assert inside
