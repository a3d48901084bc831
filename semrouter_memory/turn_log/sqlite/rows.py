"""Rows in SQLite: read for the rules, and written as they decide (implements `Rows`)."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import orjson

from semrouter_memory.model import Scope, TurnState
from semrouter_memory.turn_log.columns import bounded_transcripts, pack, unpack
from semrouter_memory.turn_log.digests import Digests
from semrouter_memory.turn_log.hybrid_clock import HybridClock
from semrouter_memory.turn_log.rows import Content, SessionRow, TurnRow, restored
from semrouter_memory.turn_log.sqlite.contents import Contents
from semrouter_memory.turn_log.storage import BATCH, Changes
from semrouter_memory.turn_log.tombstones import OwnerTombstones, TombstoneCache

_MAX_SHARED = 32
"""Of the turns that share a key only so many are looked at, the most recently learned ones."""

_SESSION_STATE = tuple(each.name for each in fields(SessionRow) if each.name not in {"id", "scope"})
_TURN_STATE = tuple(
    each.name
    for each in fields(TurnRow)
    if each.name not in {"sequence", "owner", "project_id", "session_id", "keys", "transcript_hashes"}
)


def _listed(columns: Sequence[str], form: str = "{0}") -> str:
    return ", ".join(form.format(name) for name in columns)


_SESSION_COLUMNS = ("id", "owner", "user_id", "project_id", "agent_id", *_SESSION_STATE)
_TURN_COLUMNS = (*_TURN_STATE, "transcripts")
_SESSION = f"SELECT id, user_id, project_id, agent_id, {_listed(_SESSION_STATE)} FROM sessions"  # noqa: S608 - constants
_PUT_SESSION = f"""INSERT INTO sessions ({_listed(_SESSION_COLUMNS)}) VALUES ({_listed(_SESSION_COLUMNS, "?")})
    ON CONFLICT (id) DO UPDATE SET {_listed(_SESSION_STATE, "{0} = excluded.{0}")}"""  # noqa: S608 - constants
_TURN = f"""SELECT turns.sequence, sessions.owner, sessions.project_id, sessions.id, {_listed(_TURN_COLUMNS, "turns.{0}")}
    FROM turns JOIN sessions ON sessions.key = turns.session """  # noqa: S608 - constants
_ADD_TURN = f"""INSERT INTO turns (sequence, model, session, {_listed(_TURN_COLUMNS)})
    VALUES (?, ?, (SELECT key FROM sessions WHERE id = ?), {_listed(_TURN_COLUMNS, "?")})"""  # noqa: S608 - constants
_PUT_TURN = f"UPDATE turns SET ({_listed(_TURN_COLUMNS)}) = ({_listed(_TURN_COLUMNS, '?')}) WHERE sequence = ?"  # noqa: S608 - constants


class SqliteRows:
    """Reads and writes through one connection; writes need an open write transaction.

    Args:
        times: told of every deletion that is read.
    """

    def __init__(self, connection: sqlite3.Connection, digests: Digests, times: HybridClock) -> None:
        self._connection = connection
        self._contents = Contents(connection)
        self._times = times
        self._tombstones = TombstoneCache(digests.content_hash)
        self.digests = digests

    # -- reading -------------------------------------------------------------------------------------------------------

    async def turns(self, sequences: Iterable[int]) -> dict[int, TurnRow]:
        found = (self._turns("WHERE turns.sequence = ?", sequence) for sequence in dict.fromkeys(sequences))
        return {row.sequence: row for rows in found for row in rows}

    async def sessions(self, session_ids: Iterable[str]) -> dict[str, SessionRow]:
        found = (self._sessions("WHERE id = ?", session_id) for session_id in dict.fromkeys(session_ids))
        return {row.id: row for rows in found for row in rows}

    async def waiting(self, session_id: str) -> list[TurnRow]:
        return self._turns("WHERE sessions.id = ? AND turns.state = 'waiting' ORDER BY turns.sequence", session_id)

    async def before(self, session_id: str, sequence: int, limit: int) -> list[TurnRow]:
        condition = "WHERE sessions.id = ? AND turns.sequence < ? ORDER BY turns.sequence DESC LIMIT ?"
        return self._turns(condition, session_id, sequence, max(limit, 0))

    async def after(self, session_id: str, sequence: int) -> list[TurnRow]:
        return self._turns("WHERE sessions.id = ? AND turns.sequence > ?", session_id, sequence)

    async def found_by(self, key: str) -> list[TurnRow]:
        condition = """JOIN lookup_keys ON lookup_keys.turn = turns.sequence WHERE lookup_keys.digest = ?
                       ORDER BY lookup_keys.learned DESC LIMIT ?"""
        return self._turns(condition, bytes.fromhex(key), _MAX_SHARED)

    async def learned(self, row: TurnRow) -> Mapping[str, int]:
        found = self._all("SELECT digest, learned FROM lookup_keys WHERE turn = ?", row.sequence)
        return {digest.hex(): learned for digest, learned in found}

    async def contents(self, rows: Sequence[TurnRow]) -> dict[int, Content]:
        return self._contents.get(row.sequence for row in rows)

    async def of_owner(self, owner: str, *, after: int) -> list[TurnRow]:
        condition = "WHERE sessions.owner = ? AND turns.sequence > ? ORDER BY turns.sequence LIMIT ?"
        return self._turns(condition, owner, after, BATCH)

    async def listed(
        self, owner: str | None, states: frozenset[TurnState] | None, *, before: int, limit: int
    ) -> list[TurnRow]:
        return self._turns(
            """WHERE (?1 IS NULL OR sessions.owner = ?1) AND turns.state IN (SELECT value FROM json_each(?2))
               AND (?3 <= 0 OR turns.sequence < ?3) ORDER BY turns.sequence DESC LIMIT ?4""",
            owner,
            orjson.dumps(sorted(TurnState if states is None else states)).decode(),
            before,
            max(limit, 0),
        )

    async def finished_before(self, time: int) -> list[TurnRow]:
        return self._turns("WHERE turns.kept_since < ? LIMIT ?", time, BATCH)

    async def pending(self) -> list[SessionRow]:
        return self._sessions("WHERE waiting > 0 OR unsummarised > 0")

    async def pending_purges(self) -> frozenset[str]:
        return frozenset(owner for (owner,) in self._all("SELECT owner FROM deletions WHERE purging"))

    async def next_sequence(self) -> int:
        ((sequence,),) = self._all("UPDATE counters SET last_sequence = last_sequence + 1 RETURNING last_sequence")
        return int(sequence)

    async def latest_time(self) -> int:
        ((latest,),) = self._all("SELECT latest FROM counters")
        return int(latest)

    async def tombstones(self, owner: str) -> OwnerTombstones:
        return self.tombstones_now(owner)

    def tombstones_now(self, owner: str) -> OwnerTombstones:
        """From the cache as long as the owner's version is the same."""
        row = self._connection.execute("SELECT version FROM deletions WHERE owner = ?", (owner,)).fetchone()
        if row is None:
            return self._tombstones.empty
        version, known = self._tombstones.get(owner)
        if version == row[0]:
            return known
        fields = dict(self._all("SELECT name, at FROM tombstones WHERE owner = ?", owner))
        self._times.pass_deletion(max(fields.values(), default=0))
        return self._tombstones.put(owner, row[0], fields)

    def counts(self) -> dict[str, int]:
        names = ("accepted", "extracted", "empty", "dead_lettered", "deleted", "waiting")
        ((*values,),) = self._all(f"SELECT {', '.join(names)} FROM counters")  # noqa: S608 - constants
        return dict(zip(names, values, strict=True))

    def _turns(self, condition: str, *arguments: Any) -> list[TurnRow]:
        return [_turn(row) for row in self._connection.execute(_TURN + condition, arguments).fetchall()]

    def _sessions(self, condition: str, *arguments: Any) -> list[SessionRow]:
        return [_session(row) for row in self._connection.execute(f"{_SESSION} {condition}", arguments).fetchall()]

    def _all(self, statement: str, *arguments: Any) -> list[Any]:
        return self._connection.execute(statement, arguments).fetchall()

    # -- writing -------------------------------------------------------------------------------------------------------

    def apply(self, changes: Changes) -> None:
        execute, many = self._connection.execute, self._connection.executemany
        if changes.removed:
            many("DELETE FROM turns WHERE sequence = ?", [(row.sequence,) for row in changes.removed])
        if changes.sessions:
            many(_PUT_SESSION, [self._session_values(row) for row in changes.sessions])
        for row, content in changes.added:
            execute(_ADD_TURN, (row.sequence, content.model, row.session_id, *_turn_values(row)))
            self._contents.insert(row.sequence, content)
        if changes.updated:
            many(_PUT_TURN, [(*_turn_values(row), row.sequence) for row in changes.updated])
        if changes.sessions_removed:
            many("DELETE FROM sessions WHERE id = ?", [(each,) for each in changes.sessions_removed])
        if changes.keys:
            many(
                "INSERT OR REPLACE INTO lookup_keys (digest, learned, turn) VALUES (?, ?, ?)",
                [(bytes.fromhex(key), learned, sequence) for key, sequence, learned in changes.keys],
            )
        for rows, user_texts in ((changes.answers_erased, False), (changes.contents_erased, True)):
            if rows:
                self._contents.erase([row.sequence for row in rows], user_texts=user_texts)
        counted = [f"{name} = {name} + {int(amount)}" for name, amount in changes.counts.items() if amount]
        if counted or changes.latest:
            counted.append(f"latest = max(latest, {int(changes.latest)})")
            execute(f"UPDATE counters SET {', '.join(counted)}")  # noqa: S608 - numbers
        self._apply_deletion(changes)

    def _apply_deletion(self, changes: Changes) -> None:
        tombstone = changes.tombstone
        if tombstone is not None:
            owner = tombstone.owner
            self._connection.executemany(
                "DELETE FROM tombstones WHERE owner = ? AND name = ?", [(owner, name) for name in tombstone.drop]
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO tombstones VALUES (?, ?, ?)",
                [(owner, name, at) for name, at in tombstone.put.items()],
            )
            self._connection.execute(
                """INSERT INTO deletions VALUES (?, 1, ?) ON CONFLICT DO UPDATE SET
                       version = version + 1, purging = max(purging, excluded.purging)""",
                (owner, tombstone.purges),
            )
        if changes.purged:
            self._connection.execute("UPDATE deletions SET purging = 0 WHERE owner = ?", (changes.purged,))

    def _session_values(self, row: SessionRow) -> tuple[Any, ...]:
        scope = row.scope
        ids = (pack(scope.user_id), pack(scope.project_id), pack(scope.agent_id))
        return (row.id, self.digests.owner(scope), *ids, *(getattr(row, name) for name in _SESSION_STATE))


def _session(values: tuple[Any, ...]) -> SessionRow:
    id_, user_id, project_id, agent_id, *state = values
    scope = Scope(unpack(user_id), unpack(project_id), unpack(agent_id))
    return restored(SessionRow, {"id": id_, "scope": scope, **dict(zip(_SESSION_STATE, state, strict=True))})


def _turn_values(row: TurnRow) -> tuple[Any, ...]:
    transcripts = bounded_transcripts(row.transcript_hashes)
    return (*(getattr(row, name) for name in _TURN_STATE), orjson.dumps(transcripts) if transcripts else None)


def _turn(values: tuple[Any, ...]) -> TurnRow:
    sequence, owner, project_id, session_id, *state, transcripts = values
    return restored(
        TurnRow,
        {
            "sequence": sequence,
            "owner": owner,
            "project_id": unpack(project_id),
            "session_id": session_id,
            "transcript_hashes": orjson.loads(transcripts) if transcripts else (),
            **dict(zip(_TURN_STATE, state, strict=True)),
        },
    )
