"""The tables of a turn log's file, and its rows: read for the rules, and written as they decide (implements `LogRows`).

Strategy of what was said. SQLite overwrites what it deletes (`secure_delete`), but not what it moves: a row that it carried to
another page for balance may stay behind in the old page's unused middle, and is found there after the row was deleted. Making
a table anew is what leaves nothing behind, and VACUUM would do it in one transaction, with every append waiting. So
texts lie in two tables of which one takes the new turns. A compaction switches to the other table, migrates what is
still wanted, a few turns at a time, and empties the old table as a whole, which overwrites all its pages.

A turn's row in `turns` holds no text, and a trigger deletes its contents with it. Methods that write need an open write
transaction. The file's schema version is SQLite's `user_version`.
"""

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from cachetools import LRUCache

from semrouter_memory.databases.sqlite import FileKind, create_tables
from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import TurnState
from semrouter_memory.turn_log.client_values import Digests
from semrouter_memory.turn_log.rows import ERASED, Content, SessionRow, TurnRow
from semrouter_memory.turn_log.storage import MAX_SHARED, NEWEST, Changes
from semrouter_memory.turn_log.tombstones import CACHED_OWNERS, OwnerTombstones, TombstoneCache

SCHEMA_VERSION = 2

# A commit writes every page that it changed, and an append is on the thread that carries all traffic: hence few indexes,
# one table for all digests, and counters instead of AUTOINCREMENT, which keeps a page of its own.
_SCHEMA = (
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    # last_sequence grows with every append and is never used again, or `parent` could point at another turn.
    # contents: which of the two tables new turns are written to. latest: the latest time of a turn or deletion.
    """CREATE TABLE counters (
        last_sequence INTEGER NOT NULL DEFAULT 0,
        accepted INTEGER NOT NULL DEFAULT 0,
        extracted INTEGER NOT NULL DEFAULT 0,
        empty INTEGER NOT NULL DEFAULT 0,
        dead_lettered INTEGER NOT NULL DEFAULT 0,
        deleted INTEGER NOT NULL DEFAULT 0,
        waiting INTEGER NOT NULL DEFAULT 0,
        contents INTEGER NOT NULL DEFAULT 0,
        latest INTEGER NOT NULL DEFAULT 0)""",
    "INSERT INTO counters DEFAULT VALUES",
    # value: the `SessionRow` as JSON, the other columns are what is searched for.
    """CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        pending INTEGER NOT NULL,
        value BLOB NOT NULL)""",
    "CREATE INDEX sessions_of_owner ON sessions (owner)",
    "CREATE INDEX sessions_pending ON sessions (key) WHERE pending",
    # The same of `TurnRow`.
    """CREATE TABLE turns (
        sequence INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        state TEXT NOT NULL,
        kept_since INTEGER,
        value BLOB NOT NULL)""",
    "CREATE INDEX turns_of_session ON turns (session, sequence)",
    "CREATE INDEX turns_to_sweep ON turns (kept_since) WHERE kept_since IS NOT NULL",
    # What was said, see above.
    *(
        f"""CREATE TABLE contents_{table} (
            turn INTEGER PRIMARY KEY,
            user BLOB NOT NULL,
            answer BLOB)"""
        for table in (0, 1)
    ),
    """CREATE TRIGGER turns_deleted AFTER DELETE ON turns BEGIN
        DELETE FROM contents_0 WHERE turn = OLD.sequence;
        DELETE FROM contents_1 WHERE turn = OLD.sequence;
    END""",
    # By what a turn is found again (see client_values.py).
    # learned: the sequence number of the append that brought it; of several turns the one learned last counts.
    """CREATE TABLE lookup_keys (
        digest BLOB NOT NULL,
        learned INTEGER NOT NULL,
        turn INTEGER NOT NULL REFERENCES turns (sequence) ON DELETE CASCADE,
        PRIMARY KEY (digest, learned)) WITHOUT ROWID""",
    "CREATE INDEX lookup_keys_of_turn ON lookup_keys (turn)",
    # Turns that are accepted for Redis and not forwarded yet, see spool.py.
    # payload: NULL once the turn was deleted before it was forwarded; then only the count of it is.
    """CREATE TABLE spool (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        complete INTEGER NOT NULL,
        observed_at INTEGER NOT NULL,
        owner BLOB NOT NULL,
        project_id BLOB NOT NULL,
        payload BLOB)""",
    "CREATE INDEX spool_runs ON spool (run, number)",
    # Fields as in tombstones.py.
    """CREATE TABLE tombstones (
        owner TEXT NOT NULL,
        name BLOB NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (owner, name)) WITHOUT ROWID""",
    # version: changes with each deletion of the owner. purging: turns are covered and not removed yet.
    """CREATE TABLE deletions (
        owner TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        purging INTEGER NOT NULL) WITHOUT ROWID""",
)

_RELEASE_LEASES = """UPDATE sessions
    SET value = CAST(json_set(CAST(value AS TEXT), '$.token', '', '$.lease_until', 0) AS BLOB)
    WHERE json_extract(CAST(value AS TEXT), '$.token') <> ''"""

_DIGEST_KEY = "digest_key"
SHARED_KEY = "shared_key"
"""The setting of a file that is used with Redis."""

_UNSHARED = """SELECT
        (SELECT count(*) FROM turns WHERE state IN ('waiting', 'dead')),
        (SELECT count(*) FROM deletions)
    WHERE NOT EXISTS (SELECT 1 FROM settings WHERE name = 'shared_key')"""


def _set_up(connection: sqlite3.Connection) -> bytes:
    """Make the tables of a new file, and release the leases of the process that had it before.

    Needs an open write transaction. Returns the key of the file's digests.

    Raises:
        ConfigurationError: the file was written by another version.
    """
    if create_tables(connection, SCHEMA_VERSION, _SCHEMA):
        connection.execute("INSERT INTO settings (name, value) VALUES (?, ?)", (_DIGEST_KEY, secrets.token_bytes(32)))
    connection.execute(_RELEASE_LEASES)
    (key,) = connection.execute("SELECT value FROM settings WHERE name = ?", (_DIGEST_KEY,)).fetchone()
    return bytes(key)


TURN_LOG_FILE = FileKind(
    "turn log", _set_up, lambda message, reason: TurnLogError(message, reason=reason), one_process=True
)


def spooled_turns(path: Path) -> int:
    """How many turns wait in a file that no process has open; 0 when there is none, or none that can be read."""
    (count,) = _look(path, "SELECT count(*) FROM spool") or (0,)
    return count


def unshared(path: Path) -> tuple[int, int]:
    """What such a file knows that Redis does not: how many turns nothing was learned from yet, and of how many owners deletions or pauses.

    A file that was used with Redis before counts as having nothing.
    """
    unlearned, owners = _look(path, _UNSHARED) or (0, 0)
    return unlearned, owners


def _look(path: Path, select: str) -> tuple[int, ...] | None:
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            row: tuple[int, ...] | None = connection.execute(select).fetchone()
            return row
    except sqlite3.Error:
        return None


# -- rows ---------------------------------------------------------------------------------------------------------------

_TABLES = ("contents_0", "contents_1")
_MIGRATE_BATCH = 32
"""Turns that one transaction of a compaction migrates, so that appends never wait long for it."""
_OF_SESSION = "session = (SELECT key FROM sessions WHERE id = ?)"


class SqliteRows:
    """Reads and writes through one connection; writes need an open write transaction.

    Args:
        deleted: told the time of every deletion that is read.
    """

    def __init__(self, connection: sqlite3.Connection, digests: Digests, deleted: Callable[[int], None]) -> None:
        self._connection = connection
        self._deleted = deleted
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
        conditions: list[tuple[str, object]] = [("sequence < ?", before if before > 0 else NEWEST)]
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
            self._deleted(max(known.fields.values(), default=0))
            self._tombstones[owner] = row[0], known
        return known

    async def counts(self) -> dict[str, int]:
        names = ("accepted", "extracted", "empty", "dead_lettered", "deleted", "waiting")
        ((*values,),) = self._all(f"SELECT {', '.join(names)} FROM counters")  # noqa: S608 - constants
        return dict(zip(names, values, strict=True))

    def _turns(self, condition: str, *arguments: Any) -> list[TurnRow]:
        return [TurnRow.of_value(value) for (value,) in self._all(f"SELECT value FROM turns {condition}", *arguments)]  # noqa: S608

    def _sessions(self, condition: str, *arguments: Any) -> list[SessionRow]:
        found = self._all(f"SELECT value FROM sessions {condition}", *arguments)  # noqa: S608 - constants
        return [SessionRow.of_value(value) for (value,) in found]

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
                (session.id, self.digests.owner(session.scope), session.is_pending, session.value()),
            )
        for row, content in changes.added:
            execute(
                "INSERT INTO turns VALUES (?, (SELECT key FROM sessions WHERE id = ?), ?, ?, ?)",
                (row.sequence, row.session_id, row.state, row.kept_since, row.value()),
            )
            self._insert_content(row.sequence, content)
        for row in changes.updated:
            execute(
                "UPDATE turns SET state = ?, kept_since = ?, value = ? WHERE sequence = ?",
                (row.state, row.kept_since, row.value(), row.sequence),
            )
        if changes.sessions_removed:
            many("DELETE FROM sessions WHERE id = ?", [(each,) for each in changes.sessions_removed])
        if changes.keys:
            many(
                "INSERT OR REPLACE INTO lookup_keys (digest, learned, turn) VALUES (?, ?, ?)",
                [(bytes.fromhex(key), learned, sequence) for key, sequence, learned in changes.keys],
            )
        self._put_answers(changes.answered)
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

    def _put_answers(self, answered: Iterable[tuple[TurnRow, Content]]) -> None:
        arguments = [(content.answer_value(), row.sequence) for row, content in answered]
        for table in _TABLES if arguments else ():
            self._connection.executemany(f"UPDATE {table} SET answer = ? WHERE turn = ?", arguments)  # noqa: S608 - constants

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
