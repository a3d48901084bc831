"""The file: who may read it, what becomes of it when things fail, and what survives a restart."""

import asyncio
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.databases import sqlite as database
from semrouter_memory.errors import ConfigurationError, TurnLogError
from semrouter_memory.model import AppendOutcome, Claim, Memory, MemoryType, Scope, SessionHints, Tombstone, Turn
from semrouter_memory.turn_log import claims
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from semrouter_memory.turn_log.sqlite_rows import SCHEMA_VERSION

ALICE = Scope("alice")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=2)

OpenLog = Callable[[Path], SqliteTurnLog]
Said = Callable[[str], Turn]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def claim_only_session(log: SqliteTurnLog) -> Claim:
    (pending,) = await log.pending()
    claim = await log.claim(pending.scope, pending.session_id, lease=LEASE, context=0)
    assert claim is not None
    return claim


@contextmanager
def another_writer(path: Path) -> Iterator[None]:
    """Another process's transaction."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


class TestCheckpoint:
    async def test_one_that_fails_is_repeated(
        self, path: Path, open_log: OpenLog, said: Said, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(path)
        log.append(said("a"), remember=False)
        real, attempts = log._database._checkpoint, 0

        def failing_once() -> int:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise sqlite3.OperationalError("disk I/O error")
            return real()

        monkeypatch.setattr(log._database, "_checkpoint", failing_once)
        for _ in range(3):
            await log.pending()
            await log.totals()
        assert attempts == 2


class TestFile:
    def test_only_the_owner_can_read_it(self, path: Path, open_log: OpenLog, said: Said) -> None:
        old_mask = os.umask(0)
        try:
            open_log(path).append(said("my address"), remember=False)
        finally:
            os.umask(old_mask)
        assert mode(path.parent) == 0o700
        files = {file.name: mode(file) for file in path.parent.iterdir()}
        assert files.keys() == {"turns.db", "turns.db-wal", "turns.db-shm", "turns.db.lock"}
        assert set(files.values()) == {0o600}

    def test_an_open_file_is_closed_to_others(self, path: Path, open_log: OpenLog) -> None:
        path.parent.mkdir(mode=0o755)
        path.touch(0o644)
        open_log(path)
        assert mode(path) == 0o600
        assert mode(path.parent) == 0o755

    @pytest.mark.parametrize("connection", ["local", "background", "reading"])
    def test_it_is_written_ahead_and_erased_securely(self, path: Path, open_log: OpenLog, connection: str) -> None:
        opened: sqlite3.Connection = getattr(open_log(path)._database, connection)
        settings = {name: opened.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "secure_delete")}
        assert settings == {"journal_mode": "wal", "secure_delete": 1}
        assert opened.execute("PRAGMA foreign_keys").fetchone() == (1,)

    async def test_a_deleted_text_is_in_no_file_any_more(self, path: Path, open_log: OpenLog, said: Said) -> None:
        log = open_log(path)
        log.append(said("my secret harbour"), remember=False)
        assert any(b"secret harbour" in file.read_bytes() for file in path.parent.iterdir())
        await log.tombstone(Tombstone(scope=ALICE, at=NOW))
        assert not any(b"secret harbour" in file.read_bytes() for file in path.parent.iterdir())

    async def test_a_tombstone_does_not_hold_the_statement(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        await log.tombstone(
            Tombstone(scope=ALICE, at=NOW, memory_id="m", content_hash=log.content_hash("secret harbour"))
        )
        assert not any(b"harbour" in file.read_bytes() for file in path.parent.iterdir())
        other = open_log(path.with_name("other.db"))
        assert other.content_hash("secret harbour") != log.content_hash("secret harbour")

    def test_the_write_ahead_log_is_synced_now_and_then(self, path: Path, open_log: OpenLog, said: Said) -> None:
        log = open_log(path)
        for number in range(database.CHECKPOINT_COMMITS):
            log.append(said(str(number)), remember=False)
        log._database.submit(lambda: None).result()
        assert log._database._commits < database.CHECKPOINT_COMMITS // 2


class TestFailure:
    def test_a_directory_in_its_place(self, path: Path) -> None:
        path.mkdir(parents=True)
        with pytest.raises(ConfigurationError, match=r"turn log .*turns\.db cannot be opened"):
            SqliteTurnLog(path, clock=_Clock())

    def test_a_file_in_the_directorys_place(self, path: Path) -> None:
        path.parent.touch()
        with pytest.raises(ConfigurationError, match="cannot be opened"):
            SqliteTurnLog(path, clock=_Clock())

    @pytest.mark.parametrize(
        "content", [b"not a database, but long enough to be read as one" * 100, b"SQLite format 3\0"]
    )
    def test_a_file_that_is_no_database(self, path: Path, content: bytes) -> None:
        path.parent.mkdir()
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match="damaged or no SQLite file"):
            SqliteTurnLog(path, clock=_Clock())
        assert path.read_bytes() == content

    @pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, SCHEMA_VERSION - 1])
    def test_another_schema_is_refused_and_left_alone(self, path: Path, version: int) -> None:
        """Early versions counted higher than this one does, so the number does not tell which is the newer."""
        SqliteTurnLog(path, clock=_Clock()).close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(ConfigurationError, match=f"schema version {version}.*another version.*move it away"):
            SqliteTurnLog(path, clock=_Clock())
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (version,)

    async def test_what_cannot_be_written_later_is_an_error_and_leaves_nothing(
        self, path: Path, open_log: OpenLog, said: Said
    ) -> None:
        log = open_log(path)
        log.append(said("a"), remember=False)
        with another_writer(path), pytest.raises(TurnLogError, match="append"):
            log.append(said("b"), remember=False)
        assert (await log.totals()).accepted == 1
        assert log.append(said("b"), remember=False).outcome is AppendOutcome.ACCEPTED

    async def test_a_full_disk_is_an_error_and_the_log_goes_on(self, path: Path, open_log: OpenLog, said: Said) -> None:
        log = open_log(path)
        local = log._database.local
        (pages,) = local.execute("PRAGMA page_count").fetchone()
        local.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(TurnLogError, match="full"):
            log.append(said("x" * 50_000), remember=False)
        local.execute("PRAGMA max_page_count = 100000")
        assert log.append(said("x" * 50_000), remember=False).outcome is AppendOutcome.ACCEPTED
        assert (await log.totals()).accepted == 1

    async def test_whatever_fails_within_an_append_nothing_of_it_stays(
        self, path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids: Iterator[str | ValueError] = iter((ValueError("no id"), "one"))

        def new_id() -> str:
            drawn = next(ids)
            if isinstance(drawn, Exception):
                raise drawn
            return drawn

        monkeypatch.setattr("semrouter_memory.turn_log.log.new_id", new_id)
        log = SqliteTurnLog(path, clock=_Clock())
        turn = replace(said("a"), hints=SessionHints())
        with pytest.raises(ValueError, match="no id"):
            log.append(turn, remember=False)
        assert log.append(turn, remember=False).session_id == "ses_one"
        assert (await log.totals()).accepted == 1
        log.close()

    async def test_a_damaged_table_is_an_error_in_every_method(self, path: Path, open_log: OpenLog, said: Said) -> None:
        log = open_log(path)
        log.append(said("a"), remember=False)
        claim = await claim_only_session(log)
        for table in ("lookup_keys", "turns", "tombstones", "deletions", "sessions", "counters"):
            log._database.local.execute(f"DROP TABLE {table}")
        for call in (
            log.pending(),
            log.totals(),
            log.history(ALICE, "r", limit=1),
            log.claim(ALICE, "s", lease=LEASE, context=0),
            log.surviving(claim),
            log.finish(claim, {}),
            log.tombstone(Tombstone(scope=ALICE, at=NOW)),
            log.sweep(finished_before=NOW),
        ):
            with pytest.raises(TurnLogError):
                await call
        with pytest.raises(TurnLogError):
            await log.tombstones(ALICE)

    async def test_a_closed_log_is_an_error(self, path: Path, said: Said) -> None:
        log = SqliteTurnLog(path, clock=_Clock())
        log.close()
        with pytest.raises(TurnLogError):
            log.append(said("a"), remember=False)
        with pytest.raises(TurnLogError):
            await log.totals()


class TestRestart:
    async def test_it_goes_on_where_it_stopped(self, path: Path, said: Said) -> None:
        log = SqliteTurnLog(path, clock=_Clock())
        first = log.append(said("a"), remember=True)
        content_hash = log.content_hash("User is shy")
        await log.tombstone(Tombstone(scope=ALICE, at=NOW - LEASE, memory_id="m", content_hash=content_hash))
        log.close()
        log = SqliteTurnLog(path, clock=_Clock())
        assert log.append(said("a"), remember=False).turn_id == first.turn_id
        assert log.append(said("b"), remember=False).session_id == first.session_id
        assert log.content_hash("User is shy") == content_hash
        assert (await log.tombstones(ALICE)).covers(_memory("m"))
        claim = await claim_only_session(log)
        assert [turn.user_text for turn in claim.turns] == ["a", "b"]
        assert (await log.totals()).waiting == 2
        log.close()

    async def test_after_a_kill_nobody_waits_for_the_leases_of_the_dead(
        self, path: Path, open_log: OpenLog, said: Said, tmp_path: Path
    ) -> None:
        """The copied files are what a killed process leaves: nothing synced, the write-ahead log full."""
        log = open_log(path)
        log.append(said("a"), remember=False)
        stale = await claim_only_session(log)
        shutil.copytree(path.parent, tmp_path / "left behind")
        survivor = open_log(tmp_path / "left behind" / path.name)
        assert await survivor.surviving(stale) == frozenset()
        claim = await claim_only_session(survivor)
        assert claim.turns == stale.turns


class TestProcesses:
    def test_a_second_process_is_told_what_to_do(self, path: Path, open_log: OpenLog, said: Said) -> None:
        program = (
            "import sys; from pathlib import Path; from datetime import UTC, datetime\n"
            "from semrouter_memory.errors import ConfigurationError\n"
            "from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog\n"
            "class Clock:\n"
            "    def now(self): return datetime.now(UTC)\n"
            "try:\n"
            "    SqliteTurnLog(Path(sys.argv[1]), clock=Clock())\n"
            "except ConfigurationError as error:\n"
            "    print(error)\n"
        )
        log = open_log(path)
        second = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True)
        assert re.search(r"turns\.db cannot be used: another process has it open\..*memory\.data_dir", second.stdout)
        assert log.append(said("a"), remember=False).outcome is AppendOutcome.ACCEPTED

    def test_a_process_that_is_killed_leaves_the_file_to_the_next(self, path: Path, open_log: OpenLog) -> None:
        program = (
            "import sys, time; from pathlib import Path; from datetime import UTC, datetime\n"
            "from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog\n"
            "class Clock:\n"
            "    def now(self): return datetime.now(UTC)\n"
            "log = SqliteTurnLog(Path(sys.argv[1]), clock=Clock())\n"
            "print('open', flush=True)\n"
            "time.sleep(600)\n"
        )
        with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            with pytest.raises(ConfigurationError, match="another process"):
                open_log(path)
            process.kill()
        open_log(path)


class TestThread:
    async def test_a_claim_whose_caller_is_gone_is_given_back(
        self, path: Path, open_log: OpenLog, said: Said, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(path)
        session = log.append(said("a"), remember=False).session_id
        entered, go_on = threading.Event(), threading.Event()
        take = claims.take

        async def slowly(*arguments: Any, **options: Any) -> Any:
            entered.set()
            go_on.wait(5)
            return await take(*arguments, **options)

        with monkeypatch.context() as slow:
            slow.setattr(claims, "take", slowly)
            task = asyncio.create_task(log.claim(ALICE, session, lease=LEASE, context=0))
            await asyncio.to_thread(entered.wait, 5)
            task.cancel()
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.wait([task])
        assert await log.claim(ALICE, session, lease=LEASE, context=0) is not None

    async def test_what_was_said_is_read_while_others_may_write(
        self, path: Path, open_log: OpenLog, said: Said, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(path)
        session = log.append(said("a"), remember=False).session_id
        whole = claims.whole
        written = 0

        async def writing_beside(*arguments: Any, **options: Any) -> Any:
            nonlocal written
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
            written += 1
            return await whole(*arguments, **options)

        monkeypatch.setattr(claims, "whole", writing_beside)
        claim = await log.claim(ALICE, session, lease=LEASE, context=0)
        assert claim is not None
        assert ([turn.user_text for turn in claim.turns], written) == (["a"], 1)

    async def test_appends_go_on_beside_the_thread(self, path: Path, open_log: OpenLog, said: Said) -> None:
        log = open_log(path)

        async def extract() -> None:
            for _ in range(20):
                for pending in await log.pending():
                    claim = await log.claim(pending.scope, pending.session_id, lease=LEASE, context=2)
                    assert claim is not None
                    await log.finish(claim, {turn.id: True for turn in claim.turns})

        extraction = asyncio.create_task(extract())
        for number in range(200):
            log.append(said(str(number)), remember=False)
            await asyncio.sleep(0)
        await extraction
        await extract()
        assert (await log.totals()).extracted == 200


class _Clock:
    def now(self) -> datetime:
        return NOW


def _memory(memory_id: str) -> Memory:
    return Memory(
        id=memory_id,
        scope=ALICE,
        type=MemoryType.SEMANTIC,
        content="",
        source="api",
        observed_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
