"""How a session's end is announced."""

from semrouter_memory.model import PendingSession, Scope
from semrouter_memory.sessions.columns import storable
from semrouter_memory.sessions.redis.ledger import Ledger
from semrouter_memory.sessions.redis.payload import bounded
from semrouter_memory.sessions.redis.rows import SessionRow, pending_session
from semrouter_memory.sessions.redis.transaction import Changes, Transactions

_MAX_SESSION_ID_CHARS = 128


class Ends:
    """Announces ends. What an episode covers is noted by `Claims.mark_episode`."""

    def __init__(self, ledger: Ledger, transactions: Transactions) -> None:
        self._ledger = ledger
        self._transactions = transactions

    async def end_session(self, scope: Scope, name: str) -> PendingSession | None:
        async def work(changes: Changes) -> PendingSession | None:
            session = await self._named(scope, name)
            if session is None:
                return None
            if session.unsummarised:
                session = session.end_announced()
                self._ledger.put_session(changes, session)
            return pending_session(session)

        return await self._transactions.on_owner(self._ledger.owner(scope), work)

    async def _named(self, scope: Scope, name: str) -> SessionRow | None:
        """The owner's session that a client calls by that name, or whose id it is."""
        digests = self._ledger.digests
        ids = [digests.session_id(scope, kind, bounded(name)) for kind in ("header", "conversation")]
        sessions = await self._ledger.sessions((*ids, storable(name, _MAX_SESSION_ID_CHARS)))
        return next((row for row in sessions.values() if row.scope.user_id == scope.user_id), None)
