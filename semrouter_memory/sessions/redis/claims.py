"""Pending sessions, claims on them, and how a claim ends.

The rules are those of `sessions/claims.py`: a claim is a lease with a fencing token in the session's hash, and every
write of a claim first asks, in the same transaction, whether its token still stands there. The end of the lease alone
takes nothing away; only another claim does. Leases are compared with the clocks of the replicas, which must agree to
within a small part of a lease.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from semrouter_memory.model import Claim, LoggedTurn, PendingSession, Scope, TurnState
from semrouter_memory.ports import NewId
from semrouter_memory.sessions.columns import micros, moment, storable
from semrouter_memory.sessions.leases import LONGEST_BACK_OFF, USUAL_LEASE, back_off, claimed
from semrouter_memory.sessions.redis.connection import RedisConnection
from semrouter_memory.sessions.redis.ledger import Ledger
from semrouter_memory.sessions.redis.pending import PendingSessions
from semrouter_memory.sessions.redis.rows import SessionRow, TurnRow, pending_session
from semrouter_memory.sessions.redis.tombstones import DeletedReader, deleted_since
from semrouter_memory.sessions.redis.transaction import Changes, Transactions

T = TypeVar("T")

_MAX_ERROR_CHARS = 200
_MAX_SESSION_ID_CHARS = 128


class Claims:
    """Offers, claims and ends waiting turns."""

    def __init__(
        self,
        connection: RedisConnection,
        ledger: Ledger,
        transactions: Transactions,
        deleted: DeletedReader,
        *,
        new_id: NewId,
        longest_back_off: timedelta = LONGEST_BACK_OFF,
    ) -> None:
        self._ledger = ledger
        self._keys = ledger.keys
        self._transactions = transactions
        self._deleted = deleted
        self._pending = PendingSessions(connection, ledger.keys)
        self._new_id = new_id
        self._longest_back_off = longest_back_off
        self._lease = USUAL_LEASE

    async def pending(self, now: datetime) -> list[PendingSession]:
        rows = [row for row in await self._pending.rows() if row.claimable(micros(now), self._lease)]
        rows.sort(key=lambda row: (not row.waiting, row.oldest_waiting or row.newest))
        return [pending_session(replace(row, not_before=self._back_off(row, now))) for row in rows]

    def _back_off(self, row: SessionRow, now: datetime) -> int | None:
        return back_off(row.not_before, now=micros(now), longest=self._longest_back_off)

    # -- claiming ------------------------------------------------------------------------------------------------------

    async def claim(
        self, scope: Scope, session_id: str, *, now: datetime, lease: timedelta, context: int
    ) -> Claim | None:
        session_id = storable(session_id, _MAX_SESSION_ID_CHARS)
        token = self._new_id()
        self._lease = lease

        async def work(changes: Changes) -> tuple[SessionRow, list[TurnRow]] | None:
            session = await self._ledger.session(session_id)
            if session is None:
                # Its own keys may have ended.
                self._ledger.remove_pending(changes, session_id)
                return None
            if session.scope.user_id != scope.user_id or not session.is_pending:
                return None
            # Ours already: the answer to an attempt before this one was lost.
            if session.token != token and not session.claimable(micros(now), lease):
                return None
            taken = replace(session, token=token, lease_until=micros(now + lease))
            self._ledger.put_session(changes, taken)
            return taken, await self._ledger.waiting(session_id)

        also_watch = (self._keys.session(session_id),)
        taken = await self._transactions.on_owner(self._ledger.owner(scope), work, also_watch=also_watch)
        if taken is None:
            return None
        session, rows = taken
        held = set(claimed((row.sequence, row.rules_done) for row in rows))
        rows = [row for row in rows if row.sequence in held]
        before = await self._accepted_before(session_id, rows[0].sequence, context) if rows else []
        logged = await self._ledger.logged([*before, *rows], {session_id: session.scope})
        not_before = self._back_off(session, now)
        return Claim(
            scope=session.scope,
            session_id=session_id,
            token=token,
            turns=tuple(turn for turn in logged if turn.sequence in held),
            context=tuple(turn for turn in logged if turn.sequence not in held),
            ended=session.ended,
            unsummarised=session.unsummarised,
            not_before=None if not_before is None else moment(not_before),
        )

    async def session_turns(self, claim: Claim, *, limit: int) -> tuple[LoggedTurn, ...]:
        session = await self._ledger.session(claim.session_id)
        if session is None or session.token != claim.token:
            return ()
        rows = await self._accepted_before(session.id, session.newest + 1, limit)
        return tuple(await self._ledger.logged(rows, {session.id: session.scope}))

    async def _accepted_before(self, session_id: str, sequence: int, limit: int) -> list[TurnRow]:
        """The last accepted turns before that one, oldest first."""
        found: list[TurnRow] = []
        key = self._keys.session_turns(session_id)
        while len(found) < limit:
            batch = await self._ledger.sequences(
                "ZREVRANGEBYSCORE", key, f"({sequence}", "-inf", "LIMIT", 0, limit - len(found)
            )
            if not batch:
                break
            rows = await self._ledger.turns(batch)
            found += [rows[number] for number in batch if number in rows and rows[number].accepted]
            sequence = batch[-1]
        return found[::-1]

    # -- while it is held ----------------------------------------------------------------------------------------------

    async def surviving(self, claim: Claim) -> frozenset[str]:
        session = await self._ledger.session(claim.session_id)
        if session is None or session.token != claim.token:
            return frozenset()
        waiting = set(await self._ledger.sequences("ZRANGE", self._keys.session_waiting(session.id), 0, -1))
        # A deletion of many turns takes several transactions.
        deleted = await self._deleted.current(self._ledger.owner(claim.scope))
        return frozenset(
            turn.id
            for turn in claim.turns
            if turn.sequence in waiting and not deleted_since(deleted, turn.scope, micros(turn.observed_at))
        )

    async def renew(self, claim: Claim, *, now: datetime, lease: timedelta) -> bool:
        async def work(changes: Changes, session: SessionRow) -> bool:
            self._ledger.put_session(changes, replace(session, lease_until=micros(now + lease)))
            return True

        return await self._holding(claim, work, otherwise=False)

    async def mark_rules_done(self, claim: Claim, turn_ids: Sequence[str]) -> None:
        named = {turn.sequence for turn in claim.turns if turn.id in set(turn_ids)}

        async def work(changes: Changes, session: SessionRow) -> None:
            rows = await self._ledger.waiting(session.id)
            after = [replace(row, rules_done=True) if row.sequence in named else row for row in rows]
            self._write(changes, session, rows, after)

        await self._holding(claim, work, None)

    async def mark_episode(self, claim: Claim, *, through: int) -> None:
        async def work(changes: Changes, session: SessionRow) -> None:
            if through <= session.summarised:
                return
            later = await self._ledger.sequences(
                "ZRANGEBYSCORE", self._keys.session_turns(session.id), f"({through}", "+inf"
            )
            rows = await self._ledger.turns(later)
            unsummarised = sum(row.accepted for row in rows.values())
            self._ledger.put_session(changes, replace(session, summarised=through, unsummarised=unsummarised))

        await self._holding(claim, work, None)

    # -- ending a claim ------------------------------------------------------------------------------------------------

    async def finish(self, claim: Claim, outcomes: Mapping[str, bool], *, now: datetime) -> None:
        named = {turn.sequence: outcomes[turn.id] for turn in claim.turns if turn.id in outcomes}

        def ended(row: TurnRow) -> TurnRow:
            if row.sequence not in named:
                return row
            state = TurnState.EXTRACTED if named[row.sequence] else TurnState.EMPTY
            return replace(row, state=state, kept_since=micros(now), rules_done=True)

        async def work(changes: Changes, session: SessionRow) -> None:
            rows = await self._ledger.waiting(session.id)
            self._write(changes, session.given_back(not_before=None), rows, [ended(row) for row in rows])
            deleted = (await self._deleted.current(self._ledger.owner(session.scope))).last_memory
            for row in rows:
                if row.sequence in named and deleted is not None and row.observed_at <= deleted:
                    self._ledger.erase_content(changes, row)

        await self._holding(claim, work, None)

    async def fail(self, claim: Claim, error: str, *, retry_at: datetime, max_attempts: int) -> int:
        reason = storable(error, _MAX_ERROR_CHARS)
        failing = {turn.sequence for turn in claim.turns}

        def failed(row: TurnRow) -> TurnRow:
            if row.sequence in failing:
                row = replace(row, attempts=row.attempts + 1, error=reason)
            return replace(row, state=TurnState.DEAD) if row.attempts >= max_attempts else row

        async def work(changes: Changes, session: SessionRow) -> int:
            rows = await self._ledger.waiting(session.id)
            after = [failed(row) for row in rows]
            dead = sum(row.state is TurnState.DEAD for row in after)
            # Turns that come after the dead ones have not failed yet. A claim without turns failed over its episode.
            backs_off = dead < len(after) or not failing
            session = session.given_back(not_before=micros(retry_at) if backs_off else None)
            self._write(changes, session, rows, after)
            return dead

        return await self._holding(claim, work, 0)

    async def release(self, claim: Claim) -> None:
        async def work(changes: Changes, session: SessionRow) -> None:
            self._ledger.put_session(changes, session.given_back(not_before=session.not_before))

        await self._holding(claim, work, None)

    async def _holding(self, claim: Claim, work: Callable[[Changes, SessionRow], Awaitable[T]], otherwise: T) -> T:
        """Run `work` in a transaction, if the claim is the session's current one."""

        async def guarded(changes: Changes) -> T:
            session = await self._ledger.session(claim.session_id)
            if session is None or session.token != claim.token or session.scope.user_id != claim.scope.user_id:
                return otherwise
            return await work(changes, session)

        return await self._transactions.on_owner(self._ledger.owner(claim.scope), guarded)

    def _write(
        self, changes: Changes, session: SessionRow, before: Sequence[TurnRow], after: Sequence[TurnRow]
    ) -> None:
        """Write what became of waiting turns, and what follows from it for their session and the totals."""
        for old, new in zip(before, after, strict=True):
            if new != old:
                self._ledger.put_turn(changes, new)
        left = [row for row in after if row.state is TurnState.WAITING]
        ended = [row.state for row in after if row.state is not TurnState.WAITING]
        dead = ended.count(TurnState.DEAD)
        self._ledger.put_session(changes, replace(session.recounted(left), dead=session.dead + dead))
        amounts = {
            "extracted": ended.count(TurnState.EXTRACTED),
            "empty": ended.count(TurnState.EMPTY),
            "dead_lettered": dead,
            "waiting": -len(ended),
        }
        changes.count(self._keys.totals, amounts)
