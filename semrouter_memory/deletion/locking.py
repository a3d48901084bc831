"""Changes under an owner's lock, repeated when the lock is lost before they are complete."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from semrouter_memory.errors import LockLostError, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.ports import OwnerHold, OwnerLocks
from semrouter_memory.resilience import Backoff

T = TypeVar("T")

_BACKOFF = Backoff(first=0.1, longest=1.0, spread=0.5)
_ATTEMPTS = 4
_LONGEST_SECONDS = 5.0
"""From then on a change is not repeated: its caller has waited for long."""


async def locked_change(locks: OwnerLocks, scope: Scope, change: Callable[[OwnerHold], Awaitable[T]]) -> T:
    """Make an idempotent change under the owner's lock.

    Raises:
        UnavailableError: a part is unavailable, or the lock is lost again and again.
    """
    began = time.monotonic()
    for attempt in range(_ATTEMPTS):
        try:
            async with locks.hold(scope) as hold:
                return await change(hold)
        except UnavailableError as error:
            is_lost = isinstance(error, LockLostError) or isinstance(error.__cause__, LockLostError)
            if not is_lost or attempt == _ATTEMPTS - 1 or time.monotonic() - began > _LONGEST_SECONDS:
                raise
        await asyncio.sleep(_BACKOFF.delay(attempt, random.random()))  # noqa: S311 - no secret
    raise AssertionError("unreachable")
