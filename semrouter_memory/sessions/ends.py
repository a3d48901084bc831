"""How sessions end: the announced end, and through which turn a session is summed up.

Strategy. Both are marks on turns. An end is announced on the newest turn that is not summed up, and is done with when an
episode covers that turn; so a turn that comes between the episode's beginning and its end takes neither the episode
nor its own announcement away. An end with nothing to sum up needs no announcement.
"""

import sqlite3

from semrouter_memory.model import Claim, PendingSession, Scope
from semrouter_memory.sessions.columns import MAX_SESSION_ID_CHARS, Row, moment, pack, storable, unpack
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.schema import OPEN

SESSION_COLUMNS = "sessions.user_id, sessions.project_id, sessions.agent_id, sessions.id, sessions.not_before"

OPEN_COUNTS = """sum(turns.state = 'waiting'), sum(turns.state = 'waiting' AND NOT turns.rules_done),
    max(turns.state = 'waiting' AND turns.remember), max(turns.observed_at), sum(NOT turns.summed_up),
    max(turns.ends AND NOT turns.summed_up)"""
"""What triggers decide on, over the open turns of a session."""


def pending_session(row: Row) -> PendingSession:
    """From `SESSION_COLUMNS` and `OPEN_COUNTS`."""
    user_id, project_id, agent_id, session_id, not_before, *counts = row
    waiting, rules_pending, remember, last_observed_at, unsummarised, ended = counts
    return PendingSession(
        scope=Scope(unpack(user_id), unpack(project_id), unpack(agent_id)),
        session_id=session_id,
        waiting=waiting or 0,
        rules_pending=rules_pending or 0,
        remember=bool(remember),
        last_observed_at=moment(last_observed_at),
        not_before=None if not_before is None else moment(not_before),
        unsummarised=unsummarised or 0,
        ended=bool(ended),
    )


def announce_end(connection: sqlite3.Connection, session: int) -> None:
    connection.execute(
        f"""UPDATE turns SET ends = 1 WHERE sequence = (
                SELECT max(turns.sequence) FROM turns INDEXED BY turns_open
                WHERE turns.session = ? AND turns.summed_up = 0 AND {OPEN})""",  # noqa: S608 - a constant
        (session,),
    )


class Ends:
    """Announces ends, and notes what is summed up, through one connection with an open write transaction."""

    def __init__(self, connection: sqlite3.Connection, digests: Digests) -> None:
        self._connection = connection
        self._digests = digests

    def end_session(self, scope: Scope, name: str) -> PendingSession | None:
        session = self._named(scope, name)
        if session is None:
            return None
        announce_end(self._connection, session)
        row = self._connection.execute(
            f"""SELECT {SESSION_COLUMNS}, {OPEN_COUNTS}
                FROM turns INDEXED BY turns_open JOIN sessions ON sessions.key = turns.session
                WHERE {OPEN} AND turns.session = ? AND turns.observed_at > sessions.buried""",  # noqa: S608 - constants
            (session,),
        ).fetchone()
        return pending_session(row if row[0] is not None else self._idle(session))

    def mark_episode(self, session: int, through: int) -> None:
        self._connection.execute(
            """UPDATE turns SET summed_up = 1
               WHERE session = ? AND sequence <= ? AND summed_up = 0 AND state <> 'incomplete'""",
            (session, through),
        )

    def _named(self, scope: Scope, name: str) -> int | None:
        """The owner's session that a client calls by that name, or whose id it is; with turns that may be seen."""
        ids = (
            *(self._digests.session_id(scope, kind, name) for kind in ("header", "conversation")),
            storable(name, MAX_SESSION_ID_CHARS),
        )
        for session_id in ids:
            row = self._connection.execute(
                """SELECT key FROM sessions WHERE id = ? AND user_id = ? AND EXISTS (
                       SELECT 1 FROM turns WHERE session = sessions.key AND observed_at > sessions.buried)""",
                (session_id, pack(scope.user_id)),
            ).fetchone()
            if row:
                return int(row[0])
        return None

    def _idle(self, session: int) -> Row:
        row: Row = self._connection.execute(
            f"""SELECT {SESSION_COLUMNS}, 0, 0, 0, max(turns.observed_at), 0, 0
                FROM sessions JOIN turns ON turns.session = sessions.key WHERE sessions.key = ?""",  # noqa: S608 - a constant
            (session,),
        ).fetchone()
        return row


def current_session(connection: sqlite3.Connection, claim: Claim) -> int | None:
    """The claimed session, None when the claim is no longer its current one."""
    row = connection.execute(
        "SELECT key FROM sessions WHERE id = ? AND user_id = ? AND token = ?",
        (claim.session_id, pack(claim.scope.user_id), claim.token),
    ).fetchone()
    return int(row[0]) if row else None
