"""Which session a turn belongs to, and whether it was accepted before.

The rules are those of `sessions/identify.py`; here they are looked up in sorted sets of turns by digest. A turn that has
ended meanwhile counts as unknown.
"""

from collections.abc import Sequence

from semrouter_memory.model import Scope, Turn
from semrouter_memory.sessions.identify import Parent, Place
from semrouter_memory.sessions.redis.connection import RedisConnection
from semrouter_memory.sessions.redis.ledger import Ledger
from semrouter_memory.sessions.redis.rows import SessionRow, TurnRow

_MAX_SHARED = 32
"""Of the turns that share a digest only so many are looked at, the most recently learned ones."""


class Identification:
    """Looks sessions, chains and repetitions up; within a transaction on the owner, or to read only."""

    def __init__(self, connection: RedisConnection, ledger: Ledger) -> None:
        self._connection = connection
        self._ledger = ledger

    # -- the session ---------------------------------------------------------------------------------------------------

    async def place(self, turn: Turn, parent: Parent | None) -> Place:
        """The first hint that is set decides."""
        scope, hints, digests = turn.scope, turn.hints, self._ledger.digests
        if hints.explicit:
            return Place(digests.session_id(scope, "header", hints.explicit), named=True)
        if hints.conversation_id:
            return Place(digests.session_id(scope, "conversation", hints.conversation_id), named=True)
        if hints.previous_response_id:
            if parent is not None and parent.same_scope:
                return Place(parent.session_id, named=True)
            # Derived from the response, so that several turns that go on from it meet.
            return Place(digests.session_id(scope, "response", hints.previous_response_id), named=True)
        return Place(await self._transcript_session(scope, hints.history_hash), named=False)

    async def session(self, scope: Scope, session_id: str) -> SessionRow | None:
        """The owner's session of that id."""
        row = await self._ledger.session(session_id) if session_id else None
        return row if row is not None and row.scope.user_id == scope.user_id else None

    async def _transcript_session(self, scope: Scope, history_hash: str) -> str:
        """Of several conversations that share the transcript, one that is not yet continued, the most recent first."""
        if not history_hash:
            return ""
        known = await self._found_by(self.transcript(scope, history_hash))
        sessions = await self._ledger.sessions(row.session_id for row in known)
        best = max(
            (row for row in known if row.session_id in sessions),
            key=lambda row: (row.sequence == sessions[row.session_id].newest, row.sequence),
            default=None,
        )
        return best.session_id if best else ""

    def transcript(self, scope: Scope, transcript_hash: str) -> str:
        parts = (scope.user_id, scope.project_id, scope.agent_id, transcript_hash)
        return self._ledger.digests.of("transcript", *parts).hex()

    # -- the chain -----------------------------------------------------------------------------------------------------

    async def parent(self, scope: Scope, previous_response_id: str) -> Parent | None:
        """The newest of the owner's turns that were answered by that response."""
        if not previous_response_id:
            return None
        found = await self._found_by(self.response(scope, previous_response_id))
        return await self._as_parent(scope, found[0]) if found else None

    async def open_turn(self, scope: Scope, session_id: str) -> Parent | None:
        """The session's newest turn, when it is incomplete: a tool loop that only the conversation id connects."""
        newest = await self._ledger.sequences("ZRANGE", self._ledger.keys.session_turns(session_id), -1, -1)
        row = await self._ledger.turn(newest[0]) if newest else None
        return await self._as_parent(scope, row) if row is not None and not row.accepted else None

    def response(self, scope: Scope, response_id: str) -> str:
        return self._ledger.digests.of("response", scope.user_id, response_id).hex()

    async def _as_parent(self, scope: Scope, row: TurnRow) -> Parent | None:
        session = await self._ledger.session(row.session_id)
        if session is None:
            return None
        same_scope = session.scope == scope
        return Parent(row.sequence, not row.accepted, row.session_id, same_scope)

    # -- repetitions ---------------------------------------------------------------------------------------------------

    def request_marks(self, turn: Turn, said: Sequence[str]) -> list[str]:
        """Digests of the request itself, wherever it belongs."""
        names = (("request", turn.request_id), ("retry", turn.retry_of))
        digests = self._ledger.digests
        return [digests.of(kind, turn.scope.user_id, name, *said).hex() for kind, name in names if name]

    def place_mark(self, turn: Turn, place: Place, said: Sequence[str], after: int) -> str | None:
        """The digest of a turn at its place; None where a place cannot be repeated."""
        hints = turn.hints
        if hints.history_hash or hints.previous_response_id:
            before = ("known", hints.history_hash, hints.previous_response_id)
        elif place.named:
            before = ("newest", str(after), "")
        else:
            return None
        return self._ledger.digests.of("place", place.session_id, *before, *said).hex()

    async def seen(self, marks: Sequence[str]) -> TurnRow | None:
        """The turn that one of these digests belongs to."""
        for mark in marks:
            found = await self._found_by(mark)
            if found:
                return found[0]
        return None

    async def _found_by(self, trace: str) -> list[TurnRow]:
        """The turns that are found by that digest, the last learned first."""
        key = self._ledger.keys.trace(trace)
        rows = await self._ledger.turns(await self._ledger.sequences("ZREVRANGE", key, 0, _MAX_SHARED - 1))
        return list(rows.values())

    async def learned(self, traces: Sequence[str], sequence: int) -> dict[str, int]:
        """When that turn was learned under each of these digests."""
        keys = self._ledger.keys
        answers = await self._connection.execute_all(("ZSCORE", keys.trace(trace), sequence) for trace in traces)
        known = zip(traces, answers, strict=True)
        return {trace: int(float(score)) for trace, score in known if score is not None}
