"""What replicas share in Redis: small values that end by themselves, usage, and owners' locks and versions.

They implement the ports `StateStore`, `OwnerLocks` and `OwnerVersions`.

Strategy of the locks. The tasks of a process queue for an asyncio lock, and the first of them for a key in Redis that holds
a random token and ends by itself. While it is held it is renewed; `confirm` renews it right before a write, so that the whole of
its time lies ahead of the write. Only the holder of the token releases it.

A replica that finds the key taken leaves a note that it wants it, and looks again soon. While the note
stands no other replica takes the key, so that a busy replica cannot starve the others.

A process that is paused right after `confirm` for longer than the lock's time may still write while another
one holds it: the vector store knows no fencing tokens.

Strategy of the versions. They are random, so a Redis that lost data cannot reissue an old one. Recall asks once per request,
with a short timeout; after a timeout it does not ask until Redis answers again.

    state:<owner>:<digest>     string   a value, with the moment of its end before it; also the key's own TTL
    states:<owner>             zset     an owner's values, by their end: what `forget` and `sweep` go by
    uses:<owner>               hash     memory id -> access count
    used:<owner>               zset     memory ids, by when they were used last
    lock:<owner>, lock:<owner>:wanted    string   the holder's token; the replica that wants it
    version:<owner>                      string   a number that every write changes

Whatever a client can choose is in a key as a digest, or a hash's field.
"""

import asyncio
import random
import secrets
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path

from redis.commands.core import AsyncScript

from semrouter_memory.databases import micros, moment, pack
from semrouter_memory.databases.redis_connection import Argument, Command, RedisConnection, reported_as, under_lock
from semrouter_memory.errors import LockLostError, Service, UnavailableError
from semrouter_memory.model import Reach, Scope, Usage
from semrouter_memory.ports import RECEIPTS, Clock
from semrouter_memory.state.local import InProcessOwnerLocks

_USAGE_SECONDS = 400 * 86_400
"""How long the use of a user's memories is known after the last one."""

_unavailable = partial(UnavailableError, service=Service.STATE)
_MOMENT_BYTES = 8
_BATCH = 500

# KEYS: value, index. ARGV: value, milliseconds, member, end.
_PUT = """
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[3])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
"""


class RedisStateStore:
    """Values and usage that replicas with the same prefix share."""

    def __init__(self, connection: RedisConnection, *, prefix: str, clock: Clock) -> None:
        self._connection = connection
        self._prefix = prefix
        self._clock = clock
        self._put = connection.script(_PUT)

    # -- values --------------------------------------------------------------------------------------------------------

    async def get(self, scope: Scope, keys: Sequence[str]) -> Mapping[str, bytes]:
        wanted = list(dict.fromkeys(keys))
        if not wanted:
            return {}
        with reported_as(_unavailable, "state: get"):
            values = await self._connection.execute("MGET", *(self._value_key(scope, key) for key in wanted))
        now = micros(self._clock.now())
        return {
            key: value[_MOMENT_BYTES:]
            for key, value in zip(wanted, values, strict=True)
            if value is not None and int.from_bytes(value[:_MOMENT_BYTES], "big") > now
        }

    async def put(self, scope: Scope, key: str, value: bytes, *, ttl: timedelta) -> None:
        ends = micros(self._clock.now() + ttl)
        with reported_as(_unavailable, "state: put"):
            await self._connection.run(
                self._put,
                [self._value_key(scope, key), self._index(scope)],
                [
                    ends.to_bytes(_MOMENT_BYTES, "big") + value,
                    max(1, int(ttl.total_seconds() * 1000)),
                    _member(scope, key),
                    ends,
                ],
            )

    async def drop(self, scope: Scope, keys: Sequence[str]) -> None:
        if keys:
            with reported_as(_unavailable, "state: drop"):
                await self._drop(self._index(scope), [_member(scope, key) for key in keys])

    # -- usage ---------------------------------------------------------------------------------------------------------

    async def count_uses(self, scope: Scope, uses: Mapping[str, int], *, at: datetime) -> None:
        counts, moments = self._usage_keys(scope)
        commands: list[Command] = []
        for memory_id, count in uses.items():
            commands.append(("HINCRBY", counts, pack(memory_id), count))
            commands.append(("ZADD", moments, "GT", micros(at), pack(memory_id)))
        commands += [("EXPIRE", key, _USAGE_SECONDS) for key in (counts, moments)]
        with reported_as(_unavailable, "state: count_uses"):
            await self._connection.execute_all(commands)

    async def usage(self, scope: Scope, memory_ids: Sequence[str]) -> Mapping[str, Usage]:
        if not memory_ids:
            return {}
        packed = [pack(memory_id) for memory_id in memory_ids]
        with reported_as(_unavailable, "state: usage"):
            keys = zip(("HMGET", "ZMSCORE"), self._usage_keys(scope), strict=True)
            counts, moments = await self._connection.execute_all((*key, *packed) for key in keys)
        return {
            memory_id: Usage(int(count), moment(int(last)))
            for memory_id, count, last in zip(memory_ids, counts, moments, strict=True)
            if count is not None and last is not None
        }

    async def drop_usage(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        if memory_ids:
            packed = [pack(memory_id) for memory_id in memory_ids]
            with reported_as(_unavailable, "state: drop_usage"):
                keys = zip(("HDEL", "ZREM"), self._usage_keys(scope), strict=True)
                await self._connection.execute_all((*key, *packed) for key in keys)

    # -- leaving -------------------------------------------------------------------------------------------------------

    async def forget(self, scope: Scope, reach: Reach) -> None:
        index = self._index(scope)
        with reported_as(_unavailable, "state: forget"):
            members = [member.decode() for member in await self._connection.execute("ZRANGE", index, 0, -1)]
            if reach is Reach.EXACT:
                # Receipts may name what is forgotten.
                receipts = _member(scope.in_project(""), RECEIPTS)
                members = [each for each in members if each.startswith(_project(scope)) or each == receipts]
            else:
                await self._connection.execute("DEL", *self._usage_keys(scope))
            await self._drop(index, members)

    async def sweep(self) -> int:
        """See the port. Redis ends values by itself; this is for those that it has not come to."""
        now = micros(self._clock.now())
        swept = 0
        with reported_as(_unavailable, "state: sweep"):
            async for index in self._connection.scan(f"{self._prefix}:states:*"):
                members = await self._connection.execute("ZRANGEBYSCORE", index, "-inf", now)
                swept += len(members)
                await self._drop(index, [member.decode() for member in members])
        return swept

    async def compact(self) -> None:
        """Nothing to do here: Redis rewrites its own files."""

    async def backup(self, directory: Path) -> None:
        """Nothing to do here: Redis is backed up by its own means."""

    # -- the keys ------------------------------------------------------------------------------------------------------

    async def _drop(self, index: str, members: Sequence[str]) -> None:
        owner = index.rpartition(":")[2]
        for start in range(0, len(members), _BATCH):
            batch = members[start : start + _BATCH]
            commands: list[Command] = [
                ("UNLINK", *(f"{self._prefix}:state:{owner}:{member}" for member in batch)),
                ("ZREM", index, *batch),
            ]
            await self._connection.execute_all(commands)

    def _value_key(self, scope: Scope, key: str) -> str:
        return f"{self._prefix}:state:{_owner(scope)}:{_member(scope, key)}"

    def _index(self, scope: Scope) -> str:
        return f"{self._prefix}:states:{_owner(scope)}"

    def _usage_keys(self, scope: Scope) -> list[str]:
        return [f"{self._prefix}:{name}:{_owner(scope)}" for name in ("uses", "used")]


def _owner(scope: Scope) -> str:
    return _digest(scope.owner)


def _project(scope: Scope) -> str:
    return _digest(scope.project_id)


def _member(scope: Scope, key: str) -> str:
    return f"{_project(scope)}.{_digest(key)}"


def _digest(value: str) -> str:
    return blake2b(pack(value), digest_size=16, person=b"state").hexdigest()


# -- locks -------------------------------------------------------------------------------------------------------------

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
        key, token = f"{self._prefix}:lock:{_owner(scope)}", uuid.uuid4().hex
        async with self._own.hold(scope):
            hold = RedisOwnerHold(self._connection, partial(self._run, self._renew, [key], [token, self._milliseconds]))
            renewing: asyncio.Task[None] | None = None
            try:
                await self._queue(key, token)
                renewing = asyncio.create_task(hold.keep_renewing(self._lock_seconds / _RENEWALS), name="owner-lock")
                # What was deleted comes from Redis now, however slow it is: what is known here may be older than the lock.
                newest = under_lock.set(True)
                try:
                    yield hold
                finally:
                    under_lock.reset(newest)
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
            LockLostError: it is not held any more; or Redis was unavailable meanwhile, and what was read under the lock
                (the deletions that another replica wrote) may be older than the lock.
        """
        if self._connection.disturbances != self._disturbances:
            raise LockLostError("Redis was unavailable while the owner's lock was held")
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
_no_version = partial(UnavailableError, service=Service.OWNER_VERSIONS)


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
        with reported_as(_no_version, "the owner's version"):
            async with self._connection.within(self._patience_seconds):
                _, version = await self._connection.execute_all((begin, ("GET", key)))
        return int(version)

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        key, after = self._key(scope), _drawn()
        with reported_as(_no_version, "the owner's version"):
            commands = (("GETSET", key, after), ("EXPIRE", key, _KEPT_SECONDS))
            before, _ = await self._connection.execute_all(commands)
        return None if before is None else int(before), after

    def _key(self, scope: Scope) -> str:
        return version_key(self._prefix, scope)


def version_key(prefix: str, scope: Scope) -> str:
    """The key of the owner's version."""
    return f"{prefix}:version:{_owner(scope)}"


def _drawn() -> int:
    return secrets.randbits(_BITS)
