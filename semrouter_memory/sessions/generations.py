"""Owners' generations within one process (implements the `Generations` port).

An owner's digest selects a counter. Two owners may share one; then a write of one makes the other's memories be read
again. So the counters take the same memory however many owners there are.
"""

from array import array
from hashlib import blake2b

from semrouter_memory.model import Scope
from semrouter_memory.sessions.columns import pack

_COUNTERS = 65_536


class InProcessGenerations:
    """Counters that begin at 0."""

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
    digest = blake2b(pack(scope.user_id), digest_size=8, person=b"generation").digest()
    return int.from_bytes(digest, "big") % _COUNTERS
