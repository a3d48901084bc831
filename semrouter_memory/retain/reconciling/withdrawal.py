"""Takes back what one turn stored: "scratch that", said in the next turn.

Strategy. Only memories of this owner and session that were made from this turn alone are deleted: what other turns say, too,
stays. Memories that they superseded hold again, or are superseded by what superseded the deleted ones meanwhile, and marks
that point to them are removed. Changed rows are written before rows are deleted, so that a crash in between is repaired when
the step is repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from semrouter_memory.lineage import pages
from semrouter_memory.model import EmbeddedMemory, LoggedTurn, Memory, Reach, Scope
from semrouter_memory.ports import Embedder, MemoryReader, Tombstones
from semrouter_memory.retain.passages import embedded
from semrouter_memory.retain.reconciling.neighbours import NeighbourReader
from semrouter_memory.retain.reconciling.rows import RowFactory, contradicted
from semrouter_memory.retain.superseding import unmarked

_PAGE = 100
"""Of the owner's newest memories, among which those of the last turn are."""
_SKEW = timedelta(hours=1)
"""By so much a row may be older than its turn where the clock was set back."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What a turn stored, and the rows that change when that is deleted."""

    ids: Sequence[str]
    changed: Sequence[EmbeddedMemory]


class WithdrawalPlanner:
    """Finds what to change. Runs under the owner's lock."""

    def __init__(self, reader: MemoryReader, neighbours: NeighbourReader, embedder: Embedder, rows: RowFactory) -> None:
        self._reader = reader
        self._neighbours = neighbours
        self._embedder = embedder
        self._rows = rows

    async def plan(
        self, scope: Scope, turns: Sequence[LoggedTurn], tombstones: Tombstones, now: datetime
    ) -> Withdrawal:
        """What deleting the memories of these turns changes."""
        gone = {memory.id: memory for memory in await self._stored_by(scope, turns)}
        if not gone:
            return Withdrawal((), ())
        restored = [_restored(old, gone, now) for old in await self._reader.predecessors(scope, list(gone))]
        changed = {memory.id: memory for memory in restored if memory.id not in gone and not tombstones.covers(memory)}
        deleted = await embedded(self._embedder, list(gone.values()))
        for hits in (await self._neighbours.read(scope, [row.vector for row in deleted], tombstones)).found:
            for memory in (hit.memory for hit in hits if hit.memory.id not in gone):
                if {*memory.outdated_by, *contradicted(memory)} & gone.keys():
                    left = self._rows.unflagged(unmarked(memory, gone.keys()), {*gone}, now=now)
                    changed[memory.id] = left
        return Withdrawal(list(gone), await embedded(self._embedder, list(changed.values())))

    async def _stored_by(self, scope: Scope, turns: Sequence[LoggedTurn]) -> list[Memory]:
        """Memories that were made from one of these turns alone."""
        since = min(turn.observed_at for turn in turns) - _SKEW
        stored = pages(self._reader, scope, limit=_PAGE, reach=Reach.EXACT, since=since)
        return [each async for page in stored for each in page if any(_is_of(each, turn) for turn in turns)]


def _is_of(memory: Memory, turn: LoggedTurn) -> bool:
    of_owner = memory.scope.owner == turn.scope.owner
    return of_owner and memory.session_id == turn.session_id and memory.ids("turn_ids") == (turn.id,)


def _restored(old: Memory, gone: dict[str, Memory], now: datetime) -> Memory:
    """A superseded memory without the successors that go."""
    successor = old
    while successor.superseded_by in gone:
        successor = gone[successor.superseded_by]
    return replace(old, superseded_at=successor.superseded_at, superseded_by=successor.superseded_by, updated_at=now)
