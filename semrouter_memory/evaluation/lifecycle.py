"""Lifecycle scenarios: statements in the order in which they are learned, and what should be known in the end. Pure.

A line of a file:

    {"id": "lc-1", "kind": "update",
     "candidates": [{"type": "semantic", "content": "...", "at": "2026-03-15T10:00:00Z"}, ...],
     "active": ["$15,000"], "superseded": ["$10,000"], "max_active": 1}

Each text of `active` must occur in exactly one active memory, each of `superseded` in exactly one that is history, and
at most `max_active` memories may be active. A scenario is right when all of that holds. It has a fact wrongly superseded
when a text of `active` occurs in no active memory.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from semrouter_memory.evaluation.cases import Case, objects_of, text_of, texts_of
from semrouter_memory.model import Candidate, Json, MemoryType

_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_STEP = timedelta(seconds=1)
_EXTRACTOR = "evaluation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One line of a file.

    Attributes:
        candidates: in the order of the file; one without a time was said right after what was said last.
    """

    id: str
    kind: str
    candidates: tuple[Candidate, ...]
    active: tuple[str, ...]
    superseded: tuple[str, ...]
    max_active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """What a scenario ended in.

    Attributes:
        problems: what was expected and is not so, in words; none when the scenario is right.
        wrong_supersede: a fact that should be active is not.
        active: contents of the active memories.
        history: contents of the superseded ones.
    """

    scenario: Scenario
    problems: tuple[str, ...]
    wrong_supersede: bool
    active: tuple[str, ...]
    history: tuple[str, ...]

    @property
    def right(self) -> bool:
        return not self.problems


def scenario_of(case: Case) -> Scenario:
    """Read one line.

    Raises:
        KeyError: a field is missing.
        ValueError: a type or a time is none.
        TypeError: a field has another form.
    """
    most = case["max_active"]
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        raise TypeError("max_active must be a number of memories")
    if not case["candidates"]:
        raise ValueError("candidates must hold at least one statement")
    return Scenario(
        id=text_of(case, "id"),
        kind=text_of(case, "kind"),
        candidates=_candidates(objects_of(case, "candidates")),
        active=texts_of(case, "active"),
        superseded=texts_of(case, "superseded"),
        max_active=most,
    )


def _candidates(cases: Sequence[Case]) -> tuple[Candidate, ...]:
    found: list[Candidate] = []
    last = _BEGINNING
    for case in cases:
        at = _time(case["at"]) if case.get("at") is not None else last + _STEP
        last = max(last, at)
        found.append(
            Candidate(
                type=MemoryType(text_of(case, "type")),
                content=text_of(case, "content"),
                observed_at=at,
                extractor=_EXTRACTOR,
            )
        )
    return tuple(found)


def _time(value: object) -> datetime:
    if not isinstance(value, str):
        raise TypeError("at must be a time such as 2026-03-15T10:00:00Z, or null")
    at = datetime.fromisoformat(value)
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def judge(scenario: Scenario, active: Sequence[str], history: Sequence[str]) -> ScenarioOutcome:
    """Hold what is known at the end against what should be."""
    problems = [
        f"{text!r} should be in one {where} memory, is in {count}"
        for where, wanted, contents in (
            ("active", scenario.active, active),
            ("superseded", scenario.superseded, history),
        )
        for text in wanted
        if (count := _count(text, contents)) != 1
    ]
    if len(active) > scenario.max_active:
        problems.append(f"at most {scenario.max_active} should be active, {len(active)} are")
    return ScenarioOutcome(
        scenario=scenario,
        problems=tuple(problems),
        wrong_supersede=any(not _count(text, active) for text in scenario.active),
        active=tuple(active),
        history=tuple(history),
    )


def _count(text: str, contents: Sequence[str]) -> int:
    return sum(text in content for content in contents)


def result_of(file: str, outcomes: Sequence[ScenarioOutcome]) -> Json:
    """A file's part of the JSON result."""
    scenarios = Counter(outcome.scenario.kind for outcome in outcomes)
    right = Counter(outcome.scenario.kind for outcome in outcomes if outcome.right)
    return {
        "file": file,
        "scenarios": len(outcomes),
        "right": right.total(),
        "wrong_supersede": sum(outcome.wrong_supersede for outcome in outcomes),
        "kinds": {kind: {"scenarios": count, "right": right[kind]} for kind, count in scenarios.items()},
        "failed": [outcome.scenario.id for outcome in outcomes if not outcome.right],
    }
