"""How a memory, its history and what leads to them go. `house` is in conftest.py."""

from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.errors import LockLostError, NotFoundError
from semrouter_memory.manage.edits import NewMemory
from semrouter_memory.manage.forgetting import DeletionUnfinishedError
from semrouter_memory.model import Memory, Reach, Scope

ALICE = Scope("alice")

House = Any
"""The fixture's class lives in conftest.py, which cannot be imported."""


def put_chain(house: House, *ids: str, **changes: Any) -> list[Memory]:
    """Memories each of which the next one superseded."""
    rows = []
    for number, (memory_id, successor) in enumerate(zip(ids, (*ids[1:], ""), strict=True)):
        said = house.put(memory_id).observed_at + timedelta(minutes=number)
        superseded = {"superseded_at": said + timedelta(minutes=1), "superseded_by": successor} if successor else {}
        rows.append(
            house.put(
                memory_id,
                content=f"User lives in {memory_id}",
                observed_at=said,
                metadata={"turn_ids": [f"turn of {memory_id}"]},
                **{**superseded, **changes},
            )
        )
    return rows


async def test_the_history_of_a_memory_goes_with_it(house: House) -> None:
    """Each replaced one with a tombstone, its turns and its use of its own; what replaced the named one stays."""
    put_chain(house, "m1", "m2", "m3", "m4")
    house.put("unrelated")
    await house.service.forget(ALICE, "m3")
    assert set(house.store.rows) == {"m4", "unrelated"}
    assert [stone.memory_id for stone in house.log.buried] == ["m3", "m2", "m1"]
    assert house.log.deleted_turns == ["turn of m3", "turn of m2", "turn of m1"]
    assert house.state.unused == ["m3", "m2", "m1"]
    assert house.state.forgotten == [(ALICE, Reach.EXACT)]
    assert house.changed == [ALICE]


async def test_all_that_a_summary_replaced_goes_with_it(house: House) -> None:
    for number in range(3):
        house.put(f"m{number}", superseded_by="summary", superseded_at=house.put("summary").observed_at)
    await house.service.forget(ALICE, "summary")
    assert house.store.rows == {}


async def test_memories_that_replace_each_other_in_a_circle_can_be_forgotten(house: House) -> None:
    said = house.put("m1").observed_at
    house.put("m1", superseded_by="m2", superseded_at=said)
    house.put("m2", superseded_by="m1", superseded_at=said)
    assert len(await house.service.history(ALICE, "m1")) == 2
    await house.service.forget(ALICE, "m1")
    assert house.store.rows == {}


@pytest.mark.parametrize("failing", ["predecessors", "drop_usage", "delete", "lock"])
async def test_a_deletion_that_breaks_off_is_finished_by_repeating_it(house: House, failing: str) -> None:
    """Wherever it broke off: the memory itself is hidden, and asking again reaches all that is left."""
    put_chain(house, "m1", "m2", "m3")
    house.store.refuse = {failing}
    house.state.away = failing == "drop_usage"
    house.locks.lost_after = 0 if failing == "lock" else None
    with pytest.raises(DeletionUnfinishedError):
        await house.service.forget(ALICE, "m3")
    house.store.refuse, house.state.away, house.locks.lost_after = set(), False, None
    with pytest.raises(NotFoundError):
        await house.service.get(ALICE, "m3")
    assert "m3" in house.store.rows
    await house.service.forget(ALICE, "m3")
    assert house.store.rows == {}
    assert set(house.state.unused) == {"m1", "m2", "m3"}
    assert set(house.log.deleted_turns) == {"turn of m1", "turn of m2", "turn of m3"}


async def test_what_was_replaced_is_deleted_before_what_replaced_it(house: House) -> None:
    """Else a deletion that broke off could not be found again from the id that was named."""
    put_chain(house, "m1", "m2", "m3")
    deleted: list[str] = []
    delete = house.store.delete

    async def noting(scope: Scope, memory_ids: list[str]) -> int:
        deleted.extend(memory_ids)
        return int(await delete(scope, memory_ids))

    house.store.delete = noting
    await house.service.forget(ALICE, "m3")
    assert deleted == ["m1", "m2", "m3"]


async def test_forgetting_a_user_clears_what_is_kept_of_their_sessions(house: House) -> None:
    house.put("m1")
    await house.service.forget_all(ALICE, Reach.ALL)
    assert house.state.forgotten == [(ALICE, Reach.ALL)]
    assert house.calls.index("bury") < house.calls.index("forget_state") < house.calls.index("delete_all")


async def test_forgetting_a_project_clears_the_use_of_its_memories(house: House) -> None:
    """Use is kept by owner, so it is the memories that say which of it is the project's."""
    house.put("m1")
    house.put("m2", superseded_by="m1")
    project = Scope("alice", "trip")
    await house.service.forget_all(project, Reach.EXACT)
    assert house.state.unused == ["m1", "m2"]
    assert house.state.forgotten == [(project, Reach.EXACT)]


async def test_without_the_state_nothing_of_a_user_is_shown_any_more(house: House) -> None:
    house.put("m1")
    house.state.away = True
    with pytest.raises(DeletionUnfinishedError):
        await house.service.forget_all(ALICE, Reach.ALL)
    assert (await house.service.page(ALICE, limit=10)).memories == ()
    assert house.changed == [ALICE]


async def test_nothing_is_written_under_a_lock_that_was_lost(house: House) -> None:
    house.locks.lost_after = 0
    with pytest.raises(LockLostError):
        await house.service.store(ALICE, NewMemory(content="User likes tea"))
    assert house.store.rows == {}
    assert house.changed == []


async def test_a_deleted_memory_is_in_nobodys_history(house: House) -> None:
    """Even while its row is still there; the rest of the chain is shown from every id, oldest first."""
    put_chain(house, "m1", "m2", "m3", "m4")
    whole = ["m1", "m2", "m3", "m4"]
    for memory_id in whole:
        assert [each.id for each in await house.service.history(ALICE, memory_id)] == whole
    house.store.refuse = {"delete"}
    with pytest.raises(DeletionUnfinishedError):
        await house.service.forget(ALICE, "m2")
    house.store.refuse = set()
    for memory_id in ("m3", "m4"):
        assert [each.id for each in await house.service.history(ALICE, memory_id)] == ["m3", "m4"]
    for memory_id in ("m1", "m2", "unknown"):
        with pytest.raises(NotFoundError):
            await house.service.history(ALICE, memory_id)
    with pytest.raises(NotFoundError):
        await house.service.history(Scope("bob"), "m4")
