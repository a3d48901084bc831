"""The append of one turn: what happens inside its transaction, in order.

forgotten? -> session, chain -> the same again? -> take over an incomplete turn -> write.

Strategy for incomplete turns (the answer was only tool calls, and the server keeps the conversation): a step of the
tool loop that goes on from one absorbs it, user texts and tools, so a chain of any length is one row and a step that
is tried twice finds the words either way. The last step, with the answer, is the turn that is accepted.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from semrouter_memory.model import Appended, AppendOutcome, Reach, Scope, Turn, TurnState
from semrouter_memory.ports import NewId
from semrouter_memory.sessions.columns import (
    dump_items,
    micros,
    pack,
    storable,
    storable_texts,
    storable_tools,
)
from semrouter_memory.sessions.contents import Content, Contents
from semrouter_memory.sessions.digests import Digests, new_session_id
from semrouter_memory.sessions.ends import announce_end
from semrouter_memory.sessions.identify import Identification, Parent

_MAX_MODEL_CHARS = 128


@dataclass(frozen=True, slots=True)
class _Row:
    """What is written of a turn, together with what it took over from an incomplete one.

    Attributes:
        previous: digest of the response that the items go on from; b"" when they begin a conversation, None when that
            is not known.
    """

    content: Content
    observed_at: int
    remember: bool
    ends: bool
    parent: int | None
    previous: bytes | None


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
        self._contents = Contents(connection)
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
        row = self._row(turn, texts, remember=remember, parent=parent, absorbed=absorbed)
        sequence, contents = self._next_sequence(accepted=turn.complete, observed_at=micros(turn.observed_at))
        self._insert(turn, row, session, sequence)
        self._contents.insert(contents, sequence, row.content)
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
        learned, _ = self._next_sequence(accepted=False, observed_at=micros(turn.observed_at))
        self._learn(turn, sequence, learned, ())
        self._contents.learn_transcripts(sequence, turn.transcript_hashes)
        session, session_id = self._connection.execute(
            "SELECT sessions.key, sessions.id FROM turns JOIN sessions ON sessions.key = turns.session WHERE sequence = ?",
            (sequence,),
        ).fetchone()
        if turn.ends_session:
            announce_end(self._connection, session)
        return Appended(AppendOutcome.DUPLICATE, session_id, self._digests.turn_id(sequence))

    def _row(
        self, turn: Turn, texts: Sequence[str], *, remember: bool, parent: Parent | None, absorbed: Parent | None
    ) -> _Row:
        row = _Row(
            content=Content(
                tools=storable_tools(turn.tools),
                user_texts=texts,
                assistant_text=storable(turn.assistant_text, self._max_turn_chars),
                transcripts=turn.transcript_hashes if turn.complete else (),
                items=dump_items(turn.items, self._max_turn_chars),
            ),
            observed_at=micros(turn.observed_at),
            remember=remember,
            ends=turn.ends_session,
            parent=parent.sequence if parent else None,
            previous=self._previous(turn),
        )
        return row if absorbed is None else self._continued(row, turn, absorbed.sequence)

    def _continued(self, row: _Row, turn: Turn, absorbed: int) -> _Row:
        """The row of a turn that goes on from an incomplete one."""
        observed_at, remember, ends, parent, previous, response = self._connection.execute(
            "SELECT observed_at, remember, ends, parent, previous, response FROM turns WHERE sequence = ?", (absorbed,)
        ).fetchone()
        before = self._contents.get(absorbed)
        # A step that is tried twice goes on from the response before the last one: the items would hold it twice.
        in_order = not turn.hints.previous_response_id or row.previous == response
        content = replace(
            row.content,
            tools=storable_tools((*before.tools, *row.content.tools)),
            user_texts=storable_texts((*before.user_texts, *row.content.user_texts), self._max_turn_chars),
            items=self._joined_items(before, row.content) if in_order else None,
        )
        return _Row(
            content=content,
            # When the words were said: a deletion in between must find them older than itself.
            observed_at=min(observed_at, row.observed_at),
            remember=row.remember or bool(remember),
            ends=row.ends or bool(ends),
            parent=parent,
            previous=previous,
        )

    def _joined_items(self, before: Content, after: Content) -> bytes | None:
        first, second = before.parsed_items, after.parsed_items
        return None if first is None or second is None else dump_items((*first, *second), self._max_turn_chars)

    def _previous(self, turn: Turn) -> bytes | None:
        hints = turn.hints
        if hints.previous_response_id:
            return self._identification.response(turn.scope, hints.previous_response_id)
        # What a conversation held before is with the server.
        return None if hints.conversation_id else b""

    def _new_session(self, scope: Scope, session_id: str) -> int:
        cursor = self._connection.execute(
            "INSERT INTO sessions (id, user_id, project_id, agent_id) VALUES (?, ?, ?, ?)",
            (session_id, pack(scope.user_id), pack(scope.project_id), pack(scope.agent_id)),
        )
        return cursor.lastrowid or 0

    def _next_sequence(self, *, accepted: bool, observed_at: int) -> tuple[int, int]:
        """The next sequence number, and the table that takes new contents."""
        sequence, contents = self._connection.execute(
            """UPDATE counters SET last_sequence = last_sequence + 1, accepted = accepted + ?, latest = max(latest, ?)
               RETURNING last_sequence, contents""",
            (accepted, observed_at),
        ).fetchone()
        return sequence, contents

    def _insert(self, turn: Turn, row: _Row, session: int, sequence: int) -> None:
        response = self._identification.response(turn.scope, turn.response_id) if turn.response_id else None
        self._connection.execute(
            """INSERT INTO turns (sequence, session, parent, state, observed_at, kept_since, remember, ends, model,
                   response, previous) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                sequence,
                session,
                row.parent,
                TurnState.WAITING if turn.complete else TurnState.INCOMPLETE,
                row.observed_at,
                None if turn.complete else row.observed_at,
                row.remember,
                row.ends,
                storable(turn.model, _MAX_MODEL_CHARS),
                response,
                row.previous,
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
