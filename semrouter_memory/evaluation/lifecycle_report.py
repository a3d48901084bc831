"""What `eval lifecycle` prints: a table for all files and kinds, and each failed scenario in words."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.evaluation.lifecycle import ScenarioOutcome, result_of
from semrouter_memory.model import Json

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
