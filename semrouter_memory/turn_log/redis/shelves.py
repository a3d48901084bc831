"""Shelves that replicas hand to each other through Redis (implements the `SharedShelves` port).

    shelf:<owner>    hash    space -> a generation, then a shelf's bytes; ends by itself

Strategy. A shelf is kept only while the owner's generation is the one that it was read at: looked at in the script that
keeps it, and the script that advances the generation takes all of the owner's shelves away. Programs that could not read
each other's shelves use different spaces.
"""

from datetime import timedelta

from semrouter_memory.errors import GenerationsError
from semrouter_memory.model import Scope
from semrouter_memory.turn_log.redis.connection import Argument, RedisConnection, RedisFailedError
from semrouter_memory.turn_log.redis.generations import keys

_NUMBER_BYTES = 8
_MAX_BYTES = 8 * 1024 * 1024
"""Reading more takes longer than reading the store, and holds up everybody else's questions."""

# KEYS: generation, shelf. ARGV: generation, space, value, milliseconds.
_PUT = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
"""


class RedisShelves:
    """Shelves that replicas with the same prefix and space share.

    Args:
        space: names what shelves look like, and what their vectors mean.
        ttl: how long a shelf that nobody wrote to is kept.
    """

    def __init__(self, connection: RedisConnection, *, prefix: str, space: str, ttl: timedelta) -> None:
        self._connection = connection
        self._prefix = prefix
        self._space = space
        self._milliseconds = max(1, int(ttl.total_seconds() * 1000))
        self._put = connection.script(_PUT)

    async def get(self, scope: Scope, generation: int) -> bytes | None:
        _, key = keys(self._prefix, scope)
        try:
            value: bytes | None = await self._connection.execute("HGET", key, self._space)
        except RedisFailedError as error:
            raise GenerationsError(f"the owner's shelf cannot be had: {error}") from None
        if value is None or value[:_NUMBER_BYTES] != _number(generation):
            return None
        return value[_NUMBER_BYTES:]

    async def put(self, scope: Scope, generation: int, value: bytes) -> None:
        if len(value) > _MAX_BYTES:
            return
        arguments: list[Argument] = [generation, self._space, _number(generation) + value, self._milliseconds]
        try:
            await self._connection.run(self._put, keys(self._prefix, scope), arguments)
        except RedisFailedError as error:
            raise GenerationsError(f"the owner's shelf cannot be kept: {error}") from None


def _number(generation: int) -> bytes:
    return generation.to_bytes(_NUMBER_BYTES, "big")
