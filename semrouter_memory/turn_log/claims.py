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
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias

from semrouter_memory.databases import micros, moment
from semrouter_memory.model import Claim, PendingSession, Scope, TurnState
from semrouter_memory.turn_log.client_values import storable
from semrouter_memory.turn_log.rows import SessionRow, TurnRow
from semrouter_memory.turn_log.storage import Changes, LogRows, View, waiting_turns, with_contents

USUAL_LEASE = timedelta(minutes=10)
"""How long leases are taken to be before the first claim says it."""
CLAIMED_TURNS = 100
"""So many waiting turns a claim holds at most, and so many that the rules have not read."""
_SKEW = 2
"""Replicas' clocks differ: what ends within so many leases, or back-offs, may be true."""
_MAX_ERROR_CHARS = 200


async def offered(rows: LogRows, *, now: int, lease: timedelta, longest_back_off: timedelta) -> list[PendingSession]:
    """Sessions to work on, longest waiting first."""
    purging = await rows.pending_purges()
    sessions = [row for row in await rows.pending() if _claimable(row, now, lease)]
    if purging:
        sessions = [exact for row in sessions if (exact := await _exact(rows, row, purging)).is_pending]
    sessions.sort(key=lambda row: (not row.waiting, row.oldest_waiting or row.newest))
    return [row.as_pending(not_before=_back_off(row, now=now, longest=longest_back_off)) for row in sessions]


def _claimable(session: SessionRow, now: int, lease: timedelta) -> bool:
    return not session.token or not now < session.lease_until <= now + _SKEW * _micros(lease)


def _back_off(session: SessionRow, *, now: int, longest: timedelta) -> int | None:
    """Until when the session's failed turns are not tried; None when they may be."""
    until = session.not_before
    return None if until is None or until > now + _SKEW * _micros(longest) else until


def _micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)


async def _exact(rows: LogRows, session: SessionRow, purging: Collection[str]) -> SessionRow:
    """The session without what a deletion covers that is not complete."""
    if rows.digests.owner(session.scope) not in purging:
        return session
    return await (await View.of(rows, session.scope)).exact(session)


async def take(
    rows: LogRows, scope: Scope, session_id: str, *, token: str, now: datetime, lease: timedelta
) -> tuple[Changes, Claim | None]:
    """A claim without its turns: they are read without keeping writers waiting."""
    view = await View.of(rows, scope)
    session = await view.session(scope, session_id)
    if session is None:
        return Changes(), None
    exact = await _exact(rows, session, await rows.pending_purges())
    # Taken by an earlier attempt whose answer was lost.
    if not exact.is_pending or not (session.token == token or _claimable(session, micros(now), lease)):
        return Changes(), None
    taken = replace(session, token=token, lease_until=micros(now + lease))
    return Changes(sessions=[taken]), Claim(scope=session.scope, session_id=session.id, token=token, turns=())


async def whole(rows: LogRows, claim: Claim, *, context: int, now: int, longest_back_off: timedelta) -> Claim:
    """The claim with its turns, and the accepted ones before them."""
    view, session = await _current(rows, claim)
    if session is None:
        return claim
    session = await _exact(rows, session, await rows.pending_purges())
    waiting = await view.waiting(session)
    unread = [row for row in waiting if not row.rules_done][:CLAIMED_TURNS]
    held = {row.sequence for row in (*waiting[:CLAIMED_TURNS], *unread)}
    before = await view.accepted_before(session.id, waiting[0].sequence, context) if waiting else []
    not_before = _back_off(session, now=now, longest=longest_back_off)
    return replace(
        claim,
        turns=tuple(await with_contents(rows, [row for row in waiting if row.sequence in held])),
        context=tuple(await with_contents(rows, before)),
        ended=session.ended,
        unsummarised=session.unsummarised,
        not_before=None if not_before is None else moment(not_before),
    )


async def _current(rows: LogRows, claim: Claim) -> tuple[View, SessionRow | None]:
    """The claimed session; None when the claim is no longer its current one."""
    view = await View.of(rows, claim.scope)
    session = await view.session(claim.scope, claim.session_id)
    return view, session if session is not None and session.token == claim.token else None


async def surviving(rows: LogRows, claim: Claim) -> frozenset[str]:
    view, session = await _current(rows, claim)
    waiting = {row.sequence for row in await view.waiting(session)} if session else set()
    return frozenset(turn.id for turn in claim.turns if turn.sequence in waiting)


async def last_turns(rows: LogRows, claim: Claim, limit: int) -> Sequence[TurnRow]:
    view, session = await _current(rows, claim)
    return await view.accepted_before(session.id, session.newest + 1, limit) if session else ()


# -- while it is held --------------------------------------------------------------------------------------------------

Decide: TypeAlias = Callable[[View, SessionRow], Awaitable[Changes]]


async def held(rows: LogRows, claim: Claim, decide: Decide) -> tuple[Changes, Changes]:
    """What is decided, if the claim is the session's current one; else no change."""
    view, session = await _current(rows, claim)
    changes = Changes() if session is None else await decide(view, session)
    return changes, changes


async def renew(_: View, session: SessionRow, *, until: int) -> Changes:
    return Changes(sessions=[replace(session, lease_until=until)])


async def release(_: View, session: SessionRow) -> Changes:
    return Changes(sessions=[session.released(not_before=session.not_before)])


async def mark_episode(view: View, session: SessionRow, *, through: int) -> Changes:
    if through <= session.summarised:
        return Changes()
    later = await view.rows.after(session.id, through)
    return Changes(sessions=[replace(session, summarised=through, unsummarised=sum(row.accepted for row in later))])


async def mark_rules_done(view: View, session: SessionRow, *, found: Mapping[int, bool]) -> Changes:
    def marked(row: TurnRow) -> TurnRow:
        if row.sequence not in found:
            return row
        return replace(row, rules_done=True, rules_found=found[row.sequence])

    return _changed(session, await waiting_turns(view.rows, session), marked)


async def finish(view: View, session: SessionRow, *, stored: Mapping[int, bool], now: datetime) -> Changes:
    """Args: stored: of each turn that ends, whether something of it was stored."""

    def finished(row: TurnRow) -> TurnRow:
        if row.sequence not in stored:
            return row
        state = TurnState.EXTRACTED if stored[row.sequence] else TurnState.EMPTY
        return replace(row, state=state, kept_since=micros(now), rules_done=True)

    waiting = await waiting_turns(view.rows, session)
    changes = _changed(session.released(not_before=None), waiting, finished)
    # The turn may repeat a memory that was deleted since.
    deleted = view.tombstones.last_memory
    changes.contents_erased += [row for row in waiting if row.sequence in stored and row.observed_at <= deleted]
    return changes


async def fail(
    view: View, session: SessionRow, *, failing: Collection[int], error: str, retry_at: int, max_attempts: int
) -> Changes:
    reason = storable(error, _MAX_ERROR_CHARS)

    def failed(row: TurnRow) -> TurnRow:
        if row.sequence in failing:
            row = replace(row, attempts=row.attempts + 1, error=reason)
        return replace(row, state=TurnState.DEAD) if row.attempts >= max_attempts else row

    waiting = await waiting_turns(view.rows, session)
    # Turns that came after the dead ones have not failed yet. A claim without turns failed over its episode.
    backs_off = not failing or any(failed(row).state is TurnState.WAITING for row in waiting)
    return _changed(session.released(not_before=retry_at if backs_off else None), waiting, failed)


def _changed(session: SessionRow, waiting: Sequence[TurnRow], change: Callable[[TurnRow], TurnRow]) -> Changes:
    """What becomes of waiting turns, and what follows for their session and the totals."""
    after = [change(row) for row in waiting]
    ended = [row.state for row in after if row.state is not TurnState.WAITING]
    dead = ended.count(TurnState.DEAD)
    session = session.recounted(row for row in after if row.state is TurnState.WAITING)
    changes = Changes(
        updated=[new for old, new in zip(waiting, after, strict=True) if new != old],
        sessions=[replace(session, dead=session.dead + dead)],
    )
    changes.counts.update(
        extracted=ended.count(TurnState.EXTRACTED),
        empty=ended.count(TurnState.EMPTY),
        dead_lettered=dead,
        waiting=-len(ended),
    )
    return changes


# -- ends --------------------------------------------------------------------------------------------------------------


async def end_session(rows: LogRows, scope: Scope, name: str) -> tuple[Changes, PendingSession | None]:
    """Announce the end of the session that a client calls by that name, or whose id it is."""
    changes, view = Changes(), await View.of(rows, scope)
    session = await view.named(scope, name)
    if session is None or not await view.accepted_before(session.id, session.newest + 1, 1):
        return changes, None
    if session.unsummarised:
        session = replace(session, end_at=session.newest)
        changes.sessions.append(session)
        newest = (await rows.turns([session.newest])).get(session.newest)
        changes.updated += [replace(newest, ends=True)] if newest else []
    return changes, session.as_pending(not_before=session.not_before)
