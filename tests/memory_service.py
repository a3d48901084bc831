"""Builds the service of the management API, with its deletions, over one set of adapters."""

from collections.abc import AsyncIterator
from typing import Any

from semrouter_memory.config import KnowledgeConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.knowledge.service import KnowledgeService
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.replay.recordings import LiveOptions


class NoRecordings:
    """The operator's live recordings, which nothing asks for."""

    def live(self, options: LiveOptions) -> AsyncIterator[bytes]:
        raise AssertionError(options)


def deletion_service(
    *,
    store: Any,
    embedder: Any,
    turn_log: Any,
    state: Any,
    locks: Any,
    clock: Any,
    records: Any = None,
    writer: Any = None,
) -> DeletionService:
    """Args: records: default: the turn log; writer: default: the store."""
    return DeletionService(
        reader=store,
        writer=writer or store,
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
    writer: Any = None,
    **options: Any,
) -> MemoryService:
    """Args: options: the others of `MemoryService`."""
    return MemoryService(
        reader=store,
        writer=writer or store,
        embedder=embedder,
        turn_log=turn_log,
        state=state,
        locks=locks,
        clock=clock,
        deletion=deletion
        or deletion_service(
            store=store, embedder=embedder, turn_log=turn_log, state=state, locks=locks, clock=clock, writer=writer
        ),
        **options,
    )


def knowledge_service(
    *,
    store: Any,
    embedder: Any,
    turn_log: Any,
    state: Any,
    locks: Any,
    clock: Any,
    config: KnowledgeConfig | None = None,
) -> KnowledgeService:
    """Args: store: of the documents alone."""
    return KnowledgeService(
        reader=store,
        writer=store,
        embedder=embedder,
        deletion=deletion_service(
            store=store, embedder=embedder, turn_log=turn_log, state=state, locks=locks, clock=clock
        ),
        deletions=turn_log,
        locks=locks,
        clock=clock,
        config=config or KnowledgeConfig(),
    )
