"""External models, and what one makes of memories; and the sections of the service: ports, telemetry, recordings."""

import os
from typing import Literal

from pydantic import Field, model_validator

from semrouter_memory.config.section import (
    FilePath,
    HeaderName,
    ListenAddress,
    Secret,
    Section,
    Switch,
    host_and_port,
    names_a_server,
    secret,
)
from semrouter_memory.errors import ConfigurationError


class LlmEndpoint(Section):
    """Either address and port, or a whole base URL."""

    address: str | None = Field(None, description="host name of the server")
    port: int | None = Field(None, ge=1, le=65535, description="port of the server; the URL is http://address:port/v1")
    base_url: str | None = Field(None, description="for example https://api.example.com/v1; overrides address and port")

    @model_validator(mode="after")
    def _names_a_server(self) -> "LlmEndpoint":
        if self.base_url is None and (self.address is None or self.port is None):
            raise ValueError("needs base_url, or address and port")
        if self.base_url is None:
            host_and_port(f"{self.address}:{self.port}")
        elif not names_a_server(self.base_url, ("http", "https")):
            raise ValueError("base_url must be http(s)://host:port/path, for example https://api.example.com/v1")
        return self

    @property
    def url(self) -> str:
        return self.base_url or f"http://{self.address}:{self.port}/v1"


class ExternalModel(Section):
    """An OpenAI-compatible chat model that takes over one role."""

    llm_provider: str = Field("vllm", description="name in traces; the API is always OpenAI's")
    model_role: Literal["memory_rewrite", "memory_extraction", "memory_reconcile", "memory_reflect"] = Field(
        description="use of the model; without memory_reflect, memory_extraction reflects"
    )
    llm_endpoint: LlmEndpoint
    llm_model_name: str = Field(description="name of the model at its server")
    llm_timeout_seconds: float = Field(30, gt=0, description="timeout of one call")
    max_tokens: int = Field(2000, ge=1, description="bound on the tokens of one answer, reasoning included")
    temperature: float = Field(0.1, ge=0, le=2, description="sampling temperature; low, because facts are wanted")
    api_key_env: str | None = Field(None, description="name of the environment variable that holds the key")
    api_key_file: FilePath | None = Field(None, description="file that holds the key")

    @property
    def api_key(self) -> str | None:
        """The key from where the file says it is.

        Raises:
            ConfigurationError: the variable is not set or is empty, or the file cannot be read or is empty.
        """
        if self.api_key_env is None:
            return secret(None, self.api_key_file)
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise ConfigurationError(
                f"the environment variable {self.api_key_env} (api_key_env) is not set, or is empty"
            )
        return key


class ReflectionConfig(Section):
    """Answers to questions about what is remembered, by a model with the role memory_reflect, else memory_extraction."""

    timeout_seconds: float = Field(
        25,
        gt=0,
        description="time for the model's answer; then it is only counted how often it was mentioned. Less than the timeout of Envoy's route",
    )
    token_budget: int = Field(
        3_000, ge=100, description="bound on what the model is shown, in the embedding model's tokens"
    )
    max_concurrent: int = Field(
        4, ge=1, description="questions that the model answers at a time; for further ones it is only counted"
    )


class MaintenanceConfig(Section):
    """What a sweep derives from a user's memories."""

    reflect: Switch = Field(
        "off",
        description="write at most three insights from a user's new episodes and quotes; asks the model with the role memory_reflect, else memory_extraction",
    )
    reflect_at: int = Field(
        20,
        ge=2,
        description="new episodes and quotes of a user, or of one project, from which on they are reflected on",
    )


class ServerConfig(Section):
    """The ext_proc server."""

    listen: ListenAddress = Field("127.0.0.1:50051", description="host:port, or unix:path")
    processes: int = Field(
        1, ge=1, le=64, description="processes behind the addresses; several need memory.redis.url and a Milvus server"
    )
    max_message_bytes: int = Field(72 * 1024 * 1024, ge=1024, description="must exceed Envoy's body limit (64 MiB)")
    max_body_bytes: int = Field(64 * 1024 * 1024, ge=1024, description="larger request bodies pass without memory")
    max_answer_bytes: int = Field(8 * 1024 * 1024, ge=1024, description="larger answers, decoded, are not stored")
    max_concurrent_streams: int = Field(16_384, ge=1, description="streams of one connection; an open answer takes two")
    max_connection_seconds: float | None = Field(
        None,
        gt=0,
        le=2_000_000,
        description="age at which Envoy is asked to replace a connection; unset: none, with several processes 30",
    )
    drain_seconds: float = Field(10, ge=0, description="time for running exchanges to end at shutdown")
    secret_header: HeaderName = Field(
        "x-memory-secret", description="gRPC metadata and HTTP header of the shared secret"
    )
    shared_secret: Secret | None = Field(None, description="what Envoy sends in secret_header; environment only")
    shared_secret_file: FilePath | None = Field(
        None,
        description="file that holds the secret; required if a port is bound to more than loopback or a Unix socket",
    )


class ManagementConfig(Section):
    """The HTTP ports: the users' API behind Envoy, and the operator's."""

    listen: ListenAddress = Field("127.0.0.1:8081", description="host:port or unix:path; Envoy routes /v1/memory here")
    operator_listen: ListenAddress | None = Field(
        "127.0.0.1:9090", description="/healthz /readyz /metrics, operator's API"
    )
    operator_token: Secret | None = Field(
        None,
        description="token of the operator; environment only; unset: the operator's routes for other users do not exist",
    )
    operator_token_file: FilePath | None = Field(None, description="file that holds the token")
    max_content_chars: int = Field(
        8_000,
        ge=16,
        description="bound on one memory's text; one that is longer than the embedding model reads is found by its passages",
    )
    max_metadata_bytes: int = Field(8_192, ge=256, description="bound on what a caller attaches to one memory")
    max_body_bytes: int = Field(1024 * 1024, ge=1024, description="larger requests are refused with 413")
    max_import_bytes: int = Field(64 * 1024 * 1024, ge=1024, description="larger imports are refused with 413")
    max_document_bytes: int = Field(
        32 * 1024 * 1024, ge=1024, description="larger documents of organisations are refused with 413"
    )
    max_import_lines: int = Field(10_000, ge=1, description="memories in one import; a file may be sent in parts")


class TracingConfig(Section):
    """OpenTelemetry. Beyond these, the standard OTEL_* variables hold; what is set here wins."""

    enabled: bool = Field(default=False, description="export spans; needs the extra `tracing`")
    endpoint: str | None = Field(
        None, description="OTLP collector, as http://host:4317; unset: OTEL_EXPORTER_OTLP_ENDPOINT, else this machine"
    )
    protocol: Literal["grpc", "http/protobuf"] | None = Field(
        None, description="protocol of the collector; unset: OTEL_EXPORTER_OTLP_PROTOCOL, else grpc"
    )
    sample_ratio: float | None = Field(
        None,
        ge=0,
        le=1,
        description="share of the traces that are sampled where the caller has not decided; unset: OTEL_TRACES_SAMPLER, else all",
    )
    headers_file: FilePath | None = Field(
        None,
        description="file with headers for the collector, one `name: value` a line; unset: OTEL_EXPORTER_OTLP_HEADERS",
    )


class TelemetryConfig(Section):
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="log level; DEBUG logs each request that passes without memory"
    )
    log_format: Literal["json", "console"] = Field("json", description="format of the log on standard error")
    tracing: TracingConfig = TracingConfig()


class RecordingConfig(Section):
    """Writes down what Envoy and this service say to each other, to be replayed. Credentials are never written."""

    enabled: bool = Field(default=False, description="on: exchanges are recorded from the start of the process")
    directory: FilePath | None = Field(None, description="directory for the recordings; default <data_dir>/recordings")
    sample: float = Field(1.0, gt=0, le=1, description="share of the exchanges that is recorded")
    format: Literal["jsonl", "protobuf"] = Field("jsonl", description="JSON lines, or proto/recording.proto")
    files: Literal["rolling", "exchange"] = Field("rolling", description="many exchanges in a file, or one in each")
    max_file_mb: int = Field(64, ge=1, description="bound on a file; larger exchanges are left out")
    max_total_mb: int = Field(1024, ge=1, description="bound on all recordings; the oldest are deleted")
    max_buffer_mb: int = Field(64, ge=1, description="bound on what waits to be written; more is left out and counted")
    redact_headers: tuple[HeaderName, ...] = Field(
        (), description="headers (and gRPC metadata) that are not recorded, besides those that carry credentials"
    )
    pseudonymise: bool = Field(default=False, description="on: every word and id is replaced, equal ones by equal ones")
    pseudonym_key: Secret | None = Field(
        None, description="the same key gives the same pseudonyms; environment only; unset: drawn at each start"
    )
    pseudonym_key_file: FilePath | None = Field(None, description="file that holds the key")
