"""What everything that changes memories works with: the store, the turn log, state, locks, clock and observer as one value."""

from dataclasses import dataclass, field
from typing import Protocol

from semrouter_memory.ports import (
    ClaimedTurns,
    Clock,
    ConversationHistory,
    DeletionLog,
    Embedder,
    LogFiles,
    MemoryReader,
    MemoryWriter,
    Observer,
    OwnerIndexes,
    OwnerLocks,
    SessionControl,
    SessionQueue,
    StateStore,
    TurnInbox,
    TurnRecords,
)
from semrouter_memory.priority import RequestsFirst


class TurnLog(
    TurnInbox,
    SessionControl,
    SessionQueue,
    ClaimedTurns,
    ConversationHistory,
    DeletionLog,
    LogFiles,
    TurnRecords,
    Protocol,
):
    """All of the log. What works with a part of it names that part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """What everything that changes memories works with.

    Attributes:
        writer: of everything that changes memories; the store's own writes would leave owner indexes stale.
        owner_indexes: of recently active owners, which writes through `writer` keep current; None: there are none.
        priority: what works in the background gives way to requests.
    """

    store: MemoryReader
    writer: MemoryWriter
    embedder: Embedder
    turn_log: TurnLog
    state: StateStore
    locks: OwnerLocks
    clock: Clock
    observer: Observer
    owner_indexes: OwnerIndexes | None = None
    priority: RequestsFirst = field(default_factory=RequestsFirst)
