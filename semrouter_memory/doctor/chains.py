"""Envoy's configuration as the checks look at it: HTTP filter chains, what of them is ours, and what applies per route. Pure.

Strategy: a filter on a route is what its own configuration says with the overrides of route configuration, virtual host
and route on top, merged as Envoy merges them. Checks see only the merged `Applied`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from semrouter_memory.doctor.address import Address, of_endpoint, reaches
from semrouter_memory.doctor.matching import takers
from semrouter_memory.doctor.place import At

CHAT_PATHS = ("/v1/chat/completions", "/v1/responses")
API_PATH = "/v1/memory"
_PER_FILTER = "typed_per_filter_config"


class Role(StrEnum):
    RETAIN = "retain"
    """Only receives copies, in observability mode."""
    RECALL = "recall"
    """Handles the request alone."""
    BOTH = "both"
    """The only one of its chain: request and answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """An ext_proc filter that calls the sidecar."""

    name: str
    index: int
    at: At
    config: At
    role: Role

    @property
    def disabled(self) -> bool:
        return bool(self.at.value("disabled"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A memory filter as it works on a route.

    Attributes:
        override: where the most specific override of this route stands; "" when there is none.
        mode: its processing mode, with its place; None: Envoy's defaults.
        service: its gRPC service, with its place.
        metadata: what it sends as initial metadata, names in lower case.
        fails_open: with the place that says so.
    """

    filter: MemoryFilter
    override: str
    enabled: bool
    mode: At | None
    service: At | None
    metadata: Mapping[str, str]
    fails_open: tuple[bool, str]
    namespaces: frozenset[str]

    @property
    def where(self) -> str:
        return self.override or self.filter.config.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route with what stands around it.

    Attributes:
        levels: from the least specific place to the route itself, or to one of its weighted clusters that says more.
    """

    at: At
    levels: tuple[At, ...]
    applied: tuple[Applied, ...] = ()

    @property
    def place(self) -> str:
        """Where the most specific of it stands."""
        return self.levels[-1].path

    @property
    def match(self) -> At | None:
        return self.at.get("match")

    @property
    def action(self) -> At | None:
        return self.at.get("route")

    @property
    def remembers(self) -> bool:
        """Whether a memory filter is at work here."""
        return any(each.enabled for each in self.applied)

    @property
    def targets(self) -> list[At]:
        """What names a cluster: the route's action, or each of its weighted clusters."""
        action = self.action
        return [] if action is None else _weighted(self.at) or [action]

    @property
    def clusters(self) -> list[str]:
        named = [at.value("name") or at.value("cluster") for at in self.targets]
        return [name for name in named if name]

    def configured(self, filter_name: str) -> "At | None":
        """The most specific override for a filter of that name."""
        found = [level.opened_map(_PER_FILTER).get(filter_name) for level in self.levels]
        return next((at for at in reversed(found) if at is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One HTTP connection manager."""

    listener: At
    manager: At
    filters: tuple[At, ...]
    memory: tuple[MemoryFilter, ...]
    base: tuple[Applied, ...]
    hosts: tuple[tuple[Route, ...], ...] = field(repr=False)

    @property
    def routes(self) -> Iterator[Route]:
        for host in self.hosts:
            yield from host

    @property
    def applied(self) -> Iterator[Applied]:
        """The filters as they stand, then as routes change them."""
        yield from self.base
        for route in self.routes:
            yield from (each for each in route.applied if each.override and each.enabled)

    def takers(self, method: str, path: str) -> list[Route]:
        """The routes at which such a request may end, in any virtual host."""
        found: list[Route] = []
        for host in self.hosts:
            taking = {at.path for at in takers((route.at for route in host), method, path)}
            found += [route for route in host if route.at.path in taking]
        return found

    @property
    def chat_routes(self) -> list[Route]:
        found = {route.place: route for path in CHAT_PATHS for route in self.takers("POST", path)}
        return list(found.values())


def managers_of(bootstrap: At) -> Iterator[tuple[At, At]]:
    """Every HTTP connection manager with its listener."""
    resources = bootstrap.get("static_resources")
    for listener in resources.all("listeners") if resources else ():
        default = listener.get("default_filter_chain")
        for chain in [*listener.all("filter_chains"), *([default] if default else [])]:
            for entry in chain.all("filters"):
                manager = entry.opened("typed_config")
                if manager is not None and manager.is_a("HttpConnectionManager") and manager.message is not None:
                    yield listener, manager


def clusters_of(bootstrap: At) -> dict[str, At]:
    resources = bootstrap.get("static_resources")
    return {cluster.value("name"): cluster for cluster in (resources.all("clusters") if resources else ())}


def endpoints_of(cluster: At | None) -> list[tuple[str, Address]]:
    """A cluster's endpoints with their places."""
    assignment = cluster.get("load_assignment") if cluster is not None else None
    found = []
    for group in assignment.all("endpoints") if assignment else ():
        for entry in group.all("lb_endpoints"):
            at = entry.descend("endpoint", "address")
            address = of_endpoint(at)
            if at is not None and address is not None:
                found.append((at.path, address))
    return found


def protocol_options_of(cluster: At) -> list[At]:
    """Where a cluster's connections are configured: in old fields of its own, and in typed options."""
    return [cluster, *cluster.opened_map("typed_extension_protocol_options").values()]


def chains_of(bootstrap: At, listen: Address | None) -> tuple[Chain, ...]:
    """The chains of a bootstrap.

    Args:
        listen: where the sidecar listens; what leads there is ours, whatever it is called.
    """
    clusters = clusters_of(bootstrap)
    managers = list(managers_of(bootstrap))
    processors = [each for _, manager in managers for each in _processors(manager)]
    ours = _ours(processors, clusters, listen)
    return tuple(_chain(listener, manager, ours) for listener, manager in managers)


def config_of(entry: At) -> At | None:
    """What an HTTP filter is configured with; a matcher around it is taken off."""
    config = entry.opened("typed_config")
    if config is not None and config.is_a("ExtensionWithMatcher"):
        inner = config.get("extension_config")
        return inner.opened("typed_config") if inner is not None else None
    return config


def switched_off(override: At | None) -> bool:
    """Whether a route's entry for a filter disables it, in whichever of the ways there are."""
    return override is not None and bool(override.value("disabled"))


def cluster_named(service: At | None) -> str:
    grpc = service.get("envoy_grpc") if service is not None else None
    return str(grpc.value("cluster_name")) if grpc is not None else ""


def _processors(manager: At) -> list[At]:
    found = ((entry, config_of(entry)) for entry in manager.all("http_filters"))
    return [entry for entry, config in found if config is not None and config.is_a("ExternalProcessor")]


def _ours(processors: Iterable[At], clusters: Mapping[str, At], listen: Address | None) -> frozenset[str]:
    """The paths of the filters that are ours: by where they lead, else by name; when nothing tells, all of them."""
    named, leading, every = set(), set(), set()
    for entry in processors:
        config = config_of(entry)
        cluster = cluster_named(config.get("grpc_service") if config else None)
        every.add(entry.path)
        if "memory" in f"{entry.value('name')} {cluster}".lower():
            named.add(entry.path)
        addresses = [address for _, address in endpoints_of(clusters.get(cluster))]
        if listen is not None and any(reaches(address, listen) for address in addresses):
            leading.add(entry.path)
    return frozenset(leading | named or every)


def _chain(listener: At, manager: At, ours: frozenset[str]) -> Chain:
    entries = tuple(manager.all("http_filters"))
    memory = _memory_filters(entries, ours)
    return Chain(
        listener=listener,
        manager=manager,
        filters=entries,
        memory=memory,
        base=tuple(_apply(each, ()) for each in memory),
        hosts=tuple(_hosts(manager, memory)),
    )


def _memory_filters(entries: tuple[At, ...], ours: frozenset[str]) -> tuple[MemoryFilter, ...]:
    found = [(index, entry) for index, entry in enumerate(entries) if entry.path in ours]
    configs = [config for _, entry in found if (config := config_of(entry)) is not None]
    roles = _roles([entry.value("name") for _, entry in found], configs)
    return tuple(
        MemoryFilter(name=entry.value("name"), index=index, at=entry, config=config, role=role)
        for (index, entry), config, role in zip(found, configs, roles, strict=True)
    )


def _roles(names: list[str], configs: list[At]) -> list[Role]:
    """What each filter is meant to be; whether it is that, the checks say."""
    observing = [bool(config.value("observability_mode")) for config in configs]
    if len(configs) == 1:
        return [Role.RETAIN if observing[0] else Role.BOTH if _reads_answers(configs[0]) else Role.RECALL]
    if len(set(observing)) == 1:
        # All the same: one of them is not what it should be, and its name or its body mode tells which.
        return [Role.RETAIN if _sounds_like_retain(*each) else Role.RECALL for each in zip(names, configs, strict=True)]
    return [Role.RETAIN if each else Role.RECALL for each in observing]


def _sounds_like_retain(name: str, config: At) -> bool:
    if "retain" in name or "recall" in name:
        return "retain" in name
    mode = config.get("processing_mode")
    return mode is not None and mode.value("request_body_mode").name == "STREAMED"


def _reads_answers(config: At) -> bool:
    mode = config.get("processing_mode")
    return mode is None or mode.value("response_body_mode").name != "NONE"


def _hosts(manager: At, memory: tuple[MemoryFilter, ...]) -> Iterator[tuple[Route, ...]]:
    config = manager.get("route_config")
    for host in config.all("virtual_hosts") if config else ():
        assert config is not None
        yield tuple(
            Route(at=route, levels=levels, applied=tuple(_apply(each, levels) for each in memory))
            for route in host.all("routes")
            for levels in _levels(config, host, route)
        )


def _levels(config: At, host: At, route: At) -> Iterator[tuple[At, ...]]:
    """A route counts once more for each weighted cluster that changes a filter or headers."""
    weighted = _weighted(route)
    special = [at for at in weighted if at.value(_PER_FILTER) or at.value("request_headers_to_remove")]
    if not special or len(special) < len(weighted):
        yield config, host, route
    for at in special:
        yield config, host, route, at


def _weighted(route: At) -> list[At]:
    clusters = route.descend("route", "weighted_clusters")
    return clusters.all("clusters") if clusters is not None else []


def _apply(each: MemoryFilter, levels: Iterable[At]) -> Applied:
    overrides = [at for level in levels if (at := level.opened_map(_PER_FILTER).get(each.name)) is not None]
    details = [at for override in overrides if (at := _overrides_in(override)) is not None]
    services = [at for detail in details if (at := detail.get("grpc_service")) is not None]
    modes = [at for detail in details if (at := detail.get("processing_mode")) is not None]
    service = services[-1] if services else each.config.get("grpc_service")
    return Applied(
        filter=each,
        override=overrides[-1].path if overrides else "",
        enabled=_enabled(overrides[-1]) if overrides else not each.disabled,
        mode=modes[-1] if modes else each.config.get("processing_mode"),
        service=service,
        metadata=_metadata(service, details),
        fails_open=_fails_open(each, details),
        namespaces=_namespaces(each, details),
    )


def _overrides_in(override: At) -> At | None:
    inner = _per_route(override)
    return inner.get("overrides") if inner is not None else None


def _per_route(override: At) -> At | None:
    return override.opened("config") if override.is_a("FilterConfig") else override


def _enabled(override: At) -> bool:
    inner = _per_route(override)
    return not switched_off(override) and not switched_off(inner)


def _metadata(service: At | None, details: Iterable[At]) -> dict[str, str]:
    pairs = service.all("initial_metadata") if service is not None else []
    for detail in details:
        pairs += detail.all("grpc_initial_metadata")
    return {pair.value("key").lower(): pair.value("value") or _text(pair.value("raw_value")) for pair in pairs}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _fails_open(each: MemoryFilter, details: list[At]) -> tuple[bool, str]:
    said = [(detail.value("failure_mode_allow"), detail.where("failure_mode_allow")) for detail in details]
    said = [(value, where) for value, where in said if value is not None]
    return (
        said[-1] if said else (bool(each.config.value("failure_mode_allow")), each.config.where("failure_mode_allow"))
    )


def _namespaces(each: MemoryFilter, details: list[At]) -> frozenset[str]:
    options = [at for at in (each.config, *details) if at.get("metadata_options") is not None]
    forwarded = options[-1].descend("metadata_options", "forwarding_namespaces") if options else None
    return frozenset(forwarded.value("untyped")) if forwarded is not None else frozenset()
