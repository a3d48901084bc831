"""Replicas with owner indexes each, over one Milvus Lite, sharing versions by a file or by Redis."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from semrouter_memory.config import MilvusConfig, RedisConfig
from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.model import EmbeddedMemory, Reach, Scope
from semrouter_memory.ports import MemoryIndex
from semrouter_memory.recall import deadline
from semrouter_memory.state.local import InProcessOwnerVersions
from semrouter_memory.state.redis import RedisOwnerVersions, version_key
from semrouter_memory.store.milvus import MilvusStore
from tests.indexed_store import IndexedStore
from tests.memories import DIMENSION, embedded, memory, vector
from tests.redis_server import RedisServer
from tests.replicas import until
from tests.store_observer import StoreObserver

ALICE = Scope("alice")


class CountingStore(MilvusStore):
    """Counts how often an owner's memories were read."""

    loads = 0

    async def load_records(self, scope: Scope, *, limit: int) -> Sequence[str | EmbeddedMemory] | None:
        self.loads += 1
        return await super().load_records(scope, limit=limit)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[CountingStore]:
    config = MilvusConfig(dimension=DIMENSION, reconnect_seconds=0.1)
    opened = CountingStore(config, data_dir=tmp_path, fingerprint="test", observer=StoreObserver())
    await opened.start()
    yield opened
    await opened.close()


def raising(error: BaseException) -> None:
    raise error


@contextlib.asynccontextmanager
async def in_process(store: MilvusStore, versions: InProcessOwnerVersions) -> AsyncIterator[IndexedStore]:
    replica = IndexedStore(store, versions, on_error=raising)
    yield replica
    await replica.close()


@contextlib.asynccontextmanager
async def by_redis(store: MilvusStore, server: RedisServer, prefix: str) -> AsyncIterator[IndexedStore]:
    connection = RedisConnection(server.config())
    replica = IndexedStore(
        store,
        # A busy machine is no slow Redis.
        RedisOwnerVersions(connection, prefix=prefix, patience_seconds=10),
        on_error=raising,
    )
    yield replica
    await replica.close()
    await connection.aclose()


@pytest.fixture(params=["in_process", "redis"])
async def replicas(
    request: pytest.FixtureRequest, store: CountingStore, tmp_path: Path
) -> AsyncIterator[tuple[IndexedStore, IndexedStore]]:
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "in_process":
            versions = InProcessOwnerVersions()
            opened = [await stack.enter_async_context(in_process(store, versions)) for _ in range(2)]
        else:
            server: RedisServer = request.getfixturevalue("redis_server")
            prefix = uuid.uuid4().hex
            opened = [await stack.enter_async_context(by_redis(store, server, prefix)) for _ in range(2)]
        yield opened[0], opened[1]


async def index(replica: IndexedStore) -> MemoryIndex:
    found = await replica.index(ALICE, until=asyncio.get_running_loop().time() + 30)
    assert found is not None
    return found


def contents(found: MemoryIndex) -> list[str]:
    return [found.memory(position).content for position in range(len(found.created_at))]


async def test_what_one_replica_writes_and_deletes_the_other_shows(replicas: tuple[IndexedStore, IndexedStore]) -> None:
    here, there = replicas
    one, other = memory(ALICE, "a", content="User has a dog"), memory(ALICE, "b", content="User has a cat")
    await here.upsert(ALICE, [embedded(one, 1), embedded(other, 2)])
    for replica in replicas:
        found = await index(replica)
        assert [found.memory(position) for position in range(len(found.created_at))] == [one, other]
        assert found.similarities(vector(2)).argmax() == 1
    await there.delete(ALICE, ["a"])
    assert contents(await index(here)) == contents(await index(there)) == ["User has a cat"]
    await here.delete_all(ALICE, Reach.ALL)
    assert contents(await index(there)) == contents(await index(here)) == []


async def test_an_updated_index_is_the_one_that_would_be_read(
    replicas: tuple[IndexedStore, IndexedStore], store: CountingStore
) -> None:
    here, there = replicas
    await index(here)
    for n in range(20):
        await here.upsert(ALICE, [embedded(memory(ALICE, f"m{n % 7}", content=f"User has {n} dogs"), n)])
    read = store.loads
    updated = await index(here)
    assert store.loads == read
    fresh = await index(there)
    assert contents(updated) == contents(fresh)
    assert updated.similarities(vector(3)) == pytest.approx(fresh.similarities(vector(3)), abs=1e-6)
    scores = [each.words.scores(each.words.find(["dog", "19"])).tolist() for each in (updated, fresh)]
    assert scores[0] == scores[1]


async def test_a_redis_that_hangs_is_found_out_within_recalls_patience_and_asked_again_when_it_answers(
    store: CountingStore, own_redis_server: RedisServer
) -> None:
    """Meanwhile the store is asked: an index is worth a wait, once. The times are those that a busy machine keeps."""
    loop = asyncio.get_running_loop()
    connection = RedisConnection(RedisConfig(url=own_redis_server.url, timeout_ms=2_000, retry_seconds=0.05))

    async def unavailable() -> bool:
        return not connection.available

    versions = RedisOwnerVersions(connection, prefix="p", patience_seconds=0.5)
    replica = IndexedStore(store, versions, on_error=raising)
    await index(replica)
    own_redis_server.pause()
    # It waits for longer than for its number, as recall does.
    assert await replica.index(ALICE, until=loop.time() + 5) is None
    assert not connection.responsive
    assert connection.disturbances == 0
    assert await replica.index(ALICE, until=loop.time() + 5) is None
    # Locks that are held must not be trusted when it hangs for longer.
    await until(unavailable)
    assert connection.disturbances == 1
    own_redis_server.resume()
    await asyncio.wait_for(connection.wait(), 30)
    await index(replica)
    assert store.loads == 1
    await replica.close()
    await connection.aclose()


def test_recall_waits_longer_for_an_index_than_for_its_number() -> None:
    """Else a Redis that hangs would cost every request that wait, and not the first alone."""
    assert deadline.OWNER_VERSION < deadline.OWNER_INDEX


async def test_after_redis_has_lost_the_last_writes_no_index_of_them_comes_to_count_as_right(
    store: CountingStore, redis_server: RedisServer
) -> None:
    """Another server took over, which had not heard of them."""
    prefix = uuid.uuid4().hex
    connection = RedisConnection(redis_server.config())
    key = version_key(prefix, ALICE)
    async with by_redis(store, redis_server, prefix) as here, by_redis(store, redis_server, prefix) as there:
        await here.upsert(ALICE, [embedded(memory(ALICE, "a"))])
        old = await connection.execute("GET", key)
        await here.upsert(ALICE, [embedded(memory(ALICE, "b"))])
        assert len((await index(here)).created_at) == 2
        await connection.execute("SET", key, old)
        await there.delete_all(ALICE, Reach.ALL)
        assert contents(await index(here)) == []
    await connection.aclose()


async def test_while_redis_is_away_nothing_is_at_hand_and_after_it_everything_is_again(
    store: CountingStore, own_redis_server: RedisServer
) -> None:
    async with by_redis(store, own_redis_server, "p") as replica:
        await replica.upsert(ALICE, [embedded(memory(ALICE, "a"))])
        await index(replica)
        own_redis_server.kill()
        assert await replica.index(ALICE, until=asyncio.get_running_loop().time() + 5) is None
        own_redis_server.start()
        async with asyncio.timeout(30):
            found = None
            while found is None:
                found = await replica.index(ALICE, until=asyncio.get_running_loop().time() + 5)
                await asyncio.sleep(0.01)
        assert len(found) == 1
