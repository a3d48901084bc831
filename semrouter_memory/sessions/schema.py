"""The turn log's tables. The file's schema version is SQLite's `user_version`."""

import secrets
import sqlite3

from semrouter_memory.sessions.connections import schema_version

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
        contents INTEGER NOT NULL DEFAULT 0,
        latest INTEGER NOT NULL DEFAULT 0)""",
    "INSERT INTO counters DEFAULT VALUES",
    # One session belongs to one scope, so that what is learned from it goes to one project.
    # buried: turns up to this moment were deleted, though they may still be on their way out (see deletion.py).
    """CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        user_id BLOB NOT NULL,
        project_id BLOB NOT NULL,
        agent_id BLOB NOT NULL,
        token TEXT,
        lease_until INTEGER,
        not_before INTEGER,
        buried INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX sessions_of_owner ON sessions (user_id, project_id)",
    "CREATE INDEX sessions_buried ON sessions (buried) WHERE buried > 0",
    # parent: the turn before it in a chain of stored responses.
    # kept_since: from when the retention runs; NULL for a turn that is not finished (waiting, dead-lettered).
    # summed_up: an episode covers it. ends: the session's end was announced with it.
    # response: digest of the response id that its items end with. previous: of the one that they continue; '' when they
    # begin a conversation, NULL when that is not known.
    """CREATE TABLE turns (
        sequence INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key),
        parent INTEGER,
        state TEXT NOT NULL,
        observed_at INTEGER NOT NULL,
        kept_since INTEGER,
        remember INTEGER NOT NULL,
        rules_done INTEGER NOT NULL DEFAULT 0,
        summed_up INTEGER NOT NULL DEFAULT 0,
        ends INTEGER NOT NULL DEFAULT 0,
        attempts INTEGER NOT NULL DEFAULT 0,
        model TEXT NOT NULL,
        error TEXT NOT NULL DEFAULT '',
        response BLOB,
        previous BLOB)""",
    "CREATE INDEX turns_of_session ON turns (session, sequence, state)",
    # All that `pending` asks for is in the index: it is read once a second.
    """CREATE INDEX turns_open
        ON turns (session, sequence, state, rules_done, remember, summed_up, ends, observed_at)
        WHERE state = 'waiting' OR (summed_up = 0 AND state <> 'incomplete')""",
    "CREATE INDEX turns_to_sweep ON turns (kept_since) WHERE kept_since IS NOT NULL",
    # What was said, see contents.py.
    *(
        f"""CREATE TABLE contents_{table} (
            turn INTEGER PRIMARY KEY,
            tools BLOB NOT NULL,
            user_texts BLOB NOT NULL,
            assistant_text TEXT NOT NULL,
            transcripts BLOB,
            items BLOB)"""
        for table in (0, 1)
    ),
    """CREATE TRIGGER turns_deleted AFTER DELETE ON turns BEGIN
        DELETE FROM contents_0 WHERE turn = OLD.sequence;
        DELETE FROM contents_1 WHERE turn = OLD.sequence;
    END""",
    # By what a turn is found again: its marks, transcripts and response ids (see identify.py), as keyed digests.
    # learned: the sequence number of the append that brought it; of several turns the last one learned counts.
    """CREATE TABLE traces (
        digest BLOB NOT NULL,
        learned INTEGER NOT NULL,
        turn INTEGER NOT NULL REFERENCES turns (sequence) ON DELETE CASCADE,
        PRIMARY KEY (digest, learned)) WITHOUT ROWID""",
    "CREATE INDEX traces_of_turn ON traces (turn)",
    # A deletion of one memory (memory_id is set), or of a scope. AUTOINCREMENT: the highest key tells what is new.
    """CREATE TABLE tombstones (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        user_id BLOB NOT NULL,
        project_id BLOB NOT NULL,
        memory_id BLOB,
        content_hash TEXT NOT NULL,
        reach TEXT NOT NULL,
        at INTEGER NOT NULL)""",
    "CREATE INDEX tombstones_of_owner ON tombstones (user_id)",
    "CREATE INDEX tombstones_of_scope ON tombstones (user_id, reach, project_id, at) WHERE memory_id IS NULL",
)

OPEN = "(turns.state = 'waiting' OR (turns.summed_up = 0 AND turns.state <> 'incomplete'))"
"""The turns of the index `turns_open`: SQLite takes it for queries that say so in its own words."""

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
    connection.execute("UPDATE sessions SET token = NULL, lease_until = NULL WHERE token IS NOT NULL")
    (key,) = connection.execute("SELECT value FROM settings WHERE name = ?", (_DIGEST_KEY,)).fetchone()
    return bytes(key)
