"""Everything that is measured, up at the same time.

One Envoy with a listener for each chain, a fast upstream, the no-op service, and the product.

Strategy: the chains are the shipped one on the same Envoy process. What differs between two of them is what is measured:
no memory filters, the no-op service behind them, the product behind them, a setting of the route.
"""

import asyncio
import copy
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx

from bench import noop, upstream
from bench.figures import ALONE, NOOP, PRODUCT
from bench.workload import key_of
from semrouter_memory.stack.envoy import StackOptions
from semrouter_memory.stack.loopback import LOOPBACK, free_port
from semrouter_memory.stack.stack import Process, Stack

_PRODUCT_CLUSTER, _NOOP_CLUSTER = "memory_sidecar", "noop"
_START_SECONDS = 20


class Installation(Stack):
    """All of it, together.

    Args:
        data: the product's data directory.
        users: whose keys Envoy knows.
        memory: further settings of the section `memory`.
        routes: further chains with the product: name -> gRPC metadata of the route.
        processes: of the product.

    Attributes:
        ports: of Envoy's listeners, by chain.
    """

    def __init__(
        self,
        *,
        model: Path,
        directory: Path,
        data: Path,
        users: Iterable[str],
        memory: Mapping[str, Any] | None = None,
        routes: Mapping[str, Mapping[str, str]] | None = None,
        processes: int = 1,
    ) -> None:
        self._users, self._routes = tuple(users), routes or {}
        self._upstream_port, self._noop_port = free_port(), free_port()
        self.ports = {name: free_port() for name in (ALONE, NOOP, PRODUCT, *self._routes)}
        super().__init__(
            StackOptions(
                directory=directory,
                model_directory=model,
                llm=f"http://{LOOPBACK}:{self._upstream_port}/v1",
                ports={"port": self.ports[PRODUCT]},
                sidecar_config={
                    "memory": {"data_dir": str(data), **(memory or {})},
                    "server": {"processes": processes},
                },
                edit_envoy=self._with_chains,
            )
        )
        self._upstream = Process("the upstream", directory / "upstream.log")
        self._noop = Process("the no-op service", directory / "noop.log")

    # -- what is known of it -------------------------------------------------------------------------------------------

    def service(self, chain: str) -> tuple[int, ...]:
        """The process ids of what stands behind a chain's filters."""
        if chain == ALONE:
            return ()
        return ((self._noop if chain == NOOP else self.sidecar).pid,)

    async def seen(self) -> tuple[int, int]:
        """Requests that reached the upstream, and how many had memories in them."""
        async with httpx.AsyncClient(timeout=10) as client:
            told = (await client.get(f"http://{LOOPBACK}:{self._upstream_port}/seen")).json()
        return int(told["requests"]), int(told["with_memory"])

    # -- starting ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        await self._run(self._upstream, upstream, self._upstream_port)
        await self._run(self._noop, noop, self._noop_port)
        await super().start()

    async def _run(self, process: Process, module: ModuleType, port: int) -> None:
        self.push_async_callback(process.stop)
        # By its file, without its directory on the path: the working directory may be any.
        await process.start([sys.executable, "-P", str(module.__file__), str(port)])
        await process.ready(lambda: _accepts(port), timeout_seconds=_START_SECONDS)

    # -- Envoy's configuration -----------------------------------------------------------------------------------------

    def _with_chains(self, config: dict[str, Any]) -> None:
        resources = config["static_resources"]
        (shipped,) = resources["listeners"]
        _manager(shipped)["http_filters"][0]["typed_config"]["credentials"] = [
            {"key": key_of(user), "client": user} for user in self._users
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
        elif name in self._routes:
            metadata = self._routes[name]
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
