"""Which session a turn belongs to, and whether it was accepted before.

Strategy. A session is found by what the client calls it, else by the chain of stored responses, else by the transcript
that the turn continues; always within the owner, and one session belongs to one scope: a conversation that moves to
another project goes on in another session. All of it runs inside the transaction that appends the turn.

Several conversations can share a transcript (two that begin with "hi" and get the same answer). A continuation then
goes to one that is *not yet continued*, the most recent first, so that they stay apart.

A turn is the same again when it has the same user texts and the same request id, the same retry key, or the same
*place*: its session and what came before it there (the transcript's hash, or the response that it names). Request ids
alone do not count: where a proxy lets clients choose them, one that always sends the same would be forgotten. In a
session whose turns do not say what came before (a session header or a conversation id is all there is), only a
repetition of the newest turn counts: people do say things twice. A turn that completes an incomplete one is new. The first turn of a new transcript session has no
place. Response ids never count, since some servers draw them from a thousand.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.model import Scope, Turn, TurnState
from semrouter_memory.sessions.columns import pack
from semrouter_memory.sessions.digests import Digests

_MAX_SHARED_TRANSCRIPTS = 32
"""Of the sessions that share a transcript only so many are looked at, the most recent ones."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The turn that this one's `previous_response_id`, or its conversation, goes on from, and its session."""

    sequence: int
    incomplete: bool
    session_id: str
    same_scope: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where a turn goes.

    Attributes:
        session_id: "" for a new transcript session, which gets its id when it is made.
        named: the client names its session, or the chain does: the same turn can come to the same place again.
    """

    session_id: str
    named: bool


class Identification:
    """Looks sessions, chains and repetitions up.

    Args:
        connection: every method needs an open transaction of it.
    """

    def __init__(self, connection: sqlite3.Connection, digests: Digests) -> None:
        self._connection = connection
        self._digests = digests

    # -- the session ---------------------------------------------------------------------------------------------------

    def place(self, turn: Turn, parent: Parent | None) -> Place:
        """The first hint that is set decides."""
        scope, hints = turn.scope, turn.hints
        if hints.explicit:
            return Place(self._digests.session_id(scope, "header", hints.explicit), named=True)
        if hints.conversation_id:
            return Place(self._digests.session_id(scope, "conversation", hints.conversation_id), named=True)
        if hints.previous_response_id:
            return Place(self._chain_session(scope, hints.previous_response_id, parent), named=True)
        return Place(self._transcript_session(scope, hints.history_hash), named=False)

    def session_key(self, scope: Scope, session_id: str) -> int | None:
        row = self._connection.execute(
            "SELECT key FROM sessions WHERE id = ? AND user_id = ?", (session_id, pack(scope.user_id))
        ).fetchone()
        return int(row[0]) if row else None

    def _chain_session(self, scope: Scope, previous_response_id: str, parent: Parent | None) -> str:
        if parent is not None and parent.same_scope:
            return parent.session_id
        # Derived from the response, so that several turns that go on from it meet.
        return self._digests.session_id(scope, "response", previous_response_id)

    def _transcript_session(self, scope: Scope, history_hash: str) -> str:
        if not history_hash:
            return ""
        row = self._connection.execute(
            """SELECT sessions.id FROM (
                   SELECT turns.session, turns.sequence FROM traces JOIN turns ON turns.sequence = traces.turn
                   WHERE traces.digest = ? ORDER BY traces.learned DESC LIMIT ?) AS known
               JOIN sessions ON sessions.key = known.session
               ORDER BY known.sequence = (
                   SELECT max(sequence) FROM turns WHERE session = known.session AND state <> 'incomplete') DESC,
                   known.sequence DESC
               LIMIT 1""",
            (self.transcript(scope, history_hash), _MAX_SHARED_TRANSCRIPTS),
        ).fetchone()
        return str(row[0]) if row else ""

    def transcript(self, scope: Scope, transcript_hash: str) -> bytes:
        return self._digests.of("transcript", scope.user_id, scope.project_id, scope.agent_id, transcript_hash)

    # -- the chain -----------------------------------------------------------------------------------------------------

    def parent(self, scope: Scope, previous_response_id: str) -> Parent | None:
        """The newest of the owner's turns that were answered by that response."""
        if not previous_response_id:
            return None
        return self._parent(
            scope,
            """FROM traces JOIN turns ON turns.sequence = traces.turn JOIN sessions ON sessions.key = turns.session
               WHERE traces.digest = ? AND turns.observed_at > sessions.buried
               ORDER BY traces.learned DESC LIMIT 1""",
            self.response(scope, previous_response_id),
        )

    def open_turn(self, scope: Scope, session: int) -> Parent | None:
        """The session's newest turn, when it is incomplete: a tool loop that only the conversation id connects."""
        newest = self._parent(
            scope,
            """FROM turns JOIN sessions ON sessions.key = turns.session
               WHERE turns.session = ? AND turns.observed_at > sessions.buried
               ORDER BY turns.sequence DESC LIMIT 1""",
            session,
        )
        return newest if newest and newest.incomplete else None

    def response(self, scope: Scope, response_id: str) -> bytes:
        return self._digests.of("response", scope.user_id, response_id)

    def _parent(self, scope: Scope, origin: str, argument: bytes | int) -> Parent | None:
        row = self._connection.execute(
            f"SELECT turns.sequence, turns.state, sessions.id, sessions.project_id, sessions.agent_id {origin}",
            (argument,),
        ).fetchone()
        if row is None:
            return None
        sequence, state, session_id, project_id, agent_id = row
        same_scope = (project_id, agent_id) == (pack(scope.project_id), pack(scope.agent_id))
        return Parent(sequence, state == TurnState.INCOMPLETE, session_id, same_scope)

    # -- repetitions ---------------------------------------------------------------------------------------------------

    def request_marks(self, turn: Turn, texts: Sequence[str]) -> list[bytes]:
        """Digests of the request itself, wherever it belongs. `texts`: the user's, as they came and were cut."""
        names = (("request", turn.request_id), ("retry", turn.retry_of))
        return [self._digests.of(kind, turn.scope.user_id, name, *texts) for kind, name in names if name]

    def place_mark(self, turn: Turn, place: Place, texts: Sequence[str], after: int) -> bytes | None:
        """The digest of a turn at its place; None where a place cannot be repeated.

        Args:
            after: stands for what came before, where the turn does not say it: the sequence of the newest turn.
        """
        hints = turn.hints
        if hints.history_hash or hints.previous_response_id:
            before = ("known", hints.history_hash, hints.previous_response_id)
        elif place.named:
            before = ("newest", str(after), "")
        else:
            return None
        return self._digests.of("place", place.session_id, *before, *texts)

    def newest_sequence(self, session: int) -> int:
        (sequence,) = self._connection.execute(
            "SELECT max(sequence) FROM turns WHERE session = ? AND state <> 'incomplete'", (session,)
        ).fetchone()
        return sequence or 0

    def seen(self, marks: Sequence[bytes]) -> int | None:
        """The turn that one of these digests belongs to."""
        for mark in marks:
            row = self._connection.execute(
                """SELECT traces.turn FROM traces JOIN turns ON turns.sequence = traces.turn
                   JOIN sessions ON sessions.key = turns.session
                   WHERE traces.digest = ? AND turns.observed_at > sessions.buried
                   ORDER BY traces.learned DESC LIMIT 1""",
                (mark,),
            ).fetchone()
            if row:
                return int(row[0])
        return None
