"""Retrieval cases: what is known of a user, and what should be found for a query; and what is counted and drawn. Pure.

The command's help says what a line holds.

Of the *ranking* (the best of what recall considered, before any cut) are counted: recall@k, nDCG@5 and the reciprocal
rank, as means over the queries that have gold. Of what is *injected*: recall the same way; precision over all queries
together, gold among what was injected, with acceptable memories on neither side; false injection, the share of the
negative queries (those without gold) that got a memory which is not acceptable. A figure without anything to count is None.

The picture has one row a file: what each threshold gives, and how gold and the rest score. matplotlib's figure is used without its
windows, so no screen is needed; for a PNG it draws with Agg. It is an extra of the package, so it is imported when it draws.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from semrouter_memory.evaluation.cases import History, Ids, Time
from semrouter_memory.model import Json, MemoryType

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")
_TOP = 5
_DIGITS = 4
_MS_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A memory as the file has it."""

    id: str
    type: MemoryType
    content: str
    created_at: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledQuery:
    """One query of a user.

    Attributes:
        kind: what the figures are grouped by.
        history: the conversation before it, oldest first.
        gold: ids of the memories that are wanted.
        acceptable: ids of those that are neither wanted nor wrong.
    """

    id: str
    kind: str
    text: str
    history: History = ()
    gold: frozenset[str]
    acceptable: Ids = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalCase:
    """One line of a file."""

    user: str
    memories: tuple[Known, ...]
    queries: tuple[LabelledQuery, ...]

    def __post_init__(self) -> None:
        known = [memory.id for memory in self.memories]
        _require_unique("memories", known)
        _require_unique("queries", [query.id for query in self.queries])
        for at, query in enumerate(self.queries):
            for name, ids in (("gold", query.gold), ("acceptable", query.acceptable)):
                if unknown := sorted(ids.difference(known)):
                    raise ValueError(f"queries[{at}].{name}: there is no memory {unknown[0]!r}")


def _require_unique(name: str, ids: Sequence[str]) -> None:
    first = {each: at for at, each in reversed(list(enumerate(ids)))}
    repeated = next((at for at, each in enumerate(ids) if at != first[each]), None)
    if repeated is not None:
        raise ValueError(f"{name}[{repeated}].id: {ids[repeated]!r} is there twice")


@dataclass(frozen=True, slots=True)
class Scored:
    """A memory of a ranking, by its id in the file."""

    id: str
    relevance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What recall gave for one query.

    Attributes:
        ranking: best first.
        injected: ids, in the order in which they were injected.
        steps_ms: duration of each step that ran.
        failed: why recall gave nothing although it should have; "" when it did not fail.
    """

    query: LabelledQuery
    ranking: tuple[Scored, ...] = ()
    injected: tuple[str, ...] = ()
    steps_ms: Mapping[str, float]
    failed: str = ""


Figures = dict[str, float | None]
"""By name; None where there was nothing to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One file's sweep, and what was asked with the configured threshold.

    Attributes:
        points: what each threshold injects.
    """

    file: str
    points: Mapping[float, Figures]
    asked: Sequence[Asked]
    configured: float


def ranking_figures(asked: Sequence[Asked]) -> Figures:
    with_gold = [each for each in asked if each.query.gold]
    return {
        "recall@5": mean(_found(each, _ranked(each, _TOP)) for each in with_gold),
        "recall@10": mean(_found(each, _ranked(each, 2 * _TOP)) for each in with_gold),
        "ndcg@5": mean(map(_ndcg, with_gold)),
        "mrr": mean(map(_reciprocal_rank, with_gold)),
    }


def injected_figures(asked: Sequence[Asked]) -> Figures:
    """Of what the queries would have put into their requests."""
    right = sum(len(each.query.gold.intersection(each.injected)) for each in asked)
    wrong = sum(len(_wrong(each)) for each in asked)
    return {
        "per_query": mean(len(each.injected) for each in asked),
        "precision": right / (right + wrong) if right + wrong else None,
        "recall": mean(_found(each, each.injected) for each in asked if each.query.gold),
        "false_injection": mean(bool(_wrong(each)) for each in asked if not each.query.gold),
    }


def by_kind(items: Iterable[T], kind_of: Callable[[T], str]) -> dict[str, list[T]]:
    """In the order in which the items first have a kind."""
    kinds: dict[str, list[T]] = {}
    for each in items:
        kinds.setdefault(kind_of(each), []).append(each)
    return kinds


def step_times(asked: Sequence[Asked]) -> dict[str, dict[str, float]]:
    """p50 and p95 of each step, in milliseconds, over the queries in which it ran."""
    times: dict[str, list[float]] = {}
    for each in asked:
        for step, ms in each.steps_ms.items():
            times.setdefault(step, []).append(ms)
    return {step: dict(zip(("p50", "p95"), _percentiles(ms), strict=True)) for step, ms in times.items()}


def result_of(file: str, asked: Sequence[Asked]) -> Json:
    """A file's part of the JSON result."""
    return {
        "file": file,
        "queries": len(asked),
        **_rounded(ranking_figures(asked)),
        "injected": _rounded(injected_figures(asked)),
        "kinds": {
            kind: {
                "queries": len(of_kind),
                **_rounded(
                    {
                        "recall@5": ranking_figures(of_kind)["recall@5"],
                        "injected_recall": injected_figures(of_kind)["recall"],
                    }
                ),
            }
            for kind, of_kind in by_kind(asked, lambda each: each.query.kind).items()
        },
        "ms": step_times(asked),
    }


def _ranked(asked: Asked, top: int) -> list[str]:
    return [scored.id for scored in asked.ranking[:top]]


def _found(asked: Asked, ids: Iterable[str]) -> float:
    return len(asked.query.gold.intersection(ids)) / len(asked.query.gold)


def _wrong(asked: Asked) -> frozenset[str]:
    return frozenset(asked.injected) - asked.query.gold - asked.query.acceptable


def _ndcg(asked: Asked) -> float:
    gain = _gain([name in asked.query.gold for name in _ranked(asked, _TOP)])
    return gain / _gain([True] * min(len(asked.query.gold), _TOP))


def _gain(relevant: Sequence[bool]) -> float:
    return math.fsum(1 / math.log2(at + 2) for at, is_relevant in enumerate(relevant) if is_relevant)


def _reciprocal_rank(asked: Asked) -> float:
    places = (at for at, scored in enumerate(asked.ranking, start=1) if scored.id in asked.query.gold)
    return 1 / next(places, math.inf)


def mean(values: Iterable[float]) -> float | None:
    """None where there is nothing to count."""
    counted = list(values)
    return math.fsum(counted) / len(counted) if counted else None


def _percentiles(ms: Sequence[float]) -> list[float]:
    return [round(float(value), _MS_DIGITS) for value in np.percentile(ms, (50, 95))]


def _rounded(figures: Figures) -> Figures:
    return {name: None if value is None else round(value, _DIGITS) for name, value in figures.items()}


# -- the picture -------------------------------------------------------------------------------------------------------


# Told apart by people who see colours differently, and by line style in print.
_CURVES = (
    ("precision", "precision", "#0072B2", "-"),
    ("recall", "recall", "#009E73", "--"),
    ("false_injection", "false injection", "#D55E00", ":"),
)
_GOLD, _OTHER = "#009E73", "#999999"
_BINS = np.linspace(0.0, 1.0, 41)
_WIDTH, _HEIGHT_OF_ROW = 12.0, 4.2


def picture(rows: Sequence[Swept]) -> bytes:
    """The picture, as a PNG."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - see above

    figure = Figure(figsize=(_WIDTH, _HEIGHT_OF_ROW * len(rows)), layout="constrained")
    for (curves, scores), row in zip(figure.subplots(len(rows), 2, squeeze=False), rows, strict=True):
        _draw_curves(curves, row)
        _draw_scores(scores, row)
    png = BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()


def _draw_curves(axes: "Axes", row: Swept) -> None:
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


def _draw_scores(axes: "Axes", row: Swept) -> None:
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


def _finish(axes: "Axes", row: Swept) -> None:
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
