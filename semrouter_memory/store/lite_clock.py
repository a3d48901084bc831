"""Whether the system's clock has been set back under Milvus Lite.

Milvus Lite stamps each row with the system's time, and a search, a query or a deletion sees the rows whose stamp is not
later than its own time (tried with 2.5.1: nothing that a client sends takes part in it). After a step back, what was
written before it is invisible and cannot be deleted until the clock has caught up.

Strategy. Every call is made between two looks at the clock. Before it, the clock must stand after the last write. After
it, as much time must have passed by the clock as by the monotonic clock, or the step came during the call and its answer
is worth nothing. A connection whose calls cannot be trusted is lost: the next one makes Milvus Lite's file readable again
(`lite_file.reveal`).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from semrouter_memory.errors import StoreUnavailableError

_TOLERANCE_NS = 1_000_000
"""Milvus Lite counts milliseconds."""

_SLEW = 8
"""A clock that is being corrected without a step may lose a part in so many."""

_LONGEST_WAIT_NS = 20_000_000
"""A clock that is so little behind is waited for; recall's deadline allows it."""


class LiteClock:
    """Watches the clock while one process of Milvus Lite runs; made when that process sees all of its rows."""

    def __init__(
        self, *, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last_write = wall()

    @asynccontextmanager
    async def steady(self, operation: str, *, writes: bool) -> AsyncIterator[None]:
        """Around one call.

        Raises:
            StoreUnavailableError: the connection is lost: the clock stands before the last write, or was set back during the call.
        """
        await self._reach_last_write(operation)
        wall, monotonic = self._wall(), self._monotonic()
        stepped = False
        try:
            yield
        finally:
            passed, now = self._monotonic() - monotonic, self._wall()
            stepped = now - wall < passed - passed // _SLEW - _TOLERANCE_NS
            if writes:
                # The latest that Milvus Lite can have seen, failed calls included.
                self._last_write = max(self._last_write, wall + passed if stepped else now)
        if stepped:
            raise _clock_set_back(operation)

    async def _reach_last_write(self, operation: str) -> None:
        behind = self._last_write - self._wall()
        if behind > _LONGEST_WAIT_NS:
            raise _clock_set_back(operation)
        if behind > 0:
            await asyncio.sleep(behind / 1e9)
            if self._wall() < self._last_write - _TOLERANCE_NS:
                raise _clock_set_back(operation)


def _clock_set_back(operation: str) -> StoreUnavailableError:
    return StoreUnavailableError(f"{operation}: the system's clock was set back", connection_lost=True)
