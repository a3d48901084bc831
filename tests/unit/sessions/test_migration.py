"""A file of an earlier version comes up to date with all that is in it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.model import AppendOutcome, Message, Role, Scope, SessionHints, ToolUse, Turn, TurnState
from semrouter_memory.sessions.columns import micros, pack
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.schema import MIGRATIONS, SCHEMA_VERSION
from semrouter_memory.sessions.sqlite import SqliteTurnLog
from tests.unit.sessions.conftest import NOW, StandingClock

OpenLog = Callable[[Path], SqliteTurnLog]

ALICE = Scope("alice")
KEY = b"k" * 32
LEASE = timedelta(minutes=1)


@pytest.fixture
def version_1(path: Path) -> Path:
    """One session by header: an extracted turn, answered by r1, a dead one and a waiting one that follow it."""
    digests = Digests(KEY)
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        connection.execute("INSERT INTO settings VALUES ('digest_key', ?)", (KEY,))
        connection.execute("UPDATE counters SET last_sequence = 3, accepted = 3, extracted = 1, dead_lettered = 1")
        session_id = digests.session_id(ALICE, "header", "s")
        connection.execute(
            "INSERT INTO sessions (key, id, user_id, project_id, agent_id) VALUES (1, ?, ?, ?, ?)",
            (session_id, pack("alice"), b"", b""),
        )
        for sequence, state in ((1, "extracted"), (2, "dead"), (3, "waiting")):
            connection.execute(
                """INSERT INTO turns (sequence, session, parent, state, observed_at, kept_since, remember, attempts,
                       model, error, tools, user_texts, assistant_text) VALUES (?, 1, ?, ?, ?, ?, 0, ?, 'm', ?, ?, ?, ?)""",
                (
                    sequence,
                    sequence - 1 or None,
                    state,
                    micros(NOW),
                    micros(NOW) if state == "extracted" else None,
                    *((8, "timeout") if state == "dead" else (0, "")),
                    orjson.dumps([("search", "3 hotels")]),
                    orjson.dumps([f"words {sequence}"]),
                    f"answer {sequence}",
                ),
            )
        response = digests.of("response", "alice", "r1")
        connection.execute("INSERT INTO traces VALUES (?, 1, 1)", (response,))
        connection.execute(
            "INSERT INTO tombstones (user_id, project_id, memory_id, content_hash, reach, at) VALUES (?, x'', ?, '', 'all', 1)",
            (pack("alice"), pack("m1")),
        )
    return path


async def test_its_turns_are_kept(version_1: Path, open_log: OpenLog) -> None:
    log = open_log(version_1)
    third, second, first = await log.list_turns(scope=None, states=None, limit=9)
    assert [turn.user_text for turn in (first, second, third)] == ["words 1", "words 2", "words 3"]
    assert [turn.state for turn in (first, second, third)] == [TurnState.EXTRACTED, TurnState.DEAD, TurnState.WAITING]
    assert (second.assistant_text, second.attempts, second.error) == ("answer 2", 8, "timeout")
    assert (first.tools, first.model, first.observed_at) == ((ToolUse("search", "3 hotels"),), "m", NOW)
    assert (first.items, first.transcript_hashes) == (None, ())
    totals = await log.totals()
    assert (totals.accepted, totals.extracted, totals.dead_lettered, totals.waiting) == (3, 1, 1, 1)


async def test_what_leads_to_them_still_does(version_1: Path, open_log: OpenLog) -> None:
    log = open_log(version_1)
    asked = [Message(Role.USER, "words 1"), Message(Role.ASSISTANT, "answer 1")]
    assert await log.history(ALICE, "r1", limit=9) == asked
    assert (await log.chain(ALICE, "r1", limit=9)).complete is False
    (known, *_) = await log.list_turns(scope=None, states=None, limit=1)
    appended = log.append(a_turn("words 4"), remember=False)
    assert (appended.outcome, appended.session_id) == (AppendOutcome.ACCEPTED, known.session_id)
    database = log._database.background
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("PRAGMA foreign_keys").fetchone() == (1,)


async def test_its_sessions_count_as_summed_up(version_1: Path, open_log: OpenLog) -> None:
    log = open_log(version_1)
    (pending,) = await log.pending()
    assert (pending.waiting, pending.unsummarised, pending.ended) == (1, 0, False)
    claim = await log.claim(ALICE, pending.session_id, lease=LEASE, context=9)
    assert claim is not None
    assert [turn.user_text for turn in (*claim.context, *claim.turns)] == ["words 1", "words 2", "words 3"]
    await log.finish(claim, {turn.id: True for turn in claim.turns})
    assert await log.pending() == []
    log.append(a_turn("words 4"), remember=False)
    assert [(item.waiting, item.unsummarised) for item in await log.pending()] == [(1, 1)]


async def test_its_deletions_still_hold(version_1: Path, open_log: OpenLog) -> None:
    assert "m1" in (await open_log(version_1).tombstones(ALICE)).memory_ids


async def test_its_turns_can_be_deleted_without_a_trace(version_1: Path, open_log: OpenLog) -> None:
    log = open_log(version_1)
    (_, dead, _) = await log.list_turns(scope=None, states=None, limit=9)
    assert await log.drop([dead.id]) == 1
    await log.compact()
    content = b"".join(file.read_bytes() for file in version_1.parent.iterdir())
    assert b"words 2" not in content
    assert b"words 1" in content


def test_it_happens_once(version_1: Path, open_log: OpenLog) -> None:
    for _ in range(2):
        log = open_log(version_1)
        assert log._database.background.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_what_fails_in_between_leaves_the_old_version(version_1: Path) -> None:
    with closing(sqlite3.connect(version_1)) as connection:
        connection.execute("CREATE TABLE contents_1 (stranger TEXT)")
    with pytest.raises(ConfigurationError, match="contents_1"):
        SqliteTurnLog(version_1, clock=StandingClock())
    with closing(sqlite3.connect(version_1)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(user_texts) FROM turns").fetchone() == (3,)
        assert connection.execute("SELECT count(*) FROM traces").fetchone() == (1,)


def a_turn(text: str) -> Turn:
    return Turn(
        scope=ALICE,
        hints=SessionHints(explicit="s"),
        user_texts=(text,),
        assistant_text="fine",
        observed_at=NOW,
    )
