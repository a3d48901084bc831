"""An OTLP collector on loopback that keeps what it is sent, over gRPC or HTTP."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Received:
    """A span as it arrived, ids in hex."""

    service: str
    span: Span
    metadata: dict[str, str]

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def trace(self) -> str:
        return self.span.trace_id.hex()

    @property
    def id(self) -> str:
        return self.span.span_id.hex()

    @property
    def parent(self) -> str:
        return self.span.parent_span_id.hex()

    @property
    def failed(self) -> bool:
        return self.span.status.code == Status.STATUS_CODE_ERROR

    @property
    def attributes(self) -> dict[str, Any]:
        return _plain(self.span.attributes)


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps all spans."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.requests: list[bytes] = []
        self.port = 0

    def Export(  # noqa: N802 - the service's own name
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        self.keep(request, {str(key): str(value) for key, value in context.invocation_metadata()})
        return trace_service_pb2.ExportTraceServiceResponse()

    def keep(self, request: trace_service_pb2.ExportTraceServiceRequest, metadata: dict[str, str]) -> None:
        self.requests.append(request.SerializeToString())
        for resource in request.resource_spans:
            service = _plain(resource.resource.attributes).get("service.name", "")
            self.spans += [Received(service, span, metadata) for scope in resource.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def of(self, trace: str) -> list[Received]:
        return [span for span in self.spans if span.trace == trace]

    def by_id(self, span_id: str) -> Received | None:
        return next((span for span in self.spans if span.id == span_id), None)

    def children(self, parent: Received) -> list[Received]:
        return [span for span in self.spans if span.parent == parent.id and span.trace == parent.trace]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A running collector for gRPC."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server  # without types
    add(collector, server)
    collector.port = server.add_insecure_port(f"{LOOPBACK}:0")
    server.start()
    try:
        yield collector
    finally:
        server.stop(0).wait()


@contextmanager
def collecting_over_http() -> Iterator[Collector]:
    """The same for HTTP with protobuf; any other path than the one for traces is not found."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
                collector.keep(request, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer((LOOPBACK, 0), Handler)
    collector.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _plain(attributes: "Iterator[KeyValue] | Any") -> dict[str, Any]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
