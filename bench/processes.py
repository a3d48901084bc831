"""Several processes behind one address, compared with one: same machine, same servers, many connections.

Strategy: two installations that differ in the number of processes alone, each with its own collection and its own keys in one
Redis, are up at the same time and measured in turn, so that a ratio is one of the same minute.
"""

import os
from contextlib import AsyncExitStack

from bench.context import Bench
from bench.figures import PRODUCT, Processes, Ratio
from bench.rounds import Rounds, Sample, figures_of
from bench.sections import BUSY_MEMORIES, CONNECTIONS
from semrouter_memory.config import MilvusConfig

_REQUESTS_A_ROUND = 100
"""Of those one after the other in the other sections: so many of them for one round."""
_LEAST_ROUNDS = 3
_DEADLINE_MS = 2_000
"""Long, so that both do the whole work: a request whose recall is given up costs less, and more of them are given up where
the machine is busier."""


async def processes(bench: Bench) -> Processes:
    """Requests per second and processor time of one process and of several."""
    rounds = max(bench.amount.requests // _REQUESTS_A_ROUND, _LEAST_ROUNDS)
    busy = [f"busy-{number}" for number in range(CONNECTIONS)]
    milvus, redis = await bench.milvus(), await bench.redis()
    counts = (1, bench.amount.processes)
    samples: dict[int, list[Sample]] = {count: [] for count in counts}
    async with AsyncExitStack() as exits:
        measuring = {}
        for count in counts:
            store = MilvusConfig(uri=milvus, collection=f"processes_{count}")
            data = bench.directory / f"processes-{count}" / "data"
            users = dict.fromkeys(busy, BUSY_MEMORIES)
            await bench.seed(data, users, store)
            memory = {
                "milvus": {"uri": milvus, "collection": store.collection},
                "redis": {"url": redis, "prefix": f"bench-{count}"},
                "recall": {"deadline_ms": _DEADLINE_MS},
            }
            on = await exits.enter_async_context(
                bench.installation(data.parent.name, data, users, memory=memory, processes=count)
            )
            parts = await exits.enter_async_context(bench.parts(data, store))
            measuring[count] = Rounds(on, parts)
        await bench.settled()
        for count in counts:
            # Each process has to get each user's memories to hand.
            for _ in range(count):
                await measuring[count].activate(busy)
        with bench.progress(f"requests over {CONNECTIONS} connections", rounds) as done:
            each = 10 if bench.amount.quick else 20
            for number in range(rounds):
                for count in counts if number % 2 == 0 else reversed(counts):
                    samples[count].append(await measuring[count].many(busy, PRODUCT, per_connection=each))
                done(1)
    one, several = (samples[count] for count in counts)
    return Processes(
        connections=CONNECTIONS,
        cores=os.cpu_count() or 1,
        counts={count: figures_of(samples[count]) for count in counts},
        ratio=Ratio.of([b.requests / b.seconds / (a.requests / a.seconds) for a, b in zip(one, several, strict=True)]),
    )
