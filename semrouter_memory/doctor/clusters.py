"""Checks of the clusters that filters and routes lead to: their addresses, protocol, limits and connections."""

import math
from collections.abc import Iterator

from semrouter_memory.doctor.address import Address, of_setting, reaches
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import MIB, Below, Finding, Rule, Unit, broken, found
from semrouter_memory.doctor.gateway import (
    PROCESSOR,
    FilterRole,
    HttpFilterChain,
    MemoryFilter,
    cluster_named,
    config_of,
    endpoints_of,
)
from semrouter_memory.doctor.node import Node, first
from semrouter_memory.store.location import LiteFile

_LONG_SECONDS = 10.0
_POLICIES = ("ROUND_ROBIN", "LEAST_REQUEST", "RING_HASH", "RANDOM", "", "MAGLEV", "CLUSTER_PROVIDED")

# Envoy's own default is 1,024 for each; below these, a burst is refused.
_BREAKER = (
    Rule("circuit-breaker", "max_requests", Below(3000, Unit.COUNT, 1024, error_to=1024)),
    Rule("circuit-breaker-burst", "max_pending_requests", Below(1024, Unit.COUNT, error_to=0)),
    Rule("circuit-breaker-burst", "max_connections", Below(100, Unit.COUNT, error_to=0)),
)
_FEW_REQUESTS = Below(1000, Unit.COUNT, unlimited=0)
_CONNECTION = (
    Rule("connection-requests", "max_requests_per_connection", _FEW_REQUESTS),
    Rule("connection-requests", "common_http_protocol_options.max_requests_per_connection", _FEW_REQUESTS),
    Rule(
        "connection-duration",
        "common_http_protocol_options.max_connection_duration",
        Below(60, Unit.SECONDS, unlimited=0),
    ),
    Rule(
        "stream-duration",
        "common_http_protocol_options.max_stream_duration",
        Below(math.inf, Unit.SECONDS, unlimited=0),
    ),
)
_STREAMS = (Rule("concurrent-streams", "max_concurrent_streams", Below(100, Unit.COUNT)),)


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
    buffer = Rule(
        "cluster-buffer-limit",
        "per_connection_buffer_limit_bytes",
        Below(body, Unit.BYTES, MIB, error_to=MIB),
        {"wanted": Unit.BYTES.shown(body), "enough": max(server.max_message_bytes, body)},
    )
    window = Rule(
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
