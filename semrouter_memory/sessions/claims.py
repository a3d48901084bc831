"""Pending sessions, claims on them, and how a claim ends.

Strategy. A claim is a lease with a fencing token in the session's row. Every write of a claim first asks, in the same
transaction, whether its token still stands there: a claim that was taken over, or whose session was deleted, changes
nothing. The end of the lease alone takes nothing away; only another claim does. Methods that write need an open write
transaction.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from semrouter_memory.model import Claim, LoggedTurn, PendingSession, Scope, TurnState, TurnTotals
from semrouter_memory.ports import NewId
from semrouter_memory.sessions.columns import (
    LOGGED_TURN,
    logged_turn,
    micros,
    moment,
    pack,
    storable,
    unpack,
)
from semrouter_memory.sessions.digests import Digests

_MAX_ERROR_CHARS = 200


class Claims:
    """Reads and ends waiting turns through one connection."""

    def __init__(self, connection: sqlite3.Connection, digests: Digests, *, new_id: NewId) -> None:
        self._connection = connection
        self._digests = digests
        self._new_id = new_id

    # -- looking -------------------------------------------------------------------------------------------------------

    def pending(self, now: datetime) -> list[PendingSession]:
        # INDEXED BY: by itself SQLite would rather walk through every turn of the retention time.
        rows = self._connection.execute(
            """SELECT sessions.user_id, sessions.project_id, sessions.agent_id, sessions.id, sessions.not_before,
                      count(*), sum(1 - turns.rules_done), max(turns.remember), max(turns.observed_at)
               FROM turns INDEXED BY turns_waiting JOIN sessions ON sessions.key = turns.session
               WHERE turns.state = 'waiting' AND (sessions.token IS NULL OR sessions.lease_until <= ?)
               GROUP BY turns.session ORDER BY min(turns.sequence)""",
            (micros(now),),
        ).fetchall()
        return [
            PendingSession(
                scope=Scope(unpack(user_id), unpack(project_id), unpack(agent_id)),
                session_id=session_id,
                waiting=waiting,
                rules_pending=rules_pending,
                remember=bool(remember),
                last_observed_at=moment(last_observed_at),
                not_before=None if not_before is None else moment(not_before),
            )
            for (
                user_id,
                project_id,
                agent_id,
                session_id,
                not_before,
                waiting,
                rules_pending,
                remember,
                last_observed_at,
            ) in rows
        ]

    def totals(self) -> TurnTotals:
        accepted, extracted, empty, dead_lettered, deleted, waiting = self._connection.execute(
            """SELECT accepted, extracted, empty, dead_lettered, deleted,
                      (SELECT count(*) FROM turns INDEXED BY turns_waiting WHERE state = 'waiting') FROM counters"""
        ).fetchone()
        return TurnTotals(
            accepted=accepted,
            extracted=extracted,
            empty=empty,
            dead_lettered=dead_lettered,
            deleted=deleted,
            waiting=waiting,
        )

    # -- claiming ------------------------------------------------------------------------------------------------------

    def claim(self, scope: Scope, session_id: str, *, now: datetime, lease: timedelta, context: int) -> Claim | None:
        row = self._connection.execute(
            """SELECT key, project_id, agent_id FROM sessions
               WHERE id = ? AND user_id = ? AND (token IS NULL OR lease_until <= ?)""",
            (session_id, pack(scope.user_id), micros(now)),
        ).fetchone()
        if row is None:
            return None
        session, project_id, agent_id = row
        own_scope = Scope(scope.user_id, unpack(project_id), unpack(agent_id))
        turns = self._turns("state = 'waiting' ORDER BY sequence", (session,), own_scope, session_id)
        if not turns:
            return None
        before = self._turns(
            "sequence < ? AND state <> 'incomplete' ORDER BY sequence DESC LIMIT ?",
            (session, turns[0].sequence, context),
            own_scope,
            session_id,
        )
        token = self._new_id()
        self._connection.execute(
            "UPDATE sessions SET token = ?, lease_until = ? WHERE key = ?", (token, micros(now + lease), session)
        )
        return Claim(
            scope=own_scope, session_id=session_id, token=token, turns=tuple(turns), context=tuple(before[::-1])
        )

    def surviving(self, claim: Claim) -> frozenset[str]:
        session = self._current(claim)
        if session is None:
            return frozenset()
        rows = self._connection.execute(
            "SELECT sequence FROM turns WHERE session = ? AND state = 'waiting'", (session,)
        ).fetchall()
        waiting = {sequence for (sequence,) in rows}
        return frozenset(turn.id for turn in claim.turns if turn.sequence in waiting)

    def mark_rules_done(self, claim: Claim, turn_ids: Sequence[str]) -> None:
        session = self._current(claim)
        if session is not None:
            self._connection.executemany(
                "UPDATE turns SET rules_done = 1 WHERE sequence = ? AND session = ?",
                [(turn.sequence, session) for turn in claim.turns if turn.id in turn_ids],
            )

    # -- ending a claim ------------------------------------------------------------------------------------------------

    def finish(self, claim: Claim, outcomes: Mapping[str, bool], *, now: datetime) -> None:
        session = self._current(claim)
        if session is None:
            return
        ended = {TurnState.EXTRACTED: 0, TurnState.EMPTY: 0}
        for turn in claim.turns:
            if turn.id not in outcomes:
                continue
            state = TurnState.EXTRACTED if outcomes[turn.id] else TurnState.EMPTY
            ended[state] += self._connection.execute(
                """UPDATE turns SET state = ?, kept_since = ?, rules_done = 1
                   WHERE sequence = ? AND session = ? AND state = 'waiting'""",
                (state, micros(now), turn.sequence, session),
            ).rowcount
        self._connection.execute(
            "UPDATE counters SET extracted = extracted + ?, empty = empty + ?",
            (ended[TurnState.EXTRACTED], ended[TurnState.EMPTY]),
        )
        self._give_back(session, None)

    def fail(self, claim: Claim, error: str, *, retry_at: datetime, max_attempts: int) -> int:
        session = self._current(claim)
        if session is None:
            return 0
        reason = storable(error, _MAX_ERROR_CHARS)
        self._connection.executemany(
            "UPDATE turns SET attempts = attempts + 1, error = ? WHERE sequence = ? AND session = ? AND state = 'waiting'",
            [(reason, turn.sequence, session) for turn in claim.turns],
        )
        dead = self._connection.execute(
            "UPDATE turns SET state = ? WHERE session = ? AND state = 'waiting' AND attempts >= ?",
            (TurnState.DEAD, session, max_attempts),
        ).rowcount
        self._connection.execute("UPDATE counters SET dead_lettered = dead_lettered + ?", (dead,))
        (waiting,) = self._connection.execute(
            "SELECT EXISTS (SELECT 1 FROM turns WHERE session = ? AND state = 'waiting')", (session,)
        ).fetchone()
        # Turns that come after the dead ones have not failed yet.
        self._give_back(session, micros(retry_at) if waiting else None)
        return dead

    def release(self, claim: Claim) -> None:
        session = self._current(claim)
        if session is not None:
            self._connection.execute("UPDATE sessions SET token = NULL, lease_until = NULL WHERE key = ?", (session,))

    def _give_back(self, session: int, not_before: int | None) -> None:
        self._connection.execute(
            "UPDATE sessions SET token = NULL, lease_until = NULL, not_before = ? WHERE key = ?", (not_before, session)
        )

    def _current(self, claim: Claim) -> int | None:
        """The claimed session, None when the claim is no longer its current one."""
        row = self._connection.execute(
            "SELECT key FROM sessions WHERE id = ? AND user_id = ? AND token = ?",
            (claim.session_id, pack(claim.scope.user_id), claim.token),
        ).fetchone()
        return int(row[0]) if row else None

    def _turns(self, which: str, arguments: Sequence[int], scope: Scope, session_id: str) -> list[LoggedTurn]:
        rows = self._connection.execute(
            f"SELECT {LOGGED_TURN} FROM turns WHERE session = ? AND {which}",  # noqa: S608 - two constants
            arguments,
        ).fetchall()
        return [logged_turn(row, self._digests.turn_id(row[0]), scope, session_id) for row in rows]
