"""Turns one by one, for the operator: looked at, and dead letters tried again."""

import sqlite3
from collections.abc import Sequence

import orjson

from semrouter_memory.model import LoggedTurn, Scope, TurnState
from semrouter_memory.sessions.columns import pack
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.turns import TurnReader


class Records:
    """Reads single turns through one connection."""

    def __init__(self, connection: sqlite3.Connection, digests: Digests) -> None:
        self._digests = digests
        self._turns = TurnReader(connection, digests)

    def list_turns(
        self, scope: Scope | None, states: frozenset[TurnState] | None, *, limit: int, before: int
    ) -> list[LoggedTurn]:
        return self._turns.select(
            """(? IS NULL OR sessions.user_id = ?) AND turns.state IN (SELECT value FROM json_each(?))
               AND (? <= 0 OR turns.sequence < ?)
               ORDER BY turns.sequence DESC LIMIT ?""",
            (
                *((pack(scope.user_id) if scope else None,) * 2),
                orjson.dumps(sorted(TurnState if states is None else states)).decode(),
                *((before,) * 2),
                max(limit, 0),
            ),
        )

    def get_turn(self, turn_id: str) -> LoggedTurn | None:
        sequence = self._digests.sequence(turn_id)
        return None if sequence is None else self._turns.by_sequence(sequence)


def retry(connection: sqlite3.Connection, digests: Digests, turn_ids: Sequence[str]) -> int:
    """Let dead letters wait again, their sessions without a back-off; needs an open write transaction."""
    retried = 0
    for sequence in {digests.sequence(turn_id) for turn_id in turn_ids}:
        row = connection.execute(
            "UPDATE turns SET state = ?, attempts = 0, error = '' WHERE sequence = ? AND state = ? RETURNING session",
            (TurnState.WAITING, sequence, TurnState.DEAD),
        ).fetchone()
        if row:
            retried += 1
            connection.execute("UPDATE sessions SET not_before = NULL WHERE key = ?", row)
    connection.execute("UPDATE counters SET dead_lettered = dead_lettered - ?", (retried,))
    return retried
