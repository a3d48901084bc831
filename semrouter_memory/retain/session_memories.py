"""The end of memories that hold within a session: they become the user's own, or are deleted.

Strategy. Such a memory expires after `retain.session_memory_hours` at the latest, so only memories that expire by then are read:
few users have any, and many sessions end.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

from semrouter_memory.model import Claim, Memory, Reach
from semrouter_memory.ports import Clock, MemoryReader, TurnLog
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter

_PAGE = 200


class SessionMemories:
    """Ends them.

    Args:
        hours: how long they hold at most.
    """

    def __init__(
        self, *, turn_log: TurnLog, reader: MemoryReader, writer: ReconcilingWriter, clock: Clock, hours: float
    ) -> None:
        self._turn_log = turn_log
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._lifetime = timedelta(hours=hours)

    async def end(self, claim: Claim) -> None:
        """Promote or delete what holds within the claimed session. Doing it again changes nothing.

        Raises:
            StoreUnavailableError: it can be done later.
            LockLostError: same.
        """
        found = [
            each async for each in self._passing(claim) if await self._turn_log.is_called(claim, each.within_session)
        ]
        if found:
            await self._writer.settle(claim.scope, found)

    async def _passing(self, claim: Claim) -> AsyncIterator[Memory]:
        latest = self._clock.now() + self._lifetime
        cursor = ""
        while True:
            page = await self._reader.page(
                claim.scope, limit=_PAGE, reach=Reach.RECALL, now=None, expires_by=latest, cursor=cursor
            )
            for memory in page.memories:
                if memory.within_session:
                    yield memory
            cursor = page.cursor
            if not cursor:
                return
