"""The running sidecar: the order in which its parts start and stop.

Start: what may refuse the configuration first (model, turn log, store), the ports last, so that a client that connects is
served. Stop: no new streams, let running ones end; no new work, let running work end; close what holds data.
"""

import asyncio
import gc
import sys
from contextlib import AsyncExitStack, nullcontext
from typing import TYPE_CHECKING

import structlog
import uvloop

from semrouter_memory import __version__
from semrouter_memory.app import preflight
from semrouter_memory.app.adapters import Adapters, ExternalModels, connect
from semrouter_memory.app.management import serve_management, start_recordings
from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.config import Config, secret
from semrouter_memory.errors import TurnLogError, UnavailableError, name_of
from semrouter_memory.events import WorkFailed
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.manage.explaining import Explainer
from semrouter_memory.manage.http import Readiness
from semrouter_memory.model import Scope, SessionKey
from semrouter_memory.ports import TurnLog
from semrouter_memory.priority import RequestsFirst
from semrouter_memory.replay.recordings import Recordings
from semrouter_memory.retain.pipeline import Retainer
from semrouter_memory.store.index_cache import IndexCache
from semrouter_memory.telemetry import logs, start_tracing
from semrouter_memory.telemetry.metrics import Metrics, TelemetryObserver
from semrouter_memory.termination import on_termination
from semrouter_memory.transport.processor import Processor
from semrouter_memory.transport.request_phase import RequestPhase
from semrouter_memory.transport.server import ExtProcServer
from semrouter_memory.workers import WorkerPool

if TYPE_CHECKING:  # an optional dependency
    from semrouter_memory.telemetry.spans import Spans

_log = structlog.get_logger("semrouter_memory")

SWITCH_SECONDS = 0.0001
"""How long a background thread may hold the interpreter while a request waits for it. With Python's 5 ms, a request whose
embedding ends while a turn is read waits longer for the interpreter than for the embedding."""

_COLLECT_AT = (20_000, 20, 100)
"""Objects, and collections of each generation, after which the garbage collector looks at the next one."""

_TICK_SECONDS_A_SESSION = 0.001
"""Between two looks at all open sessions: a look takes a hundredth of it."""


class App:
    """The whole sidecar in one event loop. Use `start`, then `stop`; a failed start leaves nothing behind."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._exit = AsyncExitStack()
        self._metrics = Metrics()
        self._observer = TelemetryObserver(self._metrics)
        self._spans: Spans | None = None
        self._pool: WorkerPool[SessionKey] | None = None
        self._log_is_unavailable = False
        self._log_is_damaged = False
        self.ext_proc_address = ""

    async def start(self) -> None:
        """Start everything.

        Raises:
            ConfigurationError: a setting, file, port or schema does not fit; the message names the remedy.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self._exit.aclose()

    async def _start(self) -> None:
        config = self._config
        preflight.check(config)
        shared_secret = secret(config.server.shared_secret, config.server.shared_secret_file)
        spans = self._start_tracing()
        adapters = await connect(config.memory, observer=self._observer, arrived=self._arrived, on_exit=self._exit)
        models = self._models(spans)
        pipelines = Pipelines(config.memory, adapters, models)
        # Before the parts that report changes and recalls to it, so that it stops after them.
        pipelines.maintenance.start()
        self._exit.push_async_callback(pipelines.maintenance.stop)
        retainer = self._start_workers(pipelines)
        recordings = await start_recordings(config)
        # Here for a start that fails later; below, for the end of a recording while the ports are still open.
        self._exit.push_async_callback(recordings.stop)
        self._exit.push_async_callback(pipelines.steers.settle)
        recaller = pipelines.request_phase(journal=pipelines.journal, steers=pipelines.steers)
        await serve_management(
            config,
            pipelines,
            explainer=Explainer(recall=recaller, settings=_exchange_settings(config), clock=adapters.clock),
            shared_secret=shared_secret,
            readiness=lambda: self._readiness(adapters),
            metrics=self._metrics.exposition,
            recordings=recordings,
            on_exit=self._exit,
        )
        # Before the ports close, so that clients that follow a recording receive its end; after the last exchange.
        self._exit.push_async_callback(recordings.stop)
        await asyncio.gather(self._prepare(recaller), models.warm())
        processor = self._processor(adapters, recaller, retainer, recordings, shared_secret)
        # Last, so that it is the first to stop: no new streams come while the rest ends.
        server = ExtProcServer(config.server, processor)
        self.ext_proc_address = await server.start()
        self._exit.push_async_callback(server.stop)
        if adapters.owner_indexes is not None:
            reading = adapters.owner_indexes.read_ahead(adapters.priority.pause)
            self._exit.callback(asyncio.create_task(reading, name="owner-indexes").cancel)
        self._log_addresses(adapters)

    def _processor(
        self,
        adapters: Adapters,
        recaller: RequestPhase,
        retainer: Retainer,
        recordings: Recordings,
        shared_secret: str | None,
    ) -> Processor:
        config = self._config
        return Processor(
            settings=_exchange_settings(config),
            recall=recaller.recall,
            accept=retainer.intake.accept,
            observer=adapters.observer,
            clock=adapters.turn_log,
            shared_secret=shared_secret,
            secret_header=config.server.secret_header,
            spans_of=self._spans.stream if self._spans else None,
            record_of=recordings.capture.begin,
        )

    def _readiness(self, adapters: Adapters) -> Readiness:
        return Readiness(
            serving=bool(self.ext_proc_address),
            store_available=adapters.store.available,
            turn_log_damaged=bool(adapters.turn_log.damage),
        )

    def _start_tracing(self) -> "Spans | None":
        """First, so that what the other parts do until their end is exported."""
        tracer = start_tracing(self._config.telemetry.tracing)
        if tracer is None:
            return None
        self._exit.push_async_callback(tracer.stop, self._config.server.drain_seconds)
        self._observer, self._spans = TelemetryObserver(self._metrics, tracer.spans), tracer.spans
        return tracer.spans

    def _models(self, spans: "Spans | None") -> ExternalModels:
        config, traced = self._config, spans.model if spans else None
        return ExternalModels(config.external_models, config.memory.retain, self._observer, self._exit, traced)

    async def _prepare(self, recaller: RequestPhase) -> None:
        """A model that fails now is tried again at the requests; each of them passes."""
        try:
            await recaller.prepare()
        except UnavailableError as error:
            _log.warning("Embedding failed, recall is not prepared", error=name_of(error))

    def _log_addresses(self, adapters: Adapters) -> None:
        management = self._config.management
        _log.info(
            "Serving",
            version=__version__,
            ext_proc=self.ext_proc_address,
            api=management.listen,
            operator=management.operator_listen,
            embedding=adapters.embedder.fingerprint,
            turn_log="sqlite" if self._config.memory.redis.url is None else "redis",
        )

    def _arrived(self, scope: Scope, session_id: str) -> None:
        """A turn reached the shared log; the first replica claims it."""
        if self._pool is not None:
            self._pool.submit(SessionKey(scope, session_id))

    def _start_workers(self, pipelines: Pipelines) -> Retainer:
        config, adapters = self._config.memory.retain, pipelines.adapters
        # The model may hold as many as there are; the others take quotes meanwhile.
        spare = config.workers if pipelines.models.of_role("memory_extraction") else 0
        pool: WorkerPool[SessionKey] = WorkerPool(
            lambda key: self._process(retainer, adapters.priority, key),  # it is made below
            workers=config.workers + spare,
            max_queue=config.max_queue,
            on_error=lambda _, error: self._failed(error),
        )
        retainer = pipelines.retainer(wake=pool.submit, written=pipelines.maintenance.changed)
        self._pool = pool
        self._measure(pool, retainer, adapters.owner_indexes)
        self._exit.push_async_callback(pool.drain, self._config.server.drain_seconds)
        # Long turns that are still cleaned are written before the log closes.
        self._exit.push_async_callback(retainer.intake.settle)
        ticker = asyncio.create_task(self._tick(retainer, adapters.turn_log), name="triggers")
        self._exit.callback(ticker.cancel)
        return retainer

    def _measure(self, pool: "WorkerPool[SessionKey]", retainer: Retainer, indexes: IndexCache | None) -> None:
        """Have gauges show how it is whenever the metrics are read."""
        metrics = self._metrics
        metrics.queue_depth.set_function(lambda: pool.depth + retainer.retrying)
        metrics.queue_age_seconds.set_function(lambda: max(pool.oldest_seconds, retainer.waiting_seconds))
        if indexes is not None:
            metrics.owner_index_bytes.set_function(lambda: indexes.nbytes)
            metrics.owner_indexes.set_function(lambda: indexes.owners)

    async def _process(self, retainer: Retainer, priority: RequestsFirst, key: SessionKey) -> None:
        await priority.pause()
        with self._spans.work(key.session_id) if self._spans else nullcontext():
            await retainer.process(key)

    async def _tick(self, retainer: Retainer, turn_log: TurnLog) -> None:
        """Look at the triggers again and again; also what continues after a restart."""
        at_least = self._config.memory.retain.tick_seconds
        while True:
            pause = at_least
            try:
                pause = max(at_least, await retainer.tick() * _TICK_SECONDS_A_SESSION)
            except Exception as error:  # noqa: BLE001 - one failed look must not be the last
                self._failed(error)
            else:
                self._report_recovery()
            self._report_damage(turn_log.damage)
            await asyncio.sleep(pause)

    def _failed(self, error: BaseException) -> None:
        """Background work failed. An unavailable turn log is logged once; its turns wait."""
        if not isinstance(error, TurnLogError):
            self._observer.observe(WorkFailed(error))
        elif not self._log_is_unavailable:
            self._log_is_unavailable = True
            _log.error("Turn log unavailable, turns wait", detail=str(error))

    def _report_damage(self, damage: str) -> None:
        """Log it once; failures because of it are counted."""
        if damage and not self._log_is_damaged:
            self._log_is_damaged = True
            _log.error(
                "Turn log damaged, turns are dropped: restore the file from a backup, or move it away, and restart",
                directory=str(self._config.memory.directory),
                damage=damage,
            )

    def _report_recovery(self) -> None:
        if self._log_is_unavailable:
            self._log_is_unavailable = False
            _log.info("Turn log available again")


def _exchange_settings(config: Config) -> ExchangeSettings:
    return ExchangeSettings(
        memory=config.memory,
        max_body_bytes=config.server.max_body_bytes,
        max_answer_bytes=config.server.max_answer_bytes,
    )


def run(config: Config, *, until_eof: bool = False) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP.

    Args:
        until_eof: also end when standard input does, whose other end the process that started this one holds.

    Raises:
        ConfigurationError: same as `App.start`.
    """
    logs.configure(config.telemetry)
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, until_eof=until_eof))


async def _serve(config: Config, *, until_eof: bool) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    on_termination(stop.set)
    if until_eof:
        loop.add_reader(sys.stdin, _end_of_input, loop, stop)
    app = App(config)
    await app.start()
    # What is loaded now stays for good: a collection in the middle of a request need not look at it again.
    gc.collect()
    gc.freeze()
    # A request makes some thousand objects, nearly all of which go without a collection: 2 % of its processor time.
    gc.set_threshold(*_COLLECT_AT)
    gc.enable()  # `serve` loads without it
    try:
        await stop.wait()
        _log.info("Stopping")
    finally:
        await app.stop()


def _end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    loop.remove_reader(sys.stdin)
    stop.set()
