"""The turn log that several replicas share (implements the `TurnLog` and `TurnRecords` ports).

A turn is accepted when the local spool has committed it; it is shipped to Redis in the background, and its session and
whether it is a repetition are found out there. Everything runs on the event loop that the connection belongs to.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from semrouter_memory.errors import MemoryServiceError, TurnLogError
from semrouter_memory.model import (
    Appended,
    AppendOutcome,
    Claim,
    LoggedTurn,
    Message,
    PendingSession,
    Scope,
    StoredChain,
    Tombstone,
    Turn,
    TurnState,
    TurnTotals,
)
from semrouter_memory.ports import Clock, NewId
from semrouter_memory.sessions.columns import micros, moment
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.hybrid_clock import HybridClock
from semrouter_memory.sessions.leases import LONGEST_BACK_OFF
from semrouter_memory.sessions.redis.append import Arrivals
from semrouter_memory.sessions.redis.claims import Claims
from semrouter_memory.sessions.redis.connection import RedisConnection, RedisFailedError
from semrouter_memory.sessions.redis.deletion import Deletion
from semrouter_memory.sessions.redis.ends import Ends
from semrouter_memory.sessions.redis.keys import Keys
from semrouter_memory.sessions.redis.ledger import Ledger
from semrouter_memory.sessions.redis.payload import bounded, dump
from semrouter_memory.sessions.redis.records import Records
from semrouter_memory.sessions.redis.secret import SharedKey
from semrouter_memory.sessions.redis.shipper import Shipper
from semrouter_memory.sessions.redis.spool import Parcel, Spool
from semrouter_memory.sessions.redis.tombstones import DeletedReader
from semrouter_memory.sessions.redis.totals import Totals
from semrouter_memory.sessions.redis.transaction import Transactions
from semrouter_memory.sessions.tombstones import OwnerTombstones

_LAST_SHIP_SECONDS = 2.0
"""At shutdown. What is not shipped by then waits in the spool for the next start."""

_KEEP = timedelta(days=14)


def random_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class _Parts:
    """What works under one shared key."""

    digests: Digests
    ledger: Ledger
    arrivals: Arrivals
    claims: Claims
    ends: Ends
    deletion: Deletion
    deleted: DeletedReader
    records: Records


class RedisTurnLog:
    """Accepted turns in a local spool and in Redis.

    `append` runs where it is called. Between `start` and `stop` turns are shipped by themselves.

    Args:
        path: the spool file; it and its directory are made when they are missing.
        prefix: begins every key.
        keep: how long finished turns stay in Redis when no sweep takes them before.
        shipped: told of each turn that has arrived in Redis and waits: whose it is, and its session.
        on_error: told of errors in the background that are nobody's outage.
        new_id: draws what new session ids and claim tokens are made of: ASCII, never the same twice.
        max_turn_chars: bound on a turn's user texts together (the last ones are kept), and on its answer.
        longest_back_off: how far after now `fail` is told to retry at most; what lies much further ahead counts as past.

    Raises:
        ConfigurationError: the spool cannot be used; the message names it and says why.
    """

    def __init__(
        self,
        path: Path,
        connection: RedisConnection,
        *,
        prefix: str,
        clock: Clock,
        shipped: Callable[[Scope, str], object],
        on_error: Callable[[BaseException], object],
        keep: timedelta = _KEEP,
        new_id: NewId = random_id,
        max_turn_chars: int = 64_000,
        longest_back_off: timedelta = LONGEST_BACK_OFF,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._times = HybridClock(clock)
        self._keep = keep
        self._new_id = new_id
        self._max_turn_chars = max_turn_chars
        self._longest_back_off = longest_back_off
        self._keys = Keys(prefix)
        self._transactions = Transactions(connection, self._keys)
        self._spool = Spool(path)
        self._key = SharedKey(connection, self._keys, self._spool)
        self._totals = Totals(connection, self._keys, self._spool)
        self._known: _Parts | None = self._parts_of(self._key.known) if self._key.known else None
        self._shipper = Shipper(self._spool, connection, self._keys, self._take, shipped=shipped, on_error=on_error)

    async def start(self) -> None:
        """Begin to ship. Redis need not be there."""
        with suppress(RedisFailedError):
            self._times.pass_deletion(await (await self._parts()).ledger.latest_time())
        self._shipper.start()

    async def stop(self) -> None:
        """Ship what can be shipped in a short time, then close the spool. The connection stays open."""
        await self._shipper.stop(_LAST_SHIP_SECONDS)
        self._spool.close()

    @property
    def damage(self) -> str:
        return self._spool.failures.damage

    # -- accepting -----------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        return self._times.now()

    async def timestamp(self) -> datetime:
        time = self._times.now()
        async with self._using("timestamp") as parts:
            await parts.ledger.keep_time(micros(time))
        return time

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        self._times.observe(micros(turn.observed_at))
        payload = dump(turn, remember=remember, max_turn_chars=self._max_turn_chars)
        self._spool.append(turn.scope, payload, observed_at=micros(turn.observed_at), complete=turn.complete)
        self._shipper.wake()
        return Appended(AppendOutcome.ACCEPTED if turn.complete else AppendOutcome.INCOMPLETE)

    async def ship(self) -> list[Appended]:
        """Ship all that is spooled now, without waiting for the background; what became of it, in order."""
        return await self._shipper.ship()

    async def _take(self, parcel: Parcel) -> Appended | None:
        return await (await self._parts()).arrivals.take(parcel)

    # -- what a request waits for --------------------------------------------------------------------------------------

    async def tombstones(self, scope: Scope) -> OwnerTombstones:
        """What was deleted of this owner; from what is known here while Redis is away or slow."""
        parts = self._known
        if parts is None:
            try:
                parts = await self._parts()
            except RedisFailedError:
                return OwnerTombstones(content_hash=self.content_hash)
        return await parts.deleted.of(scope)

    async def history(self, scope: Scope, previous_response_id: str, *, limit: int) -> list[Message]:
        async with self._using("history") as parts:
            return await parts.records.history(scope, bounded(previous_response_id), limit=limit)

    async def chain(self, scope: Scope, previous_response_id: str, *, limit: int) -> StoredChain:
        async with self._using("chain") as parts:
            return await parts.records.chain(scope, bounded(previous_response_id), limit=limit)

    # -- extracting ----------------------------------------------------------------------------------------------------

    async def pending(self) -> list[PendingSession]:
        await self._spool.checkpoint()
        async with self._using("pending") as parts:
            self._times.pass_deletion(await parts.ledger.latest_time())
            return await parts.claims.pending(self._clock.now())

    async def claim(self, scope: Scope, session_id: str, *, lease: timedelta, context: int) -> Claim | None:
        async with self._using("claim") as parts:
            claiming = parts.claims.claim(scope, session_id, now=self._clock.now(), lease=lease, context=context)
            task = asyncio.create_task(claiming, name="claim")
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                # It may be sent already; then nobody knows the token, and the session would wait for its lease.
                with suppress(MemoryServiceError):
                    if claim := await task:
                        await self.release(claim)
                raise

    async def session_turns(self, claim: Claim, *, limit: int) -> tuple[LoggedTurn, ...]:
        async with self._using("session_turns") as parts:
            return await parts.claims.session_turns(claim, limit=limit)

    async def surviving(self, claim: Claim) -> frozenset[str]:
        async with self._using("surviving") as parts:
            return await parts.claims.surviving(claim)

    async def renew(self, claim: Claim, *, lease: timedelta) -> bool:
        async with self._using("renew") as parts:
            return await parts.claims.renew(claim, now=self._clock.now(), lease=lease)

    async def mark_rules_done(self, claim: Claim, turn_ids: Sequence[str]) -> None:
        async with self._using("mark_rules_done") as parts:
            await parts.claims.mark_rules_done(claim, turn_ids)

    async def mark_episode(self, claim: Claim, *, through: int) -> None:
        async with self._using("mark_episode") as parts:
            await parts.claims.mark_episode(claim, through=through)

    async def finish(self, claim: Claim, outcomes: Mapping[str, bool]) -> None:
        async with self._using("finish") as parts:
            await parts.claims.finish(claim, outcomes, now=self._clock.now())

    async def fail(self, claim: Claim, error: str, *, retry_at: datetime, max_attempts: int) -> int:
        async with self._using("fail") as parts:
            return await parts.claims.fail(claim, error, retry_at=retry_at, max_attempts=max_attempts)

    async def release(self, claim: Claim) -> None:
        async with self._using("release") as parts:
            await parts.claims.release(claim)

    async def end_session(self, scope: Scope, session: str) -> PendingSession | None:
        async with self._using("end_session") as parts:
            # The session may be there only when what is spooled has arrived.
            await self.ship()
            return await parts.ends.end_session(scope, session)

    # -- deleting ------------------------------------------------------------------------------------------------------

    def content_hash(self, content: str) -> str:
        if self._known is None:
            raise TurnLogError("turn log: Redis was never reached, so deletions are not possible yet")
        return self._known.digests.content_hash(content)

    async def bury(self, tombstone: Tombstone, *, turn_ids: Sequence[str] = ()) -> None:
        tombstone = replace(tombstone, at=max(tombstone.at, moment(self._times.latest)))
        async with self._using("bury") as parts:
            stored = await parts.deletion.bury(tombstone, turn_ids)
            self._times.pass_deletion(micros(stored.at))
            if not stored.memory_id:
                await self._spool.forget(stored)
                self._shipper.wake()
        await self._spool.erase()

    async def erase_answers(self, scope: Scope, *, since: datetime) -> None:
        async with self._using("erase_answers") as parts:
            await parts.deletion.erase_answers(scope, since)

    async def sweep(self, *, finished_before: datetime) -> int:
        async with self._using("sweep") as parts:
            return await parts.deletion.sweep(finished_before)

    # -- the operator --------------------------------------------------------------------------------------------------

    async def totals(self) -> TurnTotals:
        """The counts of all replicas, and of what waits in this one's spool."""
        async with self._using("totals"), self._shipper.pausing:
            return await self._totals.read()

    async def list_turns(
        self, *, scope: Scope | None, states: frozenset[TurnState] | None, limit: int, before: int = 0
    ) -> list[LoggedTurn]:
        async with self._using("list_turns") as parts:
            return await parts.records.list_turns(scope, states, limit=limit, before=before)

    async def get_turn(self, turn_id: str) -> LoggedTurn | None:
        async with self._using("get_turn") as parts:
            return await parts.records.get_turn(turn_id)

    async def retry(self, turn_ids: Sequence[str]) -> int:
        async with self._using("retry") as parts:
            return await parts.deletion.retry(turn_ids)

    async def drop(self, turn_ids: Sequence[str]) -> int:
        async with self._using("drop") as parts:
            return await parts.deletion.drop(turn_ids)

    async def compact(self) -> None:
        """Take what was deleted out of the spool file, and ask Redis to rewrite its append-only file without it.

        Takes some seconds: what has arrived in Redis is kept here for so long, though it was deleted there since. Redis
        rewrites in the background, and may not let us ask; its snapshots lose what was deleted at the next one.
        """
        try:
            async with self._using("compact"):
                await self._shipper.settle()
        finally:
            await self._spool.compact()
        with suppress(RedisFailedError):
            persistence = await self._connection.execute("INFO", "persistence")
            if persistence.get("aof_enabled"):
                await self._connection.execute("BGREWRITEAOF")

    async def backup(self, directory: Path) -> None:
        """Copy the spool file; Redis is backed up by its own means."""
        await self._spool.backup(directory)

    # -- the shared key ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _using(self, operation: str) -> AsyncIterator[_Parts]:
        try:
            yield await self._parts()
        except RedisFailedError as error:
            raise TurnLogError(f"turn log: {operation} failed: {error}") from None

    async def _parts(self) -> _Parts:
        key = await self._key.current()
        if self._known is None or self._key.changed:
            self._known = self._parts_of(key)
            self._key.changed = False
        return self._known

    def _parts_of(self, key: bytes) -> _Parts:
        digests = Digests(key)
        connection, transactions = self._connection, self._transactions
        ledger = Ledger(connection, self._keys, digests, keep=self._keep)
        deleted = DeletedReader(connection, ledger, self._times)
        arrivals = Arrivals(
            connection,
            ledger,
            transactions,
            deleted,
            new_id=self._new_id,
            max_turn_chars=self._max_turn_chars,
        )
        return _Parts(
            digests=digests,
            ledger=ledger,
            arrivals=arrivals,
            claims=Claims(
                connection,
                ledger,
                transactions,
                deleted,
                new_id=self._new_id,
                longest_back_off=self._longest_back_off,
            ),
            ends=Ends(ledger, transactions),
            deletion=Deletion(connection, ledger, transactions, deleted),
            deleted=deleted,
            records=Records(ledger, arrivals.identification),
        )
