"""Owners' generations in Redis, shared by replicas (implements the `Generations` port).

    generation:<owner>    string   a number that every write changes
    shelf:<owner>         hash     see `shelves.py`

Strategy. A number begins at random, so that one that was lost (a server that came back empty, a key that has ended) does
not come back as one that meant something else. Recall asks once per request: one short GET, for which it does not wait
long. What advances the number takes the owner's shelf away in the same script, for what it shows may be deleted by now.
"""

import asyncio
import secrets
from hashlib import blake2b

from semrouter_memory.errors import GenerationsError
from semrouter_memory.model import Scope
from semrouter_memory.sessions.columns import pack
from semrouter_memory.sessions.redis.connection import RedisConnection, RedisFailedError

_PATIENCE_SECONDS = 0.025
"""Half of recall's usual deadline. A server in the same zone answers within a millisecond."""
_KEPT_SECONDS = 7 * 86_400
"""How long a number is known after the owner's last write."""
_FIRST_BITS = 48
"""Lua's numbers are exact up to 2**53."""

# KEYS: generation. ARGV: first number, seconds.
_BEGIN = """
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2])
return redis.call('GET', KEYS[1])
"""

# KEYS: generation, shelf. ARGV: first number, seconds.
_ADVANCE = """
redis.call('SET', KEYS[1], ARGV[1], 'NX')
local number = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('UNLINK', KEYS[2])
return number
"""


class RedisGenerations:
    """Numbers that replicas with the same prefix share."""

    def __init__(self, connection: RedisConnection, *, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._begin = connection.script(_BEGIN)
        self._advance = connection.script(_ADVANCE)

    async def current(self, scope: Scope) -> int:
        key, _ = keys(self._prefix, scope)
        if not self._connection.responsive:
            raise GenerationsError("Redis is away or slow")
        try:
            # Not `within`: a late number has recall ask the store, and is no reason to break off a deletion under way.
            async with asyncio.timeout(_PATIENCE_SECONDS):
                number = await self._connection.execute("GET", key)
                if number is None:
                    number = await self._connection.run(self._begin, [key], [_first(), _KEPT_SECONDS])
        except TimeoutError:
            raise GenerationsError("Redis is slow") from None
        except RedisFailedError as error:
            raise GenerationsError(f"the owner's generation cannot be had: {error}") from None
        return int(number)

    async def advance(self, scope: Scope) -> int:
        try:
            arguments = [_first(), _KEPT_SECONDS]
            return int(await self._connection.run(self._advance, keys(self._prefix, scope), arguments))
        except RedisFailedError as error:
            raise GenerationsError(f"the owner's generation cannot be advanced: {error}") from None


def keys(prefix: str, scope: Scope) -> tuple[str, str]:
    """The keys of the owner's generation and shelf."""
    owner = blake2b(pack(scope.user_id), digest_size=16, person=b"generation").hexdigest()
    return f"{prefix}:generation:{owner}", f"{prefix}:shelf:{owner}"


def _first() -> int:
    return secrets.randbits(_FIRST_BITS)
