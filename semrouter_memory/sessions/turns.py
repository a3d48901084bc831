"""Reads whole turns, with their contents, for whoever extracts, shows or continues them.

Strategy. Every read leaves out what was said before its scope was deleted: the deletion of a large scope takes many
transactions, and nothing of it may be seen in between.
"""

import sqlite3
from collections.abc import Sequence

from semrouter_memory.model import LoggedTurn, Scope, TurnState, joined
from semrouter_memory.sessions.columns import Row, moment, unpack
from semrouter_memory.sessions.contents import COLUMNS, JOIN, Content
from semrouter_memory.sessions.digests import Digests

_SELECT = f"""SELECT turns.sequence, sessions.user_id, sessions.project_id, sessions.agent_id, sessions.id,
                     turns.observed_at, turns.model, turns.state, turns.rules_done, turns.attempts, turns.error, {COLUMNS}
              FROM turns JOIN sessions ON sessions.key = turns.session {JOIN}
              WHERE turns.observed_at > sessions.buried AND """  # noqa: S608 - constants
_OWN_COLUMNS = 11


class TurnReader:
    """Reads turns through one connection."""

    def __init__(self, connection: sqlite3.Connection, digests: Digests) -> None:
        self._connection = connection
        self._digests = digests

    def select(self, condition: str, arguments: Sequence[object]) -> list[LoggedTurn]:
        """Turns that meet the condition, which is ours to write: over `turns` and `sessions`, order and limit included."""
        return [self._logged(row) for row in self._connection.execute(_SELECT + condition, tuple(arguments)).fetchall()]

    def by_sequence(self, sequence: int) -> LoggedTurn | None:
        turns = self.select("turns.sequence = ?", (sequence,))
        return turns[0] if turns else None

    def _logged(self, row: Row) -> LoggedTurn:
        sequence, user_id, project_id, agent_id, session_id, observed_at, model, state, rules_done, attempts, error = (
            row[:_OWN_COLUMNS]
        )
        content = Content.of(row[_OWN_COLUMNS:])
        return LoggedTurn(
            id=self._digests.turn_id(sequence),
            sequence=sequence,
            scope=Scope(unpack(user_id), unpack(project_id), unpack(agent_id)),
            session_id=session_id,
            user_text=joined(content.user_texts),
            assistant_text=content.assistant_text,
            observed_at=moment(observed_at),
            model=model,
            tools=tuple(content.tools),
            state=TurnState(state),
            rules_done=bool(rules_done),
            attempts=attempts,
            error=error,
            transcript_hashes=tuple(content.transcripts),
            items=content.parsed_items,
        )
