"""Claims on sessions: taking one, and how it ends. Pure.

Strategy. A claim is a lease with a fencing token in the session. Every write of a claim first asks, in the same
transaction, whether its token is still the session's: a claim that was taken over, or whose session was deleted, changes
nothing. The end of the lease alone takes nothing away; only another claim does.

Clocks are set back at times (a virtual machine that was paused, a server that is corrected). So a lease or a back-off that ends
further ahead than it can have been set counts as over, or a session would wait for as long as the step was.

An end is announced with a session's newest turn and done with when an episode covers that turn; so a turn that comes
during an episode takes neither the episode nor its own announcement away.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from semrouter_memory.model import Claim, PendingSession, Scope, TurnState
from semrouter_memory.turn_log.columns import micros, moment, storable
from semrouter_memory.turn_log.rows import SessionRow, TurnRow
from semrouter_memory.turn_log.storage import Changes, Rows, waiting_turns
from semrouter_memory.turn_log.view import View, with_contents

T = TypeVar("T")

USUAL_LEASE = timedelta(minutes=10)
"""How long leases are taken to be before the first claim says it."""
LONGEST_BACK_OFF = timedelta(days=1)
"""Upper bound on back-offs where none is configured."""
CLAIMED_TURNS = 100
"""So many waiting turns a claim holds at most, and so many that the rules have not read."""
_SKEW = 2
"""Replicas' clocks differ: what ends within so many leases, or back-offs, may be true."""
_MAX_ERROR_CHARS = 200


@dataclass(frozen=True, slots=True)
class Taken:
    """A claim before its turns are read: they are read without keeping writers waiting."""

    session: SessionRow
    waiting: tuple[TurnRow, ...]

    def without_turns(self) -> Claim:
        return Claim(scope=self.session.scope, session_id=self.session.id, token=self.session.token, turns=())


async def offered(rows: Rows, *, now: int, lease: timedelta, longest_back_off: timedelta) -> list[PendingSession]:
    """Sessions to work on, longest waiting first."""
    purging = await rows.pending_purges()
    sessions = [row for row in await rows.pending() if _claimable(row, now, lease)]
    if purging:
        sessions = [exact for row in sessions if (exact := await _exact(rows, row, purging)).is_pending]
    sessions.sort(key=lambda row: (not row.waiting, row.oldest_waiting or row.newest))
    until = [_back_off(row, now=now, longest=longest_back_off) for row in sessions]
    return [replace(row, not_before=each).as_pending() for row, each in zip(sessions, until, strict=True)]


def _claimable(session: SessionRow, now: int, lease: timedelta) -> bool:
    return not session.token or not now < session.lease_until <= now + _SKEW * _micros(lease)


def _back_off(session: SessionRow, *, now: int, longest: timedelta) -> int | None:
    """Until when the session's failed turns are not tried; None when they may be."""
    until = session.not_before
    return None if until is None or until > now + _SKEW * _micros(longest) else until


def _micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)


async def _exact(rows: Rows, session: SessionRow, purging: Collection[str]) -> SessionRow:
    """The session without what a deletion covers that is not complete."""
    if rows.digests.owner(session.scope) not in purging:
        return session
    return await (await View.of(rows, session.scope)).exact(session)


async def take(
    rows: Rows, scope: Scope, session_id: str, *, token: str, now: datetime, lease: timedelta
) -> tuple[Changes, Taken | None]:
    changes, view = Changes(), await View.of(rows, scope)
    session = await view.session(scope, session_id)
    if session is None:
        return changes, None
    exact = await _exact(rows, session, await rows.pending_purges())
    # Ours already: the answer to an attempt before this one was lost.
    if not exact.is_pending or not (session.token == token or _claimable(session, micros(now), lease)):
        return changes, None
    changes.sessions.append(replace(session, token=token, lease_until=micros(now + lease)))
    waiting = await view.waiting(session)
    unread = [row for row in waiting if not row.rules_done][:CLAIMED_TURNS]
    held = {row.sequence for row in (*waiting[:CLAIMED_TURNS], *unread)}
    taken = replace(exact, token=token, lease_until=micros(now + lease))
    return changes, Taken(taken, tuple(row for row in waiting if row.sequence in held))


async def whole(rows: Rows, taken: Taken, *, context: int, now: int, longest_back_off: timedelta) -> Claim:
    """The claim with its turns, and the accepted ones before them."""
    session = taken.session
    view = await View.of(rows, session.scope)
    before = await view.accepted_before(session.id, taken.waiting[0].sequence, context) if taken.waiting else []
    not_before = _back_off(session, now=now, longest=longest_back_off)
    return Claim(
        scope=session.scope,
        session_id=session.id,
        token=session.token,
        turns=tuple(await with_contents(rows, view.visible(taken.waiting))),
        context=tuple(await with_contents(rows, before)),
        ended=session.ended,
        unsummarised=session.unsummarised,
        not_before=None if not_before is None else moment(not_before),
    )


async def current(view: View, claim: Claim) -> SessionRow | None:
    """The claimed session; None when the claim is no longer its current one."""
    session = await view.session(claim.scope, claim.session_id)
    return session if session is not None and session.token == claim.token else None


async def surviving(rows: Rows, claim: Claim) -> frozenset[str]:
    view = await View.of(rows, claim.scope)
    session = await current(view, claim)
    waiting = {row.sequence for row in await view.waiting(session)} if session else set()
    return frozenset(turn.id for turn in claim.turns if turn.sequence in waiting)


async def last_turns(rows: Rows, claim: Claim, limit: int) -> Sequence[TurnRow]:
    view = await View.of(rows, claim.scope)
    session = await current(view, claim)
    return await view.accepted_before(session.id, session.newest + 1, limit) if session else ()


# -- while it is held --------------------------------------------------------------------------------------------------

Work = Callable[[View, Changes, SessionRow], Awaitable[T]]


async def held(rows: Rows, claim: Claim, work: Work[T], *, otherwise: T) -> tuple[Changes, T]:
    """What `work` adds to the changes, if the claim is the session's current one."""
    changes, view = Changes(), await View.of(rows, claim.scope)
    session = await current(view, claim)
    return changes, otherwise if session is None else await work(view, changes, session)


async def renew(_: View, changes: Changes, session: SessionRow, *, until: int) -> bool:
    changes.sessions.append(replace(session, lease_until=until))
    return True


async def mark_rules_done(view: View, changes: Changes, session: SessionRow, *, found: Mapping[int, bool]) -> None:
    rows = await waiting_turns(view.rows, session)
    after = [
        replace(row, rules_done=True, rules_found=found[row.sequence]) if row.sequence in found else row for row in rows
    ]
    _write(changes, session, rows, after)


async def mark_episode(view: View, changes: Changes, session: SessionRow, *, through: int) -> None:
    if through > session.summarised:
        later = await view.rows.after(session.id, through)
        unsummarised = sum(row.accepted for row in later)
        changes.sessions.append(replace(session, summarised=through, unsummarised=unsummarised))


async def finish(
    view: View, changes: Changes, session: SessionRow, *, stored: Mapping[int, bool], now: datetime
) -> None:
    """Args: stored: of each turn that ends, whether something of it was stored."""
    rows = await waiting_turns(view.rows, session)
    _write(changes, session.released(not_before=None), rows, [_finished(row, stored, micros(now)) for row in rows])
    # The turn may tell of a memory that was deleted since.
    deleted = view.tombstones.last_memory
    changes.contents_erased += [row for row in rows if row.sequence in stored and row.observed_at <= deleted]


def _finished(row: TurnRow, stored: Mapping[int, bool], now: int) -> TurnRow:
    if row.sequence not in stored:
        return row
    state = TurnState.EXTRACTED if stored[row.sequence] else TurnState.EMPTY
    return replace(row, state=state, kept_since=now, rules_done=True)


async def fail(
    view: View,
    changes: Changes,
    session: SessionRow,
    *,
    failing: Collection[int],
    error: str,
    retry_at: int,
    max_attempts: int,
) -> int:
    """Returns how many turns became dead letters."""
    reason = storable(error, _MAX_ERROR_CHARS)

    def failed(row: TurnRow) -> TurnRow:
        if row.sequence in failing:
            row = replace(row, attempts=row.attempts + 1, error=reason)
        return replace(row, state=TurnState.DEAD) if row.attempts >= max_attempts else row

    rows = await waiting_turns(view.rows, session)
    after = [failed(row) for row in rows]
    dead = sum(row.state is TurnState.DEAD for row in after)
    # Turns that came after the dead ones have not failed yet. A claim without turns failed over its episode.
    backs_off = dead < len(after) or not failing
    _write(changes, session.released(not_before=retry_at if backs_off else None), rows, after)
    return dead


async def release(_: View, changes: Changes, session: SessionRow) -> None:
    changes.sessions.append(session.released(not_before=session.not_before))


def _write(changes: Changes, session: SessionRow, before: Sequence[TurnRow], after: Sequence[TurnRow]) -> None:
    """What became of waiting turns, and what follows for their session and the totals."""
    changes.updated += [new for old, new in zip(before, after, strict=True) if new != old]
    left = [row for row in after if row.state is TurnState.WAITING]
    ended = [row.state for row in after if row.state is not TurnState.WAITING]
    dead = ended.count(TurnState.DEAD)
    changes.sessions.append(replace(session.recounted(left), dead=session.dead + dead))
    changes.counts.update(
        extracted=ended.count(TurnState.EXTRACTED),
        empty=ended.count(TurnState.EMPTY),
        dead_lettered=dead,
        waiting=-len(ended),
    )


# -- ends --------------------------------------------------------------------------------------------------------------


async def end_session(rows: Rows, scope: Scope, name: str) -> tuple[Changes, PendingSession | None]:
    """Announce the end of the session that a client calls by that name, or whose id it is."""
    changes, view = Changes(), await View.of(rows, scope)
    session = await view.named(scope, name)
    if session is None or not await view.accepted_before(session.id, session.newest + 1, 1):
        return changes, None
    if session.unsummarised:
        changes, session = await announced(view, session)
    return changes, session.as_pending()


async def announced(view: View, session: SessionRow) -> tuple[Changes, SessionRow]:
    """The session with its end announced on its newest turn."""
    session = replace(session, end_at=session.newest)
    newest = (await view.rows.turns([session.newest])).get(session.newest)
    return Changes(updated=[replace(newest, ends=True)] if newest else [], sessions=[session]), session
