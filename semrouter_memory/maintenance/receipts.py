"""Keeps what the last recalls of each user did, without any text, so that a user can be told why something was said.

Strategy: the request path adds a line to a list; a task writes the lists to the state store, where every replica reads them.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import orjson

from semrouter_memory.errors import UnavailableError
from semrouter_memory.events import WorkFailed
from semrouter_memory.model import RecallRequest, RecallResult, Scope
from semrouter_memory.ports import (
    RECEIPTS,
    Clock,
    Deletions,
    Observer,
    SessionStates,
    Tombstones,
)

MAX_RECEIPTS = 50
"""Of one owner."""
FLUSH_SECONDS = 1.0
_MAX_OWNERS = 10_000
"""Owners whose receipts wait to be written; those of others are done without until there is room again."""


class ReceiptWriter:
    """Implements `ReceiptNotes`."""

    def __init__(
        self, *, state: SessionStates, turn_log: Deletions, observer: Observer, clock: Clock, ttl: timedelta
    ) -> None:
        self._state, self._turn_log, self._observer, self._clock = state, turn_log, observer, clock
        self._ttl = ttl
        self._waiting: defaultdict[str, deque[tuple[Scope, datetime, bytes]]] = defaultdict(
            lambda: deque(maxlen=MAX_RECEIPTS)
        )
        self._task: asyncio.Task[None] | None = None

    def note(self, request: RecallRequest, result: RecallResult) -> None:
        """Same as the port's. Later steps of a turn's tool loop repeat what the first one was given."""
        owner = request.scope.owner
        if request.continues_loop or (owner not in self._waiting and len(self._waiting) >= _MAX_OWNERS):
            return
        now = self._clock.now()
        receipt = {
            "at": now,
            "project_id": request.scope.project_id.encode("utf-8", "replace").decode(),
            "reason": result.reason,
            "memories": [
                {"id": hit.memory.id, "owner": hit.memory.scope.owner, "relevance": round(hit.relevance, 4)}
                for hit in result.hits
            ],
        }
        if result.steered is not None:
            receipt |= {"steering": result.steered.outcome, "forgotten": result.steered.forgotten}
        with suppress(orjson.JSONEncodeError):  # an imported id that is no text
            self._waiting[owner].appendleft((request.scope, now, orjson.dumps(receipt)))

    async def flush(self) -> None:
        """Write what was noted.

        Raises:
            UnavailableError: the state store or the turn log is unavailable; what is not written stays noted.
        """
        for owner in list(self._waiting):
            noted = self._waiting.pop(owner)
            try:
                await self._write(Scope.of_owner(owner), noted)
            except BaseException:
                newer = self._waiting[owner]
                newer.extend(list(noted)[: MAX_RECEIPTS - len(newer)])
                raise

    async def _write(self, scope: Scope, noted: Iterable[tuple[Scope, datetime, bytes]]) -> None:
        deleted = await self._turn_log.tombstones(scope)
        lines = [line for said_in, at, line in noted if not may_name_deleted(deleted, said_in, at)]
        if lines:
            await add_receipts(self._state, scope, lines, ttl=self._ttl)

    def start(self) -> None:
        """Start to write."""
        self._task = asyncio.create_task(self._run(), name="receipts")

    async def stop(self) -> None:
        """Stop, and write what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with suppress(UnavailableError):
            await self.flush()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await self.flush()
            except UnavailableError:
                pass
            except Exception as error:  # noqa: BLE001 - the next time may succeed
                self._observer.observe(WorkFailed(error))


async def add_receipts(states: SessionStates, scope: Scope, receipts: Sequence[bytes], *, ttl: timedelta) -> None:
    """Add lines, the newest first; of all only the newest `MAX_RECEIPTS` stay, until so long after the last.

    Of two replicas that do so for one owner within a millisecond one may lose its lines: nothing depends on them.

    Raises:
        UnavailableError: the state store is unavailable.
    """
    lines = [*receipts, *await receipt_lines(states, scope)][:MAX_RECEIPTS]
    await states.put(scope.in_project(""), RECEIPTS, b"\n".join(lines), ttl=ttl)


async def receipt_lines(states: SessionStates, scope: Scope) -> Sequence[bytes]:
    """All receipts of the owner, the newest first.

    Raises:
        UnavailableError: the state store is unavailable.
    """
    found = await states.get(scope.in_project(""), [RECEIPTS])
    return found[RECEIPTS].split(b"\n") if found else ()


def may_name_deleted(deleted: Tombstones, scope: Scope, at: datetime) -> bool:
    """Whether a receipt of a recall in this scope at this time may name what was deleted since."""
    return deleted.erases(at) or deleted.forbids(scope, "", at)
