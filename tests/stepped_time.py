"""Time that passes only while a test waits: waits cost nothing, and a busy machine is never late.

Used as a pytest plugin. For tests whose outside world is made of stand-ins: what runs in another process takes no such time.
"""

import asyncio
from typing import Any

import pytest


class SteppedTime:
    """The clock of the running event loop, which goes to the next timer when there is nothing else to do, in threads neither."""

    def __init__(self) -> None:
        loop: Any = asyncio.get_running_loop()
        self._now = loop.time()
        self._ready = loop._selector.select
        loop._selector.select = self._select
        loop.time = lambda: self._now
        self._run_in_executor = loop.run_in_executor
        loop.run_in_executor = self._in_thread
        self._in_threads = 0

    def hold(self, seconds: float) -> None:
        """The event loop is held for so long."""
        self._now += seconds

    def _in_thread(self, *what: Any) -> Any:
        working = self._run_in_executor(*what)
        self._in_threads += 1
        working.add_done_callback(self._ended)
        return working

    def _ended(self, _: Any) -> None:
        self._in_threads -= 1

    def _select(self, timeout: float | None) -> Any:
        if timeout is None:
            return self._ready(None)
        found = self._ready(timeout if self._in_threads else 0)
        if not found:
            self._now += timeout
        return found


@pytest.fixture
async def stepped_time() -> SteppedTime:
    """Replaces the time of the test's event loop."""
    return SteppedTime()
