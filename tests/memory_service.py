"""Builds the service of the management API, with its deletions, over one set of adapters."""

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

from fastapi import FastAPI

from semrouter_memory.backends import Backends
from semrouter_memory.config import (
    IdentityConfig,
    KnowledgeConfig,
    ManagementConfig,
    MemoryConfig,
    RecallConfig,
    ReflectionConfig,
)
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.knowledge.service import KnowledgeService
from semrouter_memory.manage.access import Access
from semrouter_memory.manage.backup import write_backup
from semrouter_memory.manage.explaining import Explainer
from semrouter_memory.manage.http import Readiness, create_operator_api
from semrouter_memory.manage.operator_routes import OperatorContext
from semrouter_memory.manage.reflecting import Reflector
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.recall.conversation import StoredHistory
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.recaller import Recaller, StrategyPair
from semrouter_memory.recall.strategy import MemorySource
from semrouter_memory.recall.vector_search import HybridSearch
from semrouter_memory.replay.recordings import Recordings
from semrouter_memory.state.local import InProcessOwnerLocks
from semrouter_memory.transport.request_phase import RequestPhase


class SilentObserver:
    """Takes note of nothing."""

    def observe(self, event: object) -> None:
        pass


def access_to(service: Any, *, knowledge: Any = None, reflector: Any = None) -> Access:
    """Args: knowledge, reflector: where a test asks for more than memories."""
    return Access(service=service, identity=IdentityConfig(), knowledge=knowledge, reflector=reflector)


def operator_api(
    access: Access,
    *,
    backends: Backends | None = None,
    deletion: DeletionService | None = None,
    collections: Any = None,
    **options: Any,
) -> FastAPI:
    """The operator's port.

    Args:
        backends, deletion, collections: of the operator's own routes; without them there are none.
        options: others than the usual ones of `create_operator_api`.
    """
    context = None
    if backends is not None and deletion is not None:
        store: Any = backends.store
        context = OperatorContext(
            turn_log=backends.turn_log,
            deletion=deletion,
            collections=collections,
            backup=partial(write_backup, backends, store, file_lock=deletion.file_lock),
            recordings=NoRecordings(),
        )
    usual: dict[str, Any] = {
        "config": ManagementConfig(),
        "token": "operator-token",
        "readiness": lambda: Readiness(serving=True, store_available=True),
        "metrics": lambda: (b"", "text/plain"),
        "context": context,
    }
    return create_operator_api(access, **usual | options)


class NoRecordings(Recordings):
    """The operator's live recordings, which nothing asks for."""

    def __init__(self) -> None:
        """Without a place for any."""

    def live(self, seconds: float, **options: Any) -> AsyncIterator[bytes]:
        raise AssertionError(seconds, options)


def backends_of(
    *,
    store: Any,
    embedder: Any,
    turn_log: Any,
    state: Any = None,
    locks: Any = None,
    clock: Any,
    writer: Any = None,
    observer: Any = None,
    owner_indexes: Any = None,
) -> Backends:
    """Args: state: default: none is asked for; locks: default: of this process; writer: default: the store."""
    return Backends(
        store=store,
        writer=writer or store,
        embedder=embedder,
        turn_log=turn_log,
        state=state,
        locks=locks or InProcessOwnerLocks(),
        clock=clock,
        observer=observer or SilentObserver(),
        owner_indexes=owner_indexes,
    )


def memory_service(
    backends: Backends, *, deletion: DeletionService | None = None, explainer: Explainer | None = None, **options: Any
) -> MemoryService:
    """Args: options: the others of `MemoryService`."""
    # A busy machine must not change what is explained.
    config = MemoryConfig(recall=RecallConfig(deadline_ms=5_000))
    explaining = Explainer(
        recall=_request_phase(config, backends),
        settings=ExchangeSettings(config, max_body_bytes=1 << 20, max_answer_bytes=1 << 20),
        clock=backends.clock,
    )
    usual = {
        "searcher": _searcher(backends),
        "new_id": lambda: f"mem_{uuid.uuid4().hex}",
        "written": lambda _scope: None,
        "ttl_days": {},
        "session_lifetime": timedelta(days=1),
    }
    return MemoryService(
        backends,
        explainer=explainer or explaining,
        deletion=deletion or DeletionService(backends),
        **{**usual, **options},
    )


def _searcher(backends: Backends, config: RecallConfig | None = None) -> HybridSearch:
    source = MemorySource(reader=backends.store, indexes=None, clock=backends.clock)
    return HybridSearch(source=source, vectors=QueryVectors(backends.embedder), config=config or RecallConfig())


def reflector(
    backends: Backends,
    *,
    knowledge: KnowledgeService | None = None,
    model: Any = None,
    threshold: float = 0.6,
    **settings: Any,
) -> Reflector:
    """Args: settings: of `memory.reflection`."""
    return Reflector(
        backends=backends,
        searcher=_searcher(backends),
        knowledge=knowledge,
        model=model,
        config=ReflectionConfig(**settings),
        threshold=threshold,
        max_chars=8_000,
    )


def _request_phase(config: MemoryConfig, backends: Backends) -> RequestPhase:
    strategy = _searcher(backends, config.recall)
    recaller = Recaller(
        strategies={config.recall.strategy: StrategyPair(strategy, strategy)},
        embedder=backends.embedder,
        turn_log=backends.turn_log,
        observer=backends.observer,
        clock=backends.clock,
        config=config.recall,
    )
    return RequestPhase(
        recaller=recaller,
        history=StoredHistory(backends.turn_log, config.recall),
        observer=backends.observer,
        priority=backends.priority,
        config=config.recall,
    )


def knowledge_service(backends: Backends, store: Any, config: KnowledgeConfig | None = None) -> KnowledgeService:
    """Args: store: of the documents alone."""
    documents = backends.with_store(store, store)
    return KnowledgeService(documents, deletion=DeletionService(documents), config=config or KnowledgeConfig())
