"""Owner indexes show what the store has, and nothing that was deleted."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Criteria, Memory, Reach, Scope
from semrouter_memory.ports import MemoryIndex
from semrouter_memory.store import index_cache, index_loader, owner_versions
from semrouter_memory.store.index_record import Label
from semrouter_memory.store.owner_index import unlabelled
from tests.gated_store import GatedStore, Outcome, ToldVersions
from tests.indexed_store import IndexedStore
from tests.memories import NOW, embedded, memory, recallable

ALICE = Scope("alice")
BOB = Scope("bob")
WORK = Scope("alice", "work")


@pytest.fixture(autouse=True)
def _read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests go step by step; that a reading waits for its asker's answer is another test's."""
    monkeypatch.setattr(index_cache, "_LOAD_DELAY_SECONDS", 0)


@dataclass
class Kit:
    """A store, its versions, and indexes over both, as replicas have them."""

    store: GatedStore = field(default_factory=GatedStore)
    versions: ToldVersions = field(default_factory=ToldVersions)
    errors: list[BaseException] = field(default_factory=list)
    replicas: list[IndexedStore] = field(default_factory=list)

    def replica(self, *, label: Label = unlabelled, **settings: Any) -> IndexedStore:
        replica = IndexedStore(
            self.store,
            self.versions,
            config=OwnerIndexConfig(**settings),
            on_error=self.errors.append,
            label=label,
        )
        self.replicas.append(replica)
        return replica


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    made = Kit()
    yield made
    for replica in made.replicas:
        await replica.close()
    assert not made.errors


def soon(seconds: float = 10) -> float:
    return asyncio.get_running_loop().time() + seconds


async def index(replica: IndexedStore, scope: Scope = ALICE) -> MemoryIndex:
    found = await replica.index(scope, until=soon())
    assert found is not None
    return found


async def at_hand(replica: IndexedStore, scope: Scope = ALICE) -> MemoryIndex | None:
    """Without waiting for the store."""
    return await replica.index(scope, until=soon(0))


def ids(found: MemoryIndex | None) -> set[str] | None:
    return None if found is None else {found.memory(position).id for position in range(len(found.created_at))}


async def eventually(replica: IndexedStore, wanted: set[str]) -> None:
    async with asyncio.timeout(10):
        while True:
            if ids(await replica.index(ALICE, until=soon())) == wanted:
                return
            await asyncio.sleep(0.005)


async def write(replica: IndexedStore, *memory_ids: str, scope: Scope = ALICE, **more: Any) -> None:
    await replica.upsert(scope, [embedded(memory(scope, each, **more)) for each in memory_ids])


async def steps(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def opened(store: GatedStore) -> None:
    """Let whatever stands at a gate on, until nothing does."""
    await steps()
    while store.waiting:
        for gate in list(store.waiting):
            gate.set_result(None)
        await steps()


# -- filling -----------------------------------------------------------------------------------------------------------


async def test_an_index_that_is_read_in_while_the_clock_is_ahead_lacks_nothing_when_it_is_set_back(kit: Kit) -> None:
    """What has expired is left out when it is asked for, by the time of then: an index of Milvus Lite is not read again."""
    await write(kit.replica(), "a", expires_at=NOW)
    found = await index(kit.replica())
    at = [NOW - timedelta(hours=1), NOW]
    assert [len(found.positions(Criteria(ALICE, active_at=each))) for each in at] == [1, 0]


async def test_the_first_look_reads_the_store_and_the_next_does_not(kit: Kit) -> None:
    replica = kit.replica()
    await write(kit.replica(), "a", "b")
    assert ids(await index(replica)) == ids(await at_hand(replica)) == {"a", "b"}
    assert kit.store.loads == 1
    assert replica.owners == 1
    assert replica.nbytes > 0


@pytest.mark.usefixtures("stepped_time")
async def test_the_store_is_read_after_who_asked_has_searched_it(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_cache, "_LOAD_DELAY_SECONDS", 0.05)
    replica = kit.replica()
    # It cannot be there in time, so this one does not even wait.
    asking = asyncio.create_task(replica.index(ALICE, until=soon(0.04)))
    await steps(50)
    assert asking.done()
    assert asking.result() is None
    assert kit.store.loads == 0
    assert await replica.index(ALICE, until=soon()) is not None
    assert kit.store.loads == 1


async def test_few_memories_are_read_at_once_where_the_store_is_local(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has more is asked for in the store, and read in later."""
    monkeypatch.setattr(index_cache, "_LOAD_DELAY_SECONDS", 60)
    monkeypatch.setattr(index_loader, "_AT_ONCE", 2)
    kit.store.is_local = True
    replica = kit.replica()
    await write(kit.replica(), "a", "b")
    assert ids(await replica.index(ALICE, until=soon())) == {"a", "b"}
    assert kit.store.loads == 1
    await write(kit.replica(), "c")
    assert await replica.index(ALICE, until=soon()) is None
    assert kit.store.loads == 2


async def test_who_has_few_memories_does_not_wait_longer_than_they_can(kit: Kit) -> None:
    kit.store.is_local = kit.store.gated = True
    replica = kit.replica()
    assert await replica.index(ALICE, until=soon(0.02)) is None
    kit.store.gated = False
    await opened(kit.store)
    assert ids(await index(replica)) == set()
    assert kit.store.loads == 1


async def test_one_fill_serves_all_who_ask_for_it(kit: Kit) -> None:
    replica = kit.replica()
    found = await asyncio.gather(*(index(replica) for _ in range(10)))
    assert kit.store.loads == 1
    assert all(each is found[0] for each in found)


@pytest.mark.usefixtures("stepped_time")
async def test_who_cannot_wait_asks_the_store_and_the_next_one_has_the_index(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.gated = True
    assert await at_hand(replica) is None
    assert await replica.index(ALICE, until=soon(0.01)) is None
    await opened(kit.store)
    assert ids(await at_hand(replica)) == set()
    assert kit.store.loads == 1


async def test_who_leaves_while_waiting_does_not_end_the_fill(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.gated = True
    asking = asyncio.create_task(index(replica))
    await steps()
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    await opened(kit.store)
    assert ids(await at_hand(replica)) == set()


async def test_a_store_that_fails_is_asked_again_by_the_next_one(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.refuses = True
    assert await replica.index(ALICE, until=soon()) is None
    kit.store.refuses = False
    assert ids(await index(replica)) == set()


@pytest.mark.parametrize("gates", [0, 1], ids=["before the rows are read", "after"])
async def test_what_is_written_while_an_index_is_read_in_is_in_it(kit: Kit, gates: int) -> None:
    """A user who talks without a pause has an index all the same, and their memories are read once."""
    replica = kit.replica()
    await write(replica, "old", "gone")
    kit.store.gated = True
    assert await at_hand(replica) is None
    await steps()
    for _ in range(gates):
        kit.store.waiting[0].set_result(None)
        await steps()
    (reading,) = kit.store.waiting
    kit.store.gated = False
    await write(replica, "new")
    await replica.delete(ALICE, ["gone"])
    reading.set_result(None)
    await steps()
    assert ids(await at_hand(replica)) == {"old", "new"}
    assert kit.store.loads == 1


async def test_what_another_replica_writes_while_an_index_is_read_in_is_not_missed(kit: Kit) -> None:
    replica, other = kit.replica(), kit.replica()
    kit.store.gated = True
    assert await at_hand(replica) is None
    await steps()
    kit.store.waiting[0].set_result(None)
    await steps()
    (reading,) = kit.store.waiting
    kit.store.gated = False
    await write(replica, "ours")
    await write(other, "theirs")
    await write(replica, "ours too")
    reading.set_result(None)
    await eventually(replica, {"ours", "theirs", "ours too"})
    assert kit.store.loads == 2


async def test_only_a_few_owners_are_read_at_a_time(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.gated = True
    for n in range(200):
        assert await at_hand(replica, Scope(f"user-{n}")) is None
    await steps()
    assert len(kit.store.waiting) == index_loader._CONCURRENT_LOADS
    await opened(kit.store)
    assert kit.store.loads == replica.owners == index_loader._MAX_LOADS


async def test_closing_ends_fills_that_run(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.gated = True
    for n in range(10):
        await at_hand(replica, Scope(f"user-{n}"))
    await steps()
    await replica.close()
    assert not kit.store.waiting
    assert replica.owners == 0


async def test_a_bug_in_filling_is_reported_and_the_store_is_asked(kit: Kit) -> None:
    replica = kit.replica()

    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    kit.store.load_records = broken  # type: ignore[method-assign]
    assert await replica.index(ALICE, until=soon()) is None
    assert [type(error) for error in kit.errors] == [ZeroDivisionError] * len(kit.errors)
    kit.errors.clear()


async def test_much_text_is_made_an_index_of_beside_the_loop_and_little_at_once(kit: Kit) -> None:
    """However many memories it is in; much that is written is read with the rest when it is asked for."""
    made_in: set[int] = set()

    def label(_: Memory) -> int:
        made_in.add(threading.get_ident())
        return 0

    replica = kit.replica(label=label)
    loop_thread = {threading.get_ident()}
    await index(replica)
    await write(replica, "a", content="User has a dog")
    assert made_in == loop_thread
    made_in.clear()
    await write(replica, "b", content="x " * 10_000)
    assert not made_in
    await index(replica)
    assert made_in
    assert made_in.isdisjoint(loop_thread)


# -- bounds ------------------------------------------------------------------------------------------------------------


async def test_an_owner_with_too_many_memories_is_not_read_again_and_again(kit: Kit) -> None:
    replica = kit.replica(max_owner_memories=2)
    await write(kit.replica(), "a", "b", "c")
    for _ in range(5):
        assert await replica.index(ALICE, until=soon()) is None
    assert kit.store.loads == 1


async def test_an_owner_who_grows_too_large_goes_to_the_store(kit: Kit) -> None:
    replica = kit.replica(max_owner_memories=2)
    await write(replica, "a", "b")
    assert ids(await index(replica)) == {"a", "b"}
    await write(replica, "c")
    assert await replica.index(ALICE, until=soon()) is None
    assert replica.owners == replica.nbytes == 0


async def test_an_owner_whose_memories_are_too_large_together_goes_to_the_store(kit: Kit) -> None:
    replica = kit.replica(max_mb=1)
    await write(replica, *(f"m{n}" for n in range(6)), content="x" * 50_000)
    assert await replica.index(ALICE, until=soon()) is None
    assert replica.nbytes == 0


@pytest.mark.usefixtures("stepped_time")
async def test_too_large_an_owner_is_looked_at_again_after_a_while(kit: Kit) -> None:
    replica = kit.replica(max_owner_memories=1, max_age_seconds=0.05)
    await write(replica, "a", "b")
    assert await replica.index(ALICE, until=soon()) is None
    await replica.delete(ALICE, ["a"])
    await eventually(replica, {"b"})
    assert kit.store.loads == 2


async def test_the_bytes_of_all_are_bound(kit: Kit) -> None:
    replica = kit.replica(max_mb=1)
    for n in range(30):
        scope = Scope(f"user-{n}")
        await write(replica, "a", scope=scope, content="x" * 50_000)
        assert await replica.index(scope, until=soon()) is not None
        assert replica.nbytes <= 1024 * 1024
    assert 10 < replica.owners < 30


# -- age ---------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("stepped_time")
async def test_what_others_wrote_without_telling_shows_after_the_greatest_age(kit: Kit) -> None:
    replica = kit.replica(max_age_seconds=0.05)
    await index(replica)
    await kit.store.upsert(ALICE, [embedded(memory(ALICE, "a"))])
    await eventually(replica, {"a"})


@pytest.mark.usefixtures("stepped_time")
async def test_an_index_in_use_is_read_anew_before_it_is_too_old(kit: Kit) -> None:
    replica = kit.replica(max_age_seconds=0.5)
    await index(replica)
    async with asyncio.timeout(10):
        while kit.store.loads < 4:
            # Never without one.
            assert ids(await at_hand(replica)) == set()
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("stepped_time")
async def test_an_index_of_a_local_store_does_not_age(kit: Kit) -> None:
    kit.store.is_local = True
    replica = kit.replica(max_age_seconds=0.05)
    first = await index(replica)
    await asyncio.sleep(60)
    assert await at_hand(replica) is first
    assert kit.store.loads == 1


# -- reading ahead -----------------------------------------------------------------------------------------------------


async def no_pause() -> None:
    return None


async def test_the_indexes_of_a_local_store_are_read_ahead(kit: Kit) -> None:
    kit.store.is_local = True
    scopes = [Scope("alice"), Scope("bob", "work"), Scope.of_owner("org:acme")]
    for scope in scopes:
        await write(kit.replica(), f"of-{scope.owner}", scope=scope)
    replica = kit.replica()
    await replica.indexes.read_ahead(no_pause)
    assert kit.store.loads == replica.owners == 3
    for scope in scopes:
        assert ids(await at_hand(replica, scope)) == {f"of-{scope.owner}"}
    assert kit.store.loads == 3


async def test_a_servers_indexes_are_read_when_they_are_asked_for(kit: Kit) -> None:
    await write(kit.replica(), "a")
    replica = kit.replica()
    await replica.indexes.read_ahead(no_pause)
    assert replica.owners == kit.store.loads == 0


async def test_reading_ahead_leaves_room_and_begins_with_who_was_changed_last(kit: Kit) -> None:
    kit.store.is_local = True
    scopes = [Scope(f"user-{n}") for n in range(30)]
    for n, scope in enumerate(scopes):
        # Not in the order of their names.
        changed = NOW + timedelta(minutes=n * 7 % 30)
        await write(kit.replica(), "a", scope=scope, content="x" * 50_000, created_at=changed)
    replica = kit.replica(max_mb=1)
    await replica.indexes.read_ahead(no_pause)
    assert 0.7 < replica.nbytes / 2**20 < 0.85
    latest_first = sorted(scopes, key=lambda scope: -(int(scope.owner_id[5:]) * 7 % 30))
    read, others = latest_first[: replica.owners], latest_first[replica.owners :]
    assert others
    assert [await at_hand(replica, scope) is not None for scope in read] == [True] * len(read)
    # When room is needed, the one that was changed longest ago goes first.
    replica = kit.replica(max_mb=1)
    await replica.indexes.read_ahead(no_pause)
    for scope in others[:8]:
        await index(replica, scope)
    loads = kit.store.loads
    assert await at_hand(replica, read[0]) is not None
    assert kit.store.loads == loads
    await index(replica, read[-1])
    assert kit.store.loads == loads + 1


async def test_reading_ahead_waits_for_pauses(kit: Kit) -> None:
    kit.store.is_local = True
    await write(kit.replica(), "a")
    await write(kit.replica(), "b", scope=BOB)
    replica, turns = kit.replica(), asyncio.Semaphore(0)
    reading = asyncio.create_task(replica.indexes.read_ahead(turns.acquire))
    for read in range(3):
        await steps(50)
        assert replica.owners == kit.store.loads == read
        turns.release()
    await reading


async def test_reading_ahead_ends_with_a_store_that_fails(kit: Kit) -> None:
    kit.store.is_local = True
    await write(kit.replica(), "a")
    kit.store.refuses = True
    replica = kit.replica()
    await replica.indexes.read_ahead(no_pause)
    assert replica.owners == 0
    kit.store.refuses = False
    assert ids(await index(replica)) == {"a"}


# -- writes ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["carried over", "read anew"])
async def replica(kit: Kit, request: pytest.FixtureRequest) -> IndexedStore:
    """One that has an index, or none yet."""
    made = kit.replica()
    if request.param == "carried over":
        await index(made)
    return made


async def test_what_was_written_is_seen(replica: IndexedStore, kit: Kit) -> None:
    await write(replica, "a", content="User has a dog")
    assert ids(await index(replica)) == {"a"}
    await write(replica, "a", content="User has a cat")
    assert (await index(replica)).memory(0).content == "User has a cat"
    assert kit.store.loads == 1


async def test_what_was_superseded_is_gone(replica: IndexedStore) -> None:
    await write(replica, "a", "b")
    await write(replica, "a", superseded_at=NOW)
    assert ids(await index(replica)) == {"b"}


async def test_what_was_deleted_is_gone(replica: IndexedStore) -> None:
    await write(replica, "a", "b")
    assert await replica.delete(ALICE, ["a", "unknown"]) == 1
    assert ids(await index(replica)) == {"b"}


async def test_a_deleted_project_is_gone(replica: IndexedStore) -> None:
    await write(replica, "a")
    await write(replica, "b", scope=WORK)
    assert await replica.delete_all(WORK, Reach.EXACT) == 1
    assert ids(await index(replica)) == {"a"}
    assert await replica.delete_all(WORK, Reach.ALL) == 1
    assert ids(await index(replica)) == set()


async def test_a_memory_may_move_to_another_project(replica: IndexedStore) -> None:
    await write(replica, "a")
    await write(replica, "a", scope=WORK)
    found = await index(replica)
    assert len(found.positions(recallable(ALICE))) == 0
    assert len(found.positions(recallable(WORK))) == 1


async def test_other_owners_stay_at_hand(replica: IndexedStore, kit: Kit) -> None:
    await write(replica, "a", scope=BOB)
    await index(replica, BOB)
    read = kit.store.loads
    await write(replica, "b")
    assert ids(await at_hand(replica, BOB)) == {"a"}
    assert kit.store.loads == read


async def test_a_long_index_is_carried_over_too(replica: IndexedStore, kit: Kit) -> None:
    await write(replica, *(f"m{n}" for n in range(600)))
    await index(replica)
    read = kit.store.loads
    await write(replica, "a")
    await replica.delete(ALICE, ["m7"])
    assert ids(await at_hand(replica)) == {f"m{n}" for n in range(600) if n != 7} | {"a"}
    assert kit.store.loads == read


# -- other replicas ----------------------------------------------------------------------------------------------------


async def test_no_replica_shows_what_another_deleted(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a", "b")
    assert ids(await index(there)) == {"a", "b"}
    await here.delete(ALICE, ["a"])
    assert await at_hand(there) is None
    assert ids(await index(there)) == {"b"}


async def test_replicas_that_write_in_turn_see_each_others(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    for n in range(5):
        await write(here, f"h{n}")
        await write(there, f"t{n}")
        assert ids(await index(here)) == ids(await index(there)) == {f"{r}{i}" for r in "ht" for i in range(n + 1)}


async def test_writes_at_the_same_time_leave_no_half_of_it(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    for one in (here, there):
        await index(one)
    kit.store.gated = True
    writing = [asyncio.create_task(write(one, name)) for one, name in ((here, "a"), (there, "b"), (here, "c"))]
    await opened(kit.store)
    await asyncio.gather(*writing)
    kit.store.gated = False
    assert ids(await index(here)) == ids(await index(there)) == {"a", "b", "c"}


async def test_a_fill_that_read_before_a_write_of_its_own_replica_is_not_taken(kit: Kit) -> None:
    replica = kit.replica()
    await write(replica, "a", "b")
    kit.store.gated = True
    assert await at_hand(replica) is None
    await steps()
    kit.store.waiting[0].set_result(None)
    await steps()
    # It has read, and has not answered yet.
    deleting = asyncio.create_task(replica.delete(ALICE, ["a"]))
    await steps()
    for gate in kit.store.waiting[1:]:
        gate.set_result(None)
    await steps()
    kit.store.waiting[1].set_result(None)
    await deleting
    await opened(kit.store)
    kit.store.gated = False
    assert ids(await index(replica)) == {"b"}


async def test_a_fill_that_read_before_a_write_of_another_replica_is_not_used(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a", "b")
    kit.store.gated = True
    assert await at_hand(there) is None
    await steps()
    kit.store.waiting[0].set_result(None)
    await steps()
    kit.store.gated = False
    await here.delete(ALICE, ["a"])
    await opened(kit.store)
    assert ids(await index(there)) == {"b"}


async def test_from_its_announcement_on_a_write_shows(kit: Kit) -> None:
    """Whoever sees in the store what is written finds it by recall, however long the store takes to answer."""
    replica = kit.replica()
    await write(replica, "a")
    await index(replica)
    kit.store.gated = True
    writing = asyncio.create_task(write(replica, "b"))
    await steps()
    for gates in range(2):
        assert ids(await at_hand(replica)) == {"a", "b"}
        assert (await kit.store.get(ALICE, "b") is not None) == bool(gates)
        kit.store.waiting[0].set_result(None)
        await steps()
    await writing
    assert ids(await at_hand(replica)) == {"a", "b"}
    assert kit.store.loads == 1


async def test_what_is_deleted_is_not_shown_while_the_store_deletes_it(kit: Kit) -> None:
    replica = kit.replica()
    await write(replica, "a", "b")
    await index(replica)
    kit.store.gated = True
    deleting = asyncio.create_task(replica.delete(ALICE, ["a"]))
    await steps()
    assert ids(await at_hand(replica)) == {"b"}
    await opened(kit.store)
    await deleting
    assert ids(await at_hand(replica)) == {"b"}


async def test_no_index_is_read_while_a_write_runs(kit: Kit) -> None:
    """It would be unknown what it holds of the write."""
    replica = kit.replica()
    kit.store.gated = True
    writing = asyncio.create_task(write(replica, "a"))
    await steps()
    assert await replica.index(ALICE, until=soon()) is None
    assert kit.store.loads == 0
    await opened(kit.store)
    await writing
    kit.store.gated = False
    assert ids(await index(replica)) == {"a"}


async def test_while_two_writes_run_the_store_is_asked(kit: Kit) -> None:
    replica = kit.replica()
    await index(replica)
    kit.store.gated = True
    writing = [asyncio.create_task(write(replica, each)) for each in "ab"]
    await steps()
    assert await replica.index(ALICE, until=soon()) is None
    await opened(kit.store)
    await asyncio.gather(*writing)
    kit.store.gated = False
    assert ids(await index(replica)) == {"a", "b"}


async def test_while_a_write_runs_and_another_replica_writes_the_store_is_asked(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await index(here)
    kit.store.gated = True
    writing = [asyncio.create_task(write(here, "a")), asyncio.create_task(there.delete(ALICE, ["x"]))]
    await steps()
    assert await here.index(ALICE, until=soon()) is None
    await opened(kit.store)
    await asyncio.gather(*writing)


async def test_from_a_writes_beginning_no_other_replica_uses_an_older_index(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    await index(there)
    kit.store.gated = True
    dying = asyncio.create_task(here.delete(ALICE, ["a"]))
    await steps()
    assert await at_hand(there) is None
    await opened(kit.store)
    await dying


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.UNKNOWN])
async def test_after_a_write_that_failed_the_index_is_read_anew(kit: Kit, outcome: Outcome) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    await index(here)
    await index(there)
    kit.store.outcome = outcome
    with pytest.raises(StoreUnavailableError):
        await here.delete(ALICE, ["a"])
    left = {"a"} if outcome is Outcome.REFUSED else set()
    assert ids(await index(here)) == ids(await index(there)) == left


async def test_a_fill_during_a_write_that_failed_is_not_used(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    kit.store.gated = True
    kit.store.outcome = Outcome.UNKNOWN
    deleting = asyncio.create_task(here.delete(ALICE, ["a"]))
    await steps()
    filling = asyncio.create_task(there.index(ALICE, until=soon()))
    await steps()
    for gate in list(kit.store.reading):
        gate.set_result(None)
    await steps()
    # It has read what the other one deletes now.
    await opened(kit.store)
    with pytest.raises(StoreUnavailableError):
        await deleting
    await opened(kit.store)
    await filling
    kit.store.gated = False
    assert ids(await index(there)) == set()


async def test_after_a_write_that_was_cancelled_the_index_is_read_anew(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await index(here)
    await index(there)
    kit.store.gated = True
    writing = asyncio.create_task(write(here, "a"))
    await steps()
    kit.store.waiting[0].set_result(None)
    await steps()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    kit.store.gated = False
    assert ids(await index(here)) == ids(await index(there)) == {"a"}


async def test_without_versions_nothing_is_at_hand(kit: Kit) -> None:
    replica = kit.replica()
    await index(replica)
    kit.versions.away = None
    assert await replica.index(ALICE, until=soon()) is None
    kit.versions.away = 0
    assert ids(await at_hand(replica)) == set()


async def test_a_write_that_cannot_be_announced_is_not_made(kit: Kit) -> None:
    replica = kit.replica()
    kit.versions.away = None
    with pytest.raises(StoreUnavailableError):
        await write(replica, "a")
    assert await kit.store.get(ALICE, "a") is None


async def test_a_write_that_cannot_be_announced_again_is_announced_later(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_versions, "_RETRY_SECONDS", 0.01)
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    kit.store.gated = True
    deleting = asyncio.create_task(here.delete(ALICE, ["a"]))
    await steps()
    # This replica reads while the other one writes.
    filling = asyncio.create_task(there.index(ALICE, until=soon()))
    await steps()
    kit.store.waiting[1].set_result(None)
    await steps()
    kit.versions.away = 5
    kit.store.waiting[0].set_result(None)
    await steps()
    await opened(kit.store)
    await asyncio.gather(deleting, filling)
    kit.store.gated = False
    await eventually(there, set())
    assert ids(await index(here)) == set()


async def late_announcement(kit: Kit) -> tuple[IndexedStore, IndexedStore, asyncio.Task[int]]:
    """A deletion that is done and stands before its second announcement; a replica has read before it was done."""
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    kit.store.gated = True
    deleting = asyncio.create_task(here.delete(ALICE, ["a"]))
    await steps()
    kit.store.gated = False
    assert ids(await index(there)) == {"a"}
    kit.versions.held = asyncio.Event()
    await opened(kit.store)
    return here, there, deleting


async def test_a_write_that_was_cancelled_while_it_was_announced_is_announced_all_the_same(kit: Kit) -> None:
    here, there, deleting = await late_announcement(kit)
    assert not deleting.done()
    deleting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deleting
    assert kit.versions.held is not None
    kit.versions.held.set()
    await eventually(there, set())
    assert ids(await index(here)) == set()


async def test_closing_announces_what_is_still_to_be_announced(kit: Kit) -> None:
    here, there, deleting = await late_announcement(kit)
    deleting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deleting
    assert kit.versions.held is not None
    kit.versions.held.set()
    await here.close()
    assert ids(await index(there)) == set()


async def test_the_own_replica_announces_before_it_reads(kit: Kit) -> None:
    replica = kit.replica()
    await write(replica, "a")
    before = kit.versions.numbers[ALICE.owner]
    kit.store.gated = True
    deleting = asyncio.create_task(replica.delete(ALICE, ["a"]))
    await steps()
    kit.versions.away = 1
    await opened(kit.store)
    await deleting
    kit.store.gated = False
    assert ids(await index(replica)) == set()
    assert kit.versions.numbers[ALICE.owner] == before + 2
