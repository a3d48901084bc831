"""Requests go first: background work waits at each of its steps while one is being answered."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LONGEST_SECONDS = 0.1
"""Under a load without a pause, background work goes on after so long; a step of it takes a tenth of that."""


class RequestsFirst:
    """Counts the requests that are being worked on in this process. It belongs to one event loop."""

    def __init__(self) -> None:
        self._under_way = 0
        self._lull = asyncio.Event()

    @contextmanager
    def request(self) -> Iterator[None]:
        """`with` it while working on a request."""
        self._under_way += 1
        self._lull.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._lull.set()

    async def lull(self) -> None:
        """Wait until no request is being worked on, within bounds. To be called before each step of some milliseconds."""
        if self._under_way:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_SECONDS):
                    await self._lull.wait()
