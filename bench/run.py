"""A run: what memory costs, beside what is needed for anything of the kind.

Strategy: a section is measured, shown and written down before the next one begins, so that a failure or Ctrl-C costs no
more than its own section. What failed is said and makes the exit status 1; the others go on.
"""

import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

from bench.context import Amount, Bench, opened
from bench.figures import goals, missed
from bench.in_process import recall
from bench.knowledge import knowledge
from bench.processes import processes
from bench.sections import bodies, growth, headline, streams, throughput
from bench.tables import tables_of
from semrouter_memory import __version__
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.evaluation.cases import write_json

SECTIONS: Mapping[str, Callable[[Bench], Awaitable[Any]]] = {
    "headline": headline,
    "throughput": throughput,
    "streams": streams,
    "bodies": bodies,
    "recall": recall,
    "growth": growth,
    "knowledge": knowledge,
    "processes": processes,
}
_WIDTH = 150
"""Of the tables where there is no terminal that has one."""
QUICK = ("headline", "throughput", "streams")


@dataclass(slots=True)
class Outcome:
    """Of a run, by section.

    Attributes:
        failed: why there are no figures.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Attributes: only: names of sections; empty: all, or the quick ones."""

    model: Path
    directory: Path
    amount: Amount
    only: Sequence[str] = ()
    json_file: Path
    plot_file: Path | None


async def bench(options: Options) -> bool:
    """Measure, print, and write the files; False when a section failed.

    Raises:
        ConfigurationError: there is no such section.
    """
    names = chosen(options.only, quick=options.amount.quick)
    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=_WIDTH)
    outcome = Outcome()
    run = _about()
    async with opened(options.model, options.directory, options.amount, console) as shared:
        for name in names:
            await _section(name, shared, outcome, console)
            written(options.json_file, run, options, outcome)
    _say_the_end(options, outcome, console)
    return not outcome.failed


def chosen(only: Sequence[str], *, quick: bool) -> list[str]:
    """The sections to measure, in their own order.

    Raises:
        ConfigurationError: there is no such section.
    """
    unknown = [name for name in only if name not in SECTIONS]
    if unknown:
        raise ConfigurationError(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    wanted = only or (QUICK if quick else tuple(SECTIONS))
    return [name for name in SECTIONS if name in wanted]


async def _section(name: str, shared: Bench, outcome: Outcome, console: Console) -> None:
    started = time.monotonic()
    try:
        figures = await SECTIONS[name](shared)
    except Exception as error:  # noqa: BLE001 - said, and the exit status tells; the others' figures are good
        outcome.failed[name] = f"{type(error).__name__}: {error}"
        console.print(f"{name} failed: {outcome.failed[name]}", style="red", markup=False, highlight=False)
    else:
        outcome.figures[name] = figures
        for table in tables_of(figures):
            console.print(table)
    outcome.seconds[name] = time.monotonic() - started


def written(path: Path, run: Mapping[str, Any], options: Options, outcome: Outcome) -> None:
    """Write what there is so far, as JSON.

    Raises:
        InputFileError: the file cannot be written.
    """
    amount = options.amount
    content = {
        "run": {**run, "requests": amount.requests, "memories": amount.memories, "quick": amount.quick},
        "sections": {name: asdict(figures) for name, figures in outcome.figures.items()},
        "seconds": outcome.seconds,
        "failed": outcome.failed,
        "goals": goals(outcome.figures),
    }
    write_json(path, content)


def _say_the_end(options: Options, outcome: Outcome, console: Console) -> None:
    console.print(f"Figures: {options.json_file}", highlight=False)
    if options.plot_file is not None and outcome.figures:
        from bench import plot  # noqa: PLC0415 - matplotlib is an extra

        title = f"semrouter-memory {__version__}, {len(os.sched_getaffinity(0))} cores"
        if plot.draw(options.plot_file, outcome.figures, title):
            console.print(f"Chart: {options.plot_file}", highlight=False)
    if not_reached := missed(outcome.figures):
        console.print(f"Goals missed in this run: {'; '.join(not_reached)}", highlight=False)
    elif goals(outcome.figures):
        console.print("All goals of the measured sections reached in this run.")
    for name, reason in outcome.failed.items():
        first = reason.splitlines()[0]
        console.print(f"{name} was not measured: {first}", style="red", markup=False, highlight=False)


def _about() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "version": __version__,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def run(options: Options) -> bool:
    """`bench`, in an event loop like the service's."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bench(options))
