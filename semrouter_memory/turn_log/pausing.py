"""What is not remembered though it is said: while the user has paused remembering, and in a session they named. Pure.

Strategy. Both are fields among the owner's tombstones, so every replica heeds them in the transaction that appends a turn.

A pause forbids every exchange that any part of it touches, also when its turn arrives long after: what was said in a
pause cannot be told apart in an exchange that began before it. What waits from before the pause is extracted as usual.

A session that is not remembered keeps its turns without a word, so that what continues it is found to belong to it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from semrouter_memory.databases import micros
from semrouter_memory.model import Scope, TurnState
from semrouter_memory.turn_log.rows import SessionRow, TurnRow
from semrouter_memory.turn_log.storage import Changes, Rows, View
from semrouter_memory.turn_log.tombstones import TombstoneChange, paused, resumed, silenced


async def set_paused(
    rows: Rows, scope: Scope, at: datetime, *, is_paused: bool
) -> tuple[Changes, TombstoneChange | None]:
    """Pause or resume remembering. The time is at least that of what was accepted last."""
    owner, time = rows.digests.owner(scope), max(micros(at), await rows.latest_time())
    known = await rows.tombstones(owner)
    change = (paused if is_paused else resumed)(owner, time, known)
    return (Changes(latest=time, tombstone=change) if change else Changes()), change


async def pause_session(rows: Rows, scope: Scope, name: str, at: datetime) -> tuple[Changes, None]:
    """Let the session of that name not be remembered, nor what was said in it before; there need not be one yet."""
    view = await View.of(rows, scope)
    session = await view.named(scope, name)
    owner, time = rows.digests.owner(scope), micros(at)
    if session is None:
        return Changes(tombstone=silenced(owner, time, rows.digests.session_ids(scope, name))), None
    changes = without_words(session, await rows.after(session.id, 0), time)
    changes.tombstone = silenced(owner, time, [session.id])
    return changes, None


def without_words(session: SessionRow, turns: Iterable[TurnRow], at: int) -> Changes:
    """Erase what was said in a session; what waits is deleted, but its place in the session stays."""
    rows = list(turns)
    changes = Changes(contents_erased=rows, sessions=[silent(session)])
    still_open = [row for row in rows if row.open]
    changes.updated = [replace(as_place(row), state=TurnState.EMPTY, kept_since=at) for row in still_open]
    waiting = sum(row.state is TurnState.WAITING for row in still_open)
    dead = len(still_open) - waiting
    changes.counts.update(deleted=waiting + dead, waiting=-waiting, dead_lettered=-dead)
    return changes


def silent(session: SessionRow) -> SessionRow:
    """The session with nothing to do, and without a claim on it."""
    rest = session.recounted(()).released(not_before=None)
    return replace(rest, dead=0, summarised=session.newest, unsummarised=0, end_at=0)


def as_place(row: TurnRow) -> TurnRow:
    """The row of a turn of which only its place in the conversation is known."""
    return replace(row, remember=False, rules_done=True, rules_found=False, error="", transcript_hashes=())
