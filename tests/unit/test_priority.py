"""Background work and requests."""

import asyncio

import pytest

from semrouter_memory import priority
from semrouter_memory.priority import RequestsFirst

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_step_waits_until_the_last_request_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_LONGEST_SECONDS", 60)
    first = RequestsFirst()
    one, other = first.request(), first.request()
    one.__enter__()
    other.__enter__()
    step = asyncio.create_task(first.pause())
    one.__exit__(None, None, None)
    await asyncio.sleep(0.05)
    assert not step.done()
    other.__exit__(None, None, None)
    await asyncio.wait_for(step, 1)


async def test_a_moment_between_two_requests_is_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_LONGEST_SECONDS", 60)
    monkeypatch.setattr(priority, "_PAUSE_SECONDS", 0.5)
    first = RequestsFirst()
    with first.request():
        step = asyncio.create_task(first.pause())
    for _ in range(10):
        await asyncio.sleep(0.1)
        with first.request():
            pass
    assert not step.done()
    await asyncio.wait_for(step, 5)


async def test_nothing_waits_where_there_was_no_request() -> None:
    step = RequestsFirst().pause()
    with pytest.raises(StopIteration):
        step.send(None)


async def test_under_a_load_without_a_pause_steps_are_taken_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_LONGEST_SECONDS", 0.3)
    first = RequestsFirst()
    with first.request():
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(first.pause(), 5)
        assert asyncio.get_running_loop().time() - began > 0.2
        step = first.pause()
        with pytest.raises(StopIteration):
            step.send(None)


async def test_a_request_that_fails_is_done() -> None:
    first = RequestsFirst()
    with pytest.raises(ValueError, match="lost"), first.request():
        raise ValueError("lost")
    await asyncio.wait_for(first.pause(), 0.5)
