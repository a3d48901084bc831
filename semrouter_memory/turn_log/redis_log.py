"""The turn log that several replicas share.

A turn is accepted when the local spool has committed it; it is forwarded to Redis in the background, and its session and
whether it is a repetition are found out there. Everything runs on the event loop that the connection belongs to.

Strategy of transactions, which are optimistic and on one owner. WATCH the owner's version, read what is needed (on any
connection: a change after the WATCH breaks the transaction), decide in Python, and send all changes in one MULTI together
with a new version. When another replica commits first, nothing is changed and the decision is made again. Within the process
transactions of an owner take turns, so that only replicas can collide. A transaction that lost takes precedence: the others
wait, so that a long one (a deletion) is not starved by many short ones (the turns of a user who goes on talking).
"""

import asyncio
import random
import secrets
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias, TypeVar

from redis.exceptions import WatchError

from semrouter_memory.config import RetainConfig
from semrouter_memory.databases import micros
from semrouter_memory.databases.redis_connection import Command, RedisConnection, reported_as
from semrouter_memory.errors import ConfigurationError, Service, TurnLogError, UnavailableError
from semrouter_memory.model import Appended, AppendOutcome, PendingSession, Scope, Tombstone, Turn, TurnTotals
from semrouter_memory.ports import Clock
from semrouter_memory.resilience import Backoff
from semrouter_memory.state.local import InProcessOwnerLocks
from semrouter_memory.turn_log.client_values import Digests
from semrouter_memory.turn_log.log import StoredTurnLog
from semrouter_memory.turn_log.redis_rows import FORMAT, Keys, RedisRows
from semrouter_memory.turn_log.spool import Forwarder, Spool, SpooledTurn, load
from semrouter_memory.turn_log.storage import Changes, Decision, LogRows
from semrouter_memory.turn_log.tombstones import OwnerTombstones

T = TypeVar("T")

_LAST_FORWARD_SECONDS = 2.0
"""At shutdown. What is not forwarded by then waits in the spool for the next start."""
_KEY_BYTES = 32
_RUN_SECONDS = 90 * 86_400
"""How long Redis remembers a run of a spool that forwards nothing: a sidecar that was off for longer may repeat a turn."""

Work: TypeAlias = Callable[[], Awaitable[tuple[list[Command], T]]]
"""Reads, and says which commands to send."""

_ATTEMPTS = 40
_BACKOFF = Backoff(first=0.002, longest=0.1, spread=1.0)
_VERSION_SECONDS = 86_400
"""TTL of an owner's version: much longer than a transaction takes."""
_CONCURRENT = 16
_PRECEDENCE_MS = 1_000
"""Longer than one attempt. A replica that dies meanwhile holds up the owner's transactions for so long."""


class RedisTurnLog(StoredTurnLog):
    """Accepted turns in a local spool and in Redis.

    `append` runs where it is called. Between `start` and `stop` turns are forwarded by themselves.

    All replicas' digests are made with one secret key. It is made once, stored in Redis, and remembered in the spool, so that
    it is known while Redis is unavailable. After every disturbance Redis is asked again: it may have another key; where it has none,
    it gets this process's.

    Args:
        path: the local file; it and its directory are made when they are missing.
        prefix: begins every key.
        forwarded: told of each turn that has arrived in Redis and waits: whose it is, and its session.
        on_error: told of background errors that are bugs, not outages.
        config: see `StoredTurnLog`; and how long turns are retained, after which their texts expire when no sweep removes them.

    Raises:
        ConfigurationError: the local file cannot be used; the message names it and says why.
    """

    def __init__(
        self,
        path: Path,
        connection: RedisConnection,
        *,
        prefix: str,
        clock: Clock,
        forwarded: Callable[[Scope, str], object],
        on_error: Callable[[BaseException], object],
        config: RetainConfig | None = None,
    ) -> None:
        config = config or RetainConfig()
        super().__init__(path, clock=clock, config=config)
        self._connection = connection
        self._keys = Keys(prefix)
        # Longer than sweeps keep turns.
        self._keep = timedelta(days=2 * config.turn_retention_days)
        self._spool = Spool(self._database)
        self._turns = InProcessOwnerLocks()
        self._running = asyncio.Semaphore(_CONCURRENT)
        self._replica = uuid.uuid4().bytes
        self._asked_after = -1
        self._refusal = ""
        self._key = self._spool.digest_key()
        self._known = self._rows_under(self._key) if self._key else None
        self._forwarder = Forwarder(
            self._spool, connection, self._keys, self._take, forwarded=forwarded, on_error=on_error
        )

    async def start(self) -> None:
        """Begin to forward. Redis need not be available.

        Raises:
            ConfigurationError: another version wrote what is in Redis.
        """
        with suppress(UnavailableError):
            self._times.pass_deletion(await (await self._rows()).latest_time())
        if self._refusal:
            raise ConfigurationError(self._refusal)
        self._forwarder.start()

    async def stop(self) -> None:
        """Forward what can be forwarded in a short time, then close the spool. The connection stays open."""
        await self._forwarder.stop(_LAST_FORWARD_SECONDS)
        self.close()

    # -- the storage ---------------------------------------------------------------------------------------------------

    async def change(self, operation: str, scope_or_owner: Scope | str, decide: Decision[T]) -> T:
        async with self._using(operation) as rows:
            owner = scope_or_owner
            if isinstance(owner, Scope):
                owner = rows.digests.owner(owner)

            async def work() -> tuple[list[Command], tuple[Changes, T]]:
                changes, result = await decide(rows)
                return rows.commands(changes), (changes, result)

            changes, result = await self._on_owner(rows, owner, work)
            if changes.tombstone is not None:
                rows.deleted_here(changes.tombstone)
            return result

    async def read(self, operation: str, look: Callable[[LogRows], Awaitable[T]]) -> T:
        async with self._using(operation) as rows:
            return await look(rows)

    @asynccontextmanager
    async def _using(self, operation: str) -> AsyncIterator[RedisRows]:
        with reported_as(TurnLogError, f"turn log: {operation}"):
            yield await self._rows()

    async def _rows(self) -> RedisRows:
        """Under the key that Redis has, unless nothing happened to it since it was asked last.

        Raises:
            UnavailableError: Redis must be asked, and is unavailable or another version's.
        """
        disturbances = self._connection.disturbances
        if self._known is not None and self._asked_after == disturbances:
            return self._known
        await self._require_format()
        proposed = self._key or secrets.token_bytes(_KEY_BYTES)
        if self._key is not None:
            # For a server that has lost all: under the same key, a number that was used before would name another turn.
            await self._connection.execute("SET", self._keys("sequence"), micros(self._times.now()), "NX")
        await self._connection.execute("SETNX", self._keys("key"), proposed)
        key = bytes(await self._connection.execute("GET", self._keys("key")))
        if self._known is None or key != self._key:
            await self._spool.remember_digest_key(key)
        if self._known is None or key != self._key:  # no other task was first
            self._key, self._known = key, self._rows_under(key)
        self._asked_after = disturbances
        return self._known

    async def _require_format(self) -> None:
        key = self._keys("format")
        # In one batch: a server that loses all in between has no format, and is asked again as another one.
        _, written = await self._connection.execute_all((("SETNX", key, FORMAT), ("GET", key)))
        self._refusal = ""
        if written is not None and int(written) != FORMAT:
            self._refusal = (
                f"memory.redis: {self._keys('*')} has format {int(written)}, and this program knows {FORMAT}: another version of"
                " this program wrote it. Start that version, or set memory.redis.prefix to begin with nothing"
                " (docs/operations.md, Another version)"
            )
            raise UnavailableError(self._refusal, service=Service.REDIS)

    def _rows_under(self, key: bytes) -> RedisRows:
        return RedisRows(self._connection, self._keys, Digests(key), deleted=self._times.pass_deletion, keep=self._keep)

    # -- transactions --------------------------------------------------------------------------------------------------

    async def _on_owner(self, rows: RedisRows, owner: str, work: Work[T], *, also_watch: Sequence[str] = ()) -> T:
        """Retry `work` until its commands commit without a conflict.

        Args:
            rows: what the work reads; the transaction fails when Redis has another key by then.
            owner: the owner's digest.
            also_watch: further keys that the decision depends on.

        Raises:
            UnavailableError: nothing was changed, or it is not known whether the changes were made.
        """
        version, precedence = self._keys("owner", owner, "version"), self._keys("owner", owner, "precedence")
        async with self._turns.hold(Scope(owner)), self._running:
            for attempt in range(_ATTEMPTS):
                done = await self._once(rows, version, precedence, work, also_watch)
                if done is not None:
                    (result,) = done
                    return result
                await self._connection.execute("SET", precedence, self._replica, "NX", "PX", _PRECEDENCE_MS)
                await asyncio.sleep(_BACKOFF.delay(attempt, random.random()))  # noqa: S311 - no secret
        raise UnavailableError("too many changes of one owner at a time", service=Service.REDIS)

    async def _once(
        self, rows: RedisRows, version: str, precedence: str, work: Work[T], also_watch: Sequence[str]
    ) -> tuple[T] | None:
        """The result; None: another replica committed first, or has precedence."""
        async with self._connection.calling(), self._connection.pipeline() as pipeline:
            await pipeline.watch(version, *also_watch)
            first = await pipeline.get(precedence)
            if first is not None and first != self._replica:
                return None
            # Asked again only when the connection was made anew for this transaction.
            if await self._rows() is not rows:
                raise UnavailableError("Redis has another key than before", service=Service.REDIS)
            commands, result = await work()
            if not commands:
                return (result,)
            begin: Callable[[], None] = pipeline.multi
            begin()
            pipeline.execute_command("INCR", version)
            pipeline.execute_command("EXPIRE", version, _VERSION_SECONDS)
            for command in commands:
                pipeline.execute_command(*command)
            if first is not None:
                pipeline.execute_command("DEL", precedence)
            try:
                await pipeline.execute()
            except WatchError:
                return None
            return (result,)

    # -- where it is called --------------------------------------------------------------------------------------------

    def content_hash(self, content: str) -> str:
        if self._known is None:
            raise TurnLogError("turn log: Redis was never reached, so deletions are not possible yet")
        return self._known.digests.content_hash(content)

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        self._times.observe(micros(turn.observed_at))
        self._spool.append(self._bounded(turn, remember=remember))
        self._forwarder.wake()
        return Appended(AppendOutcome.ACCEPTED if turn.complete else AppendOutcome.INCOMPLETE)

    async def forward(self) -> list[Appended]:
        """Forward all that is spooled now, without waiting for the background; what became of it, in order."""
        return await self._forwarder.forward()

    async def _take(self, arriving: SpooledTurn) -> Appended | None:
        """Take one in, once.

        A repetition is dropped: it never was a second turn. A turn that was said before a deletion of its scope was accepted
        and is deleted, and is counted as both.

        Returns:
            What became of it; None when it had arrived before.

        Raises:
            UnavailableError: it did not arrive, or that is not known; to be sent again.
        """
        spooled = load(arriving.payload, arriving.scope) if arriving.payload is not None else None
        arrived = self._keys("spool", arriving.run)
        rows = await self._rows()

        async def work() -> tuple[list[Command], Appended | None]:
            if int(await self._connection.execute("GET", arrived) or 0) >= arriving.number:
                return [], None
            changes, appended = Changes(), Appended(AppendOutcome.FORGOTTEN)
            if spooled is not None:
                changes, appended = await self._appended(rows, spooled)
            commands = rows.commands(changes)
            if appended.outcome is AppendOutcome.FORGOTTEN and arriving.complete:
                commands += [("HINCRBY", self._keys("totals"), name, 1) for name in ("accepted", "deleted")]
            return [*commands, ("SET", arrived, arriving.number, "EX", _RUN_SECONDS)], appended

        owner = rows.digests.owner(arriving.scope)
        return await self._on_owner(rows, owner, work, also_watch=(arrived,))

    # -- with the spool ------------------------------------------------------------------------------------------------

    async def tombstones(self, scope: Scope) -> OwnerTombstones:
        """What was deleted of this owner; from what is known here while Redis is unavailable or slow."""
        try:
            rows = self._known or await self._rows()
        except UnavailableError as error:
            if error.service is not Service.REDIS:
                raise
            return OwnerTombstones(content_hash=self.content_hash)
        return await rows.tombstones_at_once(scope)

    async def end_session(self, scope: Scope, session: str) -> PendingSession | None:
        # The session may be there only when what is spooled has arrived.
        async with self._using("end_session"):
            await self.forward()
        return await super().end_session(scope, session)

    async def _commit(self, deletion: Tombstone) -> Tombstone:
        stored = await super()._commit(deletion)
        if not stored.memory_id:
            await self._spool.redact_covered(stored)
            self._forwarder.wake()
        return stored

    async def totals(self) -> TurnTotals:
        """The counts of all replicas, and of what waits in this one's spool."""
        async with self._using("totals"), self._forwarder.pausing:
            total = await super().totals()
            # What has arrived, and was not deleted from the spool before a crash, is counted there already.
            spooled = await self._spool.accepted_after(await self._forwarder.arrived(await self._spool.runs()))
            return replace(total, accepted=total.accepted + spooled, waiting=total.waiting + spooled)

    async def compact(self) -> None:
        """Take what was deleted out of the spool file, and ask Redis to rewrite its append-only file without it.

        Takes some seconds: what has arrived in Redis stays in the spool for so long, though it was deleted there since. Redis
        rewrites in the background, and may not let us ask; its snapshots lose what was deleted at the next one.

        While Redis is unavailable nothing is done: all that waits for it would be written anew, with every append waiting.
        """
        async with self._using("compact"):
            await self._forwarder.settle()
        await self._database.rewrite()
        with suppress(UnavailableError):
            persistence = await self._connection.execute("INFO", "persistence")
            if persistence.get("aof_enabled"):
                await self._connection.execute("BGREWRITEAOF")
