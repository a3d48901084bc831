"""A readers-writer lock of the event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class RWLock:
    """A readers-writer lock: many holders share it, or one has it exclusively. Not reentrant.

    Requests are served in the order of arrival. A holder of the exclusive lock waits until the shared ones are released and keeps
    new ones out for as long as its work takes, which should be milliseconds to seconds.
    """

    def __init__(self) -> None:
        self._order = asyncio.Lock()
        self._holders = 0
        self._exclusive_requests = 0
        self._free = asyncio.Event()
        self._free.set()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        async with self._order:
            self._acquire()
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def try_shared(self) -> Iterator[bool]:
        """Same as `shared`, without waiting. Yields whether the lock is held: not while an exclusive holder has it or waits."""
        if self._exclusive_requests:
            yield False
            return
        self._acquire()
        try:
            yield True
        finally:
            self._release()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        self._exclusive_requests += 1
        try:
            async with self._order:
                await self._free.wait()
                yield
        finally:
            self._exclusive_requests -= 1

    def _acquire(self) -> None:
        self._holders += 1
        self._free.clear()

    def _release(self) -> None:
        self._holders -= 1
        if not self._holders:
            self._free.set()
