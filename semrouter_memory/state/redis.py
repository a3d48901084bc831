"""Small values that end by themselves, in Redis (implements the `StateStore` port).

    state:<owner>:<digest>     string   a value, with the moment of its end before it; also the key's own TTL
    states:<owner>             zset     an owner's values, by their end: what `forget` and `sweep` go by
    uses:<owner>               hash     memory id -> access count
    used:<owner>               zset     memory ids, by when they were used last

Whatever a client can choose is in a key as a digest, or a hash's field.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path

from semrouter_memory.databases import micros, moment, pack
from semrouter_memory.databases.redis_connection import Command, RedisConnection, reported_as
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Reach, Scope, Usage
from semrouter_memory.ports import RECEIPTS, Clock

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
            async for index in self._indexes():
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

    async def _indexes(self) -> AsyncIterator[str]:
        cursor = b"0"
        while True:
            cursor, keys = await self._connection.execute(
                "SCAN", cursor, "MATCH", f"{self._prefix}:states:*", "COUNT", _BATCH
            )
            for key in keys:
                yield key.decode()
            if int(cursor) == 0:
                return

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
