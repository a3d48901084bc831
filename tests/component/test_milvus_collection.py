"""What is found at start: another embedding's collection, another process's file, the memories of the run before."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pymilvus import AsyncMilvusClient, DataType, MilvusClient, MilvusException

from semrouter_memory.config import MilvusConfig
from semrouter_memory.errors import ConfigurationError, StoreUnavailableError
from semrouter_memory.model import EmbeddedMemory, Memory, Reach, Scope
from semrouter_memory.store.index_record import RecordFormat
from semrouter_memory.store.lite import LiteServer
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.store.owner_index import build_index, unlabelled
from semrouter_memory.store.schema import VERSION, Row, row_from
from tests.faults.parts import lite_process
from tests.memories import DIMENSION, embedded, memory, recallable, vector
from tests.milvus_server import MilvusServer
from tests.store_observer import StoreObserver

ALICE = Scope("alice")


@contextlib.asynccontextmanager
async def opened(
    directory: Path,
    *,
    uri: str | None = None,
    fingerprint: str = "mini",
    dimension: int = DIMENSION,
    record_format: RecordFormat | None = None,
) -> AsyncIterator[MilvusStore]:
    config = MilvusConfig(uri=uri, collection="collection", dimension=dimension, timeout_ms=30_000)
    store = MilvusStore(
        config, data_dir=directory, fingerprint=fingerprint, observer=StoreObserver(), record_format=record_format
    )
    await store.start()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(params=["server", "lite"])
async def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "lite":
        return str(tmp_path / "milvus.db")
    server: MilvusServer = request.getfixturevalue("milvus_server")
    client = AsyncMilvusClient(server.uri, dedicated=True)
    await client.drop_collection("collection")
    await client.close()
    return server.uri


async def test_another_embedding_is_refused_even_at_the_same_dimension(uri: str, tmp_path: Path) -> None:
    """And the message says what to do; afterwards the right embedding still finds everything."""
    async with opened(tmp_path, uri=uri) as store:
        await store.upsert(ALICE, [embedded(memory(ALICE))])
    with pytest.raises(ConfigurationError, match="'collection' holds vectors of the embedding mini, configured is bge"):
        async with opened(tmp_path, uri=uri, fingerprint="bge"):
            pass
    with pytest.raises(ConfigurationError, match=r"16 dimensions, the embedding gives 32.*memory\.milvus\.collection"):
        async with opened(tmp_path, uri=uri, dimension=32):
            pass
    async with opened(tmp_path, uri=uri) as store:
        assert await store.get(ALICE, "mem_1") == memory(ALICE)


async def test_one_of_a_newer_version_is_refused_without_advice_to_copy_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("semrouter_memory.store.schema.VERSION", VERSION + 1)
        async with opened(tmp_path):
            pass
    with pytest.raises(ConfigurationError, match="start the newer version") as refused:
        async with opened(tmp_path):
            pass
    assert "reembed" not in str(refused.value)


async def test_a_collection_that_somebody_else_made_is_left_alone(milvus_server: MilvusServer, tmp_path: Path) -> None:
    client = AsyncMilvusClient(milvus_server.uri, dedicated=True)
    await client.drop_collection("collection")
    schema = MilvusClient.create_schema()
    schema.add_field("pk", DataType.INT64, is_primary=True)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=DIMENSION)
    await client.create_collection("collection", schema=schema)
    await client.close()
    with pytest.raises(ConfigurationError, match="not made by this service"):
        async with opened(tmp_path, uri=milvus_server.uri):
            pass


async def test_two_processes_that_make_the_collection_at_once_both_get_it(
    milvus_server: MilvusServer, tmp_path: Path
) -> None:
    client = AsyncMilvusClient(milvus_server.uri, dedicated=True)
    await client.drop_collection("collection")
    await client.close()
    async with contextlib.AsyncExitStack() as stack:
        stores = [stack.enter_async_context(opened(tmp_path, uri=milvus_server.uri)) for _ in range(3)]
        assert [store.available for store in await asyncio.gather(*stores)] == [True] * 3


async def test_a_write_through_one_process_is_read_through_another(milvus_server: MilvusServer, tmp_path: Path) -> None:
    """At once: replicas of the service share a server."""
    async with opened(tmp_path, uri=milvus_server.uri) as one, opened(tmp_path, uri=milvus_server.uri) as other:
        await one.delete_all(ALICE, Reach.ALL)
        await one.upsert(ALICE, [embedded(memory(ALICE))])
        assert await other.get(ALICE, "mem_1") == memory(ALICE)
        assert len(await other.search(recallable(ALICE), vector(0), limit=1, fresh=True)) == 1
        await other.delete(ALICE, ["mem_1"])
        assert await one.get(ALICE, "mem_1") is None


async def test_a_collection_that_is_dropped_under_us_is_made_again(
    milvus_server: MilvusServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And neither the failure nor anything printed on the way quotes who or what was asked for."""
    canary = Scope("canary-7f3a")
    config = MilvusConfig(uri=milvus_server.uri, collection="collection", dimension=DIMENSION, reconnect_seconds=0.1)
    store = MilvusStore(config, data_dir=tmp_path, fingerprint="mini", observer=StoreObserver())
    await store.start()
    client = AsyncMilvusClient(milvus_server.uri, dedicated=True)
    await client.drop_collection("collection")
    with pytest.raises(StoreUnavailableError) as caught:
        await store.get(canary, "mem_1")
    assert "7f3a" not in "".join(traceback.format_exception(caught.value))
    found = None
    async with asyncio.timeout(20):
        while found is None:
            with contextlib.suppress(StoreUnavailableError):
                await store.upsert(canary, [embedded(memory(canary))])
                found = await store.get(canary, "mem_1")
            await asyncio.sleep(0.05)
    await client.close()
    await store.close()
    assert "7f3a" not in "".join(capfd.readouterr())


def client_of(server: LiteServer) -> MilvusClient:
    """Of the server's process, which on a busy machine does not listen yet when it is started."""
    uri, deadline = server.start(), time.monotonic() + 30
    while True:
        try:
            return MilvusClient(uri)
        except MilvusException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _make_without_words(file: Path, *rows: Memory) -> None:
    """A collection as a server without words gets it, in every detail, with these memories in it."""
    text = {"datatype": DataType.VARCHAR, "max_length": 65_535}
    description = MilvusClient.create_schema(description='{"schema": 3, "embedding": "mini"}')
    description.add_field("id", is_primary=True, **text)
    for name in ("owner", "project_id", "session_id", "type", "content", "source"):
        description.add_field(name, **text)
    for name in ("observed_at", "created_at", "updated_at", "superseded_at"):
        description.add_field(name, DataType.INT64)
    description.add_field("superseded_by", **text)
    description.add_field("expires_at", DataType.INT64)
    description.add_field("importance", DataType.DOUBLE)
    description.add_field("metadata", DataType.JSON)
    description.add_field("embedding", DataType.FLOAT_VECTOR, dim=DIMENSION)
    index = MilvusClient.prepare_index_params()
    index.add_index("embedding", index_type="FLAT", metric_type="COSINE", params={})
    server = LiteServer(file)
    client = client_of(server)
    client.create_collection("collection", schema=description, consistency_level="Bounded")
    client.create_index("collection", index)
    client.insert("collection", [row_from(one.scope, embedded(one), dimension=DIMENSION) for one in rows])
    client.close()
    server.stop()


async def test_a_collection_without_words_keeps_working_without_them(tmp_path: Path) -> None:
    """Of a server that cannot search them: nothing is migrated, nothing fails, only the vectors are searched."""
    file = tmp_path / "milvus.db"
    await asyncio.to_thread(_make_without_words, file, memory(ALICE))
    for n in range(1, 3):
        async with opened(tmp_path, record_format=RecordFormat(unlabelled, "1")) as store:
            await store.upsert(ALICE, [embedded(memory(ALICE, f"mem_new_{n}", content="User met a walrus"), n)])
            hits = await store.search(recallable(ALICE), vector(0), limit=1, text="walrus")
            assert [hit.memory for hit in hits] == [memory(ALICE)]
            index = await store.search_index(recallable(ALICE), vector(0), limit=1, text="walrus")
            assert [index.memory(at) for at in range(len(index))] == [memory(ALICE)]
            records = await store.load_records(ALICE, limit=9) or ()
            assert len({each.memory.id for each in records if isinstance(each, EmbeddedMemory)}) == n + 1
            await store.compact()
    async with opened(tmp_path) as store:
        assert await store.delete_all(ALICE, Reach.ALL) == 3
        (tmp_path / "copy").mkdir()
        assert await store.backup(tmp_path / "copy") == ""


async def test_rows_whose_record_is_missing_or_another_versions_are_read_whole(tmp_path: Path) -> None:
    """And what follows them; each row once."""
    wanted: dict[str, type] = {}
    for n, record_format in enumerate([None, RecordFormat(unlabelled, "1"), RecordFormat(unlabelled, "2")]):
        async with opened(tmp_path, record_format=record_format) as store:
            ids = [f"mem_{at}" for at in range(600) if (at // 10 + 2) % 3 == n]
            await store.upsert(ALICE, [embedded(memory(ALICE, each, content=each)) for each in ids])
            wanted |= dict.fromkeys(ids, str if n == 2 else EmbeddedMemory)
            if record_format is not None and n == 2:
                found = await store.load_records(ALICE, limit=600)
                assert found is not None
                assert {str, EmbeddedMemory} == set(map(type, found))
                whole = build_index(ALICE.owner, found)
                nearest = await store.search_index(recallable(ALICE), vector(0), limit=600, fresh=True)
                for index in (whole, nearest):
                    assert sorted(index.memory(at).content for at in range(len(index))) == sorted(wanted)


@pytest.mark.parametrize("text", ["budget hawaii", "of the", ""])
async def test_words_can_be_asked_for_before_anything_was_ever_written(tmp_path: Path, text: str) -> None:
    """And as soon as something is; also when all of it is gone, after a restart too."""

    async def search(store: MilvusStore) -> list[str]:
        hits = await store.search(recallable(ALICE), vector(0), limit=1, text=text)
        return [hit.memory.id for hit in hits]

    near, far = embedded(memory(ALICE, "mem_near", content="")), embedded(memory(ALICE, "mem_far"), 1)
    expected = ["mem_near", "mem_far"] if "budget" in text else ["mem_near"]
    async with opened(tmp_path) as store:
        assert await search(store) == []
        await store.upsert(ALICE, [near, far])
        assert await search(store) == expected
        await store.delete_all(ALICE, Reach.ALL)
        assert await search(store) == []
    async with opened(tmp_path) as store:
        assert await search(store) == []
        await store.upsert(ALICE, [near])
        assert await search(store) == ["mem_near"]
        await store.upsert(ALICE, [far])
        assert await search(store) == expected
    async with opened(tmp_path) as store:
        assert await search(store) == expected


async def test_a_collection_that_was_left_half_made_is_completed(tmp_path: Path) -> None:
    """The process ended between any two of the steps: with no index yet, or with one of the two."""
    async with opened(tmp_path) as store:
        await store.upsert(
            ALICE, [embedded(memory(ALICE, "mem_near", content="")), embedded(memory(ALICE, "mem_far"), 1)]
        )
    for dropped in (["lexical"], ["embedding"], ["lexical", "embedding"]):
        server = LiteServer(tmp_path / "milvus.db")
        client = await asyncio.to_thread(client_of, server)
        client.release_collection("collection")
        for name in dropped:
            client.drop_index("collection", name)
        client.close()
        await asyncio.to_thread(server.stop)
        async with opened(tmp_path) as store:
            hits = await store.search(recallable(ALICE), vector(0), limit=1, text="budget")
            assert [hit.memory.id for hit in hits] == ["mem_near", "mem_far"]


async def test_lite_keeps_memories_over_a_restart(tmp_path: Path) -> None:
    for n in range(3):
        async with opened(tmp_path) as store:
            await store.upsert(ALICE, [embedded(memory(ALICE, f"mem_{n}"), n)])
            hits = await store.search(recallable(ALICE), vector(0), limit=5)
            assert hits[0].memory.id == "mem_0"
            assert len(hits) == n + 1


async def test_a_process_that_is_killed_while_it_writes_many_leaves_no_passage_without_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recall would find it, and nobody could list or delete it."""
    write, written = MilvusStore._upsert, list[int]()

    async def killed(self: MilvusStore, rows: Sequence[Row]) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(len(rows))
        await write(self, rows)

    memories = [memory(ALICE, f"mem_{number}", metadata={"passage_count": 90}) for number in range(3)]
    rows = [embedded(replace(each, passage=at)) for each in memories for at in (*range(1, 91), 0)]
    async with opened(tmp_path) as store:
        with monkeypatch.context() as broken:
            broken.setattr(MilvusStore, "_upsert", killed)
            with pytest.raises(KeyboardInterrupt):
                await store.upsert(ALICE, rows)
        found = await store.load_records(ALICE, limit=1_000) or ()
        assert {row.memory.id for row in found if isinstance(row, EmbeddedMemory)} == {"mem_0", "mem_1"}
        assert await store.get(ALICE, "mem_1") is not None
    assert written == [182]


async def test_lite_that_dies_is_started_again(tmp_path: Path) -> None:
    """Its process can be killed under us, by a Ctrl+C that was meant for us alone, or for want of memory."""
    config = MilvusConfig(dimension=DIMENSION, reconnect_seconds=0.1)
    store = MilvusStore(config, data_dir=tmp_path, fingerprint="mini", observer=StoreObserver())
    await store.start()
    await store.upsert(ALICE, [embedded(memory(ALICE))])
    os.kill(lite_process(tmp_path), signal.SIGKILL)
    found = None
    async with asyncio.timeout(20):
        while found is None:
            with contextlib.suppress(StoreUnavailableError):
                found = await store.get(ALICE, "mem_1")
            await asyncio.sleep(0.05)
    await store.close()
    assert found == memory(ALICE)


async def test_lite_creates_its_directory_and_shows_nobody_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path / "new" / "directory"):
        file = tmp_path / "new" / "directory" / "milvus.db"
        assert file.stat().st_mode & 0o777 == 0o600


async def test_every_collection_of_lite_has_an_index_of_its_keys(tmp_path: Path) -> None:
    """Milvus Lite makes none, and looks through all rows for each one that is written or deleted."""
    async with opened(tmp_path) as first:
        await first.secondary("episodes").upsert(ALICE, [embedded(memory(ALICE))])
        assert len(indexed(tmp_path / "milvus.db")) == 2
    with closing(sqlite3.connect(tmp_path / "milvus.db")) as file:
        for index in indexed(tmp_path / "milvus.db"):
            file.execute(f'DROP INDEX "{index}"')
    async with opened(tmp_path):
        assert len(indexed(tmp_path / "milvus.db")) == 2


def indexed(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        tables = [name for (name,) in file.execute("SELECT DISTINCT collection_name FROM collection_meta")]
        query = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ?"
        return [name for table in tables for (name,) in file.execute(query, (table,))]


async def test_one_lite_file_has_one_user_also_within_a_process(tmp_path: Path) -> None:
    async with opened(tmp_path) as first:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="belongs to one process"):
                async with opened(tmp_path):
                    pass
        await first.upsert(ALICE, [embedded(memory(ALICE))])
        assert await first.get(ALICE, "mem_1") is not None
    async with opened(tmp_path) as second:
        assert await second.get(ALICE, "mem_1") is not None


@pytest.mark.parametrize("by", ["us", "pymilvus"])
async def test_another_process_with_the_lite_file_is_noticed(tmp_path: Path, by: str) -> None:
    """Each time it is tried, whichever way that process opened it."""
    script = _HOLD_AS_WE_DO if by == "us" else _HOLD_WITH_PYMILVUS
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore", "-c", script, str(tmp_path), stdin=-1, stdout=-1
    )
    try:
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="belongs to one process"):
                async with opened(tmp_path):
                    pass
    finally:
        assert (await holder.communicate(b"done\n"))[0] == b"still there\n"


_HOLD_AS_WE_DO = """
import sys
from pathlib import Path
from semrouter_memory.store.lite import LiteServer
server = LiteServer(Path(sys.argv[1], "milvus.db"))
server.start()
print("held", flush=True)
sys.stdin.readline()
print("still there", flush=True)
server.stop()
"""

# On a busy machine Milvus Lite's process does not listen yet when pymilvus connects; it goes on starting.
_HOLD_WITH_PYMILVUS = """
import sys
import time
from pymilvus import MilvusClient, MilvusException
deadline = time.monotonic() + 30
while True:
    try:
        client = MilvusClient(sys.argv[1] + "/milvus.db")
        break
    except MilvusException:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.1)
print("held", flush=True)
sys.stdin.readline()
client.list_collections()
print("still there", flush=True)
"""


async def test_a_file_that_cannot_be_written_is_a_clear_refusal() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot use /proc/milvus\.db"):
        async with opened(Path("/proc")):
            pass


async def test_lite_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "milvus_lite.server_manager", None)
    with pytest.raises(ConfigurationError, match=r"semrouter-memory\[lite\]"):
        async with opened(tmp_path):
            pass
