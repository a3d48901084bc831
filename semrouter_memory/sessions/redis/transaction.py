"""Optimistic transactions on one owner.

Strategy. WATCH the owner's version, read what is needed (on any connection: a change after the WATCH breaks the
transaction), decide in Python, and send all changes in one MULTI together with a new version. When another replica was
faster, nothing is changed and the decision is made anew. Within the process transactions of an owner take turns, so
that only replicas can collide.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from redis.exceptions import WatchError

from semrouter_memory.model import Scope
from semrouter_memory.resilience import Backoff
from semrouter_memory.sessions.locks import InProcessOwnerLocks
from semrouter_memory.sessions.redis.connection import Argument, Command, RedisConnection, RedisFailedError
from semrouter_memory.sessions.redis.keys import Keys

T = TypeVar("T")

_ATTEMPTS = 40
_BACKOFF = Backoff(first=0.002, longest=0.1, spread=1.0)
_VERSION_SECONDS = 86_400
"""How long an owner's version is kept: much longer than a transaction takes."""
_CONCURRENT = 16


class Changes:
    """The changes of one transaction, in order; nothing happens before all of them do."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def add(self, *command: Argument) -> None:
        self.commands.append(command)

    def write_hash(self, key: str, values: Mapping[str, Argument]) -> None:
        self.add("HSET", key, *(item for pair in values.items() for item in pair))

    def count(self, key: str, amounts: Mapping[str, int]) -> None:
        for name, amount in amounts.items():
            if amount:
                self.add("HINCRBY", key, name, amount)


class Transactions:
    """Runs transactions through one connection."""

    def __init__(self, connection: RedisConnection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        self._turns = InProcessOwnerLocks()
        self._running = asyncio.Semaphore(_CONCURRENT)

    async def on_owner(
        self, owner: str, work: Callable[[Changes], Awaitable[T]], *, also_watch: Sequence[str] = ()
    ) -> T:
        """Run `work` until the changes that it adds were made by no one else's leave; it may run several times.

        Args:
            owner: the owner's digest.
            also_watch: keys beside the owner's that the decision hangs on.

        Raises:
            RedisFailedError: nothing was changed, or it is not known whether the changes were made.
        """
        version = self._keys.owner_version(owner)
        async with self._turns.hold(Scope(owner)), self._running:
            for attempt in range(_ATTEMPTS):
                changes = Changes()
                done, result = await self._once(version, work, changes, also_watch)
                if done:
                    return result
                await asyncio.sleep(_BACKOFF.delay(attempt, random.random()))  # noqa: S311 - no secret
        raise RedisFailedError("too many changes of one owner at a time")

    async def _once(
        self, version: str, work: Callable[[Changes], Awaitable[T]], changes: Changes, also_watch: Sequence[str]
    ) -> tuple[bool, T]:
        async with self._connection.calling(), self._connection.pipeline() as pipeline:
            await pipeline.watch(version, *also_watch)
            result = await work(changes)
            if not changes.commands:
                return True, result
            begin: Callable[[], None] = pipeline.multi
            begin()
            pipeline.execute_command("INCR", version)
            pipeline.execute_command("EXPIRE", version, _VERSION_SECONDS)
            for command in changes.commands:
                pipeline.execute_command(*command)
            try:
                await pipeline.execute()
            except WatchError:
                return False, result
            return True, result


def pairs(answer: Any) -> dict[bytes, bytes]:
    """A hash as Redis answers it, whether redis-py has made a dictionary of it or not."""
    if isinstance(answer, dict):
        return answer
    return dict(zip(answer[::2], answer[1::2], strict=True))
