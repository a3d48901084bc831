"""A memory keeps the turns in which it was said otherwise."""

from datetime import UTC, datetime

from semrouter_memory.model import Candidate, Memory, MemoryType, Scope
from semrouter_memory.retain.reconciling.rows import RowFactory

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
    second = ROWS.replacing(said_in("turn_2"), [said_in("turn_1", "turn_1b")])
    third = ROWS.replacing(said_in("turn_3"), [second])

    assert second.metadata["replaces"] == ["turn_1", "turn_1b"]
    assert third.metadata["replaces"] == ["turn_1", "turn_1b", "turn_2"]


def test_what_replaces_nothing_says_nothing_of_it() -> None:
    assert "replaces" not in ROWS.replacing(said_in("turn_2"), []).metadata


def test_of_a_long_history_the_newest_turns_are_kept() -> None:
    old = [said_in(f"turn_{number}") for number in range(90)]

    assert ROWS.replacing(said_in("turn_90"), old).metadata["replaces"] == [f"turn_{n}" for n in range(40, 90)]
