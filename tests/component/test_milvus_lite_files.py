"""Milvus Lite's files: what was deleted leaves them, what is there stays, and a copy can be opened."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from semrouter_memory.config import MilvusConfig
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Reach, Scope
from semrouter_memory.store.lite import LiteServer
from semrouter_memory.store.milvus import MilvusStore
from tests.memories import DIMENSION, embedded, memory, recallable, vector
from tests.store_observer import StoreObserver

ALICE = Scope("alice")
GONE, STAYS = "gone-XQZJ-{}-", "stays-WKVB-{}-"
GONE_TERMS, STAYS_TERMS = "gone xqzj {} ", "stay wkvb {} "
"""What words are searched by: content too, in another form."""


@contextlib.asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[MilvusStore]:
    config = MilvusConfig(dimension=DIMENSION, reconnect_seconds=0.1)
    store = MilvusStore(config, data_dir=directory, fingerprint="test", observer=StoreObserver())
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def write(store: MilvusStore, pattern: str, numbers: range) -> None:
    rows = [
        embedded(memory(ALICE, pattern.format(number), content=pattern.format(number) + "x" * 500), number)
        for number in numbers
    ]
    await store.upsert(ALICE, rows)


async def ids(store: MilvusStore) -> set[str]:
    return {one.id async for batch in store.scan() for one in batch}


def strings_in(directory: Path, pattern: str, count: int) -> int:
    """How many of the numbered strings any file holds. Not the lock file: closing it would give up the lock."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    data = b"".join(path.read_bytes() for path in files)
    return sum(pattern.format(number).encode() in data for number in range(count))


async def test_a_process_makes_nothing_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Milvus Lite removes its directory there when it ends, and fails where another one makes it at the same time."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    async with opened(tmp_path) as store:
        await write(store, STAYS, range(1))
        assert not list(home.iterdir())
        assert os.environ["HOME"] == str(home)


async def test_stores_that_are_opened_at_once_leave_the_home_directory_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    servers = [LiteServer(tmp_path / f"{number}.db") for number in range(3)]
    try:
        await asyncio.gather(*(asyncio.to_thread(server.start) for server in servers))
        assert os.environ["HOME"] == str(tmp_path)
    finally:
        for server in servers:
            server.stop()


async def test_after_a_compaction_nothing_deleted_is_in_any_file(tmp_path: Path) -> None:
    """Before it is, which is why there is one; the file shrinks, and everything else is there, after a restart too."""
    async with opened(tmp_path) as store:
        await write(store, GONE, range(300))
        await write(store, STAYS, range(100))
        await store.delete(ALICE, [GONE.format(number) for number in range(300)])
        assert strings_in(tmp_path, GONE, 300) > 0
        assert strings_in(tmp_path, GONE_TERMS, 300) > 0
        size = (tmp_path / "milvus.db").stat().st_size
        await store.compact()
        assert strings_in(tmp_path, GONE, 300) == 0
        assert strings_in(tmp_path, GONE_TERMS, 300) == 0
        assert strings_in(tmp_path, STAYS, 100) == 100
        assert strings_in(tmp_path, STAYS_TERMS, 100) == 100
        assert (tmp_path / "milvus.db").stat().st_size < size / 2
        kept = {STAYS.format(number) for number in range(100)}
        assert await ids(store) == kept
    async with opened(tmp_path) as store:
        assert await ids(store) == kept


def counted_terms(file: Path) -> list[int]:
    """How many texts hold each term whose hash Milvus Lite keeps."""
    with contextlib.closing(sqlite3.connect(file)) as copy:
        return [count for (count,) in copy.execute("SELECT doc_count FROM token_doc_count")]


async def test_not_even_a_hash_of_a_deleted_word_is_kept(tmp_path: Path) -> None:
    """Neither in the file nor in a copy; words that others still use are counted right, and found, as new ones are."""
    copies = [tmp_path / name for name in ("before", "compacted", "later")]
    for directory in copies:
        directory.mkdir()
    async with opened(tmp_path / "data") as store:
        await write(store, GONE, range(20))
        await write(store, STAYS, range(10))
        await store.delete_all(ALICE, Reach.ALL)
        await write(store, STAYS, range(10))
        await store.backup(copies[0])
        await store.compact()
        await store.backup(copies[1])
        await write(store, GONE, range(1))
        hits = await store.search(recallable(ALICE), vector(1), limit=1, text="XQZJ WKVB")
        # The nearest, and the one with the rarer word.
        assert [hit.memory.id for hit in hits] == [STAYS.format(1), GONE.format(0)]
        await store.backup(copies[2])
    stays = sorted([10] * 3 + [1] * 10)  # "stay", "wkvb" and the x, and each number
    for directory in copies[:2]:
        assert sorted(counted_terms(directory / "milvus.db")) == stays
    # The x and the number 0 are now in one more; "gone" and "xqzj" are new.
    assert sorted(counted_terms(copies[2] / "milvus.db")) == [1] * 11 + [2, 10, 10, 11]


async def test_what_is_written_and_deleted_around_compactions_is_what_a_restart_finds(tmp_path: Path) -> None:
    """Compactions and copies run all the time; every confirmed write is in the file, every deletion, too."""
    busy = True

    async def keep_compacting(store: MilvusStore) -> int:
        rounds = 0
        while busy:
            await store.compact()
            rounds += 1
            copied = tmp_path / f"copy-{rounds}"
            copied.mkdir()
            await store.backup(copied)
        return rounds

    async def change(store: MilvusStore, worker: int) -> None:
        for number in range(worker * 100, worker * 100 + 15):
            await write(store, STAYS, range(number, number + 1))
            await write(store, GONE, range(number, number + 1))
            await write(store, STAYS, range(number, number + 1))
            await store.delete(ALICE, [GONE.format(number)])
            assert await store.search(recallable(ALICE), vector(number), limit=1, text="XQZJ WKVB")

    async with opened(tmp_path / "data") as store:
        compacting = asyncio.create_task(keep_compacting(store))
        await asyncio.gather(*(change(store, worker) for worker in range(4)))
        busy = False
        assert await compacting > 3
        await store.compact()
        kept = {STAYS.format(worker * 100 + number) for worker in range(4) for number in range(15)}
        assert await ids(store) == kept
        assert strings_in(tmp_path / "data", GONE, 400) == 0
        assert strings_in(tmp_path / "data", GONE_TERMS, 400) == 0
    async with opened(tmp_path / "data") as store:
        assert await ids(store) == kept


async def test_reads_go_on_while_the_file_is_locked(tmp_path: Path) -> None:
    """They come from the process's memory: a compaction that takes long is not felt by recall."""
    async with opened(tmp_path) as store:
        await write(store, STAYS, range(20))
        with contextlib.closing(sqlite3.connect(tmp_path / "milvus.db", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            async with asyncio.timeout(60):
                assert len(await store.search(recallable(ALICE), vector(0), limit=50)) == 20
                assert len(await ids(store)) == 20
                assert await store.get(ALICE, STAYS.format(0)) is not None
            other.execute("ROLLBACK")


async def test_a_search_for_words_is_answered_at_once_while_the_file_is_rewritten(tmp_path: Path) -> None:
    """By the nearest alone, since words are looked up in the file; afterwards by words again."""
    async with opened(tmp_path) as store:
        await write(store, STAYS, range(200))
        found = list[list[str]]()

        async def search() -> None:
            hits = await store.search(recallable(ALICE), vector(0), limit=1, text="7")
            found.append([hit.memory.id for hit in hits])

        await search()
        compacting = asyncio.create_task(store.compact())
        await asyncio.sleep(0)
        await search()
        while not compacting.done():
            await search()
        await compacting
        await search()
    assert found[0] == found[-1] == [STAYS.format(0), STAYS.format(7)]
    assert found[1] == [STAYS.format(0)]


async def test_a_copy_taken_while_writes_go_on_opens_as_a_data_directory(tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    copied.mkdir()
    async with opened(tmp_path / "data") as store:
        await write(store, GONE, range(50))
        await write(store, STAYS, range(50))
        await store.delete_all(ALICE, Reach.ALL)
        await write(store, STAYS, range(50))
        writing = asyncio.create_task(write(store, STAYS, range(50, 450)))
        assert await store.backup(copied) == ""
        await writing
        assert [path.name for path in copied.iterdir()] == ["milvus.db"]
        assert (copied / "milvus.db").stat().st_mode & 0o777 == 0o600
        assert strings_in(copied, GONE, 50) == 0
        assert strings_in(copied, GONE_TERMS, 50) == 0
    async with opened(copied) as store:
        found = await ids(store)
        assert found >= {STAYS.format(number) for number in range(50)}
        hits = await store.search(recallable(ALICE), vector(3), limit=1, text="4")
        assert [hit.memory.id for hit in hits] == [STAYS.format(3), STAYS.format(4)]
        await write(store, GONE, range(1))
        assert await ids(store) == found | {GONE.format(0)}


async def test_a_copy_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "milvus.db").write_text("somebody's")
    async with opened(tmp_path / "data") as store:
        with pytest.raises(StoreUnavailableError, match="backup: File exists"):
            await store.backup(tmp_path / "copy")
        await write(store, STAYS, range(3))
        assert len(await ids(store)) == 3
    assert (tmp_path / "copy" / "milvus.db").read_text() == "somebody's"


async def test_a_compaction_that_nobody_waits_for_any_more_ends_before_the_next_write(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await write(store, STAYS, range(200))
        compacting = asyncio.create_task(store.compact())
        await asyncio.sleep(0)
        compacting.cancel()
        await write(store, STAYS, range(200, 220))
        with pytest.raises(asyncio.CancelledError):
            await compacting
    async with opened(tmp_path) as store:
        assert len(await ids(store)) == 220


async def test_a_store_that_is_closed_does_not_touch_its_file(tmp_path: Path) -> None:
    """It may be another process's by then."""
    async with opened(tmp_path) as store:
        await write(store, STAYS, range(3))
    with pytest.raises(StoreUnavailableError, match="not running"):
        await store.compact()
