"""The durable counts: those of Redis, and what this replica has accepted and not shipped."""

from semrouter_memory.model import TurnTotals
from semrouter_memory.sessions.redis.connection import RedisConnection
from semrouter_memory.sessions.redis.keys import Keys
from semrouter_memory.sessions.redis.spool import Spool
from semrouter_memory.sessions.redis.transaction import pairs


class Totals:
    """Reads totals; nothing may be shipped from this spool meanwhile."""

    def __init__(self, connection: RedisConnection, keys: Keys, spool: Spool) -> None:
        self._connection = connection
        self._keys = keys
        self._spool = spool

    async def read(self) -> TurnTotals:
        runs = await self._spool.runs()
        counts, *numbers = await self._connection.execute_all(
            [("HGETALL", self._keys.totals), *(("GET", self._keys.spool(run)) for run in runs)]
        )
        # What has arrived, and was not deleted from the spool before a crash, is counted there already.
        shipped = {run: int(number or 0) for run, number in zip(runs, numbers, strict=True)}
        spooled = await self._spool.accepted_after(shipped)
        counted = {name.decode(): int(value) for name, value in pairs(counts).items()}
        return TurnTotals(
            accepted=counted.get("accepted", 0) + spooled,
            extracted=counted.get("extracted", 0),
            empty=counted.get("empty", 0),
            dead_lettered=counted.get("dead_lettered", 0),
            deleted=counted.get("deleted", 0),
            waiting=counted.get("waiting", 0) + spooled,
        )
