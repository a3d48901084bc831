"""Prints how well conversations were remembered: a table a file, then what was missed and what should not be there."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.evaluation.conversations import Remembered, result_of

_NONE = "-"


def print_remembered(console: Console, file: str, outcomes: Sequence[Remembered]) -> None:
    """One file's table, then every conversation that was not remembered as it should."""
    result = result_of(file, outcomes)
    wanted, found = result["should_remember"], result["remembered"]
    table = Table(title=Text(file), title_justify="left")
    for name in ("conversations", "should remember", "remembered", "share", "violations", "memories"):
        table.add_column(name, justify="right")
    share = f"{found / wanted:.0%}" if wanted else _NONE
    memories = sum(len(outcome.memories) for outcome in outcomes)
    cells = (len(outcomes), wanted, found, share, len(result["violations"]), memories)
    table.add_row(*(Text(str(cell)) for cell in cells))
    console.print(table)
    for outcome in outcomes:
        if outcome.missed or outcome.violations or outcome.failures:
            console.print(_wrong(outcome), soft_wrap=True)


def _wrong(outcome: Remembered) -> Text:
    """It is text of the cases and of memories, so it must not be read as markup."""
    lines = [outcome.conversation.id]
    lines += [f"    failed:    {failure}" for failure in outcome.failures]
    lines += [f"    violation: {each.unwanted!r} is in: {each.memory}" for each in outcome.violations]
    lines += [f"    missed:    {wanted.about} ({' | '.join(wanted.any_of)})" for wanted in outcome.missed]
    lines += [f"    memory:    {memory}" for memory in outcome.memories] or ["    memory:    none"]
    return Text("\n".join(lines))
