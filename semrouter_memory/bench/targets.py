"""Which goals a run's figures do not reach. Pure. Times are compared as ratios within the run."""

from collections.abc import Iterator, Mapping
from typing import Any

from semrouter_memory.bench.figures import FLOOR_TARGET, THROUGHPUT_TARGET, Footprints, Headline, ProcessFigures
from semrouter_memory.bench.installation import PRODUCT

MOST = 0.8
"""Of the measured requests must get memories, or the product's times are of something else."""
_EMBEDDING_MS = 0.8
"""Of a query, on the machine that the goals of milliseconds are for; on another one ratios carry over."""
_RECALL_MS = {1_000: 1.5, 10_000: 3.0}
"""By how many memories the user has: p50 of recall in the process, embedding included."""
_FOOTPRINT_BYTES = 400 * 1024 * 1024


def goals(figures: Mapping[str, Any]) -> dict[str, bool]:
    """Which goals there are for what was measured, and whether it reaches them."""
    return {goal: is_reached for each in figures.values() for goal, is_reached in _goals(each)}


def missed(figures: Mapping[str, Any]) -> list[str]:
    """A section that was not measured misses nothing."""
    return [goal for goal, is_reached in goals(figures).items() if not is_reached]


def _goals(figures: Any) -> Iterator[tuple[str, bool]]:
    if isinstance(figures, Headline):
        yield from _of_requests(figures)
    elif isinstance(figures, ProcessFigures):
        for size, target_ms in _RECALL_MS.items():
            if size in figures.active:
                most = target_ms / _EMBEDDING_MS * figures.embedding.p50
                yield f"recall with {size:,} memories", figures.active[size].p50 <= most
    elif isinstance(figures, Footprints):
        grown = all(each.resident_bytes <= _FOOTPRINT_BYTES for each in figures.measured)
        yield "memory of the owner indexes", grown
        yield "the owner indexes' bound", all(each.most_bytes <= each.bound_bytes for each in figures.measured)


def _of_requests(figures: Headline) -> Iterator[tuple[str, bool]]:
    yield (
        f"at most {FLOOR_TARGET} x the floor, active user, nothing else going on",
        figures.paced.active.median <= FLOOR_TARGET,
    )
    share = figures.many.share.median
    yield f"at least {THROUGHPUT_TARGET:.0%} of the throughput that the floor allows", share >= THROUGHPUT_TARGET
    for what, chains in (("one at a time", figures.alone.chains), ("many at a time", figures.many.chains)):
        yield f"memories in at least {MOST:.0%} of the requests, {what}", chains[PRODUCT].with_memory >= MOST
