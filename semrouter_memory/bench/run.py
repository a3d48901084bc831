"""`semrouter-memory bench`: the same requests through the same Envoy with and without the product."""

import asyncio
import math
import shutil
import statistics
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from semrouter_memory.bench.bare import bare_parts
from semrouter_memory.bench.client import request_ms, token_delays_ms
from semrouter_memory.bench.upstream import TOKENS
from semrouter_memory.bench.workload import memories, questions
from semrouter_memory.stack.envoy import EnvoyPorts
from semrouter_memory.stack.ports import LOOPBACK, free_port
from semrouter_memory.stack.process import Process
from semrouter_memory.stack.stack import Stack, StackOptions, launch_envoy

_TURN = 50
_WARM_UP = 5
"""Of each turn: caches hold what ran before."""
_MODULE = "semrouter_memory.bench"


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of the table: milliseconds."""

    p50: float
    p95: float

    @classmethod
    def of(cls, times: Sequence[float]) -> "Measured":
        return cls(statistics.median(times), statistics.quantiles(times, n=20)[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All of one run. Requests first, then the delay of a streamed token."""

    envoy: Measured
    noop: Measured
    embedding: Measured
    search: Measured
    product: Measured
    envoy_token: Measured
    noop_token: Measured
    product_token: Measured

    @property
    def floor(self) -> float:
        """What any service of this kind costs: Envoy with a no-op service, plus embedding, plus search; p50."""
        return self.noop.p50 + self.embedding.p50 + self.search.p50


@dataclass(frozen=True, slots=True)
class Samples:
    """What is measured of one chain: milliseconds of requests, and of tokens on their way."""

    requests: list[float]
    tokens: list[float]


class Bench:
    """All chains are up at the same time and measured in turn, a few requests each, again and again.

    Strategy: a shared machine is half as fast from one minute to the next. Measured in turn, every figure has its part of
    the slow and of the fast minutes, and the ratios hold.
    """

    def __init__(self, model: Path, directory: Path, *, requests: int, stored: int, console: Console) -> None:
        self._model = model
        self._directory = directory
        self._questions = questions(requests)
        self._contents = list(memories(stored))
        self._console = console

    async def run(self) -> Figures:
        port = free_port()
        async with AsyncExitStack() as exits:
            module = [_MODULE + ".upstream", str(port)]
            await exits.enter_async_context(_running("the upstream", module, port, self._directory / "upstream.log"))
            llm = f"http://{LOOPBACK}:{port}/v1"
            self._say("starting Envoy alone, with a no-op service, and with the product")
            chains = {
                await exits.enter_async_context(self._envoy_alone(llm)): Samples([], []),
                await exits.enter_async_context(self._noop(llm)): Samples([], []),
                await exits.enter_async_context(self._product(llm)): Samples([], []),
            }
            parts = await exits.enter_async_context(bare_parts(self._model, self._directory / "bare", self._contents))
            embedding: list[float] = []
            search: list[float] = []
            for start in range(0, len(self._questions), _TURN):
                self._say(f"measuring, {start} of {len(self._questions)} requests")
                asked = self._questions[start : start + _TURN]
                await self._take_turns(chains, asked)
                for question in asked:
                    embedded, searched = await parts.ms(question)
                    embedding.append(embedded)
                    search.append(searched)
        alone, noop, product = chains.values()
        return Figures(
            envoy=Measured.of(alone.requests),
            noop=Measured.of(noop.requests),
            embedding=Measured.of(embedding),
            search=Measured.of(search),
            product=Measured.of(product.requests),
            envoy_token=Measured.of(alone.tokens),
            noop_token=Measured.of(noop.tokens),
            product_token=Measured.of(product.tokens),
        )

    async def _take_turns(self, chains: Mapping[int, Samples], asked: Sequence[str]) -> None:
        for listener, samples in chains.items():
            samples.requests.extend(await asyncio.to_thread(request_ms, listener, asked, warm_up=_WARM_UP))
            samples.tokens.extend(await asyncio.to_thread(token_delays_ms, listener, asked[:1]))

    @asynccontextmanager
    async def _envoy_alone(self, llm: str) -> AsyncIterator[int]:
        async with self._envoy(llm, sidecar=free_port(), with_memory=False) as listener:
            yield listener

    @asynccontextmanager
    async def _noop(self, llm: str) -> AsyncIterator[int]:
        port = free_port()
        async with (
            _running("the no-op service", [_MODULE + ".noop", str(port)], port, self._directory / "noop.log"),
            self._envoy(llm, sidecar=port, with_memory=True) as listener,
        ):
            yield listener

    @asynccontextmanager
    async def _envoy(self, llm: str, *, sidecar: int, with_memory: bool) -> AsyncIterator[int]:
        ports = EnvoyPorts(
            listener=free_port(),
            admin=free_port(),
            memory_sidecar=f"{LOOPBACK}:{sidecar}",
            memory_api=free_port(),
            llm=llm,
        )
        name = "noop" if with_memory else "alone"
        process = Process("Envoy", self._directory / f"envoy-{name}.log")
        edit = None if with_memory else _without_memory
        try:
            await launch_envoy(process, self._directory / f"envoy-{name}.yaml", "two-filter.yaml", ports, edit)
            yield ports.listener
        finally:
            await process.stop()

    @asynccontextmanager
    async def _product(self, llm: str) -> AsyncIterator[int]:
        options = StackOptions(directory=self._directory / "product", model_directory=self._model, llm=llm)
        async with Stack(options) as stack:
            self._say(f"storing {len(self._contents)} memories")
            await _store(stack, self._contents)
            yield stack.port

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]==> {text}[/]")


@asynccontextmanager
async def _running(name: str, module: list[str], port: int, log: Path) -> AsyncIterator[None]:
    process = Process(name, log)
    try:
        await process.start([sys.executable, "-m", *module])
        await process.ready(lambda: _accepts(port), timeout_seconds=20)
        yield
    finally:
        await process.stop()


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True


def _without_memory(config: dict[str, Any]) -> None:
    """The chain without the memory filters, and the routes without what they say of them."""
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    manager["http_filters"] = [known for known in manager["http_filters"] if not known["name"].startswith("memory")]
    for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
        route.pop("typed_per_filter_config", None)


async def _store(stack: Stack, contents: Sequence[str]) -> None:
    headers = {"authorization": "Bearer demo-key-alice"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30) as client:
        for content in contents:
            (await client.post("/v1/memory", json={"content": content})).raise_for_status()


async def bench(*, model: Path, directory: Path, requests: int, stored: int) -> None:
    """Measure and print."""
    console = Console()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    figures = await Bench(model, directory, requests=requests, stored=stored, console=console).run()
    console.print(_requests_table(figures, requests=requests, stored=stored))
    console.print(_tokens_table(figures, streams=math.ceil(requests / _TURN)))


def _requests_table(figures: Figures, *, requests: int, stored: int) -> Table:
    table = Table(
        title=f"One chat request after the other: {requests} requests, {stored} memories of the user, Milvus Lite"
    )
    table.add_column("")
    table.add_column("p50 ms", justify="right")
    table.add_column("p95 ms", justify="right")
    rows = {
        "a  Envoy alone": figures.envoy,
        "b  the same chain, no-op service": figures.noop,
        "c  embedding the query": figures.embedding,
        "d  searching the store": figures.search,
        "e  the product": figures.product,
    }
    for name, measured in rows.items():
        table.add_row(name, f"{measured.p50:.2f}", f"{measured.p95:.2f}")
    table.add_section()
    table.add_row("added by memory (e - a)", f"{figures.product.p50 - figures.envoy.p50:.2f}", "")
    table.add_row("the floor (b + c + d)", f"{figures.floor:.2f}", "")
    table.add_row("product to floor", f"{figures.product.p50 / figures.floor:.2f} x", "")
    return table


def _tokens_table(figures: Figures, *, streams: int) -> Table:
    table = Table(title=f"Delay of a streamed token, upstream to client: {streams} streams of {TOKENS} tokens")
    table.add_column("")
    table.add_column("p50 ms", justify="right")
    table.add_column("p95 ms", justify="right")
    rows = {
        "Envoy alone": figures.envoy_token,
        "the same chain, no-op service": figures.noop_token,
        "the product": figures.product_token,
    }
    for name, measured in rows.items():
        table.add_row(name, f"{measured.p50:.3f}", f"{measured.p95:.3f}")
    table.add_section()
    table.add_row("added by memory", f"{figures.product_token.p50 - figures.envoy_token.p50:.3f}", "")
    return table
