"""How turns leave the log: with a deletion, at the end of their retention, or dropped by an operator; and pauses. Pure.

Strategy. A turn is removed with its lookup keys and indexes, and a session with its last turn. Totals change in the same
transaction: a waiting or dead-lettered turn becomes a deleted one, a finished turn stays counted as what it was.

A scope may hold thousands of turns, and appends do not wait for all of them. So a deletion of a scope first commits its
tombstone: from then on no `View` shows what it covers. The turns are purged in batches; an owner whose purge is not
complete is noted, and it is completed by the next sweep: there is one after every start.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from semrouter_memory.databases import micros, moment
from semrouter_memory.model import Scope, Tombstone, TurnState
from semrouter_memory.turn_log.rows import SessionRow, TurnRow
from semrouter_memory.turn_log.storage import BATCH, NEWEST, Changes, LogRows, Storage, waiting_turns
from semrouter_memory.turn_log.tombstones import TombstoneChange, added, paused, resumed

_ANSWERED = frozenset({TurnState.EXTRACTED, TurnState.EMPTY, TurnState.INCOMPLETE})
"""Of an incomplete turn the calls are stored, and what the tools returned."""
_AT_ONCE = 16
"""Turns that one transaction removes. Each may need reads of its session, and an append by another replica makes the
transaction start again: a long one would never commit while a user talks."""


async def tombstone(rows: LogRows, deletion: Tombstone) -> tuple[Changes, Tombstone]:
    """Commit a deletion.

    Returns:
        The tombstone as it is stored: its time is at least that of what was accepted last.
    """
    at = max(micros(deletion.at), await rows.latest_time())
    stored = replace(deletion, at=moment(at))
    owner = rows.digests.owner(deletion.scope)
    return Changes(latest=at, tombstone=added(owner, stored, await rows.tombstones(owner))), stored


async def set_paused(
    rows: LogRows, scope: Scope, at: datetime, *, is_paused: bool
) -> tuple[Changes, TombstoneChange | None]:
    """Pause or resume remembering: a field among the owner's tombstones, so that every replica heeds it.

    The time is at least that of what was accepted last. What waits from before is extracted as usual.
    """
    owner, time = rows.digests.owner(scope), max(micros(at), await rows.latest_time())
    known = await rows.tombstones(owner)
    change = (paused if is_paused else resumed)(owner, time, known)
    return (Changes(latest=time, tombstone=change) if change else Changes()), change


async def remove_named(storage: Storage, scope: Scope, turn_ids: Sequence[str]) -> None:
    """Remove these turns of the owner."""

    async def named(rows: LogRows) -> list[TurnRow]:
        found = await rows.turns(sequences(rows, turn_ids))
        owner = rows.digests.owner(scope)
        return [row for row in found.values() if row.owner == owner]

    await remove_if(storage, "tombstone", await storage.read("tombstone", named), lambda _: True)


async def purge(storage: Storage, scope_or_owner: Scope | str) -> None:
    """Remove all turns that the owner's tombstones cover."""
    last: int | None = 0
    known: Mapping[bytes, int] | None = None

    async def batch(rows: LogRows) -> tuple[Changes, tuple[int | None, Mapping[bytes, int]]]:
        owner = rows.digests.owner(scope_or_owner) if isinstance(scope_or_owner, Scope) else scope_or_owner
        tombstones = await rows.tombstones(owner)
        # A deletion that was committed meanwhile may cover turns that were passed already.
        begins_anew = known is not None and tombstones.fields != known
        found = await rows.listed(owner, None, before=0 if begins_anew else last or 0, limit=BATCH)
        changes = await removed(rows, [row for row in found if tombstones.hides(row)])
        if len(found) == BATCH:
            return changes, (found[-1].sequence, tombstones.fields)
        changes.purged = owner
        return changes, (None, tombstones.fields)

    while last is not None:
        last, known = await storage.change("purge", scope_or_owner, batch)


async def purge_pending(storage: Storage) -> None:
    """Complete the deletions that were interrupted."""
    for owner in await storage.read("purge", lambda rows: rows.pending_purges()):
        await purge(storage, owner)


async def erase_answers(storage: Storage, scope: Scope, since: int) -> None:
    """Erase what was answered in the user's turns since then that do not wait."""
    last: int | None = 0

    async def batch(rows: LogRows) -> tuple[Changes, int | None]:
        found = await rows.listed(rows.digests.owner(scope), _ANSWERED, before=last or 0, limit=BATCH)
        answered = [row for row in found if row.observed_at >= since]
        return Changes(answers_erased=answered), found[-1].sequence if len(found) == BATCH else None

    while last is not None:
        last = await storage.change("erase_answers", scope, batch)


async def sweep(storage: Storage, before: int) -> int:
    """Remove finished turns, and incomplete ones that were never completed; returns how many."""
    swept = 0
    while batch := await storage.read("sweep", lambda rows: rows.finished_before(before, BATCH)):
        count = await remove_if(storage, "sweep", batch, lambda row: (row.kept_since or before) < before)
        swept += count
        if not count or len(batch) < BATCH:
            break
    return swept


async def drop(storage: Storage, turn_ids: Sequence[str]) -> int:
    """Delete turns that wait or are dead letters; returns how many."""
    found = await storage.read("drop", lambda rows: rows.turns(sequences(rows, turn_ids)))
    return await remove_if(storage, "drop", found.values(), lambda row: row.open)


async def retry(storage: Storage, turn_ids: Sequence[str]) -> int:
    """Let dead letters wait again, their sessions without a back-off; returns how many."""
    found = await storage.read("retry", lambda rows: rows.turns(sequences(rows, turn_ids)))
    retried = 0
    for owner, named in _by_owner(found.values()).items():
        retried += await storage.change("retry", owner, lambda rows, named=named: _waiting_again(rows, named))  # type: ignore[misc]
    return retried


async def _waiting_again(rows: LogRows, named: Sequence[int]) -> tuple[Changes, int]:
    dead = [row for row in (await rows.turns(named)).values() if row.state is TurnState.DEAD]
    again = [replace(row, state=TurnState.WAITING, attempts=0, error="") for row in dead]
    changes = Changes(updated=again)
    for session in (await rows.sessions(row.session_id for row in dead)).values():
        own = [row for row in again if row.session_id == session.id]
        counted = session.recounted([*await waiting_turns(rows, session), *own])
        changes.sessions.append(replace(counted, dead=session.dead - len(own), not_before=None))
    changes.counts.update(dead_lettered=-len(dead), waiting=len(dead))
    return changes, len(dead)


def sequences(rows: LogRows, turn_ids: Sequence[str]) -> list[int]:
    """The sequence numbers of this log's turn ids."""
    found = (rows.digests.sequence(turn_id) for turn_id in dict.fromkeys(turn_ids))
    return [sequence for sequence in found if sequence is not None]


def _by_owner(rows: Collection[TurnRow]) -> dict[str, list[int]]:
    owners: dict[str, list[int]] = {}
    for row in rows:
        owners.setdefault(row.owner, []).append(row.sequence)
    return owners


# -- removing ----------------------------------------------------------------------------------------------------------


async def remove_if(
    storage: Storage, operation: str, found: Collection[TurnRow], condition: Callable[[TurnRow], bool]
) -> int:
    """Remove those that still meet the condition in the transaction; returns how many."""
    count = 0
    for owner, named in _by_owner(found).items():
        for start in range(0, len(named), _AT_ONCE):

            async def batch(
                rows: LogRows, named: Sequence[int] = named[start : start + _AT_ONCE]
            ) -> tuple[Changes, int]:
                leaving = [row for row in (await rows.turns(named)).values() if condition(row)]
                return await removed(rows, leaving), len(leaving)

            count += await storage.change(operation, owner, batch)
    return count


async def removed(rows: LogRows, leaving: Sequence[TurnRow]) -> Changes:
    """The changes that remove these turns."""
    states = [row.state for row in leaving]
    waiting, dead = states.count(TurnState.WAITING), states.count(TurnState.DEAD)
    changes = Changes(removed=list(leaving))
    changes.counts.update(deleted=waiting + dead, dead_lettered=-dead, waiting=-waiting)
    sessions = await rows.sessions(row.session_id for row in leaving)
    for session in sessions.values():
        own = [row for row in leaving if row.session_id == session.id]
        counted = replace(
            session,
            dead=session.dead - sum(row.state is TurnState.DEAD for row in own),
            unsummarised=session.unsummarised - sum(row.accepted and row.sequence > session.summarised for row in own),
        )
        await without(rows, changes, counted, {row.sequence for row in own})
    return changes


async def without(rows: LogRows, changes: Changes, session: SessionRow, gone: Collection[int]) -> None:
    """Add what is left of a session when these turns are gone."""
    if not await _last(rows, session.id, gone, lambda _: True):
        changes.sessions_removed.append(session.id)
        return
    waiting = [row for row in await waiting_turns(rows, session) if row.sequence not in gone]
    session = session.recounted(waiting)
    if session.newest in gone:
        session = replace(session, newest=await _last(rows, session.id, gone, lambda row: row.accepted))
    if session.end_at in gone:
        session = replace(session, end_at=await _last(rows, session.id, gone, lambda row: row.accepted and row.ends))
    changes.sessions.append(session)


async def _last(rows: LogRows, session_id: str, gone: Collection[int], condition: Callable[[TurnRow], bool]) -> int:
    """The highest sequence number of the session's other turns that meet the condition; 0 for none."""
    sequence = NEWEST
    while batch := await rows.before(session_id, sequence, BATCH):
        found = next((row.sequence for row in batch if row.sequence not in gone and condition(row)), 0)
        if found:
            return found
        sequence = batch[-1].sequence
    return 0
