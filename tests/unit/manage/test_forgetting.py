"""How a memory, its history and what leads to them go. `house` is in conftest.py."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.errors import LockLostError, NotFoundError, Service, UnavailableError
from semrouter_memory.manage.schemas import StoreRequest, UpdateRequest
from semrouter_memory.model import Criteria, Memory, Reach, Scope
from tests.raising import raising

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
    assert [stone.memory_id for stone in house.log.buried] == ["m3", "m2", "m1", "m3"]
    assert house.log.deleted_turns == ["turn of m3", "turn of m2", "turn of m1"]
    assert house.state.unused == ["m3", "m2", "m1"]
    assert set(house.state.forgotten) == {(ALICE, Reach.EXACT)}
    assert house.changed == [ALICE]


async def test_answers_given_since_the_oldest_was_learned_are_erased(house: House) -> None:
    """After the tombstone: a turn that is finished in between erases its own."""
    oldest = put_chain(house, "m1", "m2")[0]
    await house.service.forget(ALICE, "m2")
    assert house.log.erased == [(ALICE, min(oldest.observed_at, oldest.created_at))]
    assert house.calls.index("bury") < house.calls.index("erase_answers")


async def test_a_quote_goes_with_the_quotes_of_what_its_statement_replaced(house: House) -> None:
    """As it does when the statement is named: the older quote has the words of the older statement."""
    put_chain(house, "s1", "s2")
    for number in (1, 2):
        house.put(f"q{number}", metadata={"form": "quote"})
        house.store.rows[f"s{number}"] = replace(house.store.rows[f"s{number}"], metadata={"quote": f"q{number}"})
    house.put("unrelated", metadata={"form": "quote"})
    await house.service.forget(ALICE, "q2")
    assert set(house.store.rows) == {"unrelated"}


async def test_all_that_a_summary_replaced_goes_with_it(house: House) -> None:
    for number in range(3):
        house.put(f"m{number}", superseded_by="summary", superseded_at=house.put("summary").observed_at)
    await house.service.forget(ALICE, "summary")
    assert house.store.rows == {}


def put_summary(house: House, summary: str, *ids: str, **changes: Any) -> None:
    """A memory that consolidation made of these; each was said in a turn of its own."""
    said = house.put("x").observed_at
    house.store.rows.pop("x")
    for memory_id in ids:
        known = house.store.rows.get(memory_id) or house.put(memory_id)
        metadata = {"turn_ids": [f"turn of {memory_id}"], **known.metadata}
        house.put(
            memory_id,
            content=f"User likes {memory_id}",
            superseded_by=summary,
            superseded_at=said,
            metadata=metadata,
        )
    turns = [turn for memory_id in ids for turn in house.store.rows[memory_id].metadata["turn_ids"]]
    house.put(
        summary,
        content="User likes " + " and ".join(ids),
        metadata={"turn_ids": [*turns, f"turn of {summary}"], "consolidated_from": list(ids)},
        **changes,
    )


async def test_a_summary_goes_with_any_memory_that_it_was_made_of_and_the_others_hold_again(house: House) -> None:
    """Its turns go too, but for those that the others were learned from."""
    put_summary(house, "s", "m1", "m2", "m3")
    await house.service.forget(ALICE, "m2")
    assert set(house.store.rows) == {"m1", "m3"}
    for memory in house.store.rows.values():
        assert (memory.superseded_at, memory.superseded_by) == (None, "")
    assert {stone.memory_id for stone in house.log.buried} == {"m2", "s"}
    assert house.log.deleted_turns == ["turn of m2", "turn of s"]
    assert set(house.state.unused) == {"m2", "s"}


async def test_a_summary_of_a_summary_goes_as_well(house: House) -> None:
    put_summary(house, "s1", "m1", "m2")
    put_summary(house, "s2", "s1", "m3")
    await house.service.forget(ALICE, "m1")
    assert set(house.store.rows) == {"m2", "m3"}
    assert {memory.superseded_by for memory in house.store.rows.values()} == {""}


async def test_what_replaced_a_summary_stays_and_is_what_replaced_the_others(house: House) -> None:
    now = house.put("newer", content="User likes nothing").observed_at
    put_summary(house, "s", "m1", "m2", superseded_at=now, superseded_by="newer")
    await house.service.forget(ALICE, "m1")
    assert set(house.store.rows) == {"m2", "newer"}
    assert (house.store.rows["m2"].superseded_by, house.store.rows["m2"].superseded_at) == ("newer", now)


async def test_what_merely_replaced_a_memory_is_no_summary_of_it(house: House) -> None:
    put_chain(house, "m1", "m2")
    put_summary(house, "s", "m2", "m3")
    await house.service.forget(ALICE, "m1")
    assert set(house.store.rows) == {"m2", "m3", "s"}


@pytest.mark.parametrize("failing", ["upsert", "drop_usage", "delete", "lock"])
async def test_a_broken_off_deletion_hides_the_summary_or_is_finished_by_repeating_it(
    house: House, failing: str
) -> None:
    put_summary(house, "s", "m1", "m2")
    house.store.refuse = {failing}
    house.state.away = failing == "drop_usage"
    house.locks.lost_after = 1 if failing == "lock" else None
    with raising(UnavailableError, service=Service.DELETION):
        await house.service.forget(ALICE, "m1")
    house.store.refuse, house.state.away, house.locks.lost_after = set(), False, None
    for hidden in ("m1", "s"):
        with pytest.raises(NotFoundError):
            await house.service.get(ALICE, hidden)
    await house.service.forget(ALICE, "m1")
    assert set(house.store.rows) == {"m2"}
    assert house.store.rows["m2"].superseded_at is None
    assert "turn of m2" not in house.log.deleted_turns


async def test_what_another_memory_says_as_the_summary_did_may_be_said_again(house: House) -> None:
    put_summary(house, "s", "m1", "m2")
    house.store.rows["s"] = replace(house.store.rows["s"], content=house.store.rows["m2"].content)
    await house.service.forget(ALICE, "m1")
    hashes = {stone.memory_id: stone.content_hash for stone in house.log.buried}
    assert (hashes["s"], bool(hashes["m1"])) == ("", True)


async def test_a_summary_that_was_reworded_by_hand_stays(house: House) -> None:
    """It is a statement of its own; what it says of its originals, nobody knows."""
    put_summary(house, "s", "m1", "m2")
    await house.service.update(ALICE, "s", UpdateRequest(content="User likes everything"))
    await house.service.forget(ALICE, "m1")
    assert set(house.store.rows) == {"m2", "s"}


async def test_memories_that_replace_each_other_in_a_circle_can_be_forgotten(house: House) -> None:
    said = house.put("m1").observed_at
    house.put("m1", superseded_by="m2", superseded_at=said)
    house.put("m2", superseded_by="m1", superseded_at=said)
    assert len(await house.service.history(ALICE, "m1")) == 2
    await house.service.forget(ALICE, "m1")
    assert house.store.rows == {}


@pytest.mark.parametrize("failing", ["predecessors", "drop_usage", "erase_answers", "delete", "lock"])
async def test_a_deletion_that_breaks_off_is_finished_by_repeating_it(house: House, failing: str) -> None:
    """Wherever it broke off: the memory itself is hidden, and asking again reaches all that is left."""
    put_chain(house, "m1", "m2", "m3")
    house.store.refuse = {failing}
    house.log.away = failing == "erase_answers"
    house.state.away = failing == "drop_usage"
    house.locks.lost_after = 0 if failing == "lock" else None
    with raising(UnavailableError, service=Service.DELETION):
        await house.service.forget(ALICE, "m3")
    house.store.refuse, house.log.away, house.state.away, house.locks.lost_after = set(), False, False, None
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
    with raising(UnavailableError, service=Service.DELETION):
        await house.service.forget_all(ALICE, Reach.ALL)
    assert (await house.service.page(Criteria(ALICE), limit=10)).memories == ()
    assert house.changed == [ALICE]


async def test_nothing_is_written_under_a_lock_that_was_lost(house: House) -> None:
    house.locks.lost_after = 0
    with pytest.raises(LockLostError):
        await house.service.store(ALICE, StoreRequest(content="User likes tea"))
    assert house.store.rows == {}
    assert house.changed == []


async def test_a_change_whose_lock_is_lost_for_a_moment_is_made_again(house: House) -> None:
    """As while Redis is slow: no client has to repeat its request."""
    house.put("m1")
    house.locks.losses = 2
    stored = await house.service.store(ALICE, StoreRequest(content="User likes tea"))
    assert house.store.rows.keys() == {"m1", stored.id}
    house.locks.losses = 2
    updated = await house.service.update(ALICE, stored.id, UpdateRequest(importance=0.9))
    assert house.store.rows[stored.id].importance == updated.importance == 0.9
    house.locks.losses = 2
    await house.service.forget(ALICE, stored.id)
    assert house.store.rows.keys() == {"m1"}
    house.locks.losses = 2
    assert await house.service.forget_all(ALICE, Reach.ALL) == 1
    assert house.store.rows == {}
    assert house.locks.losses == 0


async def test_a_change_that_is_made_again_is_all_of_it_made_again(house: House) -> None:
    house.put("m1", content="User likes tea", metadata={"kept": 1, "gone": 2})
    house.locks.losses = 1
    changes = UpdateRequest(content="User likes coffee", metadata={"gone": None}, project_id="p")
    updated = await house.service.update(ALICE, "m1", changes)
    assert updated == house.store.rows["m1"]
    assert (updated.content, updated.metadata, updated.scope.project_id) == ("User likes coffee", {"kept": 1}, "p")


async def test_a_deleted_memory_is_in_nobodys_history(house: House) -> None:
    """Even while its row is still there; the rest of the chain is shown from every id, oldest first."""
    put_chain(house, "m1", "m2", "m3", "m4")
    whole = ["m1", "m2", "m3", "m4"]
    for memory_id in whole:
        assert [each.id for each in await house.service.history(ALICE, memory_id)] == whole
    house.store.refuse = {"delete"}
    with raising(UnavailableError, service=Service.DELETION):
        await house.service.forget(ALICE, "m2")
    house.store.refuse = set()
    for memory_id in ("m3", "m4"):
        assert [each.id for each in await house.service.history(ALICE, memory_id)] == ["m3", "m4"]
    for memory_id in ("m1", "m2", "unknown"):
        with pytest.raises(NotFoundError):
            await house.service.history(ALICE, memory_id)
    with pytest.raises(NotFoundError):
        await house.service.history(Scope("bob"), "m4")
