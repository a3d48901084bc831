"""Owners' locks and versions across replicas (implements the ports `OwnerLocks` and `OwnerVersions`).

Strategy of the locks. The tasks of a process queue for an asyncio lock, and the first of them for a key in Redis that holds
a random token and ends by itself. While it is held it is renewed; `confirm` renews it right before a write, so that the whole of
its time lies ahead of the write. Only the holder of the token releases it.

A replica that finds the key taken leaves a note that it wants it, and looks again soon. While the note
stands no other replica takes the key, so that a busy replica cannot starve the others.

A process that is paused right after `confirm` for longer than the lock's time may still write while another
one holds it: the vector store knows no fencing tokens.

Strategy of the versions. They are random, so a Redis that lost data cannot reissue an old one. Recall asks once per request,
with a short timeout; after a timeout it does not ask until Redis answers again.

    lock:<owner>, lock:<owner>:wanted    string   the holder's token; the replica that wants it
    version:<owner>                      string   a number that every write changes
"""

import asyncio
import random
import secrets
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import blake2b

from redis.commands.core import AsyncScript

from semrouter_memory.databases import pack
from semrouter_memory.databases.redis_connection import Argument, RedisConnection, reported_as
from semrouter_memory.errors import LockLostError, Service, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.state.in_process import InProcessOwnerLocks

_NOTE_MS = 500
"""How long a note stands when the one who left it is gone."""

_POLL_SECONDS = (0.01, 0.04)
_RENEWALS = 3
"""So many times in a lock's time it is renewed."""

# KEYS: lock, note. ARGV: token, milliseconds, replica, the note's milliseconds.
_TAKE = """
local noted = redis.call('GET', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 0 and (not noted or noted == ARGV[3]) then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    redis.call('DEL', KEYS[2])
    return 1
end
if not noted or noted == ARGV[3] then
    redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
end
return 0
"""

# KEYS: lock. ARGV: token, milliseconds.
_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""

# KEYS: lock. ARGV: token.
_GIVE_BACK = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class RedisOwnerLocks:
    """One owner's changes happen one after another, in all replicas with the same prefix. Not reentrant.

    Args:
        lock_seconds: how long a process that died keeps an owner's lock.
        patience_seconds: how long to queue while other replicas have it.
    """

    def __init__(
        self, connection: RedisConnection, *, prefix: str, lock_seconds: float, patience_seconds: float = 60.0
    ) -> None:
        self._connection = connection
        self._prefix = prefix
        self._lock_seconds = lock_seconds
        self._patience_seconds = patience_seconds
        self._replica = uuid.uuid4().hex
        self._own = InProcessOwnerLocks()
        self._take = connection.script(_TAKE)
        self._renew = connection.script(_RENEW)
        self._give_back = connection.script(_GIVE_BACK)

    @asynccontextmanager
    async def hold(self, scope: Scope) -> AsyncIterator["RedisOwnerHold"]:
        """See the port.

        Raises:
            LockLostError: Redis is unavailable, or other replicas held the lock for too long.
        """
        name = blake2b(pack(scope.owner), digest_size=16, person=b"owner-lock").hexdigest()
        key, token = f"{self._prefix}:lock:{name}", uuid.uuid4().hex
        async with self._own.hold(scope):
            # While Redis is slow deletions come from the cache, which may be older than the lock.
            await self._connection.wait_while_slow()
            hold = RedisOwnerHold(self._connection, partial(self._run, self._renew, [key], [token, self._milliseconds]))
            renewing: asyncio.Task[None] | None = None
            try:
                await self._queue(key, token)
                renewing = asyncio.create_task(hold.keep_renewing(self._lock_seconds / _RENEWALS), name="owner-lock")
                yield hold
            finally:
                if renewing is not None:
                    renewing.cancel()
                with suppress(LockLostError):
                    # Also what was sent before a cancellation may have taken it.
                    await asyncio.shield(self._run(self._give_back, [key], [token]))

    async def _queue(self, key: str, token: str) -> None:
        arguments = (token, self._milliseconds, self._replica, _NOTE_MS)
        until = asyncio.get_running_loop().time() + self._patience_seconds
        # Looked at between two calls, each of which has a timeout: a call that is cancelled costs its connection.
        while not await self._run(self._take, [key, f"{key}:wanted"], arguments):
            if asyncio.get_running_loop().time() >= until:
                raise LockLostError("other replicas keep the owner's lock")
            await asyncio.sleep(random.uniform(*_POLL_SECONDS))  # noqa: S311 - no secret

    async def _run(self, script: AsyncScript, keys: Sequence[str], arguments: Sequence[Argument]) -> int:
        with reported_as(LockLostError, "the owner's lock"):
            return int(await self._connection.run(script, keys, arguments) or 0)

    @property
    def _milliseconds(self) -> int:
        return int(self._lock_seconds * 1000)


class RedisOwnerHold:
    """An owner's lock while it is held (implements the `OwnerHold` port). Made before the lock is asked for.

    Args:
        renew: renews the lock; 0 when it is not held any more.
    """

    def __init__(self, connection: RedisConnection, renew: Callable[[], Awaitable[int]]) -> None:
        self._connection = connection
        self._renew = renew
        self._disturbances = connection.disturbances

    async def confirm(self) -> None:
        """See the port.

        Raises:
            LockLostError: it is not held any more; or Redis was unavailable or slow meanwhile, and what was read under the lock
                (the deletions that another replica wrote) may be older than the lock.
        """
        if self._connection.disturbances != self._disturbances:
            raise LockLostError("Redis was unavailable or slow while the owner's lock was held")
        if not await self._renew():
            raise LockLostError("the owner's lock ran out while it was held")

    async def keep_renewing(self, pause_seconds: float) -> None:
        """Until it is cancelled. What fails here is found by `confirm`."""
        while True:
            await asyncio.sleep(pause_seconds)
            with suppress(LockLostError):
                await self._renew()


# -- versions ----------------------------------------------------------------------------------------------------------


_KEPT_SECONDS = 7 * 86_400
"""How long a number is known after the owner's last write."""
_BITS = 63
_unavailable = partial(UnavailableError, service=Service.OWNER_VERSIONS)


class RedisOwnerVersions:
    """Numbers that replicas with the same prefix share.

    Args:
        patience_seconds: how long recall waits for a number. It should be less than it waits for an owner index: so that the wait ends
            here, where Redis is known to be slow from then on. A server in the same zone answers within a millisecond.
    """

    def __init__(self, connection: RedisConnection, *, prefix: str, patience_seconds: float) -> None:
        self._connection = connection
        self._prefix = prefix
        self._patience_seconds = patience_seconds

    async def current(self, scope: Scope) -> int:
        key = self._key(scope)
        begin = ("SET", key, _drawn(), "NX", "EX", _KEPT_SECONDS)
        with reported_as(_unavailable, "the owner's version"):
            # A late number has recall ask the store, and is no reason to break off a deletion under way.
            async with self._connection.within(self._patience_seconds, disturbs=False):
                _, version = await self._connection.execute_all((begin, ("GET", key)))
        return int(version)

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        key, after = self._key(scope), _drawn()
        with reported_as(_unavailable, "the owner's version"):
            commands = (("GETSET", key, after), ("EXPIRE", key, _KEPT_SECONDS))
            before, _ = await self._connection.execute_all(commands)
        return None if before is None else int(before), after

    def _key(self, scope: Scope) -> str:
        return version_key(self._prefix, scope)


def version_key(prefix: str, scope: Scope) -> str:
    """The key of the owner's version."""
    owner = blake2b(pack(scope.owner), digest_size=16, person=b"version").hexdigest()
    return f"{prefix}:version:{owner}"


def _drawn() -> int:
    return secrets.randbits(_BITS)
