"""Reads and writes rows of turns and sessions, and keeps what hangs on them in step: indexes, pending sessions, ends.

What is not finished is kept until something becomes of it; what is finished ends by itself (TTL) when nobody sweeps it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from semrouter_memory.model import LoggedTurn, Scope
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.redis.connection import Command, RedisConnection
from semrouter_memory.sessions.redis.keys import Keys
from semrouter_memory.sessions.redis.rows import (
    Content,
    SessionRow,
    TurnRow,
    content_of,
    content_values,
    logged,
    pending_value,
    session_row,
    session_values,
    stream_fields,
    turn_row,
    turn_values,
)
from semrouter_memory.sessions.redis.transaction import Changes, pairs

_LATEST = "time"
_KEPT_CHANGES = 10_000
"""Many more than there are between two looks at the pending sessions."""


class Ledger:
    """Rows behind one connection.

    Args:
        keep: how long what is finished stays when no sweep takes it before.
    """

    def __init__(self, connection: RedisConnection, keys: Keys, digests: Digests, *, keep: timedelta) -> None:
        self._connection = connection
        self.keys = keys
        self.digests = digests
        self._keep_ms = int(keep.total_seconds() * 1000)

    async def latest_time(self) -> int:
        """Of a turn or deletion of any replica, in microseconds since 1970."""
        return int(await self._connection.execute("ZSCORE", self.keys.latest, _LATEST) or 0)

    def note_time(self, changes: Changes, time: int) -> None:
        """Raise the latest time to that one. A score is a double, which holds microseconds exactly for centuries."""
        changes.add("ZADD", self.keys.latest, "GT", time, _LATEST)

    async def keep_time(self, time: int) -> None:
        """Same as `note_time`, at once."""
        await self._connection.execute("ZADD", self.keys.latest, "GT", time, _LATEST)

    def owner(self, scope: Scope) -> str:
        """What an owner's keys are named by."""
        return self.digests.of("owner", scope.user_id).hex()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def turn(self, sequence: int) -> TurnRow | None:
        return turn_row(sequence, pairs(await self._connection.execute("HGETALL", self.keys.turn(sequence))))

    async def turns(self, sequences: Iterable[int]) -> dict[int, TurnRow]:
        """Those of these turns that still are."""
        wanted = list(dict.fromkeys(sequences))
        answers = await self._connection.execute_all(("HGETALL", self.keys.turn(sequence)) for sequence in wanted)
        rows = (turn_row(sequence, pairs(answer)) for sequence, answer in zip(wanted, answers, strict=True))
        return {row.sequence: row for row in rows if row is not None}

    async def session(self, session_id: str) -> SessionRow | None:
        return session_row(session_id, pairs(await self._connection.execute("HGETALL", self.keys.session(session_id))))

    async def sessions(self, session_ids: Iterable[str]) -> dict[str, SessionRow]:
        wanted = list(dict.fromkeys(session_ids))
        answers = await self._connection.execute_all(("HGETALL", self.keys.session(each)) for each in wanted)
        rows = (session_row(each, pairs(answer)) for each, answer in zip(wanted, answers, strict=True))
        return {row.id: row for row in rows if row is not None}

    async def waiting(self, session_id: str) -> list[TurnRow]:
        """The session's waiting turns, oldest first."""
        sequences = await self.sequences("ZRANGE", self.keys.session_waiting(session_id), 0, -1)
        return list((await self.turns(sequences)).values())

    async def sequences(self, *command: str | int) -> list[int]:
        """The members of a sorted set of turns."""
        return [int(member) for member in await self._connection.execute(*command)]

    async def contents(self, rows: Iterable[TurnRow]) -> dict[int, Content]:
        wanted = list(rows)
        answers = await self._connection.execute_all(self._reading_content(row) for row in wanted)
        fields = ((row.sequence, stream_fields(answer)) for row, answer in zip(wanted, answers, strict=True))
        return {sequence: content_of(values) for sequence, values in fields if values}

    def _reading_content(self, row: TurnRow) -> Command:
        entry = f"{row.sequence}-0"
        return "XRANGE", self.keys.session_content(row.session_id), entry, entry

    async def logged(self, rows: Sequence[TurnRow], scopes: Mapping[str, Scope]) -> list[LoggedTurn]:
        """The turns whole.

        Args:
            scopes: by session.
        """
        contents = await self.contents(rows)
        return [
            logged(row, contents[row.sequence], scopes[row.session_id], self.digests.turn_id(row.sequence))
            for row in rows
            if row.sequence in contents and row.session_id in scopes
        ]

    # -- writing -------------------------------------------------------------------------------------------------------

    def add_turn(self, changes: Changes, row: TurnRow, content: Content) -> None:
        entry = [item for pair in content_values(content).items() for item in pair]
        changes.add("XADD", self.keys.session_content(row.session_id), f"{row.sequence}-0", *entry)
        for index in (
            self.keys.turns,
            self.keys.owner_turns(row.owner),
            self.keys.session_turns(row.session_id),
        ):
            changes.add("ZADD", index, row.sequence, row.sequence)
        self.put_turn(changes, row)

    def put_turn(self, changes: Changes, row: TurnRow) -> None:
        key = self.keys.turn(row.sequence)
        changes.write_hash(key, turn_values(row))
        waiting = self.keys.session_waiting(row.session_id)
        if row.state == "waiting":
            changes.add("ZADD", waiting, row.sequence, row.sequence)
        else:
            changes.add("ZREM", waiting, row.sequence)
        if row.state == "dead":
            changes.add("ZADD", self.keys.dead, row.sequence, row.sequence)
        if row.kept_since is not None:
            changes.add("ZADD", self.keys.kept, row.kept_since, kept_member(row))
        if row.open:
            changes.add("PERSIST", key)
        else:
            changes.add("PEXPIRE", key, self._keep_ms)
        for trace in row.traces:
            changes.add("PEXPIRE", self.keys.trace(trace), self._keep_ms)

    def learn(self, changes: Changes, trace: str, sequence: int, learned: int) -> None:
        key = self.keys.trace(trace)
        changes.add("ZADD", key, learned, sequence)
        changes.add("PEXPIRE", key, self._keep_ms)

    def erase_content(self, changes: Changes, row: TurnRow) -> None:
        """The texts of a turn. A stream's entry cannot be changed, so all of them."""
        changes.add("XDEL", self.keys.session_content(row.session_id), f"{row.sequence}-0")

    def remove_turn(self, changes: Changes, row: TurnRow) -> None:
        """Everything that leads to the turn, and the turn; its session's counters are the caller's."""
        changes.add("DEL", self.keys.turn(row.sequence))
        self.erase_content(changes, row)
        for trace in row.traces:
            changes.add("ZREM", self.keys.trace(trace), row.sequence)
        for index in (
            self.keys.turns,
            self.keys.dead,
            self.keys.owner_turns(row.owner),
            self.keys.session_turns(row.session_id),
            self.keys.session_waiting(row.session_id),
        ):
            changes.add("ZREM", index, row.sequence)
        changes.add("ZREM", self.keys.kept, kept_member(row))

    def put_session(self, changes: Changes, row: SessionRow) -> None:
        changes.write_hash(self.keys.session(row.id), session_values(row))
        if row.is_pending:
            changes.add("HSET", self.keys.pending, row.id, pending_value(row))
        else:
            changes.add("HDEL", self.keys.pending, row.id)
        self._note_change(changes, row.id)
        for key in self._keys_of(row.id):
            if row.is_pending or row.dead:
                changes.add("PERSIST", key)
            else:
                changes.add("PEXPIRE", key, self._keep_ms)

    def remove_session(self, changes: Changes, session_id: str) -> None:
        changes.add("DEL", *self._keys_of(session_id))
        changes.add("HDEL", self.keys.pending, session_id)
        self._note_change(changes, session_id)

    def unlist_turn(self, changes: Changes, member: str, session_id: str) -> None:
        """Everything that is left of a turn that has ended by itself.

        Args:
            member: how it stands in the order of ends.
        """
        sequence, owner, *_ = member.split(":")
        if session_id:
            changes.add("XDEL", self.keys.session_content(session_id), f"{sequence}-0")
            changes.add("ZREM", self.keys.session_turns(session_id), sequence)
        for index in (self.keys.turns, self.keys.owner_turns(owner)):
            changes.add("ZREM", index, sequence)
        changes.add("ZREM", self.keys.kept, member)

    def remove_pending(self, changes: Changes, session_id: str) -> None:
        """A pending session that is none any more."""
        changes.add("HDEL", self.keys.pending, session_id)
        self._note_change(changes, session_id)

    def _note_change(self, changes: Changes, session_id: str) -> None:
        changes.add("XADD", self.keys.changed, "MAXLEN", "~", _KEPT_CHANGES, "*", "session", session_id)

    def _keys_of(self, session_id: str) -> tuple[str, ...]:
        return (
            self.keys.session(session_id),
            self.keys.session_turns(session_id),
            self.keys.session_waiting(session_id),
            self.keys.session_content(session_id),
        )


def kept_member(row: TurnRow) -> str:
    """How a finished turn stands in the order of ends: with what is to be known of it when its hash is gone."""
    return f"{row.sequence}:{row.owner}:{row.session_id}"
