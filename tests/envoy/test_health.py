"""How the sidecar says that it is well: HTTP for people and orchestrators, gRPC for Envoy."""

import asyncio
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from semrouter_memory.stack.loopback import LOOPBACK, local_client
from semrouter_memory.transport import wire

from .conftest import Installation

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/healthz", {"status": "ok"}),
        ("/readyz", {"status": "ready", "model": "loaded", "store": "available", "turn_log": "available"}),
    ],
)
async def test_health_over_http(shared: Installation, path: str, says: dict[str, Any]) -> None:
    async with local_client(base_url=shared.stack.operator_url) as http:
        answer = await http.get(path)
    assert (answer.status_code, answer.json()) == (200, says)


async def test_the_public_listener_knows_no_operator_routes(shared: Installation) -> None:
    """They pass to the LLM server like every path that is not ours."""
    async with shared.http() as http:
        for path in ("/metrics", "/readyz", "/healthz"):
            assert (await http.get(path)).content == b""
            assert shared.llm.last.path == path


async def test_the_sidecar_loads_no_library_that_only_others_need(shared: Installation) -> None:
    """pymilvus would load SciPy where that is installed."""
    files = await asyncio.to_thread(Path(f"/proc/{shared.stack.sidecar.pid}/maps").read_text, encoding="utf-8")
    assert "/pandas/" in files  # this is how a library would show
    assert [name for name in ("scipy", "sklearn", "onnx", "matplotlib") if f"site-packages/{name}/" in files] == []


@pytest.mark.parametrize("service", ["", wire.SERVICE])
async def test_health_over_grpc(shared: Installation, service: str) -> None:
    async with grpc.aio.insecure_channel(f"{LOOPBACK}:{shared.stack.ext_proc_port}") as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_metrics_tell_what_happened_and_to_nobody_whom(shared: Installation) -> None:
    async with local_client() as http:
        text = (await http.get(f"{shared.stack.operator_url}/metrics")).text
    assert "semrouter_memory_build_info" in text
    assert "alice" not in text
