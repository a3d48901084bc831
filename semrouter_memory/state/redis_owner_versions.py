"""Owners' versions in Redis, shared by replicas (implements the `OwnerVersions` port).

    version:<owner>    string   a number that every write changes

Strategy. Versions are random, so a Redis that lost data cannot reissue an old one. Recall asks once per request, with a short
timeout; after a timeout it does not ask until Redis answers again.
"""

import secrets
from functools import partial
from hashlib import blake2b

from semrouter_memory.databases.columns import pack
from semrouter_memory.databases.redis_connection import RedisConnection, reported_as
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Scope

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
