"""What the sections of a benchmark share: where, how much, the model, a Milvus server for those that need one."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import accounting
from bench.installation import Installation
from bench.milvus_server import MilvusServer
from bench.parts import BareParts, open_collection, open_store
from bench.redis_server import MISSING, RedisServer, find_redis
from bench.seeding import Seeder
from semrouter_memory.config import EmbeddingConfig, MilvusConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import ConfigurationError

_SETTLED_SECONDS, _SETTLED_SHARE = 5.0, 0.3
"""A server that has nothing to do takes a tenth of a core; while it builds an index, all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much is measured.

    Attributes:
        requests: one after the other, through each chain.
        memories: of the user who asks.
        lite: how many memories are on Milvus Lite in one step of the growth after the other.
        server: the same on a Milvus server.
        passages: of documents in the store.
        processes: behind one address, compared with one.
    """

    requests: int
    memories: int
    quick: bool
    lite: tuple[int, ...]
    server: tuple[int, ...]
    passages: int = 2_000
    processes: int = 2


class Bench:
    """Use `opened`."""

    def __init__(
        self,
        *,
        model: Path,
        directory: Path,
        amount: Amount,
        console: Console,
        embedder: OnnxEmbedder,
        on_exit: AsyncExitStack,
    ) -> None:
        self.model = model
        self.directory = directory
        self.amount = amount
        self.embedder = embedder
        self._console = console
        self._on_exit = on_exit
        self._seeder = Seeder(embedder)
        self._milvus: MilvusServer | None = None
        self._redis: RedisServer | None = None

    async def milvus(self) -> str:
        """The address of a Milvus server, started when it is first asked for."""
        if self._milvus is None:
            self.say("starting a Milvus server")
            server = await asyncio.to_thread(MilvusServer, _made(self.directory / "milvus"))
            self._on_exit.push_async_callback(asyncio.to_thread, server.discard)
            await asyncio.to_thread(server.start)
            self._milvus = server
        return self._milvus.uri

    async def redis(self) -> str:
        """The address of a Redis server, started when it is first asked for.

        Raises:
            ConfigurationError: there is no such program.
        """
        if self._redis is None:
            program = find_redis()
            if program is None:
                raise ConfigurationError(MISSING)
            self.say("starting a Redis server")
            server = RedisServer(program, _made(self.directory / "redis"))
            self._on_exit.push_async_callback(asyncio.to_thread, server.kill)
            await asyncio.to_thread(server.start)
            self._redis = server
        return self._redis.url

    async def settled(self) -> bool:
        """Wait until the Milvus server has done what it was given; False when it still works after three minutes."""
        self.say("waiting until the server has settled")
        pids = (self._milvus.pid,) if self._milvus else ()
        return await accounting.quiet(pids, look_seconds=_SETTLED_SECONDS, share=_SETTLED_SHARE)

    async def seed(self, data: Path, users: Mapping[str, int], milvus: MilvusConfig | None = None) -> None:
        """Write so many memories of each user into the store of that data directory."""
        total = sum(users.values())
        async with open_collection(self.embedder, milvus or MilvusConfig(), _made(data)) as collection:
            with self.progress(f"writing {total:,} memories", total) as progress:
                await self._seeder.write(collection, users, progress=progress)
            if milvus is not None:
                # A server searches what it has not closed and indexed yet row by row.
                await collection.compact()

    @asynccontextmanager
    async def parts(self, data: Path, milvus: MilvusConfig | None = None) -> AsyncIterator[BareParts]:
        """The bare parts. On Milvus Lite, whose file has one owner, of a copy of that data directory."""
        directory = data
        if milvus is None:
            directory = data.with_name(f"{data.name}-copy")
            shutil.rmtree(directory, ignore_errors=True)
            await asyncio.to_thread(shutil.copytree, data, directory)
        async with open_store(self.embedder, milvus or MilvusConfig(), directory) as store:
            yield BareParts(self.embedder, store)

    def installation(self, name: str, data: Path, users: Mapping[str, int], **further: Any) -> Installation:
        return Installation(model=self.model, directory=self.directory / name, data=data, users=users, **further)

    def say(self, text: str) -> None:
        self._console.print(f"[dim]==> {text}[/]", highlight=False)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], object]]:
        """Says what is done, and shows how far it is; drawn only when told, to leave the cores to what is measured."""
        self.say(what)
        columns = TextColumn("    "), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        shown = self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, auto_refresh=False, disable=not shown) as bar:
            task = bar.add_task(what, total=total)

            def advance(by: int = 1) -> None:
                bar.update(task, advance=by, refresh=True)

            yield advance


@asynccontextmanager
async def opened(model: Path, directory: Path, amount: Amount, console: Console) -> AsyncIterator[Bench]:
    """A bench in a directory that holds nothing else; what it started ends with it."""
    shutil.rmtree(directory, ignore_errors=True)
    async with AsyncExitStack() as exits:
        embedder = await asyncio.to_thread(OnnxEmbedder.load, EmbeddingConfig(), model)
        yield Bench(
            model=model,
            directory=_made(directory),
            amount=amount,
            console=console,
            embedder=embedder,
            on_exit=exits,
        )


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
