"""Background work and requests."""

import asyncio
import time

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
    step = asyncio.create_task(first.lull())
    one.__exit__(None, None, None)
    await asyncio.sleep(0.01)
    assert not step.done()
    other.__exit__(None, None, None)
    await asyncio.wait_for(step, 1)


async def test_nothing_waits_where_there_is_no_request() -> None:
    first = RequestsFirst()
    with first.request():
        pass
    step = first.lull()
    with pytest.raises(StopIteration):
        step.send(None)


async def test_under_a_load_without_a_pause_a_step_is_taken_all_the_same() -> None:
    first = RequestsFirst()
    started = time.monotonic()
    with first.request():
        await asyncio.wait_for(first.lull(), 5)
    assert time.monotonic() - started >= 0.09


async def test_a_request_that_fails_is_done() -> None:
    first = RequestsFirst()
    with pytest.raises(ValueError, match="lost"), first.request():
        raise ValueError("lost")
    await asyncio.wait_for(first.lull(), 0.05)
