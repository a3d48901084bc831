"""Checks of routes, and of the clusters that routes and filters lead to: which requests, how large, how long, and where to."""

import difflib
from collections.abc import Iterator
from functools import partial

from semrouter_memory.doctor.context import LONG_SECONDS, CheckContext
from semrouter_memory.doctor.finding import MIB, Finding, broken, found, graded, sized
from semrouter_memory.doctor.gateway import (
    API_PATH,
    API_PATHS,
    CHAT_PATHS,
    FilterRole,
    GatewayRoute,
    HttpFilterChain,
    endpoints_of,
    of_setting,
    reaches,
)
from semrouter_memory.doctor.node import Node, first, path_matches, route_matches, takes_headers
from semrouter_memory.sockets import is_local
from semrouter_memory.store.location import LiteFile

_OTHER_PATHS = ("/", "/v1/files", "/v1/audio/transcriptions", "/v1/models")
_GRACEFUL_CLOSE = "envoy.reloadable_features.ext_proc_graceful_grpc_close"
_MISSPELT = 0.85
"""How alike two names are, of 1, when one is meant to be the other."""
_POLICIES = ("ROUND_ROBIN", "LEAST_REQUEST", "RING_HASH", "RANDOM", "", "MAGLEV", "CLUSTER_PROVIDED")


# -- routes -------------------------------------------------------------------------------------------------------------


def memory_is_on_for_chats_alone(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The sidecar lets go of other requests at their headers, and Envoy has collected what came of their bodies until then."""
    if chain.routes and not any(route.enabled for route in chain.chat_routes):
        yield found("chat-without-memory", chain.manager.get("route_config"), paths=" or ".join(CHAT_PATHS))
    for prefix, path in ((prefix, prefix + path) for prefix in chain.prefixes for path in _OTHER_PATHS):
        held = [route for route in chain.matching_routes("POST", path) if _holds_bodies(route)]
        if held:
            limit = _buffer_limit(chain, held[0]).number or MIB
            severity = graded("BUFFERED" in held[0].request_modes and limit < context.config.server.max_body_bytes)
            texts = {"path": path, "prefix": prefix, "limit": sized(limit, "MiB")}
            yield found("memory-on-other-paths", held[0].match, severity, **texts)
            return


def upgrades_are_not_held(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The body of an upgraded request never ends, so a filter that buffers it waits without limit.

    Only on the paths of chats, whatever answers there: the sidecar leaves other requests at their headers.
    """
    api = {route.path for route in chain.api_routes}
    for route in chain.routes:
        if all(path_matches(route.match, path) is False for path in chain.chat_paths):
            continue
        held = _upgrades(chain, route) and _holds_bodies(route) and route.path not in api
        methods = [each for each in ("GET", "POST") if takes_headers(route.match, each, upgrade=True) is not False]
        if held and methods:
            which = "WebSockets and other upgrades" if "GET" in methods else "POST requests that ask for an upgrade"
            yield found("upgrade-held", route.match, graded("GET" in methods), requests=which)


def _holds_bodies(route: GatewayRoute) -> bool:
    return not route.request_modes.isdisjoint(("BUFFERED", "BUFFERED_PARTIAL"))


def _upgrades(chain: HttpFilterChain, route: GatewayRoute) -> bool:
    """Whether an upgrade passes the memory filters; a route's own switch for a type beats the connection manager's."""
    # An upgrade with a filter chain of its own does not pass the memory filters.
    managed = {each.get("upgrade_type").text.lower(): each for each in chain.manager.items("upgrade_configs")}
    switches = managed | {each.get("upgrade_type").text.lower(): each for each in route.action.items("upgrade_configs")}
    return any(
        switch.get("enabled").flag is not False and not managed.get(name, switch).get("filters")
        for name, switch in switches.items()
    )


def bodies_fit_the_route(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """Envoy answers 413 to a buffered body above the limit, and the buffer filter to one above its own."""
    for route in (each for each in chain.chat_routes if each.action):
        if "BUFFERED" in route.request_modes:
            yield from broken("buffer", context.figures, partial(_buffer_limit, chain, route))
        for each in route.filters[: chain.memory[-1].index]:
            if route.enabled and each.config.kind == "Buffer" and each.is_enabled:
                buffer = first((each.override.get("buffer"), each.config))
                yield from broken("buffer_filter", context.figures, buffer.get)


def _buffer_limit(chain: HttpFilterChain, route: GatewayRoute, _: str = "") -> Node:
    names = ("request_body_buffer_limit", "per_request_buffer_limit_bytes")
    limits = [level.get(name) for level in reversed(route.levels) for name in names]
    unset = route.node.get("request_body_buffer_limit")
    return first([*limits, chain.listener.get("per_connection_buffer_limit_bytes"), unset])


def answers_may_take_long(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for route in (route for route in chain.chat_routes if route.action and route.enabled):
        own = route.action.get("max_stream_duration", "max_stream_duration")
        policy = first([level.get("retry_policy") for level in (route.action, *reversed(route.levels))])
        yield from broken("retry", context.figures, policy.get)
        # Without a timeout, a duration of the route's own is used instead of the default.
        if not own or route.action.get("timeout"):
            yield from broken("route", context.figures, route.action.get)
        if own:
            yield from broken("route_duration", context.figures, route.action.get)
        else:
            yield from broken("manager_duration", context.figures, chain.manager.get)
        yield from broken("route_idle", context.figures, route.action.get)


def api_is_reachable(context: CheckContext) -> Iterator[Finding]:
    chains = [chain for chain in context.memory_chains if chain.routes]
    routes = [route for chain in context.chains for route in chain.api_routes]
    named = [route.node for chain in chains[:1] for route in chain.routes if route.names_api]
    for path in (path for path in API_PATHS if chains):
        taking = [route.path for chain in context.chains for route in chain.matching_routes("GET", path)]
        if {route.path for route in routes}.isdisjoint(taking):
            # One that takes the path is shadowed; otherwise none does.
            shadowed = [node for node in named if route_matches(node.get("match"), "GET", path) is not False]
            code = "memory-api-shadowed" if shadowed else "memory-api-missing"
            yield found(code, [*shadowed, *named, chains[0].manager.get("route_config")][0], path=path)
    memory = {cluster.get("name").text for cluster in context.memory_clusters}
    for route in routes:
        # Where only one filter is enabled, filters_agree reports that.
        if route.enabled and len(route.enabled) == len(route.memory):
            place = route.node.get("typed_per_filter_config")
            yield found("memory-api-filtered", place, names=" and ".join(each.name for each in route.enabled))
        for name in memory.intersection(route.clusters):
            yield found("memory-api-cluster", route.node, path=API_PATH, cluster=name)


def manager_fits(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The fields of the HTTP connection manager."""
    yield from broken("manager", context.figures, chain.manager.get)
    if not all(route.action.get("idle_timeout") for route in chain.chat_routes) or not chain.chat_routes:
        yield from broken("manager_idle", context.figures, chain.manager.get)
    for host in chain.manager.get("route_config").items("virtual_hosts"):
        yield from broken("host", context.figures, host.get)


def overrides_name_filters(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A misspelt override changes nothing, nor does one that names the kind of filter; one for another chain's may be intended."""
    names, processors = [each.name for each in chain.filters], [each.name for each in chain.memory]
    anywhere = {each.name for other in context.chains for each in other.filters}
    for level in (level for route in chain.routes for level in route.levels):
        overrides = level.entries("typed_per_filter_config")
        for name, override in overrides.items():
            near = difflib.get_close_matches(name, names, n=1, cutoff=_MISSPELT)
            of_processor = "ExtProcPerRoute" in (override.kind, override.get("config").kind) and name not in anywhere
            # Beside an override of ours, it is meant for another filter.
            if name not in names and (near or (of_processor and overrides.keys().isdisjoint(processors))):
                yield found("filter-unknown", override, name=repr(name), near=" or ".join(near or processors))


def streams_end_gracefully(context: CheckContext) -> Iterator[Finding]:
    layers = [layer.get("static_layer") for layer in context.bootstrap.get("layered_runtime").items("layers")]
    # A key is written whole or as nested mappings.
    values = [first((layer.get(_GRACEFUL_CLOSE), layer.get(*_GRACEFUL_CLOSE.split(".")))) for layer in layers]
    given = [value.flag for value in values if value]
    if context.memory_chains and given[-1:] != [True]:
        yield found("graceful-close", context.bootstrap.get("layered_runtime"), key=_GRACEFUL_CLOSE)


# -- clusters -----------------------------------------------------------------------------------------------------------


def filters_call_a_cluster(context: CheckContext) -> Iterator[Finding]:
    """Envoy itself only refuses routes that lead to no cluster."""
    elsewhere = bool(context.bootstrap.get("dynamic_resources", "cds_config"))
    for each in (each for each in context.applied if not each.service.get("google_grpc")):
        if not each.cluster:
            yield found("no-grpc-service", each.service, name=each.name)
        elif each.cluster not in context.clusters and not elsewhere:
            yield found("cluster-missing", each.service, caller=each.name, cluster=repr(each.cluster))


def addresses_agree(context: CheckContext) -> Iterator[Finding]:
    """Envoy must call where the sidecar listens."""
    listens = (
        (context.memory_clusters, "server.listen", context.config.server.listen),
        (context.api_clusters, "management.listen", context.config.management.listen),
    )
    code = "address-differs" if context.config_given else "address-differs/default"
    for clusters, setting, listen in listens:
        address = of_setting(listen)
        for cluster in clusters:
            endpoints = endpoints_of(cluster)
            if address and endpoints and not any(reaches(endpoint, address) for _, endpoint in endpoints):
                called = ", ".join(str(endpoint) for _, endpoint in endpoints)
                name, place = cluster.get("name").text, endpoints[0][0]
                yield found(code, place, caller=name, called=called, listen=listen, setting=setting)


def sidecar_is_spoken_to(context: CheckContext) -> Iterator[Finding]:
    """The sidecar speaks HTTP/2 at its gRPC port and HTTP/1.1 at its API, both without TLS."""
    memory = {cluster.path for cluster in context.memory_clusters}
    api = [cluster for cluster in context.api_clusters if cluster.path not in memory]
    server, management = context.config.server, context.config.management
    for clusters, listen in ((context.memory_clusters, server.listen), (api, management.listen)):
        address = of_setting(listen)
        for cluster in clusters:
            name, socket = cluster.get("name").text, cluster.get("transport_socket")
            called = [each for _, each in endpoints_of(cluster) if address and reaches(each, address)]
            if called and socket.get("typed_config").kind == "UpstreamTlsContext":
                is_sure = any(is_local(str(each)) for each in called)
                yield found("tls", socket, graded(is_sure), cluster=name, listen=listen)
            if called and cluster in api and (http2 := http2_options(cluster)):
                yield found("api-http2", http2, cluster=name)


def endpoints_take_the_load(context: CheckContext, cluster: Node) -> Iterator[Finding]:
    endpoints, name = endpoints_of(cluster), cluster.get("name").text
    count, policy = len({address for _, address in endpoints}), cluster.get("lb_policy").choice(_POLICIES)
    if source := cluster.get("eds_cluster_config"):
        yield found("endpoints-unseen", source, cluster=name)
    elif not endpoints and not cluster.get("cluster_type"):
        yield found("no-endpoints", cluster.get("load_assignment"), cluster=name)
    if count > 1 and policy != "LEAST_REQUEST" and not cluster.get("load_balancing_policy"):
        yield found("lb-policy", cluster.get("lb_policy"), policy=policy)
    if count > 1 and context.config_given and isinstance(context.store, LiteFile):
        yield found("lite-shared", cluster.get("load_assignment"), count=count)


def limits_fit(context: CheckContext, cluster: Node) -> Iterator[Finding]:
    """Bodies and streams fit, and connections last."""
    name, http2, figures = cluster.get("name").text, http2_options(cluster), context.figures
    yield from broken("cluster", figures, cluster.get)
    if http2:
        yield from broken("http2", figures, http2.get)
        if context.config.server.processes > 1:
            yield from broken("shared_http2", figures, http2.get, count=context.config.server.processes)
    else:
        yield found("no-http2", cluster.get("typed_extension_protocol_options"), cluster=name)
    yield from broken("threshold", figures, _circuit_breaker(cluster).get, cluster=name)
    for options in [cluster, *cluster.entries("typed_extension_protocol_options").values()]:
        yield from broken("options", figures, options.get)


def _circuit_breaker(cluster: Node) -> Node:
    """The thresholds of the default priority."""
    breakers = cluster.get("circuit_breakers")
    priorities = [(each, each.get("priority").choice(("DEFAULT", "HIGH"))) for each in breakers.items("thresholds")]
    missing = Node(None, breakers.get("thresholds").path)
    return first([*(each for each, priority in priorities if priority == "DEFAULT"), missing])


def answers_outlive_the_sidecar(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A single filter holds an answer while the sidecar is silent; each piece that is sent restarts message_timeout."""
    for each in chain.applied:
        if each.role is not FilterRole.BOTH or each.body_mode("response") != "STREAMED":
            continue
        http2 = http2_options(context.clusters.get(each.cluster, Node(None)))
        keepalive = http2.get("connection_keepalive")
        interval, timeout = keepalive.get("interval").seconds, keepalive.get("timeout").seconds
        silence = 0.0 if interval is None or timeout is None else interval + timeout
        if http2 and not 0 < silence <= LONG_SECONDS:
            length = f"for {silence:g} s" if silence else "without limit, because message_timeout does not end that"
            yield found("answers-held", keepalive, length=length)
        yield found("single-filter", first((*each.overrides, each.config)), name=each.name)


def http2_options(cluster: Node) -> Node:
    """The HTTP/2 options where HTTP/2 is on; a cluster's own old field counts only without typed options."""
    typed = cluster.entries("typed_extension_protocol_options").values()
    options = [each for each in typed if each.kind == "HttpProtocolOptions"]
    explicit = [each.get("explicit_http_config", "http2_protocol_options") for each in options]
    # Envoy refuses to negotiate without TLS.
    automatic = [
        first((each.get("auto_config", "http2_protocol_options"), each.get("auto_config"))) for each in options
    ]
    return first([*explicit, *automatic] or [cluster.get("http2_protocol_options")])
