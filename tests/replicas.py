"""Replicas of the service as far as their turn log goes: each with its own spool and connection, on one real Redis."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis

from semrouter_memory.config import RetainConfig
from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.model import Scope
from semrouter_memory.turn_log.redis_log import RedisTurnLog
from tests.contract.turn_logs import SteppedClock
from tests.redis_server import UNHURRIED_MS, settings_for

POLL_SECONDS = 0.01
PATIENCE_SECONDS = 120


@dataclass
class Replica:
    log: RedisTurnLog
    connection: RedisConnection
    spool: Path
    arrived: list[tuple[Scope, str]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)


@dataclass
class Installation:
    """What replicas have in common."""

    url: str
    directory: Path
    clock: SteppedClock = field(default_factory=SteppedClock)
    prefix: str = field(default_factory=lambda: uuid.uuid4().hex)
    timeout_ms: int = UNHURRIED_MS

    @asynccontextmanager
    async def replica(
        self, name: str = "one", *, started: bool = True, clock: SteppedClock | None = None
    ) -> AsyncIterator[Replica]:
        """A replica that ships by itself, or only when it is told to; `clock`: its own, where it is not everybody's."""
        connection = RedisConnection(settings_for(self.url, timeout_ms=self.timeout_ms))
        arrived: list[tuple[Scope, str]] = []
        errors: list[BaseException] = []
        spool = self.directory / name / "turns.db"
        log = RedisTurnLog(
            spool,
            connection,
            prefix=self.prefix,
            clock=clock or self.clock,
            forwarded=lambda scope, session_id: arrived.append((scope, session_id)),
            on_error=errors.append,
            config=RetainConfig(max_turn_chars=1000),
        )
        if started:
            await log.start()
        try:
            yield Replica(log, connection, spool, arrived, errors)
        finally:
            try:
                await log.stop()
            finally:
                await connection.aclose()

    @contextmanager
    def client(self) -> Iterator[Redis]:
        with Redis.from_url(self.url) as client:
            yield client


def leave_the_spool_soon(log: RedisTurnLog) -> None:
    """What has arrived stays there for a second only, which is what the forwarder adds: a compaction waits for it."""
    log._forwarder._held_seconds = 0


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return when it is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await condition():
                return
            await asyncio.sleep(POLL_SECONDS)
