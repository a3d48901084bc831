"""The state file: who may read it, what is left in it, and what becomes of it when things fail."""

import asyncio
import random
import re
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from semrouter_memory.errors import ConfigurationError, Service, UnavailableError
from semrouter_memory.model import Reach, Scope
from semrouter_memory.state.local import SqliteStateStore
from tests.raising import raising
from tests.unit.turn_log.conftest import NOW

ALICE = Scope("alice")
HOUR = timedelta(hours=1)

OpenStore = Callable[[Path], SqliteStateStore]


class Clock:
    moment = NOW

    def now(self) -> datetime:
        return self.moment


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "state.db"


@pytest.fixture
def open_store(clock: Clock) -> Iterator[OpenStore]:
    opened: list[SqliteStateStore] = []

    def open_it(path: Path) -> SqliteStateStore:
        opened.append(SqliteStateStore(path, clock=clock))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def holds(path: Path, text: bytes) -> bool:
    return any(text in file.read_bytes() for file in path.parent.iterdir())


async def test_only_the_owner_can_read_it(path: Path, open_store: OpenStore) -> None:
    await open_store(path).put(ALICE, "a", b"1", ttl=HOUR)
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert files == dict.fromkeys(("state.db", "state.db-wal", "state.db-shm"), 0o600)


async def test_it_goes_on_where_it_stopped(path: Path, open_store: OpenStore) -> None:
    await open_store(path).put(ALICE, "a", b"1", ttl=HOUR)
    assert await open_store(path).get(ALICE, ["a"]) == {"a": b"1"}


async def test_a_sweep_really_deletes_what_has_ended(path: Path, open_store: OpenStore, clock: Clock) -> None:
    store = open_store(path)
    for key in ("a", "b"):
        await store.put(ALICE, key, b"secret harbour", ttl=HOUR)
    await store.put(ALICE, "c", b"kept", ttl=2 * HOUR)
    clock.moment += HOUR
    assert await store.sweep() == 2
    assert await store.sweep() == 0
    await store.compact()
    assert not holds(path, b"secret harbour")
    assert holds(path, b"kept")


@pytest.mark.parametrize("seed", [5, 7])
async def test_after_a_compaction_nothing_that_was_forgotten_is_left(
    path: Path, open_store: OpenStore, seed: int
) -> None:
    """Also beside another process, and though rows were moved from page to page before they went."""
    store, other, draw = open_store(path), open_store(path), random.Random(seed)
    for number in range(400):
        scope, key = Scope(f"user{draw.randrange(9)}"), str(draw.randrange(60))
        await store.put(scope, key, f"needle-{number:05}".encode() * draw.randint(1, 60), ttl=HOUR)
    for user in range(8):
        await store.forget(Scope(f"user{user}"), Reach.ALL)
    kept = await other.get(Scope("user8"), [str(key) for key in range(60)])
    await store.compact()
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert set(re.findall(rb"needle-\d{5}", content)) == {value[:12] for value in kept.values()}
    assert not any(f"user{user}".encode() in content for user in range(8))


async def test_look_ups_do_not_wait_for_a_compaction(path: Path, open_store: OpenStore) -> None:
    store = open_store(path)
    await store.put(ALICE, "a", b"1", ttl=HOUR)
    await store.count_uses(ALICE, {"m": 1}, at=NOW)
    rewritten = threading.Event()
    compacting = asyncio.create_task(store._database.run("compact", rewritten.wait))
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(10):
            assert await store.get(ALICE, ["a"]) == {"a": b"1"}
            assert (await store.usage(ALICE, ["m"])).keys() == {"m"}
    finally:
        rewritten.set()
        await compacting


async def test_a_backup_opens_as_a_store(path: Path, open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store(path)
    await store.put(ALICE, "a", b"1", ttl=HOUR)
    directory = tmp_path / "backup"
    directory.mkdir()
    await store.backup(directory)
    assert [file.name for file in directory.iterdir()] == ["state.db"]
    assert await open_store(directory / "state.db").get(ALICE, ["a"]) == {"a": b"1"}
    with raising(UnavailableError, service=Service.STATE, match="backup failed"):
        await store.backup(path.parent)


async def test_several_processes_count_together(path: Path, open_store: OpenStore) -> None:
    stores = [open_store(path) for _ in range(3)]
    await asyncio.gather(*(store.count_uses(ALICE, {"m": 1}, at=NOW) for store in stores for _ in range(20)))
    usage = await stores[0].usage(ALICE, ["m"])
    assert usage["m"].access_count == 60


def test_a_newer_file_is_refused(path: Path, clock: Clock) -> None:
    SqliteStateStore(path, clock=clock).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigurationError, match=r"state file .* schema version 99"):
        SqliteStateStore(path, clock=clock)


def test_what_is_no_database_is_refused_and_left_alone(path: Path, clock: Clock) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(ConfigurationError, match="damaged or no SQLite file"):
        SqliteStateStore(path, clock=clock)
    assert path.read_bytes().startswith(b"not a database")


async def test_what_fails_later_is_an_error(path: Path, clock: Clock) -> None:
    store = SqliteStateStore(path, clock=clock)
    store._database.background.execute("DROP TABLE state")
    for call in (store.get(ALICE, ["a"]), store.put(ALICE, "a", b"", ttl=HOUR), store.sweep()):
        with raising(UnavailableError, service=Service.STATE, match="no such table"):
            await call
    store.close()
    with raising(UnavailableError, service=Service.STATE, match="closed"):
        await store.get(ALICE, ["a"])
