"""The pending sessions, as this process knows them.

Strategy. There may be thousands, and triggers look once a second. So they are read whole once, and after that only those
that changed: every change of a session leaves its id in a short stream. Where the stream no longer reaches back to the
last look, they are read whole again, a few at a time, since the event loop has other things to do in between.
"""

import asyncio

from semrouter_memory.databases.redis_connection import RedisConnection, pairs
from semrouter_memory.turn_log.redis.keys import Keys
from semrouter_memory.turn_log.rows import SessionRow, session_row

_BATCH = 200


class PendingSessions:
    """Reads the hash of pending sessions."""

    def __init__(self, connection: RedisConnection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        self._known: dict[str, SessionRow] = {}
        self._seen = b""
        self._one_at_a_time = asyncio.Lock()

    async def rows(self) -> list[SessionRow]:
        """All of them, in no order.

        Raises:
            UnavailableError: they could not be read.
        """
        async with self._one_at_a_time:
            if not self._seen:
                await self._read_whole()
            while await self._read_changed():
                pass
            return list(self._known.values())

    async def _read_changed(self) -> bool:
        """Read some that changed since the last look; returns whether there may be more."""
        if not self._seen:
            return False
        entries = await self._connection.execute("XRANGE", self._keys("changed"), self._seen, "+", "COUNT", _BATCH)
        if not entries or entries[0][0] != self._seen:
            await self._read_whole()
        elif len(entries) > 1:
            await self._read([fields[b"session"].decode() for _, fields in entries[1:]])
            self._seen = entries[-1][0]
        return len(entries) == _BATCH

    async def _read(self, session_ids: list[str]) -> None:
        wanted = list(dict.fromkeys(session_ids))
        values = await self._connection.execute("HMGET", self._keys("pending"), *wanted)
        for session_id, value in zip(wanted, values, strict=True):
            self._put(session_id, value)

    async def _read_whole(self) -> None:
        # The stream's end first: what changes while the hash is read is read again.
        newest = await self._connection.execute("XREVRANGE", self._keys("changed"), "+", "-", "COUNT", 1)
        self._known.clear()
        cursor = b"0"
        while True:
            cursor, answer = await self._connection.execute("HSCAN", self._keys("pending"), cursor, "COUNT", _BATCH)
            for session_id, value in pairs(answer).items():
                self._put(session_id.decode(), value)
            if int(cursor) == 0:
                break
        self._seen = bytes(newest[0][0]) if newest else b""

    def _put(self, session_id: str, value: bytes | None) -> None:
        if value is None:
            self._known.pop(session_id, None)
        else:
            self._known[session_id] = session_row(value)
