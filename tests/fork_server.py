"""Sidecars of the tests are forked from a process that has loaded their modules, as loading takes seconds of a processor.

Used as a pytest plugin. What is forked is a process of its own like one that was started: with its own session, environment,
files and signals. Where the environment speaks to the loader or to Python, the sidecar is started in the ordinary way, as are
all other programs.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.stack.stack import Process
from tests.forked import MESSAGE_BYTES

_SIDECAR = (sys.executable, "-m", "semrouter_memory")
_OF_THE_LOADER = ("LD_", "PYTHON")
_WITHIN_SECONDS = 60


class Forked:
    """A forked process, with what `Process` uses of asyncio's."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: Future[int] = Future()
        # From now on a wait that is given up does not cancel it.
        self.status.set_running_or_notify_cancel()

    @property
    def returncode(self) -> int | None:
        return self.status.result() if self.status.done() else None

    async def wait(self) -> int:
        return await asyncio.wrap_future(self.status)


class ForkServer:
    """The process that is forked, as tests see it. It blocks: in an event loop, call it in a thread."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=Path(__file__).parents[1],
                start_new_session=True,
            )
        self._one_at_a_time = threading.Lock()
        self._running: dict[int, Forked] = {}
        self._forked: Future[Forked] = Future()
        self._forked.cancel()
        self._reader = threading.Thread(target=self._read, name="fork server", daemon=True)
        self._reader.start()

    def fork(self, words: Sequence[str], environment: Mapping[str, str], files: Sequence[int]) -> Forked:
        """Run `semrouter-memory` with these words; `files` are its input, its output and its error output."""
        asked = {"words": list(words), "environment": dict(environment), "directory": str(Path.cwd())}
        with self._one_at_a_time:
            self._forked = Future()
            socket.send_fds(self._requests, [json.dumps(asked).encode()], list(files))
            return self._forked.result()

    def stop(self) -> None:
        """Nothing that was forked outlives it."""
        self._requests.shutdown(socket.SHUT_RDWR)
        self._process.wait(timeout=_WITHIN_SECONDS)
        self._reader.join(timeout=_WITHIN_SECONDS)
        self._requests.close()

    def _read(self) -> None:
        while message := self._requests.recv(MESSAGE_BYTES):
            said = json.loads(message)
            if said["status"] is None:
                self._running[said["pid"]] = Forked(said["pid"])
                self._forked.set_result(self._running[said["pid"]])
            else:
                self._running.pop(said["pid"]).status.set_result(said["status"])
        if not self._forked.done():
            self._forked.set_exception(RuntimeError("the process that is forked has ended"))


@pytest.fixture(scope="session", autouse=True)
def sidecars_are_forked() -> Iterator[None]:
    """The server starts when the first sidecar does."""
    server: list[ForkServer] = []
    start = Process.start

    def fork(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
        if not server:
            server.append(ForkServer())
        with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
            return server[0].fork(command, environment, [nothing.fileno(), output.fileno(), output.fileno()])

    async def start_or_fork(
        self: Process, command: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> None:
        own = environment or {}
        if tuple(command[:3]) != _SIDECAR or any(name.startswith(_OF_THE_LOADER) for name in own):
            await start(self, command, environment=own)
            return
        child: Any = await asyncio.to_thread(fork, command[3:], {**os.environ, **own}, self.log)
        self._child = child

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Process, "start", start_or_fork)
        yield
    for each in server:
        each.stop()
