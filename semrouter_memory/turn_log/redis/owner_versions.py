"""Owners' versions in Redis, shared by replicas (implements the `OwnerVersions` port).

    version:<owner>    string   a number that every write changes

Strategy. Versions are random, so a Redis that lost data cannot reissue an old one. Recall asks once per request, with a short
timeout; after a timeout it does not ask until Redis answers again.
"""

import asyncio
import secrets
from functools import partial
from hashlib import blake2b

from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.turn_log.columns import pack
from semrouter_memory.turn_log.redis.connection import RedisConnection, reported_as

_KEPT_SECONDS = 7 * 86_400
"""How long a number is known after the owner's last write."""
_BITS = 63
_unavailable = partial(UnavailableError, service=Service.OWNER_VERSIONS)

# KEYS: version. ARGV: number, seconds.
_BEGIN = """
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2])
return redis.call('GET', KEYS[1])
"""

# The same; returns the number before.
_ADVANCE = """
local before = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return before
"""


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
        self._begin = connection.script(_BEGIN)
        self._advance = connection.script(_ADVANCE)

    async def current(self, scope: Scope) -> int:
        if not self._connection.responsive:
            raise _unavailable("Redis is unavailable or slow")
        try:
            # Not `within`: a late number has recall ask the store, and is no reason to break off a deletion under way.
            async with asyncio.timeout(self._patience_seconds):
                with reported_as(_unavailable, "the owner's version"):
                    return int(await self._connection.run(self._begin, [self._key(scope)], [_drawn(), _KEPT_SECONDS]))
        except TimeoutError:
            self._connection.doubt()
            raise _unavailable("Redis is slow") from None

    async def advance(self, scope: Scope) -> tuple[int | None, int]:
        after = _drawn()
        with reported_as(_unavailable, "the owner's version"):
            before = await self._connection.run(self._advance, [self._key(scope)], [after, _KEPT_SECONDS])
        return None if before is None else int(before), after

    def _key(self, scope: Scope) -> str:
        return version_key(self._prefix, scope)


def version_key(prefix: str, scope: Scope) -> str:
    """The key of the owner's version."""
    owner = blake2b(pack(scope.owner), digest_size=16, person=b"version").hexdigest()
    return f"{prefix}:version:{owner}"


def _drawn() -> int:
    return secrets.randbits(_BITS)
