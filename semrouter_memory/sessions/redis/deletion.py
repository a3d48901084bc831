"""How turns leave: with a deletion, at the end of their retention, or dropped by an operator.

Strategy. A turn goes with everything that could lead to it, and a session with its last turn. Totals move in the same
transaction: a waiting or dead-lettered turn becomes a deleted one, a finished turn stays counted as what it was. The
tombstone of a scope is committed first, and the turns that it covers go in batches; an owner whose batches are not
done is noted, and a sweep goes on where a crash stopped.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from semrouter_memory.model import Scope, Tombstone, TurnState
from semrouter_memory.sessions.columns import micros, moment
from semrouter_memory.sessions.redis.connection import RedisConnection
from semrouter_memory.sessions.redis.ledger import Ledger
from semrouter_memory.sessions.redis.rows import SessionRow, TurnRow, pending_row
from semrouter_memory.sessions.redis.tombstones import DeletedReader, deleted_since, write
from semrouter_memory.sessions.redis.transaction import Changes, Transactions, pairs

_BATCH = 200
"""Turns that one transaction takes, so that Redis answers others in between."""

_SCANNED = 1000


class Deletion:
    """Deletes within one owner at a time."""

    def __init__(
        self, connection: RedisConnection, ledger: Ledger, transactions: Transactions, deleted: DeletedReader
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._keys = ledger.keys
        self._transactions = transactions
        self._deleted = deleted

    # -- deletions -----------------------------------------------------------------------------------------------------

    async def bury(self, tombstone: Tombstone, turn_ids: Sequence[str]) -> Tombstone:
        """Returns the tombstone as it is stored: moved up to the time of what was accepted last."""
        owner = self._ledger.owner(tombstone.scope)
        key = self._keys.owner_deleted(owner)
        named = self._sequences(turn_ids)
        version = uuid.uuid4().hex

        async def work(changes: Changes) -> Tombstone:
            at = max(micros(tombstone.at), await self._ledger.latest_time())
            self._ledger.note_time(changes, at)
            stored = replace(tombstone, at=moment(at))
            write(changes, key, stored, pairs(await self._connection.execute("HGETALL", key)), version=version)
            if not tombstone.memory_id:
                changes.add("SADD", self._keys.burying, owner)
            rows = await self._ledger.turns(named)
            await self._remove(changes, [row for row in rows.values() if row.owner == owner])
            return stored

        stored = await self._transactions.on_owner(owner, work)
        if not tombstone.memory_id:
            await self._clear(owner)
        return stored

    async def erase_answers(self, scope: Scope, since: datetime) -> None:
        """Erase the texts of the user's finished turns since then."""
        owner = self._ledger.owner(scope)
        sequences = await self._ledger.sequences("ZRANGE", self._keys.owner_turns(owner), 0, -1)
        for start in range(0, len(sequences), _BATCH):
            await self._erase_batch(owner, sequences[start : start + _BATCH], micros(since))

    async def _erase_batch(self, owner: str, sequences: Sequence[int], since: int) -> None:
        async def work(changes: Changes) -> None:
            for row in (await self._ledger.turns(sequences)).values():
                if row.observed_at >= since and row.accepted and not row.open:
                    self._ledger.erase_content(changes, row)

        await self._transactions.on_owner(owner, work)

    async def clear_buried(self) -> None:
        """Go on with deletions that were not brought to their end."""
        for owner in await self._connection.execute("SMEMBERS", self._keys.burying):
            await self._clear(owner.decode())

    async def _clear(self, owner: str) -> None:
        """Delete all that the owner's tombstones of scopes cover, and what is left of turns that have ended."""
        while await self._clear_once(owner):
            pass
        await self._unlist(owner, await self._kept_of(owner))
        await self._clear_pending(owner)
        await self._connection.execute("SREM", self._keys.burying, owner)

    async def _clear_once(self, owner: str) -> int:
        deleted = await self._deleted.current(owner)

        def covered(row: TurnRow, session: SessionRow) -> bool:
            return deleted_since(deleted, session.scope, row.observed_at)

        sequences = await self._ledger.sequences("ZRANGE", self._keys.owner_turns(owner), 0, -1)
        removed = 0
        for start in range(0, len(sequences), _BATCH):
            removed += await self._remove_if(owner, sequences[start : start + _BATCH], covered)
        return removed

    async def _kept_of(self, owner: str) -> list[str]:
        """How the owner's finished turns stand in the order of ends."""
        return [name.decode() for name in await self._scan("ZSCAN", self._keys.kept, "MATCH", f"*:{owner}*")]

    async def _clear_pending(self, owner: str) -> None:
        """The owner's pending sessions that are none any more, since their own keys have ended."""
        found = await self._scan("HSCAN", self._keys.pending)
        rows = (pending_row(name.decode(), value) for name, value in found.items())
        named = [row.id for row in rows if row is not None and self._ledger.owner(row.scope) == owner]

        async def work(changes: Changes) -> None:
            left = await self._ledger.sessions(named)
            for session_id in named:
                if session_id not in left:
                    self._ledger.remove_pending(changes, session_id)

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

    # -- the end of the retention --------------------------------------------------------------------------------------

    async def sweep(self, before: datetime) -> int:
        """Drop finished turns, and incomplete ones that nobody completed; returns how many."""
        await self.clear_buried()
        limit = micros(before)
        members = await self._connection.execute("ZRANGEBYSCORE", self._keys.kept, "-inf", f"({limit}")
        by_owner: dict[str, list[str]] = {}
        for member in members:
            by_owner.setdefault(member.decode().split(":")[1], []).append(member.decode())
        swept = 0
        for owner, kept in by_owner.items():
            for start in range(0, len(kept), _BATCH):
                batch = kept[start : start + _BATCH]
                sequences = [_sequence(member) for member in batch]
                swept += await self._remove_if(owner, sequences, lambda row, _: _ended_before(row, limit))
                await self._unlist(owner, batch)
        return swept

    async def _unlist(self, owner: str, kept: Sequence[str]) -> None:
        """Take away what is left of turns that have ended by themselves; in a session that goes on, that is their words.

        Args:
            kept: how they stand in the order of ends.
        """
        for start in range(0, len(kept), _BATCH):
            await self._unlist_batch(owner, kept[start : start + _BATCH])

    async def _unlist_batch(self, owner: str, kept: Sequence[str]) -> None:
        async def work(changes: Changes) -> None:
            there = await self._ledger.turns(map(_sequence, kept))
            gone: dict[str, set[int]] = {}
            for member in kept:
                if _sequence(member) not in there:
                    session_id = _session_id(member)
                    self._ledger.unlist_turn(changes, member, session_id)
                    gone.setdefault(session_id, set()).add(_sequence(member))
            for session in (await self._ledger.sessions(filter(None, gone))).values():
                counted = await self._recounted(session, gone[session.id])
                await self._shrink(changes, counted, gone[session.id])

        await self._transactions.on_owner(owner, work)

    async def _recounted(self, session: SessionRow, gone: set[int]) -> SessionRow:
        """Of turns that have ended, nobody knows what they counted for."""
        key = self._keys.session_turns(session.id)
        later = await self._ledger.sequences("ZRANGEBYSCORE", key, f"({session.summarised}", "+inf")
        rows = await self._ledger.turns(sequence for sequence in later if sequence not in gone)
        return replace(session, unsummarised=sum(row.accepted for row in rows.values()))

    # -- the operator --------------------------------------------------------------------------------------------------

    async def drop(self, turn_ids: Sequence[str]) -> int:
        """Delete turns that wait or are dead letters; returns how many."""
        dropped = 0
        for owner, sequences in (await self._owners(turn_ids)).items():
            dropped += await self._remove_if(owner, sequences, lambda row, _: row.open)
        return dropped

    async def retry(self, turn_ids: Sequence[str]) -> int:
        """Let dead letters wait again; returns how many."""
        retried = 0
        for owner, sequences in (await self._owners(turn_ids)).items():
            retried += await self._retry(owner, sequences)
        return retried

    async def _retry(self, owner: str, sequences: Sequence[int]) -> int:
        async def work(changes: Changes) -> int:
            rows = (await self._ledger.turns(sequences)).values()
            dead = [row for row in rows if row.state is TurnState.DEAD]
            sessions = await self._ledger.sessions(row.session_id for row in dead)
            for session in sessions.values():
                again = [
                    replace(row, state=TurnState.WAITING, attempts=0, error="")
                    for row in dead
                    if row.session_id == session.id
                ]
                for row in again:
                    self._ledger.put_turn(changes, row)
                    changes.add("ZREM", self._keys.dead, row.sequence)
                counted = session.recounted([*await self._ledger.waiting(session.id), *again])
                self._ledger.put_session(changes, replace(counted, dead=session.dead - len(again), not_before=None))
            changes.count(self._keys.totals, {"dead_lettered": -len(dead), "waiting": len(dead)})
            return len(dead)

        return await self._transactions.on_owner(owner, work)

    async def _owners(self, turn_ids: Sequence[str]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for row in (await self._ledger.turns(self._sequences(turn_ids))).values():
            found.setdefault(row.owner, []).append(row.sequence)
        return found

    def _sequences(self, turn_ids: Sequence[str]) -> list[int]:
        sequences = (self._ledger.digests.sequence(turn_id) for turn_id in dict.fromkeys(turn_ids))
        return [sequence for sequence in sequences if sequence is not None]

    # -- the work ------------------------------------------------------------------------------------------------------

    async def _remove_if(
        self, owner: str, sequences: Sequence[int], condition: Callable[[TurnRow, SessionRow], bool]
    ) -> int:
        async def work(changes: Changes) -> int:
            rows = [row for row in (await self._ledger.turns(sequences)).values() if row.owner == owner]
            sessions = await self._ledger.sessions(row.session_id for row in rows)
            nobody = Scope("")
            leaving = [
                row
                for row in rows
                if condition(row, sessions.get(row.session_id) or SessionRow(id=row.session_id, scope=nobody))
            ]
            await self._remove(changes, leaving)
            return len(leaving)

        return await self._transactions.on_owner(owner, work)

    async def _remove(self, changes: Changes, rows: Sequence[TurnRow]) -> None:
        for row in rows:
            self._ledger.remove_turn(changes, row)
        states = [row.state for row in rows]
        waiting, dead = states.count(TurnState.WAITING), states.count(TurnState.DEAD)
        changes.count(self._keys.totals, {"deleted": waiting + dead, "dead_lettered": -dead, "waiting": -waiting})
        sessions = await self._ledger.sessions(row.session_id for row in rows)
        for session in sessions.values():
            leaving = [row for row in rows if row.session_id == session.id]
            counted = replace(
                session,
                dead=session.dead - sum(row.state is TurnState.DEAD for row in leaving),
                unsummarised=session.unsummarised
                - sum(row.accepted and row.sequence > session.summarised for row in leaving),
            )
            await self._shrink(changes, counted, {row.sequence for row in leaving})

    async def _shrink(self, changes: Changes, session: SessionRow, gone: set[int]) -> None:
        """Write what is left of a session when these turns are gone."""
        left = await self._ledger.sequences("ZRANGE", self._keys.session_turns(session.id), 0, -1)
        left = [sequence for sequence in left if sequence not in gone]
        if not left:
            self._ledger.remove_session(changes, session.id)
            return
        waiting = [row for row in await self._ledger.waiting(session.id) if row.sequence not in gone]
        session = replace(
            session.recounted(waiting),
            end_at=0 if session.end_at in gone else session.end_at,
            newest=await self._newest(left) if session.newest in gone else session.newest,
        )
        self._ledger.put_session(changes, session)

    async def _newest(self, sequences: Sequence[int]) -> int:
        for start in range(len(sequences), 0, -_BATCH):
            rows = await self._ledger.turns(sequences[max(0, start - _BATCH) : start])
            accepted = [row.sequence for row in rows.values() if row.accepted]
            if accepted:
                return max(accepted)
        return 0


def _sequence(member: str) -> int:
    """Of a turn as it stands in the order of ends."""
    return int(member.split(":", maxsplit=1)[0])


def _session_id(member: str) -> str:
    """The same; "" for one that was written before its session stood there."""
    return ":".join(member.split(":")[2:])


def _ended_before(row: TurnRow, limit: int) -> bool:
    return row.kept_since is not None and row.kept_since < limit
