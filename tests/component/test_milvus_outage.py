"""A Milvus server that is away, hangs, dies and comes back, under a store that lives through it."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.config import MilvusConfig
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Criteria, Hit, Reach, Scope
from semrouter_memory.store import connection
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.store.supervisor import PATIENCE, PROBE_SECONDS
from tests.memories import DIMENSION, NOW, embedded, memory, recallable, vector
from tests.milvus_server import MilvusServer
from tests.store_observer import StoreObserver

ALICE = Scope("alice")
CONNECT_SECONDS = 5.0
DEADLINE_SECONDS = 0.05
"""What recall gives a search."""


@pytest.fixture(scope="module")
def own_server(new_milvus_server: Callable[[], MilvusServer]) -> Iterator[MilvusServer]:
    """Not the shared one: it is stopped and killed. Not started yet."""
    server = new_milvus_server()
    yield server
    server.kill()


@pytest.fixture(autouse=True)
def as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is given up as soon as in service."""
    monkeypatch.setattr(connection, "CONNECT_SECONDS", CONNECT_SECONDS)


@pytest.fixture
def observer() -> StoreObserver:
    return StoreObserver()


@contextlib.asynccontextmanager
async def opened(
    server: MilvusServer, observer: StoreObserver, *, timeout_ms: int = 5_000
) -> AsyncIterator[MilvusStore]:
    config = MilvusConfig(
        address=f"127.0.0.1:{server.port}", dimension=DIMENSION, reconnect_seconds=0.3, timeout_ms=timeout_ms
    )
    with tempfile.TemporaryDirectory() as directory:
        store = MilvusStore(config, data_dir=Path(directory), fingerprint="test", observer=observer)
        await store.start()
        try:
            yield store
        finally:
            await store.close()


async def becomes(store: MilvusStore, *, available: bool, within: float) -> None:
    async with asyncio.timeout(within):
        while store.available is not available:  # noqa: ASYNC110 - the port has no event to wait for
            await asyncio.sleep(0.02)


async def recalled(store: MilvusStore) -> list[Hit]:
    """A search under recall's deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await store.search(recallable(ALICE), vector(0), limit=5)


async def test_a_server_that_starts_late_is_found(own_server: MilvusServer, observer: StoreObserver) -> None:
    """Starting without it is no error; calls fail at once until it is there, and nothing is restarted."""
    began = time.monotonic()
    async with opened(own_server, observer) as store:
        assert time.monotonic() - began < 4
        assert not store.available
        fails_at_once(store.get(ALICE, "mem_1"))
        fails_at_once(store.upsert(ALICE, [embedded(memory(ALICE))]))
        await asyncio.to_thread(own_server.start)
        await becomes(store, available=True, within=60)
        await store.upsert(ALICE, [embedded(memory(ALICE))])
        assert await store.get(ALICE, "mem_1") == memory(ALICE)
    assert [available for available, _ in observer.states] == [False, True]


async def test_a_server_that_hangs_costs_no_one_more_than_their_deadline(
    own_server: MilvusServer, observer: StoreObserver
) -> None:
    """The event loop runs on, the store soon fails fast, no task stays behind, and it all comes back by itself."""
    async with opened(own_server, observer) as store:
        before = len(asyncio.all_tasks())
        own_server.pause()
        try:
            for _ in range(PATIENCE):
                began = time.monotonic()
                with pytest.raises(TimeoutError):
                    await recalled(store)
                assert time.monotonic() - began < DEADLINE_SECONDS + 1
            ticks = asyncio.create_task(longest_tick())
            await becomes(store, available=False, within=PROBE_SECONDS + 1)
            for _ in range(200):
                fails_at_once(store.search(recallable(ALICE), vector(0), limit=5))
            ticks.cancel()
            assert await ticks < 1
            assert len(asyncio.all_tasks()) <= before + 3
        finally:
            own_server.resume()
        await becomes(store, available=True, within=60)
        assert await store.get(ALICE, "mem_1") == memory(ALICE)
    assert "no answer" in observer.states[1][1]


async def test_background_calls_end_in_their_time_when_the_server_hangs(
    own_server: MilvusServer, observer: StoreObserver
) -> None:
    async with opened(own_server, observer, timeout_ms=1_000) as store:
        own_server.pause()
        try:
            began = time.monotonic()
            results = await asyncio.gather(
                store.get(ALICE, "mem_1"),
                store.page(Criteria(ALICE, active_at=NOW), limit=5),
                store.upsert(ALICE, [embedded(memory(ALICE))]),
                store.delete_all(ALICE, Reach.ALL),
                return_exceptions=True,
            )
            assert time.monotonic() - began < 3
        finally:
            own_server.resume()
        assert [type(result) for result in results] == [StoreUnavailableError] * 4
        await becomes(store, available=True, within=60)
    assert {operation for operation, _ in observer.failures} == {"query", "upsert"}


async def test_a_store_starts_beside_a_server_that_hangs(own_server: MilvusServer, observer: StoreObserver) -> None:
    own_server.pause()
    try:
        began = time.monotonic()
        async with opened(own_server, observer) as store:
            assert time.monotonic() - began < 10
            assert not store.available
            own_server.resume()
            await becomes(store, available=True, within=60)
    finally:
        own_server.resume()


async def test_closing_does_not_wait_for_a_server_that_hangs(own_server: MilvusServer, observer: StoreObserver) -> None:
    async with opened(own_server, observer) as store:
        own_server.pause()
        try:
            search = asyncio.create_task(store.search(recallable(ALICE), vector(0), limit=5))
            await asyncio.sleep(0.05)
            began = time.monotonic()
            await store.close()
            assert time.monotonic() - began < 4
            with pytest.raises(StoreUnavailableError):
                await search
        finally:
            own_server.resume()


async def test_a_server_that_dies_is_unavailable_and_nothing_else(
    own_server: MilvusServer, observer: StoreObserver
) -> None:
    """That it comes back with what was written, once it is started again, the fault suite shows. The last one: it is dead."""
    async with opened(own_server, observer) as store:
        await store.upsert(ALICE, [embedded(memory(ALICE, "mem_2"))])
        own_server.kill()
        for _ in range(20):
            with pytest.raises((StoreUnavailableError, TimeoutError)):
                await recalled(store)
        await becomes(store, available=False, within=PROBE_SECONDS + 1)
    assert [available for available, _ in observer.states] == [True, False]


def fails_at_once(call: Coroutine[Any, Any, object]) -> None:
    """It does not even give the event loop back before it does."""
    with pytest.raises(StoreUnavailableError):
        call.send(None)


async def longest_tick() -> float:
    """How long the event loop was ever busy, in seconds, until cancelled."""
    longest = 0.0
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)
    return longest
