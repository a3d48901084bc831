"""A child process with a log file, waited for until it is ready, stopped by its process id; and what shows that one waits."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from semrouter_memory.errors import Service, UnavailableError

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
