"""The score: bounded, and monotone in everything that speaks for or against a memory."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.maintenance.eviction import last_needed, score
from semrouter_memory.model import Usage
from tests.unit.maintenance.parts import NOW, aged

HALF_LIFE = 90.0
arguments = st.fixed_dictionaries(
    {
        "importance": st.floats(0, 1),
        "access_count": st.integers(0, 10**9),
        "age_days": st.floats(0, 700_000),
        "confirmations": st.integers(0, 10**6),
        "flagged": st.booleans(),
        "half_life_days": st.floats(0.01, 10_000),
    }
)
SLACK = 1e-12


def scored(values: dict[str, Any]) -> float:
    days = values["age_days"]
    memory = aged(
        days=days,
        importance=values["importance"],
        metadata={"confirmations": values["confirmations"], "flagged": values["flagged"]},
    )
    usage = Usage(values["access_count"], NOW - timedelta(days=days))
    return score(memory, usage, now=NOW, half_life_days=values["half_life_days"])


@given(arguments)
def test_a_score_is_between_nought_and_one(values: dict[str, Any]) -> None:
    assert 0 <= scored(values) <= 1


@given(arguments, st.floats(0, 1), st.integers(0, 1_000), st.floats(0, 1_000), st.integers(0, 1_000))
def test_a_score_never_falls_for_what_speaks_for_a_memory(
    values: dict[str, Any], importance: float, uses: int, younger: float, confirmed: int
) -> None:
    base = scored(values)
    for better in (
        {"importance": max(importance, values["importance"])},
        {"access_count": values["access_count"] + uses},
        {"age_days": max(values["age_days"] - younger, 0)},
        {"confirmations": values["confirmations"] + confirmed},
        {"flagged": False},
    ):
        assert scored({**values, **better}) >= base - SLACK


@pytest.mark.parametrize(
    ("days", "below"),
    [(0, False), (180, False), (208, False), (210, True)],
)
def test_what_was_said_once_and_never_used_is_low_after_seven_months(days: float, below: bool) -> None:
    assert (score(aged(days=days), None, now=NOW, half_life_days=HALF_LIFE) < 0.1) is below


def test_use_makes_a_memory_fade_more_slowly_even_when_it_was_long_ago() -> None:
    used = Usage(7, NOW - timedelta(days=300))
    old = aged(days=300)
    with_use, without = (score(old, usage, now=NOW, half_life_days=HALF_LIFE) for usage in (used, None))
    assert with_use > 4 * without


def test_a_memory_is_as_old_as_the_last_time_that_it_was_said_changed_or_used() -> None:
    memory = aged(days=100)
    assert last_needed(memory, None) == NOW - timedelta(days=100)
    assert last_needed(memory, Usage(1, NOW - timedelta(days=3))) == NOW - timedelta(days=3)
    assert last_needed(aged(days=100, updated_at=NOW), None) == NOW


def test_metadata_of_a_caller_that_uses_our_names_otherwise_does_no_harm() -> None:
    odd = aged(days=1, metadata={"confirmations": "often", "flagged": ""})
    assert score(odd, None, now=NOW, half_life_days=HALF_LIFE) == pytest.approx(
        score(aged(days=1), None, now=NOW, half_life_days=HALF_LIFE)
    )


def test_a_flagged_memory_scores_half() -> None:
    plain = score(aged(days=10), None, now=NOW, half_life_days=HALF_LIFE)
    flagged = score(aged(days=10, metadata={"flagged": True}), None, now=NOW, half_life_days=HALF_LIFE)
    assert flagged == pytest.approx(plain / 2)
