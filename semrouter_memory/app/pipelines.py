"""The pipelines, made of adapters and their sections of the configuration."""

from collections.abc import Callable
from datetime import timedelta
from typing import get_args

from semrouter_memory.app.adapters import Adapters, ExternalModels
from semrouter_memory.backends import Backends
from semrouter_memory.compress.builder import StateBuilder
from semrouter_memory.compress.pipeline import Compressor
from semrouter_memory.config import AgeingConfig, CompressionConfig, KnowledgeConfig, MemoryConfig, RecallConfig
from semrouter_memory.deletion.in_words import InWords
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.knowledge.service import KnowledgeService
from semrouter_memory.maintenance.consolidate import Consolidator
from semrouter_memory.maintenance.recall_journal import RecallJournal
from semrouter_memory.maintenance.reflect import InsightWriter
from semrouter_memory.maintenance.schedule import MaintenanceScheduler
from semrouter_memory.maintenance.sweep import Sweeper
from semrouter_memory.model import Scope, SessionKey, StrategyName
from semrouter_memory.ports import ChatModel
from semrouter_memory.recall.conversation import StoredHistory
from semrouter_memory.recall.documents import DocumentSearch
from semrouter_memory.recall.keywords import KeywordExtractor, KeywordSearch
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.recaller import Recaller, StrategyPair
from semrouter_memory.recall.rewrite import QueryRewriter, RewritingSearch
from semrouter_memory.recall.strategy import MemorySource, Strategy
from semrouter_memory.recall.vector_search import HybridSearch, SemanticSearch, VectorSearch
from semrouter_memory.retain.failures import RetainParts
from semrouter_memory.retain.pipeline import Retainer
from semrouter_memory.retain.reconciling.llm_adjudicator import LlmAdjudicator
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter
from semrouter_memory.retain.redact import without_secrets
from semrouter_memory.transport.request_phase import RequestPhase


def deletion_service(adapters: Adapters) -> DeletionService:
    return DeletionService(adapters, documents=adapters.documents)


def knowledge_service(config: KnowledgeConfig, adapters: Adapters) -> KnowledgeService:
    assert adapters.documents is not None
    # Without the owners' indexes: these are of memories.
    documents = Backends(
        store=adapters.documents,
        writer=adapters.documents,
        embedder=adapters.embedder,
        turn_log=adapters.turn_log,
        state=adapters.state,
        locks=adapters.locks,
        clock=adapters.clock,
        observer=adapters.observer,
        priority=adapters.priority,
    )
    return KnowledgeService(documents, deletion=DeletionService(documents), config=config)


def maintenance(
    memory: MemoryConfig,
    adapters: Adapters,
    deletion: DeletionService,
    models: ExternalModels,
    journal: RecallJournal,
) -> MaintenanceScheduler:
    config = memory.ageing
    return MaintenanceScheduler(
        adapters,
        sweeper=Sweeper(adapters, collection=adapters.store, deletion=deletion, config=config),
        consolidator=_consolidator(config, adapters, models) if config.consolidate == "on" else None,
        journal=journal,
        deletion=deletion,
        config=config,
        insights=_insight_writer(memory, adapters, models.reflecting),
    )


def _insight_writer(config: MemoryConfig, adapters: Adapters, model: ChatModel | None) -> InsightWriter | None:
    if model is None or config.maintenance.reflect == "off":
        return None
    return InsightWriter(
        adapters,
        chat_model=model,
        config=config.maintenance,
        token_budget=config.reflection.token_budget,
    )


def _consolidator(config: AgeingConfig, adapters: Adapters, models: ExternalModels) -> Consolidator:
    return Consolidator(adapters, chat_model=models.of_role("memory_extraction"), config=config)


def reconciling_writer(
    config: AgeingConfig,
    adapters: Adapters,
    models: ExternalModels,
    *,
    written: Callable[[Scope], object] | None = None,
) -> ReconcilingWriter:
    adjudicator = models.of_role("memory_reconcile")
    return ReconcilingWriter(
        adapters,
        ttl_days=config.ttl_days,
        adjudicator=LlmAdjudicator(adjudicator) if adjudicator else None,
        written=written,
    )


def retainer(
    config: MemoryConfig,
    adapters: Adapters,
    models: ExternalModels,
    *,
    wake: Callable[[SessionKey], object],
    written: Callable[[Scope], object] | None = None,
) -> Retainer:
    extraction = models.of_role("memory_extraction")
    return Retainer(
        RetainParts(
            backends=adapters,
            writer=reconciling_writer(config.ageing, adapters, models, written=written),
            chat_model=extraction,
            config=config.retain,
            batch_size=config.extraction_batch_size,
            states=_states(config.compression, adapters, extraction) if config.compression.enabled else None,
        ),
        wake=wake,
    )


def vector_search(config: RecallConfig, adapters: Adapters, *, vectors: QueryVectors | None = None) -> VectorSearch:
    """The search by meaning that recall's strategy takes, or that stands in for it: keywords measure nothing.

    Args:
        vectors: of the queries, where several searches share them.
    """
    search = SemanticSearch if config.strategy == "semantic" else HybridSearch
    return search(source=_source(adapters), embedder=adapters.embedder, config=config, vectors=vectors)


def in_words(
    config: RecallConfig, adapters: Adapters, deletion: DeletionService, search: VectorSearch | None = None
) -> InWords:
    """What obeys the users' orders; it needs the relevance that is calibrated, whatever recall's strategy is."""
    if not isinstance(search, HybridSearch):
        search = HybridSearch(source=_source(adapters), embedder=adapters.embedder, config=config)
    return InWords(
        search=search,
        deletion=deletion,
        turn_log=adapters.turn_log,
        observer=adapters.observer,
        clock=adapters.clock,
        config=config,
    )


def recall_journal(config: RecallConfig, adapters: Adapters) -> RecallJournal:
    return RecallJournal(
        state=adapters.state,
        turn_log=adapters.turn_log,
        clock=adapters.clock,
        receipt_ttl=timedelta(days=config.receipt_days),
    )


def request_phase(
    config: MemoryConfig,
    adapters: Adapters,
    models: ExternalModels,
    search: VectorSearch | None = None,
    *,
    journal: RecallJournal | None = None,
    steers: InWords | None = None,
) -> RequestPhase:
    """Recall, and compression at the same time.

    Args:
        search: the search of these adapters, where others use it too.
    """
    rewriting, recall = models.of_role("memory_rewrite"), config.recall
    search = search or vector_search(recall, adapters)
    configured = _strategies(recall, adapters, rewriting, search)
    recaller = Recaller(
        strategy=configured.own,
        embedder=adapters.embedder,
        turn_log=adapters.turn_log,
        observer=adapters.observer,
        clock=adapters.clock,
        config=recall,
        plain=configured.others,
        named={name: _named(name, recall, adapters, rewriting, search) for name in get_args(StrategyName)},
        documents=_document_search(config.knowledge, adapters, search.vectors),
    )
    return RequestPhase(
        recaller=recaller,
        history=StoredHistory(adapters.turn_log, recall, always=rewriting is not None),
        observer=adapters.observer,
        config=recall,
        priority=adapters.priority,
        compressor=_compressor(config.compression, adapters) if config.compression.enabled else None,
        journal=journal,
        steers=steers,
    )


def _document_search(config: KnowledgeConfig, adapters: Adapters, vectors: QueryVectors) -> DocumentSearch | None:
    if adapters.documents is None or not config.limit:
        return None
    return DocumentSearch(reader=adapters.documents, vectors=vectors, clock=adapters.clock, config=config)


def _named(
    name: StrategyName, config: RecallConfig, adapters: Adapters, rewriting: ChatModel | None, search: VectorSearch
) -> StrategyPair:
    """The strategy that a route names. What it needs besides the memories is made when it is first used."""
    named = config.model_copy(update={"strategy": name})
    if name != config.strategy:
        search = vector_search(named, adapters, vectors=search.vectors)
    return _strategies(named, adapters, rewriting, search)


def _strategies(
    config: RecallConfig, adapters: Adapters, rewriting: ChatModel | None, search: VectorSearch
) -> StrategyPair:
    """The configured strategy, and the same without a model."""
    local = config.model_copy(update={"keyword_extraction": "local"})
    return StrategyPair(_strategy(config, adapters, rewriting, search), others=_strategy(local, adapters, None, search))


def _strategy(config: RecallConfig, adapters: Adapters, rewriting: ChatModel | None, search: VectorSearch) -> Strategy:
    if config.strategy == "keywords":
        return KeywordSearch(_source(adapters), KeywordExtractor(config.keyword_extraction, rewriting), config)
    return RewritingSearch(search, QueryRewriter(rewriting, config.rewrite)) if rewriting else search


def _source(adapters: Adapters) -> MemorySource:
    return MemorySource(reader=adapters.store, indexes=adapters.owner_indexes, clock=adapters.clock)


def _states(config: CompressionConfig, adapters: Adapters, model: ChatModel | None) -> StateBuilder:
    return StateBuilder(
        store=adapters.state,
        turn_log=adapters.turn_log,
        embedder=adapters.embedder,
        chat_model=model,
        observer=adapters.observer,
        config=config,
        redact=without_secrets,
    )


def _compressor(config: CompressionConfig, adapters: Adapters) -> Compressor:
    return Compressor(
        store=adapters.state,
        turn_log=adapters.turn_log,
        embedder=adapters.embedder,
        observer=adapters.observer,
        config=config,
    )
