"""Plays lifecycle scenarios through the writer that serves, each for a user of its own.

There is one turn for each candidate, claimed as the workers claim it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.app import pipelines
from semrouter_memory.app.adapters import Adapters
from semrouter_memory.app.models import ExternalModels
from semrouter_memory.config import Config, MemoryConfig
from semrouter_memory.evaluation.lifecycle import Scenario, ScenarioOutcome, judge, result_of, scenario_of
from semrouter_memory.evaluation.playing import PlayClock
from semrouter_memory.evaluation.running import play_files
from semrouter_memory.model import Json, Scope, SessionHints, Turn
from semrouter_memory.store.in_memory import InMemoryStore

_LEASE = timedelta(hours=1)


class LifecycleRun:
    """Plays scenarios.

    Args:
        models: the one with the role `memory_reconcile` decides the grey zone, where there is one.
    """

    def __init__(self, adapters: Adapters, config: MemoryConfig, models: ExternalModels) -> None:
        self._adapters = adapters
        self._config = config
        self._models = models
        self._played = 0

    async def play(self, scenario: Scenario) -> ScenarioOutcome:
        """Hand the candidates over one by one and look at what is known then."""
        self._played += 1
        scope = Scope(f"scenario-{self._played}")
        store = InMemoryStore(dimension=self._adapters.embedder.dimension)
        # It is the time of what was said last, so that nothing expires because a scenario is old.
        clock = PlayClock(min(candidate.observed_at for candidate in scenario.candidates))
        adapters = replace(self._adapters, store=store, writer=store, clock=clock)
        writer = pipelines.reconciling_writer(self._config.ageing, adapters, self._models)
        turn_ids, session_id = self._append(scope, scenario)
        claim = await adapters.turn_log.claim(scope, session_id, lease=_LEASE, context=0)
        if claim is None:
            raise AssertionError("the session is claimed by another worker")
        for candidate, turn_id in zip(scenario.candidates, turn_ids, strict=True):
            clock.time = max(clock.time, candidate.observed_at)
            await writer.write(claim, [replace(candidate, session_id=session_id, turn_ids=(turn_id,))])
        memories = (await store.page(scope, limit=len(scenario.candidates), now=None)).memories
        return judge(
            scenario,
            [memory.content for memory in memories if memory.superseded_at is None],
            [memory.content for memory in memories if memory.superseded_at is not None],
        )

    def _append(self, scope: Scope, scenario: Scenario) -> tuple[list[str], str]:
        """One turn for each candidate, as if the user had said it in these words; their ids, and their session's."""
        hints = SessionHints(explicit=f"session-{self._played}")
        appended = [
            self._adapters.turn_log.append(
                Turn(
                    scope=scope,
                    hints=hints,
                    user_texts=(candidate.content,),
                    assistant_text="Noted.",
                    observed_at=candidate.observed_at,
                    request_id=f"{scope.user_id}-{number}",
                ),
                remember=False,
            )
            for number, candidate in enumerate(scenario.candidates)
        ]
        return [each.turn_id for each in appended], appended[0].session_id


async def evaluate(files: Sequence[Path], *, config: Config, model: Path | None, json_out: Path | None) -> None:
    """The command; see `play_files`."""
    await play_files(
        files,
        scenario_of,
        LifecycleRun,
        show=print_outcomes,
        result=result_of,
        config=config,
        model=model,
        json_out=json_out,
    )


_ALL = "all"


def print_outcomes(console: Console, file: str, outcomes: Sequence[ScenarioOutcome]) -> None:
    """One file's table, then what went wrong."""
    result = result_of(file, outcomes)
    table = Table(title=Text(file), title_justify="left")
    table.add_column("kind")
    for name in ("scenarios", "right", "share", "wrongly superseded"):
        table.add_column(name, justify="right")
    for kind, counts in result["kinds"].items():
        wrong = sum(outcome.wrong_supersede for outcome in outcomes if outcome.scenario.kind == kind)
        table.add_row(*_cells(kind, counts, wrong))
    table.add_section()
    table.add_row(*_cells(_ALL, result, result["wrong_supersede"]))
    console.print(table)
    for outcome in outcomes:
        if not outcome.right:
            console.print(_failure(outcome))


def _cells(name: str, counts: Json, wrong: int) -> list[Text]:
    scenarios, right = counts["scenarios"], counts["right"]
    return [
        Text(name),
        *map(Text, (str(scenarios), str(right), f"{right / scenarios:.0%}", f"{wrong} ({wrong / scenarios:.1%})")),
    ]


def _failure(outcome: ScenarioOutcome) -> Text:
    """Expected and found, side by side. It is text of the cases, so it must not be read as markup."""
    lines = [f"{outcome.scenario.id} ({outcome.scenario.kind})"]
    lines += [f"    expected: {problem}" for problem in outcome.problems]
    lines += [f"    active:   {content}" for content in outcome.active] or ["    active:   nothing"]
    lines += [f"    history:  {content}" for content in outcome.history]
    return Text("\n".join(lines))
