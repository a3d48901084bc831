"""A user's view of the store. `house` is in conftest.py."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from semrouter_memory.errors import InvalidRequestError, NotFoundError, Service, StoreUnavailableError, UnavailableError
from semrouter_memory.language.names import Entity
from semrouter_memory.manage import service
from semrouter_memory.manage.schemas import StoreRequest, UpdateRequest
from semrouter_memory.model import Criteria, Hit, Memory, MemoryType, Reach, Scope
from semrouter_memory.recall.selection import outdated_episodes
from tests.raising import raising

ALICE, BOB = Scope("alice"), Scope("bob")
START = datetime(2026, 3, 1, tzinfo=UTC)

House = Any
"""The fixture's class lives in conftest.py, which cannot be imported."""


async def test_a_stored_memory_is_said_now_in_the_scopes_project(house: House) -> None:
    new = StoreRequest(content=" User likes tea ", type=MemoryType.PROCEDURAL, importance=0.9, metadata={"a": 1})
    memory = await house.service.store(Scope("alice", "trip"), new)
    assert house.store.rows[memory.id] == memory
    assert (memory.content, memory.scope.project_id, memory.source) == ("User likes tea", "trip", "api")
    assert (memory.importance, memory.metadata, memory.type) == (0.9, {"a": 1}, MemoryType.PROCEDURAL)
    assert memory.observed_at == memory.created_at == memory.updated_at
    assert house.calls == ["lock", "search", "tombstones", "upsert", "unlock"]


async def test_names_are_read_for_one_caller_after_the_other(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once they take the threads and the processor that everybody's requests need."""
    house.put("m1")
    running = most = 0

    def slow(_texts: object) -> list[Entity]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.02)
        running -= 1
        return []

    monkeypatch.setattr(service, "entities", slow)
    assert await asyncio.gather(*(house.service.entities(scope) for scope in (ALICE, BOB) * 4)) == [[]] * 8
    assert most == 1


async def test_what_may_not_be_stored_is_not_stored(house: House) -> None:
    """A caller's metadata may have any name, also one that the service uses for something else."""
    secret = "my password is hunter2"
    metadata: tuple[dict[str, Any], ...] = (
        {"turn_ids": []},
        {"a": secret},
        {"session": secret},
        {"category": secret},
        {"within_session": secret},
    )
    named = (StoreRequest(content="x", category=secret), StoreRequest(content="x", within_session=secret))
    for new in (StoreRequest(content=secret), *named, *(StoreRequest(content="x", metadata=each) for each in metadata)):
        with pytest.raises(InvalidRequestError):
            await house.service.store(ALICE, new)
    assert house.calls == []


async def test_an_update_keeps_what_is_not_named_and_counts_as_said_again(house: House) -> None:
    old = house.put("m1", importance=0.7, metadata={"turn_ids": ["t1"], "kept": {"a": 1}, "dropped": 2})
    changes = {"dropped": None, "added": 3, "kept": {"b": 2}}
    edit = UpdateRequest(content="User likes tea", project_id="trip", metadata=changes)
    new = await house.service.update(ALICE, "m1", edit)
    assert house.store.rows["m1"] == new
    assert (new.id, new.created_at, new.importance, new.type) == (old.id, old.created_at, 0.7, old.type)
    assert (new.content, new.scope) == ("User likes tea", Scope("alice", "trip"))
    assert new.metadata == {"replaces": ["t1"], "kept": {"a": 1, "b": 2}, "added": 3}
    assert new.observed_at == new.updated_at > old.updated_at


async def test_an_episode_of_what_a_memory_said_before_an_update_is_outdated(house: House) -> None:
    """As after a newer statement; the turns still go when the memory does."""
    house.put("m1", metadata={"turn_ids": ["t1", "t2"], "replaces": ["t0"]})
    episode = house.put("e1", type=MemoryType.EPISODIC, metadata={"turn_ids": ["t2", "t3"]})

    def is_outdated(fact: Memory) -> bool:
        found = [Hit(episode, 0.9, 0.9), Hit(fact, 0.9, 0.9)]
        return bool(outdated_episodes(found, found))

    same = UpdateRequest(content="User is allergic to peanuts", importance=0.9)
    assert not is_outdated(await house.service.update(ALICE, "m1", same))
    changed = await house.service.update(ALICE, "m1", UpdateRequest(content="User is allergic to walnuts"))
    assert is_outdated(changed)
    assert changed.metadata == {"replaces": ["t0", "t1", "t2"]}
    await house.service.forget(ALICE, "m1")
    assert house.log.deleted_turns == ["t0", "t1", "t2"]


async def test_a_memory_lives_as_long_as_its_type_unless_its_end_is_given(house: House) -> None:
    given = START + timedelta(days=900)
    episode = StoreRequest(content="User was in Rome", type=MemoryType.EPISODIC)
    stored = await house.service.store(ALICE, episode)
    assert stored.expires_at == stored.observed_at + timedelta(days=30)
    for end in (given, None):
        assert (await house.service.store(ALICE, episode.model_copy(update={"expires_at": end}))).expires_at == end
    assert (await house.service.store(ALICE, StoreRequest(content="User likes tea"))).expires_at is None


async def test_metadata_may_not_grow_beyond_its_bound_by_updates(house: House) -> None:
    house.put("m1", metadata={"a": "x" * 200})
    with pytest.raises(InvalidRequestError, match="larger"):
        await house.service.update(ALICE, "m1", UpdateRequest(metadata={"b": "x" * 200}))


@pytest.mark.parametrize("memory_id", ["m1", "unknown", "", "x" * 129, "a\nb"])
async def test_anothers_memory_is_an_unknown_one(house: House, memory_id: str) -> None:
    house.put("m1")
    for attempt in (
        house.service.get(BOB, memory_id),
        house.service.update(BOB, memory_id, UpdateRequest(importance=1)),
        house.service.forget(BOB, memory_id),
    ):
        with pytest.raises(NotFoundError):
            await attempt
    assert "m1" in house.store.rows
    assert house.log.buried == []


async def test_the_tombstone_is_committed_before_the_row_is_deleted(house: House) -> None:
    """And with it go the turns that the memory came from; the tombstone holds a hash, not the statement."""
    memory = house.put("m1", scope=Scope("alice", "trip"), metadata={"turn_ids": ["t1", "t2"]})
    await house.service.forget(ALICE, "m1")
    assert house.calls == [
        "lock",
        "get",
        "bury",
        "predecessors",
        "tombstones",
        "page",
        "forget_state",
        "bury",
        "erase_answers",
        "drop_usage",
        "forget_state",
        "delete",
        "unlock",
    ]
    stone, with_turns = house.log.buried
    assert replace(with_turns, at=stone.at) == stone
    assert (stone.memory_id, stone.content_hash, stone.scope) == ("m1", "hash of 27", memory.scope)
    assert house.log.deleted_turns == ["t1", "t2"]


async def test_a_memory_without_known_source_turns_can_be_forgotten(house: House) -> None:
    house.put("m1", metadata={"turn_ids": "not a list"})
    await house.service.forget(ALICE, "m1")
    assert house.log.deleted_turns == []


async def test_no_read_shows_a_deleted_row_that_the_store_still_shows(house: House) -> None:
    memory = house.put("m1")
    await house.service.forget(ALICE, "m1")
    house.store.stale["m1"] = memory
    with pytest.raises(NotFoundError):
        await house.service.get(ALICE, "m1")
    assert (await house.service.page(Criteria(ALICE), limit=10)).memories == ()
    assert (await house.service.search(Criteria(ALICE), "peanuts", limit=10))[0] == []
    assert [memory async for memories in house.service.export(ALICE) for memory in memories] == []
    with pytest.raises(NotFoundError):
        await house.service.update(ALICE, "m1", UpdateRequest(importance=1))


async def test_tombstones_are_read_after_the_store(house: House) -> None:
    """A deletion that is committed while the store is being read must count."""
    house.put("m1")
    for read in (
        house.service.get(ALICE, "m1"),
        house.service.page(Criteria(ALICE), limit=1),
        house.service.search(Criteria(ALICE), "peanuts", limit=1),
    ):
        house.calls.clear()
        await read
        assert house.calls[1] == "tombstones"


@pytest.mark.parametrize("away", ["get", "predecessors", "delete"])
async def test_a_deletion_without_the_store_tells_the_truth_and_hides_the_memory(house: House, away: str) -> None:
    house.put("m1")
    house.store.refuse = {away}
    with raising(UnavailableError, service=Service.DELETION):
        await house.service.forget(ALICE, "m1")
    house.store.refuse = set()
    with pytest.raises(NotFoundError):
        await house.service.get(ALICE, "m1")
    await house.service.forget(ALICE, "m1")
    assert house.store.rows == {}


async def test_forgetting_everything_reaches_its_owner_only(house: House) -> None:
    house.put("m1")
    house.put("m2", metadata={"turn_ids": ["t1"]})
    house.put("b1", user="bob")
    assert await house.service.forget_all(ALICE, Reach.ALL) == 2
    assert list(house.store.rows) == ["b1"]
    assert house.calls[:4] == ["lock", "bury", "forget_state", "delete_all"]


async def test_forgetting_everything_without_the_store_hides_everything(house: House) -> None:
    house.put("m1")
    house.store.refuse = {"delete_all"}
    with raising(UnavailableError, service=Service.DELETION):
        await house.service.forget_all(ALICE, Reach.ALL)
    assert (await house.service.page(Criteria(ALICE), limit=10)).memories == ()


async def test_a_search_can_be_cut_at_a_relevance(house: House) -> None:
    house.put("m1")
    (hit,), _ = await house.service.search(Criteria(ALICE), "peanuts", limit=5)
    assert hit.similarity == pytest.approx(0.9)
    assert 0 < hit.relevance < 1
    assert hit.relevance != hit.similarity
    assert len((await house.service.search(Criteria(ALICE), "peanuts", limit=5, threshold=hit.relevance))[0]) == 1
    assert (await house.service.search(Criteria(ALICE), "peanuts", limit=5, threshold=hit.relevance + 0.001))[0] == []


@pytest.mark.parametrize("query", ["", "  ", "x" * 101])
async def test_a_query_must_say_something_and_not_too_much(house: House, query: str) -> None:
    with pytest.raises(InvalidRequestError):
        await house.service.search(Criteria(ALICE), query, limit=5)


async def test_an_export_goes_through_all_pages(house: House) -> None:
    for number in range(2_250):
        house.put(f"m{number}")
    exported = [memory.id async for memories in house.service.export(ALICE) for memory in memories]
    assert exported == [f"m{number}" for number in range(2_250)]
    assert house.calls.count("page") == 3


async def test_reads_say_when_the_store_is_away(house: House) -> None:
    house.store.refuse = {"get", "page", "search", "upsert"}
    for attempt in (
        house.service.get(ALICE, "m1"),
        house.service.page(Criteria(ALICE), limit=1),
        house.service.search(Criteria(ALICE), "peanuts", limit=1),
        house.service.store(ALICE, StoreRequest(content="User likes tea")),
    ):
        with pytest.raises(StoreUnavailableError):
            await attempt


async def test_an_edited_quote_is_a_statement(house: House) -> None:
    """It is not in the user's words any more, and what was derived from these does not hold."""
    fact = {"attribute": "city", "value": "Oslo", "text": "User lives in Oslo"}
    house.put("q1", metadata={"form": "quote", "context": "the move", "statements": [fact], "outdated_by": ["x"]})
    edited = await house.service.update(ALICE, "q1", UpdateRequest(content="User lives in Turin"))
    assert (edited.form, edited.context, edited.facts, edited.outdated_by) == ("statement", "", (), ())
