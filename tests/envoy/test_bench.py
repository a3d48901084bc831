"""The benchmark's installation: the chains differ in what stands behind the filters and in nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path as Directory

import pytest
from rich.console import Console

from bench.client import stream
from bench.context import Amount, Bench, opened
from bench.figures import ALONE, NOOP, PRODUCT, UNLEARNED
from bench.histograms import TOGETHER
from bench.rounds import Path, Rounds
from bench.sections import resident
from bench.upstream import TOKENS
from bench.workload import http_request, question_body

AMOUNT = Amount(requests=20, memories=30, quick=True, lite=(), server=())
CHAINS = (ALONE, NOOP, PRODUCT, UNLEARNED)
USERS = {"main": 30, "away": 30}


@pytest.fixture
async def bench(tmp_path: Directory, model_directory: Directory) -> AsyncIterator[Bench]:
    async with opened(model_directory, tmp_path, AMOUNT, Console(quiet=True)) as opened_bench:
        yield opened_bench


async def test_memories_reach_the_upstream_through_the_product_alone_and_each_service_is_accounted_for(
    bench: Bench,
) -> None:
    data = bench.directory / "data"
    await bench.seed(data, USERS)
    routes = {UNLEARNED: {"x-memory-auto-store": "false"}}
    async with bench.installation("it", data, USERS, routes=routes) as on, bench.parts(data) as parts:
        measuring = Rounds(on, parts)
        await measuring.activate(["main"], chains=CHAINS)
        path = await measuring.path(
            Path(chains=CHAINS, user="main", rounds=1, turn=6, away=["away"]), done=lambda _: None
        )
        many = await measuring.throughput(
            ["main", "away"], (NOOP, PRODUCT), rounds=1, per_connection=3, done=lambda _: None
        )
        answer = await stream(on.ports[PRODUCT], http_request("main", question_body("Where to?", stream=True)))
        taken = resident(on)

    shares = {name: chain.with_memory for name, chain in path.chains.items()}
    assert shares[ALONE] == shares[NOOP] == 0.0
    assert min(shares[PRODUCT], shares[UNLEARNED]) > 0.0
    cpu_ms = {name: chain.cpu_ms for name, chain in path.chains.items()}
    assert cpu_ms[ALONE] == 0.0
    assert 0.0 < cpu_ms[NOOP] < cpu_ms[PRODUCT]
    assert path.cold_ms is not None
    assert path.cold_ms.count == 1
    assert measuring.steps[PRODUCT].figures()[TOGETHER].count >= 6
    assert 0.0 < many.allowed < many.chains[NOOP].per_second
    assert len(answer.between) == TOKENS - 1
    assert set(taken) == {"sidecar", "Milvus Lite", "no-op service", "Envoy"}
