"""The section `processes`: many connections through one to four processes of the product, on a Milvus server.

They share a data directory and have an address each, between which Envoy chooses (LEAST_REQUEST). The no-op service has
as many, because the floor of two processes is that of two.
"""

import os
from collections.abc import Sequence

from semrouter_memory.bench import accounting
from semrouter_memory.bench.context import Bench
from semrouter_memory.bench.figures import Processes, Throughput
from semrouter_memory.bench.headline import CONNECTIONS
from semrouter_memory.bench.installation import NOOP, PRODUCT
from semrouter_memory.bench.rounds import Rounds
from semrouter_memory.config import MilvusConfig

COUNTS = (1, 2, 3, 4)
_MEMORIES = 200
_ROUNDS, _PER_CONNECTION = 3, 15


async def processes(bench: Bench) -> Processes:
    """Measure."""
    milvus = MilvusConfig(uri=await bench.milvus(), collection="processes")
    busy = [f"busy-{number}" for number in range(CONNECTIONS)]
    users = dict.fromkeys(busy, _MEMORIES)
    data = bench.directory / "processes" / "data"
    await bench.seed(data, users, milvus)
    throughput: dict[int, Throughput] = {}
    taken: dict[int, int] = {}
    memory = {"milvus": {"uri": milvus.uri, "collection": milvus.collection}}
    for count in COUNTS:
        plan = bench.installation("processes", data, users, memory=memory, processes=count)
        async with plan as on, bench.parts(data, milvus) as parts:
            throughput[count] = await _measured(bench, Rounds(on, parts), busy, count)
            taken[count] = accounting.resident_bytes(on.service(PRODUCT))
    return Processes(cores=len(os.sched_getaffinity(0)), throughput=throughput, resident_bytes=taken)


async def _measured(bench: Bench, measuring: Rounds, busy: Sequence[str], count: int) -> Throughput:
    with bench.progress(f"{len(busy)} connections, processes: {count}", _ROUNDS) as done:
        await measuring.activate(busy, chains=(NOOP, PRODUCT))
        return await measuring.throughput(
            busy, (NOOP, PRODUCT), rounds=_ROUNDS, per_connection=_PER_CONNECTION, done=done
        )
