"""The gateway that a bootstrap describes: HTTP filter chains, their routes, and the memory filters as they work there. Pure.

Strategy: one walk over the configuration finds all of it, and the checks read the result. The configuration of a filter on a
route is the filter's own with the overrides of route configuration, virtual host and route on top, merged as Envoy does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from semrouter_memory.doctor.address import Address, of_endpoint, reaches
from semrouter_memory.doctor.matching import matching
from semrouter_memory.doctor.node import Node, first
from semrouter_memory.doctor.rules import BODY_MODES

CHAT_PATHS = ("/v1/chat/completions", "/v1/responses")
API_PATH = "/v1/memory"
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
    """An ext_proc filter that calls the sidecar, by itself or as it works on a route.

    Attributes:
        index: its position in the chain.
        overrides: the route's entries for this filter, the least specific first.
    """

    entry: Node
    index: int
    role: FilterRole
    overrides: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        return self.entry.get("name").text

    @property
    def is_enabled(self) -> bool:
        return is_enabled(self.entry, self.overrides[-1] if self.overrides else Node(None))

    @property
    def service(self) -> Node:
        return self.setting("grpc_service")

    @property
    def cluster(self) -> str:
        return cluster_named(self.service)

    @property
    def metadata(self) -> dict[str, str]:
        """The initial metadata that it sends, names in lower case."""
        pairs = [*self.service.items("initial_metadata")]
        for override in self.overrides:
            pairs += per_route(override).get("overrides").items("grpc_initial_metadata")
        return {pair.get("key").text.lower(): pair.get("value").text for pair in pairs}

    def setting(self, name: str, *below: str) -> Node:
        """A field of the configuration: the most specific override of it, else the filter's own, as a whole."""
        overrides = [per_route(override).get("overrides", name) for override in reversed(self.overrides)]
        return first([*overrides, config_of(self.entry).get(name)]).get(*below)

    def body_mode(self, side: str) -> str:
        return self.setting("processing_mode", f"{side}_body_mode").choice(BODY_MODES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRoute:
    """A route with its surroundings.

    Attributes:
        levels: from the least specific level to the route itself, or to one of its weighted clusters that overrides more.
        memory: the memory filters as they work here.
    """

    node: Node
    levels: tuple[Node, ...]
    memory: tuple[MemoryFilter, ...] = ()

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
    def enabled(self) -> list[MemoryFilter]:
        return [each for each in self.memory if each.is_enabled]

    @property
    def request_modes(self) -> set[str]:
        """The modes in which memory filters get request bodies."""
        return {each.body_mode("request") for each in self.enabled}

    @property
    def clusters(self) -> list[str]:
        """The clusters that the route leads to."""
        weighted = [first((each.get("name"), each.get("cluster"))) for each in _weighted(self.node)]
        return [target.text for target in weighted or [self.action.get("cluster")] if target.text]

    def overrides_for(self, entry: Node) -> list[Node]:
        """The overrides for a filter, the least specific first."""
        entries = (level.entries(_PER_FILTER).get(entry.get("name").text) for level in self.levels)
        return [override for override in entries if override is not None]

    def override_for(self, entry: Node) -> Node:
        """The most specific override for a filter."""
        return [Node(None), *self.overrides_for(entry)][-1]

    def runs(self, entry: Node) -> bool:
        """Whether a filter is enabled here."""
        return is_enabled(entry, self.override_for(entry))

    def headers_to_add(self) -> list[Node]:
        """The headers that the route adds to requests after all filters."""
        return [option.get("header") for level in self.levels for option in level.items("request_headers_to_add")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFilterChain:
    """One HTTP connection manager.

    Attributes:
        memory: the memory filters as they are configured without any route.
        hosts: the routes of each virtual host.
    """

    listener: Node
    manager: Node
    filters: tuple[Node, ...]
    memory: tuple[MemoryFilter, ...]
    hosts: tuple[tuple[GatewayRoute, ...], ...] = field(repr=False)

    @property
    def observing(self) -> list[MemoryFilter]:
        return [each for each in self.memory if each.role is FilterRole.RETAIN]

    @property
    def handling(self) -> list[MemoryFilter]:
        return [each for each in self.memory if each.role is not FilterRole.RETAIN]

    @property
    def bare(self) -> GatewayRoute:
        """Stands for routes that are not in the file: all filters work as they are configured themselves."""
        place = Node(None, self.manager.get("http_filters").path)
        return GatewayRoute(node=Node(None), levels=(place,), memory=self.memory)

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
    def routes(self) -> list[GatewayRoute]:
        return [route for host in self.hosts for route in host]

    @property
    def applied(self) -> Iterator[MemoryFilter]:
        """The memory filters as they are, then as routes override them."""
        yield from self.memory
        for route in self.routes:
            yield from (each for each in route.enabled if each.overrides)

    @property
    def chat_routes(self) -> list[GatewayRoute]:
        found = {route.place.path: route for path in CHAT_PATHS for route in self.matching_routes("POST", path)}
        return list(found.values())

    @property
    def api_routes(self) -> list[GatewayRoute]:
        """The routes at which requests to the management API end: neither LLM routes nor the catch-all."""
        paths = (API_PATH, f"{API_PATH}/x")
        routes = {route.place.path: route for path in paths for route in self.matching_routes("GET", path)}
        return [route for route in routes.values() if _names_api(route.match)]

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


def chains_of(bootstrap: Node, clusters: Mapping[str, Node], listen: Address | None) -> tuple[HttpFilterChain, ...]:
    """The chains of a bootstrap.

    Args:
        listen: the sidecar's address; a filter that calls it is for memory, whatever its name.
    """
    managers = list(_managers(bootstrap))
    entries = [entry for _, manager in managers for entry in manager.items("http_filters")]
    processors = [entry for entry in entries if config_of(entry).kind == PROCESSOR]
    memory = frozenset(entry.path for entry in _for_memory(processors, clusters, listen))
    return tuple(_chain(listener, manager, memory) for listener, manager in managers)


def _managers(bootstrap: Node) -> Iterator[tuple[Node, Node]]:
    """Every HTTP connection manager with its listener."""
    for listener in bootstrap.get("static_resources").items("listeners"):
        for chain in [*listener.items("filter_chains"), listener.get("default_filter_chain")]:
            for entry in chain.items("filters"):
                if (manager := entry.get("typed_config")).kind == "HttpConnectionManager":
                    yield listener, manager


def _for_memory(processors: Sequence[Node], clusters: Mapping[str, Node], listen: Address | None) -> Sequence[Node]:
    """The memory filters: those with the name, or the cluster of one with it; else those that call the sidecar; else all.

    Where names tell, addresses do not count: another processor may have a port of the same number on another host.
    """
    called = {each.path: cluster_named(config_of(each).get("grpc_service")) for each in processors}
    named = [each for each in processors if "memory" in f"{each.get('name').text} {called[each.path]}".lower()]
    theirs = {called[each.path] for each in named} - {""}
    addresses = {name: [address for _, address in endpoints_of(cluster)] for name, cluster in clusters.items()}
    calling = [
        each
        for each in processors
        if listen and any(reaches(address, listen) for address in addresses.get(called[each.path], ()))
    ]
    return [each for each in processors if each in named or called[each.path] in theirs] or calling or processors


def _chain(listener: Node, manager: Node, memory_paths: frozenset[str]) -> HttpFilterChain:
    filters = tuple(manager.items("http_filters"))
    found = [(index, entry) for index, entry in enumerate(filters) if entry.path in memory_paths]
    roles = _roles([entry for _, entry in found])
    memory = tuple(
        MemoryFilter(entry=entry, index=index, role=role) for (index, entry), role in zip(found, roles, strict=True)
    )
    config = manager.get("route_config")
    hosts = tuple(
        tuple(
            _route(route, levels, memory) for route in host.items("routes") for levels in _levels(config, host, route)
        )
        for host in config.items("virtual_hosts")
    )
    return HttpFilterChain(listener=listener, manager=manager, filters=filters, memory=memory, hosts=hosts)


def _route(node: Node, levels: tuple[Node, ...], memory: Sequence[MemoryFilter]) -> GatewayRoute:
    bare = GatewayRoute(node=node, levels=levels)
    memory = [replace(each, overrides=tuple(bare.overrides_for(each.entry))) for each in memory]
    return replace(bare, memory=tuple(memory))


def _roles(entries: Sequence[Node]) -> list[FilterRole]:
    """The intended role of each filter; the checks tell whether it fulfils it."""
    observing = [bool(config_of(entry).get("observability_mode").flag) for entry in entries]
    modes = [config_of(entry).get("processing_mode") for entry in entries]
    if observing == [False]:
        reads_answers = not modes[0] or modes[0].get("response_body_mode").choice(BODY_MODES) != "NONE"
        return [FilterRole.BOTH if reads_answers else FilterRole.RECALL]
    if len(entries) > 1 and len(set(observing)) == 1:
        # All the same: one of them is misconfigured, and its body mode tells which.
        observing = [mode.get("request_body_mode").choice(BODY_MODES) == "STREAMED" for mode in modes]
    return [FilterRole.RETAIN if each else FilterRole.RECALL for each in observing]


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


def _names_api(match: Node) -> bool:
    if "memory" in match.get("safe_regex", "regex").text:
        return True
    return any(API_PATH in match.get(name).text for name in ("path_separated_prefix", "prefix", "path"))
