"""What everything that changes memories works with as one value: store, turn log, state, locks, clock and observer; and a locked change."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from semrouter_memory.errors import LockLostError, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.ports import (
    Clock,
    Embedder,
    MemoryReader,
    MemoryWriter,
    Observer,
    OwnerHold,
    OwnerIndexes,
    OwnerLocks,
    StateStore,
    TurnLog,
)
from semrouter_memory.priority import RequestsFirst
from semrouter_memory.resilience import Backoff

T = TypeVar("T")

_LOCK_BACKOFF = Backoff(first=0.1, longest=1.0, spread=0.5)
_LOCK_ATTEMPTS = 4
_LONGEST_CHANGE_SECONDS = 5.0
"""From then on a change is not repeated: its caller has waited for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """What everything that changes memories works with.

    Attributes:
        writer: of everything that changes memories; the store's own writes would leave owner indexes stale.
        owner_indexes: of recently active owners, which writes through `writer` keep current; None: there are none.
        priority: what works in the background gives way to requests.
    """

    store: MemoryReader
    writer: MemoryWriter
    embedder: Embedder
    turn_log: TurnLog
    state: StateStore
    locks: OwnerLocks
    clock: Clock
    observer: Observer
    owner_indexes: OwnerIndexes | None = None
    priority: RequestsFirst = field(default_factory=RequestsFirst)

    def with_store(self, store: MemoryReader, writer: MemoryWriter) -> "Backends":
        """The same for what another store holds; owner indexes are of memories alone."""
        return replace(self, store=store, writer=writer, owner_indexes=None)

    async def locked_change(self, scope: Scope, change: Callable[[OwnerHold], Awaitable[T]]) -> T:
        """Make an idempotent change under the owner's lock; it is repeated when the lock is lost before it is complete.

        Raises:
            UnavailableError: a part is unavailable, or the lock is lost again and again.
        """
        began = time.monotonic()
        for attempt in range(_LOCK_ATTEMPTS):
            try:
                async with self.locks.hold(scope) as hold:
                    return await change(hold)
            except UnavailableError as error:
                is_lost = isinstance(error, LockLostError) or isinstance(error.__cause__, LockLostError)
                is_last = attempt == _LOCK_ATTEMPTS - 1 or time.monotonic() - began > _LONGEST_CHANGE_SECONDS
                if not is_lost or is_last:
                    raise
            await asyncio.sleep(_LOCK_BACKOFF.delay(attempt, random.random()))  # noqa: S311 - no secret
        raise AssertionError("unreachable")
