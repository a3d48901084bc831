"""Envoy and the sidecar as processes of this machine, wired to each other by the shipped YAML, in a directory of their own.

A process has a log file, is waited for until it is ready, and is stopped by its process id.
"""

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx
import yaml
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from semrouter_memory.errors import ConfigurationError, Service, UnavailableError
from semrouter_memory.secret_file import write_private
from semrouter_memory.stack.envoy import PORTS, StackOptions, envoy_yaml, find_envoy
from semrouter_memory.stack.loopback import LOOPBACK, free_port, local_client

LOCK = "lock"
"""The file in the directory that a running installation locks."""
_ENVOY_READY_SECONDS = 30
_SIDECAR_READY_SECONDS = 120
_POLL_SECONDS = 0.05
_LOG_TAIL_LINES = 15


class Process:
    """One started program.

    Args:
        name: for messages.
        log: file that takes its output.
    """

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._child: asyncio.subprocess.Process | None = None

    async def start(self, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        with self.log.open("ab") as output:
            self._child = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                # Ctrl-C reaches us alone, so that the parts stop in the right order.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._child is not None, "not started"
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.returncode is None

    async def ready(self, check: Callable[[], Awaitable[bool]], *, timeout_seconds: float) -> None:
        """Wait until `check` holds.

        Raises:
            UnavailableError: it ended or did not become ready in time; the message shows the end of its log.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    answered = await check()
                    # Asked second: what answers may be another process, which has taken the port.
                    if not self.running:
                        raise UnavailableError(
                            f"{self.name} ended while starting:\n{self.tail()}", service=Service.SERVER
                        )
                    if answered:
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise UnavailableError(
                f"{self.name} was not ready after {timeout_seconds:.0f} s:\n{self.tail()}", service=Service.SERVER
            ) from None

    async def ended(self) -> str:
        """Wait until it has ended; returns what can be said of it."""
        assert self._child is not None, "not started"
        status = await self._child.wait()
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{self.name} {how}:\n{self.tail()}"

    def send(self, number: signal.Signals) -> None:
        # One that has just ended may still count as running here.
        with suppress(ProcessLookupError):
            if self.running:
                os.kill(self.pid, number)

    async def stop(self, *, timeout_seconds: float = 20, kill: bool = False) -> int:
        """End it (SIGTERM, then SIGKILL after the timeout); returns its exit status."""
        if self._child is None:
            return 0
        self.send(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            return await asyncio.wait_for(self._child.wait(), timeout_seconds)
        except TimeoutError:
            self.send(signal.SIGKILL)
            return await self._child.wait()

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_LOG_TAIL_LINES:])


@contextmanager
def steps(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a step as it begins; on a terminal the elapsed time runs below it until the next."""
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def say(step: str) -> None:
            for task in progress.task_ids:
                progress.remove_task(task)
            console.print(Text(f"==> {step}", style="dim"), soft_wrap=True)
            progress.add_task("working", total=None)

        yield say


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Make the directory and keep other installations out of it.

    Raises:
        ConfigurationError: it cannot be written, or another installation runs in it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {directory} ({error.strerror}); choose another directory with RUN_DIR=... or --directory"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ConfigurationError(
                f"an installation already runs in {directory} (process {lock.read().strip() or 'unknown'}): end it with"
                " Ctrl-C, or start a second one with its own ports and directory: make run PORT=10100 RUN_DIR=.run2"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


class Stack(AsyncExitStack):
    """A sidecar and Envoy. Use as an async context manager: what was started is stopped, in reverse order."""

    def __init__(self, options: StackOptions, say: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self._options = options
        self._say = say
        find_envoy()  # that it is missing is said before anything starts
        directory = options.directory
        directory.mkdir(parents=True, exist_ok=True)
        self._ports = {name: options.ports.get(name) or free_port() for name in PORTS}
        self.port, self.operator_port, self.api_port, self.ext_proc_port, self.admin_port = self._ports.values()
        self.sidecar = Process("the sidecar", directory / "sidecar.log")
        self.envoy = Process("Envoy", directory / "envoy.log")

    @property
    def url(self) -> str:
        """Envoy's listener."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def operator_url(self) -> str:
        return f"http://{LOOPBACK}:{self.operator_port}"

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def start(self) -> None:
        """Start the parts; what stops each of them is pushed first."""
        self.push_async_callback(self.sidecar.stop)
        await self.start_sidecar()
        self.push_async_callback(self.envoy.stop)
        await self.start_envoy()

    async def start_sidecar(self) -> None:
        """Start it (again) on the same data and wait until it is ready."""
        self._say("starting the sidecar")
        path = self._options.directory / "sidecar.yaml"
        path.write_text(yaml.safe_dump(self._sidecar_config()), encoding="utf-8")
        command = [sys.executable, "-m", "semrouter_memory", "serve", "--config", str(path)]
        await self.sidecar.start(command, environment=self._options.environment)
        await self.sidecar.ready(
            lambda: _answers(f"{self.operator_url}/readyz"), timeout_seconds=_SIDECAR_READY_SECONDS
        )

    async def start_envoy(self) -> None:
        self._say("starting Envoy")
        path = self._options.directory / "envoy.yaml"
        write_private(path, envoy_yaml(self._options, self._ports))  # the LLM server's key is in it
        # Several Envoys on one machine must not share their hot restart memory.
        own = ["--use-dynamic-base-id", "--concurrency", "2", "--log-level", "warning"]
        await self.envoy.start([find_envoy(), "-c", str(path), *own])
        check = f"http://{LOOPBACK}:{self.admin_port}/ready"
        await self.envoy.ready(lambda: _answers(check), timeout_seconds=_ENVOY_READY_SECONDS)

    def _sidecar_config(self) -> dict[str, Any]:
        options = self._options
        own = {
            "memory": {
                "data_dir": str(options.directory / "data"),
                "embedding": {"path": str(options.model_directory)},
            },
            "server": {"listen": f"{LOOPBACK}:{self.ext_proc_port}"},
            "management": {
                "listen": f"{LOOPBACK}:{self.api_port}",
                "operator_listen": f"{LOOPBACK}:{self.operator_port}",
            },
        }
        return _merged(own, options.sidecar_config)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two configurations as one, key by key; `over` wins."""
    result = dict(base)
    for key, value in over.items():
        known = result.get(key)
        result[key] = _merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return result


async def _answers(url: str) -> bool:
    try:
        async with local_client(timeout=1) as client:
            return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
