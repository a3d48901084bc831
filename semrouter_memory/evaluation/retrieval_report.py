"""What `eval retrieval` prints: the ranking and what is injected by kind, the times by step, the sweep of thresholds."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.evaluation.retrieval_figures import Asked, Figures, Injected, by_kind, figures_of, step_times
from semrouter_memory.evaluation.retrieval_sweep import Point

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
    ranking = _table("the ranking, before any cut", "kind", ("queries", *_RANKING))
    injected = _table("what is injected", "kind", tuple(_INJECTED))
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
    table = _table(f"what is injected by threshold ({configured:g} is configured)", "threshold", tuple(_INJECTED))
    for point in points:
        table.add_row(f"{point.threshold:.2f}", *_shares(point.injected, _INJECTED))
    console.print(table)


def _add(ranking: Table, injected: Table, kind: str, figures: Figures) -> None:
    ranking.add_row(Text(kind), str(figures.queries), *_shares(figures, _RANKING))
    injected.add_row(Text(kind), *_shares(figures.injected, _INJECTED))


def _times_table(asked: Sequence[Asked]) -> Table:
    table = _table("milliseconds by step", "step", ("p50", "p95"))
    for step, times in step_times(asked).items():
        table.add_row(step, *(f"{ms:.2f}" for ms in times.values()))
    return table


def _table(title: str, first: str, columns: Sequence[str]) -> Table:
    table = Table(title=Text(title), title_justify="left")
    table.add_column(first)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def _shares(figures: Figures | Injected, names: Mapping[str, str]) -> list[str]:
    values = (getattr(figures, name) for name in names.values())
    return ["-" if value is None else f"{value:.2f}" for value in values]
