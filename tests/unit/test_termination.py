"""Which signals end a process."""

import asyncio
import os
import signal

import pytest

from semrouter_memory.termination import on_termination


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_each_of_them_does(number: signal.Signals) -> None:
    told = asyncio.Event()
    on_termination(told.set)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(told.wait(), 5)


async def test_what_is_started_with_nohup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        on_termination(lambda: pytest.fail("told to end"))
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
