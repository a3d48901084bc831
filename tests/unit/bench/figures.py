"""Figures as a run would give them, for tests of what is made of them."""

from semrouter_memory.bench.figures import (
    Bodies,
    ChainFigures,
    Footprint,
    Footprints,
    Growth,
    GrowthPoint,
    Headline,
    Learning,
    PathFigures,
    Prefixes,
    PrefixFigures,
    Processes,
    ProcessFigures,
    Ratio,
    Step,
    StreamFigures,
    Streams,
    Throughput,
    Times,
    UserSizes,
)
from semrouter_memory.bench.installation import ALONE, NOOP, PRODUCT, UNLEARNED

MIB = 1024 * 1024


def times(p50: float) -> Times:
    return Times(p50, 2 * p50, 3 * p50, 100)


def chain(p50: float, *, per_second: float = 500.0, with_memory: float = 1.0) -> ChainFigures:
    return ChainFigures(
        ms=times(p50),
        per_second=per_second,
        cpu_ms=0.5,
        cpu_with_learning_ms=0.6,
        machine_cpu_ms=1.5,
        with_memory=with_memory,
    )


CHAINS = {ALONE: chain(0.3), NOOP: chain(1.2), PRODUCT: chain(2.5), UNLEARNED: chain(2.4)}
PATH = PathFigures(
    chains=CHAINS,
    embedding=times(0.8),
    embedding_cpu_ms=0.8,
    search=times(2.0),
    active=Ratio(1.25, 1.2, 1.3),
    cold=Ratio(2.0, 1.9, 2.1),
    cold_ms=times(8.0),
    cold_with_memory=1.0,
)
THROUGHPUT = Throughput(
    connections=32,
    chains=CHAINS,
    allowed=700.0,
    share=Ratio(0.71, 0.7, 0.72),
    strict_allowed=900.0,
    strict_share=Ratio(0.55, 0.5, 0.6),
)
HEADLINE = Headline(
    memories=1_000,
    stored=5_000,
    alone=PATH,
    paced=PATH,
    pause_ms=40.0,
    many=THROUGHPUT,
    steps={PRODUCT: {"embed": Step(mean_ms=0.9, p50_ms=0.8, count=100)}},
    resident_bytes={"sidecar": 240 * MIB},
)
STREAM = StreamFigures(first_token=times(2), between=times(5), on_the_way=times(0.2))
STREAMS = Streams(pause_ms=5, chains={ALONE: STREAM, NOOP: STREAM, PRODUCT: STREAM})
PREFIXES = Prefixes(conversations={"chat, system": PrefixFigures(turns=9, kept=0.4, cached=0.3, with_memory=8)})
RECALL = ProcessFigures(
    embedding=times(2.0),
    active={200: times(3), 1_000: times(3.7), 10_000: times(7.4)},
    first={},
    learning=Learning(turn=times(9.0), embedding=times(3.0), kept=0.8),
)
FOOTPRINT = Footprint(
    users=10,
    memories=200,
    bound_bytes=8 * MIB,
    counted_bytes=7 * MIB,
    most_bytes=8 * MIB,
    resident_bytes=9 * MIB,
    kept=10,
)
POINT = GrowthPoint(
    store="Milvus Lite",
    memories=1_000,
    users=20,
    path=PATH,
    resident_bytes={"sidecar": 240 * MIB},
    loading_seconds=1.0,
)
EVERYTHING = {
    "requests": HEADLINE,
    "streams": STREAMS,
    "prefix": PREFIXES,
    "user": UserSizes(paths={10: PATH, 1_000: PATH}),
    "bodies": Bodies(paths={1_000: PATH, 5_000_000: PATH}),
    "recall": RECALL,
    "memory": Footprints(measured=[FOOTPRINT]),
    "growth": Growth(points=[POINT]),
    "processes": Processes(cores=2, throughput={1: THROUGHPUT, 2: THROUGHPUT}, resident_bytes={1: MIB, 2: MIB}),
}
