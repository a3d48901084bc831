"""Switching tracing on, and what spans say; against a real collector stand-in, over both protocols."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from pydantic import ValidationError
from structlog.testing import capture_logs

import semrouter_memory.telemetry
from semrouter_memory.config import TracingConfig
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.model import Reason
from semrouter_memory.stack.loopback import free_port
from semrouter_memory.telemetry import start_tracing
from semrouter_memory.telemetry.otlp import LoggedOnceExporter, Tracer
from semrouter_memory.telemetry.spans import Spans
from tests.otlp_collector import Collector, collecting, collecting_over_http

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "PROTOCOL", "HEADERS", "TRACES_PROTOCOL", "TRACES_ENDPOINT"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


def started(**settings: Any) -> Tracer:
    tracer = start_tracing(TracingConfig(enabled=True, **settings))
    assert tracer is not None
    return tracer


def traceparent(*, sampled: bool = True) -> dict[str, str]:
    return {"traceparent": f"00-{TRACE}-{PARENT}-0{int(sampled)}"}


async def sent(tracer: Tracer, metadata: dict[str, str] | None = None) -> None:
    """One span, exported by the orderly end."""
    tracer.spans.stream(metadata or {}).bypassed(Reason.UNKNOWN_PATH)
    await tracer.stop(5)


def test_off_is_nothing_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry is not even looked for; a collector in the environment alone switches nothing on."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setitem(sys.modules, "semrouter_memory.telemetry.otlp", None)
    assert start_tracing(TracingConfig()) is None


@pytest.mark.parametrize(
    ("missing", "protocol"),
    [
        ("opentelemetry.sdk.trace", "grpc"),
        ("opentelemetry.exporter.otlp.proto.grpc", "grpc"),
        ("opentelemetry.exporter.otlp.proto.http", "http/protobuf"),
    ],
)
def test_without_the_packages_the_error_names_the_fix(
    monkeypatch: pytest.MonkeyPatch, missing: str, protocol: str
) -> None:
    monkeypatch.delitem(sys.modules, "semrouter_memory.telemetry.otlp")
    monkeypatch.delattr(semrouter_memory.telemetry, "otlp")
    monkeypatch.setitem(sys.modules, missing, None)
    config = TracingConfig.model_validate({"enabled": True, "protocol": protocol})
    with pytest.raises(ConfigurationError, match=r"pip install 'semrouter-memory\[tracing\]'"):
        start_tracing(config)


async def test_spans_go_to_the_collector_over_grpc(collector: Collector) -> None:
    await sent(started(endpoint=f"http://127.0.0.1:{collector.port}"), traceparent())
    (span,) = collector.spans
    assert (span.service, span.trace, span.parent) == ("semrouter-memory", TRACE, PARENT)


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
async def test_spans_go_to_the_collector_over_http(path: str) -> None:
    """The address is that of the collector; its path for traces need not be known."""
    with collecting_over_http() as collector:
        await sent(started(endpoint=f"http://127.0.0.1:{collector.port}{path}", protocol="http/protobuf"))
    assert [span.name for span in collector.spans] == ["memory bypass"]


async def test_the_standard_variables_hold_where_nothing_is_set(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "memory-of-blue")
    await sent(started())
    (span,) = collector.spans
    assert (span.service, span.metadata["x-tenant"]) == ("memory-of-blue", "blue")


async def test_the_protocol_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    with collecting_over_http() as collector:
        await sent(started(endpoint=f"http://127.0.0.1:{collector.port}"))
    assert len(collector.spans) == 1


def test_an_unknown_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    with pytest.raises(ConfigurationError, match="use grpc or http/protobuf"):
        started()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
async def test_headers_come_from_a_file(tmp_path: Path, protocol: str) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer a:b=c\n\nX-Tenant:blue\n", encoding="utf-8")
    running = collecting() if protocol == "grpc" else collecting_over_http()
    with running as collector:
        await sent(started(endpoint=f"http://127.0.0.1:{collector.port}", protocol=protocol, headers_file=file))
    (span,) = collector.spans
    assert (span.metadata["authorization"], span.metadata["x-tenant"]) == ("Bearer a:b=c", "blue")


@pytest.mark.parametrize("line", ["Bearer secret-token", "authorization:", ": secret-token"])
def test_a_headers_file_that_does_not_fit_is_refused_without_its_words(tmp_path: Path, line: str) -> None:
    file = tmp_path / "headers"
    file.write_text(f"x-tenant: blue\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="line 2") as caught:
        started(headers_file=file)
    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize("ratio", [-0.1, 1.1])
def test_a_ratio_is_between_none_and_all(ratio: float) -> None:
    with pytest.raises(ValidationError):
        TracingConfig(sample_ratio=ratio)


@pytest.mark.parametrize(
    ("ratio", "metadata", "kept"),
    [
        (1.0, {}, 1),
        (0.0, {}, 0),
        (0.0, traceparent(), 1),
        (1.0, traceparent(sampled=False), 0),
        (1.0, {"traceparent": "nonsense"}, 1),
    ],
)
async def test_who_began_the_trace_decides_whether_it_is_kept(
    collector: Collector, ratio: float, metadata: dict[str, str], kept: int
) -> None:
    await sent(started(endpoint=f"http://127.0.0.1:{collector.port}", sample_ratio=ratio), metadata)
    assert len(collector.spans) == kept


async def test_a_collector_that_is_away_does_not_hold_the_end_up(caplog: pytest.LogCaptureFixture) -> None:
    tracer = started(endpoint=f"http://127.0.0.1:{free_port()}")
    tracer.spans.stream({}).bypassed(Reason.UNKNOWN_PATH)
    with capture_logs() as lines:
        await tracer.stop(0.05)
    assert "Traces not exported in time, the last ones are lost" in [line["event"] for line in lines]


async def test_an_export_that_fails_after_the_end_is_not_said_any_more() -> None:
    class Late(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            ended.wait(10)
            return SpanExportResult.FAILURE

    of_others = set(threading.enumerate())
    ended, exporter = threading.Event(), LoggedOnceExporter(Late())
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = Tracer(Spans(provider.get_tracer("test")), provider, exporter)
    tracer.spans.stream({}).bypassed(Reason.UNKNOWN_PATH)
    with capture_logs() as lines:
        await tracer.stop(0.05)
        ended.set()
        (ending,) = [each for each in set(threading.enumerate()) - of_others if each.name == "traces-end"]
        await asyncio.to_thread(ending.join, 10)
    assert [line["event"] for line in lines] == ["Traces not exported in time, the last ones are lost"]


class Exporter(SpanExporter):
    def __init__(self) -> None:
        self.answers: list[SpanExportResult | Exception] = []

    def export(self, spans: Any) -> SpanExportResult:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_failing_export_is_said_once_and_its_end_too() -> None:
    exporter, good, bad = Exporter(), SpanExportResult.SUCCESS, SpanExportResult.FAILURE
    exporter.answers = [good, bad, ValueError("canary"), bad, good, good, bad]
    quiet, spans = LoggedOnceExporter(exporter), list[ReadableSpan]()
    with capture_logs() as lines:
        results = [quiet.export(spans) for _ in range(7)]
    assert results == [good, bad, bad, bad, good, good, bad]
    away, back = "Traces cannot be exported and are lost", "Traces are exported again"
    assert [line["event"] for line in lines] == [away, back, away]
    assert "canary" not in str(lines)
