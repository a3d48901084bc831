"""What is left in the indexes of turns and sessions whose rows have expired by themselves."""

from collections.abc import Sequence
from dataclasses import replace

from semrouter_memory.turn_log import removal
from semrouter_memory.turn_log.redis.connection import Command, RedisConnection
from semrouter_memory.turn_log.redis.keys import Keys
from semrouter_memory.turn_log.redis.rows import RedisRows
from semrouter_memory.turn_log.redis.transaction import Transactions
from semrouter_memory.turn_log.redis.values import session_row
from semrouter_memory.turn_log.rows import SessionRow
from semrouter_memory.turn_log.storage import BATCH, Changes

_SCANNED = 1000


class Expiry:
    """Cleans up."""

    def __init__(self, connection: RedisConnection, keys: Keys, rows: RedisRows, transactions: Transactions) -> None:
        self._connection = connection
        self._keys = keys
        self._rows = rows
        self._transactions = transactions

    async def clean(self, owner: str) -> None:
        """All that is left of the owner's."""
        members = await self._scan("ZSCAN", self._keys.finished, "MATCH", f"*:{owner}*")
        await self._unlist(owner, [member.decode() for member in members])
        await self._unlist_pending(owner)

    async def clean_before(self, time: int) -> None:
        """What is left of turns whose retention ran before that time."""
        by_owner: dict[str, list[str]] = {}
        for member in await self._connection.execute("ZRANGEBYSCORE", self._keys.finished, "-inf", f"({time}"):
            by_owner.setdefault(member.decode().split(":")[1], []).append(member.decode())
        for owner, members in by_owner.items():
            await self._unlist(owner, members)

    async def _unlist(self, owner: str, members: Sequence[str]) -> None:
        """Args: members: how turns stand in the order of ends (`finished_member`)."""
        for start in range(0, len(members), BATCH):
            batch = members[start : start + BATCH]

            async def work(batch: Sequence[str] = batch) -> tuple[list[Command], None]:
                return await self._unlisting(owner, batch), None

            await self._transactions.on_owner(owner, work)

    async def _unlisting(self, owner: str, members: Sequence[str]) -> list[Command]:
        there = await self._rows.turns(_sequence(member) for member in members)
        expired = [member for member in members if _sequence(member) not in there]
        gone: dict[str, set[int]] = {}
        made: list[Command] = []
        for member in expired:
            sequence, session_id = _sequence(member), _session_id(member)
            gone.setdefault(session_id, set()).add(sequence)
            # In a session that goes on, that is what was said.
            made.append(("XDEL", self._keys.session_content(session_id), f"{sequence}-0"))
            indexes = (self._keys.turns, self._keys.owner_turns(owner), self._keys.session_turns(session_id))
            made += [("ZREM", index, sequence) for index in indexes]
            made.append(("ZREM", self._keys.finished, member))
        changes = Changes()
        for session in (await self._rows.sessions(filter(None, gone))).values():
            counted = await self._recounted(session, gone[session.id])
            await removal.without(self._rows, changes, counted, gone[session.id])
        return made + self._rows.commands(changes)

    async def _recounted(self, session: SessionRow, gone: set[int]) -> SessionRow:
        """It is not known what expired turns counted for."""
        later = await self._rows.after(session.id, session.summarised)
        return replace(session, unsummarised=sum(row.accepted for row in later if row.sequence not in gone))

    async def _unlist_pending(self, owner: str) -> None:
        """Pending sessions whose own rows have expired."""
        found = await self._scan("HSCAN", self._keys.pending)
        rows = (session_row(value) for value in found.values())
        named = [row.id for row in rows if row is not None and self._rows.digests.owner(row.scope) == owner]

        async def work() -> tuple[list[Command], None]:
            left = await self._rows.sessions(named)
            return self._rows.commands(Changes(sessions_removed=[each for each in named if each not in left])), None

        await self._transactions.on_owner(owner, work)

    async def _scan(self, command: str, key: str, *options: str) -> dict[bytes, bytes]:
        """All of a large hash or sorted set, a few entries at a time."""
        found: dict[bytes, bytes] = {}
        cursor = b"0"
        while True:
            cursor, answer = await self._connection.execute(command, key, cursor, *options, "COUNT", _SCANNED)
            found.update(answer)
            if int(cursor) == 0:
                return found


def _sequence(member: str) -> int:
    return int(member.split(":", maxsplit=1)[0])


def _session_id(member: str) -> str:
    return ":".join(member.split(":")[2:])
