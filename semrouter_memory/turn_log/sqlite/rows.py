"""Rows in SQLite: read for the rules, and written as they decide (implements `Rows`)."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import orjson
from cachetools import LRUCache

from semrouter_memory.model import TurnState
from semrouter_memory.turn_log.digests import Digests
from semrouter_memory.turn_log.hybrid_clock import HybridClock
from semrouter_memory.turn_log.rows import (
    Content,
    SessionRow,
    TurnRow,
    session_row,
    session_value,
    turn_row,
    turn_value,
)
from semrouter_memory.turn_log.sqlite.contents import Contents
from semrouter_memory.turn_log.storage import Changes
from semrouter_memory.turn_log.tombstones import CACHED_OWNERS, OwnerTombstones, TombstoneCache

_MAX_SHARED = 32
"""Of the turns that share a key only so many are looked at, the most recently learned ones."""

_HIGHEST = 2**62
_OF_SESSION = "session = (SELECT key FROM sessions WHERE id = ?)"


class SqliteRows:
    """Reads and writes through one connection; writes need an open write transaction.

    Args:
        times: told of every deletion that is read.
    """

    def __init__(self, connection: sqlite3.Connection, digests: Digests, times: HybridClock) -> None:
        self._connection = connection
        self._contents = Contents(connection)
        self._times = times
        self._none = None, OwnerTombstones(content_hash=digests.content_hash)
        self._tombstones: TombstoneCache = LRUCache(CACHED_OWNERS)
        self.digests = digests

    # -- reading -------------------------------------------------------------------------------------------------------

    async def turns(self, sequences: Iterable[int]) -> dict[int, TurnRow]:
        found = (self._turns("WHERE sequence = ?", sequence) for sequence in dict.fromkeys(sequences))
        return {row.sequence: row for rows in found for row in rows}

    async def sessions(self, session_ids: Iterable[str]) -> dict[str, SessionRow]:
        found = (self._sessions("WHERE id = ?", session_id) for session_id in dict.fromkeys(session_ids))
        return {row.id: row for rows in found for row in rows}

    async def before(self, session_id: str, sequence: int, limit: int) -> list[TurnRow]:
        condition = f"WHERE {_OF_SESSION} AND sequence < ? ORDER BY sequence DESC LIMIT ?"
        return self._turns(condition, session_id, sequence, max(limit, 0))

    async def after(self, session_id: str, sequence: int) -> list[TurnRow]:
        return self._turns(f"WHERE {_OF_SESSION} AND sequence > ? ORDER BY sequence", session_id, sequence)

    async def found_by(self, key: str) -> list[TurnRow]:
        condition = """JOIN lookup_keys ON lookup_keys.turn = sequence WHERE digest = ? ORDER BY learned DESC LIMIT ?"""
        return self._turns(condition, bytes.fromhex(key), _MAX_SHARED)

    async def contents(self, rows: Sequence[TurnRow]) -> dict[int, Content]:
        return self._contents.get(row.sequence for row in rows)

    async def listed(
        self, owner: str | None, states: frozenset[TurnState] | None, *, before: int, limit: int
    ) -> list[TurnRow]:
        conditions: list[tuple[str, object]] = [("sequence < ?", before if before > 0 else _HIGHEST)]
        if owner is not None:
            conditions.append(("session IN (SELECT key FROM sessions WHERE owner = ?)", owner))
        if states is not None:
            conditions.append(("state IN (SELECT value FROM json_each(?))", orjson.dumps(sorted(states)).decode()))
        wanted = " AND ".join(condition for condition, _ in conditions)
        arguments = [argument for _, argument in conditions]
        return self._turns(f"WHERE {wanted} ORDER BY sequence DESC LIMIT ?", *arguments, max(limit, 0))

    async def finished_before(self, time: int, limit: int) -> list[TurnRow]:
        return self._turns("WHERE kept_since < ? LIMIT ?", time, limit)

    async def pending(self) -> list[SessionRow]:
        return self._sessions("WHERE pending")

    async def pending_purges(self) -> frozenset[str]:
        return frozenset(owner for (owner,) in self._all("SELECT owner FROM deletions WHERE purging"))

    async def next_sequence(self) -> int:
        ((sequence,),) = self._all("UPDATE counters SET last_sequence = last_sequence + 1 RETURNING last_sequence")
        return int(sequence)

    async def latest_time(self) -> int:
        ((latest,),) = self._all("SELECT latest FROM counters")
        return int(latest)

    async def tombstones(self, owner: str) -> OwnerTombstones:
        """From the cache as long as the owner's version is the same."""
        row = self._connection.execute("SELECT version FROM deletions WHERE owner = ?", (owner,)).fetchone()
        if row is None:
            return self._none[1]
        version, known = self._tombstones.get(owner, self._none)
        if version != row[0]:
            known = replace(known, fields=dict(self._all("SELECT name, at FROM tombstones WHERE owner = ?", owner)))
            self._times.pass_deletion(max(known.fields.values(), default=0))
            self._tombstones[owner] = row[0], known
        return known

    async def counts(self) -> dict[str, int]:
        names = ("accepted", "extracted", "empty", "dead_lettered", "deleted", "waiting")
        ((*values,),) = self._all(f"SELECT {', '.join(names)} FROM counters")  # noqa: S608 - constants
        return dict(zip(names, values, strict=True))

    def _turns(self, condition: str, *arguments: Any) -> list[TurnRow]:
        return [turn_row(value) for (value,) in self._all(f"SELECT value FROM turns {condition}", *arguments)]  # noqa: S608

    def _sessions(self, condition: str, *arguments: Any) -> list[SessionRow]:
        return [session_row(value) for (value,) in self._all(f"SELECT value FROM sessions {condition}", *arguments)]  # noqa: S608

    def _all(self, statement: str, *arguments: Any) -> list[Any]:
        return self._connection.execute(statement, arguments).fetchall()

    # -- writing -------------------------------------------------------------------------------------------------------

    def apply(self, changes: Changes) -> None:
        execute, many = self._connection.execute, self._connection.executemany
        if changes.removed:
            many("DELETE FROM turns WHERE sequence = ?", [(row.sequence,) for row in changes.removed])
        for session in changes.sessions:
            execute(
                """INSERT INTO sessions (id, owner, pending, value) VALUES (?, ?, ?, ?)
                   ON CONFLICT (id) DO UPDATE SET pending = excluded.pending, value = excluded.value""",
                (session.id, self.digests.owner(session.scope), session.is_pending, session_value(session)),
            )
        for row, content in changes.added:
            execute(
                "INSERT INTO turns VALUES (?, (SELECT key FROM sessions WHERE id = ?), ?, ?, ?)",
                (row.sequence, row.session_id, row.state, row.kept_since, turn_value(row)),
            )
            self._contents.insert(row.sequence, content)
        for row in changes.updated:
            execute(
                "UPDATE turns SET state = ?, kept_since = ?, value = ? WHERE sequence = ?",
                (row.state, row.kept_since, turn_value(row), row.sequence),
            )
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
