"""The picture of a retrieval evaluation, one row a file: what each threshold gives, and how gold and the rest score.

matplotlib's figure is used without its windows, so no screen is needed; for a PNG it draws with Agg. It is an extra of
the package, so only who plots imports this.
"""

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from semrouter_memory.evaluation.cases import write_file
from semrouter_memory.evaluation.retrieval import Asked, Swept

# Told apart by people who see colours differently, and by line style in print.
_CURVES = (
    ("precision", "precision", "#0072B2", "-"),
    ("recall", "recall", "#009E73", "--"),
    ("false_injection", "false injection", "#D55E00", ":"),
)
_GOLD, _OTHER = "#009E73", "#999999"
_BINS = np.linspace(0.0, 1.0, 41)
_WIDTH, _HEIGHT_OF_ROW = 12.0, 4.2


def draw(path: Path, rows: Sequence[Swept]) -> None:
    """Write the picture as a PNG.

    Raises:
        InputFileError: the file cannot be written.
    """
    figure = Figure(figsize=(_WIDTH, _HEIGHT_OF_ROW * len(rows)), layout="constrained")
    for (curves, scores), row in zip(figure.subplots(len(rows), 2, squeeze=False), rows, strict=True):
        _draw_curves(curves, row)
        _draw_scores(scores, row)
    png = BytesIO()
    figure.savefig(png, format="png")
    write_file(path, png.getvalue())


def _draw_curves(axes: Axes, row: Swept) -> None:
    thresholds = list(row.points)
    for name, label, colour, style in _CURVES:
        values = [_drawable(figures[name]) for figures in row.points.values()]
        if not all(map(math.isnan, values)):
            axes.plot(thresholds, values, style, color=colour, label=label, marker=".")
    # A file's name is no formula, whatever dollars are in it.
    axes.set_title(f"{row.file}: what is injected", parse_math=False)
    axes.set(xlabel="threshold", xlim=(0, 1), ylim=(0, 1.02))
    _finish(axes, row)


def _drawable(value: float | None) -> float:
    """Where there is nothing to count, a curve has a gap."""
    return math.nan if value is None else value


def _draw_scores(axes: Axes, row: Swept) -> None:
    gold, other = scores_of(row.asked)
    for name, scores, colour in (("other", other, _OTHER), ("gold", gold, _GOLD)):
        if scores:
            # Shares, because gold is one in dozens and would not be seen next to the rest.
            weights = np.full(len(scores), 1 / len(scores))
            axes.hist(
                np.clip(scores, 0, 1),
                bins=_BINS.tolist(),
                weights=weights,
                color=colour,
                alpha=0.6,
                label=f"{name} ({len(scores)})",
            )
    axes.set(title="scores in the rankings", xlabel="relevance", ylabel="share of its kind", xlim=(0, 1))
    _finish(axes, row)


def _finish(axes: Axes, row: Swept) -> None:
    axes.axvline(row.configured, color="black", linewidth=1, label=f"configured: {row.configured:g}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def scores_of(asked: Sequence[Asked]) -> tuple[list[float], list[float]]:
    """The relevance of every ranked memory that is gold for its query, and of every one that is wrong for it."""
    gold = [scored.relevance for each in asked for scored in each.ranking if scored.id in each.query.gold]
    other = [
        scored.relevance
        for each in asked
        for scored in each.ranking
        if scored.id not in each.query.gold | each.query.acceptable
    ]
    return gold, other
