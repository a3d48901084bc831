"""What is not remembered though it is said: while the user has paused remembering, and in a session of which they asked it. Pure.

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
from semrouter_memory.turn_log.storage import Changes, Rows
from semrouter_memory.turn_log.tombstones import TombstoneChange, paused, resumed


async def set_paused(
    rows: Rows, scope: Scope, at: datetime, *, is_paused: bool
) -> tuple[Changes, TombstoneChange | None]:
    """Pause or resume remembering. The time is at least that of what was accepted last."""
    owner, time = rows.digests.owner(scope), max(micros(at), await rows.latest_time())
    known = await rows.tombstones(owner)
    change = (paused if is_paused else resumed)(owner, time, known)
    return (Changes(latest=time, tombstone=change) if change else Changes()), change


def forget_words(changes: Changes, turns: Iterable[TurnRow], at: int) -> None:
    """Erase what was said in these turns of a session; what waits is deleted, but its place in the session stays."""
    for row in turns:
        changes.contents_erased.append(row)
        if row.open:
            changes.updated.append(replace(as_place(row), state=TurnState.EMPTY, kept_since=at))
            changes.counts.update({"deleted": 1, "waiting" if row.state is TurnState.WAITING else "dead_lettered": -1})


def silent(session: SessionRow) -> SessionRow:
    """The session with nothing to do, and without a claim on it."""
    rest = session.recounted(()).released(not_before=None)
    return replace(rest, dead=0, summarised=session.newest, unsummarised=0, end_at=0)


def as_place(row: TurnRow) -> TurnRow:
    """The row of a turn of which only its place in the conversation is known."""
    return replace(row, remember=False, rules_done=True, rules_found=False, error="", transcript_hashes=())
