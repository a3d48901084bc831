"""Deleted words are in no file after a compaction, a scope's deletion holds nobody up, and a backup is whole."""

import asyncio
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from semrouter_memory.databases.sqlite import connect
from semrouter_memory.errors import TurnLogError
from semrouter_memory.model import AppendOutcome, Reach, Scope, SessionHints, Tombstone, Turn
from semrouter_memory.turn_log import removal
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from semrouter_memory.turn_log.storage import BATCH, Changes, LogRows
from tests.unit.turn_log.conftest import NOW

OpenLog = Callable[[Path], SqliteTurnLog]

ALICE, BOB = Scope("alice"), Scope("bob")
LATER = NOW + timedelta(seconds=1)


def a_turn(text: str, scope: Scope = ALICE, *, at: datetime = NOW, session: str = "s") -> Turn:
    return Turn(
        scope=scope,
        hints=SessionHints(explicit=session),
        user_texts=(text,),
        assistant_text="fine",
        observed_at=at,
    )


def needle(number: int) -> str:
    return f"needle-{number:05}-end"


def needles_in(path: Path) -> set[int]:
    """Those in the files of the log, whole or cut."""
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    return {int(number) for number in re.findall(rb"needle-(\d{5})", content)}


async def turn_ids(log: SqliteTurnLog) -> dict[int, str]:
    turns = await log.list_turns(scope=None, states=None, limit=100_000)
    return {int(turn.user_text[7:12]): turn.id for turn in turns}


async def purge_all(log: SqliteTurnLog) -> None:
    await removal.purge_pending(log)


async def all_removed(log: SqliteTurnLog) -> None:
    async with asyncio.timeout(10):
        while (await log.totals()).waiting:  # noqa: ASYNC110 - another task removes them
            await asyncio.sleep(0.01)


async def purge_one_batch(log: SqliteTurnLog) -> None:
    """What is done of a purge when a crash ends it."""

    async def batch(rows: LogRows) -> tuple[Changes, None]:
        found = await rows.listed(rows.digests.owner(ALICE), None, before=0, limit=BATCH)
        return await removal.removed(rows, found), None

    await log.change("purge", ALICE, batch)


class TestCompaction:
    @pytest.mark.parametrize("seed", [2, 5, 8])
    async def test_no_deleted_word_is_left_whatever_was_moved_about(
        self, path: Path, open_log: OpenLog, seed: int
    ) -> None:
        """Rows of all sizes come and go: now and then SQLite leaves a copy behind where it moved one from."""
        log = open_log(path)
        draw = random.Random(seed)
        for number in range(600):
            turn = a_turn(needle(number) * draw.randint(1, 60), session=str(number % 5))
            log.append(replace(turn, items=({"text": needle(number)},)), remember=False)
            if number % 60 == 59:
                ids = await turn_ids(log)
                await log.drop([ids[each] for each in draw.sample(sorted(ids), 25)])
        kept = set(await turn_ids(log))
        await log.compact()
        assert needles_in(path) == kept
        assert set(await turn_ids(log)) == kept

    async def test_one_that_was_cut_short_is_made_up_for(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        for number in range(200):
            log.append(a_turn(needle(number) * 9), remember=False)
        await log._database.write("compact", log._background.switch_table)
        await log._database.write("compact", log._background.migrate_batch)
        ids = await turn_ids(log)
        await log.drop([ids[number] for number in range(0, 200, 2)])
        await log.compact()
        assert needles_in(path) == set(range(1, 200, 2))
        assert len(await turn_ids(log)) == 100

    async def test_appends_go_on_meanwhile(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        for number in range(300):
            log.append(a_turn(needle(number) * 20), remember=False)
        compaction = asyncio.create_task(log.compact())
        number = 300
        while not compaction.done():
            assert log.append(a_turn(needle(number)), remember=False).outcome is AppendOutcome.ACCEPTED
            number += 1
            await asyncio.sleep(0)
        await compaction
        assert number > 300 + 5
        assert set(await turn_ids(log)) == set(range(number))

    async def test_two_at_a_time_do_no_harm(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        for number in range(300):
            log.append(a_turn(needle(number)), remember=False)
        ids = await turn_ids(log)
        await log.drop([ids[number] for number in range(150)])
        await asyncio.gather(log.compact(), log.compact())
        assert needles_in(path) == set(await turn_ids(log)) == set(range(150, 300))

    async def test_a_reader_is_waited_for(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        log.append(a_turn(needle(1)), remember=False)
        reader = connect(path, busy_seconds=1)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        await log.drop(list((await turn_ids(log)).values()))
        tried, loop, erase = asyncio.Event(), asyncio.get_running_loop(), log._database.erase
        erased = list[bool]()

        def noted() -> bool:
            erased.append(erase())
            loop.call_soon_threadsafe(tried.set)
            return erased[-1]

        log._database.erase = noted  # type: ignore[method-assign]
        compaction = asyncio.create_task(log.compact())
        await tried.wait()
        assert erased == [False]
        reader.execute("COMMIT")
        reader.close()
        await compaction
        assert needles_in(path) == set()

    async def test_one_that_cannot_end_says_so(
        self, path: Path, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("semrouter_memory.databases.sqlite._ERASE_ATTEMPTS", 1)
        log = open_log(path)
        log.append(a_turn(needle(1)), remember=False)
        reader = connect(path, busy_seconds=1)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        with pytest.raises(TurnLogError, match="keeps reading"):
            await log.compact()
        reader.close()


class TestScopeDeletion:
    async def fill(self, log: SqliteTurnLog, turns: int = 3 * BATCH) -> None:
        for number in range(turns):
            log.append(a_turn(needle(number), session=str(number % 3)), remember=False)

    async def test_between_its_batches_nothing_of_it_is_seen(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        await self.fill(log)
        claim = await log.claim(ALICE, (await log.pending())[0].session_id, lease=timedelta(minutes=1), context=1)
        assert claim is not None
        await log._commit(Tombstone(scope=ALICE, at=NOW))
        assert (await log.totals()).waiting == 3 * BATCH
        assert await log.pending() == []
        assert await log.claim(ALICE, claim.session_id, lease=timedelta(0), context=1) is None
        assert await log.surviving(claim) == frozenset()
        assert await log.session_turns(claim, limit=9) == ()
        assert await log.list_turns(scope=None, states=None, limit=9) == []
        assert await log.get_turn(claim.turns[0].id) is None
        assert await log.end_session(ALICE, "0") is None

    async def test_between_its_batches_the_same_words_are_a_new_turn(self, path: Path, open_log: OpenLog) -> None:
        """What was said after the deletion must not count as a repetition of what goes with it."""
        log = open_log(path)
        turn = replace(a_turn("a"), request_id="q", response_id="r")
        log.append(turn, remember=False)
        await log._commit(Tombstone(scope=ALICE, at=NOW))
        assert await log.history(ALICE, "r", limit=9) == []
        appended = log.append(replace(turn, observed_at=LATER), remember=False)
        assert appended.outcome is AppendOutcome.ACCEPTED
        await purge_all(log)
        assert [shown.id for shown in await log.list_turns(scope=None, states=None, limit=9)] == [appended.turn_id]
        totals = await log.totals()
        assert (totals.accepted, totals.deleted, totals.waiting) == (2, 1, 1)

    async def test_between_its_batches_a_tool_loop_takes_nothing_over(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        log.append(replace(a_turn("secret"), complete=False, response_id="r1"), remember=False)
        await log._commit(Tombstone(scope=ALICE, at=NOW))
        end = replace(a_turn(""), user_texts=(), hints=SessionHints(previous_response_id="r1"), observed_at=LATER)
        log.append(end, remember=False)
        assert [turn.user_text for turn in await log.list_turns(scope=None, states=None, limit=9)] == [""]

    async def test_what_a_crash_leaves_of_it_goes_with_the_next_sweep(
        self, path: Path, open_log: OpenLog, tmp_path: Path
    ) -> None:
        log = open_log(path)
        await self.fill(log)
        log.append(a_turn(needle(99_999), BOB), remember=False)
        await log._commit(Tombstone(scope=ALICE, at=NOW))
        await purge_one_batch(log)
        shutil.copytree(path.parent, tmp_path / "left behind")
        log = open_log(tmp_path / "left behind" / path.name)
        await log.sweep(finished_before=NOW)
        totals = await log.totals()
        assert (totals.deleted, totals.waiting) == (3 * BATCH, 1)
        await log.compact()
        assert needles_in(log._database.path) == {99_999}

    async def test_a_caller_that_goes_away_does_not_stop_it(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        await self.fill(log)
        deletion = asyncio.create_task(log.tombstone(Tombstone(scope=ALICE, at=NOW)))
        deleted = 0
        while not deleted:
            deleted = (await log.totals()).deleted
        deletion.cancel()
        await asyncio.wait([deletion])
        await all_removed(log)

    async def test_appends_go_on_meanwhile(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        await self.fill(log, 5 * BATCH)
        deletion = asyncio.create_task(log.tombstone(Tombstone(scope=ALICE, at=NOW, reach=Reach.EXACT)))
        async with asyncio.timeout(10):
            while not (await log.tombstones(ALICE)).fields:  # noqa: ASYNC110 - another thread commits it
                await asyncio.sleep(0)
        between = 0
        while not deletion.done():
            log.append(a_turn(needle(90_000 + between), at=log.now()), remember=False)
            between += 1
            await asyncio.sleep(0)
        assert between > 1
        assert len(await turn_ids(log)) == between


class TestBackup:
    async def test_taken_while_turns_come_it_opens_as_a_log_with_equal_totals(
        self, path: Path, open_log: OpenLog, tmp_path: Path
    ) -> None:
        log = open_log(path)
        directory = tmp_path / "backup"
        directory.mkdir()
        for number in range(300):
            log.append(a_turn(needle(number)), remember=False)
        backup = asyncio.create_task(log.backup(directory))
        number = 300
        while not backup.done():
            log.append(a_turn(needle(number)), remember=False)
            number += 1
            await asyncio.sleep(0)
        await backup
        assert [file.name for file in directory.iterdir()] == ["turns.db"]
        assert (directory / "turns.db").stat().st_mode & 0o777 == 0o600
        copy = open_log(directory / "turns.db")
        held = set(await turn_ids(copy))
        assert held == set(range(len(held)))
        assert 300 <= len(held) <= number
        assert (await copy.totals()).accepted == len(held)
        assert copy._database.background.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    async def test_of_a_log_at_rest_it_holds_everything(self, path: Path, open_log: OpenLog, tmp_path: Path) -> None:
        log = open_log(path)
        log.append(a_turn(needle(1)), remember=False)
        (pending,) = await log.pending()
        assert await log.claim(ALICE, pending.session_id, lease=timedelta(minutes=1), context=0) is not None
        await log.backup(tmp_path)
        copy = open_log(tmp_path / "turns.db")
        assert await copy.totals() == await log.totals()
        assert await copy.pending() == [pending]

    async def test_the_logs_own_directory_is_refused(self, path: Path, open_log: OpenLog) -> None:
        log = open_log(path)
        log.append(a_turn(needle(1)), remember=False)
        with pytest.raises(TurnLogError, match="backup failed"):
            await log.backup(path.parent)
        assert (await log.totals()).accepted == 1


def test_a_killed_process_leaves_every_turn_it_acknowledged(path: Path, open_log: OpenLog) -> None:
    """Killed while it appends, deletes a scope and compacts, all at once."""
    program = (
        "import asyncio, sys; from pathlib import Path; from datetime import UTC, datetime, timedelta\n"
        "from semrouter_memory.model import Scope, SessionHints, Tombstone, Turn\n"
        "from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog\n"
        "class Clock:\n"
        "    def now(self): return datetime.now(UTC)\n"
        "log = SqliteTurnLog(Path(sys.argv[1]), clock=Clock())\n"
        "async def maintenance():\n"
        "    while True:\n"
        "        await log.tombstone(Tombstone(scope=Scope('bob'), at=datetime.now(UTC)))\n"
        "        await log.compact()\n"
        "async def main():\n"
        "    task = asyncio.create_task(maintenance())\n"
        "    for number in range(100_000):\n"
        "        for user in ('alice', 'bob'):\n"
        "            log.append(Turn(scope=Scope(user), hints=SessionHints(), user_texts=(f'{user} {number}',),\n"
        "                       assistant_text='fine', observed_at=datetime.now(UTC)), remember=False)\n"
        "        print(number, flush=True)\n"
        "        await asyncio.sleep(0)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(400)][-1]
        process.kill()
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
    log = open_log(path)
    totals = asyncio.run(log.totals())
    assert totals.accepted == totals.deleted + totals.waiting
    turns = asyncio.run(log.list_turns(scope=ALICE, states=None, limit=1_000_000))
    said = {int(turn.user_text.split()[1]) for turn in turns}
    assert said >= set(range(acknowledged + 1))
    assert log._database.background.execute("PRAGMA integrity_check").fetchone() == ("ok",)
