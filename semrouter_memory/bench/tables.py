"""What a benchmark measured, as tables. Pure; each figure in them is one of this run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from semrouter_memory.bench.figures import (
    FLOOR_TARGET,
    THROUGHPUT_TARGET,
    Bodies,
    ChainFigures,
    Footprints,
    Growth,
    Headline,
    PathFigures,
    Prefixes,
    Processes,
    ProcessFigures,
    Ratio,
    Streams,
    Throughput,
    Times,
    UserSizes,
)
from semrouter_memory.bench.installation import ALONE, NOOP, PRODUCT, UNLEARNED

_MIB = 1024 * 1024
_NAMES = {
    ALONE: "a  Envoy alone",
    NOOP: "b  the same chain, no-op service in Python",
    PRODUCT: "e  the product, an active user",
    UNLEARNED: "e' the same with auto_store off",
}
_FACTORS = {1_000: "KB", 1_000_000: "MB"}


def tables_of(figures: Any) -> list[Table]:
    """The tables of one section."""
    return list(_MAKERS[type(figures)](figures))


def _headline(figures: Headline) -> Iterator[Table]:
    yield _one_by_one(figures)
    table = _path_table(f"The same with {figures.pause_ms:.0f} ms between two requests: nothing else goes on")
    _path_row(table, "an active user", figures.paced)
    yield table
    yield _together(figures.many)
    yield _steps(figures)
    table = _table("Memory of the processes at the end of this", ("MiB",))
    for name, taken in figures.resident_bytes.items():
        table.add_row(name, f"{taken / _MIB:.0f}")
    yield table


def _one_by_one(figures: Headline) -> Table:
    alone = figures.alone
    table = _table(
        f"One chat request after the other: {figures.memories:,} memories of the user, {figures.stored:,} in the store",
        ("p50 ms", "p95 ms", "p99 ms", "added p50", "requests/s", "CPU ms", "with learning", "got memories"),
    )
    base = alone.chains[ALONE].ms.p50
    for name in (ALONE, NOOP):
        _chain_row(table, name, alone.chains[name], base)
    table.add_row("c  embedding the query, bare", *_times(alone.embedding), "", "", f"{alone.embedding_cpu_ms:.2f}")
    table.add_row("d  searching the store, bare", *_times(alone.search))
    for name in (PRODUCT, UNLEARNED):
        _chain_row(table, name, alone.chains[name], base)
    if alone.cold_ms is not None:
        row = (*_times(alone.cold_ms), f"{alone.cold_ms.p50 - base:.2f}", "", "", "", f"{alone.cold_with_memory:.0%}")
        table.add_row(f"   first requests of {alone.cold_ms.count} users who were away", *row)
    table.add_section()
    table.add_row("active user: e / (b + c), median of the rounds", *_ratio(alone.active), f"goal {FLOOR_TARGET} x")
    if alone.cold is not None:
        table.add_row("user who was away: e / (b + c + d)", *_ratio(alone.cold))
    return table


def _together(figures: Throughput) -> Table:
    table = _table(
        f"{figures.connections} connections at a time, each a user of its own",
        ("p50 ms", "p95 ms", "p99 ms", "added p50", "requests/s", "CPU ms", "with learning", "got memories"),
    )
    base = figures.chains[ALONE].ms.p50
    for name, chain in figures.chains.items():
        _chain_row(table, name, chain, base)
    table.add_section()
    _allowed_rows(table, figures)
    return table


def _allowed_rows(table: Table, figures: Throughput) -> None:
    spaces = ("",) * 4
    table.add_row("allowed by the floor's CPU time (service alone)", *spaces, f"{figures.allowed:.0f}")
    table.add_row("    the product's to it", *spaces, *_share(figures.share), f"goal {THROUGHPUT_TARGET:.0%}")
    table.add_row("allowed by it (Envoy, upstream, client too)", *spaces, f"{figures.strict_allowed:.0f}")
    table.add_row("    the product's to it", *spaces, *_share(figures.strict_share))


def _steps(figures: Headline) -> Table:
    table = _table("Where recall spends its time, as the service counts it", ("mean ms", "p50 ms", "of requests"))
    for chain, steps in figures.steps.items():
        table.add_section()
        for name, step in sorted(steps.items(), key=lambda item: -item[1].mean_ms):
            table.add_row(
                f"{_NAMES.get(chain, chain)}: {name}", f"{step.mean_ms:.3f}", f"{step.p50_ms:.2f}", str(step.count)
            )
    return table


def _streams(figures: Streams) -> Iterator[Table]:
    table = _table(
        f"Streamed answers, a token every {figures.pause_ms:.0f} ms at the upstream",
        ("first token p50", "p95", "p99", "between p50", "p95", "p99", "on the way p50", "p95", "p99"),
    )
    for name, chain in figures.chains.items():
        kinds = (chain.first_token, chain.between, chain.on_the_way)
        table.add_row(_NAMES[name], *(cell for times in kinds for cell in _times(times)))
    table.add_section()
    alone, product = figures.chains[ALONE], figures.chains[PRODUCT]
    table.add_row(
        "added by memory",
        *_added(product.first_token, alone.first_token),
        *_added(product.between, alone.between),
        *_added(product.on_the_way, alone.on_the_way),
    )
    yield table


def _prefixes(figures: Prefixes) -> Iterator[Table]:
    table = _table(
        "How much of the prompt stays the same from turn to turn",
        ("of the prompt before", "a cache would have had", "turns with memories"),
    )
    for name, each in figures.conversations.items():
        table.add_row(name, f"{each.kept:.0%}", f"{each.cached:.0%}", f"{each.with_memory} of {each.turns}")
    yield table


def _growth(figures: Growth) -> Iterator[Table]:
    table = _path_table("While the store grows; one request after the other with pauses", ("MiB", "written s"))
    for point in figures.points:
        name = f"{point.store}, {point.memories:,} memories, {point.users:,} users"
        name += "" if point.settled else " (still indexing)"
        taken = f"{point.resident_bytes['sidecar'] / _MIB:.0f}"
        _path_row(table, name, point.path, taken, f"{point.loading_seconds:.0f}")
    yield table


def _user_sizes(figures: UserSizes) -> Iterator[Table]:
    table = _path_table("One user with more and more memories, Milvus Lite; with pauses")
    for size, path in figures.paths.items():
        _path_row(table, f"{size:,} memories", path)
    yield table


def _bodies(figures: Bodies) -> Iterator[Table]:
    table = _table(
        "Larger bodies, with pauses between requests",
        ("a p50 ms", "b p50", "c p50", "e p50", "e p95", "e p99", "e / (b + c)", "got memories"),
    )
    for size, path in figures.paths.items():
        product = path.chains[PRODUCT]
        middle = (f"{path.chains[name].ms.p50:.2f}" for name in (ALONE, NOOP))
        cells = (*middle, f"{path.embedding.p50:.2f}", *_times(product.ms), f"{path.active.median:.2f} x")
        table.add_row(_bytes(size), *cells, f"{product.with_memory:.0%}")
    yield table


def _processes(figures: Processes) -> Iterator[Table]:
    table = _table(
        f"Several processes, Milvus server, {figures.cores} cores",
        ("b requests/s", "e requests/s", "e p50 ms", "e p99 ms", "allowed", "e to it", "sidecars MiB", "got memories"),
    )
    for count, each in figures.throughput.items():
        product = each.chains[PRODUCT]
        table.add_row(
            str(count),
            f"{each.chains[NOOP].per_second:.0f}",
            f"{product.per_second:.0f}",
            f"{product.ms.p50:.1f}",
            f"{product.ms.p99:.1f}",
            f"{each.allowed:.0f}",
            f"{each.share.median:.0%}",
            f"{figures.resident_bytes[count] / _MIB:.0f}",
            f"{product.with_memory:.0%}",
        )
    yield table


def _recall(figures: ProcessFigures) -> Iterator[Table]:
    table = _table("Recall in the process, embedding included", ("p50 ms", "p95 ms", "p99 ms", "to the embedding"))
    table.add_row("embedding the query", *_times(figures.embedding))
    for size, measured in figures.active.items():
        ratio = f"{measured.p50 / figures.embedding.p50:.2f} x"
        table.add_row(f"an active user with {size:,} memories", *_times(measured), ratio)
    table.add_section()
    for size, first in figures.first.items():
        table.add_row(f"first request of a user with {size:,} who was away", *_times(first.recall))
        table.add_row("    until all of them are at hand", *_times(first.at_hand))
    table.add_section()
    learning = figures.learning
    ratio = f"{learning.turn.p50 / learning.embedding.p50:.2f} x"
    table.add_row(f"processor time to learn from a turn ({learning.kept:.1f} memories)", *_times(learning.turn), ratio)
    table.add_row("    to embed the message", *_times(learning.embedding))
    yield table


def _footprints(figures: Footprints) -> Iterator[Table]:
    table = _table("Memory of the owner indexes, MiB", ("bound", "grown", "counted", "most counted", "users at hand"))
    for each in figures.measured:
        amounts = (each.bound_bytes, each.resident_bytes, each.counted_bytes, each.most_bytes)
        table.add_row(
            f"{each.users:,} active users with {each.memories} memories each",
            *(f"{amount / _MIB:.0f}" for amount in amounts),
            str(each.kept),
        )
    yield table


def _path_table(title: str, further: Sequence[str] = ()) -> Table:
    columns = ("b p50 ms", "c p50", "d p50", "e p50", "e p95", "e p99", "/ (b + c)", "away p50", "/ (b + c + d)")
    return _table(title, (*columns, "got", *further))


def _path_row(table: Table, name: str, path: PathFigures, *further: str) -> None:
    product = path.chains[PRODUCT]
    parts = (path.chains[NOOP].ms, path.embedding, path.search)
    cold = (f"{path.cold_ms.p50:.1f}", f"{path.cold.median:.2f} x") if path.cold_ms and path.cold else ("", "")
    cells = (*(f"{each.p50:.2f}" for each in parts), *_times(product.ms), f"{path.active.median:.2f} x", *cold)
    table.add_row(name, *cells, f"{product.with_memory:.0%}", *further)


def _chain_row(table: Table, name: str, chain: ChainFigures, base_ms: float) -> None:
    added = "" if name == ALONE else f"{chain.ms.p50 - base_ms:.2f}"
    cpu = ("", "") if name == ALONE else (f"{chain.cpu_ms:.2f}", f"{chain.cpu_with_learning_ms:.2f}")
    memory = f"{chain.with_memory:.0%}" if name in (PRODUCT, UNLEARNED) else ""
    table.add_row(_NAMES[name], *_times(chain.ms), added, f"{chain.per_second:.0f}", *cpu, memory)


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _times(measured: Times) -> tuple[str, str, str]:
    return f"{measured.p50:.2f}", f"{measured.p95:.2f}", f"{measured.p99:.2f}"


def _added(one: Times, base: Times) -> tuple[str, str, str]:
    return f"{one.p50 - base.p50:.2f}", f"{one.p95 - base.p95:.2f}", f"{one.p99 - base.p99:.2f}"


def _ratio(ratio: Ratio) -> tuple[str, str, str]:
    return f"{ratio.median:.2f} x", f"{ratio.low:.2f}", f"- {ratio.high:.2f}"


def _share(ratio: Ratio) -> tuple[str, str]:
    return f"{ratio.median:.0%}", f"({ratio.low:.0%} - {ratio.high:.0%})"


def _bytes(size: int) -> str:
    factor = max(each for each in _FACTORS if size >= each)
    return f"{size // factor:,} {_FACTORS[factor]}"


_MAKERS: Mapping[type, Any] = {
    Headline: _headline,
    Streams: _streams,
    Prefixes: _prefixes,
    Growth: _growth,
    UserSizes: _user_sizes,
    Bodies: _bodies,
    Processes: _processes,
    ProcessFigures: _recall,
    Footprints: _footprints,
}
