"""Several processes behind one address: `serve` with `server.processes` above 1.

Each child is a whole sidecar with a data directory and sockets of its own, and one that died is started again. This process
relays connections to them, and answers health, metrics and the operator for all of them.

Start: the addresses are bound, the children start, and when all of them accept streams, this process accepts connections.
Stop: no new connections; the children end as `sidecar.py` says, while the open connections are relayed; the operator's port
is last. If this process is killed, the children end by themselves.
"""

import asyncio
import os
import random
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
import uvloop

from semrouter_memory.app import preflight
from semrouter_memory.app.relay import Relay
from semrouter_memory.config import Config, variable_of
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.manage.processes import create_operator_front
from semrouter_memory.resilience import Backoff
from semrouter_memory.sockets import accepts, address_of
from semrouter_memory.telemetry import logs
from semrouter_memory.termination import on_termination

_log = structlog.get_logger("semrouter_memory")

_RESTART = Backoff(first=0.5, longest=30)
_LONG_ENOUGH_SECONDS = 60
"""A child that ran for so long has not failed at its start: the next delay is the first one again."""
_LOOK_SECONDS = 0.05
_STOP_SECONDS_BEYOND_DRAIN = 30
_CONNECTION_SECONDS = 30
"""Age at which a connection is replaced: a child that was restarted has none, and Envoy opens new ones when it needs them."""


def serve_processes(config: Config, arguments: Sequence[str]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        arguments: of the children's command, after the program; they lead to the same configuration.

    Raises:
        ConfigurationError: a setting or address does not fit, or a child did not start.
    """
    logs.configure(config.telemetry)
    preflight.check(config)
    config.memory.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a relayed connection takes two
    with (
        TemporaryDirectory(prefix="semrouter-memory-") as sockets,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        directories = preflight.process_directories(config.memory.directory, config.server.processes)
        children = [_Child(directory, config, Path(sockets), arguments) for directory in directories]
        runner.run(_serve(config, children))


async def _serve(config: Config, children: "Sequence[_Child]") -> None:
    relays = _relays(config, children)
    async with AsyncExitStack() as at_last:
        serving = asyncio.create_task(_started_and_kept(config, children, relays, at_last))
        on_termination(serving.cancel)
        try:
            with suppress(asyncio.CancelledError):
                await serving
            _log.info("Stopping")
        finally:
            for relay in relays:
                await relay.stop()
            await asyncio.gather(*(child.stop(config.server.drain_seconds) for child in children))


async def _started_and_kept(
    config: Config, children: "Sequence[_Child]", relays: Sequence[Relay], at_last: AsyncExitStack
) -> None:
    started = await asyncio.gather(*(child.start() for child in children))
    if not all(started):
        raise ConfigurationError(f"{started.count(False)} of {len(children)} processes did not start; see above why")
    for relay in relays:
        relay.start()
    if config.management.operator_listen is not None:
        front = create_operator_front({child.name: child.operator for child in children})
        with address_of("management.operator_listen"):
            at_last.push_async_callback((await serve_http(front, config.management.operator_listen)).stop)
    _log.info("Serving", processes=len(children), ext_proc=config.server.listen, api=config.management.listen)
    await asyncio.gather(*(child.keep() for child in children))


def _relays(config: Config, children: "Sequence[_Child]") -> list[Relay]:
    """Bound, so that an address that is taken is found before the children start."""
    return [
        _named("server.listen", config.server.listen, [child.ext_proc for child in children]),
        _named("management.listen", config.management.listen, [child.api for child in children]),
    ]


def _named(setting: str, listen: str, targets: Sequence[Path]) -> Relay:
    with address_of(setting):
        return Relay(listen, targets)


class _Child:
    """One sidecar, started again when it ends.

    Attributes:
        name: in metrics and logs.
        ext_proc, api, operator: its sockets.
    """

    def __init__(self, directory: Path, config: Config, sockets: Path, arguments: Sequence[str]) -> None:
        self.name = directory.name
        own = sockets / directory.name
        self.ext_proc, self.api, self.operator = (own / kind for kind in ("ext_proc", "api", "operator"))
        self._settings = self._own_settings(config, directory)
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._started = 0.0

    def _own_settings(self, config: Config, directory: Path) -> dict[str, str]:
        """What differs from the other children, as environment variables name it."""
        memory, recording, connection_seconds = config.memory, config.recording, config.server.max_connection_seconds
        return {
            "server.processes": "1",
            "server.listen": f"unix:{self.ext_proc}",
            "server.max_connection_seconds": str(connection_seconds or _CONNECTION_SECONDS),
            "management.listen": f"unix:{self.api}",
            "management.operator_listen": f"unix:{self.operator}",
            "memory.data_dir": str(directory),
            "memory.embedding.path": str(memory.model_directory),
            **({"recording.directory": str(recording.directory / directory.name)} if recording.directory else {}),
        }

    async def start(self) -> bool:
        """Returns: True when it accepts streams, False when it ended before."""
        self._started = time.monotonic()
        environment = {variable_of(setting): value for setting, value in self._settings.items()}
        try:
            # Nothing is written to the pipe: it closes when this process ends, however that happens.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "semrouter_memory", "serve", "--until-eof", *self._arguments),
                stdin=asyncio.subprocess.PIPE,
                env={**os.environ, **environment},
            )
        except OSError:
            return False  # no memory, for example
        while self._process.returncode is None:
            if accepts(self.ext_proc):
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    async def keep(self) -> None:
        """Start it again whenever it ends."""
        failures = 0
        while True:
            assert self._process is not None, "not started"
            status = await self._process.wait()
            lasted = time.monotonic() - self._started
            failures = 0 if lasted > _LONG_ENOUGH_SECONDS else failures
            delay = _RESTART.delay(failures, random.random())  # noqa: S311 - jitter
            _log.error(
                "Process ended, starting it again", process=self.name, status=status, delay_seconds=round(delay, 1)
            )
            await asyncio.sleep(delay)
            failures += 1
            await self.start()

    async def stop(self, drain_seconds: float) -> None:
        """Let it end as it does by itself, and kill it if it does not."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), drain_seconds + _STOP_SECONDS_BEYOND_DRAIN)
        except TimeoutError:
            _log.error("Process does not end, it is killed", process=self.name)
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
