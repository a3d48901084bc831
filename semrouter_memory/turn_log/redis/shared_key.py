"""The secret that all replicas' digests are made with.

Made once, kept in Redis, and remembered in the spool, so that it is known while Redis is away. Asked for again after
every outage: Redis may have come back with another one, or empty, and then it is given ours.
"""

import secrets

from semrouter_memory.turn_log.redis.connection import RedisConnection
from semrouter_memory.turn_log.redis.keys import Keys
from semrouter_memory.turn_log.sqlite.spool import Spool

_BYTES = 32


class SharedKey:
    """The key as it is known.

    Attributes:
        known: what is remembered; None before Redis was reached for the first time.
        changed: another one than before is known; the reader's to take back.
    """

    def __init__(self, connection: RedisConnection, keys: Keys, spool: Spool) -> None:
        self._connection = connection
        self._keys = keys
        self._spool = spool
        self._asked_after = -1
        self.known = spool.digest_key()
        self.changed = False

    async def current(self) -> bytes:
        """The key that Redis has, unless there was no outage since it was last asked.

        Raises:
            UnavailableError: Redis must be asked, and is away.
        """
        disturbances = self._connection.disturbances
        if self.known is not None and self._asked_after == disturbances:
            return self.known
        proposed = self.known or secrets.token_bytes(_BYTES)
        await self._connection.execute("SETNX", self._keys.digest_key, proposed)
        key = bytes(await self._connection.execute("GET", self._keys.digest_key))
        self._asked_after = disturbances
        if key != self.known:
            await self._spool.remember_digest_key(key)
            self.known, self.changed = key, True
        return key
