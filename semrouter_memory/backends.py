"""What everything that changes memories works with: the store, the turn log, state, locks, clock and observer as one value."""

from dataclasses import dataclass

from semrouter_memory.ports import (
    Clock,
    Embedder,
    MemoryReader,
    MemoryWriter,
    Observer,
    OwnerLocks,
    StateStore,
    TurnLog,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """What everything that changes memories works with.

    Attributes:
        writer: of everything that changes memories; the store's own writes would leave owner indexes stale.
    """

    store: MemoryReader
    writer: MemoryWriter
    embedder: Embedder
    turn_log: TurnLog
    state: StateStore
    locks: OwnerLocks
    clock: Clock
    observer: Observer
