"""Builds the service of the management API, with its deletions, over one set of adapters."""

from typing import Any

from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.manage.service import MemoryService


def deletion_service(
    *, store: Any, embedder: Any, turn_log: Any, state: Any, locks: Any, clock: Any, records: Any = None
) -> DeletionService:
    """Args: records: default: the turn log."""
    return DeletionService(
        reader=store,
        writer=store,
        embedder=embedder,
        turn_log=turn_log,
        records=turn_log if records is None else records,
        state=state,
        locks=locks,
        clock=clock,
    )


def memory_service(
    *,
    store: Any,
    embedder: Any,
    turn_log: Any,
    state: Any,
    locks: Any,
    clock: Any,
    deletion: DeletionService | None = None,
    **options: Any,
) -> MemoryService:
    """Args: options: the others of `MemoryService`."""
    return MemoryService(
        reader=store,
        writer=store,
        embedder=embedder,
        turn_log=turn_log,
        state=state,
        locks=locks,
        clock=clock,
        deletion=deletion
        or deletion_service(store=store, embedder=embedder, turn_log=turn_log, state=state, locks=locks, clock=clock),
        **options,
    )
