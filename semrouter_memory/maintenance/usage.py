"""Counts which memories were put into requests, and writes the counts in batches.

Strategy: the request path adds to a dict. A flush writes to the state store only, never to the memory store, so it cannot
bring a deleted row back. It asks the tombstones before the write, and again after it: a deletion drops the counts after
its tombstone is on record, so one of the two always sees the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from semrouter_memory.model import Memory, Scope
from semrouter_memory.ports import Clock, Deletions, UsageCounts

MAX_NOTED = 10_000
"""Memories whose uses wait to be written; others are not counted until there is room again."""


@dataclass(slots=True)
class _Noted:
    """What waits for one owner: id -> the memory and how often it was used."""

    at: datetime
    uses: dict[str, tuple[Memory, int]] = field(default_factory=dict)


class UsageCounter:
    """Implements `UsageNotes`; `flush` is to be called again and again, and once at the end."""

    def __init__(self, *, state: UsageCounts, turn_log: Deletions, clock: Clock) -> None:
        self._state = state
        self._turn_log = turn_log
        self._clock = clock
        self._waiting: dict[str, _Noted] = {}
        self._count = 0

    @property
    def waiting(self) -> int:
        """Memories whose uses are not written yet."""
        return self._count

    def note(self, memories: Sequence[Memory]) -> None:
        """Same as the port's: some microseconds."""
        if memories:
            now = self._clock.now()
            for memory in memories:
                self._add(memory, 1, now)

    async def flush(self) -> None:
        """Write what was noted since the last time.

        Raises:
            UnavailableError: the state store is unavailable, or the turn log, which knows what was deleted; what is not
                written stays noted.
        """
        waiting, self._waiting, self._count = self._waiting, {}, 0
        while waiting:
            owner, noted = waiting.popitem()
            try:
                await self._write(Scope.of_owner(owner), noted)
            except BaseException:
                waiting[owner] = noted
                self._put_back(waiting)
                raise

    async def _write(self, scope: Scope, noted: _Noted) -> None:
        deleted = await self._turn_log.tombstones(scope)
        written = {
            memory_id: (memory, count)
            for memory_id, (memory, count) in noted.uses.items()
            if not deleted.covers(memory)
        }
        if not written:
            return
        await self._state.count_uses(
            scope, {memory_id: count for memory_id, (_, count) in written.items()}, at=noted.at
        )
        # Counted: what fails from here on must not be counted again.
        noted.uses.clear()
        deleted = await self._turn_log.tombstones(scope)
        gone = [memory_id for memory_id, (memory, _) in written.items() if deleted.covers(memory)]
        if gone:
            await self._state.drop_usage(scope, gone)

    def _put_back(self, waiting: dict[str, _Noted]) -> None:
        for noted in waiting.values():
            for memory, count in noted.uses.values():
                self._add(memory, count, noted.at)

    def _add(self, memory: Memory, count: int, at: datetime) -> None:
        noted = self._waiting.get(memory.scope.owner)
        known = noted.uses.get(memory.id) if noted else None
        if known is None and self._count >= MAX_NOTED:
            return
        if noted is None:
            noted = self._waiting[memory.scope.owner] = _Noted(at)
        if known is None:
            self._count += 1
        noted.uses[memory.id] = (memory, count + (known[1] if known else 0))
        noted.at = max(noted.at, at)
