"""Lifecycle scenarios: how a line is read, and when a scenario is right."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from semrouter_memory.evaluation.cases import case_of
from semrouter_memory.evaluation.lifecycle import Scenario, ScenarioOutcome, result_of

LINE: dict[str, Any] = {
    "id": "lc-1",
    "kind": "update",
    "candidates": [
        {"type": "semantic", "content": "User's budget is $10,000", "at": "2026-03-15T10:00:00Z"},
        {"type": "semantic", "content": "User's budget is $15,000", "at": None},
        {"type": "semantic", "content": "User likes tea"},
        {"type": "semantic", "content": "User likes rice", "at": "2026-03-01T10:00:00+02:00"},
    ],
    "active": ["$15,000"],
    "superseded": ["$10,000"],
    "max_active": 1,
}


def test_what_has_no_time_was_said_right_after_what_was_said_last() -> None:
    times = [candidate.observed_at for candidate in case_of(Scenario, LINE).timed()]
    first = datetime(2026, 3, 15, 10, tzinfo=UTC)
    assert times == [
        first,
        first + timedelta(seconds=1),
        first + timedelta(seconds=2),
        datetime(2026, 3, 1, 8, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"candidates": []},
        {"candidates": [{"type": "fancy", "content": "x"}]},
        {"candidates": [{"type": "semantic", "content": "x", "at": "soon"}]},
        {"candidates": [{"type": "semantic", "content": "x", "at": 1}]},
        {"active": "x"},
        {"max_active": True},
        {"max_active": -1},
    ],
)
def test_a_line_that_is_no_scenario_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        case_of(Scenario, LINE | change)


@pytest.mark.parametrize(
    ("active", "history", "right", "wrong"),
    [
        (["budget $15,000"], ["budget $10,000"], True, False),
        (["budget $15,000", "tea"], ["budget $10,000"], False, False),  # one too many
        (["budget $15,000"], [], False, False),  # history is lost
        (["budget $15,000 $10,000"], ["budget $10,000", "$10,000 too"], False, False),  # in history twice
        ([], ["budget $10,000", "budget $15,000"], False, True),
    ],
)
def test_a_scenario_is_right_when_all_of_it_holds(
    active: list[str], history: list[str], right: bool, wrong: bool
) -> None:
    outcome = ScenarioOutcome(case_of(Scenario, LINE), active, history)
    assert (outcome.right, outcome.wrong_supersede) == (right, wrong)


def test_the_result_counts_by_kind_and_names_what_failed() -> None:
    good = ScenarioOutcome(case_of(Scenario, LINE), ["$15,000"], ["$10,000"])
    bad = ScenarioOutcome(case_of(Scenario, LINE | {"id": "lc-2", "kind": "new kind"}), [], [])
    assert result_of("set.jsonl", [good, bad]) == {
        "file": "set.jsonl",
        "scenarios": 2,
        "right": 1,
        "wrong_supersede": 1,
        "kinds": {"update": {"scenarios": 1, "right": 1}, "new kind": {"scenarios": 1, "right": 0}},
        "failed": ["lc-2"],
    }
