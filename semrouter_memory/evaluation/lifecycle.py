"""Plays lifecycle scenarios through the writer that serves, and compares what is known in the end with what should be.

The command's help says what a line holds. A scenario has a fact wrongly superseded when a text of `active` occurs in no active
memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field, StrictInt
from rich.console import Console
from rich.text import Text

from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.evaluation.cases import CaseTurn, Time
from semrouter_memory.evaluation.retrieval import by_kind
from semrouter_memory.evaluation.running import EvalOptions, PlayClock, one_by_one, play_files, table_of, turn_of
from semrouter_memory.model import Candidate, Criteria, Json, MemoryType, Scope

_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_STEP = timedelta(seconds=1)
_EXTRACTOR = "evaluation"
_LEASE = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCandidate:
    """A statement; without a time it was made right after the latest one before it."""

    type: MemoryType
    content: str
    at: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One line of a file."""

    id: str
    kind: str
    candidates: tuple[CaseCandidate, ...]
    active: tuple[str, ...]
    superseded: tuple[str, ...]
    max_active: Annotated[StrictInt, Field(ge=0)]

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError("candidates must hold at least one statement")

    def timed(self) -> list[Candidate]:
        """The candidates in the order of the file, each with its time."""
        found: list[Candidate] = []
        last = _BEGINNING
        for each in self.candidates:
            at = each.at or last + _STEP
            last = max(last, at)
            found.append(Candidate(type=each.type, content=each.content, observed_at=at, extractor=_EXTRACTOR))
        return found


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """What is known at a scenario's end, to be compared with what should be.

    Attributes:
        active: contents of the active memories.
        history: contents of the superseded ones.
    """

    scenario: Scenario
    active: Sequence[str]
    history: Sequence[str]

    @property
    def problems(self) -> list[str]:
        """What was expected and is not so, in words; none when the scenario is right."""
        scenario = self.scenario
        found = [
            f"{text!r} should be in one {where} memory, is in {count}"
            for where, wanted, contents in (
                ("active", scenario.active, self.active),
                ("superseded", scenario.superseded, self.history),
            )
            for text in wanted
            if (count := _count(text, contents)) != 1
        ]
        if len(self.active) > scenario.max_active:
            found.append(f"at most {scenario.max_active} should be active, {len(self.active)} are")
        return found

    @property
    def wrong_supersede(self) -> bool:
        """A fact that should be active is not."""
        return any(not _count(text, self.active) for text in self.scenario.active)

    @property
    def right(self) -> bool:
        return not self.problems


def _count(text: str, contents: Sequence[str]) -> int:
    return sum(text in content for content in contents)


async def play(scenario: Scenario, scope: Scope, pipelines: Pipelines) -> ScenarioOutcome:
    """Hand the candidates over one by one and look at what is known then.

    A model with the role `memory_reconcile` decides the grey zone, where there is one.
    """
    session, candidates = f"session-of-{scope.owner_id}", scenario.timed()
    # It is the time of what was said last, so that nothing expires because a scenario is old.
    clock = PlayClock(min(candidate.observed_at for candidate in candidates))
    adapters = pipelines.adapters
    writer = replace(pipelines, adapters=replace(adapters, clock=clock)).reconciling_writer()
    log = adapters.turn_log
    turns = [turn_of(scope, session, CaseTurn(each.content, "Noted."), at=each.observed_at) for each in candidates]
    appended = [
        log.append(replace(turn, request_id=f"{scope.owner_id}-{number}"), remember=False)
        for number, turn in enumerate(turns)
    ]
    claim = await log.claim(scope, appended[0].session_id, lease=_LEASE, context=0)
    if claim is None:
        raise AssertionError("the session is claimed by another worker")
    for candidate, turn in zip(candidates, appended, strict=True):
        clock.time = max(clock.time, candidate.observed_at)
        await writer.write(claim, [replace(candidate, session_id=turn.session_id, turn_ids=(turn.turn_id,))])
    memories = (await adapters.store.page(Criteria(scope), limit=len(candidates))).memories
    return ScenarioOutcome(
        scenario,
        [memory.content for memory in memories if memory.superseded_at is None],
        [memory.content for memory in memories if memory.superseded_at is not None],
    )


async def evaluate(options: EvalOptions) -> None:
    """The command; see `play_files`."""
    await play_files(options, Scenario, play=one_by_one(play), report=report, exact=True)


def result_of(file: str, outcomes: Sequence[ScenarioOutcome]) -> Json:
    """A file's part of the JSON result."""
    kinds = by_kind(outcomes, lambda each: each.scenario.kind)
    return {
        "file": file,
        "scenarios": len(outcomes),
        "right": _right(outcomes),
        "wrong_supersede": sum(outcome.wrong_supersede for outcome in outcomes),
        "kinds": {kind: {"scenarios": len(of_kind), "right": _right(of_kind)} for kind, of_kind in kinds.items()},
        "failed": [outcome.scenario.id for outcome in outcomes if not outcome.right],
    }


def report(console: Console, file: str, outcomes: Sequence[ScenarioOutcome]) -> Json:
    """Print one file's table, then what went wrong."""
    table = table_of(file, "kind", ("scenarios", "right", "share", "wrongly superseded"))
    for kind, of_kind in by_kind(outcomes, lambda each: each.scenario.kind).items():
        table.add_row(*_cells(kind, of_kind))
    table.add_section()
    table.add_row(*_cells("all", outcomes))
    console.print(table)
    for outcome in outcomes:
        if not outcome.right:
            console.print(_failure(outcome))
    return result_of(file, outcomes)


def _right(outcomes: Sequence[ScenarioOutcome]) -> int:
    return sum(outcome.right for outcome in outcomes)


def _cells(name: str, outcomes: Sequence[ScenarioOutcome]) -> list[Text]:
    scenarios, right = len(outcomes), _right(outcomes)
    wrong = sum(outcome.wrong_supersede for outcome in outcomes)
    shares = f"{right / scenarios:.0%}", f"{wrong} ({wrong / scenarios:.1%})"
    return [Text(name), *map(Text, (str(scenarios), str(right), *shares))]


def _failure(outcome: ScenarioOutcome) -> Text:
    """Expected and found, side by side. It is text of the cases, so it must not be read as markup."""
    lines = [f"{outcome.scenario.id} ({outcome.scenario.kind})"]
    lines += [f"    expected: {problem}" for problem in outcome.problems]
    lines += [f"    active:   {content}" for content in outcome.active] or ["    active:   nothing"]
    lines += [f"    history:  {content}" for content in outcome.history]
    return Text("\n".join(lines))
