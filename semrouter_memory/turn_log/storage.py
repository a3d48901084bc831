"""What the rules read of a log and what they change there, whatever stores it. Pure.

Strategy. A rule is an `async def` that reads `Rows` and returns `Changes`; a storage applies these in one transaction. The
rules are written once: SQLite answers every read at once, so its rules run to their end without suspending (`completed`).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

from semrouter_memory.model import Scope, TurnState
from semrouter_memory.turn_log.digests import Digests
from semrouter_memory.turn_log.rows import Content, SessionRow, TurnRow
from semrouter_memory.turn_log.tombstones import OwnerTombstones, TombstoneChange

T = TypeVar("T")

BATCH = 200
"""Turns that one transaction of a purge or sweep removes, so that appends wait only for a short time."""


@dataclass(slots=True)
class Changes:
    """The writes of one transaction. Removals come first, so that what is indexed stays.

    Attributes:
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
    answers_erased: list[TurnRow] = field(default_factory=list)
    contents_erased: list[TurnRow] = field(default_factory=list)
    sessions: list[SessionRow] = field(default_factory=list)
    sessions_removed: list[str] = field(default_factory=list)
    keys: list[tuple[str, int, int]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    latest: int = 0
    tombstone: TombstoneChange | None = None
    purged: str = ""


class Rows(Protocol):
    """Reads of one transaction, or of a moment. `digests` are made with the log's secret key."""

    @property
    def digests(self) -> Digests: ...

    async def turns(self, sequences: Iterable[int]) -> dict[int, TurnRow]: ...

    async def sessions(self, session_ids: Iterable[str]) -> dict[str, SessionRow]: ...

    async def before(self, session_id: str, sequence: int, limit: int) -> list[TurnRow]:
        """The session's last turns below that sequence number, newest first, incomplete ones too."""
        ...

    async def after(self, session_id: str, sequence: int) -> list[TurnRow]:
        """All of the session's turns above it, oldest first."""
        ...

    async def found_by(self, key: str) -> list[TurnRow]:
        """Turns that a lookup key leads to, the last learned first; only so many."""
        ...

    async def contents(self, rows: Sequence[TurnRow]) -> dict[int, Content]: ...

    async def tombstones(self, owner: str) -> OwnerTombstones: ...

    async def listed(
        self, owner: str | None, states: frozenset[TurnState] | None, *, before: int, limit: int
    ) -> list[TurnRow]:
        """Turns in one of these states, newest first; `before` 0: from the newest."""
        ...

    async def finished_before(self, time: int, limit: int) -> list[TurnRow]:
        """Turns whose retention ran before that time."""
        ...

    async def pending(self) -> list[SessionRow]: ...

    async def pending_purges(self) -> frozenset[str]:
        """Owners whose deletions are not complete."""
        ...

    async def next_sequence(self) -> int:
        """Grows with every transaction that takes effect; never given out again."""
        ...

    async def latest_time(self) -> int: ...


async def waiting_turns(rows: Rows, session: SessionRow) -> list[TurnRow]:
    """The session's waiting turns, oldest first."""
    if not session.waiting:
        return []
    return [row for row in await rows.after(session.id, session.oldest_waiting - 1) if row.state is TurnState.WAITING]


Decision: TypeAlias = Callable[[Rows], Awaitable[tuple[Changes, T]]]


class Storage(Protocol):
    """Runs decisions. Raises `TurnLogError`."""

    async def change(self, operation: str, scope_or_owner: Scope | str, decide: Decision[T]) -> T:
        """Decide and apply in one transaction on an owner's rows. `decide` may run several times."""
        ...

    async def read(self, operation: str, look: Callable[[Rows], Awaitable[T]]) -> T: ...


def completed(awaitable: Awaitable[T]) -> T:
    """The result of a coroutine that never suspends."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a local read suspended")
