"""The composition root: configuration -> adapters -> pipelines -> servers, and the order in which they start and stop.

Start: what may refuse the configuration first (model, turn log, store), the ports last, so that whoever connects is
served. Stop: no new streams, let running ones end; no new work, let running work end; close what holds data.
"""

import asyncio
import gc
import secrets
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
import uvloop

from semrouter_memory import __version__
from semrouter_memory.config import Config, secret
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.exchange.exchange import ExchangeSettings
from semrouter_memory.llm.client import OpenAIChatModel
from semrouter_memory.manage.http import create_user_api
from semrouter_memory.manage.operator import Exposition, Readiness, create_operator_api
from semrouter_memory.manage.server import serve_http
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.recall.pipeline import Recaller
from semrouter_memory.recall.rewrite import QueryRewriter
from semrouter_memory.retain.pipeline import Retainer, SessionKey
from semrouter_memory.retain.redact import redact
from semrouter_memory.sessions.locks import InProcessOwnerLocks
from semrouter_memory.sessions.sqlite import SqliteTurnLog
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.telemetry import logs
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.telemetry.observer import TelemetryObserver
from semrouter_memory.transport.processor import Processor
from semrouter_memory.transport.server import ExtProcServer, require_local_or_secret
from semrouter_memory.workers import WorkerPool

_log = structlog.get_logger("semrouter_memory")

_DATA_MODE = 0o700


class SystemClock:
    """The `Clock` of the running service."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def new_memory_id() -> str:
    """`mem_`, 12 hex digits of milliseconds, 16 random ones: sorts by time, cannot be guessed."""
    return f"mem_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Adapters:
    """The outside world, connected."""

    embedder: OnnxEmbedder
    store: MilvusStore
    turn_log: SqliteTurnLog
    locks: InProcessOwnerLocks
    clock: SystemClock
    observer: TelemetryObserver


class App:
    """The whole sidecar in one event loop. Use `start`, then `stop`; a failed start leaves nothing behind."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._exit = AsyncExitStack()
        self._metrics = Metrics()
        self._observer = TelemetryObserver(self._metrics)
        self.ext_proc_address = ""

    async def start(self) -> None:
        """Start everything.

        Raises:
            ConfigurationError: a setting, file, port or schema that somebody must mend; its message says how.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop everything, in the reverse of the order in which it was started."""
        await self._exit.aclose()

    async def _start(self) -> None:
        config = self._config
        shared_secret = secret(config.server.shared_secret, config.server.shared_secret_file)
        for setting, listen in (("server", config.server.listen), ("management", config.management.listen)):
            require_local_or_secret(f"{setting}.listen", listen, shared_secret, header=config.server.secret_header)
        adapters = await self._connect()
        retainer = self._start_workers(adapters, await self._chat_model("memory_extraction"))
        await self._start_management(adapters, shared_secret)
        # Last, so that it is the first to stop: no new streams come while the rest ends.
        server = ExtProcServer(config.server, await self._processor(adapters, retainer, shared_secret))
        self.ext_proc_address = await server.start()
        self._exit.push_async_callback(server.stop)
        _log.info(
            "Serving",
            version=__version__,
            ext_proc=self.ext_proc_address,
            api=config.management.listen,
            operator=config.management.operator_listen,
            embedding=adapters.embedder.fingerprint,
        )

    async def _connect(self) -> Adapters:
        memory = self._config.memory
        embedder = await asyncio.to_thread(OnnxEmbedder.load, memory.embedding, memory.model_directory)
        try:
            await asyncio.to_thread(memory.directory.mkdir, mode=_DATA_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"memory.data_dir: cannot make {memory.directory}: {error.strerror}") from None
        clock = SystemClock()
        turn_log = SqliteTurnLog(
            memory.directory / "turns.db", clock=clock, max_turn_chars=memory.retain.max_turn_chars
        )
        self._exit.callback(turn_log.close)
        store = MilvusStore(
            memory.milvus, data_dir=memory.directory, fingerprint=embedder.fingerprint, observer=self._observer
        )
        await store.start()
        self._exit.push_async_callback(store.close)
        return Adapters(embedder, store, turn_log, InProcessOwnerLocks(), clock, self._observer)

    def _start_workers(self, adapters: Adapters, chat_model: OpenAIChatModel | None) -> Retainer:
        config = self._config.memory.retain
        pool: WorkerPool[SessionKey] = WorkerPool(
            lambda key: retainer.process(key),  # noqa: PLW0108 - it is made below
            workers=config.workers,
            max_queue=config.max_queue,
            on_error=lambda _, error: self._observer.work_failed(error),
        )
        retainer = Retainer(
            turn_log=adapters.turn_log,
            reader=adapters.store,
            writer=adapters.store,
            embedder=adapters.embedder,
            chat_model=chat_model,
            locks=adapters.locks,
            observer=adapters.observer,
            clock=adapters.clock,
            new_id=new_memory_id,
            config=config,
            extraction_batch_size=self._config.memory.extraction_batch_size,
            wake=pool.submit,
        )
        pool.start()
        self._exit.push_async_callback(pool.drain, self._config.server.drain_seconds)
        ticker = asyncio.create_task(self._tick(retainer, pool), name="triggers")
        self._exit.callback(ticker.cancel)
        return retainer

    async def _tick(self, retainer: Retainer, pool: "WorkerPool[SessionKey]") -> None:
        """Look at the triggers again and again; also what continues after a restart."""
        while True:
            try:
                await retainer.tick()
            except Exception as error:  # noqa: BLE001 - one failed look must not be the last
                self._observer.work_failed(error)
            self._observer.work_queued(depth=pool.depth, oldest_seconds=pool.oldest_seconds)
            await asyncio.sleep(self._config.memory.retain.tick_seconds)

    async def _processor(self, adapters: Adapters, retainer: Retainer, shared_secret: str | None) -> Processor:
        config = self._config
        rewrite_model = await self._chat_model("memory_rewrite")
        recaller = Recaller(
            embedder=adapters.embedder,
            reader=adapters.store,
            turn_log=adapters.turn_log,
            observer=adapters.observer,
            clock=adapters.clock,
            config=config.memory.recall,
            rewriter=QueryRewriter(rewrite_model, config.memory.recall.rewrite) if rewrite_model else None,
        )
        settings = ExchangeSettings(
            memory=config.memory,
            max_body_bytes=config.server.max_body_bytes,
            max_answer_bytes=config.server.max_answer_bytes,
        )
        return Processor(
            settings,
            recaller=recaller,
            retainer=retainer,
            observer=adapters.observer,
            clock=adapters.clock,
            shared_secret=(config.server.secret_header, shared_secret) if shared_secret else None,
        )

    async def _chat_model(self, role: str) -> OpenAIChatModel | None:
        for section in self._config.external_models:
            if section.model_role == role:
                model = OpenAIChatModel(section, section.api_key)
                self._exit.push_async_callback(model.aclose)
                return model
        return None

    async def _start_management(self, adapters: Adapters, shared_secret: str | None) -> None:
        config = self._config
        service = MemoryService(
            reader=adapters.store,
            writer=adapters.store,
            embedder=adapters.embedder,
            turn_log=adapters.turn_log,
            locks=adapters.locks,
            clock=adapters.clock,
            new_id=new_memory_id,
            redact=redact,
            config=config.management,
        )
        users = create_user_api(
            service,
            identity=config.memory.identity,
            config=config.management,
            shared_secret=shared_secret,
            secret_header=config.server.secret_header,
        )
        self._exit.push_async_callback((await serve_http(users, config.management.listen)).stop)
        if config.management.operator_listen is not None:
            operator = create_operator_api(
                service,
                identity=config.memory.identity,
                config=config.management,
                token=secret(config.management.operator_token, config.management.operator_token_file),
                readiness=lambda: Readiness(
                    serving=bool(self.ext_proc_address), store_available=adapters.store.available
                ),
                metrics=lambda: Exposition(*self._metrics.exposition()),
            )
            self._exit.push_async_callback((await serve_http(operator, config.management.operator_listen)).stop)


def run(config: Config) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: same as `App.start`.
    """
    logs.configure(config.telemetry)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config))


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    app = App(config)
    await app.start()
    # What is loaded now stays for good: a collection in the middle of a request need not look at it again.
    gc.collect()
    gc.freeze()
    try:
        await stop.wait()
        _log.info("Stopping")
    finally:
        await app.stop()
