"""Deletes memories that were judged to leave.

Strategy: between the judgement and the deletion a memory may have been said again, edited or used. So each is read again
under its owner's lock, and is deleted only when it is what it was. No tombstone is left: saying it again brings it back.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from semrouter_memory.errors import StateStoreError
from semrouter_memory.model import Leaving, Memory, Scope, Usage
from semrouter_memory.ports import MemoryReader, MemoryWriter, OwnerLocks, StateStore, Tombstones, TurnLog
from semrouter_memory.upkeep.leaving import Judged

BATCH = 50
"""Memories deleted under one hold of the lock: some hundred milliseconds on a server."""
MAX_REMEMBERED = 10_000
"""Erased memories whose counts are dropped once more at the next sweep."""

_BY_USE = frozenset({Leaving.PRUNED, Leaving.QUOTA})


class Eraser:
    """Deletes under the owner's lock.

    Raises everywhere: `StoreUnavailableError`, `LockLostError`, and where a reason needs them `StateStoreError` and
    `TurnLogError`.
    """

    def __init__(
        self,
        *,
        reader: MemoryReader,
        writer: MemoryWriter,
        turn_log: TurnLog,
        state: StateStore,
        locks: OwnerLocks,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._turn_log = turn_log
        self._state = state
        self._locks = locks
        self._erased: dict[str, list[str]] = {}

    async def erase(self, scope: Scope, judged: Sequence[Judged]) -> list[Judged]:
        """Delete what is still as it was judged; returns that."""
        erased: list[Judged] = []
        for batch in _batches(judged):
            leaving = await self._erase(scope, batch)
            erased.extend(leaving)
            if leaving:
                await self._drop_usage(scope, [each.memory.id for each in leaving])
        return erased

    async def drop_late_counts(self) -> None:
        """Drop what was counted of memories after they were erased: a use is written seconds after it happened."""
        late, self._erased = self._erased, {}
        for user_id, memory_ids in late.items():
            with suppress(StateStoreError):
                await self._state.drop_usage(Scope(user_id), memory_ids)

    async def _drop_usage(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        if sum(map(len, self._erased.values())) < MAX_REMEMBERED:
            self._erased.setdefault(scope.user_id, []).extend(memory_ids)
        with suppress(StateStoreError):
            await self._state.drop_usage(scope, memory_ids)

    async def _erase(self, scope: Scope, batch: Sequence[Judged]) -> list[Judged]:
        async with self._locks.hold(scope) as hold:
            leaving = await self._unchanged(scope, batch)
            if leaving:
                await hold.confirm()
                await self._writer.delete(scope, [each.memory.id for each in leaving])
        return leaving

    async def _unchanged(self, scope: Scope, batch: Sequence[Judged]) -> list[Judged]:
        deleted = await self._deletions(scope, batch)
        usage = await self._usage(scope, batch)
        # Together: on a server each fresh read waits for a time tick.
        stored = await asyncio.gather(*(self._reader.get(scope, each.memory.id) for each in batch))
        unchanged = [each for each, memory in zip(batch, stored, strict=True) if memory == each.memory]
        leaving: dict[str, Judged] = {}
        for each in unchanged:
            if each.reason in _BY_USE and usage.get(each.memory.id) != each.usage:
                continue
            if deleted is not None and each.reason is Leaving.BURIED and not deleted.covers(each.memory):
                continue
            # A successor that leaves stands before its history.
            successor_leaves = each.memory.superseded_by in leaving
            if (
                each.reason is Leaving.ORPHANED
                and not successor_leaves
                and not await self._is_orphan(scope, each.memory)
            ):
                continue
            leaving[each.memory.id] = each
        return list(leaving.values())

    async def _deletions(self, scope: Scope, batch: Sequence[Judged]) -> Tombstones | None:
        if any(each.reason is Leaving.BURIED for each in batch):
            return await self._turn_log.tombstones(scope)
        return None

    async def _usage(self, scope: Scope, batch: Sequence[Judged]) -> Mapping[str, Usage]:
        ids = [each.memory.id for each in batch if each.reason in _BY_USE]
        return await self._state.usage(scope, ids) if ids else {}

    async def _is_orphan(self, scope: Scope, memory: Memory) -> bool:
        return await self._reader.get(scope, memory.superseded_by) is None


def _batches(judged: Sequence[Judged]) -> Iterator[Sequence[Judged]]:
    return (judged[start : start + BATCH] for start in range(0, len(judged), BATCH))
