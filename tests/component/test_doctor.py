"""doctor asks real servers: what answers as it should is no finding, and what is away, another's or wrong is one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pymilvus import AsyncMilvusClient

from semrouter_memory.app.sidecar import App
from semrouter_memory.config import load
from semrouter_memory.doctor import servers
from semrouter_memory.doctor.diagnose import diagnose
from semrouter_memory.doctor.finding import Finding, Severity
from semrouter_memory.stack.loopback import free_port
from semrouter_memory.store import collection
from tests.envoy_mutations import chain, endpoints
from tests.milvus_server import MilvusServer
from tests.one_answer import answering
from tests.redis_server import RedisServer

_OTHER_DIMENSION = 8


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a server that is reached late is not away."""
    monkeypatch.setattr(servers, "TIMEOUT_SECONDS", 60.0)


def settings(directory: Path, model: Path, **memory: Any) -> dict[str, Any]:
    return {
        "memory": {"data_dir": str(directory / "data"), "embedding": {"path": str(model)}, **memory},
        "server": {"listen": f"127.0.0.1:{free_port()}", "drain_seconds": 1},
        "management": {"listen": f"127.0.0.1:{free_port()}", "operator_listen": f"127.0.0.1:{free_port()}"},
    }


async def examined(directory: Path, values: dict[str, Any], *, envoy: Path | None = None) -> list[Finding]:
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return await asyncio.to_thread(diagnose, envoy, path)


@asynccontextmanager
async def running(values: dict[str, Any], directory: Path) -> AsyncIterator[None]:
    path = directory / "running.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    app = App(load(path))
    await app.start()
    try:
        yield
    finally:
        await app.stop()


def model(port: int, name: str = "qwen") -> dict[str, Any]:
    return {
        "model_role": "memory_extraction",
        "llm_endpoint": {"base_url": f"http://127.0.0.1:{port}/v1"},
        "llm_model_name": name,
    }


def found(diagnosis: list[Finding]) -> list[tuple[str, str, str]]:
    return sorted((finding.severity.value, finding.code, finding.where) for finding in diagnosis)


@pytest.mark.usefixtures("unhurried")
async def test_a_running_installation_has_no_findings(
    tmp_path: Path, model_directory: Path, redis_server: RedisServer
) -> None:
    listed = json.dumps({"object": "list", "data": [{"id": "qwen"}]})
    async with answering(listed) as port:
        values = settings(tmp_path, model_directory, redis={"url": redis_server.url, "prefix": "doctor"})
        values["external_models"] = [model(port)]
        envoy = chain()
        for cluster, setting in (("memory_sidecar", "server"), ("memory_api", "management")):
            address = endpoints(envoy, cluster)[0]["endpoint"]["address"]["socket_address"]
            address["port_value"] = int(values[setting]["listen"].rpartition(":")[2])
        path = tmp_path / "envoy.yaml"
        path.write_text(yaml.safe_dump(envoy.bootstrap), encoding="utf-8")
        async with running(values, tmp_path):
            diagnosis = await examined(tmp_path, values, envoy=path)
    assert found(diagnosis) == [("warning", "lite-with-redis", "memory.milvus")]


async def test_whatever_is_away_is_named(tmp_path: Path, model_directory: Path) -> None:
    values = settings(
        tmp_path,
        model_directory,
        milvus={"address": f"127.0.0.1:{free_port()}"},
        redis={"url": f"redis://127.0.0.1:{free_port()}/0"},
    )
    values["external_models"] = [model(free_port())]
    diagnosis = await examined(tmp_path, values)
    assert found(diagnosis) == [
        ("error", "unreachable", "external_models[0].llm_endpoint"),
        ("error", "unreachable", "management.listen"),
        ("error", "unreachable", "memory.milvus"),
        ("error", "unreachable", "memory.redis.url"),
        ("error", "unreachable", "server.listen"),
        ("warning", "unreachable", "management.operator_listen"),
    ]


async def test_servers_that_never_answer_are_waited_for_together_and_not_for_long(
    tmp_path: Path, model_directory: Path
) -> None:
    async with answering("", hang=True) as port:
        values = settings(
            tmp_path,
            model_directory,
            milvus={"address": f"127.0.0.1:{port}"},
            redis={"url": f"redis://127.0.0.1:{port}/0"},
        )
        values["server"]["listen"] = values["management"]["listen"] = f"127.0.0.1:{port}"
        values["external_models"] = [model(port)]
        async with asyncio.timeout(30):
            diagnosis = await examined(tmp_path, values)
    assert sum(finding.severity is Severity.ERROR for finding in diagnosis) == 5
    assert {finding.code for finding in diagnosis} == {"unreachable"}


@pytest.mark.usefixtures("unhurried")
async def test_another_service_at_our_ports_is_not_taken_for_ours(tmp_path: Path, model_directory: Path) -> None:
    async with answering("<html>hello</html>") as port:
        values = settings(tmp_path, model_directory)
        values["server"]["listen"] = values["management"]["listen"] = f"127.0.0.1:{port}"
        values["management"]["operator_listen"] = f"127.0.0.1:{port}"
        diagnosis = await examined(tmp_path, values)
    assert found(diagnosis) == [
        ("error", "unreachable", "management.listen"),
        ("error", "unreachable", "server.listen"),
        ("warning", "unreachable", "management.operator_listen"),
    ]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ('{"error": "no"}', "401 Unauthorized", "model-refuses"),
        ('{"data": [{"id": "llama"}]}', "200 OK", "model-unknown"),
        ("not json", "200 OK", ""),
        ("{}", "404 Not Found", ""),
    ],
)
async def test_a_model_server_is_asked_for_the_model(
    tmp_path: Path, model_directory: Path, body: str, status: str, code: str
) -> None:
    async with answering(body, status) as port:
        values = settings(tmp_path, model_directory)
        values["external_models"] = [model(port)]
        diagnosis = await examined(tmp_path, values)
    codes = {finding.code for finding in diagnosis if finding.where.startswith("external_models")}
    assert codes == ({code} if code else set())


@pytest.mark.usefixtures("unhurried")
async def test_a_redis_that_may_drop_keys_is_a_warning(
    tmp_path: Path, model_directory: Path, own_redis_server: RedisServer
) -> None:
    from redis.asyncio import Redis

    client: Any = Redis.from_url(own_redis_server.url)
    await client.config_set("maxmemory-policy", "allkeys-lru")
    await client.aclose()
    diagnosis = await examined(tmp_path, settings(tmp_path, model_directory, redis={"url": own_redis_server.url}))
    assert ("warning", "redis-evicts", "memory.redis.url") in found(diagnosis)


@pytest.mark.usefixtures("unhurried")
async def test_a_redis_in_cluster_mode_is_an_error(
    tmp_path: Path, model_directory: Path, new_redis_server: Callable[[], RedisServer]
) -> None:
    server = new_redis_server()
    server.options = {"cluster-enabled": "yes"}
    # For the others of a cluster it takes its port plus 10,000, which is below those that connections have.
    server._port = free_port()
    server.start()
    diagnosis = await examined(tmp_path, settings(tmp_path, model_directory, redis={"url": server.url}))
    assert ("error", "redis-cluster", "memory.redis.url") in found(diagnosis)


@pytest.mark.usefixtures("unhurried")
async def test_a_collection_of_another_dimension_is_found_and_left_as_it_is(
    tmp_path: Path, model_directory: Path, milvus_server: MilvusServer
) -> None:
    client: Any = AsyncMilvusClient(milvus_server.uri, dedicated=True)
    await client.drop_collection("doctor")
    await collection.prepare(client, "doctor", dimension=_OTHER_DIMENSION, fingerprint="x", lite=False, bm25=False)
    diagnosis = await examined(
        tmp_path, settings(tmp_path, model_directory, milvus={"uri": milvus_server.uri, "collection": "doctor"})
    )
    (mismatch,) = [finding for finding in diagnosis if finding.where.startswith("memory.milvus")]
    assert mismatch.code == "dimension-mismatch"
    assert "8" in mismatch.what
    assert "384" in mismatch.what
    absent = await examined(
        tmp_path, settings(tmp_path, model_directory, milvus={"uri": milvus_server.uri, "collection": "doctor_none"})
    )
    assert not [finding for finding in absent if finding.where.startswith("memory.milvus")]
    assert not await client.has_collection("doctor_none")
    await client.drop_collection("doctor")
    await client.close()


async def test_a_model_of_another_dimension_is_found(tmp_path: Path, model_directory: Path) -> None:
    values = settings(tmp_path, model_directory, milvus={"dimension": 768})
    values["memory"]["embedding"]["dimension"] = 768
    diagnosis = await examined(tmp_path, values)
    (finding,) = [each for each in diagnosis if each.where == "memory.embedding"]
    assert finding.severity == "error"
    assert "768" in finding.what


async def test_a_wrong_secret_file_is_named_and_nothing_of_it_is_shown(tmp_path: Path, model_directory: Path) -> None:
    values = settings(tmp_path, model_directory)
    values["server"]["shared_secret_file"] = str(tmp_path / "none")
    assert ("error", "secret-unreadable", "server.shared_secret_file") in found(await examined(tmp_path, values))
