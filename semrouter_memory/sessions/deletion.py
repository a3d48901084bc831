"""How turns leave the log: with a deletion, or at the end of their retention.

Strategy. A turn goes with everything that could lead to it (its traces: a foreign key sees to that) and with its
contents (a trigger does), and a session with its last turn. Totals move in the same transaction: a waiting or
dead-lettered turn becomes a deleted one, a finished turn stays counted as what it was.

A whole scope may hold thousands of turns, and appends are not to wait for all of them. So a deletion first marks the
scope's sessions as `buried` up to its moment, along with the tombstone, in one small transaction: from then on no read
sees what they cover. The turns then go in batches; what a crash leaves of them goes at the next start, or sweep.

Every method needs an open write transaction.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from semrouter_memory.model import Reach, Scope, Tombstone, TurnState
from semrouter_memory.sessions.columns import Row, micros, moment, pack
from semrouter_memory.sessions.digests import Digests

SWEEP_BATCH = 200
"""Turns that one transaction of a sweep or of a scope's deletion takes, so that appends never wait long for it."""


def latest_time(connection: sqlite3.Connection, time: int) -> int:
    """The latest time that the log knows of, that one included."""
    (latest,) = connection.execute("UPDATE counters SET latest = max(latest, ?) RETURNING latest", (time,)).fetchone()
    return int(latest)


class Deletion:
    """Deletes through one connection."""

    def __init__(self, connection: sqlite3.Connection, digests: Digests) -> None:
        self._connection = connection
        self._digests = digests

    def bury(self, tombstone: Tombstone, turn_ids: Sequence[str]) -> int:
        """Returns the deletion's time: the tombstone's, or that of what was accepted last, if that is later."""
        at = latest_time(self._connection, micros(tombstone.at))
        tombstone = replace(tombstone, at=moment(at))
        if not tombstone.memory_id and tombstone.reach is Reach.ALL:
            self._drop_covered_tombstones(tombstone)
        self._insert(tombstone)
        self._delete(self._named(tombstone.scope, turn_ids))
        if not tombstone.memory_id:
            self._hide_covered(tombstone)
        return at

    def clear_buried(self) -> bool:
        """Delete one batch of the turns that deletions of scopes cover.

        Returns:
            Whether there may be more.
        """
        rows: list[Row] = self._connection.execute(
            """SELECT turns.sequence, turns.state, turns.session
               FROM sessions INDEXED BY sessions_buried JOIN turns ON turns.session = sessions.key
               WHERE sessions.buried > 0 AND turns.observed_at <= sessions.buried LIMIT ?""",
            (SWEEP_BATCH,),
        ).fetchall()
        self._delete(rows)
        if len(rows) == SWEEP_BATCH:
            return True
        self._connection.execute("UPDATE sessions SET buried = 0 WHERE buried > 0")
        return False

    def drop(self, turn_ids: Sequence[str]) -> int:
        """Delete turns that wait or are dead letters; returns how many."""
        rows: list[Row] = []
        for sequence in {self._digests.sequence(turn_id) for turn_id in turn_ids}:
            rows += self._connection.execute(
                "SELECT sequence, state, session FROM turns WHERE sequence = ? AND state IN (?, ?)",
                (sequence, TurnState.WAITING, TurnState.DEAD),
            ).fetchall()
        self._delete(rows)
        return len(rows)

    def sweep_turns(self, before: datetime) -> int:
        """Drop one batch of finished turns, and of incomplete ones that nobody completed; returns how many."""
        rows: list[Row] = self._connection.execute(
            "SELECT sequence, state, session FROM turns WHERE kept_since < ? LIMIT ?", (micros(before), SWEEP_BATCH)
        ).fetchall()
        self._delete(rows)
        return len(rows)

    def _insert(self, tombstone: Tombstone) -> None:
        self._connection.execute(
            """INSERT INTO tombstones (user_id, project_id, memory_id, content_hash, reach, at)
               VALUES (?, ?, ?, ?, ?, ?)""",
            (
                pack(tombstone.scope.user_id),
                pack(tombstone.scope.project_id),
                pack(tombstone.memory_id) or None,
                tombstone.content_hash,
                tombstone.reach,
                micros(tombstone.at),
            ),
        )

    def _drop_covered_tombstones(self, tombstone: Tombstone) -> None:
        """A deletion of everything says what the owner's earlier ones said.

        Nothing else ends a tombstone: a store that was away when it was written may still hold the row, for as long as
        nobody repeats the deletion.
        """
        self._connection.execute(
            "DELETE FROM tombstones WHERE user_id = ? AND at <= ?",
            (pack(tombstone.scope.user_id), micros(tombstone.at)),
        )

    def _named(self, scope: Scope, turn_ids: Sequence[str]) -> list[Row]:
        rows = []
        for sequence in {self._digests.sequence(turn_id) for turn_id in turn_ids}:
            rows += self._connection.execute(
                """SELECT turns.sequence, turns.state, turns.session
                   FROM turns JOIN sessions ON sessions.key = turns.session
                   WHERE turns.sequence = ? AND sessions.user_id = ?""",
                (sequence, pack(scope.user_id)),
            ).fetchall()
        return rows

    def _hide_covered(self, tombstone: Tombstone) -> None:
        self._connection.execute(
            """UPDATE sessions SET buried = max(buried, ?)
               WHERE user_id = ? AND (? = ? OR project_id = ?)""",
            (
                micros(tombstone.at),
                pack(tombstone.scope.user_id),
                tombstone.reach,
                Reach.ALL,
                pack(tombstone.scope.project_id),
            ),
        )

    def _delete(self, rows: Sequence[Row]) -> None:
        """Delete turns, given as (sequence, state, session)."""
        if not rows:
            return
        states = [state for _, state, _ in rows]
        waiting, dead = states.count(TurnState.WAITING), states.count(TurnState.DEAD)
        self._connection.executemany("DELETE FROM turns WHERE sequence = ?", [(sequence,) for sequence, _, _ in rows])
        self._connection.execute(
            "UPDATE counters SET deleted = deleted + ?, dead_lettered = dead_lettered - ?", (waiting + dead, dead)
        )
        self._connection.executemany(
            "DELETE FROM sessions WHERE key = ? AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.key)",
            [(session,) for session in {session for _, _, session in rows}],
        )
