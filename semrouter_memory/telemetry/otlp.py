"""Where spans go: OpenTelemetry's SDK with an OTLP exporter, set by our configuration and the OTEL_* variables.

Strategy: what our configuration leaves open is not passed on, so that the SDK reads its own variables. The queue is the
SDK's: bounded (OTEL_BSP_MAX_QUEUE_SIZE, 2,048 spans), emptied by a thread of its own, the oldest spans lost when it is full.
"""

import asyncio
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased

from semrouter_memory import __version__
from semrouter_memory.config import TracingConfig, secret
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.telemetry.spans import Spans

_log = structlog.get_logger("semrouter_memory")

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_TRACES_PATH = "/v1/traces"
_LAST_EXPORT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Tracer:
    """Tracing while it is on. `spans` is what the parts are given."""

    spans: Spans
    provider: TracerProvider
    exporter: "LoggedOnceExporter"

    async def stop(self, within_seconds: float) -> None:
        """Export the remaining spans in bounded time: an unavailable collector must not delay the end.

        Args:
            within_seconds: less, where that is less than what is granted anyway.
        """
        ended, loop = asyncio.Event(), asyncio.get_running_loop()

        def end() -> None:
            self.provider.shutdown()
            with suppress(RuntimeError):  # no caller waits any longer, and the loop is closed
                loop.call_soon_threadsafe(ended.set)

        # A daemon thread: the interpreter does not wait for an export that hangs.
        threading.Thread(target=end, name="traces-end", daemon=True).start()
        try:
            await asyncio.wait_for(ended.wait(), min(within_seconds, _LAST_EXPORT_SECONDS))
        except TimeoutError:
            self.exporter.silence()
            _log.warning("Traces not exported in time, the last ones are lost")


def start(config: TracingConfig) -> Tracer:
    """Start exporting.

    Raises:
        ConfigurationError: a setting or a file does not fit. An OTEL_* variable may raise whatever the SDK makes of it.
    """
    exporter = LoggedOnceExporter(_exporter(config, _headers(config.headers_file)))
    provider = TracerProvider(sampler=_sampler(config), resource=_resource(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracer(Spans(provider.get_tracer("semrouter_memory", __version__)), provider, exporter)


class LoggedOnceExporter(SpanExporter):
    """An exporter whose failure is logged when it begins and when it ends, not at every batch, and without its message."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._failing = False
        self._silenced = False

    def silence(self) -> None:
        """Log nothing more: an abandoned export may fail a minute later, when all else has ended."""
        self._silenced = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result, error = self._exporter.export(spans), "refused"
        except Exception as failure:  # noqa: BLE001 - a foreign library in a thread of its own; nothing depends on it
            result, error = SpanExportResult.FAILURE, type(failure).__name__
        failing = result is not SpanExportResult.SUCCESS
        if failing != self._failing and not self._silenced:
            self._failing = failing
            if failing:
                _log.warning("Traces cannot be exported and are lost", error=error)
            else:
                _log.info("Traces are exported again")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _exporter(config: TracingConfig, headers: dict[str, str] | None) -> SpanExporter:
    protocol: str = config.protocol or next((value for name in _PROTOCOLS if (value := os.environ.get(name))), "grpc")
    # One of the two is enough; each brings libraries that the other does not need.
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as grpc_exporter  # noqa: PLC0415

        # gRPC refuses names with capitals.
        lower = {name.lower(): value for name, value in headers.items()} if headers else None
        return grpc_exporter.OTLPSpanExporter(endpoint=config.endpoint, headers=lower)
    if protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_exporter  # noqa: PLC0415

        return http_exporter.OTLPSpanExporter(endpoint=_traces_url(config.endpoint), headers=headers)
    raise ConfigurationError(
        f"the OTLP protocol {protocol!r} ({_PROTOCOLS[1]}) is not known: use grpc or http/protobuf"
    )


def _traces_url(endpoint: str | None) -> str | None:
    """The whole address, as the exporter wants it; for gRPC and HTTP alike a collector is named by host and port."""
    if endpoint is None or urlsplit(endpoint).path.strip("/"):
        return endpoint
    return endpoint.rstrip("/") + _TRACES_PATH


def _sampler(config: TracingConfig) -> Sampler | None:
    """None lets the SDK read OTEL_TRACES_SAMPLER. The caller that began a trace has decided already."""
    return None if config.sample_ratio is None else ParentBased(TraceIdRatioBased(config.sample_ratio))


def _resource() -> Resource:
    own = Resource.create({"service.name": "semrouter-memory", "service.version": __version__})
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    return own.merge(OTELResourceDetector().detect())


def _headers(file: Path | None) -> dict[str, str] | None:
    """The file's headers; what it says never goes into a message, because these are credentials."""
    text = secret(None, file)
    if text is None:
        return None
    headers: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not (colon and name.strip() and value.strip()):
            raise ConfigurationError(f"telemetry.tracing.headers_file {file}: line {number} is not `name: value`")
        headers[name.strip()] = value.strip()
    return headers
