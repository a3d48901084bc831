"""Optimistic transactions on one owner.

Strategy. WATCH the owner's version, read what is needed (on any connection: a change after the WATCH breaks the
transaction), decide in Python, and send all changes in one MULTI together with a new version. When another replica
commits first, nothing is changed and the decision is made again. Within the process transactions of an owner take turns, so
that only replicas can collide. A transaction that lost takes precedence: the others wait, so that a long one (a deletion)
is not starved by many short ones (the turns of a user who goes on talking).
"""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from redis.exceptions import WatchError

from semrouter_memory.databases.redis_connection import Command, RedisConnection
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.resilience import Backoff
from semrouter_memory.state.in_process import InProcessOwnerLocks
from semrouter_memory.turn_log.redis import Keys

T = TypeVar("T")

Work: TypeAlias = Callable[[], Awaitable[tuple[list[Command], T]]]
"""Reads, and says which commands to send."""

_ATTEMPTS = 40
_BACKOFF = Backoff(first=0.002, longest=0.1, spread=1.0)
_VERSION_SECONDS = 86_400
"""TTL of an owner's version: much longer than a transaction takes."""
_CONCURRENT = 16
_PRECEDENCE_MS = 1_000
"""Longer than one attempt. A replica that dies meanwhile holds up the owner's transactions for so long."""


class Transactions:
    """Runs transactions through one connection."""

    def __init__(self, connection: RedisConnection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        self._turns = InProcessOwnerLocks()
        self._running = asyncio.Semaphore(_CONCURRENT)
        self._replica = uuid.uuid4().bytes

    async def on_owner(self, owner: str, work: Work[T], *, also_watch: Sequence[str] = ()) -> T:
        """Retry `work` until its commands commit without a conflict.

        Args:
            owner: the owner's digest.
            also_watch: further keys that the decision depends on.

        Raises:
            UnavailableError: nothing was changed, or it is not known whether the changes were made.
        """
        version, precedence = self._keys("owner", owner, "version"), self._keys("owner", owner, "precedence")
        async with self._turns.hold(Scope(owner)), self._running:
            for attempt in range(_ATTEMPTS):
                done = await self._once(version, precedence, work, also_watch)
                if done is not None:
                    (result,) = done
                    return result
                await self._connection.execute("SET", precedence, self._replica, "NX", "PX", _PRECEDENCE_MS)
                await asyncio.sleep(_BACKOFF.delay(attempt, random.random()))  # noqa: S311 - no secret
        raise UnavailableError("too many changes of one owner at a time", service=Service.REDIS)

    async def _once(self, version: str, precedence: str, work: Work[T], also_watch: Sequence[str]) -> tuple[T] | None:
        """The result; None: another replica committed first, or has precedence."""
        async with self._connection.calling(), self._connection.pipeline() as pipeline:
            await pipeline.watch(version, *also_watch)
            first = await pipeline.get(precedence)
            if first is not None and first != self._replica:
                return None
            commands, result = await work()
            if not commands:
                return (result,)
            begin: Callable[[], None] = pipeline.multi
            begin()
            pipeline.execute_command("INCR", version)
            pipeline.execute_command("EXPIRE", version, _VERSION_SECONDS)
            for command in commands:
                pipeline.execute_command(*command)
            if first is not None:
                pipeline.execute_command("DEL", precedence)
            try:
                await pipeline.execute()
            except WatchError:
                return None
            return (result,)
