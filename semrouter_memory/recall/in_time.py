"""Waiting for something that may be done without."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def in_time(work: Awaitable[T], until: float) -> T | None:
    """The result of the work; None when it is late, fails, or is cancelled by anyone but the caller.

    Work that is late is cancelled and not waited for, whatever it does then.

    Args:
        until: a time of the loop.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    try:
        await asyncio.wait((task,), timeout=max(until - asyncio.get_running_loop().time(), 0.0))
    finally:
        task.cancel()
    if not task.done():
        # It ends now, if it does what it is told.
        await asyncio.sleep(0)
        return None
    return None if task.cancelled() or task.exception() else task.result()


def _retrieve(task: "asyncio.Future[T]") -> None:
    """Marks the exception as seen; it is without consequence."""
    if not task.cancelled():
        task.exception()
