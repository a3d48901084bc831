"""Which memories leave: each reason alone, and what a quota takes first."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.config import AgeingConfig
from semrouter_memory.maintenance.eviction import is_expired, is_old_history, is_unused, orphans, over_quota, size_of
from semrouter_memory.model import Memory, MemoryType, Usage
from tests.unit.maintenance.parts import NOW, aged

DAY = timedelta(days=1)


def config(**settings: Any) -> AgeingConfig:
    return AgeingConfig.model_validate(settings)


def history(memory_id: str, by: str, *, days: float = 1) -> Memory:
    return aged(memory_id, days=days, superseded_at=NOW - days * DAY, superseded_by=by)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (aged(), False),
        (aged(expires_at=NOW), True),
        (aged(expires_at=NOW + timedelta(microseconds=1)), False),
        (aged(kind=MemoryType.EPISODIC, days=30), True),
        (aged(kind=MemoryType.EPISODIC, days=29), False),
        (aged(kind=MemoryType.EPISODIC, days=99, expires_at=NOW + DAY), False),
        (aged(days=999), False),
    ],
)
def test_a_memory_expires_at_its_own_time_or_else_at_that_of_its_type(memory: Memory, expected: bool) -> None:
    assert is_expired(memory, now=NOW, config=config(ttl_days={"episodic": 30})) is expected


def test_nothing_expires_and_no_history_ends_by_default() -> None:
    old = history("a", "b", days=9_999)
    assert not is_expired(old, now=NOW, config=config())
    assert not is_old_history(old, now=NOW, config=config())


def test_history_ends_so_long_after_it_was_known_to_be_history() -> None:
    old = history("a", "b", days=31)
    assert is_old_history(old, now=NOW, config=config(history_days=30))
    assert not is_old_history(history("a", "b", days=29), now=NOW, config=config(history_days=30))
    read_late = aged(days=31, superseded_at=NOW - 31 * DAY, superseded_by="b", updated_at=NOW)
    assert not is_old_history(read_late, now=NOW, config=config(history_days=30))
    assert not is_old_history(aged(days=99), now=NOW, config=config(history_days=30))


@pytest.mark.parametrize(
    ("memory", "usage", "expected"),
    [
        (aged(days=300), None, True),
        (aged(days=100), None, False),
        (aged(days=300, importance=0.8), None, False),
        (aged(days=300, importance=0.8, kind=MemoryType.PROCEDURAL), None, False),
        (aged(days=400, importance=0.8, kind=MemoryType.EPISODIC), None, True),
        (aged(days=300), Usage(1, NOW - 10 * DAY), False),
        (aged(days=300), Usage(1, NOW - 299 * DAY), False),
        (aged(days=900), Usage(1, NOW - 899 * DAY), True),
        (aged(days=300, metadata={"confirmations": 3}), None, False),
        (aged(days=300, updated_at=NOW - DAY), None, False),
        (aged(days=300, created_at=NOW - DAY), None, False),
        (history("a", "b", days=300), None, False),
    ],
)
def test_low_is_what_scores_low_and_was_neither_said_nor_used_for_long(
    memory: Memory, usage: Usage | None, expected: bool
) -> None:
    assert is_unused(memory, usage, now=NOW, config=config()) is expected


def test_what_is_pinned_stays_until_it_is_history() -> None:
    pinned: dict[str, Any] = {"metadata": {"pinned": True}}
    old = aged(days=999, kind=MemoryType.EPISODIC, expires_at=NOW, **pinned)
    everything = config(ttl_days={"episodic": 30}, max_memories=1)
    assert not is_expired(old, now=NOW, config=everything)
    assert not is_unused(old, None, now=NOW, config=everything)
    rest = [aged("a", days=1), replace(history("b", "a"), metadata=pinned["metadata"])]
    evicted = over_quota([old, *rest], {}, now=NOW, config=everything)
    assert [each.memory.id for each in evicted] == ["b", "a"]


def test_pins_are_no_way_around_the_quota() -> None:
    pinned = [
        replace(aged(name, days=days), metadata={"pinned": True}) for name, days in (("a", 9), ("b", 1), ("c", 5))
    ]
    evicted = over_quota([*pinned, aged("d", days=0)], {}, now=NOW, config=config(max_memories=1))
    assert [each.memory.id for each in evicted] == ["d", "a", "c"]


def test_history_of_what_is_gone_is_orphaned_step_by_step() -> None:
    chain = [
        history("a", "b"),
        history("b", "c"),
        history("c", "gone"),
        history("d", "here"),
        history("taken back", ""),
    ]
    found = orphans(chain, {"a", "b", "c", "d", "here", "taken back"})
    assert {memory.id for memory in found} == {"a", "b", "c"}


def test_a_quota_takes_history_and_what_expired_first_then_what_is_flagged_and_least_worth() -> None:
    memories = [
        aged("kept", days=1),
        aged("flagged", days=1, metadata={"flagged": True}),
        aged("used", days=100),
        aged("unused", days=100),
        aged("expired", days=5, expires_at=NOW, importance=1.0),
        history("newer history", "kept", days=1),
        history("older history", "kept", days=9),
    ]
    usage = {"used": Usage(5, NOW - DAY)}
    order = ["older history", "expired", "newer history", "unused", "flagged", "kept"]
    for count in range(1, 7):
        leaving = over_quota(memories, usage, now=NOW, config=config(max_memories=len(memories) - count))
        assert [each.memory.id for each in leaving] == order[:count]


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=20), st.integers(0, 10), st.integers(0, 300))
def test_what_stays_is_within_the_quota_and_nothing_leaves_needlessly(
    sizes: list[tuple[int, bool]], max_memories: int, max_bytes: int
) -> None:
    memories = [
        aged(f"m{index}", days=index, content="x" * size, superseded_at=NOW if is_history else None)
        for index, (size, is_history) in enumerate(sizes)
    ]
    settings = config(max_memories=max_memories, max_bytes=max_bytes)
    leaving = [each.memory for each in over_quota(memories, {}, now=NOW, config=settings)]
    stays = [memory for memory in memories if memory not in leaving]

    def fits(left: list[Memory]) -> bool:
        return (not max_memories or len(left) <= max_memories) and (
            not max_bytes or sum(map(size_of, left)) <= max_bytes
        )

    assert fits(stays)
    assert not leaving or not fits([*stays, leaving[-1]])


def test_size_is_counted_in_bytes() -> None:
    assert size_of(aged(content="住在柏林")) == 12
