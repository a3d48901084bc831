"""The picture of a benchmark: one panel for each section that was measured.

matplotlib's figure is used without its windows, so no screen is needed. It is an extra of the package, so only who plots
imports this.
"""

import math
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.figures import (
    ALONE,
    FLOOR_TARGET,
    NOOP,
    PRODUCT,
    Bodies,
    Growth,
    Headline,
    PathFigures,
    Streams,
    Throughput,
)
from semrouter_memory.evaluation.cases import write_file

# Told apart by people who see colours differently, and by line style in print.
_PRODUCT, _FLOOR, _COLD, _GREY = "#0072B2", "#009E73", "#D55E00", "#999999"
_COLUMNS = 2
_WIDTH, _HEIGHT_OF_ROW = 12.0, 4.2


def draw(path: Path, figures: Mapping[str, Any], title: str) -> bool:
    """Write the picture as a PNG; False when there is nothing to draw.

    Raises:
        InputFileError: the file cannot be written.
    """
    panels = [(panel, each) for each in figures.values() for panel in _PANELS.get(type(each), ())]
    if not panels:
        return False
    rows = math.ceil(len(panels) / _COLUMNS)
    figure = Figure(figsize=(_WIDTH, _HEIGHT_OF_ROW * rows), layout="constrained")
    figure.suptitle(title)
    every = figure.subplots(rows, _COLUMNS, squeeze=False).flatten()
    for axes, (panel, each) in zip(every, panels, strict=False):
        panel(axes, each)
        axes.grid(alpha=0.3)
    for axes in every[len(panels) :]:
        axes.set_visible(False)
    png = BytesIO()
    figure.savefig(png, format="png")
    write_file(path, png.getvalue())
    return True


def _latency(axes: Axes, figures: Headline) -> None:
    cold, paced = figures.main.back_to_back.cold_ms, figures.main.paced
    bars = {
        "a  Envoy\nalone": (paced.chains[ALONE].ms.p50, _GREY),
        "b  no-op": (paced.chains[NOOP].ms.p50, _FLOOR),
        "b + c": (paced.floor_ms, _FLOOR),
        "e  product,\nactive": (paced.chains[PRODUCT].ms.p50, _PRODUCT),
        **({"e  product,\nfirst request": (cold.p50, _COLD)} if cold else {}),
    }
    drawn = axes.bar(list(bars), [value for value, _ in bars.values()], color=[colour for _, colour in bars.values()])
    axes.bar_label(drawn, fmt="%.2f")
    axes.axhline(
        paced.floor_ms * FLOOR_TARGET, color="black", linewidth=1, linestyle="--", label=f"{FLOOR_TARGET} x floor"
    )
    axes.set(title=f"one request after the other: {paced.active.median:.2f} x the floor", ylabel="p50 ms")
    axes.legend(fontsize="small")


def _users(axes: Axes, figures: Headline) -> None:
    _paths(axes, {size: user.paced for size, user in figures.users.items()}, "-", "")
    axes.set(title="one user, with pauses", xlabel="memories of the user", ylabel="p50 ms")
    axes.set_ylim(bottom=0)


def _throughput(axes: Axes, many: Throughput) -> None:
    bars = {
        "b  no-op": (many.chains[NOOP].per_second, _FLOOR),
        "allowed by\nthe floor": (many.allowed, _GREY),
        "e  product": (many.chains[PRODUCT].per_second, _PRODUCT),
    }
    drawn = axes.bar(list(bars), [value for value, _ in bars.values()], color=[colour for _, colour in bars.values()])
    axes.bar_label(drawn, fmt="%.0f")
    title = f"{many.connections} connections: {many.share.median:.0%} of what the floor allows"
    axes.set(title=title, ylabel="requests per second")


def _streams(axes: Axes, figures: Streams) -> None:
    names = {ALONE: "Envoy alone", NOOP: "no-op", PRODUCT: "product"}
    places = range(len(names))
    for shift, key, colour in ((-0.2, "p50", _PRODUCT), (0.2, "p99", _COLD)):
        values = [getattr(figures.chains[name].on_the_way, key) for name in names]
        drawn = axes.bar([place + shift for place in places], values, width=0.4, color=colour, label=key)
        axes.bar_label(drawn, fmt="%.2f")
    axes.set_xticks(list(places), list(names.values()))
    axes.set(title="a streamed token, from upstream to client", ylabel="ms")
    axes.legend(fontsize="small")


def _growth(axes: Axes, figures: Growth) -> None:
    for store, style in zip(dict.fromkeys(point.store for point in figures.points), ("-", "--"), strict=False):
        points = [point for point in figures.points if point.store == store]
        _paths(axes, {point.memories: point.path for point in points}, style, f", {store}")
    axes.set(title="while the store grows", xlabel="memories", ylabel="p50 ms")
    axes.set_ylim(bottom=0)


def _bodies(axes: Axes, figures: Bodies) -> None:
    _paths(axes, figures.paths, "-", "")
    axes.set(title="larger bodies", xlabel="bytes", ylabel="p50 ms", yscale="log")


def _paths(axes: Axes, paths: Mapping[int, PathFigures], style: str, store: str) -> None:
    sizes = list(paths)
    product = [path.chains[PRODUCT].ms.p50 for path in paths.values()]
    floor = [path.floor_ms for path in paths.values()]
    axes.plot(sizes, floor, style, color=_FLOOR, marker=".", label=f"b + c{store}")
    axes.plot(sizes, product, style, color=_PRODUCT, marker=".", label=f"active user{store}")
    cold = {size: path.cold_ms.p50 for size, path in paths.items() if path.cold_ms}
    if cold:
        axes.plot(list(cold), list(cold.values()), style, color=_COLD, marker=".", label=f"first request{store}")
    axes.set_xscale("log")
    axes.legend(fontsize="small")


_PANELS: Mapping[type, tuple[Callable[[Axes, Any], None], ...]] = {
    Headline: (_latency, _users),
    Throughput: (_throughput,),
    Streams: (_streams,),
    Bodies: (_bodies,),
    Growth: (_growth,),
}
