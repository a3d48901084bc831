"""Keeps what recalls gave: how often each memory was put into a request, and for users what their last recalls did.

Strategy: the request path adds to a dict; a task writes it to the state store only, never to the memory store, so no write
can bring a deleted row back. What was deleted meanwhile is left out: the tombstones are asked before the write, and for
access counts again after it. A deletion drops the counts after its tombstone is on record, so one of the two always sees the
other. Receipts have ids and scores, no text.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson

from semrouter_memory.model import Memory, RecallRequest, RecallResult, Scope
from semrouter_memory.ports import RECEIPTS, Clock, StateStore, Tombstones, TurnLog

MAX_NOTED = 10_000
"""Memories whose uses wait to be written; others are not counted until there is room again. Likewise owners' receipts."""
MAX_RECEIPTS = 50
"""Of one owner."""

_Uses = dict[str, tuple[Memory, int]]
"""id -> the memory, and how often it was used."""


@dataclass(slots=True)
class _Noted:
    """What waits for one owner.

    Attributes:
        used_at: the last use.
        receipts: where and when each recall was, and its line; the newest first.
    """

    used_at: datetime
    uses: _Uses = field(default_factory=dict)
    receipts: deque[tuple[Scope, datetime, bytes]] = field(default_factory=lambda: deque(maxlen=MAX_RECEIPTS))


class RecallJournal:
    """Takes note of what recalls gave; `flush` is to be called again and again, and once at the end.

    Args:
        receipt_ttl: how long receipts are stored; 0: none are.

    Attributes:
        waiting: memories whose uses are not written yet.
    """

    def __init__(self, *, state: StateStore, turn_log: TurnLog, clock: Clock, receipt_ttl: timedelta) -> None:
        self._state, self._turn_log, self._clock = state, turn_log, clock
        self._receipt_ttl = receipt_ttl
        self._waiting: dict[str, _Noted] = {}
        self.waiting = 0

    def note(self, request: RecallRequest, result: RecallResult) -> None:
        """Quick (some microseconds), and never raises. Later steps of a turn's tool loop repeat what the first one was given."""
        if request.continues_loop:
            return
        now = self._clock.now()
        self.note_uses([hit.memory for hit in result.hits], now)
        if self._receipt_ttl and (noted := self._of(request.scope.owner, now)):
            with suppress(orjson.JSONEncodeError):  # an imported id that is no text
                noted.receipts.appendleft((request.scope, now, _receipt(request, result, now)))

    def note_uses(self, memories: Iterable[Memory], at: datetime) -> None:
        """Count a use of each of these memories."""
        for memory in memories:
            self._add(memory, 1, at)

    async def flush(self) -> None:
        """Write what was noted since the last time.

        Raises:
            UnavailableError: the state store is unavailable, or the turn log, which knows what was deleted; what is not
                written stays noted.
        """
        waiting, self._waiting, self.waiting = self._waiting, {}, 0
        while waiting:
            owner, noted = waiting.popitem()
            try:
                await self._write(Scope.of_owner(owner), noted)
            except BaseException:
                for name, left in {**waiting, owner: noted}.items():
                    self._put_back(name, left)
                raise

    async def _write(self, scope: Scope, noted: _Noted) -> None:
        deleted = await self._turn_log.tombstones(scope)
        if uses := {key: use for key, use in noted.uses.items() if not deleted.covers(use[0])}:
            await self._state.count_uses(scope, {key: count for key, (_, count) in uses.items()}, at=noted.used_at)
            # Counted: what fails from here on must not be counted again.
            noted.uses.clear()
            since = await self._turn_log.tombstones(scope)
            if gone := [key for key, (memory, _) in uses.items() if since.covers(memory)]:
                await self._state.drop_usage(scope, gone)
        lines = [line for said_in, at, line in noted.receipts if not may_name_deleted(deleted, said_in, at)]
        if lines:
            await add_receipts(self._state, scope, lines, ttl=self._receipt_ttl)

    def _put_back(self, owner: str, left: _Noted) -> None:
        for memory, count in left.uses.values():
            self._add(memory, count, left.used_at)
        if left.receipts and (noted := self._of(owner, left.used_at)):
            noted.receipts.extend(list(left.receipts)[: MAX_RECEIPTS - len(noted.receipts)])

    def _add(self, memory: Memory, count: int, at: datetime) -> None:
        noted = self._of(memory.scope.owner, at)
        if noted is None or (memory.id not in noted.uses and self.waiting >= MAX_NOTED):
            return
        _, known = noted.uses.get(memory.id, (memory, 0))
        self.waiting += not known
        noted.uses[memory.id] = (memory, known + count)
        noted.used_at = max(noted.used_at, at)

    def _of(self, owner: str, at: datetime) -> _Noted | None:
        """What waits for the owner; None where too many owners wait."""
        if owner not in self._waiting and len(self._waiting) >= MAX_NOTED:
            return None
        return self._waiting.setdefault(owner, _Noted(at))


def _receipt(request: RecallRequest, result: RecallResult, now: datetime) -> bytes:
    memories = [
        {"id": hit.memory.id, "owner": hit.memory.scope.owner, "relevance": round(hit.relevance, 4)}
        for hit in result.hits
    ]
    project_id = request.scope.project_id.encode("utf-8", "replace").decode()
    receipt = {"at": now, "project_id": project_id, "reason": result.reason, "memories": memories}
    if result.steered is not None:
        receipt |= {"steering": result.steered.outcome, "forgotten": result.steered.forgotten}
    return orjson.dumps(receipt)


async def add_receipts(states: StateStore, scope: Scope, receipts: Sequence[bytes], *, ttl: timedelta) -> None:
    """Add lines, the newest first; of all only the newest `MAX_RECEIPTS` stay, until so long after the last.

    Of two replicas that do so for one owner within a millisecond one may lose its lines: nothing depends on them.

    Raises:
        UnavailableError: the state store is unavailable.
    """
    lines = [*receipts, *await receipt_lines(states, scope)][:MAX_RECEIPTS]
    await states.put(scope.in_project(""), RECEIPTS, b"\n".join(lines), ttl=ttl)


async def receipt_lines(states: StateStore, scope: Scope) -> Sequence[bytes]:
    """All receipts of the owner, the newest first.

    Raises:
        UnavailableError: the state store is unavailable.
    """
    found: Mapping[str, bytes] = await states.get(scope.in_project(""), [RECEIPTS])
    return found[RECEIPTS].split(b"\n") if found else ()


def may_name_deleted(deleted: Tombstones, scope: Scope, at: datetime) -> bool:
    """Whether a receipt of a recall in this scope at this time may name what was deleted since."""
    return deleted.erases(at) or deleted.forbids(scope, "", at)
