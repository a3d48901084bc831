"""The input of the checks: both configurations. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from semrouter_memory.config import Config
from semrouter_memory.doctor.address import Address, of_setting
from semrouter_memory.doctor.filter_chains import (
    API_PATH,
    AppliedFilter,
    GatewayRoute,
    HttpFilterChain,
    MemoryFilter,
    chains_of,
    clusters_of,
)
from semrouter_memory.doctor.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """One sidecar, and the Envoy in front of it.

    Attributes:
        config_given: whether the sidecar's settings were given; otherwise Envoy may mean another sidecar than the defaults.
        secret: what Envoy must send; None when none is configured.
        bootstrap: a missing node when only the sidecar is checked.
    """

    config: Config
    config_given: bool = True
    secret: str | None = field(default=None, repr=False)
    bootstrap: Node = field(default_factory=lambda: Node(None))
    chains: tuple[HttpFilterChain, ...] = ()
    clusters: Mapping[str, Node] = field(default_factory=dict)

    @property
    def memory_chains(self) -> list[HttpFilterChain]:
        return [chain for chain in self.chains if chain.memory]

    @property
    def guarded_chains(self) -> list[HttpFilterChain]:
        """The chains through which a user's memories can be reached."""
        return [chain for chain in self.chains if chain.memory or self.api_routes(chain)]

    @property
    def memory_filters(self) -> Iterator[MemoryFilter]:
        for chain in self.chains:
            yield from chain.memory

    @property
    def applied(self) -> Iterator[AppliedFilter]:
        for chain in self.chains:
            yield from chain.applied

    @property
    def memory_clusters(self) -> list[Node]:
        """The clusters that memory filters call."""
        names = {each.cluster for each in self.applied}
        return [self.clusters[name] for name in sorted(names) if name in self.clusters]

    @property
    def deadline_seconds(self) -> float:
        """How long recall may take."""
        recall = self.config.memory.recall
        rewrites = any(model.model_role == "memory_rewrite" for model in self.config.external_models)
        return (recall.deadline_ms + (recall.rewrite_deadline_ms if rewrites else 0)) / 1000

    @property
    def listen(self) -> Address | None:
        return of_setting(self.config.server.listen)

    def cluster(self, name: str) -> Node:
        return self.clusters.get(name, Node(None))

    def api_routes(self, chain: HttpFilterChain) -> list[GatewayRoute]:
        """The routes at which requests to the management API end: neither LLM routes nor the catch-all beside them."""
        paths = (API_PATH, f"{API_PATH}/x")
        routes = {route.place.path: route for path in paths for route in chain.matching_routes("GET", path)}
        return [route for route in routes.values() if _names_api(route.match)]

    def api_clusters(self) -> list[str]:
        """The names of the clusters that routes to the management API lead to."""
        return sorted({name for chain in self.chains for route in self.api_routes(chain) for name in route.clusters})


def context_of(bootstrap: Node, config: Config, *, config_given: bool, secret: str | None) -> CheckContext:
    return CheckContext(
        config=config,
        config_given=config_given,
        secret=secret,
        bootstrap=bootstrap,
        chains=chains_of(bootstrap, of_setting(config.server.listen)),
        clusters=clusters_of(bootstrap),
    )


def _names_api(match: Node) -> bool:
    if "memory" in match.get("safe_regex", "regex").text:
        return True
    return any(API_PATH in match.get(name).text for name in ("path_separated_prefix", "prefix", "path"))
