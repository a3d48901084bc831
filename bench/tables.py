"""What a benchmark measured, as tables. Pure; each figure in them is one of this run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from bench.figures import (
    ALONE,
    FLOOR_TARGET,
    NOOP,
    PRODUCT,
    THROUGHPUT_TARGET,
    UNLEARNED,
    Bodies,
    ChainFigures,
    Growth,
    Headline,
    KnowledgeFigures,
    PathFigures,
    Processes,
    ProcessFigures,
    Ratio,
    Streams,
    Throughput,
    Times,
)

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
    yield _back_to_back(figures)
    table = _path_table("Active users, one request after the other")
    for size, user in figures.users.items():
        _path_row(table, f"{size:,} memories, {figures.pause_ms:.0f} ms between requests", user.paced)
        _path_row(table, "    back to back", user.back_to_back)
    yield table
    yield _steps(figures)
    table = _table("Memory of the processes at the end of this", ("MiB",))
    for name, taken in figures.resident_bytes.items():
        table.add_row(name, f"{taken / _MIB:.0f}")
    yield table


_CHAIN_COLUMNS = ("p50 ms", "p95 ms", "p99 ms", "added p50", "requests/s", "CPU ms", "with learning", "got memories")


def _back_to_back(figures: Headline) -> Table:
    path = figures.main.back_to_back
    table = _table(
        f"One chat request after the other: {figures.memories:,} memories of the user, {figures.stored:,} in the store",
        _CHAIN_COLUMNS,
    )
    base = path.chains[ALONE].ms.p50
    for name in (ALONE, NOOP):
        _chain_row(table, name, path.chains[name], base)
    table.add_row("c  embedding the query, bare", *_times(path.embedding), "", "", f"{path.embedding_cpu_ms:.2f}")
    table.add_row("d  searching the store, bare", *_times(path.search))
    for name in (PRODUCT, UNLEARNED):
        _chain_row(table, name, path.chains[name], base)
    if path.cold_ms is not None:
        row = (*_times(path.cold_ms), f"{path.cold_ms.p50 - base:.2f}")
        in_time = f"{path.cold_in_time:.0%} in time"
        table.add_row(f"   first requests of {path.cold_ms.count} users since the start, {in_time}", *row)
    table.add_section()
    goal = f"goal {FLOOR_TARGET} x"
    table.add_row("active user, with pauses: e / (b + c)", *_ratio(figures.main.paced.active), goal)
    table.add_row("the same back to back", *_ratio(path.active))
    if path.cold is not None:
        table.add_row("first request since the start: e / (b + c + d)", *_ratio(path.cold))
    return table


def _throughput(figures: Throughput) -> Iterator[Table]:
    table = _table(f"{figures.connections} connections at a time, each a user of its own", _CHAIN_COLUMNS)
    base = figures.chains[ALONE].ms.p50
    for name, chain in figures.chains.items():
        _chain_row(table, name, chain, base)
    table.add_section()
    spaces = ("",) * 4
    table.add_row("allowed by the floor's CPU time", *spaces, f"{figures.allowed:.0f}")
    table.add_row("    the product's to it", *spaces, *_share(figures.share), f"goal {THROUGHPUT_TARGET:.0%}")
    yield table


def _processes(figures: Processes) -> Iterator[Table]:
    table = _table(
        f"{figures.connections} connections at a time, on {figures.cores} cores, with Redis and a Milvus server",
        ("p50 ms", "p95 ms", "p99 ms", "requests/s", "CPU ms", "with learning", "got memories"),
    )
    for count, chain in figures.counts.items():
        cpu = (f"{chain.cpu_ms:.2f}", f"{chain.cpu_with_learning_ms:.2f}")
        name = "one process" if count == 1 else f"{count} processes behind one address"
        table.add_row(name, *_times(chain.ms), f"{chain.per_second:.0f}", *cpu, f"{chain.with_memory:.0%}")
    table.add_section()
    table.add_row(
        f"requests/s, {figures.several} to one", *_ratio(figures.ratio), f"goal {figures.target:.1f} x", "", "", ""
    )
    table.add_row("    for each process", f"{figures.ratio.median / figures.several:.2f}")
    yield table


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


def _growth(figures: Growth) -> Iterator[Table]:
    table = _path_table("While the store grows; one request after the other with pauses")
    for point in figures.points:
        name = f"{point.store}, {point.memories:,} memories, {point.users:,} users"
        _path_row(table, name if point.settled else f"{name} (still indexing)", point.path)
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


def _path_table(title: str) -> Table:
    columns = ("b p50 ms", "c p50", "d p50", "e p50", "e p95", "e p99", "/ (b + c)", "first p50", "/ (b + c + d)")
    return _table(title, (*columns, "got"))


def _path_row(table: Table, name: str, path: PathFigures) -> None:
    product = path.chains[PRODUCT]
    parts = (path.chains[NOOP].ms, path.embedding, path.search)
    cold = (f"{path.cold_ms.p50:.1f}", f"{path.cold.median:.2f} x") if path.cold_ms and path.cold else ("", "")
    cells = (*(f"{each.p50:.2f}" for each in parts), *_times(product.ms), f"{path.active.median:.2f} x", *cold)
    table.add_row(name, *cells, f"{product.with_memory:.0%}")


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


def _knowledge(figures: KnowledgeFigures) -> Iterator[Table]:
    indexing = "" if figures.settled else " (still indexing)"
    table = _table(
        f"{figures.passages:,} passages of documents on a Milvus server{indexing}, {figures.memories:,} memories of the user",
        ("p50 ms", "p95 ms", "p99 ms"),
    )
    table.add_row("embedding the query, bare", *_times(figures.embedding))
    table.add_row("recall without documents", *_times(figures.alone))
    table.add_row("recall with documents", *_times(figures.beside))
    table.add_row(f"    {figures.with_passages} of {figures.beside.count} requests were given a passage")
    table.add_row("embedding a document's passages / adding it", *_ratio(figures.adding))
    yield table


_MAKERS: Mapping[type, Any] = {
    Headline: _headline,
    Throughput: _throughput,
    Streams: _streams,
    Bodies: _bodies,
    Processes: _processes,
    ProcessFigures: _recall,
    Growth: _growth,
    KnowledgeFigures: _knowledge,
}
