"""Writes that were interrupted are completed: on Milvus Lite, whose process is killed, and on a server that is old."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymilvus import AsyncMilvusClient, MilvusException

from semrouter_memory.config import MilvusConfig
from semrouter_memory.errors import StoreUnavailableError, TurnLogError
from semrouter_memory.model import Criteria, EmbeddedMemory, Memory, Reach, Scope, Tombstone
from semrouter_memory.ports import OwnerLocks
from semrouter_memory.state.local import InProcessOwnerLocks, InProcessOwnerVersions
from semrouter_memory.store import lite_file, schema, supervisor, write_ahead
from semrouter_memory.store.connection import MilvusConnection, StoreTarget
from semrouter_memory.store.location import LiteFile, Server
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.store.owner_versions import OwnerVersions
from semrouter_memory.store.write_ahead import TombstonesOf, journal_of
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.faults.parts import killed_between_delete_and_insert, lite_process
from tests.indexed_store import IndexedStore
from tests.memories import DIMENSION, NOW, embedded, memory
from tests.milvus_server import MilvusServer
from tests.store_observer import StoreObserver

ALICE, BOB = Scope("alice"), Scope("bob")
KILLS = 3
ROWS = 6
_CANCELLED = 20


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


@contextlib.asynccontextmanager
async def opened(
    directory: Path,
    *,
    observer: StoreObserver | None = None,
    tombstones: TombstonesOf | None = None,
    versions: OwnerVersions | None = None,
    locks: OwnerLocks | None = None,
    **settings: Any,
) -> AsyncIterator[MilvusStore]:
    store = MilvusStore(
        MilvusConfig(dimension=DIMENSION, reconnect_seconds=0.1, **settings),
        data_dir=directory,
        fingerprint="test",
        observer=observer or StoreObserver(),
        tombstones=tombstones,
        versions=versions,
        locks=locks,
    )
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def version(scope: Scope, memory_id: str, number: int) -> EmbeddedMemory:
    """Later versions are written later."""
    at = NOW + timedelta(seconds=number)
    return embedded(replace(memory(scope, memory_id, content=f"{memory_id}: version {number}"), updated_at=at))


def number_of(one: Memory | None) -> int:
    return -1 if one is None else int(one.content.rpartition(" ")[2])


def interrupted(directory: Path, rows: Sequence[EmbeddedMemory]) -> None:
    """Leave what a process leaves that was killed before the store acknowledged these rows."""
    target = StoreTarget(
        location=LiteFile(directory / "milvus.db"),
        token="",
        collection=MilvusConfig().collection,
        dimension=DIMENSION,
        fingerprint="test",
    )
    encoded = [schema.row_from(row.memory.scope, row, dimension=DIMENSION) for row in rows]
    journal_of(target, directory).add(encoded)


def open_writes(directory: Path) -> list[Path]:
    return [path for path in directory.glob("milvus*.writes/*") if path.is_file()]


def files_hold(directory: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in directory.rglob("*") if path.is_file())


async def eventually_open(directory: Path, count: int) -> None:
    async with asyncio.timeout(20):
        while len(open_writes(directory)) != count:  # noqa: ASYNC110 - files have no event to wait for
            await asyncio.sleep(0.01)


# -- killed in between -------------------------------------------------------------------------------------------------


async def test_lite_killed_between_delete_and_insert_loses_no_row(tmp_path: Path) -> None:
    """Of any owner; each row is at least what was confirmed and at most what was sent, and nothing stays open."""
    sent = dict.fromkeys([(scope, f"mem_{n}") for scope in (ALICE, BOB) for n in range(ROWS)], 0)
    confirmed = dict(sent)
    stopping = asyncio.Event()

    async def update(store: MilvusStore, scope: Scope) -> None:
        mine = [key for key in sent if key[0] is scope]
        for turn in range(100_000):
            keys = [mine[turn % ROWS], mine[(turn + 1) % ROWS]]
            sent.update({key: sent[key] + 1 for key in keys})
            with contextlib.suppress(StoreUnavailableError):
                await store.upsert(scope, [version(scope, key[1], sent[key]) for key in keys])
                confirmed.update({key: sent[key] for key in keys})
            if stopping.is_set():
                return
            await asyncio.sleep(0.02)

    def kill() -> None:
        os.kill(lite_process(tmp_path), signal.SIGKILL)

    async with opened(tmp_path) as store:
        for (scope, memory_id), number in sent.items():
            await store.upsert(scope, [version(scope, memory_id, number)])
        async with asyncio.TaskGroup() as group:
            for scope in (ALICE, BOB):
                group.create_task(update(store, scope))
            for _ in range(KILLS):
                await asyncio.to_thread(killed_between_delete_and_insert, tmp_path / "milvus.db", kill)
                await becomes(store, available=False)
                await becomes(store, available=True)
            stopping.set()
        found = {key: number_of(await store.get(*key)) for key in sent}
        await eventually_open(tmp_path, 0)
    assert {key: number for key, number in found.items() if not confirmed[key] <= number <= sent[key]} == {}
    assert max(confirmed.values()) > KILLS


async def becomes(store: MilvusStore, *, available: bool) -> None:
    async with asyncio.timeout(20):
        while store.available is not available:  # noqa: ASYNC110 - the port has no event to wait for
            await asyncio.sleep(0.005)


@pytest.fixture
def without_inserts() -> Iterator[list[str]]:
    """Milvus clients whose inserts fail while the list holds something."""
    with pytest.MonkeyPatch.context() as patch:
        failing: list[str] = []
        insert = AsyncMilvusClient.insert

        async def fails_first(self: Any, *args: Any, **kwargs: Any) -> Any:
            if failing:
                raise MilvusException(code=len(failing.pop()), message="no")
            return await insert(self, *args, **kwargs)

        patch.setattr(AsyncMilvusClient, "insert", fails_first)
        yield failing


async def test_a_server_that_cannot_upsert_loses_no_row(
    milvus_server: MilvusServer, tmp_path: Path, without_inserts: list[str]
) -> None:
    """It deletes and does not insert; the row is back soon, by itself, or at the next start of this replica."""
    place: dict[str, Any] = {"uri": milvus_server.uri, "collection": f"c{uuid4().hex}", "timeout_ms": 30_000}
    async with opened(tmp_path, **place) as store:
        await store.upsert(ALICE, [version(ALICE, "mem_1", 1)])
        without_inserts.append("once")
        with pytest.raises(StoreUnavailableError):
            await store.upsert(ALICE, [version(ALICE, "mem_1", 2)])
        await eventually_open(tmp_path, 0)
        assert number_of(await store.get(ALICE, "mem_1")) == 2
        # The first failure is the write's, the others are those of its repetitions.
        without_inserts += ["always"] * 1000
        with pytest.raises(StoreUnavailableError):
            await store.upsert(ALICE, [version(ALICE, "mem_1", 3)])
        assert await store.get(ALICE, "mem_1") is None
    without_inserts.clear()
    async with opened(tmp_path, **place) as store:
        assert number_of(await store.get(ALICE, "mem_1")) == 3
        assert open_writes(tmp_path) == []


# -- what is repeated, and what is not ---------------------------------------------------------------------------------


async def test_what_was_left_open_is_there_after_the_start(tmp_path: Path) -> None:
    """Before anybody can ask; rows that are missing or older. What was written later, or more often, counts."""
    async with opened(tmp_path) as store:
        await store.upsert(ALICE, [version(ALICE, "mem_older", 1), version(ALICE, "mem_newer", 9)])
    interrupted(tmp_path, [version(ALICE, each, 5) for each in ("mem_missing", "mem_older", "mem_newer")])
    interrupted(tmp_path, [version(ALICE, "mem_missing", 4)])
    interrupted(tmp_path, [version(BOB, "mem_missing", 1)])
    for _ in range(2):
        async with opened(tmp_path) as store:
            ids = ("mem_missing", "mem_older", "mem_newer")
            assert [number_of(await store.get(ALICE, each)) for each in ids] == [4, 5, 9]
            assert number_of(await store.get(BOB, "mem_missing")) == 1
            assert open_writes(tmp_path) == []


async def test_a_write_that_is_cancelled_is_completed(tmp_path: Path) -> None:
    """Once it is recorded; one that is cancelled while that goes on is given up as a whole, and tried again here."""
    async with opened(tmp_path) as store:
        await store.upsert(ALICE, [version(ALICE, "mem_1", 1)])
        lite = lite_process(tmp_path)
        for number in range(2, 2 + _CANCELLED):
            # Without an answer to the write, however slow the machine is.
            os.kill(lite, signal.SIGSTOP)
            writing = asyncio.create_task(store.upsert(ALICE, [version(ALICE, "mem_1", number)]))
            await eventually_open(tmp_path, 1)
            # It is in the file before the write goes on, by the more the slower the machine is.
            await asyncio.sleep(number * 0.05)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing
            os.kill(lite, signal.SIGCONT)
            await eventually_open(tmp_path, 0)
            stored = number_of(await store.get(ALICE, "mem_1"))
            if stored == number:
                return
            assert stored == 1
    pytest.fail("never completed")


async def test_nothing_that_a_tombstone_covers_comes_back(tmp_path: Path) -> None:
    """Neither a memory that was deleted by its id nor one of a deleted project; and no file holds them."""
    log = SqliteTurnLog(tmp_path / "turns.db", clock=SystemClock())
    project = Scope("alice", "hawaii")
    rows = [version(ALICE, "mem_kept", 1), version(ALICE, "mem_deleted", 1), version(project, "mem_of_project", 1)]
    interrupted(tmp_path, rows)
    await log.tombstone(Tombstone(scope=ALICE, at=datetime.now(UTC), memory_id="mem_deleted", content_hash=""))
    await log.tombstone(Tombstone(scope=project, at=datetime.now(UTC), reach=Reach.EXACT))
    async with opened(tmp_path, tombstones=log.tombstones) as store:
        page = await store.page(Criteria(ALICE), limit=10)
        assert [each.id for each in page.memories] == ["mem_kept"]
        assert open_writes(tmp_path) == []
    log.close()


@pytest.mark.parametrize("whole", [False, True])
async def test_a_deletion_reaches_what_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, whole: bool) -> None:
    """A row that only the journal holds, too: it is in no file afterwards and does not come back."""
    observer = StoreObserver()
    monkeypatch.setattr(supervisor, "UNSETTLED_SECONDS", 0.1)
    interrupted(tmp_path, [version(ALICE, "gone-XQZJ", 1), version(ALICE, "gone-too-XQZJ", 1)])
    interrupted(tmp_path, [version(BOB, "stays-WKVB", 1)])

    async def unknown(_: Scope) -> Any:
        raise TurnLogError("the turn log cannot be read")

    async with opened(tmp_path, tombstones=unknown, observer=observer) as store:
        assert store.available
        assert len(open_writes(tmp_path)) == 2
        assert {operation for operation, _ in observer.failures} == {"repeat"}
        if whole:
            await store.delete_all(ALICE, Reach.ALL)
        else:
            await store.delete(ALICE, ["gone-XQZJ", "gone-too-XQZJ"])
        (left,) = open_writes(tmp_path)
        assert b"WKVB" in left.read_bytes()
    assert not files_hold(tmp_path, b"XQZJ")
    async with opened(tmp_path) as store:
        assert await store.get(ALICE, "gone-XQZJ") is None
        assert await store.get(BOB, "stays-WKVB") is not None


async def test_a_deletion_waits_for_the_end_of_repetitions(tmp_path: Path) -> None:
    """What is repeated meanwhile is not taken out of the journal under its hands, and is deleted after."""
    observer = StoreObserver()
    interrupted(tmp_path, [version(ALICE, "gone-XQZJ", 1)])

    async def unknown(_: Scope) -> Any:
        raise TurnLogError("the turn log cannot be read")

    async with opened(tmp_path, tombstones=unknown, observer=observer) as store:
        async with store.writes.exclusive():
            deleting = asyncio.create_task(store.delete(ALICE, ["gone-XQZJ"]))
            await asyncio.sleep(0.05)
            assert len(open_writes(tmp_path)) == 1
        assert await deleting == 0
        assert open_writes(tmp_path) == []


async def test_while_the_disk_is_full_memories_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open waits until there is room, and is completed without anybody's help."""
    monkeypatch.setattr(supervisor, "UNSETTLED_SECONDS", 0.1)
    async with opened(tmp_path) as store:
        await store.upsert(ALICE, [version(ALICE, "mem_1", 1)])
    interrupted(tmp_path, [version(ALICE, "mem_2", 1)])
    with monkeypatch.context() as full:
        full.setattr(lite_file, "_SPARE_BYTES", 1 << 60)
        async with opened(tmp_path) as store:
            assert number_of(await store.get(ALICE, "mem_1")) == 1
            assert len(open_writes(tmp_path)) == 1
            full.undo()
            await eventually_open(tmp_path, 0)
            assert number_of(await store.get(ALICE, "mem_2")) == 1


async def test_what_is_open_waits_for_its_owners_lock_and_keeps_nobody_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another replica may be about to change the row, or to delete it; or it was killed with the lock."""
    monkeypatch.setattr(supervisor, "UNSETTLED_SECONDS", 0.1)
    monkeypatch.setattr(write_ahead, "_LOCK_SECONDS", 0.1)
    interrupted(tmp_path, [version(ALICE, "mem_1", 1)])
    interrupted(tmp_path, [version(BOB, "mem_1", 1)])
    locks = InProcessOwnerLocks()
    async with locks.hold(ALICE), opened(tmp_path, locks=locks) as store:
        assert store.available
        assert await store.get(BOB, "mem_1") is not None
        assert len(open_writes(tmp_path)) == 1
        await store.upsert(ALICE, [version(ALICE, "mem_2", 1)])
    async with opened(tmp_path, locks=locks) as store:
        assert await store.get(ALICE, "mem_1") is not None
        assert open_writes(tmp_path) == []


async def test_a_write_that_takes_too_long_keeps_nobody_from_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it after a restart; it is completed when there is time for it."""
    monkeypatch.setattr(supervisor, "UNSETTLED_SECONDS", 0.1)
    monkeypatch.setattr(supervisor, "PROBE_SECONDS", 60)
    observer, attempts = StoreObserver(), list[str]()
    upsert = MilvusConnection.upsert

    async def endless(*_: Any) -> None:
        attempts.append("again")
        await asyncio.sleep(60)

    async with opened(tmp_path, observer=observer, timeout_ms=1_000) as store:
        monkeypatch.setattr(MilvusConnection, "upsert", endless)
        with pytest.raises(StoreUnavailableError):
            await store.upsert(ALICE, [version(ALICE, "mem_1", 1)])
        async with asyncio.timeout(20):
            while len(attempts) < 3:  # noqa: ASYNC110 - the port has no event to wait for
                await asyncio.sleep(0.01)
        assert store.available
        monkeypatch.setattr(MilvusConnection, "upsert", upsert)
        await eventually_open(tmp_path, 0)
        assert number_of(await store.get(ALICE, "mem_1")) == 1
    assert [available for available, _ in observer.states] == [True]


async def test_recall_finds_what_was_completed_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner's memories were read in without it, and nobody else writes to Milvus Lite: they would stay as they are."""
    monkeypatch.setattr(supervisor, "UNSETTLED_SECONDS", 0.1)
    versions = InProcessOwnerVersions()
    interrupted(tmp_path, [version(ALICE, "mem_1", 1)])
    with monkeypatch.context() as full:
        full.setattr(lite_file, "_SPARE_BYTES", 1 << 60)
        async with opened(tmp_path, versions=versions) as store:
            replica = IndexedStore(store, versions, on_error=raising)
            until = asyncio.get_running_loop().time() + 60
            before = await replica.index(ALICE, until=until)
            full.undo()
            await eventually_open(tmp_path, 0)
            after = await replica.index(ALICE, until=until)
            await replica.close()
    assert before is not None
    assert after is not None
    assert (len(before.created_at), len(after.created_at)) == (0, 1)


def raising(error: BaseException) -> None:
    raise error


async def test_a_copy_takes_along_what_is_open(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()

    async def unknown(_: Scope) -> Any:
        raise TurnLogError("the turn log cannot be read")

    (tmp_path / "data").mkdir()
    interrupted(tmp_path / "data", [version(ALICE, "mem_1", 1)])
    async with opened(tmp_path / "data", tombstones=unknown) as store:
        await store.backup(tmp_path / "copy")
    async with opened(tmp_path / "copy") as store:
        assert number_of(await store.get(ALICE, "mem_1")) == 1


def test_writes_for_one_server_are_not_made_on_another(tmp_path: Path) -> None:
    def at(uri: str) -> StoreTarget:
        return StoreTarget(location=Server(uri), token="", collection="c", dimension=DIMENSION, fingerprint="test")

    row = schema.row_from(ALICE, version(ALICE, "mem_1", 1), dimension=DIMENSION)
    journal_of(at("http://one:19530"), tmp_path).add([row])
    assert journal_of(at("http://other:19530"), tmp_path).open_writes() == []
    assert len(journal_of(at("http://one:19530"), tmp_path).open_writes()) == 1
