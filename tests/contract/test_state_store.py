"""What every state store promises. An adapter joins by a parameter of `state_store`."""

from datetime import timedelta
from pathlib import Path

import pytest

from semrouter_memory.maintenance.recall_journal import MAX_RECEIPTS, add_receipts, receipt_lines
from semrouter_memory.model import Reach, Scope, Usage
from semrouter_memory.ports import StateStore
from tests.contract.turn_logs import ALICE, BOB, START, SteppedClock

WORK = Scope("alice", "work")
HOUR = timedelta(hours=1)

HOSTILE = [
    pytest.param("'; DROP TABLE state; --", id="sql"),
    pytest.param("a\x00b", id="nul"),
    pytest.param("\ud800", id="surrogate"),
    pytest.param("%_*?[a-z]{x}:", id="wildcards"),
    pytest.param("x" * 10_000, id="long"),
    pytest.param("ünï\u202ecode", id="unicode"),
]


class TestValues:
    async def test_they_come_back_as_they_were(self, state_store: StateStore) -> None:
        await state_store.put(ALICE, "a", b"\x00\xff", ttl=HOUR)
        await state_store.put(ALICE, "b", b"", ttl=HOUR)
        assert await state_store.get(ALICE, ["a", "b", "c"]) == {"a": b"\x00\xff", "b": b""}
        assert await state_store.get(ALICE, []) == {}

    async def test_the_last_one_counts(self, state_store: StateStore) -> None:
        await state_store.put(ALICE, "a", b"1", ttl=HOUR)
        await state_store.put(ALICE, "a", b"2", ttl=HOUR)
        assert await state_store.get(ALICE, ["a"]) == {"a": b"2"}

    async def test_they_end_by_themselves(self, state_store: StateStore, clock: SteppedClock) -> None:
        await state_store.put(ALICE, "short", b"1", ttl=timedelta(seconds=10))
        await state_store.put(ALICE, "long", b"2", ttl=timedelta(seconds=20))
        clock.step(9.9)
        assert (await state_store.get(ALICE, ["short", "long"])).keys() == {"short", "long"}
        clock.step(0.1)
        assert await state_store.get(ALICE, ["short", "long"]) == {"long": b"2"}

    async def test_a_new_value_has_a_time_of_its_own(self, state_store: StateStore, clock: SteppedClock) -> None:
        await state_store.put(ALICE, "a", b"1", ttl=timedelta(seconds=10))
        clock.step(5)
        await state_store.put(ALICE, "a", b"2", ttl=timedelta(seconds=10))
        clock.step(9)
        assert await state_store.get(ALICE, ["a"]) == {"a": b"2"}

    async def test_they_belong_to_user_and_project(self, state_store: StateStore) -> None:
        for scope in (ALICE, WORK, BOB):
            await state_store.put(scope, "a", scope.project_id.encode() + scope.owner_id.encode(), ttl=HOUR)
        assert await state_store.get(ALICE, ["a"]) == {"a": b"alice"}
        assert await state_store.get(Scope("alice", "work"), ["a"]) == {"a": b"workalice"}
        assert await state_store.get(Scope("bob", "work"), ["a"]) == {}

    async def test_named_ones_can_be_dropped(self, state_store: StateStore) -> None:
        for key in ("a", "b"):
            await state_store.put(ALICE, key, b"1", ttl=HOUR)
        await state_store.put(BOB, "a", b"1", ttl=HOUR)
        await state_store.drop(ALICE, ["a", "unknown"])
        await state_store.drop(ALICE, [])
        assert await state_store.get(ALICE, ["a", "b"]) == {"b": b"1"}
        assert await state_store.get(BOB, ["a"]) == {"a": b"1"}

    async def test_a_sweep_deletes_what_has_ended(self, state_store: StateStore, clock: SteppedClock) -> None:
        await state_store.put(ALICE, "kept", b"1", ttl=HOUR)
        assert await state_store.sweep() == 0
        clock.step(1)
        assert await state_store.get(ALICE, ["kept"]) == {"kept": b"1"}

    @pytest.mark.parametrize("value", HOSTILE)
    async def test_hostile_names_are_only_names(self, state_store: StateStore, value: str) -> None:
        scope = Scope(value, value)
        await state_store.put(BOB, "a", b"bob", ttl=HOUR)
        await state_store.put(scope, value, b"1", ttl=HOUR)
        await state_store.count_uses(scope, {value: 2}, at=START)
        assert await state_store.get(scope, [value]) == {value: b"1"}
        assert await state_store.usage(scope, [value]) == {value: Usage(2, START)}
        assert await state_store.get(Scope(value), [value]) == {}
        await state_store.forget(scope, Reach.ALL)
        assert await state_store.get(scope, [value]) == {}
        assert await state_store.usage(scope, [value]) == {}
        assert await state_store.get(BOB, ["a"]) == {"a": b"bob"}

    async def test_owners_that_differ_in_what_is_no_character_stay_apart(self, state_store: StateStore) -> None:
        for number, user in enumerate(("\ud800", "\ud801", "?")):
            await state_store.put(Scope(user), "a", str(number).encode(), ttl=HOUR)
        assert await state_store.get(Scope("\ud800"), ["a"]) == {"a": b"0"}


class TestUsage:
    async def test_it_adds_up(self, state_store: StateStore) -> None:
        later = START + HOUR
        await state_store.count_uses(ALICE, {"m1": 2, "m2": 1}, at=later)
        await state_store.count_uses(ALICE, {"m1": 3}, at=START)
        await state_store.count_uses(ALICE, {}, at=START)
        assert await state_store.usage(ALICE, ["m1", "m2", "m3"]) == {"m1": Usage(5, later), "m2": Usage(1, later)}

    async def test_it_belongs_to_the_owner_in_whatever_project(self, state_store: StateStore) -> None:
        await state_store.count_uses(WORK, {"m1": 1}, at=START)
        assert await state_store.usage(ALICE, ["m1"]) == {"m1": Usage(1, START)}
        assert await state_store.usage(BOB, ["m1"]) == {}

    async def test_it_can_be_dropped(self, state_store: StateStore) -> None:
        await state_store.count_uses(ALICE, {"m1": 1, "m2": 1}, at=START)
        await state_store.count_uses(BOB, {"m1": 1}, at=START)
        await state_store.drop_usage(ALICE, ["m1", "unknown"])
        assert (await state_store.usage(ALICE, ["m1", "m2"])).keys() == {"m2"}
        assert (await state_store.usage(BOB, ["m1"])).keys() == {"m1"}


class TestReceipts:
    async def test_the_newest_come_first_and_the_oldest_go(self, state_store: StateStore) -> None:
        await add_receipts(state_store, ALICE, [b'{"n":1}', b'{"n":0}'], ttl=HOUR)
        assert await receipt_lines(state_store, WORK) == [b'{"n":1}', b'{"n":0}']
        for n in range(2, MAX_RECEIPTS + 5):
            await add_receipts(state_store, WORK, [b'{"n":%d}' % n], ttl=HOUR)
        found = await receipt_lines(state_store, ALICE)
        assert found == [b'{"n":%d}' % n for n in range(MAX_RECEIPTS + 4, 4, -1)]

    async def test_they_are_their_owners_and_end(self, state_store: StateStore, clock: SteppedClock) -> None:
        await add_receipts(state_store, ALICE, [b"{}"], ttl=timedelta(seconds=10))
        assert list(await receipt_lines(state_store, BOB)) == []
        clock.step(10)
        assert list(await receipt_lines(state_store, ALICE)) == []

    @pytest.mark.parametrize(("scope", "reach"), [(ALICE, Reach.ALL), (WORK, Reach.EXACT), (ALICE, Reach.EXACT)])
    async def test_they_are_forgotten(self, state_store: StateStore, scope: Scope, reach: Reach) -> None:
        for owner in (ALICE, BOB):
            await add_receipts(state_store, owner, [b"{}"], ttl=HOUR)
        await state_store.forget(scope, reach)
        assert list(await receipt_lines(state_store, ALICE)) == []
        assert list(await receipt_lines(state_store, BOB)) == [b"{}"]


class TestForget:
    async def test_everything_of_a_user(self, state_store: StateStore) -> None:
        for scope in (ALICE, WORK, BOB):
            await state_store.put(scope, "a", b"1", ttl=HOUR)
            await state_store.count_uses(scope, {"m": 1}, at=START)
        await state_store.forget(WORK, Reach.ALL)
        for scope in (ALICE, WORK):
            assert await state_store.get(scope, ["a"]) == {}
            assert await state_store.usage(scope, ["m"]) == {}
        assert await state_store.get(BOB, ["a"]) == {"a": b"1"}
        assert (await state_store.usage(BOB, ["m"])).keys() == {"m"}

    @pytest.mark.parametrize(("forgotten", "kept"), [(WORK, ALICE), (ALICE, WORK)])
    async def test_one_project(self, state_store: StateStore, forgotten: Scope, kept: Scope) -> None:
        for scope in (ALICE, WORK):
            await state_store.put(scope, "a", b"1", ttl=HOUR)
        await state_store.count_uses(ALICE, {"m": 1}, at=START)
        await state_store.forget(forgotten, Reach.EXACT)
        assert await state_store.get(forgotten, ["a"]) == {}
        assert await state_store.get(kept, ["a"]) == {"a": b"1"}
        assert (await state_store.usage(ALICE, ["m"])).keys() == {"m"}


async def test_maintenance_leaves_what_is_alive(state_store: StateStore, tmp_path: Path) -> None:
    await state_store.put(ALICE, "a", b"1", ttl=HOUR)
    await state_store.sweep()
    await state_store.compact()
    directory = tmp_path / "backup"
    directory.mkdir()
    await state_store.backup(directory)
    assert await state_store.get(ALICE, ["a"]) == {"a": b"1"}
