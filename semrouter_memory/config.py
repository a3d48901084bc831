"""The configuration file, as frozen sections. Each component is given its section, never the whole.

Precedence: environment (`SEMROUTER_MEMORY__MEMORY__MILVUS__URI=...`) over the YAML file over the defaults here.
Secrets come only from the environment or from files that the YAML names; a secret written into the YAML is an error.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.model import MemoryType, Position

ENV_PREFIX = "SEMROUTER_MEMORY__"
_ENV_DELIMITER = "__"

HeaderName = Annotated[str, AfterValidator(str.lower), Field(min_length=1)]
Percent = Annotated[float, Field(ge=-1.0, le=1.0)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MilvusConfig(_Section):
    """Where memories live. `uri` wins over `address`; with neither, Milvus Lite in the data directory."""

    address: str | None = Field(None, description="host:port of a Milvus server")
    uri: str | None = Field(None, description="a file (Milvus Lite), http(s)://host:port, or unix:path")
    collection: str = Field("agentic_memory", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="made on first use")
    dimension: int = Field(384, ge=1, le=32768, description="must be the embedding's")
    token: SecretStr | None = Field(None, description="user:password or API key; environment only")
    token_file: Path | None = Field(None, description="file that holds the token")
    timeout_ms: int = Field(10_000, ge=1, description="bound on background reads and writes")
    reconnect_seconds: float = Field(5.0, gt=0, description="pause between attempts to reach the store")


class EmbeddingConfig(_Section):
    """The embedding profile. Another model is another profile here, not other code."""

    model: str = Field("all-MiniLM-L6-v2", description="name of the profile; part of the collection's fingerprint")
    dimension: int = Field(384, ge=1, description="what the model gives")
    path: Path | None = Field(
        None, description="directory with model.onnx and tokenizer.json; default <data_dir>/models/<model>"
    )
    pooling: Literal["mean", "cls"] = Field(
        "mean", description="how token vectors become one, as the model was trained"
    )
    query_prefix: str = Field("", description="put before queries, as the model was trained")
    passage_prefix: str = Field("", description="put before memories, as the model was trained")
    max_tokens: int = Field(256, ge=8, description="longer texts are cut")
    threads: int = Field(1, ge=1, description="inference threads; 1 is the fastest for short queries")


class IdentityConfig(_Section):
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


class SignalsConfig(_Section):
    """Headers set by upstream classifiers."""

    fact_header: HeaderName = Field("x-vsr-fact-check-needed", description="a general-knowledge question")
    tool_header: HeaderName = Field("x-vsr-requires-tool", description="a tool will give the answer")
    truthy: tuple[Annotated[str, AfterValidator(str.lower)], ...] = Field(
        ("true", "1", "yes", "on", "needed", "required"), description="values that mean yes"
    )


class RecallConfig(_Section):
    """The request phase."""

    deadline_ms: int = Field(50, ge=1, description="recall without a model answers within this, or not at all")
    rewrite_deadline_ms: int = Field(400, ge=1, description="extra time for memory_rewrite, when it is configured")
    rewrite: Literal["vague", "always", "hyde"] = Field(
        "vague", description="which queries the memory_rewrite model is asked about, and how"
    )
    token_budget: int = Field(512, ge=16, description="bound on the injected block, in the embedding model's tokens")
    max_limit: int = Field(50, ge=1, description="bound on retrieval_limit of a request")
    render: Literal["markdown", "xml"] = Field("markdown", description="how memories are written into the request")
    position: Position = Field(Position.SYSTEM, description="where: the system message, or the last user message's end")
    max_query_chars: int = Field(4000, ge=16, description="longer queries are cut before they are embedded")


class RetainConfig(_Section):
    """After the answer."""

    rules: bool = Field(default=True, description="extract first-person statements at once, without a model")
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


class RedisConfig(_Section):
    """Shares the turn log, session state and locks between replicas; unset: SQLite in the data directory."""

    url: str | None = Field(None, description="redis://host:port/db, rediss:// or unix://path; without a password")
    username: str | None = Field(None, description="for servers with access control lists")
    password: SecretStr | None = Field(None, description="environment only")
    password_file: Path | None = Field(None, description="file that holds the password")
    prefix: str = Field("srm", pattern=r"^[A-Za-z0-9_-]+$", description="begins every key; one per installation")
    timeout_ms: int = Field(2_000, ge=1, description="bound on one call")
    retry_seconds: float = Field(1.0, gt=0, description="first pause before a server that is away is asked again")
    lock_seconds: float = Field(30, gt=1, description="how long a process that died keeps an owner's lock")


class AgeingConfig(_Section):
    """How memories leave. Off or conservative by default: nothing is lost that nobody asked to lose."""

    ttl_days: dict[MemoryType, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="type -> days after it was last said that a memory expires; else never"
    )
    max_memories: int = Field(
        0, ge=0, description="of one user, history included, which leaves first, then the lowest-scored; 0: no bound"
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


class CompressionConfig(_Section):
    """Replaces the beginning of a long conversation with a structured state. Off by default."""

    enabled: bool = Field(default=False, description="on: long requests are shortened")
    min_turns: int = Field(20, ge=6, description="shorter conversations go up whole")
    raw_turns: int = Field(5, ge=1, description="last turns that always go up as they are")
    every_turns: int = Field(10, ge=1, description="a model is asked for the state every so many turns")
    state_tokens: int = Field(250, ge=50, description="bound on the state, in the embedding model's tokens")
    state_ttl_hours: float = Field(168, gt=0, description="how long an untouched session's state is kept")


class MemoryConfig(_Section):
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


class LlmEndpoint(_Section):
    """Either address and port, or a whole base URL."""

    address: str | None = Field(None, description="host name")
    port: int | None = Field(None, ge=1, le=65535, description="with it: http://address:port/v1")
    base_url: str | None = Field(None, description="for example https://api.example.com/v1; wins over address and port")

    @model_validator(mode="after")
    def _names_a_server(self) -> "LlmEndpoint":
        if self.base_url is None and (self.address is None or self.port is None):
            raise ValueError("needs base_url, or address and port")
        return self

    @property
    def url(self) -> str:
        return self.base_url or f"http://{self.address}:{self.port}/v1"


class ExternalModel(_Section):
    """An OpenAI-compatible chat model that takes over one role."""

    llm_provider: str = Field("vllm", description="for the reader; every server is spoken to in the OpenAI way")
    model_role: Literal["memory_rewrite", "memory_extraction", "memory_reconcile"] = Field(
        description="what it is asked for"
    )
    llm_endpoint: LlmEndpoint
    llm_model_name: str = Field(description="as its server calls it")
    llm_timeout_seconds: float = Field(30, gt=0, description="bound on one call")
    max_tokens: int = Field(500, ge=1, description="bound on one answer")
    temperature: float = Field(0.1, ge=0, le=2, description="low, because facts are wanted")
    api_key_env: str | None = Field(None, description="name of the environment variable that holds the key")
    api_key_file: Path | None = Field(None, description="file that holds the key")

    @property
    def api_key(self) -> str | None:
        """The key from where the file says it is.

        Raises:
            ConfigurationError: the variable is not set, or the file cannot be read.
        """
        if self.api_key_env is None:
            return secret(None, self.api_key_file)
        if self.api_key_env not in os.environ:
            raise ConfigurationError(f"the environment variable {self.api_key_env} (api_key_env) is not set")
        return os.environ[self.api_key_env]


class ServerConfig(_Section):
    """The ext_proc server."""

    listen: str = Field("127.0.0.1:50051", description="host:port, or unix:path")
    max_message_bytes: int = Field(72 * 1024 * 1024, ge=1024, description="above Envoy's body limit of 64 MiB")
    max_body_bytes: int = Field(64 * 1024 * 1024, ge=1024, description="larger bodies pass without memory")
    max_answer_bytes: int = Field(8 * 1024 * 1024, ge=1024, description="longer answers are not remembered")
    max_concurrent_streams: int = Field(16_384, ge=1, description="per connection; two per open answer")
    drain_seconds: float = Field(10, ge=0, description="how long running exchanges may end at shutdown")
    secret_header: HeaderName = Field("x-memory-secret", description="gRPC metadata and HTTP header of the secret")
    shared_secret: SecretStr | None = Field(None, description="what Envoy sends in secret_header; environment only")
    shared_secret_file: Path | None = Field(None, description="needed where others than Envoy can connect")


class ManagementConfig(_Section):
    """The HTTP ports: the users' API behind Envoy, and the operator's."""

    listen: str = Field("127.0.0.1:8081", description="host:port or unix:path; Envoy routes /v1/memory here")
    operator_listen: str | None = Field("127.0.0.1:9090", description="/healthz /readyz /metrics, operator's API")
    operator_token: SecretStr | None = Field(None, description="environment only; unset: nobody acts for others")
    operator_token_file: Path | None = Field(None, description="file that holds the token")
    max_content_chars: int = Field(8_000, ge=16, description="bound on one memory's text")
    max_metadata_bytes: int = Field(8_192, ge=256, description="bound on what a caller attaches to one memory")
    max_body_bytes: int = Field(1024 * 1024, ge=1024, description="larger requests are refused with 413")
    max_import_bytes: int = Field(64 * 1024 * 1024, ge=1024, description="the same, of an import")
    max_import_lines: int = Field(10_000, ge=1, description="memories in one import; a file may be sent in parts")


class TelemetryConfig(_Section):
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="DEBUG tells each bypass")
    log_format: Literal["json", "console"] = Field("json", description="to standard error")


class Config(BaseSettings):
    """The whole file. Only `app.py` sees it whole."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=_ENV_DELIMITER,
        frozen=True,
        extra="forbid",
        nested_model_default_partial_update=True,
    )

    memory: MemoryConfig = MemoryConfig()
    external_models: tuple[ExternalModel, ...] = ()
    server: ServerConfig = ServerConfig()
    management: ManagementConfig = ManagementConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    @model_validator(mode="after")
    def _one_model_per_role(self) -> "Config":
        roles = [model.model_role for model in self.external_models]
        for role in roles:
            if roles.count(role) > 1:
                raise ValueError(f"external_models: two models have the role {role}; keep one")
        return self

    @model_validator(mode="after")
    def _a_model_that_is_away_costs_no_turn(self) -> "Config":
        retain = self.memory.retain
        asked = any(model.model_role == "memory_extraction" for model in self.external_models)
        if asked and retain.breaker_failures >= retain.max_attempts:
            raise ValueError(
                f"memory.retain.breaker_failures is {retain.breaker_failures} but memory.retain.max_attempts is"
                f" {retain.max_attempts}: turns would be given up before a model that is away is left alone; set the"
                " former below the latter"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


_SECRETS = frozenset({"token", "password", "api_key", "shared_secret", "operator_token"})


def load(path: Path | None = None) -> Config:
    """Read a configuration file (none: the defaults), with the environment on top.

    Raises:
        ConfigurationError: the file is missing, is not YAML, or has a key or value that does not fit; the message
            names its path and what to do.
    """
    values = _read(path) if path is not None else {}
    _refuse_secrets(values, "")
    _refuse_unknown_environment()
    try:
        return Config(**values)
    except ValidationError as error:
        raise ConfigurationError(_explain(error, path)) from None


def secret(value: SecretStr | None, file: Path | None) -> str | None:
    """The secret from the environment, else from its file.

    Raises:
        ConfigurationError: the file cannot be read, or is empty.
    """
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        text = file.expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"cannot read the secret file {file}: {error.strerror}") from None
    if not text:
        raise ConfigurationError(f"the secret file {file} is empty")
    return text


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} must hold a mapping with `memory:` and its siblings")
    return content


def _refuse_secrets(value: Any, where: str) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_secrets(item, f"{where}.{index}")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        path = f"{where}.{key}" if where else str(key)
        if key in _SECRETS and item is not None:
            name = ENV_PREFIX + path.upper().replace(".", _ENV_DELIMITER)
            raise ConfigurationError(f"{path}: secrets do not belong in the file; set {name}, or {path}_file")
        _refuse_secrets(item, path)


def _refuse_unknown_environment() -> None:
    """A mistyped variable is silently ignored otherwise; its first part at least can be checked."""
    for name in os.environ:
        if name.upper().startswith(ENV_PREFIX):
            section = name[len(ENV_PREFIX) :].split(_ENV_DELIMITER)[0].lower()
            if section not in Config.model_fields:
                known = ", ".join(sorted(Config.model_fields))
                raise ConfigurationError(f"environment variable {name}: no section {section!r}; there are {known}")


def _explain(error: ValidationError, path: Path | None) -> str:
    lines = [f"the configuration{f' {path}' if path else ''} does not fit:"]
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"]) or "(top level)"
        what = "unknown key" if problem["type"] == "extra_forbidden" else problem["msg"].removeprefix("Value error, ")
        lines.append(f"  {where}: {what}")
    return "\n".join(lines)
