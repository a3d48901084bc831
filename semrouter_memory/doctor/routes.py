"""Checks of routes, and of the clusters that routes and filters lead to: which requests, how large, how long, and where to."""

import difflib
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from semrouter_memory.doctor.address import Address, of_setting, reaches
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import (
    MIB,
    Below,
    FieldRule,
    Finding,
    Unit,
    broken,
    found,
    graded,
    is_off,
    is_on,
    is_set,
)
from semrouter_memory.doctor.gateway import (
    API_PATH,
    CHAT_PATHS,
    PROCESSOR,
    FilterRole,
    GatewayRoute,
    HttpFilterChain,
    MemoryFilter,
    cluster_named,
    config_of,
    endpoints_of,
    per_route,
)
from semrouter_memory.doctor.matching import excludes_upgrades, only_method
from semrouter_memory.doctor.node import Node, first
from semrouter_memory.store.location import LiteFile

_ROUTE_SECONDS = 15.0
"""Envoy's default of a route's `timeout`."""
_OTHER_PATHS = ("/", "/v1/files", "/v1/audio/transcriptions", "/v1/models")
_GRACEFUL_CLOSE = "envoy.reloadable_features.ext_proc_graceful_grpc_close"
_MISSPELT = 0.85
"""How alike two names are, of 1, when one is meant to be the other."""
_LONG_SECONDS = 10.0
_POLICIES = ("ROUND_ROBIN", "LEAST_REQUEST", "RING_HASH", "RANDOM", "", "MAGLEV", "CLUSTER_PROVIDED")

# Envoy's own default is 1,024 for each; below these, a burst is refused.
_BREAKER = (
    FieldRule("circuit-breaker", "max_requests", Below(3000, Unit.COUNT, 1024, error_to=1024)),
    FieldRule("circuit-breaker-burst", "max_pending_requests", Below(1024, Unit.COUNT, error_to=0)),
    FieldRule("circuit-breaker-burst", "max_connections", Below(100, Unit.COUNT, error_to=0)),
)
_FEW_REQUESTS = Below(1000, Unit.COUNT, unlimited=0)
_CONNECTION = (
    FieldRule("connection-requests", "max_requests_per_connection", _FEW_REQUESTS),
    FieldRule("connection-requests", "common_http_protocol_options.max_requests_per_connection", _FEW_REQUESTS),
    FieldRule(
        "connection-duration",
        "common_http_protocol_options.max_connection_duration",
        Below(60, Unit.SECONDS, unlimited=0),
    ),
    FieldRule(
        "stream-duration",
        "common_http_protocol_options.max_stream_duration",
        Below(math.inf, Unit.SECONDS, unlimited=0),
    ),
)
_STREAMS = (FieldRule("concurrent-streams", "max_concurrent_streams", Below(100, Unit.COUNT)),)


# -- routes -------------------------------------------------------------------------------------------------------------


def memory_is_on_for_chats_alone(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    if chain.routes and not any(route.enabled for route in chain.chat_routes):
        yield found("chat-without-memory", chain.manager.get("route_config"), paths=" or ".join(CHAT_PATHS))
    for path in _OTHER_PATHS:
        held = [route for route in chain.matching_routes("POST", path) if _holds_bodies(route)]
        if held:
            yield found("memory-on-other-paths", held[0].match, path=path)
            return


def upgrades_are_not_held(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The body of an upgraded request never ends, so a filter that buffers it waits without limit."""
    api = {route.node.path for route in chain.api_routes}
    for route in chain.routes:
        held = _upgrades(chain, route) and _holds_bodies(route) and route.node.path not in api
        if held and not excludes_upgrades(route.match):
            only_post = only_method(route.match, "POST")
            which = "POST requests that ask for an upgrade" if only_post else "WebSockets and other upgrades"
            yield found("upgrade-held", route.match, graded(not only_post), requests=which)


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
    server = context.config.server
    body, message = server.max_body_bytes, max(server.max_message_bytes, server.max_body_bytes)
    texts = {"wanted": Unit.BYTES.shown(body), "bytes": body}
    for route in chain.chat_routes:
        if "BUFFERED" in route.request_modes:
            size = _buffer_limit(chain, route)
            limit = FieldRule("route-buffer-limit", "", Below(body, Unit.BYTES, MIB, error_to=MIB))
            yield from broken([limit], lambda _, size=size: size, **texts)
            if (size.number or 0) > message:
                yield found("route-above-message", size, limit=Unit.BYTES.shown(server.max_message_bytes))
        for entry in chain.filters[: chain.memory[-1].index]:
            if route.enabled and config_of(entry).kind == "Buffer" and route.runs(entry):
                buffer = first((per_route(route.override_for(entry)).get("buffer"), config_of(entry)))
                limit = FieldRule("buffer-filter", "max_request_bytes", Below(body, Unit.BYTES, error_to=MIB))
                yield from broken([limit], buffer.get, **texts)


def _buffer_limit(chain: HttpFilterChain, route: GatewayRoute) -> Node:
    names = ("request_body_buffer_limit", "per_request_buffer_limit_bytes")
    limits = [level.get(name) for level in reversed(route.levels) for name in names]
    unset = route.node.get("request_body_buffer_limit")
    return first([*limits, chain.listener.get("per_connection_buffer_limit_bytes"), unset])


_SLOW = Below(300, Unit.SECONDS, error_to=_ROUTE_SECONDS, unlimited=0)
_ROUTE = (
    FieldRule("route-timeout", "timeout", replace(_SLOW, default=_ROUTE_SECONDS)),
    FieldRule("answer-duration", "max_stream_duration.max_stream_duration", _SLOW),
)
_RETRY = (
    FieldRule("retry-timeout", "per_try_timeout", replace(_SLOW, error_to=None), {"what": "takes"}),
    FieldRule("retry-timeout", "per_try_idle_timeout", replace(_SLOW, error_to=None), {"what": "is silent for"}),
)
# Envoy's default of 300 s is too short for a model that thinks.
_IDLE = Below(301, Unit.SECONDS, 300, unlimited=0)


def answers_may_take_long(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for route in (route for route in chain.chat_routes if route.action and route.enabled):
        own = route.action.get("max_stream_duration", "max_stream_duration")
        # Without a timeout, a duration of the route's own is used instead of the default.
        yield from broken(_ROUTE[1:] if own and not route.action.get("timeout") else _ROUTE, route.action.get)
        policy = first([level.get("retry_policy") for level in (route.action, *reversed(route.levels))])
        yield from broken(_RETRY, policy.get)
        if not own:
            duration = FieldRule("answer-duration", "common_http_protocol_options.max_stream_duration", _SLOW)
            yield from broken([duration], chain.manager.get)
        if route.action.get("idle_timeout"):
            yield from broken([FieldRule("stream-idle-timeout", "idle_timeout", _IDLE)], route.action.get)


def api_is_reachable(context: CheckContext) -> Iterator[Finding]:
    chains = [chain for chain in context.memory_chains if chain.routes]
    routes = [route for chain in context.chains for route in chain.api_routes]
    if chains and not routes:
        yield _api_missing(chains[0])
    memory = {cluster.get("name").text for cluster in context.memory_clusters}
    for route in routes:
        # Where only one filter is enabled, filters_are_on_together reports that.
        if route.enabled and len(route.enabled) == len(route.memory):
            place = route.node.get("typed_per_filter_config")
            yield found("memory-api-filtered", place, names=" and ".join(each.name for each in route.enabled))
        for name in memory.intersection(route.clusters):
            yield found("memory-api-cluster", route.node, path=API_PATH, cluster=name)


def _api_missing(chain: HttpFilterChain) -> Finding:
    for route in chain.routes:
        if any(API_PATH in route.match.get(name).text for name in ("path_separated_prefix", "prefix")):
            return found("memory-api-shadowed", route.node, path=API_PATH)
    return found("memory-api-missing", chain.manager.get("route_config"), path=API_PATH)


_MANAGER = (
    FieldRule("routes-unseen", "rds", is_set),
    FieldRule("routes-unseen", "scoped_routes", is_set),
    FieldRule("routes-unseen", "route_config.vhds", is_set),
    # A retried exchange is recognised by its request id, which must not be the client's choice.
    FieldRule("request-id", "use_remote_address", is_off, {"fix": "use_remote_address: true"}),
    FieldRule("request-id", "preserve_external_request_id", is_on, {"fix": "leave it out"}),
    FieldRule("request-id", "generate_request_id", lambda node: node.flag is False, {"fix": "leave it out, or true"}),
)


def manager_fits(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The fields of the HTTP connection manager."""
    # Envoy's clock for a request's arrival runs on during recall.
    arrival = Below(_ROUTE_SECONDS, Unit.SECONDS, error_to=context.deadline_seconds, unlimited=0)
    rules = [*_MANAGER, FieldRule("request-timeout", "request_timeout", arrival)]
    if not all(route.action.get("idle_timeout") for route in chain.chat_routes) or not chain.chat_routes:
        rules.append(FieldRule("stream-idle-timeout", "stream_idle_timeout", _IDLE))
    yield from broken(rules, chain.manager.get)
    for host in chain.manager.get("route_config").items("virtual_hosts"):
        yield from broken([FieldRule("routes-unseen", "matcher", is_set)], host.get)


def overrides_name_filters(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A misspelt override changes nothing; one for another chain's filter may be intended."""
    names = [entry.get("name").text for entry in chain.filters]
    for level in (level for route in chain.routes for level in route.levels):
        for name, override in level.entries("typed_per_filter_config").items():
            near = difflib.get_close_matches(name, names, n=1, cutoff=_MISSPELT)
            if name not in names and near:
                yield found("filter-unknown", override, name=repr(name), near=near[0])


def streams_end_gracefully(context: CheckContext) -> Iterator[Finding]:
    layers = context.bootstrap.get("layered_runtime").items("layers")
    values = [_runtime_value(layer.get("static_layer").value, _GRACEFUL_CLOSE) for layer in layers]
    given = [value for value in values if value is not None]
    if context.memory_chains and (not given or str(given[-1]).lower() != "true"):
        yield found("graceful-close", context.bootstrap.get("layered_runtime"), key=_GRACEFUL_CLOSE)


def _runtime_value(values: Any, key: str) -> Any:
    """A runtime key, written whole or as nested mappings; None when it is missing."""
    if not isinstance(values, dict) or key in values:
        return values.get(key) if isinstance(values, dict) else None
    parts = ((name, key.removeprefix(f"{name}.")) for name in values if key.startswith(f"{name}."))
    inner = (_runtime_value(values[name], rest) for name, rest in parts)
    return next((value for value in inner if value is not None), None)


# -- clusters -----------------------------------------------------------------------------------------------------------


def filters_call_a_cluster(context: CheckContext) -> Iterator[Finding]:
    """Envoy itself only refuses routes that lead to no cluster."""
    for each in context.applied:
        if google := each.service.get("google_grpc"):
            yield from _google(context, each, google)
        elif not each.cluster:
            yield found("no-grpc-service", each.service, name=each.name)
        else:
            yield from _missing(context, each.service, each.name)
    # A processor without a cluster may be for memory: nothing tells whose it is.
    for entry in (entry for chain in context.chains for _, entry in chain.others):
        service = config_of(entry).get("grpc_service")
        if config_of(entry).kind == PROCESSOR and service.get("envoy_grpc"):
            yield from _missing(context, service, entry.get("name").text)


def _missing(context: CheckContext, service: Node, caller: str) -> Iterator[Finding]:
    name = cluster_named(service)
    if name not in context.clusters and not context.xds_source("cds_config"):
        yield found("cluster-missing", service, caller=caller, cluster=repr(name))


def _google(context: CheckContext, each: MemoryFilter, google: Node) -> Iterator[Finding]:
    yield found("google-grpc", each.service)
    uri = google.get("target_uri")
    # A scheme says how to look the name up.
    scheme, _, rest = uri.text.partition(":")
    target = of_setting(rest.rpartition("/")[2] if scheme in {"dns", "ipv4", "ipv6"} else uri.text)
    differs = target is not None and context.listen is not None and not reaches(target, context.listen)
    if context.config_given and differs:
        listen, setting = context.config.server.listen, "server.listen"
        yield found("address-differs", uri, caller=each.name, called=target, listen=listen, setting=setting)


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


def endpoints_take_the_load(context: CheckContext, cluster: Node) -> Iterator[Finding]:
    endpoints, name = endpoints_of(cluster), cluster.get("name").text
    addresses: list[Address] = []
    for place, address in endpoints:
        if address in addresses:
            yield found("endpoint-twice", place, address=address)
        addresses.append(address)
    count, policy = len(set(addresses)), cluster.get("lb_policy").choice(_POLICIES)
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
    server, name, http2 = context.config.server, cluster.get("name").text, http2_options(cluster)
    body = server.max_body_bytes
    buffer = FieldRule(
        "cluster-buffer-limit",
        "per_connection_buffer_limit_bytes",
        Below(body, Unit.BYTES, MIB, error_to=MIB),
        {"wanted": Unit.BYTES.shown(body), "enough": max(server.max_message_bytes, body)},
    )
    window = FieldRule(
        "stream-window",
        "initial_stream_window_size",
        Below(body, Unit.BYTES, 16 * MIB),
        {"enough": min(2 * body, 2**31 - 1)},
    )
    yield from broken([buffer], cluster.get)
    if http2:
        yield from broken([window], http2.get)
    else:
        yield found("no-http2", cluster.get("typed_extension_protocol_options"), cluster=name)
    yield from broken(_BREAKER, _circuit_breaker(cluster).get, cluster=name)
    for options in [cluster, *cluster.entries("typed_extension_protocol_options").values()]:
        yield from broken(_CONNECTION, options.get)
        explicit = options.get("explicit_http_config", "http2_protocol_options")
        yield from broken(_STREAMS, first((explicit, options.get("http2_protocol_options"))).get)


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
        if http2 and not 0 < silence <= _LONG_SECONDS:
            length = f"for {silence:g} s" if silence else "without limit, because message_timeout does not end that"
            yield found("answers-held", keepalive, length=length)
        yield found("single-filter", first((*reversed(each.overrides), config_of(each.entry))), name=each.name)


def http2_options(cluster: Node) -> Node:
    """The HTTP/2 options where HTTP/2 is on; a cluster's own old field counts only without typed options."""
    typed = cluster.entries("typed_extension_protocol_options").values()
    options = [each for each in typed if each.kind == "HttpProtocolOptions"]
    if not options:
        return cluster.get("http2_protocol_options")
    places = [each.get("explicit_http_config", "http2_protocol_options") for each in options]
    if cluster.get("transport_socket"):
        # With TLS, both sides negotiate HTTP/2.
        automatic = [each.get("auto_config") for each in options]
        places += [first((each.get("http2_protocol_options"), each)) for each in automatic]
    return first(places)
