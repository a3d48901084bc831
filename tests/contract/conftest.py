"""The adapters that the contract suites run over."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from semrouter_memory.config import RetainConfig
from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.ports import StateStore
from semrouter_memory.state.local import SqliteStateStore
from semrouter_memory.state.redis import RedisStateStore
from semrouter_memory.turn_log.redis_log import RedisTurnLog
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.contract.turn_logs import SteppedClock, WholeTurnLog
from tests.redis_server import RedisServer
from tests.replicas import leave_the_spool_soon


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


def _never(error: BaseException) -> None:
    raise AssertionError from error


@pytest.fixture(params=["sqlite", "redis"])
async def turn_log(
    request: pytest.FixtureRequest, clock: SteppedClock, tmp_path: Path, patient: None
) -> AsyncIterator[WholeTurnLog]:
    if request.param == "sqlite":
        log = SqliteTurnLog(tmp_path / "log" / "turns.db", clock=clock, config=RetainConfig(max_turn_chars=1000))
        yield log
        log.close()
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    connection = RedisConnection(server.config())
    shared = RedisTurnLog(
        tmp_path / "log" / "turns.db",
        connection,
        prefix=uuid.uuid4().hex,
        clock=clock,
        forwarded=lambda scope, session_id: None,
        on_error=_never,
        config=RetainConfig(max_turn_chars=1000),
    )
    leave_the_spool_soon(shared)
    # Not started: the suites ship when they append. This makes it learn the installation's key.
    await shared.pending()
    yield shared
    await shared.stop()
    await connection.aclose()


@pytest.fixture(params=["sqlite", "redis"])
async def state_store(request: pytest.FixtureRequest, clock: SteppedClock, tmp_path: Path) -> AsyncIterator[StateStore]:
    if request.param == "sqlite":
        store = SqliteStateStore(tmp_path / "state" / "state.db", clock=clock)
        yield store
        store.close()
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    connection = RedisConnection(server.config())
    yield RedisStateStore(connection, prefix=uuid.uuid4().hex, clock=clock)
    await connection.aclose()
