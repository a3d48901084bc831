"""Real Redis servers for tests, started here, on free ports, each with its own directory and an append-only file.

Used as a pytest plugin. The server is the one on the PATH, else the one that `make redis` unpacked. Without either the
tests that need it are skipped, and fail where `CI` is set.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.server_process import ServerProcess, lasting_port
from semrouter_memory.config import RedisConfig
from tests.run_servers import of_the_run

_UNPACKED = Path(__file__).parents[1] / ".cache" / "redis" / "redis-server"
_READY_SECONDS = 30
_POLL_SECONDS = 0.01


def impatient(url: str) -> RedisConfig:
    """Settings with short times, so that tests of outages are short."""
    return RedisConfig(url=url, timeout_ms=500, retry_seconds=0.05)


class RedisServer(ServerProcess):
    """One server process with its own data; it may be paused, killed and started again."""

    def __init__(self, program: str, directory: Path) -> None:
        super().__init__("Redis", directory)
        self._program = program
        self._port = lasting_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def config(self) -> RedisConfig:
        return impatient(self.url)

    def start(self) -> None:
        """Returns when it serves."""
        options = {
            "port": str(self._port),
            "bind": "127.0.0.1",
            "dir": str(self.directory),
            "appendfsync": "everysec",
            "appendonly": "yes",
            "save": "",
            "daemonize": "no",
            "maxmemory-policy": "noeviction",
        }
        arguments = [item for name, value in options.items() for item in (f"--{name}", value)]
        with (self.directory / "output.log").open("ab") as log:
            self._process = subprocess.Popen([self._program, *arguments], stdout=log, stderr=log)
        self._wait_until_ready(seconds=_READY_SECONDS, poll_seconds=_POLL_SECONDS)

    def restart(self) -> None:
        self.kill()
        self.start()

    def _serves(self) -> bool:
        """Whether it serves; while it loads its file it answers with an error."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        return False


@pytest.fixture(scope="session")
def new_redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], RedisServer]]:
    """Makes a server that is not started yet; whatever is still running is killed at the end."""
    program = _require_program()
    servers: list[RedisServer] = []

    def new() -> RedisServer:
        servers.append(RedisServer(program, tmp_path_factory.mktemp("redis")))
        return servers[-1]

    yield new
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def redis_server() -> RedisServer:
    """A running server that all tests of a run share; each uses a prefix of its own."""
    program = _require_program()
    return of_the_run("redis", lambda directory: RedisServer(program, directory))


@pytest.fixture
def own_redis_server(new_redis_server: Callable[[], RedisServer]) -> Iterator[RedisServer]:
    """A running server for one test, which may kill it."""
    server = new_redis_server()
    server.start()
    yield server
    server.kill()


def _require_program() -> str:
    program = shutil.which("redis-server") or (str(_UNPACKED) if _UNPACKED.exists() else None)
    if program is None:
        reason = "no redis-server: make redis, or install Debian's package of that name"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return program
