"""HTTP filter chains, the memory filters in them, and the configuration that applies on each route. Pure.

Strategy: the configuration of a filter on a route is the filter's own with the overrides of route configuration, virtual host
and route on top, merged as Envoy merges them. Checks see only the merged `AppliedFilter`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from semrouter_memory.doctor.address import Address, of_endpoint, reaches
from semrouter_memory.doctor.matching import matching
from semrouter_memory.doctor.node import Node, first

CHAT_PATHS = ("/v1/chat/completions", "/v1/responses")
API_PATH = "/v1/memory"
BODY_MODES = ("NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED", "GRPC")
HEADER_MODES = ("DEFAULT", "SEND", "SKIP")
PROCESSOR = "ExternalProcessor"
_PER_FILTER = "typed_per_filter_config"


class FilterRole(StrEnum):
    RETAIN = "retain"
    """Only receives copies, in observability mode."""
    RECALL = "recall"
    """Handles the request alone."""
    BOTH = "both"
    """The only memory filter of its chain: handles request and answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """An ext_proc filter that calls the sidecar."""

    name: str
    index: int
    entry: Node
    config: Node
    role: FilterRole


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFilter:
    """A memory filter as it works on a route.

    Attributes:
        overrides: the route's entries for this filter, the least specific first.
        metadata: the initial metadata that it sends, names in lower case.
    """

    filter: MemoryFilter
    overrides: tuple[Node, ...]
    enabled: bool
    mode: Node
    service: Node
    metadata: Mapping[str, str]
    failure_mode_allow: Node
    namespaces: frozenset[str]

    @property
    def name(self) -> str:
        return self.filter.name

    @property
    def cluster(self) -> str:
        return cluster_named(self.service)

    def body_mode(self, side: str) -> str:
        return self.mode.get(f"{side}_body_mode").choice(BODY_MODES)

    def skips_headers(self, side: str) -> bool:
        return self.mode.get(f"{side}_header_mode").choice(HEADER_MODES) == "SKIP"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRoute:
    """A route with its surroundings.

    Attributes:
        levels: from the least specific level to the route itself, or to one of its weighted clusters that overrides more.
    """

    node: Node
    levels: tuple[Node, ...]
    applied: tuple[AppliedFilter, ...] = ()

    @property
    def place(self) -> Node:
        """The most specific level."""
        return self.levels[-1]

    @property
    def name(self) -> str:
        return self.node.get("name").text

    @property
    def match(self) -> Node:
        return self.node.get("match")

    @property
    def action(self) -> Node:
        return self.node.get("route")

    @property
    def has_memory(self) -> bool:
        return any(each.enabled for each in self.applied)

    @property
    def request_modes(self) -> set[str]:
        """The modes in which memory filters get request bodies."""
        return {each.body_mode("request") for each in self.applied if each.enabled}

    @property
    def targets(self) -> list[Node]:
        """The names of the clusters that the route leads to."""
        weighted = [first((each.get("name"), each.get("cluster"))) for each in _weighted(self.node)]
        return [target for target in weighted or [self.action.get("cluster")] if target.text]

    @property
    def clusters(self) -> list[str]:
        return [target.text for target in self.targets]

    def override_for(self, entry: Node) -> Node:
        """The most specific override for a filter."""
        name = entry.get("name").text
        return first([*(level.entries(_PER_FILTER).get(name, Node(None)) for level in reversed(self.levels))])

    def runs(self, entry: Node) -> bool:
        """Whether a filter is enabled here."""
        return is_enabled(entry, self.override_for(entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFilterChain:
    """One HTTP connection manager.

    Attributes:
        base: the memory filters as they are configured without any route.
        hosts: the routes of each virtual host.
    """

    listener: Node
    manager: Node
    filters: tuple[Node, ...]
    memory: tuple[MemoryFilter, ...]
    base: tuple[AppliedFilter, ...]
    hosts: tuple[tuple[GatewayRoute, ...], ...] = field(repr=False)

    @property
    def observing(self) -> list[MemoryFilter]:
        return [each for each in self.memory if each.role is FilterRole.RETAIN]

    @property
    def handling(self) -> list[MemoryFilter]:
        return [each for each in self.memory if each.role is not FilterRole.RETAIN]

    @property
    def first_memory(self) -> int:
        """The index of the first memory filter; that of the end in a chain without any."""
        return min((each.index for each in self.memory), default=len(self.filters))

    @property
    def others(self) -> list[tuple[int, Node]]:
        """The filters that are not for memory, with their indexes."""
        memory = {each.index for each in self.memory}
        return [(index, entry) for index, entry in enumerate(self.filters) if index not in memory]

    @property
    def routes(self) -> Iterator[GatewayRoute]:
        for host in self.hosts:
            yield from host

    @property
    def levels(self) -> list[Node]:
        """Every level of the routes once."""
        return list({level.path: level for route in self.routes for level in route.levels}.values())

    @property
    def applied(self) -> Iterator[AppliedFilter]:
        """The memory filters as they are, then as routes override them."""
        yield from self.base
        for route in self.routes:
            yield from (each for each in route.applied if each.overrides and each.enabled)

    @property
    def chat_routes(self) -> list[GatewayRoute]:
        found = {route.place.path: route for path in CHAT_PATHS for route in self.matching_routes("POST", path)}
        return list(found.values())

    def matching_routes(self, method: str, path: str) -> list[GatewayRoute]:
        """The routes at which such a request may end, in any virtual host."""
        found: list[GatewayRoute] = []
        for host in self.hosts:
            paths = {node.path for node in matching((route.node for route in host), method, path)}
            found += [route for route in host if route.node.path in paths]
        return found


def clusters_of(bootstrap: Node) -> dict[str, Node]:
    return {cluster.get("name").text: cluster for cluster in bootstrap.get("static_resources").items("clusters")}


def endpoints_of(cluster: Node) -> list[tuple[Node, Address]]:
    """A cluster's endpoints."""
    groups = cluster.get("load_assignment").items("endpoints")
    nodes = [entry.get("endpoint", "address") for group in groups for entry in group.items("lb_endpoints")]
    return [(node, address) for node in nodes if (address := of_endpoint(node)) is not None]


def cluster_named(service: Node) -> str:
    return service.get("envoy_grpc", "cluster_name").text


def config_of(entry: Node) -> Node:
    """The configuration of an HTTP filter, without a matcher around it."""
    config = entry.get("typed_config")
    return config.get("extension_config", "typed_config") if config.kind == "ExtensionWithMatcher" else config


def is_enabled(entry: Node, override: Node) -> bool:
    """Whether a filter works under its most specific override."""
    nodes = (override, per_route(override)) if override else (entry,)
    return not any(node.get("disabled").flag for node in nodes)


def per_route(override: Node) -> Node:
    """An override without the FilterConfig around it."""
    return override.get("config") if override.kind == "FilterConfig" else override


def chains_of(bootstrap: Node, listen: Address | None) -> tuple[HttpFilterChain, ...]:
    """The chains of a bootstrap.

    Args:
        listen: the sidecar's address; a filter that calls it is for memory, whatever its name.
    """
    managers = list(_managers(bootstrap))
    processors = [
        entry
        for _, manager in managers
        for entry in manager.items("http_filters")
        if config_of(entry).kind == PROCESSOR
    ]
    memory = _memory_paths(processors, clusters_of(bootstrap), listen)
    return tuple(_chain(listener, manager, memory) for listener, manager in managers)


def calls_sidecar(config: Node, clusters: Mapping[str, Node], listen: Address | None) -> bool:
    """Whether an ext_proc filter's cluster leads to the sidecar's address."""
    endpoints = endpoints_of(clusters.get(cluster_named(config.get("grpc_service")), Node(None)))
    return listen is not None and any(reaches(address, listen) for _, address in endpoints)


def _managers(bootstrap: Node) -> Iterator[tuple[Node, Node]]:
    """Every HTTP connection manager with its listener."""
    for listener in bootstrap.get("static_resources").items("listeners"):
        for chain in [*listener.items("filter_chains"), listener.get("default_filter_chain")]:
            for entry in chain.items("filters"):
                if (manager := entry.get("typed_config")).kind == "HttpConnectionManager":
                    yield listener, manager


def _memory_paths(processors: Sequence[Node], clusters: Mapping[str, Node], listen: Address | None) -> frozenset[str]:
    """The paths of the memory filters: by their addresses, else by their names; if neither tells, all of them."""
    found = {
        entry.path
        for entry in processors
        if calls_sidecar(config_of(entry), clusters, listen)
        or "memory" in f"{entry.get('name').text} {cluster_named(config_of(entry).get('grpc_service'))}".lower()
    }
    return frozenset(found or (entry.path for entry in processors))


def _chain(listener: Node, manager: Node, memory_paths: frozenset[str]) -> HttpFilterChain:
    entries = tuple(manager.items("http_filters"))
    found = [(index, entry) for index, entry in enumerate(entries) if entry.path in memory_paths]
    roles = _roles([entry.get("name").text for _, entry in found], [config_of(entry) for _, entry in found])
    memory = tuple(
        MemoryFilter(name=entry.get("name").text, index=index, entry=entry, config=config_of(entry), role=role)
        for (index, entry), role in zip(found, roles, strict=True)
    )
    config = manager.get("route_config")
    return HttpFilterChain(
        listener=listener,
        manager=manager,
        filters=entries,
        memory=memory,
        base=tuple(_apply(each, ()) for each in memory),
        hosts=tuple(
            tuple(
                GatewayRoute(node=route, levels=levels, applied=tuple(_apply(each, levels) for each in memory))
                for route in host.items("routes")
                for levels in _levels(config, host, route)
            )
            for host in config.items("virtual_hosts")
        ),
    )


def _roles(names: list[str], configs: list[Node]) -> list[FilterRole]:
    """The intended role of each filter; the checks tell whether it fulfils it."""
    observing = [bool(config.get("observability_mode").flag) for config in configs]
    if len(configs) == 1 and not observing[0]:
        return [FilterRole.BOTH if _reads_answers(configs[0]) else FilterRole.RECALL]
    if len(configs) > 1 and len(set(observing)) == 1:
        # All the same: one of them is misconfigured, and its name or its body mode tells which.
        observing = [_sounds_like_retain(*each) for each in zip(names, configs, strict=True)]
    return [FilterRole.RETAIN if each else FilterRole.RECALL for each in observing]


def _sounds_like_retain(name: str, config: Node) -> bool:
    if "retain" in name or "recall" in name:
        return "retain" in name
    return config.get("processing_mode", "request_body_mode").choice(BODY_MODES) == "STREAMED"


def _reads_answers(config: Node) -> bool:
    mode = config.get("processing_mode")
    return not mode or mode.get("response_body_mode").choice(BODY_MODES) != "NONE"


def _levels(config: Node, host: Node, route: Node) -> Iterator[tuple[Node, ...]]:
    """The levels of a route; once more for each weighted cluster that overrides a filter or removes headers."""
    weighted = _weighted(route)
    special = [each for each in weighted if each.get(_PER_FILTER) or each.get("request_headers_to_remove")]
    if not special or len(special) < len(weighted):
        yield config, host, route
    for each in special:
        yield config, host, route, each


def _weighted(route: Node) -> list[Node]:
    return route.get("route", "weighted_clusters").items("clusters")


def _apply(each: MemoryFilter, levels: Iterable[Node]) -> AppliedFilter:
    overrides = [level.entries(_PER_FILTER)[each.name] for level in levels if each.name in level.entries(_PER_FILTER)]
    details = [per_route(override).get("overrides") for override in overrides]
    configs = [*reversed(details), each.config]
    service = first([config.get("grpc_service") for config in configs])
    options = first([config.get("metadata_options") for config in configs])
    return AppliedFilter(
        filter=each,
        overrides=tuple(overrides),
        enabled=is_enabled(each.entry, overrides[-1] if overrides else Node(None)),
        mode=first([config.get("processing_mode") for config in configs]),
        service=service,
        metadata=_metadata(service, details),
        failure_mode_allow=first([config.get("failure_mode_allow") for config in configs]),
        namespaces=frozenset(options.get("forwarding_namespaces").texts("untyped")),
    )


def _metadata(service: Node, details: Iterable[Node]) -> dict[str, str]:
    pairs = [*service.items("initial_metadata")]
    for detail in details:
        pairs += detail.items("grpc_initial_metadata")
    return {pair.get("key").text.lower(): pair.get("value").text or pair.get("raw_value").decoded for pair in pairs}
