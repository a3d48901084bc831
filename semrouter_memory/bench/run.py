"""`semrouter-memory bench`: the same requests through the same Envoy with and without the product."""

import asyncio
import shutil
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from semrouter_memory.bench.bare import bare_ms
from semrouter_memory.bench.client import request_ms, token_delays_ms
from semrouter_memory.bench.upstream import TOKENS
from semrouter_memory.bench.workload import memories, questions
from semrouter_memory.stack.envoy import EnvoyPorts
from semrouter_memory.stack.ports import LOOPBACK, free_port
from semrouter_memory.stack.process import Process
from semrouter_memory.stack.stack import Stack, StackOptions, launch_envoy

_WARM_UP = 50
_STREAMS = 10
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


class Bench:
    def __init__(self, model: Path, directory: Path, *, requests: int, stored: int, console: Console) -> None:
        self._model = model
        self._directory = directory
        self._questions = questions(requests + _WARM_UP)
        self._contents = list(memories(stored))
        self._console = console

    async def run(self) -> Figures:
        port = free_port()
        async with _running("the upstream", [_MODULE + ".upstream", str(port)], port, self._directory / "upstream.log"):
            llm = f"http://{LOOPBACK}:{port}/v1"
            async with self._envoy_alone(llm) as listener:
                envoy, envoy_token = await self._measure("Envoy alone", listener)
            async with self._noop(llm) as listener:
                noop, noop_token = await self._measure("the same chain with a no-op service", listener)
            embedding, search = await self._bare()
            async with self._product(llm) as listener:
                product, product_token = await self._measure("the product", listener)
        return Figures(
            envoy=envoy,
            noop=noop,
            embedding=embedding,
            search=search,
            product=product,
            envoy_token=envoy_token,
            noop_token=noop_token,
            product_token=product_token,
        )

    async def _measure(self, what: str, listener: int) -> tuple[Measured, Measured]:
        self._say(f"measuring {what}")
        requests = await asyncio.to_thread(request_ms, listener, self._questions, warm_up=_WARM_UP)
        tokens = await asyncio.to_thread(token_delays_ms, listener, self._questions[:_STREAMS])
        return Measured.of(requests), Measured.of(tokens)

    async def _bare(self) -> tuple[Measured, Measured]:
        self._say(f"measuring embedding and search by themselves, {len(self._contents)} memories")
        directory = self._directory / "bare"
        directory.mkdir()
        embedding, search = await bare_ms(self._model, directory, self._contents, self._questions)
        return Measured.of(embedding[_WARM_UP:]), Measured.of(search[_WARM_UP:])

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
        process = Process("Envoy", self._directory / "envoy.log")
        edit = None if with_memory else _without_memory
        try:
            await launch_envoy(process, self._directory / "envoy.yaml", "two-filter.yaml", ports, edit)
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
    console.print(_tokens_table(figures))


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


def _tokens_table(figures: Figures) -> Table:
    table = Table(title=f"Delay of a streamed token, upstream to client: {_STREAMS} streams of {TOKENS} tokens")
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
