"""The rows that are not deleted, and the questions that several rules ask of them. Pure.

A deletion first commits its tombstone; the turns that it covers are removed after that, in batches. Nothing of them may be
seen in between, so rules look through a `View`. What removes turns reads the rows themselves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from semrouter_memory.model import LoggedTurn, Scope
from semrouter_memory.turn_log.columns import MAX_SESSION_ID_CHARS, storable
from semrouter_memory.turn_log.rows import SessionRow, TurnRow, logged
from semrouter_memory.turn_log.storage import Rows, waiting_turns
from semrouter_memory.turn_log.tombstones import OwnerTombstones

_BATCH = 200


class View:
    """One owner's rows."""

    def __init__(self, rows: Rows, tombstones: OwnerTombstones) -> None:
        self.rows = rows
        self.tombstones = tombstones

    @classmethod
    async def of(cls, rows: Rows, scope: Scope) -> "View":
        return cls(rows, await rows.tombstones(rows.digests.owner(scope)))

    def visible(self, rows: Iterable[TurnRow]) -> list[TurnRow]:
        return [row for row in rows if not self.tombstones.hides(row)]

    async def session(self, scope: Scope, session_id: str) -> SessionRow | None:
        """The owner's session of that id."""
        found = (await self.rows.sessions([session_id])).get(session_id) if session_id else None
        return found if found is not None and found.scope.user_id == scope.user_id else None

    async def named(self, scope: Scope, name: str) -> SessionRow | None:
        """The owner's session that a client calls by that name, or whose id it is."""
        digests = self.rows.digests
        ids = [digests.session_id(scope, kind, name) for kind in ("header", "conversation")]
        found = await self.rows.sessions([*ids, storable(name, MAX_SESSION_ID_CHARS)])
        return next((row for row in found.values() if row.scope.user_id == scope.user_id), None)

    async def found_by(self, key: str) -> list[TurnRow]:
        return self.visible(await self.rows.found_by(key))

    async def answered_by(self, scope: Scope, response_id: str) -> TurnRow | None:
        """The newest of the owner's turns that were answered by that response."""
        if not response_id:
            return None
        found = await self.found_by(self.rows.digests.response_key(scope, response_id))
        return found[0] if found else None

    async def waiting(self, session: SessionRow) -> list[TurnRow]:
        return self.visible(await waiting_turns(self.rows, session))

    async def exact(self, session: SessionRow) -> SessionRow:
        """The session without its deleted turns, which count until they are removed."""
        later = self.visible(await self.rows.after(session.id, session.summarised))
        counted = session.recounted(await self.waiting(session))
        return replace(
            counted,
            unsummarised=sum(row.accepted for row in later),
            end_at=max((row.sequence for row in later if row.accepted and row.ends), default=0),
        )

    async def accepted_before(self, session_id: str, sequence: int, limit: int) -> list[TurnRow]:
        """The session's last accepted turns below that sequence number, oldest first."""
        found: list[TurnRow] = []
        while len(found) < limit and (batch := await self.rows.before(session_id, sequence, limit)):
            found += [row for row in self.visible(batch) if row.accepted]
            sequence = batch[-1].sequence
        return found[: max(limit, 0)][::-1]

    async def chain(self, scope: Scope, response_id: str, limit: int) -> list[TurnRow]:
        """The turns that lead to that response, newest first, incomplete ones too."""
        row = await self.answered_by(scope, response_id)
        if row is None or limit < 1:
            return []
        # Nearly always the chain is in one session.
        nearby = await self.rows.before(row.session_id, row.sequence, min(limit, _BATCH))
        known = {each.sequence: each for each in nearby}
        links: list[TurnRow] = []
        while row is not None and len(links) < limit:
            links.append(row)
            if row.parent is None:
                break
            row = known.get(row.parent) or (await self.rows.turns([row.parent])).get(row.parent)
        return self.visible(links)


async def with_contents(rows: Rows, found: Sequence[TurnRow]) -> list[LoggedTurn]:
    """Turns with their contents; those without are left out."""
    contents = await rows.contents(found)
    sessions = await rows.sessions(row.session_id for row in found)
    return [
        logged(row, contents[row.sequence], sessions[row.session_id].scope, rows.digests.turn_id(row.sequence))
        for row in found
        if row.sequence in contents and row.session_id in sessions
    ]
