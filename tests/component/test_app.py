"""The composition root: everything starts, serves and stops; what cannot start says why and leaves nothing behind."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
import structlog
import structlog.testing
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from semrouter_memory.app.management import new_memory_id
from semrouter_memory.app.sidecar import App
from semrouter_memory.config import Config
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.model import Scope, SessionKey
from semrouter_memory.stack.loopback import free_port, local_client
from tests.chat_server import StandInServer, section
from tests.replicas import until


def settings(tmp_path: Path, model: Path, **memory: Any) -> dict[str, Any]:
    return {
        "memory": {"data_dir": str(tmp_path / "data"), "embedding": {"path": str(model)}, **memory},
        "server": {"listen": "127.0.0.1:0", "drain_seconds": 1},
        "management": {"listen": f"127.0.0.1:{free_port()}", "operator_listen": f"127.0.0.1:{free_port()}"},
    }


@asynccontextmanager
async def running(values: dict[str, Any]) -> AsyncIterator[App]:
    app = App(Config(**values))
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def test_serves_and_stops(tmp_path: Path, model_directory: Path) -> None:
    values = settings(tmp_path, model_directory)
    operator = f"http://{values['management']['operator_listen']}"
    async with running(values) as app, local_client() as http:
        async with grpc.aio.insecure_channel(app.ext_proc_address) as channel:
            health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert health.status == health_pb2.HealthCheckResponse.SERVING
        assert (await http.get(f"{operator}/healthz")).status_code == 200
        assert (await http.get(f"{operator}/readyz")).json()["store"] == "available"
        assert "semrouter_memory_build_info" in (await http.get(f"{operator}/metrics")).text
        user = {"x-authz-user-id": "alice"}
        listed = await http.get(f"http://{values['management']['listen']}/v1/memory", headers=user)
        assert listed.json()["data"] == []
        long = {"content": "The spare key is under the ceramic frog. " * 190}
        stored = await http.post(f"http://{values['management']['listen']}/v1/memory", headers=user, json=long)
        assert stored.status_code == 201
        assert "semrouter_memory_passages_truncated_total 0.0" in (await http.get(f"{operator}/metrics")).text
    async with local_client() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{operator}/healthz")


async def test_no_request_makes_what_all_requests_need(
    tmp_path: Path, model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FastAPI makes routes when they are first looked through, and the event loop would be held for so long."""
    values = settings(tmp_path, model_directory)
    async with running(values), local_client() as http:
        monkeypatch.setattr("fastapi.routing.get_dependant", pytest.fail)
        answers = [await http.get(f"http://{values['management'][port]}/v1") for port in ("listen", "operator_listen")]
        assert [answer.status_code for answer in answers] == [404, 404]


async def test_the_reflecting_model_answers_and_finds_insights(
    tmp_path: Path, model_directory: Path, chat_server: StandInServer
) -> None:
    values = settings(
        tmp_path,
        model_directory,
        ageing={"sweep_seconds": 0.5},
        maintenance={"reflect": "on", "reflect_at": 2},
    )
    model = section(chat_server.port).model_copy(update={"model_role": "memory_reflect", "llm_model_name": "thinker"})
    # No server is at that of the other role.
    values["external_models"] = [model, section(free_port())]
    chat_server.content('[{"content": "User deploys with helm on Fridays", "sources": [1, 2]}]')
    api, user = f"http://{values['management']['listen']}/v1/memory", {"x-authz-user-id": "alice"}
    async with running(values), local_client(headers=user) as http:
        for service in ("billing", "search"):
            episode = {"type": "episodic", "goal": f"Deploy {service} on Friday", "outcome": "helm upgrade worked"}
            (await http.post(api, json=episode)).raise_for_status()
        found: list[Any] = []

        async def reflected() -> bool:
            found[:] = (await http.get(f"{api}?type=reflective")).json()["data"]
            return bool(found)

        await until(reflected)
        assert (found[0]["content"], found[0]["source"]) == ("User deploys with helm on Fridays", "reflection")
        chat_server.content("Your helm upgrade of billing worked [1].")
        answer = (await http.post(f"{api}/reflect", json={"question": "How did I deploy billing on Friday?"})).json()
        assert (answer["known"], answer["model"]) == (True, "thinker")
        await http.delete(f"{api}/{found[0]['metadata']['derived_from'][0]}")
        assert (await http.get(f"{api}?type=reflective")).json()["data"] == []


async def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path, model_directory: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    values = settings(tmp_path, model_directory, data_dir=str(tmp_path / "file" / "data"))
    with pytest.raises(ConfigurationError, match=r"memory\.data_dir: .*/file/data: Not a directory"):
        await App(Config(**values)).start()


async def test_starts_again_on_the_same_data(tmp_path: Path, model_directory: Path) -> None:
    values = settings(tmp_path, model_directory)
    api, user = f"http://{values['management']['listen']}/v1/memory", {"x-authz-user-id": "alice"}
    async with running(values), local_client(headers=user) as http:
        (await http.post(api, json={"content": "User lives in Berlin"})).raise_for_status()
    async with running(values), local_client(headers=user) as http:
        assert [memory["content"] for memory in (await http.get(api)).json()["data"]] == ["User lives in Berlin"]
        # Read ahead, though the user has not asked for anything yet.
        metrics = f"http://{values['management']['operator_listen']}/metrics"

        async def read_in() -> bool:
            return "semrouter_memory_owner_indexes 1.0" in (await http.get(metrics)).text

        await until(read_in)


async def test_the_metrics_show_the_queue_as_it_is_when_they_are_read(tmp_path: Path, model_directory: Path) -> None:
    values = settings(tmp_path, model_directory)
    async with running(values) as app, local_client() as http:
        assert app._pool is not None
        app._pool._workers = 0
        app._pool.submit(SessionKey(Scope("alice"), "ses_1"))
        text = (await http.get(f"http://{values['management']['operator_listen']}/metrics")).text
        assert "semrouter_memory_queue_depth 1.0" in text
        (oldest,) = [line for line in text.splitlines() if line.startswith("semrouter_memory_queue_oldest_seconds ")]
        assert float(oldest.split()[1]) > 0


async def test_data_is_its_owners_alone(tmp_path: Path, model_directory: Path) -> None:
    async with running(settings(tmp_path, model_directory)):
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
        for file in (tmp_path / "data").glob("turns.db*"):
            assert file.stat().st_mode & 0o777 == 0o600


async def test_a_missing_model_names_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="semrouter-memory model build"):
        async with running(settings(tmp_path, tmp_path / "nowhere")):
            pass


async def test_a_failed_start_leaves_nothing_behind(tmp_path: Path, model_directory: Path) -> None:
    """A port is taken: what was started before is stopped, so that the next start finds nothing in its way."""
    values = settings(tmp_path, model_directory)
    taken = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    address = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"
    async with taken:
        for section, name in (("management", "listen"), ("management", "operator_listen"), ("server", "listen")):
            blocked = {**values, section: {**values[section], name: address}}
            with pytest.raises(ConfigurationError, match=rf"{section}\.{name}: cannot listen .*; choose another one"):
                async with running(blocked):
                    pass
    async with running(values):
        pass


@pytest.mark.parametrize("section", ["server", "management"])
async def test_a_wide_address_without_a_secret_is_refused(tmp_path: Path, model_directory: Path, section: str) -> None:
    values = settings(tmp_path, model_directory)
    values[section]["listen"] = f"0.0.0.0:{free_port()}"
    with pytest.raises(ConfigurationError, match=rf"{section}\.listen is 0\.0\.0\.0"):
        async with running(values):
            pass


async def test_the_shared_secret_guards_both_ports(tmp_path: Path, model_directory: Path) -> None:
    values = settings(tmp_path, model_directory)
    values["server"]["shared_secret"] = "correct horse"
    async with running(values), local_client(headers={"x-authz-user-id": "alice"}) as http:
        api = f"http://{values['management']['listen']}/v1/memory"
        assert (await http.get(api)).status_code == 401
        assert (await http.get(api, headers={"x-memory-secret": "correct horse"})).status_code == 200


def test_the_command_says_a_mistake_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"memory": {"milvus": {"adress": "x"}}}))
    done = subprocess.run(
        [sys.executable, "-m", "semrouter_memory", "serve", "--config", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "memory.milvus.adress: unknown field" in done.stderr
    assert "Traceback" not in done.stderr


def test_memory_ids_sort_by_time_and_differ() -> None:
    ids = [new_memory_id() for _ in range(1000)]
    assert len(set(ids)) == len(ids)
    assert [identifier[:16] for identifier in ids] == sorted(identifier[:16] for identifier in ids)


async def test_starts_without_redis_and_says_once_that_turns_wait(tmp_path: Path, model_directory: Path) -> None:
    """Memories of before are served meanwhile."""
    values = settings(
        tmp_path, model_directory, redis={"url": f"redis://127.0.0.1:{free_port()}"}, retain={"tick_seconds": 0.01}
    )
    api, user = f"http://{values['management']['listen']}/v1/memory", {"x-authz-user-id": "alice"}
    unavailable = "Turn log unavailable, turns wait"

    async def said() -> bool:
        return any(line["event"] == unavailable for line in logs)

    with structlog.testing.capture_logs() as logs:
        async with running(values), local_client(headers=user) as http:
            assert (await http.get(api)).json()["data"] == []
            await until(said)
            # Many ticks' time: each finds the log away.
            await asyncio.sleep(1)
    (told,) = (line for line in logs if line["event"] == unavailable)
    assert told["detail"].endswith("Redis is unavailable: ConnectionError")
    assert not any(line["event"] == "Background work failed" for line in logs)
