"""Builds the service of the management API, with its deletions, over one set of adapters."""

from collections.abc import AsyncIterator
from typing import Any

from semrouter_memory.backends import Backends
from semrouter_memory.config import IdentityConfig, KnowledgeConfig, MemoryConfig, RecallConfig, ReflectionConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.knowledge.service import KnowledgeService
from semrouter_memory.manage.access import Access
from semrouter_memory.manage.explaining import Explainer
from semrouter_memory.manage.reflecting import Reflector
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.priority import RequestsFirst
from semrouter_memory.recall.conversation import StoredHistory
from semrouter_memory.recall.recaller import Recaller
from semrouter_memory.recall.strategy import MemorySource
from semrouter_memory.recall.vector_search import HybridSearch
from semrouter_memory.replay.recordings import LiveOptions, Recordings
from semrouter_memory.transport.request_phase import RequestPhase


class SilentObserver:
    """Takes note of nothing."""

    def observe(self, event: object) -> None:
        pass


def access_to(service: Any, *, knowledge: Any = None, reflector: Any = None) -> Access:
    """Args: knowledge, reflector: where a test asks for more than memories."""
    return Access(service=service, identity=IdentityConfig(), knowledge=knowledge, reflector=reflector)


class NoRecordings(Recordings):
    """The operator's live recordings, which nothing asks for."""

    def __init__(self) -> None:
        """Without a place for any."""

    def live(self, options: LiveOptions) -> AsyncIterator[bytes]:
        raise AssertionError(options)


def backends_of(
    *,
    store: Any,
    embedder: Any,
    turn_log: Any,
    state: Any = None,
    locks: Any,
    clock: Any,
    writer: Any = None,
    observer: Any = None,
) -> Backends:
    """Args: state: default: none is asked for; writer: default: the store."""
    return Backends(
        store=store,
        writer=writer or store,
        embedder=embedder,
        turn_log=turn_log,
        state=state,
        locks=locks,
        clock=clock,
        observer=observer or SilentObserver(),
    )


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
    backends = backends_of(
        store=store, writer=writer, embedder=embedder, turn_log=turn_log, state=state, locks=locks, clock=clock
    )
    return DeletionService(backends, records=turn_log if records is None else records)


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
    explainer: Explainer | None = None,
    **options: Any,
) -> MemoryService:
    """Args: options: the others of `MemoryService`."""
    # A busy machine must not change what is explained.
    config = MemoryConfig(recall=RecallConfig(deadline_ms=5_000))
    explaining = Explainer(
        recall=_request_phase(config, store, embedder, turn_log, clock),
        settings=ExchangeSettings(config, max_body_bytes=1 << 20, max_answer_bytes=1 << 20),
        clock=clock,
    )
    backends = backends_of(
        store=store, writer=writer, embedder=embedder, turn_log=turn_log, state=state, locks=locks, clock=clock
    )
    options.setdefault("searcher", _searcher(store, embedder, clock))
    return MemoryService(
        backends,
        explainer=explainer or explaining,
        deletion=deletion or DeletionService(backends, records=turn_log),
        **options,
    )


def _searcher(store: Any, embedder: Any, clock: Any) -> HybridSearch:
    source = MemorySource(reader=store, indexes=None, clock=clock)
    return HybridSearch(source=source, embedder=embedder, config=RecallConfig())


def reflector(
    *,
    store: Any,
    embedder: Any,
    turn_log: Any,
    clock: Any,
    knowledge: KnowledgeService | None = None,
    model: Any = None,
    observer: Any = None,
    threshold: float = 0.6,
    **settings: Any,
) -> Reflector:
    """Args: settings: of `memory.reflection`."""
    backends = backends_of(
        store=store, embedder=embedder, turn_log=turn_log, state=None, locks=None, clock=clock, observer=observer
    )
    return Reflector(
        backends,
        searcher=_searcher(store, embedder, clock),
        knowledge=knowledge,
        model=model,
        config=ReflectionConfig(**settings),
        threshold=threshold,
        max_chars=8_000,
    )


def _request_phase(config: MemoryConfig, store: Any, embedder: Any, turn_log: Any, clock: Any) -> RequestPhase:
    source = MemorySource(reader=store, indexes=None, clock=clock)
    observer = SilentObserver()
    recaller = Recaller(
        strategy=HybridSearch(source=source, embedder=embedder, config=config.recall),
        embedder=embedder,
        turn_log=turn_log,
        observer=observer,
        clock=clock,
        config=config.recall,
    )
    history = StoredHistory(turn_log, config.recall)
    return RequestPhase(
        recaller=recaller, history=history, observer=observer, priority=RequestsFirst(), config=config.recall
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
    documents = backends_of(store=store, embedder=embedder, turn_log=turn_log, state=state, locks=locks, clock=clock)
    return KnowledgeService(
        documents, deletion=DeletionService(documents, records=turn_log), config=config or KnowledgeConfig()
    )
