"""Nothing that one owner does with any port touches another, however alike the two look.

In each pair the intruder calls every operation of the port, with the resident's own names for everything. Afterwards the
resident has exactly what was there before, and the intruder got nothing of it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import pytest_asyncio

from semrouter_memory.config import MilvusConfig
from semrouter_memory.model import (
    AppendOutcome,
    Criteria,
    EmbeddedMemory,
    LoggedTurn,
    Memory,
    Reach,
    Scope,
    Tombstone,
    Usage,
)
from semrouter_memory.ports import StateStore
from semrouter_memory.state.local import InProcessOwnerLocks, InProcessOwnerVersions
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.store.owner_index import build_index
from semrouter_memory.store.owner_versions import OwnerVersions
from tests.contract.look_alikes import PAIRS
from tests.contract.turn_logs import LEASE, START, WholeTurnLog, a_turn, append, claimed
from tests.indexed_store import IndexedStore
from tests.memories import DIMENSION, NOW, memory, recallable, vector
from tests.milvus_server import MilvusServer
from tests.store_observer import StoreObserver

HOUR = timedelta(hours=1)


class Indexed(InMemoryStore):
    """Written through the writer that keeps owner indexes current."""

    def __init__(self, versions: OwnerVersions) -> None:
        super().__init__(dimension=DIMENSION)
        behind = InMemoryStore(dimension=DIMENSION)
        self._rows = behind._rows
        self.replica = IndexedStore(behind, versions, on_error=_never)

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        await self.replica.upsert(scope, rows)

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        return await self.replica.delete(scope, memory_ids)

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        return await self.replica.delete_all(scope, reach)


Stored = InMemoryStore | MilvusStore

each_pair = pytest.mark.parametrize(
    ("intruder", "resident"), [pytest.param(*pair, id=name) for name, pair in PAIRS.items()]
)


# -- the store ---------------------------------------------------------------------------------------------------------


class Now:
    def now(self) -> datetime:
        return NOW


def _never(error: BaseException) -> None:
    raise AssertionError from error


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["server", "lite", "indexed", "in_memory"])
async def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stored]:
    directory = tmp_path_factory.mktemp("store")
    if request.param == "in_memory":
        yield InMemoryStore(dimension=DIMENSION)
    elif request.param == "indexed":
        working = Indexed(InProcessOwnerVersions())
        yield working
        await working.replica.close()
    else:
        server: MilvusServer | None = request.getfixturevalue("milvus_server") if request.param == "server" else None
        config = MilvusConfig(
            uri=server.uri if server else None, collection="apart", dimension=DIMENSION, timeout_ms=30_000
        )
        opened = MilvusStore(config, data_dir=directory, fingerprint="test", observer=StoreObserver())
        await opened.start()
        yield opened
        await opened.close()


def _own(scope: Scope) -> list[EmbeddedMemory]:
    """A memory and the one that it superseded; the same ids and contents for everybody, but for a mark of the owner's."""
    mark = scope.owner[:12].encode("ascii", "backslashreplace").decode()
    old = replace(memory(scope, "mem_old", content=f"budget of {mark}", superseded_at=NOW), superseded_by="mem_shared")
    return [EmbeddedMemory(one, vector(0)) for one in (old, memory(scope, "mem_shared", content=f"trip of {mark}"))]


async def _everything(store: Stored, scope: Scope) -> list[Memory]:
    """What every way of reading shows of an owner's memories."""
    records = await store.load_records(scope, limit=10)
    assert records is not None
    loaded = build_index(scope.owner, records)
    hits = await store.search(recallable(scope), vector(0), limit=10, fresh=True, text="trip budget")
    near = await store.search_index(recallable(scope), vector(0), limit=10, fresh=True, text="trip budget", pinned=True)
    found = [*(hit.memory for hit in hits), *map(near.memory, range(len(near)))]
    if isinstance(store, Indexed):
        index = await store.replica.index(scope, until=time.monotonic() + 60)
        assert index is not None
        found += [index.memory(position) for position in range(len(index))]
    named = [await store.get(scope, each) for each in ("mem_old", "mem_shared")]
    return [
        *(await store.page(Criteria(scope), limit=10)).memories,
        *map(loaded.memory, range(len(loaded))),
        *found,
        *(one for one in named if one is not None),
        *await store.predecessors(scope, ["mem_shared"]),
    ]


async def _intrude(store: Stored, scope: Scope) -> None:
    """Writes and deletes under names that others have as well, in every project, until nothing is left."""
    for written in _own(replace(scope, project_id="other")):
        await store.upsert(scope, [written])
    assert await store.delete(scope, ["mem_old", "mem_foreign"]) == 1
    assert await store.delete_all(replace(scope, project_id="other"), Reach.EXACT) == 1
    await store.upsert(scope, _own(scope))
    assert await store.delete_all(scope, Reach.ALL) == 2
    assert await _everything(store, scope) == []


@pytest.mark.asyncio(loop_scope="module")
async def test_no_operation_of_a_store_reaches_a_look_alike(store: Stored) -> None:
    residents = [resident for _, resident in PAIRS.values()]
    await asyncio.gather(*(store.upsert(scope, _own(scope)) for scope in residents))
    before = await asyncio.gather(*(_everything(store, scope) for scope in residents))
    for scope, found in zip(residents, before, strict=True):
        assert {one.scope.owner for one in found} == {scope.owner}
        assert {one.content for one in found} == {each.memory.content for each in _own(scope)}
    await asyncio.gather(*(_intrude(store, intruder) for intruder, _ in PAIRS.values()))
    assert await asyncio.gather(*(_everything(store, scope) for scope in residents)) == before


@pytest.mark.asyncio(loop_scope="module")
async def test_a_page_of_one_owner_leads_to_no_page_of_another(store: Stored) -> None:
    for intruder, resident in list(PAIRS.values())[:3]:
        one, other = (
            replace(intruder, owner_id=f"{intruder.owner_id}1"),
            replace(resident, owner_id=f"{resident.owner_id}1"),
        )
        await asyncio.gather(store.upsert(one, _own(one)), store.upsert(other, _own(other)))
        cursor = (await store.page(Criteria(one), limit=1)).cursor
        page = await store.page(Criteria(other), limit=10, cursor=cursor or "")
        assert {found.scope.owner for found in page.memories} <= {other.owner}


# -- the turn log ------------------------------------------------------------------------------------------------------

NAMES = {"answer": "fine", "response": "resp", "request": "req", "retry": "key", "session": "s", "transcripts": ("h",)}


@each_pair
async def test_no_operation_of_a_turn_log_reaches_a_look_alike(
    turn_log: WholeTurnLog, intruder: Scope, resident: Scope
) -> None:
    theirs = await append(turn_log, a_turn("I like tea", scope=resident, **NAMES))  # type: ignore[arg-type]
    own = await append(turn_log, a_turn("I like tea", scope=intruder, **NAMES))  # type: ignore[arg-type]
    assert (theirs.outcome, own.outcome) == (AppendOutcome.ACCEPTED, AppendOutcome.ACCEPTED)
    assert own.session_id != theirs.session_id
    before = await _turns(turn_log, resident)
    assert len(before) == 1

    assert await turn_log.claim(intruder, theirs.session_id, lease=LEASE, context=5) is None
    assert await turn_log.end_session(intruder, theirs.session_id) is None
    ended = await turn_log.end_session(intruder, "s")
    assert ended is not None
    assert (ended.scope, ended.session_id) == (intruder, own.session_id)
    await turn_log.tombstone(
        Tombstone(
            scope=intruder,
            at=START + HOUR,
            memory_id="mem_shared",
            content_hash=turn_log.content_hash("I like tea"),
        ),
        turn_ids=[before[0].id],
    )
    await turn_log.tombstone(Tombstone(scope=intruder, at=START + HOUR))
    assert await turn_log.history(intruder, "resp", limit=5) == []

    assert await _turns(turn_log, resident) == before
    deleted = await turn_log.tombstones(resident)
    assert not deleted.covers(memory(resident, "mem_shared", created_at=START))
    assert not deleted.forbids(resident, "I like tea", START)
    assert (await turn_log.tombstones(intruder)).forbids(intruder, "I like tea", START)
    assert [message.text for message in await turn_log.history(resident, "resp", limit=5)] == ["I like tea", "fine"]
    claim = await claimed(turn_log, theirs.session_id, resident)
    assert [turn.user_text for turn in claim.turns] == ["I like tea"]
    assert not claim.ended
    assert await turn_log.is_called(claim, "s")
    assert not await turn_log.is_called(replace(claim, scope=intruder), "s")
    assert not await turn_log.is_called(claim, "S")


async def _turns(log: WholeTurnLog, scope: Scope) -> list[LoggedTurn]:
    turns = await log.list_turns(scope=scope, states=None, limit=10)
    assert {turn.scope.owner for turn in turns} <= {scope.owner}
    return turns


# -- the state store, versions, locks -------------------------------------------------------------------------------


@each_pair
async def test_no_operation_of_a_state_store_reaches_a_look_alike(
    state_store: StateStore, intruder: Scope, resident: Scope
) -> None:
    key = "session"
    await state_store.put(resident, key, b"theirs", ttl=HOUR)
    await state_store.count_uses(resident, {"mem_shared": 1}, at=START)

    assert await state_store.get(intruder, [key]) == {}
    assert await state_store.usage(intruder, ["mem_shared"]) == {}
    await state_store.put(intruder, key, b"own", ttl=HOUR)
    await state_store.drop(intruder, [key])
    await state_store.count_uses(intruder, {"mem_shared": 5}, at=START + HOUR)
    await state_store.drop_usage(intruder, ["mem_shared"])
    for reach in (Reach.EXACT, Reach.ALL):
        await state_store.forget(intruder, reach)

    assert await state_store.get(resident, [key]) == {key: b"theirs"}
    assert await state_store.usage(resident, ["mem_shared"]) == {"mem_shared": Usage(1, START)}


@each_pair
async def test_a_lock_of_one_owner_does_not_hold_up_a_look_alike(intruder: Scope, resident: Scope) -> None:
    locks = InProcessOwnerLocks()
    async with locks.hold(intruder), asyncio.timeout(10), locks.hold(resident):
        pass


async def test_generations_of_look_alikes_are_numbers_of_their_own() -> None:
    """A write of the intruder's must not make the resident's owner index look right again."""
    versions = InProcessOwnerVersions()
    for intruder, resident in PAIRS.values():
        before = await versions.current(resident)
        await versions.advance(intruder)
        assert await versions.current(resident) == before
