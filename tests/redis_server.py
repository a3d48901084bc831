"""Real Redis servers for tests, started here, on free ports, each with its own directory and an append-only file.

Used as a pytest plugin. The server is the one on the PATH, else the one that `make redis` unpacked. Without either the
tests that need it are skipped, and fail where `CI` is set.
"""

import os
from collections.abc import Callable, Iterator

import pytest

import bench.redis_server
from semrouter_memory.config import RedisConfig
from semrouter_memory.turn_log import redis_rows
from tests.run_servers import of_the_run

UNHURRIED_MS = 20_000
"""A busy machine is no server that hangs."""
IMPATIENT_MS = 500
"""For tests that let it hang, and wait until that is noticed."""


def settings_for(url: str, *, timeout_ms: int = UNHURRIED_MS) -> RedisConfig:
    """Settings by which a server that is back is soon found."""
    return RedisConfig(url=url, timeout_ms=timeout_ms, retry_seconds=0.05)


class RedisServer(bench.redis_server.RedisServer):
    """The same, with settings for it."""

    def config(self, *, timeout_ms: int = UNHURRIED_MS) -> RedisConfig:
        return settings_for(self.url, timeout_ms=timeout_ms)


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
def patient() -> Iterator[None]:
    """On a busy machine Redis may take longer than recall waits for it, and a replica then tells what it knew before."""
    with pytest.MonkeyPatch.context() as patch:  # its own: a test may undo what `monkeypatch` did
        patch.setattr(redis_rows, "_PATIENCE_SECONDS", 5)
        yield


@pytest.fixture
def own_redis_server(new_redis_server: Callable[[], RedisServer]) -> Iterator[RedisServer]:
    """A running server for one test, which may kill it."""
    server = new_redis_server()
    server.start()
    yield server
    server.kill()


def _require_program() -> str:
    program = bench.redis_server.find_redis()
    if program is None:
        if os.environ.get("CI"):
            pytest.fail(bench.redis_server.MISSING)
        pytest.skip(bench.redis_server.MISSING)
    return program
