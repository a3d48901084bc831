"""Requests go first: background work waits for a pause between them before each of its steps, and what takes long runs aside."""

import asyncio
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_PAUSE_SECONDS = 0.01
"""Without a request, after which another one is not to be expected at once."""
_LONGEST_SECONDS = 2.0
"""Under a load that has gone on for so long without a pause, background work is done at the same time."""
_LARGE = 256 * 1024
"""Size of a body of some hundred messages, which takes 5 to 10 ms to read. A thread costs its own request time, too."""


class Aside:
    """A thread for what takes some milliseconds of a processor: in the event loop, tokens would wait for it.

    One piece after the other, however many ask: each thread that computes takes the interpreter from the event loop once more,
    and the loop's own threads are for requests. What must not wait for one another has a thread each.
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


MANAGEMENT, DOCUMENT_READING, LARGE_BODIES = Aside("management"), Aside("document-reading"), Aside("large-bodies")


def is_large(size: int) -> bool:
    """Whether what reads or changes a request of that size, in bytes or characters, is to run aside."""
    return size >= _LARGE


class RequestsFirst:
    """Knows whether requests are being worked on in this process. It belongs to one event loop."""

    def __init__(self) -> None:
        self._under_way = 0
        self._busy_since = self._ended = -math.inf

    @contextmanager
    def request(self) -> Iterator[None]:
        """`with` it while working on a request."""
        if not self._under_way and _now() > self._ended + _PAUSE_SECONDS:
            self._busy_since = _now()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._ended = _now()

    async def pause(self) -> None:
        """Wait for a pause, within bounds. To be called before each step of some milliseconds."""
        # Not an event: it would be set and cleared by each request.
        while seconds := self._seconds_to_wait():  # noqa: ASYNC110
            await asyncio.sleep(seconds)

    def _seconds_to_wait(self) -> float:
        """Until it is worth looking again; 0: there is a pause, or there will be none."""
        left = self._busy_since + _LONGEST_SECONDS - _now()
        return max(min(_PAUSE_SECONDS if self._under_way else self._ended + _PAUSE_SECONDS - _now(), left), 0.0)


def _now() -> float:
    return asyncio.get_running_loop().time()
