"""One owner's changes happen one after another in all processes, and a process that dies keeps nobody out."""

import asyncio
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from semrouter_memory.errors import ConfigurationError, LockLostError
from semrouter_memory.model import Scope
from semrouter_memory.sessions.locks import FileOwnerLocks

ALICE, BOB = Scope("alice"), Scope("bob")

_HOLD = """
import asyncio, sys
from pathlib import Path
from semrouter_memory.model import Scope
from semrouter_memory.sessions.locks import FileOwnerLocks

async def hold():
    async with FileOwnerLocks(Path(sys.argv[1])).hold(Scope("alice")) as hold:
        await hold.confirm()
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(hold())
"""

_COUNT = """
import asyncio, sys
from pathlib import Path
from semrouter_memory.model import Scope
from semrouter_memory.sessions.locks import FileOwnerLocks

async def count():
    locks, number = FileOwnerLocks(Path(sys.argv[1])), Path(sys.argv[2])
    async def once():
        async with locks.hold(Scope("alice")):
            before = int(number.read_text())
            await asyncio.sleep(0)
            number.write_text(str(before + 1))
    await asyncio.gather(*(once() for _ in range(50)))

asyncio.run(count())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "owners.lock"


@pytest.fixture
def locks(path: Path) -> Iterator[FileOwnerLocks]:
    opened = FileOwnerLocks(path)
    yield opened
    opened.close()


@contextmanager
def another_process_that_holds_it(path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


async def enter(locks: FileOwnerLocks, scope: Scope = ALICE) -> None:
    async with locks.hold(scope) as hold:
        await hold.confirm()


async def test_a_process_that_is_killed_gives_its_lock_back(path: Path, locks: FileOwnerLocks) -> None:
    with another_process_that_holds_it(path) as process:
        waiting = asyncio.create_task(enter(locks))
        async with asyncio.timeout(10):
            await enter(locks, BOB)
        assert not waiting.done()
        process.kill()
        process.wait()
        async with asyncio.timeout(10):
            await waiting


async def test_a_process_that_lets_go_lets_others_in(path: Path, locks: FileOwnerLocks) -> None:
    with another_process_that_holds_it(path) as process:
        waiting = asyncio.create_task(enter(locks))
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(10):
            await waiting


def test_changes_of_several_processes_do_not_mix(path: Path, tmp_path: Path) -> None:
    number = tmp_path / "number"
    number.write_text("0")
    arguments = [sys.executable, "-c", _COUNT, str(path), str(number)]
    processes = [subprocess.Popen(arguments, stderr=subprocess.PIPE) for _ in range(3)]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert errors == [b""] * 3
    assert number.read_text() == "150"


async def test_within_one_process_it_is_first_come_first_served(locks: FileOwnerLocks) -> None:
    entered = list[int]()

    async def one(number: int) -> None:
        async with locks.hold(Scope("alice", project_id=str(number))):
            entered.append(number)

    async with locks.hold(ALICE):
        tasks = [asyncio.create_task(one(number)) for number in range(5)]
        await asyncio.sleep(0)
        assert entered == []
    await asyncio.gather(*tasks)
    assert entered == list(range(5))


async def test_patience_ends_and_leaves_the_owner_free_afterwards(path: Path) -> None:
    moments = iter(range(0, 1000, 20))
    impatient = FileOwnerLocks(path, patience_seconds=30, monotonic=lambda: float(next(moments)))
    other = FileOwnerLocks(path)
    async with other.hold(ALICE):
        with pytest.raises(LockLostError, match="another process"):
            await enter(impatient)
        await enter(impatient, BOB)
    await enter(impatient)
    impatient.close()
    other.close()


async def test_who_stops_waiting_keeps_nobody_out(path: Path, locks: FileOwnerLocks) -> None:
    other = FileOwnerLocks(path)
    async with other.hold(ALICE):
        waiting = asyncio.create_task(enter(locks))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    await enter(locks)
    with pytest.raises(ValueError, match="a failure"):
        async with locks.hold(ALICE):
            raise ValueError("a failure")
    await enter(other)
    other.close()


async def test_a_closed_file_locks_nothing(path: Path) -> None:
    locks, other = FileOwnerLocks(path), FileOwnerLocks(path)
    async with locks.hold(ALICE):
        locks.close()
        await enter(other)
    with pytest.raises(LockLostError, match="closed"):
        await enter(locks)
    other.close()


@pytest.mark.parametrize("user", ["\ud800", "a\x00b", "", "x" * 10_000])
async def test_any_owner_can_be_locked(locks: FileOwnerLocks, user: str) -> None:
    await enter(locks, Scope(user))


def test_the_file_is_private_and_stays_empty(path: Path, locks: FileOwnerLocks) -> None:
    asyncio.run(enter(locks))
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_size) == (0o600, 0)


def test_a_directory_in_its_place_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        FileOwnerLocks(path)
