"""Checks of the clusters that filters and routes lead to: their addresses, protocol, limits and connections."""

import math
from collections.abc import Iterator

from semrouter_memory.doctor.address import Address, of_setting, reaches
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import MIB, Finding, Unit, found, limit
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
from semrouter_memory.doctor.sidecar_config import uses_lite

_BUFFER = MIB
"""Envoy's default of `per_connection_buffer_limit_bytes`."""
_REQUESTS = 1024
"""Envoy's default of `max_requests`."""
_WINDOW = 16 * MIB
"""Envoy's default of `initial_stream_window_size`."""
_MANY_REQUESTS = 3000
_BURST = {"max_pending_requests": 1024, "max_connections": 100}
"""Below this, a burst is refused; Envoy's defaults are 1,024."""
_FEW_STREAMS = 100
_FEW_REQUESTS = 1000
_SHORT_SECONDS = 60.0
_LONG_SECONDS = 10.0
_POLICIES = ("ROUND_ROBIN", "LEAST_REQUEST", "RING_HASH", "RANDOM", "", "MAGLEV", "CLUSTER_PROVIDED")


def clusters_are_in_the_file(context: CheckContext) -> Iterator[Finding]:
    if source := context.xds_source("cds_config"):
        yield found("clusters-unseen", source)


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
    target = _target(uri.text)
    differs = target is not None and context.listen is not None and not reaches(target, context.listen)
    if context.config_given and differs:
        listen, setting = context.config.server.listen, "server.listen"
        yield found("address-differs", uri, caller=each.name, called=target, listen=listen, setting=setting)


def _target(uri: str) -> Address | None:
    """The address of a gRPC name, with or without a scheme that says how to look it up."""
    for scheme in ("dns:", "ipv4:", "ipv6:"):
        if uri.startswith(scheme):
            uri = uri.removeprefix(scheme).rpartition("/")[2]
    return of_setting(uri)


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
    addresses = [str(address) for _, address in endpoints]
    count, policy = len(set(addresses)), cluster.get("lb_policy").choice(_POLICIES)
    if source := cluster.get("eds_cluster_config"):
        yield found("endpoints-unseen", source, cluster=name)
    elif not endpoints and not cluster.get("cluster_type"):
        yield found("no-endpoints", cluster.get("load_assignment"), cluster=name)
    for index, (place, address) in enumerate(endpoints):
        if str(address) in addresses[:index]:
            yield found("endpoint-twice", place, address=address)
    if count > 1 and policy != "LEAST_REQUEST" and not cluster.get("load_balancing_policy"):
        yield found("lb-policy", cluster.get("lb_policy"), policy=policy)
    if count > 1 and context.config_given and uses_lite(context):
        yield found("lite-shared", cluster.get("load_assignment"), count=count)


def bodies_and_streams_fit(context: CheckContext, cluster: Node) -> Iterator[Finding]:
    server, name = context.config.server, cluster.get("name").text
    body, breaker, http2 = server.max_body_bytes, _circuit_breaker(cluster), http2_options(cluster)
    buffer = cluster.get("per_connection_buffer_limit_bytes")
    texts = {"wanted": Unit.BYTES.shown(body), "enough": max(server.max_message_bytes, body)}
    yield from limit("cluster-buffer-limit", buffer, Unit.BYTES, below=body, default=_BUFFER, error_to=_BUFFER, **texts)
    if http2:
        window, enough = http2.get("initial_stream_window_size"), min(2 * body, 2**31 - 1)
        yield from limit("stream-window", window, Unit.BYTES, below=body, default=_WINDOW, enough=enough)
    else:
        yield found("no-http2", cluster.get("typed_extension_protocol_options"), cluster=name)
    requests = {"below": _MANY_REQUESTS, "default": _REQUESTS, "error_to": _REQUESTS}
    yield from limit("circuit-breaker", breaker.get("max_requests"), Unit.COUNT, **requests, cluster=name)
    for field, least in _BURST.items():
        yield from limit("circuit-breaker-burst", breaker.get(field), Unit.COUNT, below=least, error_to=0)


def connections_and_streams_last(_: CheckContext, cluster: Node) -> Iterator[Finding]:
    options = [cluster, *cluster.entries("typed_extension_protocol_options").values()]
    for each in options:
        http2 = first((each.get("explicit_http_config", "http2_protocol_options"), each.get("http2_protocol_options")))
        yield from limit("concurrent-streams", http2.get("max_concurrent_streams"), Unit.COUNT, below=_FEW_STREAMS)
        common = each.get("common_http_protocol_options")
        for count in (place.get("max_requests_per_connection") for place in (each, common)):
            if count.number != 0:
                yield from limit("connection-requests", count, Unit.COUNT, below=_FEW_REQUESTS)
        duration, stream = common.get("max_connection_duration"), common.get("max_stream_duration")
        yield from limit("connection-duration", duration, Unit.SECONDS, below=_SHORT_SECONDS)
        yield from limit("stream-duration", stream, Unit.SECONDS, below=math.inf)


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
