"""Pending sessions, claims on them, and how a claim ends.

Strategy. A claim is a lease with a fencing token in the session's row. Every write of a claim first asks, in the same
transaction, whether its token still stands there: a claim that was taken over, or whose session was deleted, changes
nothing. The end of the lease alone takes nothing away; only another claim does. Methods that write need an open write
transaction.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from semrouter_memory.model import Claim, LoggedTurn, PendingSession, Scope, TurnState, TurnTotals
from semrouter_memory.ports import NewId
from semrouter_memory.sessions.columns import micros, moment, pack, storable, unpack
from semrouter_memory.sessions.contents import Contents
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.ends import OPEN_COUNTS, SESSION_COLUMNS, Ends, current_session, pending_session
from semrouter_memory.sessions.leases import LONGEST_BACK_OFF, USUAL_LEASE, back_off, claimed, latest_end
from semrouter_memory.sessions.schema import OPEN
from semrouter_memory.sessions.turns import TurnReader

_MAX_ERROR_CHARS = 200


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim whose turns are not read yet.

    Attributes:
        session: the session's key.
        sequences: the waiting turns that it holds, oldest first.
    """

    claim: Claim
    session: int
    sequences: tuple[int, ...]


class Claims:
    """Reads and ends waiting turns through one connection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        digests: Digests,
        *,
        new_id: NewId,
        longest_back_off: timedelta = LONGEST_BACK_OFF,
    ) -> None:
        self._connection = connection
        self._contents = Contents(connection)
        self._turns = TurnReader(connection, digests)
        self._ends = Ends(connection, digests)
        self._new_id = new_id
        self._longest_back_off = longest_back_off
        self._lease = USUAL_LEASE

    # -- looking -------------------------------------------------------------------------------------------------------

    def pending(self, now: datetime) -> list[PendingSession]:
        # INDEXED BY: by itself SQLite would rather walk through every turn of the retention time.
        rows = self._connection.execute(
            f"""SELECT {SESSION_COLUMNS}, {OPEN_COUNTS}
                FROM turns INDEXED BY turns_open JOIN sessions ON sessions.key = turns.session
                WHERE {OPEN} AND turns.observed_at > sessions.buried
                    AND (sessions.token IS NULL OR sessions.lease_until <= ? OR sessions.lease_until > ?)
                GROUP BY turns.session
                ORDER BY min(CASE WHEN turns.state = 'waiting' THEN turns.sequence END) NULLS LAST,
                    min(turns.sequence)""",  # noqa: S608 - constants
            (micros(now), latest_end(now=micros(now), lease=self._lease)),
        ).fetchall()
        sessions = (pending_session(row) for row in rows)
        return [replace(each, not_before=self._back_off(each.not_before, now)) for each in sessions]

    def _back_off(self, not_before: datetime | None, now: datetime) -> datetime | None:
        until = None if not_before is None else micros(not_before)
        return not_before if back_off(until, now=micros(now), longest=self._longest_back_off) is not None else None

    def latest_time(self) -> int:
        """Of a turn or deletion, in microseconds since 1970."""
        (latest,) = self._connection.execute("SELECT latest FROM counters").fetchone()
        return int(latest)

    def totals(self) -> TurnTotals:
        accepted, extracted, empty, dead_lettered, deleted, waiting = self._connection.execute(
            f"""SELECT accepted, extracted, empty, dead_lettered, deleted,
                      (SELECT count(*) FROM turns INDEXED BY turns_open WHERE state = 'waiting' AND {OPEN})
                FROM counters"""  # noqa: S608 - a constant
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

    def claim(self, scope: Scope, session_id: str, *, now: datetime, lease: timedelta) -> Claimed | None:
        """Only the claim itself; `whole` reads what was said, which no writer has to wait for."""
        self._lease = lease
        row = self._connection.execute(
            """SELECT key, project_id, agent_id, not_before FROM sessions
               WHERE id = ? AND user_id = ? AND (token IS NULL OR lease_until <= ? OR lease_until > ?)""",
            (session_id, pack(scope.user_id), micros(now), latest_end(now=micros(now), lease=lease)),
        ).fetchone()
        if row is None:
            return None
        session, project_id, agent_id, not_before = row
        unsummarised, ended = self._open_end(session)
        waiting = self._waiting(session)
        if not waiting and not unsummarised:
            return None
        token = self._new_id()
        self._connection.execute(
            "UPDATE sessions SET token = ?, lease_until = ? WHERE key = ?", (token, micros(now + lease), session)
        )
        claim = Claim(
            scope=Scope(scope.user_id, unpack(project_id), unpack(agent_id)),
            session_id=session_id,
            token=token,
            turns=(),
            ended=ended,
            unsummarised=unsummarised,
            not_before=self._back_off(None if not_before is None else moment(not_before), now),
        )
        return Claimed(claim, session, tuple(waiting))

    def whole(self, taken: Claimed, *, context: int) -> Claim:
        """The claim with its turns, and those before them; needs no transaction."""
        if not taken.sequences:
            return taken.claim
        marks = ", ".join("?" * len(taken.sequences))
        turns = self._turns.select(
            f"turns.session = ? AND turns.state = 'waiting' AND turns.sequence IN ({marks}) ORDER BY turns.sequence",
            (taken.session, *taken.sequences),
        )
        before = self._before(taken.sequences[0], taken.session, context)
        return replace(taken.claim, turns=tuple(turns), context=before)

    def _waiting(self, session: int) -> list[int]:
        rows = self._connection.execute(
            f"""SELECT turns.sequence, turns.rules_done
                FROM turns INDEXED BY turns_open JOIN sessions ON sessions.key = turns.session
                WHERE {OPEN} AND turns.session = ? AND turns.state = 'waiting'
                    AND turns.observed_at > sessions.buried ORDER BY turns.sequence""",  # noqa: S608 - a constant
            (session,),
        ).fetchall()
        return claimed((sequence, bool(rules_done)) for sequence, rules_done in rows)

    def _open_end(self, session: int) -> tuple[int, bool]:
        """How many turns are not summed up, and whether the end was announced with one of them."""
        unsummarised, ended = self._connection.execute(
            f"""SELECT count(*), max(turns.ends)
                FROM turns INDEXED BY turns_open JOIN sessions ON sessions.key = turns.session
                WHERE {OPEN} AND turns.session = ? AND turns.summed_up = 0
                    AND turns.observed_at > sessions.buried""",  # noqa: S608 - a constant
            (session,),
        ).fetchone()
        return unsummarised, bool(ended)

    def _before(self, first: int, session: int, limit: int) -> tuple[LoggedTurn, ...]:
        before = self._turns.select(
            """turns.session = ? AND turns.sequence < ? AND turns.state <> 'incomplete'
               ORDER BY turns.sequence DESC LIMIT ?""",
            (session, first, max(limit, 0)),
        )
        return tuple(before[::-1])

    def session_turns(self, claim: Claim, limit: int) -> tuple[LoggedTurn, ...]:
        session = current_session(self._connection, claim)
        if session is None:
            return ()
        last = self._turns.select(
            "turns.session = ? AND turns.state <> 'incomplete' ORDER BY turns.sequence DESC LIMIT ?",
            (session, max(limit, 0)),
        )
        return tuple(last[::-1])

    def surviving(self, claim: Claim) -> frozenset[str]:
        session = current_session(self._connection, claim)
        if session is None:
            return frozenset()
        rows = self._connection.execute(
            """SELECT turns.sequence FROM turns JOIN sessions ON sessions.key = turns.session
               WHERE turns.session = ? AND turns.state = 'waiting' AND turns.observed_at > sessions.buried""",
            (session,),
        ).fetchall()
        waiting = {sequence for (sequence,) in rows}
        return frozenset(turn.id for turn in claim.turns if turn.sequence in waiting)

    def renew(self, claim: Claim, *, now: datetime, lease: timedelta) -> bool:
        session = current_session(self._connection, claim)
        if session is not None:
            self._connection.execute(
                "UPDATE sessions SET lease_until = ? WHERE key = ?", (micros(now + lease), session)
            )
        return session is not None

    def mark_rules_done(self, claim: Claim, turn_ids: Sequence[str]) -> None:
        session = current_session(self._connection, claim)
        if session is not None:
            self._connection.executemany(
                "UPDATE turns SET rules_done = 1 WHERE sequence = ? AND session = ?",
                [(turn.sequence, session) for turn in claim.turns if turn.id in turn_ids],
            )

    def mark_episode(self, claim: Claim, through: int) -> None:
        session = current_session(self._connection, claim)
        if session is not None:
            self._ends.mark_episode(session, through)

    # -- ending a claim ------------------------------------------------------------------------------------------------

    def finish(self, claim: Claim, outcomes: Mapping[str, bool], *, now: datetime) -> None:
        session = current_session(self._connection, claim)
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
        self._contents.erase_finished(session, [turn.sequence for turn in claim.turns if turn.id in outcomes])
        self._connection.execute(
            "UPDATE counters SET extracted = extracted + ?, empty = empty + ?",
            (ended[TurnState.EXTRACTED], ended[TurnState.EMPTY]),
        )
        self._give_back(session, None)

    def fail(self, claim: Claim, error: str, *, retry_at: datetime, max_attempts: int) -> int:
        session = current_session(self._connection, claim)
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
        # Turns that come after the dead ones have not failed yet. A claim without turns failed over its episode.
        self._give_back(session, micros(retry_at) if waiting or not claim.turns else None)
        return dead

    def release(self, claim: Claim) -> None:
        session = current_session(self._connection, claim)
        if session is not None:
            self._connection.execute("UPDATE sessions SET token = NULL, lease_until = NULL WHERE key = ?", (session,))

    def _give_back(self, session: int, not_before: int | None) -> None:
        self._connection.execute(
            "UPDATE sessions SET token = NULL, lease_until = NULL, not_before = ? WHERE key = ?", (not_before, session)
        )
