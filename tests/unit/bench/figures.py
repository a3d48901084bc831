"""Figures as a run would give them, for tests of what is made of them."""

from bench.figures import (
    ALONE,
    NOOP,
    PRODUCT,
    UNLEARNED,
    Bodies,
    ChainFigures,
    Growth,
    GrowthPoint,
    Headline,
    KnowledgeFigures,
    Learning,
    PathFigures,
    Processes,
    ProcessFigures,
    Ratio,
    Step,
    StreamFigures,
    Streams,
    Throughput,
    Times,
    UserFigures,
)

MIB = 1024 * 1024


def times(p50: float) -> Times:
    return Times(p50, 2 * p50, 3 * p50, 100)


def chain(p50: float, *, per_second: float = 500.0, with_memory: float = 1.0) -> ChainFigures:
    return ChainFigures(
        ms=times(p50),
        per_second=per_second,
        cpu_ms=0.5,
        cpu_with_learning_ms=0.6,
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
    cold_in_time=1.0,
)
THROUGHPUT = Throughput(
    connections=32,
    chains=CHAINS,
    allowed=700.0,
    share=Ratio(0.71, 0.7, 0.72),
)
PROCESSES = Processes(
    connections=32,
    cores=4,
    counts={1: chain(80.0, per_second=200.0), 2: chain(45.0, per_second=370.0)},
    ratio=Ratio(1.85, 1.8, 1.9),
)
HEADLINE = Headline(
    memories=1_000,
    stored=5_000,
    users={size: UserFigures(back_to_back=PATH, paced=PATH) for size in (10, 1_000, 5_000)},
    pause_ms=40.0,
    steps={PRODUCT: {"embed": Step(mean_ms=0.9, p50_ms=0.8, count=100)}},
    resident_bytes={"sidecar": 240 * MIB},
)
STREAM = StreamFigures(first_token=times(2), between=times(5), on_the_way=times(0.2))
STREAMS = Streams(pause_ms=5, chains={ALONE: STREAM, NOOP: STREAM, PRODUCT: STREAM})
RECALL = ProcessFigures(
    embedding=times(2.0),
    active={200: times(3), 1_000: times(3.7), 10_000: times(7.4)},
    first={},
    learning=Learning(turn=times(9.0), embedding=times(3.0), kept=0.8),
)
POINT = GrowthPoint(
    store="Milvus Lite",
    memories=1_000,
    users=20,
    path=PATH,
)
KNOWLEDGE = KnowledgeFigures(
    passages=2_000,
    memories=1_000,
    embedding=times(2.0),
    alone=times(4.0),
    beside=times(12.0),
    with_passages=40,
    adding=Ratio(0.85, 0.8, 0.9),
    settled=True,
)
EVERYTHING = {
    "headline": HEADLINE,
    "throughput": THROUGHPUT,
    "processes": PROCESSES,
    "streams": STREAMS,
    "bodies": Bodies(paths={1_000: PATH, 5_000_000: PATH}),
    "recall": RECALL,
    "growth": Growth(points=[POINT]),
    "knowledge": KNOWLEDGE,
}
