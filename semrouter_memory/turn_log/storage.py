"""What the rules read of a log and what they change there, whatever stores it. Pure.

Strategy. A rule is an `async def` that reads `LogRows` and returns `Changes`; a storage applies these in one transaction. The
rules are written once: SQLite answers every read at once, so its rules run to their end without suspending (`completed`).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, TypeVar

from semrouter_memory.model import LoggedTurn, Scope, TurnState
from semrouter_memory.turn_log.client_values import MAX_SESSION_ID_CHARS, Digests, storable
from semrouter_memory.turn_log.rows import Content, SessionRow, TurnRow
from semrouter_memory.turn_log.tombstones import OwnerTombstones, TombstoneChange

T = TypeVar("T")

NEWEST = 2**62
"""Above every sequence number."""
MAX_SHARED = 32
"""Of the turns that share a lookup key only so many are looked at, the most recently learned ones."""
BATCH = 200
"""Turns that one transaction of a purge or sweep removes, so that appends wait only for a short time."""


@dataclass(slots=True)
class Changes:
    """The writes of one transaction. Removals come first, so that what is indexed stays.

    Attributes:
        answered: what was answered in these turns, and by which tools, is known now.
        answers_erased: what was answered in these turns is erased.
        contents_erased: what the user said in these, too.
        keys: lookup key, sequence number of the turn that it leads to, and when it was learned: of several turns with one
            key, the one learned last counts.
        counts: added to the durable totals.
        latest: the latest time that the log knows is raised to this one.
        purged: this owner's deletions are complete.
    """

    added: list[tuple[TurnRow, Content]] = field(default_factory=list)
    updated: list[TurnRow] = field(default_factory=list)
    removed: list[TurnRow] = field(default_factory=list)
    answered: list[tuple[TurnRow, Content]] = field(default_factory=list)
    answers_erased: list[TurnRow] = field(default_factory=list)
    contents_erased: list[TurnRow] = field(default_factory=list)
    sessions: list[SessionRow] = field(default_factory=list)
    sessions_removed: list[str] = field(default_factory=list)
    keys: list[tuple[str, int, int]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    latest: int = 0
    tombstone: TombstoneChange | None = None
    purged: str = ""


class LogRows(Protocol):
    """Reads of one transaction, or of a moment. `digests` are made with the log's secret key."""

    @property
    def digests(self) -> Digests: ...

    async def turns(self, sequences: Iterable[int]) -> dict[int, TurnRow]: ...

    async def sessions(self, session_ids: Iterable[str]) -> dict[str, SessionRow]: ...

    async def before(self, session_id: str, sequence: int, limit: int) -> list[TurnRow]:
        """The session's last turns below that sequence number, newest first, incomplete ones too."""

    async def after(self, session_id: str, sequence: int) -> list[TurnRow]:
        """All of the session's turns above it, oldest first."""

    async def found_by(self, key: str) -> list[TurnRow]:
        """Turns that a lookup key leads to, the last learned first; only so many."""

    async def contents(self, rows: Sequence[TurnRow]) -> dict[int, Content]: ...

    async def tombstones(self, owner: str) -> OwnerTombstones: ...

    async def listed(
        self, owner: str | None, states: frozenset[TurnState] | None, *, before: int, limit: int
    ) -> list[TurnRow]:
        """Turns in one of these states, newest first; `before` 0: from the newest."""

    async def finished_before(self, time: int, limit: int) -> list[TurnRow]:
        """Turns whose retention ran before that time."""

    async def pending(self) -> list[SessionRow]: ...

    async def pending_purges(self) -> frozenset[str]:
        """Owners whose deletions are not complete."""

    async def next_sequence(self) -> int:
        """Grows with every transaction that takes effect; a number is never used again."""

    async def latest_time(self) -> int: ...

    async def counts(self) -> dict[str, int]:
        """The durable totals, by the names of `TurnTotals`."""


async def waiting_turns(rows: LogRows, session: SessionRow) -> list[TurnRow]:
    """The session's waiting turns, oldest first."""
    if not session.waiting:
        return []
    return [row for row in await rows.after(session.id, session.oldest_waiting - 1) if row.state is TurnState.WAITING]


class View:
    """One owner's rows that are not deleted, and the questions that several rules ask of them.

    A deletion first commits its tombstone; the turns that it covers are removed after that, in batches. Nothing of them may
    be seen in between, so rules look through a `View`. What removes turns reads the rows themselves.
    """

    def __init__(self, rows: LogRows, tombstones: OwnerTombstones) -> None:
        self.rows = rows
        self.tombstones = tombstones

    @classmethod
    async def of(cls, rows: LogRows, scope: Scope) -> "View":
        return cls(rows, await rows.tombstones(rows.digests.owner(scope)))

    def visible(self, rows: Iterable[TurnRow]) -> list[TurnRow]:
        return [row for row in rows if not self.tombstones.hides(row)]

    async def session(self, scope: Scope, session_id: str) -> SessionRow | None:
        """The owner's session of that id."""
        found = (await self.rows.sessions([session_id])).get(session_id) if session_id else None
        return found if found is not None and found.scope.owner == scope.owner else None

    async def named(self, scope: Scope, name: str) -> SessionRow | None:
        """The owner's session that a client calls by that name, or whose id it is."""
        ids = self.rows.digests.session_ids(scope, name)
        found = await self.rows.sessions([*ids, storable(name, MAX_SESSION_ID_CHARS)])
        return next((row for row in found.values() if row.scope.owner == scope.owner), None)

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
        nearby = await self.rows.before(row.session_id, row.sequence, min(limit, BATCH))
        known = {each.sequence: each for each in nearby}
        links: list[TurnRow] = []
        while row is not None and len(links) < limit:
            links.append(row)
            if row.parent is None:
                break
            row = known.get(row.parent) or (await self.rows.turns([row.parent])).get(row.parent)
        return self.visible(links)


async def with_contents(rows: LogRows, found: Sequence[TurnRow]) -> list[LoggedTurn]:
    """Turns with their contents; those without are left out."""
    contents = await rows.contents(found)
    sessions = await rows.sessions(row.session_id for row in found)
    return [
        row.logged(contents[row.sequence], sessions[row.session_id].scope, rows.digests.turn_id(row.sequence))
        for row in found
        if row.sequence in contents and row.session_id in sessions
    ]


# -- storages -----------------------------------------------------------------------------------------------------------

Decision: TypeAlias = Callable[[LogRows], Awaitable[tuple[Changes, T]]]


class Storage(Protocol):
    """Runs decisions. Raises `TurnLogError`."""

    async def change(self, operation: str, scope_or_owner: Scope | str, decide: Decision[T]) -> T:
        """Decide and apply in one transaction on an owner's rows. `decide` may run several times."""

    async def read(self, operation: str, look: Callable[[LogRows], Awaitable[T]]) -> T: ...


def completed(awaitable: Awaitable[T]) -> T:
    """The result of a coroutine that never suspends."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a local read suspended")
