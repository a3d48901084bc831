"""The gateway that a bootstrap describes: filter chains, routes, the memory filters on them, and where clusters lead. Pure.

Strategy: one walk over the configuration finds all of it, and the checks read the result. The configuration of a filter on a
route is the filter's own with the overrides of route configuration, virtual host and route on top, merged as Envoy does.
"""

import ipaddress
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from semrouter_memory.codec import codec_for
from semrouter_memory.doctor.finding import BODY_MODES
from semrouter_memory.doctor.node import Node, first, matching, start_of_paths
from semrouter_memory.sockets import is_local, unix_path

CHAT_PATHS = ("/v1/chat/completions", "/v1/responses")
API_PATH = "/v1/memory"
API_PATHS = (API_PATH, f"{API_PATH}/x")
"""The list, and one memory."""
PROCESSOR = "ExternalProcessor"
_PER_FILTER = "typed_per_filter_config"
_ANY = {"": "127.0.0.1", "*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
"""Hosts that stand for all of a machine's addresses, each with one that can be connected to."""


# -- addresses, in the sidecar's settings and in clusters ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """A socket's path, or host and port."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_any(self) -> bool:
        return not self.path and self.host in _ANY

    @property
    def connectable(self) -> "Address":
        """The address to connect to."""
        return Address(host=_ANY[self.host], port=self.port) if self.is_any else self

    @property
    def is_literal(self) -> bool:
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True


def of_setting(listen: str) -> Address | None:
    """The address of a `listen` setting; None when it is no address."""
    if path := unix_path(listen):
        return Address(path=_normal(str(path)))
    host, _, port = listen.rpartition(":")
    return Address(host=host.strip("[]"), port=int(port)) if port.isdecimal() else None


def of_endpoint(address: Node) -> Address | None:
    """The address of a cluster's endpoint; None when nothing can be connected to."""
    if pipe := address.get("pipe"):
        return Address(path=_normal(pipe.get("path").text))
    socket = address.get("socket_address")
    port = socket.get("port_value").number
    return Address(host=socket.get("address").text, port=port) if port else None


def reaches(endpoint: Address, listen: Address) -> bool:
    """Whether a connection to the endpoint arrives at the listener, as far as names tell: a name may be this machine's."""
    if endpoint.path or listen.path:
        return bool(endpoint.path and listen.path) and _same_path(endpoint.path, listen.path)
    if endpoint.port != listen.port and listen.port:
        return False
    if endpoint.host == listen.host or listen.is_any:
        return True
    local = {is_local(str(endpoint)), is_local(str(listen))}
    if True in local:
        return False not in local
    return not (listen.is_literal and endpoint.is_literal)


def _same_path(endpoint: str, listen: str) -> bool:
    """A relative path depends on where the sidecar is started."""
    return endpoint == listen or (not listen.startswith("/") and endpoint.endswith(f"/{listen}"))


def _normal(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path) if path else ""


# -- filters, routes and chains -----------------------------------------------------------------------------------------


class FilterRole(StrEnum):
    RETAIN = "retain"
    """Only receives copies, in observability mode."""
    RECALL = "recall"
    """Handles the request alone."""
    BOTH = "both"
    """The only memory filter of its chain: handles request and answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFilter:
    """An HTTP filter, by itself or as it works on a route.

    Attributes:
        index: its position in the chain.
        role: of an ext_proc filter that calls the sidecar; None: it is another filter.
        given: the route's entries for this filter, the least specific first.
    """

    entry: Node
    index: int = 0
    role: FilterRole | None = None
    given: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        return self.entry.get("name").text

    @property
    def config(self) -> Node:
        """Its own configuration, without a matcher around it."""
        config = self.entry.get("typed_config")
        return config.get("extension_config", "typed_config") if config.kind == "ExtensionWithMatcher" else config

    @property
    def overrides(self) -> list[Node]:
        """What is given, the most specific first, without the FilterConfig around it."""
        return [each.get("config") if each.kind == "FilterConfig" else each for each in reversed(self.given)]

    @property
    def override(self) -> Node:
        """The most specific override."""
        return [*self.overrides, Node(None)][0]

    @property
    def is_enabled(self) -> bool:
        return not any(
            node.get("disabled").flag for node in ([self.given[-1], self.override] if self.given else [self.entry])
        )

    @property
    def service(self) -> Node:
        return self.setting("grpc_service")

    @property
    def cluster(self) -> str:
        return self.service.get("envoy_grpc", "cluster_name").text

    @property
    def metadata_entries(self) -> dict[str, Node]:
        """The initial metadata that it sends by their names in lower case."""
        pairs = [*self.service.items("initial_metadata")]
        for override in reversed(self.overrides):
            pairs += override.get("overrides").items("grpc_initial_metadata")
        return {pair.get("key").text.lower(): pair for pair in pairs if not pair.get("raw_value")}

    @property
    def metadata(self) -> dict[str, str]:
        return {name: pair.get("value").text for name, pair in self.metadata_entries.items()}

    def setting(self, name: str, *below: str) -> Node:
        """A field of the configuration: the most specific override of it, else the filter's own, as a whole."""
        overrides = [override.get("overrides", name) for override in self.overrides]
        return first([*overrides, self.config.get(name)]).get(*below)

    def body_mode(self, side: str) -> str:
        return self.setting("processing_mode", f"{side}_body_mode").choice(BODY_MODES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRoute:
    """A route with its surroundings; of a route that shares its requests out among clusters, one share.

    Attributes:
        levels: the route configuration, the virtual host, the route itself, and the cluster of a share.
        filters: all filters of the chain as they work here.
    """

    node: Node
    levels: tuple[Node, ...]
    filters: tuple[HttpFilter, ...]

    @property
    def path(self) -> str:
        """Tells it apart from all others."""
        return self.levels[-1].path

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
    def memory(self) -> list[HttpFilter]:
        return [each for each in self.filters if each.role]

    @property
    def enabled(self) -> list[HttpFilter]:
        return [each for each in self.memory if each.is_enabled]

    @property
    def request_modes(self) -> set[str]:
        """The modes in which memory filters get request bodies."""
        return {each.body_mode("request") for each in self.enabled}

    @property
    def clusters(self) -> list[str]:
        share = self.levels[-1] if self.action.get("weighted_clusters") else Node(None)
        target = share.get("name").text or self.action.get("cluster").text
        return [target] if target else []

    @property
    def names_api(self) -> bool:
        """Whether it is meant for the management API."""
        named = any(API_PATH in self.match.get(name).text for name in ("path_separated_prefix", "prefix", "path"))
        return named or "memory" in self.match.get("safe_regex", "regex").text

    def headers_to_add(self) -> list[Node]:
        """The headers that the route adds to requests after all filters."""
        return [option.get("header") for level in self.levels for option in level.items("request_headers_to_add")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFilterChain:
    """One HTTP connection manager.

    Attributes:
        filters: as they are configured without any route.
        hosts: the routes of each virtual host.
        api_clusters: where the management API's routes lead to, of any chain.
    """

    listener: Node
    manager: Node
    filters: tuple[HttpFilter, ...]
    hosts: tuple[tuple[GatewayRoute, ...], ...] = field(repr=False)
    api_clusters: frozenset[str] = frozenset()

    @property
    def memory(self) -> list[HttpFilter]:
        return [each for each in self.filters if each.role]

    @property
    def handling(self) -> list[HttpFilter]:
        return [each for each in self.memory if each.role is not FilterRole.RETAIN]

    @property
    def bare(self) -> GatewayRoute:
        """Stands for routes that are not in the file: all filters work as they are configured themselves."""
        nowhere = Node(None, self.manager.get("http_filters").path)
        return GatewayRoute(node=nowhere, levels=(nowhere,), filters=self.filters)

    @property
    def first_memory(self) -> int:
        """The index of the first memory filter; that of the end in a chain without any."""
        return min((each.index for each in self.memory), default=len(self.filters))

    @property
    def routes(self) -> list[GatewayRoute]:
        return [route for host in self.hosts for route in host]

    @property
    def applied(self) -> Iterator[HttpFilter]:
        """The memory filters as they are, then as routes override them."""
        yield from self.memory
        for route in self.routes:
            yield from (each for each in route.enabled if each.given)

    @property
    def prefixes(self) -> list[str]:
        """What comes before `/v1` in the paths of LLM APIs here: nothing, and what routes with memory ask for.

        The sidecar looks at the end of a path alone, before a route rewrites it.
        """
        found = [_prefix(start) for start in self._starts if codec_for(start) is None]
        return list(dict.fromkeys(["", *(each for each in found if "v1" not in each.split("/"))]))

    @property
    def chat_paths(self) -> list[str]:
        """The paths of chats: the usual ones below each prefix, and those that routes with memory name, Azure's for example."""
        named = (start for start in self._starts if codec_for(start) is not None)
        return list(dict.fromkeys((*(prefix + path for prefix in self.prefixes for path in CHAT_PATHS), *named)))

    @property
    def _starts(self) -> list[str]:
        return [start_of_paths(route.match) for route in self.routes if route.enabled]

    @property
    def chat_routes(self) -> list[GatewayRoute]:
        found = {route.path: route for path in self.chat_paths for route in self.matching_routes("POST", path)}
        return list(found.values())

    @property
    def api_routes(self) -> list[GatewayRoute]:
        """The routes at which requests to the management API end: neither LLM routes nor the catch-all, but where it leads there."""
        named = [route for path in API_PATHS for route in self.matching_routes("GET", path) if route.names_api]
        leading = [route for route in self.routes if not self.api_clusters.isdisjoint(route.clusters)]
        return list({route.path: route for route in (*named, *leading)}.values())

    def matching_routes(self, method: str, path: str) -> list[GatewayRoute]:
        """The routes at which such a request may end, in any virtual host."""
        found: list[GatewayRoute] = []
        for host in self.hosts:
            paths = {node.path for node in matching((route.node for route in host), method, path)}
            found += [route for route in host if route.node.path in paths]
        return found


def _prefix(start: str) -> str:
    """What comes before the path of a chat in paths that begin so: `/openai` for `/openai/v1`."""
    lengths = [length for path in CHAT_PATHS for length in range(len(path) + 1) if start.endswith(path[:length])]
    return start[: len(start) - max(lengths)]


def clusters_of(bootstrap: Node) -> dict[str, Node]:
    return {cluster.get("name").text: cluster for cluster in bootstrap.get("static_resources").items("clusters")}


def endpoints_of(cluster: Node) -> list[tuple[Node, Address]]:
    groups = cluster.get("load_assignment").items("endpoints")
    nodes = [entry.get("endpoint", "address") for group in groups for entry in group.items("lb_endpoints")]
    return [(node, address) for node in nodes if (address := of_endpoint(node)) is not None]


def chains_of(bootstrap: Node, clusters: Mapping[str, Node], listen: Address | None) -> tuple[HttpFilterChain, ...]:
    """The chains of a bootstrap.

    Args:
        listen: the sidecar's address; a filter that calls it is for memory, whatever its name.
    """
    managers = list(_managers(bootstrap))
    filters = [HttpFilter(entry=entry) for _, manager in managers for entry in manager.items("http_filters")]
    processors = [each for each in filters if each.config.kind == PROCESSOR]
    memory = frozenset(each.entry.path for each in _for_memory(processors, clusters, listen))
    chains = tuple(_chain(listener, manager, memory) for listener, manager in managers)
    api = {name for chain in chains for route in chain.api_routes for name in route.clusters}
    models = {name for chain in chains if chain.memory for route in chain.chat_routes for name in route.clusters}
    return tuple(replace(chain, api_clusters=frozenset(api - models)) for chain in chains)


def _managers(bootstrap: Node) -> Iterator[tuple[Node, Node]]:
    """Every HTTP connection manager with its listener."""
    for listener in bootstrap.get("static_resources").items("listeners"):
        for chain in [*listener.items("filter_chains"), listener.get("default_filter_chain")]:
            for entry in chain.items("filters"):
                if (manager := entry.get("typed_config")).kind == "HttpConnectionManager":
                    yield listener, manager


def _for_memory(
    processors: Sequence[HttpFilter], clusters: Mapping[str, Node], listen: Address | None
) -> Sequence[HttpFilter]:
    """The memory filters: those with the name, or the cluster of one with it; else those that call the sidecar; else all.

    Where names tell, addresses do not count: another processor may have a port of the same number on another host.
    """
    theirs = {each.cluster for each in processors if "memory" in f"{each.name} {each.cluster}".lower()} - {""}
    called = {
        name
        for name, cluster in clusters.items()
        if listen and any(reaches(address, listen) for _, address in endpoints_of(cluster))
    }
    named = [each for each in processors if "memory" in each.name.lower() or each.cluster in theirs]
    return named or [each for each in processors if each.cluster in called] or processors


def _chain(listener: Node, manager: Node, memory_paths: frozenset[str]) -> HttpFilterChain:
    filters = [HttpFilter(entry=entry, index=index) for index, entry in enumerate(manager.items("http_filters"))]
    memory = [each for each in filters if each.entry.path in memory_paths]
    for each, role in zip(memory, _roles(memory), strict=True):
        filters[each.index] = replace(each, role=role)
    config = manager.get("route_config")
    hosts = tuple(
        tuple(each for route in host.items("routes") for each in _shares((config, host, route), filters))
        for host in config.items("virtual_hosts")
    )
    return HttpFilterChain(listener=listener, manager=manager, filters=tuple(filters), hosts=hosts)


def _shares(levels: tuple[Node, ...], filters: Sequence[HttpFilter]) -> Iterator[GatewayRoute]:
    shares = levels[-1].get("route", "weighted_clusters").items("clusters")
    for ways in [(*levels, share) for share in shares] or [levels]:
        yield _route(levels[-1], ways, filters)


def _route(node: Node, levels: tuple[Node, ...], filters: Sequence[HttpFilter]) -> GatewayRoute:
    entries = [level.entries(_PER_FILTER) for level in levels]
    given = [tuple(each[on.name] for each in entries if on.name in each) for on in filters]
    here = tuple(replace(each, given=overrides) for each, overrides in zip(filters, given, strict=True))
    return GatewayRoute(node=node, levels=levels, filters=here)


def _roles(filters: Sequence[HttpFilter]) -> list[FilterRole]:
    """The intended role of each memory filter; the checks tell whether it fulfils it."""
    observing = [bool(each.setting("observability_mode").flag) for each in filters]
    if observing == [False]:
        reads_answers = not filters[0].setting("processing_mode") or filters[0].body_mode("response") != "NONE"
        return [FilterRole.BOTH if reads_answers else FilterRole.RECALL]
    if len(filters) > 1 and len(set(observing)) == 1:
        # All the same: one of them is misconfigured, and its body mode tells which.
        observing = [each.body_mode("request") == "STREAMED" for each in filters]
    return [FilterRole.RETAIN if each else FilterRole.RECALL for each in observing]
