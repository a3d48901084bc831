"""A memory keeps the turns in which it was said otherwise, and the category that it had then."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from semrouter_memory.model import CATEGORY, Candidate, Memory, MemoryType, Scope
from semrouter_memory.retain.reconciling.rows import RowFactory, replacing

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
ROWS = RowFactory(ttl_days={})


def said_in(*turn_ids: str) -> Memory:
    candidate = Candidate(
        type=MemoryType.SEMANTIC,
        content="User's budget is $10",
        observed_at=NOW,
        extractor="quotes",
        turn_ids=turn_ids,
    )
    return ROWS.new(Scope("alice"), candidate, now=NOW)


def test_what_its_predecessors_replaced_counts_as_well() -> None:
    second = replacing(said_in("turn_2"), [said_in("turn_1", "turn_1b")])
    third = replacing(said_in("turn_3"), [second])

    assert second.metadata["replaces"] == ["turn_1", "turn_1b"]
    assert third.metadata["replaces"] == ["turn_1", "turn_1b", "turn_2"]


def test_what_replaces_nothing_says_nothing_of_it() -> None:
    assert "replaces" not in replacing(said_in("turn_2"), []).metadata


def test_of_a_long_history_the_newest_turns_are_kept() -> None:
    old = [said_in(f"turn_{number}") for number in range(90)]

    assert replacing(said_in("turn_90"), old).metadata["replaces"] == [f"turn_{n}" for n in range(40, 90)]


def test_the_newest_category_of_what_is_replaced_counts_where_the_new_memory_has_none() -> None:
    old = [
        replace(
            said_in(f"turn_{day}"),
            observed_at=NOW + timedelta(days=day),
            metadata={CATEGORY: category} if category else {},
        )
        for day, category in ((2, "second"), (1, "first"), (3, ""))
    ]
    sorted_already = replace(said_in("turn_4"), metadata={CATEGORY: "own"})

    assert replacing(said_in("turn_4"), old).metadata[CATEGORY] == "second"
    assert replacing(sorted_already, old).metadata[CATEGORY] == "own"
    assert CATEGORY not in replacing(said_in("turn_4"), old[2:]).metadata
