"""Whatever is written, by whichever replica, in whatever order things happen: an index shows what the store has.

Writes and fills stop before they happen and before they answer; the steps in between are drawn. Two replicas share a
store and its versions.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Criteria, EmbeddedMemory, Memory, Reach, Scope
from semrouter_memory.ports import MemoryIndex
from semrouter_memory.store import index_cache
from tests.examples import examples
from tests.gated_store import GatedStore, Outcome, ToldVersions
from tests.indexed_store import IndexedStore
from tests.memories import NOW, embedded, memory

OWNERS = ("alice", "bob")
ANY_OWNER = st.sampled_from(["alice", "alice", "alice", "bob"])
SCOPES = st.builds(Scope, ANY_OWNER, st.sampled_from(["", "work"]))
OUTCOMES = st.sampled_from([Outcome.DONE] * 4 + [Outcome.REFUSED, Outcome.UNKNOWN])
IDS = st.sampled_from("ab")
REPLICAS = st.integers(0, 1)
MAX_BYTES = 12_000
"""Room for one owner, not for both."""


Write = Callable[[IndexedStore, Scope], Coroutine[Any, Any, object]]


@pytest.fixture(autouse=True)
def _read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests go step by step; that a reading waits for its asker's answer is another test's."""
    monkeypatch.setattr(index_cache, "_LOAD_DELAY_SECONDS", 0)


def upserting(ids: set[str], superseded: bool, seed: int) -> Write:
    return lambda replica, scope: replica.upsert(scope, [row(scope, each, superseded, seed) for each in sorted(ids)])


def deleting(ids: set[str]) -> Write:
    return lambda replica, scope: replica.delete(scope, sorted(ids))


def deleting_all(reach: Reach) -> Write:
    return lambda replica, scope: replica.delete_all(scope, reach)


def row(scope: Scope, memory_id: str, superseded: bool, seed: int) -> EmbeddedMemory:
    one = memory(
        scope,
        memory_id,
        content=f"User has {seed} dogs",
        created_at=NOW - timedelta(minutes=seed % 3),
        superseded_at=NOW if superseded else None,
    )
    return embedded(one, seed)


SOME_IDS = st.sets(IDS, min_size=1)
UPSERTS = st.builds(upserting, SOME_IDS, st.sampled_from([False, False, True]), st.integers(0, 9))
WRITES = st.one_of(
    UPSERTS,
    UPSERTS,
    st.builds(deleting, SOME_IDS),
    st.builds(deleting_all, st.sampled_from([Reach.EXACT, Reach.ALL])),
)


class Interleavings(RuleBasedStateMachine):
    """One event loop that runs only as far as a rule lets it."""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = GatedStore()
        self.store.gated = True
        self.errors: list[BaseException] = []
        self.versions = ToldVersions()
        self.replicas = [
            IndexedStore(
                self.store,
                self.versions,
                config=OwnerIndexConfig(max_age_seconds=3600),
                on_error=self.errors.append,
            )
            for _ in range(2)
        ]
        for replica in self.replicas:
            replica.indexes._entries = index_cache.entries_within(MAX_BYTES)
        self.writes: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.run(self.ended())
            for replica in self.replicas:
                self.run(replica.close())
            self.loop.close()

    # -- what happens --------------------------------------------------------------------------------------------------

    @rule(data=st.data(), replica=REPLICAS, scope=SCOPES, outcome=OUTCOMES)
    def write(self, data: st.DataObject, replica: int, scope: Scope, outcome: Outcome) -> None:
        self.store.outcome = outcome
        self.start(scope, data.draw(WRITES)(self.replicas[replica], scope))

    @rule(owner=ANY_OWNER)
    def look(self, owner: str) -> None:
        """Begins fills, mostly, and leaves them where they stand."""
        for replica in self.replicas:
            self.run(replica.index(Scope(owner), until=self.loop.time()))
            self.run(self.steps())

    @precondition(lambda self: self.store.waiting)
    @rule(which=st.lists(st.integers(0, 9), min_size=1, max_size=6))
    def go_on(self, which: list[int]) -> None:
        """The oldest mostly, as drawn numbers are small."""
        for each in which:
            if self.store.waiting:
                self.store.waiting[each % len(self.store.waiting)].set_result(None)
                self.run(self.steps())

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(sorted(self.tasks, key=asyncio.Task.get_name))).cancel()
        self.run(self.steps())

    # -- what holds ----------------------------------------------------------------------------------------------------

    @rule(replica=REPLICAS, owner=ANY_OWNER)
    def an_index_shows_what_the_store_has(self, replica: int, owner: str) -> None:
        self.an_index_shows(replica, owner)

    def an_index_shows(self, replica: int, owner: str) -> None:
        if not self.writes[owner]:
            shown = self.run(self.opened(self.replicas[replica].index(Scope(owner), until=self.loop.time() + 60)))
            assert memories(shown) == self.stored(Scope(owner))

    @invariant()
    def what_is_at_hand_is_what_the_store_has(self) -> None:
        """Looks without beginning anything."""
        for replica in getattr(self, "replicas", ()):
            for owner in OWNERS:
                entries = replica.indexes._entries
                # A look that leaves the order in which owners are evicted as it is.
                kept = dict(entries.items()).get(Scope(owner).owner)
                current = self.run(self.versions.current(Scope(owner)))
                if kept is not None and kept.version == current and not self.writes[owner]:
                    assert memories(kept.index) == self.stored(Scope(owner))

    @invariant()
    def the_bytes_are_bound(self) -> None:
        for replica in getattr(self, "replicas", ()):
            assert replica.nbytes <= MAX_BYTES

    @invariant()
    def nothing_went_wrong(self) -> None:
        assert not getattr(self, "errors", None)

    def go_through(self, known: bool, happening: list[tuple[int, Any, Outcome]], order: list[int]) -> None:
        self.store.gated = False
        self.run(self.replicas[0].upsert(ALICE, [row(ALICE, "a", superseded=False, seed=7)]))
        for replica in self.replicas if known else ():
            self.run(replica.index(ALICE, until=self.loop.time() + 60))
        self.store.gated = True
        begun = iter(happening)
        for which in [*order, *[1] * 20]:
            gates = self.store.waiting
            if which and gates:
                gates[(which - 1) % len(gates)].set_result(None)
            elif (next_one := next(begun, None)) is not None:
                self.set_off(*next_one)
            self.run(self.steps())
            self.what_is_at_hand_is_what_the_store_has()
        for number in range(len(self.replicas)):
            self.an_index_shows(number, "alice")
        self.nothing_went_wrong()

    def set_off(self, replica: int, what: Any, outcome: Outcome) -> None:
        if what == LOOK:
            self.run(self.replicas[replica].index(ALICE, until=self.loop.time()))
        else:
            self.store.outcome = outcome
            self.start(ALICE, what(self.replicas[replica], ALICE))

    # -- how -----------------------------------------------------------------------------------------------------------

    def stored(self, scope: Scope) -> list[Memory]:
        rows = self.run(GatedStore.page(self.store, Criteria(scope, active_at=NOW), limit=100)).memories
        return sorted(rows, key=lambda one: (one.created_at, one.id))

    def start(self, scope: Scope, write: Coroutine[Any, Any, object]) -> None:
        async def finish() -> None:
            try:
                with suppress(StoreUnavailableError):
                    await write
            finally:
                self.writes[scope.owner_id] -= 1

        self.writes[scope.owner_id] += 1
        task = self.loop.create_task(finish())
        # So that one which is cancelled has begun.
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        self.run(self.steps())

    async def opened(self, wanted: Awaitable[Any]) -> Any:
        """What comes of it when fills go on; writes stay where they are."""
        asking = asyncio.ensure_future(wanted)
        while not asking.done():
            for gate in self.store.reading:
                gate.set_result(None)
            await self.steps()
        return asking.result()

    async def ended(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def steps(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def run(self, wanted: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(wanted)


ALICE = Scope("alice")
LOOK = "look"
HAPPENING = st.tuples(REPLICAS, st.just(LOOK) | WRITES, OUTCOMES)


@given(
    known=st.booleans(),
    happening=st.lists(HAPPENING, min_size=2, max_size=4),
    order=st.lists(st.integers(0, 4), max_size=16),
)
@settings(max_examples=examples(150))
def test_a_few_writes_and_fills_at_once_end_well(
    known: bool, happening: list[tuple[int, Any, Outcome]], order: list[int]
) -> None:
    """The same, denser: of one owner, whom both replicas know already, or not."""
    machine = Interleavings()
    machine.begin()
    try:
        machine.go_through(known, happening, order)
    finally:
        machine.teardown()


def memories(index: MemoryIndex) -> list[Memory]:
    return [index.memory(position) for position in range(len(index.created_at))]


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=examples(30), stateful_step_count=40)
