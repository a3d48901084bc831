"""What a benchmark measured, as tables, with the targets beside the figures. Pure."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from semrouter_memory.bench.figures import ChainFigures, Footprint, Measured, ProcessFigures
from semrouter_memory.bench.upstream import TOKENS

FLOOR_TARGET = 1.5
"""The product's p50 to the floor's."""
EMBEDDING_MS = 0.8
"""Of a query, on the machine that the targets of milliseconds are for; on another one ratios carry over."""
RECALL_TARGETS_MS = {1_000: 1.5, 10_000: 3.0}
"""By how many memories the user has: p50 of the recall step, embedding included."""
FOOTPRINT_TARGET_MB = 400
_MIB = 1024 * 1024


def requests_table(figures: ChainFigures, *, requests: int, stored: int) -> Table:
    table = _table(
        f"One chat request after the other: {requests} requests, {stored} memories of the user, Milvus Lite",
        ("p50 ms", "p95 ms", "target"),
    )
    rows = {
        "a  Envoy alone": figures.envoy,
        "b  the same chain, no-op service": figures.noop,
        "c  embedding the query": figures.embedding,
        "d  searching the store, which an active user's request does not": figures.search,
        "e  the product": figures.product,
    }
    for name, measured in rows.items():
        table.add_row(name, *_times(measured))
    table.add_section()
    table.add_row("added by memory (e - a)", f"{figures.product.p50 - figures.envoy.p50:.2f}")
    table.add_row("the floor (b + c)", f"{figures.floor:.2f}")
    ratio = figures.product.p50 / figures.floor
    table.add_row("product to floor", f"{ratio:.2f} x", "", f"{FLOOR_TARGET} x")
    return table


def tokens_table(figures: ChainFigures, *, streams: int) -> Table:
    table = _table(
        f"Delay of a streamed token, upstream to client: {streams} streams of {TOKENS} tokens", ("p50 ms", "p95 ms")
    )
    rows = {
        "Envoy alone": figures.envoy_token,
        "the same chain, no-op service": figures.noop_token,
        "the product": figures.product_token,
    }
    for name, measured in rows.items():
        table.add_row(name, f"{measured.p50:.3f}", f"{measured.p95:.3f}")
    table.add_section()
    table.add_row("added by memory", f"{figures.product_token.p50 - figures.envoy_token.p50:.3f}")
    return table


def process_table(figures: ProcessFigures, *, questions: int) -> Table:
    table = _table(
        f"Recall in the process, embedding included: {questions} questions of 4 to 15 words",
        ("p50 ms", "p95 ms", "to the embedding", "target"),
    )
    table.add_row("embedding the query", *_times(figures.embedding))
    for size, measured in figures.active.items():
        target = RECALL_TARGETS_MS.get(size)
        wanted = f"{target} ms or {target / EMBEDDING_MS:.2f} x" if target else ""
        ratio = f"{measured.p50 / figures.embedding.p50:.2f} x"
        table.add_row(f"an active user with {size:,} memories", *_times(measured), ratio, wanted)
    table.add_section()
    for size, first in figures.first.items():
        table.add_row(f"first request of a user with {size:,} who was away", *_times(first.recall))
        table.add_row("    until all of them are at hand", *_times(first.at_hand))
    return table


def footprint_table(footprints: Sequence[Footprint]) -> Table:
    table = _table(
        "Memory of the working set, MiB", ("bound", "grown", "counted", "most counted", "users at hand", "target")
    )
    for each in footprints:
        amounts = (each.bound_bytes, each.resident_bytes, each.counted_bytes, each.most_bytes)
        table.add_row(
            f"{each.users:,} active users with {each.memories} memories each",
            *(f"{amount / _MIB:.0f}" for amount in amounts),
            str(each.kept),
            f"grown at most {FOOTPRINT_TARGET_MB}" if each.kept == each.users else "most counted at most the bound",
        )
    return table


def missed(chain: ChainFigures, process: ProcessFigures, footprints: Sequence[Footprint]) -> list[str]:
    """Which targets these figures do not reach. Times are compared as ratios to the embedding of the same run."""
    embedding = process.embedding.p50
    reached: Mapping[str, bool] = {
        "product to floor": chain.product.p50 <= FLOOR_TARGET * chain.floor,
        **{
            f"recall with {size:,} memories": process.active[size].p50 <= target / EMBEDDING_MS * embedding
            for size, target in RECALL_TARGETS_MS.items()
            if size in process.active
        },
        "memory": all(each.resident_bytes <= FOOTPRINT_TARGET_MB * _MIB for each in footprints),
        "the working set's bound": all(each.most_bytes <= each.bound_bytes for each in footprints),
    }
    return [name for name, is_reached in reached.items() if not is_reached]


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title)
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _times(measured: Measured) -> tuple[str, str]:
    return f"{measured.p50:.2f}", f"{measured.p95:.2f}"
