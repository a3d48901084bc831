"""Owners' locks and versions within one process (implement the ports `OwnerLocks` and `OwnerVersions`)."""

import asyncio
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b

from semrouter_memory.databases import pack
from semrouter_memory.model import Scope

_COUNTERS = 65_536


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


class InProcessOwnerVersions:
    """A number per owner, which begins at 0.

    A digest selects one of so many counters. Two owners may share one; then a write of one makes the other's memories be read
    again. The counters take the same memory however many owners there are.
    """

    def __init__(self) -> None:
        self._counters = array("Q", bytes(_COUNTERS * 8))

    async def current(self, scope: Scope) -> int:
        return self._counters[_index(scope)]

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        index = _index(scope)
        before = self._counters[index]
        self._counters[index] = before + 1
        return before, before + 1


def _index(scope: Scope) -> int:
    digest = blake2b(pack(scope.owner), digest_size=8, person=b"version").digest()
    return int.from_bytes(digest, "big") % _COUNTERS
