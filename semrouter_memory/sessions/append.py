"""The append of one turn: what happens inside its transaction, in order.

forgotten? -> session, chain -> the same again? -> take over an incomplete turn -> write.

Strategy for incomplete turns (the answer was only tool calls, and the server keeps the conversation): a step of the
tool loop that goes on from one absorbs it, user texts and tools, so a chain of any length is one row and a step that
is tried twice finds the words either way. The last step, with the answer, is the turn that is accepted.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.model import Appended, AppendOutcome, Reach, Scope, ToolUse, Turn, TurnState
from semrouter_memory.ports import NewId
from semrouter_memory.sessions.columns import (
    dump_texts,
    dump_tools,
    load_texts,
    load_tools,
    micros,
    pack,
    storable,
    storable_texts,
    storable_tools,
)
from semrouter_memory.sessions.digests import Digests, new_session_id
from semrouter_memory.sessions.identify import Identification, Parent

_MAX_MODEL_CHARS = 128


@dataclass(frozen=True, slots=True)
class _Content:
    """What is written of a turn, together with what it took over."""

    texts: Sequence[str]
    tools: Sequence[ToolUse]
    observed_at: int
    remember: bool
    parent: int | None


class Appending:
    """Appends turns through one connection; every call needs an open write transaction.

    Args:
        max_turn_chars: bound on a turn's user texts together, and on its answer.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        digests: Digests,
        identification: Identification,
        *,
        new_id: NewId,
        max_turn_chars: int,
    ) -> None:
        self._connection = connection
        self._digests = digests
        self._identification = identification
        self._new_id = new_id
        self._max_turn_chars = max_turn_chars

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        if self._forgotten(turn):
            return Appended(AppendOutcome.FORGOTTEN)
        parent = self._identification.parent(turn.scope, turn.hints.previous_response_id)
        place = self._identification.place(turn, parent)
        session = self._identification.session_key(turn.scope, place.session_id) if place.session_id else None
        absorbed = self._absorbed(turn, parent, session)
        texts = storable_texts(turn.user_texts, self._max_turn_chars)
        # Texts that differ only beyond the cut differ in length at least.
        said = (*texts, str(sum(map(len, turn.user_texts))))
        marks = self._identification.request_marks(turn, said)
        newest = self._identification.newest_sequence(session) if session else 0
        mark = self._identification.place_mark(turn, place, said, newest)
        if turn.complete and absorbed is None:
            again = self._identification.seen([*marks, mark] if mark else marks)
            if again is not None:
                return self._repeated(again, turn)
        session_id = place.session_id or new_session_id(self._new_id())
        if session is None:
            session = self._new_session(turn.scope, session_id)
        content = self._content(turn, texts, remember=remember, parent=parent, absorbed=absorbed)
        sequence = self._next_sequence(accepted=turn.complete)
        self._insert(turn, content, session, sequence)
        if absorbed is not None:
            self._replace(absorbed, sequence)
        if turn.complete:
            own_mark = self._identification.place_mark(turn, place, said, sequence)
            marks = [*marks, own_mark] if own_mark else marks
        self._learn(turn, sequence, sequence, marks if turn.complete else ())
        outcome = AppendOutcome.ACCEPTED if turn.complete else AppendOutcome.INCOMPLETE
        return Appended(outcome, session_id, self._digests.turn_id(sequence))

    def _forgotten(self, turn: Turn) -> bool:
        """Whether the turn's scope was deleted after the turn had begun."""
        return (
            self._connection.execute(
                """SELECT 1 FROM tombstones WHERE user_id = ? AND memory_id IS NULL AND at >= ?
                   AND (reach = ? OR project_id = ?) LIMIT 1""",
                (pack(turn.scope.user_id), micros(turn.observed_at), Reach.ALL, pack(turn.scope.project_id)),
            ).fetchone()
            is not None
        )

    def _absorbed(self, turn: Turn, parent: Parent | None, session: int | None) -> Parent | None:
        """The incomplete turn that this one goes on from."""
        if parent is not None:
            return parent if parent.incomplete and parent.same_scope else None
        # With texts it may as well be a second attempt at the open turn, whose words would then be in it twice.
        if turn.hints.conversation_id and session is not None and not any(turn.user_texts):
            return self._identification.open_turn(turn.scope, session)
        return None

    def _repeated(self, sequence: int, turn: Turn) -> Appended:
        self._learn(turn, sequence, self._next_sequence(accepted=False), ())
        (session_id,) = self._connection.execute(
            "SELECT sessions.id FROM turns JOIN sessions ON sessions.key = turns.session WHERE sequence = ?",
            (sequence,),
        ).fetchone()
        return Appended(AppendOutcome.DUPLICATE, session_id, self._digests.turn_id(sequence))

    def _content(
        self, turn: Turn, texts: Sequence[str], *, remember: bool, parent: Parent | None, absorbed: Parent | None
    ) -> _Content:
        observed_at = micros(turn.observed_at)
        if absorbed is None:
            return _Content(texts, turn.tools, observed_at, remember, parent.sequence if parent else None)
        row = self._connection.execute(
            "SELECT user_texts, tools, observed_at, remember, parent FROM turns WHERE sequence = ?",
            (absorbed.sequence,),
        ).fetchone()
        return _Content(
            storable_texts((*load_texts(row[0]), *texts), self._max_turn_chars),
            (*load_tools(row[1]), *turn.tools),
            # When the words were said: a deletion in between must find them older than itself.
            min(row[2], observed_at),
            remember or bool(row[3]),
            row[4],
        )

    def _new_session(self, scope: Scope, session_id: str) -> int:
        cursor = self._connection.execute(
            "INSERT INTO sessions (id, user_id, project_id, agent_id) VALUES (?, ?, ?, ?)",
            (session_id, pack(scope.user_id), pack(scope.project_id), pack(scope.agent_id)),
        )
        return cursor.lastrowid or 0

    def _next_sequence(self, *, accepted: bool) -> int:
        (sequence,) = self._connection.execute(
            """UPDATE counters SET last_sequence = last_sequence + 1, accepted = accepted + ?
               RETURNING last_sequence""",
            (accepted,),
        ).fetchone()
        return int(sequence)

    def _insert(self, turn: Turn, content: _Content, session: int, sequence: int) -> None:
        self._connection.execute(
            """INSERT INTO turns (sequence, session, parent, state, observed_at, kept_since, remember, model, tools,
                   user_texts, assistant_text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                sequence,
                session,
                content.parent,
                TurnState.WAITING if turn.complete else TurnState.INCOMPLETE,
                content.observed_at,
                None if turn.complete else content.observed_at,
                content.remember,
                storable(turn.model, _MAX_MODEL_CHARS),
                dump_tools(storable_tools(content.tools)),
                dump_texts(content.texts),
                storable(turn.assistant_text, self._max_turn_chars),
            ),
        )

    def _learn(self, turn: Turn, sequence: int, learned: int, marks: Sequence[bytes]) -> None:
        """By what later turns find that one: as the same again (marks), or as what they go on from."""
        traces = set(marks)
        if turn.complete:
            traces.update(self._identification.transcript(turn.scope, value) for value in turn.transcript_hashes)
        if turn.response_id:
            traces.add(self._identification.response(turn.scope, turn.response_id))
        self._connection.executemany(
            "INSERT INTO traces (digest, learned, turn) VALUES (?, ?, ?)",
            [(digest, learned, sequence) for digest in traces],
        )

    def _replace(self, absorbed: Parent, sequence: int) -> None:
        # The response ids of the absorbed turn lead to this one from now on.
        self._connection.execute("UPDATE traces SET turn = ? WHERE turn = ?", (sequence, absorbed.sequence))
        self._connection.execute("DELETE FROM turns WHERE sequence = ?", (absorbed.sequence,))
        # A session header that changed within the loop leaves an empty session behind.
        self._connection.execute(
            "DELETE FROM sessions WHERE id = ? AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.key)",
            (absorbed.session_id,),
        )
