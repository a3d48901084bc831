"""The Envoy parts of deploy/ in the real Envoy: it accepts them, and the sockets that they rely on carry the traffic."""

import asyncio
import copy
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from openai.types.chat import ChatCompletionMessageParam

from semrouter_memory.doctor.diagnose import diagnose
from semrouter_memory.stack.envoy import find_envoy
from semrouter_memory.stack.loopback import LOOPBACK, local_client
from tests.deploy_files import FILES, Chain, Json
from tests.envoy_mutations import TYPES

from .client import CHAT, answers_held_back, streaming
from .conftest import envoy_count, eventually, installed

_EXT_PROC_NAMES = ("memory.retain", "memory.recall")


def user(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


def validate(path: Path) -> str:
    """What Envoy says of a configuration, "" when it accepts it."""
    command = [find_envoy(), "--mode", "validate", "-c", str(path), "--log-level", "error"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def without_memory(bootstrap: Json) -> Json:
    """The shipped chain before anybody puts memory into it: what a mesh would generate."""
    chain = Chain(copy.deepcopy(bootstrap))
    del chain.manager["early_header_mutation_extensions"]
    chain.manager["http_filters"] = [entry for name, entry in chain.filters.items() if name not in _EXT_PROC_NAMES]
    for route in chain.routes.values():
        route.pop("typed_per_filter_config", None)
    del chain.routes["llm"]["request_body_buffer_limit"]
    resources = chain.bootstrap["static_resources"]
    resources["clusters"] = [cluster for cluster in resources["clusters"] if cluster["name"] != "memory_sidecar"]
    return chain.bootstrap


def apply(patches: list[Json], bootstrap: Json) -> Json:
    """The patches of an EnvoyFilter, as Istio applies those few kinds that ours uses."""
    chain = Chain(bootstrap)
    for entry in patches:
        value = copy.deepcopy(entry["patch"]["value"])
        match entry["applyTo"]:
            case "NETWORK_FILTER":
                chain.manager.update(value["typed_config"])
            case "HTTP_FILTER":
                chain.manager["http_filters"].insert(-1, value)
            case "HTTP_ROUTE":
                chain.routes["llm"].update(value)
            case "CLUSTER":
                bootstrap["static_resources"]["clusters"].append(value)
            case other:
                raise AssertionError(other)
    return bootstrap


@pytest.fixture
def socket_directory() -> Iterator[Path]:
    """A short path: a socket's is limited to 107 characters, and pytest's directories are long."""
    directory = Path(tempfile.mkdtemp(prefix="memory-"))
    yield directory
    shutil.rmtree(directory)


def test_envoy_accepts_the_containers_configuration() -> None:
    assert validate(FILES.deploy / "envoy.yaml") == ""


def test_envoy_accepts_the_chain_that_istio_makes_of_our_patches(tmp_path: Path) -> None:
    patches = FILES.manifests("istio.yaml").the("EnvoyFilter")["spec"]["configPatches"]
    bootstrap = apply(patches, without_memory(FILES.chain("envoy/two-filter.yaml").bootstrap))
    path = tmp_path / "istio.yaml"
    path.write_text(yaml.safe_dump(bootstrap, sort_keys=False), encoding="utf-8")
    assert validate(path) == ""


async def test_filters_and_management_work_over_sockets(
    tmp_path: Path, socket_directory: Path, model_directory: Path
) -> None:
    """As every deployment has them."""
    sockets = {"memory_sidecar": socket_directory / "ext_proc.sock", "memory_api": socket_directory / "api.sock"}

    def use_sockets(bootstrap: Json) -> None:
        for name, path in sockets.items():
            group = Chain(bootstrap).clusters[name]["load_assignment"]["endpoints"][0]
            group["lb_endpoints"][0]["endpoint"]["address"] = {"pipe": {"path": str(path)}}

    settings = {
        "server": {"listen": f"unix:{sockets['memory_sidecar']}"},
        "management": {"listen": f"unix:{sockets['memory_api']}"},
    }
    async with installed(tmp_path, model_directory, sidecar_config=settings, edit_envoy=use_sockets) as installation:
        assert [path.stat().st_mode & 0o777 for path in sockets.values()] == [0o660, 0o660]
        async with installation.sdk() as client:
            await client.chat.completions.create(model="m", messages=user("My budget for the Hawaii trip is $10,000"))
            await installation.remembers("$10,000")
            answer = await client.chat.completions.create(model="m", messages=user("What's my budget for the trip?"))
        assert "$10,000" in (answer.choices[0].message.content or "")


async def test_a_pod_that_ends_waits_for_the_answers_that_run(tmp_path: Path, model_directory: Path) -> None:
    """SIGTERM ends Envoy at once, so it is sent behind this command."""
    pod = FILES.manifests("kubernetes.yaml").the("StatefulSet", "llm-gateway")["spec"]["template"]["spec"]
    command: list[str] = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    async with installed(tmp_path, model_directory) as on:
        here = [each.replace("9901", str(on.stack.admin_port)).replace("sleep 5", "sleep 0") for each in command]
        async with answers_held_back(on), streaming(on, CHAT, "Tell me a joke", text="one two") as pieces:
            assert await anext(pieces)
            asked = await envoy_count(on, "http.admin.downstream_rq_total")
            stopping = await asyncio.create_subprocess_exec(*here)

            async def asks_again() -> bool:
                """More often than it drains and asks once, and this test itself."""
                counts.append(await envoy_count(on, "http.admin.downstream_rq_total"))
                return counts[-1] - asked - len(counts) > 2 or stopping.returncode is not None

            counts: list[int] = []
            await eventually(asks_again, "it does not wait")
            assert stopping.returncode is None
            async with on.http() as http:
                assert (await http.get("/v1/memory")).status_code == 200
            on.llm.going_on.set()
            assert b"two" in b"".join([piece.data async for piece in pieces])
        assert await stopping.wait() == 0


@pytest.mark.parametrize("mistaken", [False, True])
async def test_doctor_reads_what_came_over_xds_from_the_running_envoy(
    tmp_path: Path, model_directory: Path, *, mistaken: bool
) -> None:
    """All of the chain comes from files that Envoy watches, as control planes send it; the dump is what Envoy has of it."""

    def over_xds(bootstrap: Json) -> None:
        chain = Chain(bootstrap)
        if mistaken:
            del chain.filters["memory.recall"]["typed_config"]["failure_mode_allow"]
            del chain.routes["llm"]["request_body_buffer_limit"]
        routes = {"@type": f"{TYPES}.config.route.v3.RouteConfiguration", **chain.manager.pop("route_config")}
        chain.manager["rds"] = {
            "route_config_name": routes["name"],
            "config_source": _watched(tmp_path, "rds", [routes]),
        }
        static = bootstrap.pop("static_resources")
        sources = {}
        for name, kind in (("listeners", "listener.v3.Listener"), ("clusters", "cluster.v3.Cluster")):
            resources = [{"@type": f"{TYPES}.config.{kind}", **resource} for resource in static[name]]
            sources[f"{name[0]}ds_config"] = _watched(tmp_path, f"{name[0]}ds", resources)
        bootstrap.update(dynamic_resources=sources, node={"id": "one", "cluster": "llm"})

    async with installed(tmp_path, model_directory, edit_envoy=over_xds) as on, local_client() as http:
        dump = await http.get(f"http://{LOOPBACK}:{on.stack.admin_port}/config_dump")
    path = tmp_path / "dump.json"
    path.write_bytes(dump.content)
    findings = diagnose(path, tmp_path / "sidecar.yaml", offline=True)
    expected = {"failure-mode-allow", "route-buffer-limit"} if mistaken else set()
    assert {finding.code for finding in findings} == expected


def _watched(directory: Path, name: str, resources: list[Json]) -> Json:
    path = directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"resources": resources}), encoding="utf-8")
    return {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}
