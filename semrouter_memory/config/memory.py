"""The section `memory`: what is remembered, where, and for how long."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from semrouter_memory.config.section import BARE_ON, FilePath, HeaderName, HostAndPort, Percent, Secret, Section, Switch
from semrouter_memory.config.service import MaintenanceConfig, ReflectionConfig
from semrouter_memory.model import MemoryType, OwnerKind, Position, RenderStyle, StrategyName


class MilvusConfig(Section):
    """Where memories live. `uri` wins over `address`; with neither, Milvus Lite in the data directory."""

    address: HostAndPort | None = Field(None, description="host:port of a Milvus server")
    uri: str | None = Field(None, description="a file (Milvus Lite), http(s)://host:port, or unix:path")
    collection: str = Field("agentic_memory", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="created on first use")
    dimension: int = Field(384, ge=1, le=32768, description="must equal memory.embedding.dimension")
    token: Secret | None = Field(None, description="user:password or API key; environment only")
    token_file: FilePath | None = Field(None, description="file that holds the token")
    timeout_ms: int = Field(10_000, ge=1, description="timeout of background reads and writes")
    reconnect_seconds: float = Field(5.0, gt=0, description="pause between attempts to connect to the store")


class EmbeddingConfig(Section):
    """The embedding model. Another model needs other settings, not other code."""

    model: str = Field("all-MiniLM-L6-v2", description="name of the profile; part of the collection's fingerprint")
    dimension: int = Field(384, ge=1, description="dimension of the model's vectors")
    path: FilePath | None = Field(
        None,
        description="directory with model.onnx (or onnx/model.onnx) and tokenizer.json; default <data_dir>/models/<model>",
    )
    pooling: Literal["mean", "cls"] = Field("mean", description="how token vectors are pooled, as in its training")
    query_prefix: str = Field("", description="text before each query, as in the model's training")
    passage_prefix: str = Field("", description="text before each memory, as in the model's training")
    max_tokens: int = Field(
        256,
        ge=8,
        description="tokens that the model reads of a text, special ones included; longer memories are searched by their passages, longer queries are cut",
    )
    threads: int = Field(1, ge=1, description="inference threads; 1 is the fastest for short queries")


class IdentityConfig(Section):
    """Who the user is. A request without an identity has no memory."""

    user_header: HeaderName = Field("x-authz-user-id", description="user's id, set by an authenticating filter")
    jwt_namespace: str = Field(
        "envoy.filters.http.jwt_authn", description="metadata_context namespace that holds verified JWT payloads"
    )
    jwt_claim: str | None = Field(None, description="claim that names the user, for example sub; unset: not used")
    organisation_header: HeaderName = Field(
        "x-memory-org", description="id of the user's organisation, set by a filter; its memories are recalled as well"
    )
    organisation_claim: str | None = Field(None, description="claim that names the organisation; unset: not used")
    organisation_admin_header: HeaderName = Field(
        "x-memory-org-admin",
        description="id of the organisation that the user administers, set by a filter: allows ?owner=org:<id> at the management API",
    )
    agent_header: HeaderName = Field(
        "x-memory-agent", description="id of the agent that asks, set by a filter; its memories are recalled as well"
    )
    agent_claim: str | None = Field(None, description="claim that names the agent; unset: not used")
    trust_body: bool = Field(default=False, description="development only: take memory_context.user_id for the user")
    session_header: HeaderName = Field("x-session-id", description="names the session; without it the transcript does")
    session_end_header: HeaderName = Field(
        "x-session-end",
        description="header that ends the session with this turn, if its value is in memory.signals.truthy",
    )
    opt_out_headers: tuple[HeaderName, ...] = Field(
        ("x-memory-opt-out",),
        description="headers that switch recall and storing off; every value but false, 0, no and off counts",
    )
    max_id_chars: int = Field(256, ge=1, le=512, description="a longer id disables memory for the request")

    @property
    def other_headers(self) -> tuple[str, ...]:
        """Those that name an organisation or an agent."""
        return self.organisation_header, self.organisation_admin_header, self.agent_header


class SignalsConfig(Section):
    """Headers set by upstream classifiers."""

    fact_header: HeaderName = Field("x-vsr-fact-check-needed", description="marks a general-knowledge question")
    tool_header: HeaderName = Field("x-vsr-requires-tool", description="marks a request that a tool answers")
    truthy: tuple[Annotated[str, AfterValidator(str.lower)], ...] = Field(
        ("true", "1", "yes", "on", "needed", "required"), description="header values that mean yes"
    )


class ShareConfig(Section):
    """What may be injected of the memories of an owner other than the user. A request may lower both."""

    limit: int = Field(3, ge=0, description="memories injected at most; 0: none")
    budget_share: float = Field(0.4, ge=0, le=1, description="part of token_budget that they may take")


class RecallConfig(Section):
    """The request phase."""

    deadline_ms: int = Field(
        50,
        ge=1,
        description="deadline of recall without an external model, after which the request passes without memory; waiting for other requests' embeddings does not count",
    )
    rewrite_deadline_ms: int = Field(400, ge=1, description="additional time for the memory_rewrite model")
    strategy: StrategyName = Field(
        "hybrid",
        description="hybrid: calibrated relevance of meaning and words; semantic: the cosine alone; keywords: all of the"
        " message's keywords must occur",
    )
    keyword_extraction: Literal["local", "llm"] = Field(
        "local",
        description="what extracts the keywords of strategy keywords: rules (local) or the memory_rewrite model (llm)",
    )
    max_keyword_memories: int = Field(
        20, ge=1, description="bound on the memories that strategy keywords injects; token_budget applies as well"
    )
    keyword_order: Literal["newest", "insertion"] = Field(
        "newest",
        description="order in which strategy keywords injects, up to its bounds: newest first, or oldest first, as stored",
    )
    rewrite: Literal["vague", "always", "hyde"] = Field(
        "vague",
        description="what the memory_rewrite model is asked for: vague, always: a self-contained query, for vague ones or"
        " all; hyde: a likely answer, for questions that found nothing relevant enough",
    )
    token_budget: int = Field(512, ge=16, description="bound on the injected block, in the embedding model's tokens")
    pinned_tokens: int = Field(
        128,
        ge=0,
        description="part of token_budget for memories that are injected whatever is asked: what the user pinned, how to answer, the user's name; 0: none",
    )
    receipt_days: float = Field(
        30,
        ge=0,
        description="how long a user's last 50 recalls (time, reason, ids, scores; no text) are stored for `GET /v1/memory/receipts`; 0: none are",
    )
    forget_threshold: float = Field(
        0.85,
        ge=0.5,
        le=1,
        description='probability from which on a memory is taken for what an order such as "forget what I told you about ..." means, and deleted; 1: none ever is',
    )
    forget_deadline_ms: int = Field(
        300,
        ge=1,
        description="additional time for a message that orders to forget; later than that nothing is looked for, and what is deleted already is deleted whole behind the request",
    )
    organisation: ShareConfig = Field(default_factory=ShareConfig)
    agent: ShareConfig = Field(default_factory=ShareConfig)
    max_limit: int = Field(50, ge=1, description="bound on retrieval_limit, and on memories where all is asked for")
    render: RenderStyle = Field("markdown", description="format of the injected block")
    position: Position = Field(
        Position.SYSTEM,
        description="where the block is inserted: in the system message, or at the end of the last user message",
    )
    max_query_chars: int = Field(4000, ge=16, description="of longer queries the beginning and the end are read")

    @property
    def shares(self) -> dict[OwnerKind, ShareConfig]:
        """Of each kind of owners besides users."""
        return {OwnerKind.ORGANISATION: self.organisation, OwnerKind.AGENT: self.agent}


class OwnerIndexConfig(Section):
    """In-memory indexes of users' memories."""

    enabled: bool = Field(default=True, description="off: every search queries the store")
    max_mb: int = Field(
        256, ge=1, description="bound on the memory of all cached indexes; the least recently used one is evicted first"
    )
    max_owner_memories: int = Field(
        20_000,
        ge=1,
        description="a user with more memories, or an index above a quarter of max_mb, is not cached; the store is searched",
    )
    max_age_seconds: float = Field(
        300,
        gt=0,
        description="maximum age of a cached index; bounds staleness if another process writes to the Milvus server without a notification (to Milvus Lite none does)",
    )


class RetainConfig(Section):
    """After the answer."""

    quotes: bool = Field(
        default=True,
        description="store what users say of themselves at once, in their own words, without an external model",
    )
    context_turns: int = Field(5, ge=0, description="earlier turns that the memory_extraction model gets as context")
    session_idle_seconds: float = Field(300, gt=0, description="idle time after which a session ends")
    session_memory_hours: float = Field(
        24,
        gt=0,
        description="hours after which a memory that holds within a session expires, if the session has not ended",
    )
    turn_retention_days: float = Field(7, gt=0, description="days after which the text of finished turns is deleted")
    workers: int = Field(
        2,
        ge=1,
        description="sessions that are extracted concurrently; with a memory_extraction model, as many again are read for quotes meanwhile",
    )
    max_queue: int = Field(1000, ge=1, description="sessions queued in the process; further ones wait in the turn log")
    tick_seconds: float = Field(1.0, gt=0, description="interval at which sessions are checked for work")
    lease_seconds: float = Field(120, gt=0, description="lease on a session; then another worker may take it over")
    max_attempts: int = Field(8, ge=1, description="attempts after which a turn is dead-lettered")
    retry_seconds: float = Field(5.0, gt=0, description="first back-off after a failure; doubled with each further one")
    retry_max_seconds: float = Field(900, gt=0, description="upper bound on the back-off")
    max_turn_chars: int = Field(64_000, ge=256, description="bound on a message in the turn log; longer ones are cut")
    episodes: bool = Field(default=True, description="write one episodic memory at the end of a session")
    agent_lessons: bool = Field(
        default=False,
        description="on: at the end of a session, store what an agent learned in its run for the agent that the request names, for all of its users; nothing that users say, and nothing about a person",
    )
    drift_similarity: Percent = Field(
        0.2,
        description="similarity to the turns before, below which the topic has changed and the memory_extraction model is asked",
    )
    breaker_failures: int = Field(3, ge=1, description="consecutive failures after which a model's circuit opens")
    breaker_seconds: float = Field(30, gt=0, description="first time for which a circuit stays open; then doubled")
    breaker_max_seconds: float = Field(300, gt=0, description="upper bound on that time")


class RedisConfig(Section):
    """Shares the turn log, session state and locks between replicas; unset: SQLite in the data directory."""

    url: str | None = Field(None, description="redis://host:port/db, rediss:// or unix://path; without a password")
    username: str | None = Field(None, description="user name, for servers with access control lists")
    password: Secret | None = Field(None, description="environment only")
    password_file: FilePath | None = Field(None, description="file that holds the password")
    prefix: str = Field("srm", pattern=r"^[A-Za-z0-9_-]+$", description="prefix of every key; one per installation")
    timeout_ms: int = Field(2_000, ge=1, description="timeout of one call")
    retry_seconds: float = Field(1.0, gt=0, description="first pause before an unavailable server is tried again")
    lock_seconds: float = Field(30, gt=1, description="lease on an owner's lock; then the lock is free")


class AgeingConfig(Section):
    """Expiry, quotas, pruning, consolidation and compaction."""

    ttl_days: dict[MemoryType, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="days since the user last stated it, by type, after which a memory expires; a type that is not named never expires",
    )
    max_memories: int = Field(
        10_000,
        ge=0,
        description="quota of one user, history included; history is deleted first, then the lowest-scored memories; 0: no bound",
    )
    max_bytes: int = Field(
        0,
        ge=0,
        description="quota on the bytes of text of one user's memories, enforced like max_memories; 0: no bound",
    )
    sweep_seconds: float = Field(3600, gt=0, description="pause between sweeps; each sweep reads all memories")
    prune: Annotated[Literal["off", "dry-run", "on"], BARE_ON] = Field(
        "off", description="delete what scores low; dry-run only reports"
    )
    prune_below: float = Field(0.1, ge=0, le=1, description="score below which a memory may be pruned")
    prune_after_days: float = Field(
        180,
        gt=0,
        description="days without use or confirmation before a memory may be pruned; uses must have been counted for that time",
    )
    history_days: float = Field(0, ge=0, description="days after which superseded memories are deleted; 0: never")
    consolidate: Switch = Field(
        "off", description="merge related memories, the originals become history; may ask the memory_extraction model"
    )
    consolidate_at: int = Field(200, ge=2, description="a user's active memories from which consolidation starts")
    usage_seconds: float = Field(
        1, gt=0, description="interval of writing access counts and receipts; a kill loses the last ones"
    )
    half_life_days: float = Field(90, gt=0, description="age at which a memory's recency has halved, in its score")
    compact_hours: float = Field(24, ge=0, description="pause between compactions of the files; 0: only on demand")


class CompressionConfig(Section):
    """Replaces the beginning of a long conversation with a state, and old results of tools with a line. Off by default."""

    enabled: bool = Field(default=False, description="on: long conversations are shortened")
    min_turns: int = Field(20, ge=6, description="turns of a conversation from which on it is shortened")
    raw_turns: int = Field(5, ge=1, description="last turns that are sent unchanged")
    every_turns: int = Field(10, ge=1, description="turns after which the memory_extraction model reorders the state")
    state_tokens: int = Field(250, ge=50, description="bound on the state, in the embedding model's tokens")
    tool_result_tokens: int = Field(
        0,
        ge=0,
        description="tokens (four bytes each) of the tools' results in a request from which on old results are replaced by one line; 0: never",
    )
    raw_tool_results: int = Field(3, ge=1, description="last tool results that are sent unchanged")
    state_ttl_hours: float = Field(168, gt=0, description="hours after which the state of an idle session is deleted")


class KnowledgeConfig(Section):
    """Documents of organisations and users. An organisation's are searched for requests that carry it, a user's for their own."""

    passage_tokens: int = Field(
        256, ge=32, description="tokens of a passage with its headings; no more than the embedding model reads"
    )
    overlap_tokens: int = Field(
        32, ge=0, description="tokens that a passage repeats of the one before, where a paragraph is cut"
    )
    max_passages: int = Field(
        3_000, ge=1, le=3_000, description="bound on the passages of a document; a larger one is refused"
    )
    user_documents: bool = Field(
        default=False, description="on: users add documents of their own, which their requests search"
    )
    limit: int = Field(3, ge=0, description="bound on the passages in a request; 0: documents are not searched")
    token_budget: int = Field(
        800, ge=0, description="bound on the passages in a request, in the embedding model's tokens"
    )


class MemoryConfig(Section):
    enabled: bool = Field(
        default=True,
        description="off: requests pass; only memory_config and memory_context are removed",
    )
    auto_store: bool = Field(default=True, description="off: memories are recalled, nothing is stored")
    data_dir: FilePath = Field(
        Path("~/.local/share/semrouter-memory"), description="turn log, Milvus Lite, model; readable by its owner only"
    )
    milvus: MilvusConfig = MilvusConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    default_retrieval_limit: int = Field(6, ge=0, description="default of retrieval_limit: bound on injected memories")
    default_similarity_threshold: Percent = Field(0.6, description="default of similarity_threshold: least relevance")
    extraction_batch_size: int = Field(10, ge=1, description="turns after which the memory_extraction model is asked")
    identity: IdentityConfig = IdentityConfig()
    signals: SignalsConfig = SignalsConfig()
    recall: RecallConfig = RecallConfig()
    owner_index: OwnerIndexConfig = OwnerIndexConfig()
    retain: RetainConfig = RetainConfig()
    redis: RedisConfig = RedisConfig()
    ageing: AgeingConfig = AgeingConfig()
    compression: CompressionConfig = CompressionConfig()
    knowledge: KnowledgeConfig = KnowledgeConfig()
    reflection: ReflectionConfig = ReflectionConfig()
    maintenance: MaintenanceConfig = MaintenanceConfig()

    @model_validator(mode="after")
    def _dimensions_agree(self) -> "MemoryConfig":
        if self.milvus.dimension != self.embedding.dimension:
            raise ValueError(
                f"memory.milvus.dimension is {self.milvus.dimension} but memory.embedding.dimension is"
                f" {self.embedding.dimension}; set both to what the model gives"
            )
        return self

    @property
    def directory(self) -> Path:
        """The data directory with `~` resolved."""
        return self.data_dir.expanduser()

    @property
    def model_directory(self) -> Path:
        return (self.embedding.path or self.directory / "models" / self.embedding.model).expanduser()
