"""Everything that is measured, up at the same time.

One Envoy with a listener for each chain, a fast upstream, the no-op service, and the product.

Strategy: the chains are the shipped one on the same Envoy process. What differs between two of them is what is measured:
no memory filters, the no-op service behind them, the product behind them, a setting of the route.
"""

import asyncio
import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import yaml

from bench import noop, upstream
from bench.figures import ALONE, NOOP, PRODUCT
from bench.workload import key_of
from semrouter_memory.stack.envoy import EnvoyPorts
from semrouter_memory.stack.loopback import LOOPBACK, free_port
from semrouter_memory.stack.process import Process, Together
from semrouter_memory.stack.stack import launch_envoy

_PRODUCT_CLUSTER, _NOOP_CLUSTER = "memory_sidecar", "noop"
_READY_SECONDS = 120
_START_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be up.

    Attributes:
        data: the product's data directory.
        users: whose keys Envoy knows.
        memory: further settings of the section `memory`.
        routes: further chains with the product: name -> gRPC metadata of the route.
    """

    model: Path
    directory: Path
    data: Path
    users: Sequence[str]
    memory: Mapping[str, Any] = field(default_factory=dict)
    routes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Installation(Together):
    """All of it, together.

    Attributes:
        ports: of Envoy's listeners, by chain.
        operator_url: of the product.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan
        self._upstream_port = free_port()
        self._llm = Process("the upstream", plan.directory / "upstream.log")
        self._envoy = Process("Envoy", plan.directory / "envoy.log")
        self._noop = Process("the no-op service", plan.directory / "noop.log")
        self._noop_port = free_port()
        self._sidecar = Process("the sidecar", plan.directory / "sidecar.log")
        self._sidecar_port, self._api_port = free_port(), free_port()
        self.ports = {name: free_port() for name in (ALONE, NOOP, PRODUCT, *plan.routes)}
        self.operator_url = f"http://{LOOPBACK}:{free_port()}"

    # -- what is known of it -------------------------------------------------------------------------------------------

    def service(self, chain: str) -> tuple[int, ...]:
        """The process ids of what stands behind a chain's filters."""
        if chain == ALONE:
            return ()
        return ((self._noop if chain == NOOP else self._sidecar).pid,)

    @property
    def envoy(self) -> tuple[int, ...]:
        """Process ids of Envoy."""
        return (self._envoy.pid,)

    async def seen(self) -> tuple[int, int]:
        """Requests that reached the upstream, and how many had memories in them."""
        async with httpx.AsyncClient(timeout=10) as client:
            told = (await client.get(f"http://{LOOPBACK}:{self._upstream_port}/seen")).json()
        return int(told["requests"]), int(told["with_memory"])

    # -- starting ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._plan.directory.mkdir(parents=True, exist_ok=True)
        await self._run(self._llm, upstream, self._upstream_port)
        await self._run(self._noop, noop, self._noop_port)
        await self._start_sidecar()
        ports = EnvoyPorts(
            listener=self.ports[PRODUCT],
            admin=free_port(),
            memory_sidecar=f"{LOOPBACK}:{self._sidecar_port}",
            memory_api=self._api_port,
            llm=f"http://{LOOPBACK}:{self._upstream_port}/v1",
        )
        self.push_async_callback(self._envoy.stop)
        await launch_envoy(
            self._envoy, self._plan.directory / "envoy.yaml", "two-filter.yaml", ports, self._with_chains
        )

    async def _run(self, process: Process, module: ModuleType, port: int) -> None:
        self.push_async_callback(process.stop)
        # By its file, without its directory on the path: the working directory may be any.
        await process.start([sys.executable, "-P", str(module.__file__), str(port)])
        await process.ready(lambda: _accepts(port), timeout_seconds=_START_SECONDS)

    async def _start_sidecar(self) -> None:
        path = self._plan.directory / "sidecar.yaml"
        path.write_text(yaml.safe_dump(self._settings()), encoding="utf-8")
        self.push_async_callback(self._sidecar.stop)
        await self._sidecar.start([sys.executable, "-m", "semrouter_memory", "serve", "--config", str(path)])
        await self._sidecar.ready(lambda: _is_ready(self.operator_url), timeout_seconds=_READY_SECONDS)

    def _settings(self) -> dict[str, Any]:
        return {
            "memory": {
                "data_dir": str(self._plan.data),
                "embedding": {"path": str(self._plan.model)},
                **self._plan.memory,
            },
            "server": {"listen": f"{LOOPBACK}:{self._sidecar_port}"},
            "management": {
                "listen": f"{LOOPBACK}:{self._api_port}",
                "operator_listen": self.operator_url.removeprefix("http://"),
            },
        }

    # -- Envoy's configuration -----------------------------------------------------------------------------------------

    def _with_chains(self, config: dict[str, Any]) -> None:
        resources = config["static_resources"]
        (shipped,) = resources["listeners"]
        _manager(shipped)["http_filters"][0]["typed_config"]["credentials"] = [
            {"key": key_of(user), "client": user} for user in self._plan.users
        ]
        clusters = {cluster["name"]: cluster for cluster in resources["clusters"]}
        without_work = copy.deepcopy(clusters[_PRODUCT_CLUSTER]) | {"name": _NOOP_CLUSTER}
        _set_endpoint(without_work, self._noop_port)
        resources["clusters"].append(without_work)
        resources["listeners"] = [self._listener(shipped, name) for name in self.ports]

    def _listener(self, shipped: dict[str, Any], name: str) -> dict[str, Any]:
        listener = copy.deepcopy(shipped) | {"name": name}
        listener["address"]["socket_address"]["port_value"] = self.ports[name]
        if name == ALONE:
            without_memory(listener)
        elif name == NOOP:
            _service_of(listener)["envoy_grpc"]["cluster_name"] = _NOOP_CLUSTER
        elif name in self._plan.routes:
            metadata = self._plan.routes[name]
            _service_of(listener)["initial_metadata"] = [{"key": key, "value": metadata[key]} for key in metadata]
        return listener


def without_memory(listener: dict[str, Any]) -> None:
    """Take the memory filters out, and what the routes say of them."""
    manager = _manager(listener)
    manager["http_filters"] = [known for known in manager["http_filters"] if not _is_ours(known)]
    for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
        route.pop("typed_per_filter_config", None)


def _manager(listener: dict[str, Any]) -> dict[str, Any]:
    manager: dict[str, Any] = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return manager


def _service_of(listener: dict[str, Any]) -> dict[str, Any]:
    """Of both memory filters: they share it, as they do in the file."""
    first, second = (known for known in _manager(listener)["http_filters"] if _is_ours(known))
    service: dict[str, Any] = first["typed_config"]["grpc_service"]
    second["typed_config"]["grpc_service"] = service
    return service


def _is_ours(http_filter: Mapping[str, Any]) -> bool:
    return str(http_filter["name"]).startswith("memory.")


def _set_endpoint(cluster: dict[str, Any], port: int) -> None:
    address = {"socket_address": {"address": LOOPBACK, "port_value": port}}
    cluster["load_assignment"] = {
        "cluster_name": cluster["name"],
        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
    }


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True


async def _is_ready(url: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=1) as client:
            return (await client.get(f"{url}/readyz")).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
