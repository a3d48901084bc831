"""The rows of the log in SQLite: read for the rules, and written as they decide (implements `LogRows`).

Strategy of what was said. SQLite overwrites what it deletes (`secure_delete`), but not what it moves: a row that it carried to
another page for balance may stay behind in the old page's unused middle, and is found there after the row was deleted. Making
a table anew is what leaves nothing behind, and VACUUM would do it in one transaction, with every append waiting. So
texts lie in two tables of which one takes the new turns. A compaction switches to the other table, migrates what is
still wanted, a few turns at a time, and empties the old table as a whole, which overwrites all its pages.

A turn's row in `turns` holds no text, and a trigger deletes its contents with it. Methods that write need an open write
transaction.
"""

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
    ERASED,
    Content,
    SessionRow,
    TurnRow,
    session_row,
    session_value,
    turn_row,
    turn_value,
)
from semrouter_memory.turn_log.storage import MAX_SHARED, Changes
from semrouter_memory.turn_log.tombstones import CACHED_OWNERS, OwnerTombstones, TombstoneCache

_TABLES = ("contents_0", "contents_1")
_MIGRATE_BATCH = 32
"""Turns that one transaction of a compaction migrates, so that appends never wait long for it."""


_HIGHEST = 2**62
_OF_SESSION = "session = (SELECT key FROM sessions WHERE id = ?)"


class SqliteRows:
    """Reads and writes through one connection; writes need an open write transaction.

    Args:
        times: told of every deletion that is read.
    """

    def __init__(self, connection: sqlite3.Connection, digests: Digests, times: HybridClock) -> None:
        self._connection = connection
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
        return self._turns(condition, bytes.fromhex(key), MAX_SHARED)

    async def contents(self, rows: Sequence[TurnRow]) -> dict[int, Content]:
        found = {row.sequence: self._content(row.sequence) for row in rows}
        return {sequence: content for sequence, content in found.items() if content is not None}

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
            self._insert_content(row.sequence, content)
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
                self._erase([row.sequence for row in rows], user_texts=user_texts)
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

    # -- what was said -------------------------------------------------------------------------------------------------

    def _content(self, sequence: int) -> Content | None:
        for table in _TABLES:
            select = f"SELECT user, answer FROM {table} WHERE turn = ?"  # noqa: S608 - constants
            if row := self._connection.execute(select, (sequence,)).fetchone():
                return Content.of_values(*row)
        return None

    def _insert_content(self, sequence: int, content: Content) -> None:
        (table,) = self._connection.execute("SELECT contents FROM counters").fetchone()
        self._connection.execute(
            f"INSERT INTO contents_{table} VALUES (?, ?, ?)",  # noqa: S608 - constants
            (sequence, content.user_value(), content.answer_value()),
        )

    def _erase(self, sequences: Iterable[int], *, user_texts: bool) -> None:
        """Erase the answers of these turns, with or without the user's own words."""
        own = ", user = ?2" if user_texts else ""
        arguments = [(sequence, ERASED)[: 1 + user_texts] for sequence in sequences]
        for table in _TABLES:
            self._connection.executemany(f"UPDATE {table} SET answer = NULL{own} WHERE turn = ?1", arguments)  # noqa: S608 - constants

    # -- compaction ----------------------------------------------------------------------------------------------------

    def switch_table(self) -> None:
        """From now on new turns go to the other table."""
        self._connection.execute("UPDATE counters SET contents = 1 - contents")

    def migrate_batch(self) -> bool:
        """Move some turns to the table that takes the new ones; the last time, overwrite the emptied table.

        Returns:
            Whether there is more to move.
        """
        (current,) = self._connection.execute("SELECT contents FROM counters").fetchone()
        old, new = f"contents_{1 - current}", f"contents_{current}"
        rows = self._connection.execute(f"SELECT turn FROM {old} ORDER BY turn LIMIT ?", (_MIGRATE_BATCH,)).fetchall()  # noqa: S608 - a constant
        if not rows:
            # The last page is the table's own and stays; without a condition, SQLite overwrites all of it.
            self._connection.execute(f"DELETE FROM {old}")  # noqa: S608 - a constant
            return False
        (last,) = rows[-1]
        self._connection.execute(
            f"INSERT INTO {new} SELECT * FROM {old} WHERE turn <= ?",  # noqa: S608 - constants
            (last,),
        )
        self._connection.execute(f"DELETE FROM {old} WHERE turn <= ?", (last,))  # noqa: S608 - a constant
        return True
