"""The tables of a turn log's file. The file's schema version is SQLite's `user_version`."""

import secrets
import sqlite3

from semrouter_memory.turn_log.sqlite.connections import schema_version

SCHEMA_VERSION = 1

# A commit writes every page that it changed, and an append is on the thread that carries all traffic: hence few indexes,
# one table for all digests, and counters instead of AUTOINCREMENT, which keeps a page of its own.
_SCHEMA = (
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    # last_sequence grows with every append and is never given out again, or `parent` could point at a stranger.
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
    # Columns as in `SessionRow`. One session belongs to one scope, so that what is learned from it goes to one project.
    """CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        user_id BLOB NOT NULL,
        project_id BLOB NOT NULL,
        agent_id BLOB NOT NULL,
        newest INTEGER NOT NULL,
        waiting INTEGER NOT NULL,
        rules_pending INTEGER NOT NULL,
        remember INTEGER NOT NULL,
        oldest_waiting INTEGER NOT NULL,
        last_observed_at INTEGER NOT NULL,
        dead INTEGER NOT NULL,
        summarised INTEGER NOT NULL,
        unsummarised INTEGER NOT NULL,
        end_at INTEGER NOT NULL,
        token TEXT NOT NULL,
        lease_until INTEGER NOT NULL,
        not_before INTEGER)""",
    "CREATE INDEX sessions_of_owner ON sessions (owner)",
    "CREATE INDEX sessions_pending ON sessions (key) WHERE waiting > 0 OR unsummarised > 0",
    # Columns as in `TurnRow`.
    """CREATE TABLE turns (
        sequence INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        state TEXT NOT NULL,
        observed_at INTEGER NOT NULL,
        kept_since INTEGER,
        remember INTEGER NOT NULL,
        rules_done INTEGER NOT NULL,
        rules_found INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        error TEXT NOT NULL,
        parent INTEGER,
        response TEXT NOT NULL,
        previous TEXT,
        ends INTEGER NOT NULL,
        transcripts BLOB,
        model TEXT NOT NULL)""",
    "CREATE INDEX turns_of_session ON turns (session, sequence)",
    "CREATE INDEX turns_waiting ON turns (session, sequence) WHERE state = 'waiting'",
    "CREATE INDEX turns_to_sweep ON turns (kept_since) WHERE kept_since IS NOT NULL",
    # What was said, see contents.py.
    *(
        f"""CREATE TABLE contents_{table} (
            turn INTEGER PRIMARY KEY,
            tools BLOB NOT NULL,
            user_texts BLOB NOT NULL,
            assistant_text TEXT NOT NULL,
            items BLOB)"""
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
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        number INTEGER NOT NULL,
        complete INTEGER NOT NULL,
        observed_at INTEGER NOT NULL,
        user_id BLOB NOT NULL,
        project_id BLOB NOT NULL,
        agent_id BLOB NOT NULL,
        payload BLOB)""",
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

_DIGEST_KEY = "digest_key"


def set_up(connection: sqlite3.Connection) -> bytes:
    """Make the tables of a new file, and release the leases of the process that had it before.

    Needs an open write transaction. Returns the key of the file's digests.

    Raises:
        ConfigurationError: the file was written by a newer version.
    """
    if schema_version(connection, SCHEMA_VERSION) == 0:
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("INSERT INTO settings (name, value) VALUES (?, ?)", (_DIGEST_KEY, secrets.token_bytes(32)))
    connection.execute("UPDATE sessions SET token = '', lease_until = 0 WHERE token <> ''")
    (key,) = connection.execute("SELECT value FROM settings WHERE name = ?", (_DIGEST_KEY,)).fetchone()
    return bytes(key)
