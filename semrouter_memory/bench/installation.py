"""Everything that is measured, up at the same time.

One Envoy with a listener for each chain, a fast upstream, the no-op service, and the product in one process or several.

Strategy: the chains are the shipped one on the same Envoy process. What differs between two of them is what is measured:
no memory filters, the no-op service behind them, the product behind them, a setting of the route.
"""

import asyncio
import copy
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from semrouter_memory.bench.bodies import key_of
from semrouter_memory.stack.envoy import EnvoyPorts
from semrouter_memory.stack.ports import LOOPBACK, free_port
from semrouter_memory.stack.process import Process, Together
from semrouter_memory.stack.stack import launch_envoy

ALONE, NOOP, PRODUCT = "alone", "noop", "product"
UNLEARNED = "product, auto_store off"
"""The product on a route that stores nothing."""

_MODULE = "semrouter_memory.bench"
_PRODUCT_CLUSTER, _NOOP_CLUSTER = "memory_sidecar", "noop"
_READY_SECONDS = 120
_START_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be up.

    Attributes:
        data: the product's data directory, which its processes share.
        users: whose keys Envoy knows.
        memory: further settings of the section `memory`.
        processes: of the product, and of the no-op service.
        routes: further chains with the product: name -> gRPC metadata of the route.
    """

    model: Path
    directory: Path
    data: Path
    users: Sequence[str]
    memory: Mapping[str, Any] = field(default_factory=dict)
    processes: int = 1
    routes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Installation(Together):
    """All of it, together.

    Attributes:
        ports: of Envoy's listeners, by chain.
        operator_urls: of the product's processes.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan
        self._upstream_port = free_port()
        self._llm = Process("the upstream", plan.directory / "upstream.log")
        self._envoy = Process("Envoy", plan.directory / "envoy.log")
        self._noop_ports = [free_port() for _ in range(plan.processes)]
        self._product_ports = [free_port() for _ in range(plan.processes)]
        self._api_port = free_port()
        self._noops = [Process("the no-op service", plan.directory / "noop.log") for _ in self._noop_ports]
        self._sidecars = [
            Process("the sidecar", plan.directory / f"sidecar-{number}.log") for number in range(plan.processes)
        ]
        self.ports = {name: free_port() for name in (ALONE, NOOP, PRODUCT, *plan.routes)}
        self.operator_urls = [f"http://{LOOPBACK}:{free_port()}" for _ in range(plan.processes)]

    # -- what is known of it -------------------------------------------------------------------------------------------

    def service(self, chain: str) -> tuple[int, ...]:
        """The process ids of what stands behind a chain's filters."""
        if chain == ALONE:
            return ()
        return tuple(process.pid for process in (self._noops if chain == NOOP else self._sidecars))

    @property
    def around(self) -> tuple[int, ...]:
        """Process ids of Envoy and the upstream."""
        return (self._envoy.pid, self._llm.pid)

    @property
    def api_url(self) -> str:
        """The management API behind Envoy."""
        return f"http://{LOOPBACK}:{self.ports[PRODUCT]}"

    async def seen(self) -> tuple[int, int]:
        """Requests that reached the upstream, and how many had memories in them."""
        told = json.loads(await self._asked("seen"))
        return int(told["requests"]), int(told["with_memory"])

    async def last_body(self) -> bytes:
        """Of the last request, as the upstream got it."""
        return await self._asked("last")

    async def _asked(self, what: str) -> bytes:
        async with httpx.AsyncClient(timeout=10) as client:
            return (await client.get(f"http://{LOOPBACK}:{self._upstream_port}/{what}")).content

    # -- starting ------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._plan.directory.mkdir(parents=True, exist_ok=True)
        await self._run(self._llm, "upstream", self._upstream_port)
        for noop, port in zip(self._noops, self._noop_ports, strict=True):
            await self._run(noop, "noop", port)
        for number in range(self._plan.processes):
            await self._start_sidecar(number)
        ports = EnvoyPorts(
            listener=self.ports[PRODUCT],
            admin=free_port(),
            memory_sidecar=f"{LOOPBACK}:{self._product_ports[0]}",
            memory_api=self._api_port,
            llm=f"http://{LOOPBACK}:{self._upstream_port}/v1",
        )
        self._exit.push_async_callback(self._envoy.stop)
        await launch_envoy(
            self._envoy, self._plan.directory / "envoy.yaml", "two-filter.yaml", ports, self._with_chains
        )

    async def _run(self, process: Process, module: str, port: int) -> None:
        self._exit.push_async_callback(process.stop)
        await process.start([sys.executable, "-m", f"{_MODULE}.{module}", str(port)])
        await process.ready(lambda: _accepts(port), timeout_seconds=_START_SECONDS)

    async def _start_sidecar(self, number: int) -> None:
        process, url = self._sidecars[number], self.operator_urls[number]
        path = self._plan.directory / f"sidecar-{number}.yaml"
        path.write_text(yaml.safe_dump(self._settings(number)), encoding="utf-8")
        self._exit.push_async_callback(process.stop)
        await process.start([sys.executable, "-m", "semrouter_memory", "serve", "--config", str(path)])
        await process.ready(lambda: _is_ready(url), timeout_seconds=_READY_SECONDS)

    def _settings(self, number: int) -> dict[str, Any]:
        api = self._api_port if number == 0 else free_port()
        return {
            "memory": {
                "data_dir": str(self._plan.data),
                "embedding": {"path": str(self._plan.model)},
                **self._plan.memory,
            },
            "server": {"listen": f"{LOOPBACK}:{self._product_ports[number]}"},
            "management": {
                "listen": f"{LOOPBACK}:{api}",
                "operator_listen": self.operator_urls[number].removeprefix("http://"),
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
        noop = copy.deepcopy(clusters[_PRODUCT_CLUSTER]) | {"name": _NOOP_CLUSTER}
        _set_endpoints(noop, self._noop_ports)
        _set_endpoints(clusters[_PRODUCT_CLUSTER], self._product_ports)
        resources["clusters"].append(noop)
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


def _set_endpoints(cluster: dict[str, Any], ports: Sequence[int]) -> None:
    cluster["load_assignment"] = {
        "cluster_name": cluster["name"],
        "endpoints": [
            {
                "lb_endpoints": [
                    {"endpoint": {"address": {"socket_address": {"address": LOOPBACK, "port_value": port}}}}
                    for port in ports
                ]
            }
        ],
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
