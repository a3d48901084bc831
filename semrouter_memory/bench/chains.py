"""The same requests through the same Envoy with and without the product."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import track

from semrouter_memory.bench.bare import bare_parts
from semrouter_memory.bench.client import request_ms, token_delays_ms
from semrouter_memory.bench.figures import ChainFigures, Measured
from semrouter_memory.bench.workload import questions, statements
from semrouter_memory.stack.envoy import EnvoyPorts
from semrouter_memory.stack.ports import LOOPBACK, free_port
from semrouter_memory.stack.process import Process
from semrouter_memory.stack.stack import Stack, StackOptions, launch_envoy

TURN = 25
"""Requests to each chain before it is the next one's turn."""
_WARM_UP = 5
"""Of each turn: caches hold what ran before."""
_MODULE = "semrouter_memory.bench"


@dataclass(frozen=True, slots=True)
class Samples:
    """What is measured of one chain: milliseconds of requests, and of tokens on their way."""

    requests: list[float]
    tokens: list[float]


class ChainBench:
    """All chains are up at the same time and measured in turn, a few requests each, again and again.

    Strategy: a shared machine is half as fast from one minute to the next. Measured in turn, every figure has its part of
    the slow and of the fast minutes, and the ratios hold.
    """

    def __init__(self, model: Path, directory: Path, *, requests: int, stored: int, console: Console) -> None:
        self._model = model
        self._directory = directory
        self._questions = questions(requests)
        self._contents = [content for _, content in statements(stored)]
        self._console = console

    async def run(self) -> ChainFigures:
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
            self._say(f"measuring {len(self._questions)} requests through each")
            for start in track(
                range(0, len(self._questions), TURN), "through Envoy", console=self._console, transient=True
            ):
                asked = self._questions[start : start + TURN]
                await self._take_turns(chains, asked)
                for question in asked:
                    embedded, searched = await parts.ms(question)
                    embedding.append(embedded)
                    search.append(searched)
        alone, noop, product = chains.values()
        return ChainFigures(
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
            await _store(stack, self._contents, self._console)
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


async def _store(stack: Stack, contents: Sequence[str], console: Console) -> None:
    headers = {"authorization": "Bearer demo-key-alice"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30) as client:
        for content in track(contents, "storing", console=console, transient=True, disable=not console.is_terminal):
            (await client.post("/v1/memory", json={"content": content})).raise_for_status()
