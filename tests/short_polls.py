"""What the libraries of the store wait for, tests look for more often: most tests that start a store would wait for seconds.
And a store that is reached late is waited for: to most tests one that is not there is a failure, and not what they are about.

Used as a pytest plugin, and by the process that sidecars are forked from. pymilvus asks every half second whether an index is
made, and first after half a second; Milvus Lite's package waits for half a second to learn whether the process that it
started has ended; uvicorn looks every tenth of a second whether it is to stop, and when it is waits for another one.
"""

import asyncio
import subprocess
import time
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn.server
from pymilvus.client import async_grpc_handler
from pymilvus.settings import Config

_POLL_SECONDS = 0.01
_SERVER_POLL_SECONDS = 0.03
"""For as long as it serves."""
_CONNECT_SECONDS = 60.0
_START_SECONDS = 0.5
"""How long Milvus Lite's package waits."""


def pytest_configure() -> None:
    shorten()
    connection: Any = import_module("semrouter_memory.store.connection")
    connection.CONNECT_SECONDS = _CONNECT_SECONDS


def shorten() -> None:
    handler: Any = async_grpc_handler
    handler.asyncio = _QuickAsyncio(_POLL_SECONDS)
    http: Any = uvicorn.server
    http.asyncio = _QuickAsyncio(_SERVER_POLL_SECONDS)
    Config.WaitTimeDurationWhenLoad = _POLL_SECONDS
    with warnings.catch_warnings():
        # Milvus Lite imports what setuptools deprecates.
        warnings.simplefilter("ignore")
        server: Any = import_module("milvus_lite.server")
    server.subprocess = SimpleNamespace(Popen=_LiteProcess, TimeoutExpired=subprocess.TimeoutExpired)


class _QuickAsyncio:
    """The module, for one that sleeps between two looks."""

    def __init__(self, longest_seconds: float) -> None:
        self._longest_seconds = longest_seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, self._longest_seconds))


class _LiteProcess(subprocess.Popen[bytes]):
    """It is started when it has ended, or when its socket is there."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout != _START_SECONDS:
            return super().wait(timeout)
        arguments: Any = self.args
        socket = Path(arguments[2].removeprefix("unix:"))
        deadline = time.monotonic() + timeout
        while not socket.exists() and time.monotonic() < deadline and self.poll() is None:
            time.sleep(_POLL_SECONDS)
        return super().wait(0)
