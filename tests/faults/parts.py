"""What a fault does something to, or is seen by: a sidecar's process, Envoy's own counts, a sidecar in this process."""

import asyncio
import json
import logging
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import structlog

from semrouter_memory.app.sidecar import App
from semrouter_memory.config import load
from semrouter_memory.stack.envoy import StackOptions
from semrouter_memory.stack.loopback import LOOPBACK
from semrouter_memory.stack.stack import Process, Stack
from tests.envoy.client import CHAT, asking
from tests.envoy.conftest import ALICE, Installation, eventually
from tests.stand_in import misbehaving_llm

_MIB = 1 << 20
_PAUSE_SECONDS = 0.005
PATIENT = {"recall": {"deadline_ms": 2000}}


class Behind(Process):
    """A sidecar that is started behind another command, such as one that gives it a file system of its own."""

    def __init__(self, name: str, log: Path, before: Sequence[str]) -> None:
        super().__init__(name, log)
        self._before = before

    async def start(self, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        await super().start([*self._before, *command], environment=environment)


class InProcess(Process):
    """The sidecar in the test's own process: its clock may be another one, and its tasks can be counted."""

    def __init__(self, name: str, log: Path) -> None:
        super().__init__(name, log)
        self.app: App | None = None

    async def start(self, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        # Its log would be this process's output.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        self.app = App(load(Path(command[-1])))
        await self.app.start()

    async def ready(self, check: Callable[[], Awaitable[bool]], *, timeout_seconds: float) -> None:
        """It is, as soon as it has started."""

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def running(self) -> bool:
        return self.app is not None

    def send(self, number: signal.Signals) -> None:
        raise AssertionError(f"{number.name} would be ours")

    async def stop(self, *, timeout_seconds: float = 20, kill: bool = False) -> int:
        if self.app is not None:
            app, self.app = self.app, None
            await app.stop()
            structlog.reset_defaults()
        return 0


@asynccontextmanager
async def installed_with(
    directory: Path, model: Path, sidecar: Callable[[str, Path], Process], **options: Any
) -> AsyncIterator[Installation]:
    """Same as `installed`, but the sidecar is another kind of process."""
    async with misbehaving_llm() as (llm, url):
        settings = {"llm": url, **options}
        stack = Stack(StackOptions(directory=directory, model_directory=model, **settings))
        stack.sidecar = sidecar("the sidecar", directory / "sidecar.log")
        async with stack:
            yield Installation(stack, llm)


async def tell(on: Installation, text: str, path: str = CHAT, /, *, key: str = ALICE, **how: Any) -> bytes:
    """One request, streamed or not (`stream`), which must succeed; `how` is the LLM's behaviour. Returns the answer."""
    stream = how.pop("stream", False)
    behaviour = {"content-type": "application/json", "x-stand-in": json.dumps(how)}
    async with on.http(key, headers=behaviour) as http:
        answer = await http.post(path, content=asking(path, text, stream=stream))
    assert answer.status_code == httpx.codes.OK, (answer.status_code, answer.text)
    return answer.content


@dataclass(frozen=True, slots=True)
class Read:
    """A whole answer, as it came from the socket.

    Attributes:
        first: seconds from the request to the first word of it.
    """

    data: bytes
    first: float


def request(path: str, said: str, /, *, length: int = 0, key: str = ALICE, **how: object) -> bytes:
    """A request for a stream, as bytes; `length` is what it claims to be long instead of its real length."""
    body = asking(path, said, stream=True)
    head = {
        "host": "llm",
        "authorization": f"Bearer {key}",
        "content-type": "application/json",
        "content-length": str(length or len(body)),
        "connection": "close",
        "x-stand-in": json.dumps(how),
    }
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def read(on: Installation, asked: bytes) -> Read:
    """One client. Bare sockets, because a thousand of an HTTP library's would measure the library."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection(LOOPBACK, on.stack.port)
    writer.write(asked)
    data, first = b"", 0.0
    while piece := await reader.read(65_536):
        data += piece
        if not first and b"word" in data:
            first = time.monotonic() - began
    writer.close()
    await writer.wait_closed()
    return Read(data, first)


def turn_totals(on: Installation) -> dict[str, int]:
    """The turn log's own account, read beside the sidecar."""
    names = ("accepted", "extracted", "empty", "dead_lettered", "deleted")
    path = on.stack.sidecar.log.parent / "data" / "turns.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as log:
        counted = log.execute(f"SELECT {', '.join(names)} FROM counters").fetchone()
        (waiting,) = log.execute("SELECT count(*) FROM turns WHERE state = 'waiting'").fetchone()
    return {**dict(zip(names, counted, strict=True)), "waiting": waiting}


async def none_waits(on: Installation, *, accepted: int, seconds: float = 30) -> dict[str, int]:
    """Wait until so many turns were accepted and all of them have ended; the totals then."""

    async def ended() -> bool:
        totals = turn_totals(on)
        return totals["waiting"] == 0 and totals["accepted"] >= accepted

    await eventually(ended, "turns wait, or were not accepted", seconds=seconds)
    return turn_totals(on)


def rss_mib(pid: int) -> float:
    """What a process and its children hold in memory."""
    pages = sum(int(Path(f"/proc/{each}/statm").read_text("ascii").split()[1]) for each in (pid, *children(pid)))
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text("ascii").split()]


def lite_process(directory: Path) -> int:
    """This process's Milvus Lite on the file in the directory."""
    file = os.fsencode(directory / "milvus.db")
    (process,) = (
        pid for pid in children(os.getpid()) if file in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    )
    return process


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names are enough


CLOSED_LATE_SECONDS = 3


def closing_late_but_soon(envoy: dict[str, Any]) -> None:
    """A change to Envoy's configuration: how long it keeps the observer's stream of a client that went away.

    It tells the sidecar nothing of the client's end before; the shipped chain has a minute there.
    """
    manager = envoy["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    (observer,) = (each for each in manager["http_filters"] if each["name"] == "memory.retain")
    observer["typed_config"]["deferred_close_timeout"] = f"{CLOSED_LATE_SECONDS}s"


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def killed_between_delete_and_insert(file: Path, kill: Callable[[], object], *, seconds: float = 10) -> None:
    """Call `kill` when Milvus Lite has deleted a row to replace it; for a thread.

    Lite deletes in one transaction and inserts in a second one, and SQLite's journal beside the file shows each of them.
    The first one after a pause is the deletion. When there is no such moment, one comes that is as good as any.
    """
    journal = file.with_name(f"{file.name}-journal")
    deadline = time.monotonic() + seconds

    def until(there: bool) -> None:
        while journal.exists() is not there and time.monotonic() < deadline:
            pass

    while time.monotonic() < deadline:
        until(False)
        idle = time.monotonic() + _PAUSE_SECONDS
        while not journal.exists() and time.monotonic() < idle:
            pass
        if time.monotonic() >= idle:
            until(True)
            until(False)
            break
    kill()


async def waited(seconds: float) -> None:
    """For a fault that is a length of time."""
    await asyncio.sleep(seconds)
