"""The pipelines of an installation, made of its adapters, its models and their sections of the configuration."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import get_args

from semrouter_memory.app.adapters import Adapters, ExternalModels
from semrouter_memory.compress.builder import StateBuilder
from semrouter_memory.compress.pipeline import Compressor
from semrouter_memory.config import KnowledgeConfig, MemoryConfig, RecallConfig
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
from semrouter_memory.recall.keywords import KeywordSearch
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.recaller import Recaller, StrategyPair
from semrouter_memory.recall.rewrite import RewritingSearch
from semrouter_memory.recall.strategy import MemorySource, Strategy
from semrouter_memory.recall.vector_search import HybridSearch, SemanticSearch, VectorSearch
from semrouter_memory.retain.failures import RetainParts
from semrouter_memory.retain.grounding import telling
from semrouter_memory.retain.pipeline import Retainer
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter
from semrouter_memory.retain.redact import without_secrets
from semrouter_memory.transport.request_phase import RequestPhase


def knowledge_service(config: KnowledgeConfig, adapters: Adapters) -> KnowledgeService:
    assert adapters.documents is not None
    documents = adapters.with_store(adapters.documents, adapters.documents)
    return KnowledgeService(documents, deletion=DeletionService(documents), config=config)


@dataclass(frozen=True)
class Pipelines:
    """Those of one installation. What several of them share is made once, when the first needs it."""

    memory: MemoryConfig
    adapters: Adapters
    models: ExternalModels

    # -- writing, in the background ------------------------------------------------------------------------------------

    @cached_property
    def deletion(self) -> DeletionService:
        return DeletionService(self.adapters, documents=self.adapters.documents)

    @cached_property
    def knowledge(self) -> KnowledgeService:
        return knowledge_service(self.memory.knowledge, self.adapters)

    @cached_property
    def journal(self) -> RecallJournal:
        return RecallJournal(
            state=self.adapters.state,
            turn_log=self.adapters.turn_log,
            clock=self.adapters.clock,
            receipt_ttl=timedelta(days=self.memory.recall.receipt_days),
        )

    @cached_property
    def maintenance(self) -> MaintenanceScheduler:
        config, extraction = self.memory.ageing, self.models.of_role("memory_extraction")
        merges = config.consolidate == "on"
        return MaintenanceScheduler(
            self.adapters,
            sweeper=Sweeper(self.adapters, deletion=self.deletion, config=config),
            consolidator=Consolidator(self.adapters, chat_model=extraction, config=config) if merges else None,
            journal=self.journal,
            deletion=self.deletion,
            config=config,
            insights=self._insights(),
            finish_removals=self.knowledge.finish_removals if self.adapters.documents is not None else None,
        )

    def _insights(self) -> InsightWriter | None:
        config, model = self.memory.maintenance, self.models.reflecting
        if model is None or config.reflect == "off":
            return None
        budget = self.memory.reflection.token_budget
        return InsightWriter(self.adapters, chat_model=model, config=config, token_budget=budget)

    def reconciling_writer(self, *, written: Callable[[Scope], object] | None = None) -> ReconcilingWriter:
        return ReconcilingWriter(
            self.adapters,
            ttl_days=self.memory.ageing.ttl_days,
            adjudicator=self.models.of_role("memory_reconcile"),
            written=written,
        )

    def retainer(
        self, *, wake: Callable[[SessionKey], object], written: Callable[[Scope], object] | None = None
    ) -> Retainer:
        return Retainer(
            RetainParts(
                backends=self.adapters,
                writer=self.reconciling_writer(written=written),
                chat_model=self.models.of_role("memory_extraction"),
                config=self.memory.retain,
                batch_size=self.memory.extraction_batch_size,
                states=self._states() if self.memory.compression.enabled else None,
            ),
            wake=wake,
        )

    def _states(self) -> StateBuilder:
        return StateBuilder(
            self.adapters,
            chat_model=self.models.of_role("memory_extraction"),
            config=self.memory.compression,
            redact=without_secrets,
            telling=telling,
        )

    # -- requests ------------------------------------------------------------------------------------------------------

    @cached_property
    def search(self) -> VectorSearch:
        """The search by meaning that recall's strategy takes, or that stands in for it: keywords measure nothing."""
        return self._vector_search(self.memory.recall)

    @cached_property
    def steers(self) -> InWords:
        """What obeys the users' orders; it needs the relevance that is calibrated, whatever recall's strategy is."""
        config, adapters, search = self.memory.recall, self.adapters, self.search
        if not isinstance(search, HybridSearch):
            search = HybridSearch(source=self._source, vectors=self._vectors, config=config)
        return InWords(
            search=search,
            deletion=self.deletion,
            turn_log=adapters.turn_log,
            observer=adapters.observer,
            clock=adapters.clock,
            config=config,
        )

    def request_phase(self, *, journal: RecallJournal | None = None, steers: InWords | None = None) -> RequestPhase:
        """Recall, and compression at the same time."""
        adapters, recall = self.adapters, self.memory.recall
        recaller = Recaller(
            strategies={name: self._strategies(name) for name in get_args(StrategyName)},
            embedder=adapters.embedder,
            turn_log=adapters.turn_log,
            observer=adapters.observer,
            clock=adapters.clock,
            config=recall,
            documents=self._document_search(),
        )
        rewrites = self.models.of_role("memory_rewrite") is not None
        return RequestPhase(
            recaller=recaller,
            history=StoredHistory(adapters.turn_log, recall, always=rewrites),
            observer=adapters.observer,
            config=recall,
            priority=adapters.priority,
            compressor=Compressor(adapters, self.memory.compression) if self.memory.compression.enabled else None,
            journal=journal,
            steers=steers,
        )

    @property
    def _source(self) -> MemorySource:
        adapters = self.adapters
        return MemorySource(reader=adapters.store, indexes=adapters.owner_indexes, clock=adapters.clock)

    @cached_property
    def _vectors(self) -> QueryVectors:
        """The vectors of queries, which all searches of a request share."""
        return QueryVectors(self.adapters.embedder)

    def _vector_search(self, config: RecallConfig) -> VectorSearch:
        search = SemanticSearch if config.strategy == "semantic" else HybridSearch
        return search(source=self._source, vectors=self._vectors, config=config)

    def _document_search(self) -> DocumentSearch | None:
        documents, config = self.adapters.documents, self.memory.knowledge
        if documents is None or not config.limit:
            return None
        return DocumentSearch(reader=documents, vectors=self._vectors, clock=self.adapters.clock, config=config)

    def _strategies(self, name: StrategyName) -> StrategyPair:
        """The strategy of that name, and the same without a model. What it needs besides the memories is made when it is first used."""
        config = self.memory.recall.model_copy(update={"strategy": name})
        is_configured = name == self.memory.recall.strategy
        search = self.search if is_configured else self._vector_search(config)
        model = self.models.of_role("memory_rewrite")
        return StrategyPair(self._strategy(config, model, search), others=self._strategy(config, None, search))

    def _strategy(self, config: RecallConfig, rewriting: ChatModel | None, search: VectorSearch) -> Strategy:
        if config.strategy == "keywords":
            return KeywordSearch(self._source, rewriting if config.keyword_extraction == "llm" else None, config)
        return RewritingSearch(search, rewriting, config.rewrite) if rewriting else search
