"""The section `memory`: what is remembered, where, and for how long."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from semrouter_memory.config.section import HeaderName, HostAndPort, Percent, Section
from semrouter_memory.model import MemoryType, Position


class MilvusConfig(Section):
    """Where memories live. `uri` wins over `address`; with neither, Milvus Lite in the data directory."""

    address: HostAndPort | None = Field(None, description="host:port of a Milvus server")
    uri: str | None = Field(None, description="a file (Milvus Lite), http(s)://host:port, or unix:path")
    collection: str = Field("agentic_memory", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="made on first use")
    dimension: int = Field(384, ge=1, le=32768, description="must be the embedding's")
    token: SecretStr | None = Field(None, description="user:password or API key; environment only")
    token_file: Path | None = Field(None, description="file that holds the token")
    timeout_ms: int = Field(10_000, ge=1, description="bound on background reads and writes")
    reconnect_seconds: float = Field(5.0, gt=0, description="pause between attempts to reach the store")


class EmbeddingConfig(Section):
    """The embedding profile. Another model is another profile here, not other code."""

    model: str = Field("all-MiniLM-L6-v2", description="name of the profile; part of the collection's fingerprint")
    dimension: int = Field(384, ge=1, description="what the model gives")
    path: Path | None = Field(
        None,
        description="directory with model.onnx (or onnx/model.onnx) and tokenizer.json; default <data_dir>/models/<model>",
    )
    pooling: Literal["mean", "cls"] = Field(
        "mean", description="how token vectors become one, as the model was trained"
    )
    query_prefix: str = Field("", description="put before queries, as the model was trained")
    passage_prefix: str = Field("", description="put before memories, as the model was trained")
    max_tokens: int = Field(
        256, ge=8, description="what the model reads of a text; longer memories are refused, longer queries are cut"
    )
    threads: int = Field(1, ge=1, description="inference threads; 1 is the fastest for short queries")


class IdentityConfig(Section):
    """Who the user is. No identity, no memory."""

    user_header: HeaderName = Field("x-authz-user-id", description="set by an authenticating filter")
    jwt_namespace: str = Field(
        "envoy.filters.http.jwt_authn", description="metadata_context namespace that holds verified JWT payloads"
    )
    jwt_claim: str | None = Field(None, description="claim that names the user, for example sub; unset: not used")
    trust_body: bool = Field(default=False, description="development only: take memory_context.user_id for the user")
    session_header: HeaderName = Field("x-session-id", description="names a session; without it the transcript does")
    session_end_header: HeaderName = Field("x-session-end", description="truthy: the session ends with this turn")
    opt_out_headers: tuple[HeaderName, ...] = Field(
        ("x-memory-opt-out",), description="any of them set: neither recalled nor stored"
    )
    max_id_chars: int = Field(256, ge=1, le=512, description="longer ids disable memory for the request")


class SignalsConfig(Section):
    """Headers set by upstream classifiers."""

    fact_header: HeaderName = Field("x-vsr-fact-check-needed", description="a general-knowledge question")
    tool_header: HeaderName = Field("x-vsr-requires-tool", description="a tool will give the answer")
    truthy: tuple[Annotated[str, AfterValidator(str.lower)], ...] = Field(
        ("true", "1", "yes", "on", "needed", "required"), description="values that mean yes"
    )


class RecallConfig(Section):
    """The request phase."""

    deadline_ms: int = Field(
        50,
        ge=1,
        description="recall without a model answers within this, or not at all; waiting for other requests' embeddings does not count",
    )
    rewrite_deadline_ms: int = Field(400, ge=1, description="extra time for memory_rewrite, when it is configured")
    strategy: Literal["hybrid", "semantic", "keywords"] = Field(
        "hybrid",
        description="hybrid: calibrated relevance of meaning and words; semantic: the cosine alone; keywords: all of the"
        " message's keywords must occur",
    )
    keyword_extraction: Literal["local", "llm"] = Field(
        "local", description="who finds the keywords of strategy keywords: rules, or the memory_rewrite model"
    )
    max_keyword_memories: int = Field(
        20, ge=1, description="bound on what strategy keywords injects; token_budget holds as well"
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
    standing_tokens: int = Field(
        64, ge=0, description="of it, bound on memories given unasked: how to answer, the user's name; 0: none"
    )
    max_limit: int = Field(50, ge=1, description="bound on retrieval_limit of a request")
    render: Literal["markdown", "xml"] = Field("markdown", description="how memories are written into the request")
    position: Position = Field(Position.SYSTEM, description="where: the system message, or the last user message's end")
    max_query_chars: int = Field(4000, ge=16, description="longer queries are cut before they are embedded")


class WorkingSetConfig(Section):
    """The memories of recently active users, kept in the process."""

    enabled: bool = Field(default=True, description="off: every search asks the store")
    max_mb: int = Field(256, ge=1, description="bound on all users' memories in the process; the longest unused leave")
    max_owner_memories: int = Field(
        20_000, ge=1, description="users with more (or with more than a quarter of max_mb) are searched in the store"
    )
    max_age_seconds: float = Field(
        300, gt=0, description="read anew after so long: what others wrote without telling shows by then"
    )
    redis_ttl_seconds: float = Field(
        300, ge=0, description="how long replicas can take a user's memories from Redis, where there is one; 0: never"
    )


class RetainConfig(Section):
    """After the answer."""

    quotes: bool = Field(
        default=True,
        description="keep at once, without a model, what users tell, in their own words; former name: rules",
    )
    context_turns: int = Field(5, ge=0, description="earlier turns given to the model as context")
    session_idle_seconds: float = Field(300, gt=0, description="a session is at its end when idle for so long")
    turn_retention_days: float = Field(7, gt=0, description="how long the text of finished turns is kept")
    workers: int = Field(2, ge=1, description="sessions that are extracted at a time")
    max_queue: int = Field(1000, ge=1, description="sessions waiting in the process; more wait in the turn log")
    tick_seconds: float = Field(1.0, gt=0, description="how often triggers are looked at")
    lease_seconds: float = Field(120, gt=0, description="how long a worker that died keeps others from its session")
    max_attempts: int = Field(8, ge=1, description="then a turn is dead-lettered")
    retry_seconds: float = Field(5.0, gt=0, description="first back-off; doubled at each failure")
    retry_max_seconds: float = Field(900, gt=0, description="longest back-off")
    max_turn_chars: int = Field(64_000, ge=256, description="longer messages are cut in the turn log")
    episodes: bool = Field(default=True, description="sum a session up in one episodic memory at its end")
    drift_similarity: Percent = Field(
        0.2, description="turns less similar than this to the ones before have changed the topic: a model is asked"
    )
    breaker_failures: int = Field(
        3, ge=1, description="failures in a row after which a model is left alone for a while"
    )
    breaker_seconds: float = Field(30, gt=0, description="first pause of a model that is left alone; doubled")
    breaker_max_seconds: float = Field(300, gt=0, description="longest pause of a model that is left alone")

    @model_validator(mode="before")
    @classmethod
    def _former_names(cls, values: object) -> object:
        if isinstance(values, dict) and "rules" in values and "quotes" not in values:
            return {("quotes" if name == "rules" else name): value for name, value in values.items()}
        return values


class RedisConfig(Section):
    """Shares the turn log, session state and locks between replicas; unset: SQLite in the data directory."""

    url: str | None = Field(None, description="redis://host:port/db, rediss:// or unix://path; without a password")
    username: str | None = Field(None, description="for servers with access control lists")
    password: SecretStr | None = Field(None, description="environment only")
    password_file: Path | None = Field(None, description="file that holds the password")
    prefix: str = Field("srm", pattern=r"^[A-Za-z0-9_-]+$", description="begins every key; one per installation")
    timeout_ms: int = Field(2_000, ge=1, description="bound on one call")
    retry_seconds: float = Field(1.0, gt=0, description="first pause before a server that is away is asked again")
    lock_seconds: float = Field(30, gt=1, description="how long a process that died keeps an owner's lock")


class AgeingConfig(Section):
    """How memories leave. Off or conservative by default: nothing is lost that nobody asked to lose."""

    ttl_days: dict[MemoryType, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="type -> days after it was last said that a memory expires; else never"
    )
    max_memories: int = Field(
        10_000,
        ge=0,
        description="of one user, history included, which leaves first, then the lowest-scored; 0: no bound",
    )
    max_bytes: int = Field(0, ge=0, description="bytes of text of one user's memories, as max_memories; 0: no bound")
    sweep_seconds: float = Field(3600, gt=0, description="pause between sweeps, each reads all memories")
    prune: Literal["off", "dry-run", "on"] = Field(
        "off", description="delete what scores low for long, for good; dry-run reports only"
    )
    prune_below: float = Field(0.1, ge=0, le=1, description="score below which a memory is low")
    prune_after_days: float = Field(180, gt=0, description="so long unused, unconfirmed, and uses counted")
    history_days: float = Field(0, ge=0, description="superseded memories are deleted for good so long after; 0: kept")
    consolidate: Literal["off", "on"] = Field(
        "off", description="merge related memories, the originals as history; may ask memory_extraction"
    )
    consolidate_at: int = Field(200, ge=2, description="active memories of one user from which they are consolidated")
    usage_seconds: float = Field(10, gt=0, description="how often access counts are written; a kill loses the last")
    half_life_days: float = Field(90, gt=0, description="age at which a memory's recency has halved, in its score")
    compact_hours: float = Field(24, ge=0, description="pause between compactions, which rewrite files; 0: on demand")


class CompressionConfig(Section):
    """Replaces the beginning of a long conversation with a structured state. Off by default."""

    enabled: bool = Field(default=False, description="on: long requests are shortened")
    min_turns: int = Field(20, ge=6, description="shorter conversations go up whole")
    raw_turns: int = Field(5, ge=1, description="last turns that always go up as they are")
    every_turns: int = Field(10, ge=1, description="a model is asked for the state every so many turns")
    state_tokens: int = Field(250, ge=50, description="bound on the state, in the embedding model's tokens")
    state_ttl_hours: float = Field(168, gt=0, description="how long an untouched session's state is kept")


class MemoryConfig(Section):
    enabled: bool = Field(default=True, description="off: requests pass untouched, but for our own fields")
    auto_store: bool = Field(default=True, description="off: memories are recalled, nothing new is learned")
    data_dir: Path = Field(
        Path("~/.local/share/semrouter-memory"), description="turn log, Milvus Lite, model; readable by its owner only"
    )
    milvus: MilvusConfig = MilvusConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    default_retrieval_limit: int = Field(5, ge=0, description="memories for one request at most")
    default_similarity_threshold: Percent = Field(0.6, description="a memory's relevance must reach it")
    extraction_batch_size: int = Field(10, ge=1, description="a model is asked every so many turns of a session")
    identity: IdentityConfig = IdentityConfig()
    signals: SignalsConfig = SignalsConfig()
    recall: RecallConfig = RecallConfig()
    working_set: WorkingSetConfig = WorkingSetConfig()
    retain: RetainConfig = RetainConfig()
    redis: RedisConfig = RedisConfig()
    ageing: AgeingConfig = AgeingConfig()
    compression: CompressionConfig = CompressionConfig()

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
