"""`eval retrieval`: asks what is in the files, prints and writes the figures."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.app.models import ExternalModels
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.evaluation.playing import throwaway_adapters
from semrouter_memory.evaluation.retrieval import (
    Asked,
    Figures,
    Injected,
    RetrievalCase,
    by_kind,
    figures_of,
    result_of,
    step_times,
)
from semrouter_memory.evaluation.retrieval_run import Point, RetrievalRun, Swept
from semrouter_memory.evaluation.running import EvalOptions, play_files, share, table_of
from semrouter_memory.model import Json
from semrouter_memory.ports import Embedder
from semrouter_memory.store.location import has_lite

Draw: TypeAlias = Callable[[Path, Sequence[Swept]], None]


async def evaluate(options: EvalOptions, *, plot: Path | None, sweep: bool) -> None:
    """The command; see `play_files`.

    Args:
        plot: where the picture goes; None draws none.
        sweep: ask again with other thresholds; a picture needs it.

    Raises:
        ConfigurationError: also when the library that draws is missing.
    """
    draw = _drawing() if plot else None
    memory = options.config.memory
    swept: list[Swept] = []

    async def play(name: str, users: Sequence[RetrievalCase], embedder: Embedder, models: ExternalModels) -> Swept:
        async with throwaway_adapters(embedder, memory) as (adapters, clock):
            run = RetrievalRun(adapters, clock, memory, models)
            owners = await run.store(name, users)
            asked = await run.ask(name, owners)
            points = await run.sweep(name, owners) if sweep or draw else []
        return Swept(file=name, points=points, asked=asked, configured=memory.default_similarity_threshold)

    def report(console: Console, name: str, outcome: Swept) -> Json:
        if not has_lite():
            console.print("Milvus Lite is not installed: an exact search in memory stands in for it.")
        print_figures(console, name, outcome.asked)
        if outcome.points:
            print_sweep(console, outcome.points, configured=outcome.configured)
            swept.append(outcome)
        return result_of(name, outcome.asked)

    await play_files(options, RetrievalCase, play=play, report=report)
    if draw and plot:
        draw(plot, swept)


def _drawing() -> Draw:
    """What draws. Found before anything is measured, since the library is an extra."""
    try:
        from semrouter_memory.evaluation.retrieval_plot import draw  # noqa: PLC0415 - its library is an extra
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--plot needs {error.name}, which is not installed: pip install 'semrouter-memory[eval]'"
        ) from None
    return draw


_ALL = "all"
_RANKING = {"recall@5": "recall_at_5", "recall@10": "recall_at_10", "nDCG@5": "ndcg_at_5", "MRR": "mrr"}
_INJECTED = {
    "per query": "per_query",
    "precision": "precision",
    "recall": "recall",
    "false injection": "false_injection",
}
"""Headings of the tables' columns -> names of the figures."""


def print_figures(console: Console, file: str, asked: Sequence[Asked]) -> None:
    """One file's tables, and what is to be known of them."""
    kinds = {kind: figures_of(of_kind) for kind, of_kind in by_kind(asked).items()}
    everything = figures_of(asked)
    ranking = table_of("the ranking, before any cut", "kind", ("queries", *_RANKING))
    injected = table_of("what is injected", "kind", tuple(_INJECTED))
    for kind, figures in kinds.items():
        _add(ranking, injected, kind, figures)
    ranking.add_section()
    injected.add_section()
    _add(ranking, injected, _ALL, everything)
    console.print(Text(f"\n{file}", style="bold"))
    for table in (ranking, injected, _times_table(asked)):
        console.print(table)
    if everything.injected.false_injection is None:
        console.print("Every query has gold: false injection is not measured here.")
    failed = Counter(each.failed for each in asked if each.failed)
    if failed:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in failed.items())
        console.print(f"[red]Failed, and counted as nothing found: {reasons}[/red]")


def print_sweep(console: Console, points: Sequence[Point], *, configured: float) -> None:
    """What each threshold gives; the configured one is said, since it need not be among them."""
    table = table_of(f"what is injected by threshold ({configured:g} is configured)", "threshold", tuple(_INJECTED))
    for point in points:
        table.add_row(f"{point.threshold:.2f}", *_shares(point.injected, _INJECTED))
    console.print(table)


def _add(ranking: Table, injected: Table, kind: str, figures: Figures) -> None:
    ranking.add_row(Text(kind), str(figures.queries), *_shares(figures, _RANKING))
    injected.add_row(Text(kind), *_shares(figures.injected, _INJECTED))


def _times_table(asked: Sequence[Asked]) -> Table:
    table = table_of("milliseconds by step", "step", ("p50", "p95"))
    for step, times in step_times(asked).items():
        table.add_row(step, *(f"{ms:.2f}" for ms in times.values()))
    return table


def _shares(figures: Figures | Injected, names: Mapping[str, str]) -> list[str]:
    return [share(getattr(figures, name)) for name in names.values()]
