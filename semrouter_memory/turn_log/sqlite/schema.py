"""The tables of a turn log's file. The file's schema version is SQLite's `user_version`."""

import secrets
import sqlite3

from semrouter_memory.databases.sqlite_connections import is_new
from semrouter_memory.databases.sqlite_database import FileKind
from semrouter_memory.errors import TurnLogError

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
    # What was said, see rows.py.
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
    # By what a turn is found again (see digests.py).
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


def _set_up(connection: sqlite3.Connection) -> bytes:
    """Make the tables of a new file, and release the leases of the process that had it before.

    Needs an open write transaction. Returns the key of the file's digests.

    Raises:
        ConfigurationError: the file was written by another version.
    """
    if is_new(connection, SCHEMA_VERSION):
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("INSERT INTO settings (name, value) VALUES (?, ?)", (_DIGEST_KEY, secrets.token_bytes(32)))
    connection.execute(_RELEASE_LEASES)
    (key,) = connection.execute("SELECT value FROM settings WHERE name = ?", (_DIGEST_KEY,)).fetchone()
    return bytes(key)


TURN_LOG_FILE = FileKind(
    "turn log", _set_up, lambda message, reason: TurnLogError(message, reason=reason), one_process=True
)
