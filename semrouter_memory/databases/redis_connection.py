"""The connection to Redis that all adapters of this package share, and the circuit in front of it.

Strategy. The first call that fails opens the circuit. One task then pings the server with growing pauses; until it answers,
all other calls fail at once, without waiting for a timeout. A call is never repeated here, because the server may have
executed it. Of redis-py's errors only the class name is reported, since some quote the command, which carries content.

What answers behind the address may be another server later, or the same one without some of its data. redis-py replaces an idle
connection that the server closed without a word, and keeps those to a server that has become a replica. So the first counts as a
disturbance, and a server that refuses writes as lost: its connections are given up.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from semrouter_memory.config import RedisConfig, secret
from semrouter_memory.config.section import names_a_server
from semrouter_memory.errors import ConfigurationError, Service, UnavailableError
from semrouter_memory.resilience import Backoff, Circuit
from semrouter_memory.workers import BackgroundTasks

Argument: TypeAlias = str | bytes | int
Command: TypeAlias = tuple[Argument, ...]

_SCHEMES = ("redis", "rediss")
_LONGEST_PAUSE_SECONDS = 15.0
_UNAVAILABLE = (RedisConnectionError, RedisTimeoutError, OSError, TimeoutError)
"""Errors of an unavailable server; `TimeoutError` is asyncio's."""
_BATCH = 500
"""Commands that are sent at a time: the event loop has other things to do between two batches."""
under_lock: ContextVar[bool] = ContextVar("under_lock", default=False)
"""Set while an owner's lock is held: what is read then is to be the newest, and nothing older does instead."""


class RedisConnection:
    """A client with a circuit. It belongs to one event loop.

    Calls raise `UnavailableError` when they did not succeed, or were not made because the server is unavailable; adapters turn it into
    their port's error.

    Raises:
        ConfigurationError: the URL is none that Redis can be reached by, or the password file cannot be read.
    """

    def __init__(self, config: RedisConfig) -> None:
        url = checked(config.url or "")
        self._timeout = config.timeout_ms / 1000
        self._circuit = Circuit(Backoff(first=config.retry_seconds, longest=_LONGEST_PAUSE_SECONDS, spread=0.5))
        pool: ConnectionPool = ConnectionPool.from_url(
            url,
            username=config.username,
            password=secret(config.password, config.password_file),
            socket_timeout=self._timeout,
            socket_connect_timeout=self._timeout,
            # The server may have executed the call: the caller decides whether to repeat it.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        pool.connection_class = _watched(pool.connection_class, self._closed_by_server)
        self._client: Redis = Redis.from_pool(pool)
        self._send: Callable[..., Awaitable[Any]] = self._client.execute_command
        self._present = asyncio.Event()
        self._present.set()
        self._watch = BackgroundTasks()
        self._cause = ""
        self.disturbances = 0
        """Grows whenever the server is found unavailable, or may be another one."""

    @property
    def available(self) -> bool:
        """False while the server is known to be unavailable; calls then fail at once."""
        return not self._circuit.is_open

    @property
    def responsive(self) -> bool:
        """False while it is unavailable, or was too slow for a request a moment ago."""
        return self.available and not self._circuit.is_suspect

    async def start(self) -> None:
        """Look whether the server is there; it need not be."""
        with suppress(UnavailableError):
            await self.execute("PING")

    async def wait(self) -> None:
        """Return when the server is not known to be unavailable."""
        await self._present.wait()

    async def aclose(self) -> None:
        await self._watch.stop()
        with suppress(RedisError, OSError):
            await self._client.aclose()

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def execute(self, *command: Argument) -> Any:
        async with self.calling():
            return await self._send(*command)

    async def execute_all(self, commands: Iterable[Command]) -> list[Any]:
        """The answers of commands, sent together, in batches; other clients' commands may come in between."""
        answers: list[Any] = []
        waiting = list(commands)
        async with self.calling():
            for start in range(0, len(waiting), _BATCH):
                pipeline = self._client.pipeline(transaction=False)
                for command in waiting[start : start + _BATCH]:
                    pipeline.execute_command(*command)
                answers += await pipeline.execute()
        return answers

    async def scan(self, pattern: str) -> AsyncIterator[str]:
        """The keys that match, read some at a time."""
        async with self.calling():
            async for key in self._client.scan_iter(match=pattern, count=_BATCH):
                yield key.decode()

    async def scan_hash(self, key: str, count: int) -> AsyncIterator[tuple[bytes, bytes]]:
        """The fields of a hash, about so many at a time."""
        async with self.calling():
            async for field, value in self._client.hscan_iter(key, count=count):
                yield field, value

    def script(self, text: str) -> AsyncScript:
        """A Lua script, to be run by `run`."""
        return self._client.register_script(text)

    async def run(self, script: AsyncScript, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        async with self.calling():
            return await script(keys=list(keys), args=list(arguments))

    def pipeline(self) -> Pipeline:
        """For transactions; to be used within `calling`."""
        return self._client.pipeline(transaction=True)

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Calls that a request waits for: they fail when the server was slow a moment ago, or takes longer now.

        A server that takes longer is probed. Under an owner's lock, calls take the time that all others have.

        Raises:
            UnavailableError: also from what is done inside.
        """
        if under_lock.get():
            yield
            return
        if not self.responsive:
            raise UnavailableError("Redis is unavailable or slow", service=Service.REDIS)
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            if self.responsive:
                self._circuit.suspect()
                self._look_again()
            raise UnavailableError("Redis is slow", service=Service.REDIS) from None

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        if not self.available:
            raise UnavailableError(f"Redis is unavailable: {self._cause}", service=Service.REDIS)
        try:
            yield
        except _UNAVAILABLE as error:
            self._lost(error)
            raise UnavailableError(f"Redis is unavailable: {self._cause}", service=Service.REDIS) from None
        except ReadOnlyError as error:
            self._lost(error)
            await self._client.connection_pool.disconnect(inuse_connections=False)
            raise UnavailableError("Redis is a replica and refuses writes", service=Service.REDIS) from None
        except ResponseError as error:
            raise UnavailableError(f"Redis refused: {type(error).__name__}", service=Service.REDIS) from None
        except RedisError as error:
            raise UnavailableError(f"Redis failed: {type(error).__name__}", service=Service.REDIS) from None

    # -- the circuit ---------------------------------------------------------------------------------------------------

    def _lost(self, error: Exception) -> None:
        if self.available:
            self._cause = type(error).__name__
            self.disturbances += 1
            self._failed()
            self._look_again()

    def _closed_by_server(self) -> None:
        self.disturbances += 1

    def _look_again(self) -> None:
        if not self._watch:
            self._watch.start(self._ping_until_present(), name="redis-watch")

    def _failed(self, *, probe: bool = False) -> None:
        self._present.clear()
        now = asyncio.get_running_loop().time()
        self._circuit.failed(now, probe=probe, jitter=random.random())  # noqa: S311 - no secret

    async def _ping_until_present(self) -> None:
        while not self.responsive:
            if not self.available:
                await asyncio.sleep(self._circuit.wait_seconds(asyncio.get_running_loop().time()))
            try:
                async with asyncio.timeout(self._timeout):
                    await self._send("PING")
            except Exception as error:  # noqa: BLE001 - without this task, an unavailable server stays unavailable
                self.disturbances += self.available
                self._cause = type(error).__name__
                self._failed(probe=True)
            else:
                self._circuit.succeeded()
                self._present.set()


def _watched(
    connection_class: type[AbstractConnection], closed_by_server: Callable[[], object]
) -> type[AbstractConnection]:
    """The connection with a write that ends when its caller is cancelled, and that tells when the server has closed it.

    redis-py writes within `asyncio.wait_for`. Until Python 3.12 that returns as if nothing had happened when the caller is
    cancelled while the write ends (python/cpython#86296), which is at each write that need not wait.
    """

    class Watched(connection_class):  # type: ignore[misc, valid-type]  # the URL decides which class it is
        socket_timeout: float | None

        async def connect(self) -> None:
            # The pool calls it before it hands a connection out, and makes one anew that has come to its end.
            if self.is_connected and self._reader.at_eof():
                closed_by_server()
            await super().connect()

        async def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - as redis-py has it
            seconds, self.socket_timeout = self.socket_timeout, None  # without it, there is no `wait_for`
            try:
                async with asyncio.timeout(seconds):
                    await super().send_packed_command(command, check_health)
            finally:
                self.socket_timeout = seconds

    return Watched


@contextmanager
def reported_as(error: Callable[[str], UnavailableError], operation: str) -> Iterator[None]:
    """Reports an unavailable Redis as the error of the part that an adapter implements; other errors stay as they are."""
    try:
        yield
    except UnavailableError as failure:
        if failure.service is not Service.REDIS:
            raise
        raise error(f"{operation} failed: {failure}") from None


def checked(url: str) -> str:
    """The URL. Raises: ConfigurationError: it names no Redis, or holds a password."""
    is_server = names_a_server(url, _SCHEMES)
    parts = urlsplit(url if is_server or url.startswith("unix:/") else "")
    # The client takes a database that is no number for the first one.
    if not re.fullmatch(r"(/\d*)?" if is_server else r".+", parts.path):
        raise ConfigurationError(
            "memory.redis.url: must be redis://host:port/db, rediss://host:port/db or unix:///path, for example"
            " redis://127.0.0.1:6379/0"
        )
    if parts.password is not None:
        raise ConfigurationError("memory.redis.url: without a password; put it into memory.redis.password_file")
    return url


def pairs(answer: Any) -> dict[bytes, bytes]:
    """A hash as Redis answers it, whether redis-py has made a dictionary of it or not."""
    if isinstance(answer, dict):
        return answer
    return dict(zip(answer[::2], answer[1::2], strict=True))
