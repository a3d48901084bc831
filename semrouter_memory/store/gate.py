"""Lets many in at a time, or one alone.

Strategy: one door, in the order of arrival. Most step through it at once; who wants to be alone stays in the door until
those inside have left, and for as long as the work takes, which should be milliseconds to seconds.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Gate:
    """Not reentrant."""

    def __init__(self) -> None:
        self._door = asyncio.Lock()
        self._inside = 0
        self._wanting_alone = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def among_others(self) -> AsyncIterator[None]:
        async with self._door:
            self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def among_others_at_once(self) -> Iterator[bool]:
        """Same as `among_others`, for who would rather do without than wait; says whether that one got in."""
        if self._wanting_alone:
            yield False
            return
        self._enter()
        try:
            yield True
        finally:
            self._leave()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        self._wanting_alone += 1
        try:
            async with self._door:
                await self._empty.wait()
                yield
        finally:
            self._wanting_alone -= 1

    def _enter(self) -> None:
        self._inside += 1
        self._empty.clear()

    def _leave(self) -> None:
        self._inside -= 1
        if not self._inside:
            self._empty.set()
