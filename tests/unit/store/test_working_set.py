"""The working set: what is at hand is what the store has, and nothing that was deleted."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from semrouter_memory.config import WorkingSetConfig
from semrouter_memory.errors import GenerationsError, StoreUnavailableError
from semrouter_memory.model import Memory, Reach, Scope
from semrouter_memory.ports import MemoryShelf
from semrouter_memory.store import shelving
from semrouter_memory.store.shelf import Mark, unmarked
from semrouter_memory.store.working_set import WorkingSet
from tests.gated_store import GatedStore, Outcome, ToldGenerations
from tests.memories import NOW, embedded, memory

ALICE = Scope("alice")
BOB = Scope("bob")
WORK = Scope("alice", "work")


@pytest.fixture(autouse=True)
def _read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests go step by step; that a reading waits for its asker's answer is another test's."""
    monkeypatch.setattr(shelving, "_AFTER_THE_ANSWER_SECONDS", 0)


@dataclass
class Kit:
    """A store, its generations, and working sets over both, as replicas have them."""

    store: GatedStore = field(default_factory=GatedStore)
    generations: ToldGenerations = field(default_factory=ToldGenerations)
    now: datetime = NOW
    errors: list[BaseException] = field(default_factory=list)
    shared: "Handed | None" = None
    replicas: list[WorkingSet] = field(default_factory=list)

    def replica(self, *, mark: Mark = unmarked, **settings: Any) -> WorkingSet:
        replica = WorkingSet(
            self.store,
            self.generations,
            config=WorkingSetConfig(**settings),
            clock=self.clock(),
            on_error=self.errors.append,
            mark=mark,
            shared=self.shared,
        )
        self.replicas.append(replica)
        return replica

    def clock(self) -> "Kit.Clock":
        return Kit.Clock(self)

    @dataclass
    class Clock:
        kit: "Kit"

        def now(self) -> datetime:
            return self.kit.now


@dataclass
class Handed:
    """Shelves that replicas hand to each other, in this process."""

    values: dict[tuple[str, int], bytes] = field(default_factory=dict)
    fails: bool = False

    async def get(self, scope: Scope, generation: int) -> bytes | None:
        self._require()
        return self.values.get((scope.owner, generation))

    async def put(self, scope: Scope, generation: int, value: bytes) -> None:
        self._require()
        self.values[scope.owner, generation] = value

    def _require(self) -> None:
        if self.fails:
            raise GenerationsError("away")


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    made = Kit()
    yield made
    for replica in made.replicas:
        await replica.close()
    assert not made.errors


def soon(seconds: float = 10) -> float:
    return asyncio.get_running_loop().time() + seconds


async def shelf(replica: WorkingSet, scope: Scope = ALICE) -> MemoryShelf:
    found = await replica.shelf(scope, until=soon())
    assert found is not None
    return found


async def at_hand(replica: WorkingSet, scope: Scope = ALICE) -> MemoryShelf | None:
    """Without waiting for the store."""
    return await replica.shelf(scope, until=soon(0))


def ids(found: MemoryShelf | None) -> set[str] | None:
    return None if found is None else {found.memory(position).id for position in range(len(found))}


async def eventually(replica: WorkingSet, wanted: set[str]) -> None:
    async with asyncio.timeout(10):
        while True:
            if ids(await replica.shelf(ALICE, until=soon())) == wanted:
                return
            await asyncio.sleep(0.005)


async def write(replica: WorkingSet, *memory_ids: str, scope: Scope = ALICE, **more: Any) -> None:
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


async def test_the_first_look_reads_the_store_and_the_next_does_not(kit: Kit) -> None:
    replica = kit.replica()
    await write(kit.replica(), "a", "b")
    assert ids(await shelf(replica)) == ids(await at_hand(replica)) == {"a", "b"}
    assert kit.store.shelved == 1
    assert replica.owners == 1
    assert replica.nbytes > 0


@pytest.mark.usefixtures("stepped_time")
async def test_the_store_is_read_after_who_asked_has_searched_it(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelving, "_AFTER_THE_ANSWER_SECONDS", 0.05)
    replica = kit.replica()
    # It cannot be there in time, so this one does not even wait.
    asking = asyncio.create_task(replica.shelf(ALICE, until=soon(0.04)))
    await steps(50)
    assert asking.done()
    assert asking.result() is None
    assert kit.store.shelved == 0
    assert await replica.shelf(ALICE, until=soon()) is not None
    assert kit.store.shelved == 1


async def test_one_fill_serves_all_who_ask_for_it(kit: Kit) -> None:
    replica = kit.replica()
    found = await asyncio.gather(*(shelf(replica) for _ in range(10)))
    assert kit.store.shelved == 1
    assert all(each is found[0] for each in found)


@pytest.mark.usefixtures("stepped_time")
async def test_who_cannot_wait_asks_the_store_and_the_next_one_has_the_shelf(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.gated = True
    assert await at_hand(replica) is None
    assert await replica.shelf(ALICE, until=soon(0.01)) is None
    await opened(kit.store)
    assert ids(await at_hand(replica)) == set()
    assert kit.store.shelved == 1


async def test_who_leaves_while_waiting_does_not_end_the_fill(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.gated = True
    asking = asyncio.create_task(shelf(replica))
    await steps()
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    await opened(kit.store)
    assert ids(await at_hand(replica)) == set()


async def test_a_store_that_fails_is_asked_again_by_the_next_one(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.refuses = True
    assert await replica.shelf(ALICE, until=soon()) is None
    kit.store.refuses = False
    assert ids(await shelf(replica)) == set()


async def test_only_a_few_owners_are_read_at_a_time(kit: Kit) -> None:
    replica = kit.replica()
    kit.store.gated = True
    for n in range(200):
        assert await at_hand(replica, Scope(f"user-{n}")) is None
    await steps()
    assert len(kit.store.waiting) == shelving._FILLS
    await opened(kit.store)
    assert kit.store.shelved == replica.owners == shelving._MAX_WAITING


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

    kit.store.shelve = broken  # type: ignore[method-assign]
    assert await replica.shelf(ALICE, until=soon()) is None
    assert [type(error) for error in kit.errors] == [ZeroDivisionError] * len(kit.errors)
    kit.errors.clear()


async def test_much_text_is_made_a_shelf_of_beside_the_loop_and_little_at_once(kit: Kit) -> None:
    """However many memories it is in; whether it is read or carried over."""
    made_in: set[int] = set()

    def mark(_: Memory) -> int:
        made_in.add(threading.get_ident())
        return 0

    replica = kit.replica(mark=mark)
    loop_thread = {threading.get_ident()}
    await shelf(replica)
    await write(replica, "a", content="User has a dog")
    assert made_in == loop_thread
    made_in.clear()
    await write(replica, "b", content="x " * 10_000)
    assert made_in.isdisjoint(loop_thread)
    made_in.clear()
    await shelf(kit.replica(mark=mark))
    assert made_in
    assert made_in.isdisjoint(loop_thread)


# -- bounds ------------------------------------------------------------------------------------------------------------


async def test_an_owner_with_too_many_memories_is_not_read_again_and_again(kit: Kit) -> None:
    replica = kit.replica(max_owner_memories=2)
    await write(kit.replica(), "a", "b", "c")
    for _ in range(5):
        assert await replica.shelf(ALICE, until=soon()) is None
    assert kit.store.shelved == 1


async def test_an_owner_who_grows_too_large_goes_to_the_store(kit: Kit) -> None:
    replica = kit.replica(max_owner_memories=2)
    await write(replica, "a", "b")
    assert ids(await shelf(replica)) == {"a", "b"}
    await write(replica, "c")
    assert await replica.shelf(ALICE, until=soon()) is None
    assert replica.owners == replica.nbytes == 0


async def test_an_owner_whose_memories_are_too_large_together_goes_to_the_store(kit: Kit) -> None:
    replica = kit.replica(max_mb=1)
    await write(replica, *(f"m{n}" for n in range(6)), content="x" * 50_000)
    assert await replica.shelf(ALICE, until=soon()) is None
    assert replica.nbytes == 0


@pytest.mark.usefixtures("stepped_time")
async def test_too_large_an_owner_is_looked_at_again_after_a_while(kit: Kit) -> None:
    replica = kit.replica(max_owner_memories=1, max_age_seconds=0.05)
    await write(replica, "a", "b")
    assert await replica.shelf(ALICE, until=soon()) is None
    await replica.delete(ALICE, ["a"])
    await eventually(replica, {"b"})
    assert kit.store.shelved == 2


async def test_the_bytes_of_all_are_bound(kit: Kit) -> None:
    replica = kit.replica(max_mb=1)
    for n in range(30):
        scope = Scope(f"user-{n}")
        await write(replica, "a", scope=scope, content="x" * 50_000)
        assert await replica.shelf(scope, until=soon()) is not None
        assert replica.nbytes <= 1024 * 1024
    assert 10 < replica.owners < 30


# -- age ---------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("stepped_time")
async def test_what_others_wrote_without_telling_shows_after_the_greatest_age(kit: Kit) -> None:
    replica = kit.replica(max_age_seconds=0.05)
    await shelf(replica)
    await kit.store.upsert(ALICE, [embedded(memory(ALICE, "a"))])
    await eventually(replica, {"a"})


@pytest.mark.usefixtures("stepped_time")
async def test_a_shelf_in_use_is_read_anew_before_it_is_too_old(kit: Kit) -> None:
    replica = kit.replica(max_age_seconds=0.5)
    await shelf(replica)
    async with asyncio.timeout(10):
        while kit.store.shelved < 4:
            # Never without one.
            assert ids(await at_hand(replica)) == set()
            await asyncio.sleep(0.01)


# -- writes ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["carried over", "read anew"])
async def replica(kit: Kit, request: pytest.FixtureRequest) -> WorkingSet:
    """One that has a shelf, or none yet."""
    made = kit.replica()
    if request.param == "carried over":
        await shelf(made)
    return made


async def test_what_was_written_is_seen(replica: WorkingSet, kit: Kit) -> None:
    await write(replica, "a", content="User has a dog")
    assert ids(await shelf(replica)) == {"a"}
    await write(replica, "a", content="User has a cat")
    assert (await shelf(replica)).memory(0).content == "User has a cat"
    assert kit.store.shelved == 1


async def test_what_was_superseded_is_gone(replica: WorkingSet) -> None:
    await write(replica, "a", "b")
    await write(replica, "a", superseded_at=NOW)
    assert ids(await shelf(replica)) == {"b"}


async def test_what_was_deleted_is_gone(replica: WorkingSet) -> None:
    await write(replica, "a", "b")
    assert await replica.delete(ALICE, ["a", "unknown"]) == 1
    assert ids(await shelf(replica)) == {"b"}


async def test_a_deleted_project_is_gone(replica: WorkingSet) -> None:
    await write(replica, "a")
    await write(replica, "b", scope=WORK)
    assert await replica.delete_all(WORK, Reach.EXACT) == 1
    assert ids(await shelf(replica)) == {"a"}
    assert await replica.delete_all(WORK, Reach.ALL) == 1
    assert ids(await shelf(replica)) == set()


async def test_a_memory_may_move_to_another_project(replica: WorkingSet) -> None:
    await write(replica, "a")
    await write(replica, "a", scope=WORK)
    found = await shelf(replica)
    assert len(found.positions(ALICE, now=NOW, types=None)) == 0
    assert len(found.positions(WORK, now=NOW, types=None)) == 1


async def test_other_owners_stay_at_hand(replica: WorkingSet, kit: Kit) -> None:
    await write(replica, "a", scope=BOB)
    await shelf(replica, BOB)
    read = kit.store.shelved
    await write(replica, "b")
    assert ids(await at_hand(replica, BOB)) == {"a"}
    assert kit.store.shelved == read


async def test_a_long_shelf_is_carried_over_too(replica: WorkingSet, kit: Kit) -> None:
    await write(replica, *(f"m{n}" for n in range(600)))
    await shelf(replica)
    read = kit.store.shelved
    await write(replica, "a")
    await replica.delete(ALICE, ["m7"])
    assert ids(await at_hand(replica)) == {f"m{n}" for n in range(600) if n != 7} | {"a"}
    assert kit.store.shelved == read


async def test_a_large_shelf_that_nobody_asks_for_is_not_carried_over_for_ever(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelving, "_LARGE", 5)
    replica = kit.replica()
    await write(replica, *"abcdef")
    for n in range(10):
        await shelf(replica)
        await write(replica, f"m{n}")
    assert kit.store.shelved == 1
    for n in range(10):
        await write(replica, f"n{n}")
    assert replica.owners == 0
    assert ids(await shelf(replica)) == {*"abcdef", *(f"{x}{n}" for x in "mn" for n in range(10))}
    assert kit.store.shelved == 2


# -- other replicas ----------------------------------------------------------------------------------------------------


async def test_no_replica_shows_what_another_deleted(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a", "b")
    assert ids(await shelf(there)) == {"a", "b"}
    await here.delete(ALICE, ["a"])
    assert await at_hand(there) is None
    assert ids(await shelf(there)) == {"b"}


async def test_replicas_that_write_in_turn_see_each_others(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    for n in range(5):
        await write(here, f"h{n}")
        await write(there, f"t{n}")
        assert ids(await shelf(here)) == ids(await shelf(there)) == {f"{r}{i}" for r in "ht" for i in range(n + 1)}


async def test_writes_at_the_same_time_leave_no_half_of_it(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    for one in (here, there):
        await shelf(one)
    kit.store.gated = True
    writing = [asyncio.create_task(write(one, name)) for one, name in ((here, "a"), (there, "b"), (here, "c"))]
    await opened(kit.store)
    await asyncio.gather(*writing)
    kit.store.gated = False
    assert ids(await shelf(here)) == ids(await shelf(there)) == {"a", "b", "c"}


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
    assert ids(await shelf(replica)) == {"b"}


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
    assert ids(await shelf(there)) == {"b"}


async def test_while_its_only_write_runs_a_replica_has_what_was_before_it(kit: Kit) -> None:
    replica = kit.replica()
    await write(replica, "a")
    await shelf(replica)
    kit.store.gated = True
    writing = asyncio.create_task(write(replica, "b"))
    await steps()
    assert ids(await at_hand(replica)) == {"a"}
    await opened(kit.store)
    await writing
    assert ids(await at_hand(replica)) == {"a", "b"}


async def test_while_two_writes_run_the_store_is_asked(kit: Kit) -> None:
    replica = kit.replica()
    await shelf(replica)
    kit.store.gated = True
    writing = [asyncio.create_task(write(replica, each)) for each in "ab"]
    await steps()
    assert await replica.shelf(ALICE, until=soon()) is None
    await opened(kit.store)
    await asyncio.gather(*writing)
    kit.store.gated = False
    assert ids(await shelf(replica)) == {"a", "b"}


async def test_while_a_write_runs_and_another_replica_writes_the_store_is_asked(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await shelf(here)
    kit.store.gated = True
    writing = [asyncio.create_task(write(here, "a")), asyncio.create_task(there.delete(ALICE, ["x"]))]
    await steps()
    assert await here.shelf(ALICE, until=soon()) is None
    await opened(kit.store)
    await asyncio.gather(*writing)


async def test_from_a_writes_beginning_no_other_replica_uses_an_older_shelf(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    await shelf(there)
    kit.store.gated = True
    dying = asyncio.create_task(here.delete(ALICE, ["a"]))
    await steps()
    assert await at_hand(there) is None
    await opened(kit.store)
    await dying


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.UNKNOWN])
async def test_after_a_write_that_failed_the_shelf_is_read_anew(kit: Kit, outcome: Outcome) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    await shelf(here)
    await shelf(there)
    kit.store.outcome = outcome
    with pytest.raises(StoreUnavailableError):
        await here.delete(ALICE, ["a"])
    left = {"a"} if outcome is Outcome.REFUSED else set()
    assert ids(await shelf(here)) == ids(await shelf(there)) == left


async def test_a_fill_during_a_write_that_failed_is_not_used(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    kit.store.gated = True
    kit.store.outcome = Outcome.UNKNOWN
    deleting = asyncio.create_task(here.delete(ALICE, ["a"]))
    await steps()
    filling = asyncio.create_task(there.shelf(ALICE, until=soon()))
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
    assert ids(await shelf(there)) == set()


async def test_after_a_write_that_was_cancelled_the_shelf_is_read_anew(kit: Kit) -> None:
    here, there = kit.replica(), kit.replica()
    await shelf(here)
    await shelf(there)
    kit.store.gated = True
    writing = asyncio.create_task(write(here, "a"))
    await steps()
    kit.store.waiting[0].set_result(None)
    await steps()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    kit.store.gated = False
    assert ids(await shelf(here)) == ids(await shelf(there)) == {"a"}


async def test_without_generations_nothing_is_at_hand(kit: Kit) -> None:
    replica = kit.replica()
    await shelf(replica)
    kit.generations.away = None
    assert await replica.shelf(ALICE, until=soon()) is None
    kit.generations.away = 0
    assert ids(await at_hand(replica)) == set()


async def test_a_write_that_cannot_be_announced_is_not_made(kit: Kit) -> None:
    replica = kit.replica()
    kit.generations.away = None
    with pytest.raises(StoreUnavailableError):
        await write(replica, "a")
    assert await kit.store.get(ALICE, "a") is None


async def test_a_write_that_cannot_be_announced_again_is_announced_later(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelving, "_PAUSE_SECONDS", 0.01)
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    kit.store.gated = True
    deleting = asyncio.create_task(here.delete(ALICE, ["a"]))
    await steps()
    # This replica reads while the other one writes.
    filling = asyncio.create_task(there.shelf(ALICE, until=soon()))
    await steps()
    kit.store.waiting[1].set_result(None)
    await steps()
    kit.generations.away = 5
    kit.store.waiting[0].set_result(None)
    await steps()
    await opened(kit.store)
    await asyncio.gather(deleting, filling)
    kit.store.gated = False
    await eventually(there, set())
    assert ids(await shelf(here)) == set()


async def late_announcement(kit: Kit) -> tuple[WorkingSet, WorkingSet, asyncio.Task[int]]:
    """A deletion that is done and stands before its second announcement; a replica has read before it was done."""
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    kit.store.gated = True
    deleting = asyncio.create_task(here.delete(ALICE, ["a"]))
    await steps()
    kit.store.gated = False
    assert ids(await shelf(there)) == {"a"}
    kit.generations.held = asyncio.Event()
    await opened(kit.store)
    return here, there, deleting


async def test_a_write_that_was_cancelled_while_it_was_announced_is_announced_all_the_same(kit: Kit) -> None:
    here, there, deleting = await late_announcement(kit)
    assert not deleting.done()
    deleting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deleting
    assert kit.generations.held is not None
    kit.generations.held.set()
    await eventually(there, set())
    assert ids(await shelf(here)) == set()


async def test_closing_announces_what_is_still_to_be_announced(kit: Kit) -> None:
    here, there, deleting = await late_announcement(kit)
    deleting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deleting
    assert kit.generations.held is not None
    kit.generations.held.set()
    await here.close()
    assert ids(await shelf(there)) == set()


async def test_the_own_replica_announces_before_it_reads(kit: Kit) -> None:
    replica = kit.replica()
    await write(replica, "a")
    before = kit.generations.numbers[ALICE.owner]
    kit.store.gated = True
    deleting = asyncio.create_task(replica.delete(ALICE, ["a"]))
    await steps()
    kit.generations.away = 1
    await opened(kit.store)
    await deleting
    kit.store.gated = False
    assert ids(await shelf(replica)) == set()
    assert kit.generations.numbers[ALICE.owner] == before + 2


# -- shelves from other replicas ---------------------------------------------------------------------------------------


async def test_a_replica_takes_the_shelf_that_another_read(kit: Kit) -> None:
    kit.shared = Handed()
    here, there = kit.replica(), kit.replica()
    await write(here, "a")
    assert ids(await shelf(here)) == ids(await shelf(there)) == {"a"}
    assert kit.store.shelved == 1


async def test_a_handed_shelf_is_not_younger_than_what_was_read(kit: Kit) -> None:
    kit.shared = Handed()
    await shelf(kit.replica())
    await kit.store.upsert(ALICE, [embedded(memory(ALICE, "a"))])
    kit.now += timedelta(seconds=200)
    late = kit.replica()
    assert ids(await shelf(late)) == set()
    kept = late._shelving.kept.find(ALICE.owner)
    assert kept is not None
    assert asyncio.get_running_loop().time() - kept.read_at >= 200
    kit.now += timedelta(seconds=100)
    assert ids(await shelf(kit.replica())) == {"a"}


@pytest.mark.usefixtures("stepped_time")
async def test_a_shelf_that_is_read_for_its_age_comes_from_the_store(kit: Kit) -> None:
    kit.shared = Handed()
    replica = kit.replica(max_age_seconds=0.05)
    await shelf(replica)
    async with asyncio.timeout(10):
        while kit.store.shelved < 3:
            await shelf(replica)
            await asyncio.sleep(0.005)


async def test_handed_bytes_that_are_no_shelf_are_not_used(kit: Kit) -> None:
    kit.shared = Handed({(ALICE.owner, 0): b"something else"})
    assert ids(await shelf(kit.replica())) == set()
    assert kit.store.shelved == 1


async def test_without_what_hands_them_the_store_is_read(kit: Kit) -> None:
    kit.shared = Handed(fails=True)
    assert ids(await shelf(kit.replica())) == set()


# -- the store behind it -----------------------------------------------------------------------------------------------


async def test_everything_else_is_the_stores(kit: Kit) -> None:
    replica = kit.replica()
    await write(replica, "a", "b", superseded_at=None)
    one = embedded(memory(ALICE, "a"))
    assert replica.available
    assert {hit.memory.id for hit in await replica.search(ALICE, one.vector, limit=5, now=NOW)} == {"a", "b"}
    assert await replica.get(ALICE, "a") == one.memory
    assert len((await replica.page(ALICE, limit=5, now=NOW)).memories) == 2
    assert await replica.predecessors(ALICE, ["a"]) == []
    assert len(await replica.shelve(ALICE, limit=5, now=NOW) or ()) == 2
    assert [len(batch) async for batch in replica.scan()] == [2]
    await replica.compact()
