"""Owners' locks within one process (implements the `OwnerLocks` port)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from semrouter_memory.model import Scope


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    """Tasks that hold the lock or wait for it."""


class SureHold:
    """A lock that cannot be lost while it is held (implements the `OwnerHold` port)."""

    async def confirm(self) -> None:
        pass


class InProcessOwnerLocks:
    """One asyncio lock per owner, made on demand, dropped when unused; first come, first served. Not reentrant."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    @asynccontextmanager
    async def hold(self, scope: Scope) -> AsyncIterator[SureHold]:
        entry = self._entries.setdefault(scope.owner, _Entry())
        entry.users += 1
        try:
            async with entry.lock:
                yield SureHold()
        finally:
            entry.users -= 1
            if not entry.users:
                del self._entries[scope.owner]
