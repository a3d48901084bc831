"""The arrival of one turn in Redis: what happens inside its transaction, in order.

arrived before? -> forgotten? -> session, chain -> the same again? -> take over an incomplete turn -> write.

The rules are those of `sessions/append.py`. A turn that comes out as a repetition is dropped: it never was a second
turn. One that was said before a deletion of its scope was accepted and is deleted, and is counted as both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from semrouter_memory.model import Appended, AppendOutcome, Scope, Turn, TurnState
from semrouter_memory.ports import NewId
from semrouter_memory.sessions.columns import dump_items, load_items, micros, storable_texts, storable_tools
from semrouter_memory.sessions.digests import new_session_id
from semrouter_memory.sessions.identify import Parent, Place
from semrouter_memory.sessions.redis.connection import RedisConnection
from semrouter_memory.sessions.redis.identify import Identification
from semrouter_memory.sessions.redis.ledger import Ledger
from semrouter_memory.sessions.redis.payload import Spooled, load
from semrouter_memory.sessions.redis.rows import Content, SessionRow, TurnRow
from semrouter_memory.sessions.redis.spool import Parcel
from semrouter_memory.sessions.redis.tombstones import DeletedReader, deleted_since
from semrouter_memory.sessions.redis.transaction import Changes, Transactions

_RUN_SECONDS = 90 * 86_400
"""How long Redis remembers a run of a spool that ships nothing: a sidecar that was off for longer may repeat a turn."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of a turn's surroundings."""

    parent: Parent | None
    place: Place
    session: SessionRow | None
    absorbed: TurnRow | None
    marks: tuple[str, ...]


class Arrivals:
    """Takes parcels in.

    Args:
        max_turn_chars: bound on a turn's user texts together, those of an absorbed turn included.
    """

    def __init__(
        self,
        connection: RedisConnection,
        ledger: Ledger,
        transactions: Transactions,
        deleted: DeletedReader,
        *,
        new_id: NewId,
        max_turn_chars: int,
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._keys = ledger.keys
        self._transactions = transactions
        self._deleted = deleted
        self.identification = Identification(connection, ledger)
        self._new_id = new_id
        self._max_turn_chars = max_turn_chars

    async def take(self, parcel: Parcel) -> Appended | None:
        """Take one in, once.

        Returns:
            What became of it; None when it had arrived before.

        Raises:
            RedisFailedError: it did not arrive, or nobody knows; to be sent again.
        """
        spooled = load(parcel.payload, parcel.scope) if parcel.payload is not None else None
        mark = self._keys.spool(parcel.run)

        async def work(changes: Changes) -> Appended | None:
            if int(await self._connection.execute("GET", mark) or 0) >= parcel.number:
                return None
            changes.add("SET", mark, parcel.number, "EX", _RUN_SECONDS)
            if spooled is not None:
                self._ledger.note_time(changes, micros(spooled.turn.observed_at))
            if spooled is None or await self._deleted.forgotten(spooled.turn):
                if parcel.complete:
                    changes.count(self._keys.totals, {"accepted": 1, "deleted": 1})
                return Appended(AppendOutcome.FORGOTTEN)
            return await self._append(changes, spooled)

        return await self._transactions.on_owner(self._ledger.owner(parcel.scope), work, also_watch=(mark,))

    async def _append(self, changes: Changes, spooled: Spooled) -> Appended:
        turn = spooled.turn
        found = await self._look_around(turn, spooled.said)
        if turn.complete and found.absorbed is None:
            again = await self.identification.seen(found.marks)
            if again is not None and not await self._is_deleted(again, turn.scope):
                return await self._repeated(changes, again, turn)
        session = found.session or SessionRow(
            id=found.place.session_id or new_session_id(self._new_id()), scope=turn.scope
        )
        sequence = await self._next_sequence()
        traces = self._traces(turn, found, spooled.said, sequence)
        row, content = await self._rows(spooled, found, session, sequence)
        learned = dict.fromkeys(traces, sequence)
        if found.absorbed is not None:
            learned = await self._replace(changes, found.absorbed, session) | learned
        for trace, when in learned.items():
            self._ledger.learn(changes, trace, sequence, when)
        self._ledger.add_turn(changes, replace(row, traces=tuple(learned)), content)
        self._ledger.put_session(changes, _with_turn(session, row))
        if turn.complete:
            changes.count(self._keys.totals, {"accepted": 1, "waiting": 1})
        outcome = AppendOutcome.ACCEPTED if turn.complete else AppendOutcome.INCOMPLETE
        return Appended(outcome, session.id, self._ledger.digests.turn_id(sequence))

    async def _look_around(self, turn: Turn, said: Sequence[str]) -> _Found:
        find = self.identification
        parent = await find.parent(turn.scope, turn.hints.previous_response_id)
        place = await find.place(turn, parent)
        session = await find.session(turn.scope, place.session_id)
        absorbed = await self._absorbed(turn, parent, session)
        marks = find.request_marks(turn, said)
        mark = find.place_mark(turn, place, said, session.newest if session else 0)
        return _Found(parent, place, session, absorbed, (*marks, mark) if mark else tuple(marks))

    async def _absorbed(self, turn: Turn, parent: Parent | None, session: SessionRow | None) -> TurnRow | None:
        """The incomplete turn that this one goes on from."""
        if parent is None and turn.hints.conversation_id and session is not None and not any(turn.user_texts):
            # With texts it may as well be a second attempt at the open turn, whose words would then be in it twice.
            parent = await self.identification.open_turn(turn.scope, session.id)
        if parent is None or not parent.incomplete or not parent.same_scope:
            return None
        row = await self._ledger.turn(parent.sequence)
        return None if row is None or await self._is_deleted(row, turn.scope) else row

    async def _is_deleted(self, row: TurnRow, scope: Scope) -> bool:
        """Whether the turn is on its way out: a deletion covers it, but has not come to it yet."""
        return deleted_since(await self._deleted.current(row.owner), scope, row.observed_at)

    async def _repeated(self, changes: Changes, again: TurnRow, turn: Turn) -> Appended:
        """The client goes on from the answer that it got last."""
        when = await self._next_sequence()
        traces = self._answer_traces(turn)
        for trace in traces:
            self._ledger.learn(changes, trace, again.sequence, when)
        learned = replace(
            again,
            traces=_joined(again.traces, traces),
            transcript_hashes=_joined(again.transcript_hashes, turn.transcript_hashes),
        )
        self._ledger.put_turn(changes, learned)
        session = await self._ledger.session(again.session_id)
        if turn.ends_session and session is not None:
            self._ledger.put_session(changes, session.end_announced())
        return Appended(AppendOutcome.DUPLICATE, again.session_id, self._ledger.digests.turn_id(again.sequence))

    async def _next_sequence(self) -> int:
        # Drawn while the owner is watched: of two transactions that succeed, the later one has the higher number.
        return int(await self._connection.execute("INCR", self._keys.sequence))

    async def _rows(
        self, spooled: Spooled, found: _Found, session: SessionRow, sequence: int
    ) -> tuple[TurnRow, Content]:
        turn = spooled.turn
        row = TurnRow(
            sequence=sequence,
            owner=self._ledger.owner(turn.scope),
            session_id=session.id,
            state=TurnState.WAITING if turn.complete else TurnState.INCOMPLETE,
            observed_at=micros(turn.observed_at),
            remember=spooled.remember,
            parent=found.parent.sequence if found.parent else None,
            response=self.identification.response(turn.scope, turn.response_id) if turn.response_id else "",
            previous=self._previous(turn),
            ends=turn.ends_session,
            transcript_hashes=turn.transcript_hashes if turn.complete else (),
        )
        content = Content(
            user_texts=turn.user_texts,
            assistant_text=turn.assistant_text,
            tools=turn.tools,
            model=turn.model,
            items=dump_items(turn.items, self._max_turn_chars),
        )
        if found.absorbed is not None:
            row, content = await self._continued(row, content, found.absorbed, chained=found.parent is not None)
        return row if turn.complete else replace(row, kept_since=row.observed_at), content

    def _previous(self, turn: Turn) -> str | None:
        hints = turn.hints
        if hints.previous_response_id:
            return self.identification.response(turn.scope, hints.previous_response_id)
        # What a conversation held before is with the server.
        return None if hints.conversation_id else ""

    async def _continued(
        self, row: TurnRow, content: Content, absorbed: TurnRow, *, chained: bool
    ) -> tuple[TurnRow, Content]:
        """The turn with what it takes over."""
        before = (await self._ledger.contents([absorbed])).get(absorbed.sequence)
        # A step that is tried twice goes on from the response before the last one: the items would hold it twice.
        in_order = not chained or row.previous == absorbed.response
        row = replace(
            row,
            # When the words were said: a deletion in between must find them older than itself.
            observed_at=min(row.observed_at, absorbed.observed_at),
            remember=row.remember or absorbed.remember,
            ends=row.ends or absorbed.ends,
            parent=absorbed.parent,
            previous=absorbed.previous,
        )
        if before is None:
            return row, replace(content, items=None)
        return row, replace(
            content,
            user_texts=tuple(storable_texts((*before.user_texts, *content.user_texts), self._max_turn_chars)),
            tools=tuple(storable_tools((*before.tools, *content.tools))),
            items=self._joined_items(before, content) if in_order else None,
        )

    def _joined_items(self, before: Content, after: Content) -> bytes | None:
        first, second = load_items(before.items), load_items(after.items)
        return None if first is None or second is None else dump_items((*first, *second), self._max_turn_chars)

    async def _replace(self, changes: Changes, absorbed: TurnRow, session: SessionRow) -> dict[str, int]:
        """Take the absorbed turn away; returns its traces, which lead to the new one from now on."""
        learned = await self.identification.learned(absorbed.traces, absorbed.sequence)
        self._ledger.remove_turn(changes, absorbed)
        if absorbed.session_id != session.id:
            # A session header that changed within the loop leaves an empty session behind.
            left = await self._connection.execute("ZCARD", self._keys.session_turns(absorbed.session_id))
            if left == 1:
                self._ledger.remove_session(changes, absorbed.session_id)
        return learned

    def _traces(self, turn: Turn, found: _Found, said: Sequence[str], sequence: int) -> tuple[str, ...]:
        """By what later turns find this one: as the same again, or as what they go on from."""
        if not turn.complete:
            return self._answer_traces(turn)
        find = self.identification
        marks = find.request_marks(turn, said)
        # Where the turn does not say what came before, its repetition comes right after itself.
        mark = find.place_mark(turn, found.place, said, sequence)
        return _joined((*marks, mark) if mark else marks, self._answer_traces(turn))

    def _answer_traces(self, turn: Turn) -> tuple[str, ...]:
        find = self.identification
        traces = [find.transcript(turn.scope, value) for value in turn.transcript_hashes] if turn.complete else []
        if turn.response_id:
            traces.append(find.response(turn.scope, turn.response_id))
        return tuple(traces)


def _with_turn(session: SessionRow, row: TurnRow) -> SessionRow:
    if not row.accepted:
        return session
    return replace(
        session,
        newest=row.sequence,
        waiting=session.waiting + 1,
        rules_pending=session.rules_pending + 1,
        remember=session.remember or row.remember,
        oldest_waiting=session.oldest_waiting or row.sequence,
        last_observed_at=max(session.last_observed_at, row.observed_at) if session.waiting else row.observed_at,
        unsummarised=session.unsummarised + 1,
        end_at=row.sequence if row.ends else session.end_at,
    )


def _joined(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
