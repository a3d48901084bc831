"""Checks of the clusters that filters and routes lead to: that they exist, their protocol, limits and connections."""

from collections.abc import Iterator

from semrouter_memory.doctor.address import Address, of_setting, reaches
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.dynamic_config import xds_source
from semrouter_memory.doctor.filter_chains import (
    PROCESSOR,
    AppliedFilter,
    FilterRole,
    cluster_named,
    config_of,
    endpoints_of,
)
from semrouter_memory.doctor.finding import Finding, found, graded
from semrouter_memory.doctor.node import Node, first
from semrouter_memory.doctor.sidecar_config import uses_lite

_MIB = 1024 * 1024
_BUFFER = _MIB
"""Envoy's default of `per_connection_buffer_limit_bytes`."""
_REQUESTS = 1024
"""Envoy's default of `max_requests`."""
_WINDOW = 16 * _MIB
"""Envoy's default of `initial_stream_window_size`."""
_MANY_REQUESTS = 3000
_LEAST = {"max_pending_requests": 1024, "max_connections": 100}
"""Below this, a burst is refused; Envoy's defaults are 1,024."""
_FEW_STREAMS = 100
_FEW_REQUESTS = 1000
_SHORT_SECONDS = 60.0
_LONG_SECONDS = 10.0
_POLICIES = ("ROUND_ROBIN", "LEAST_REQUEST", "RING_HASH", "RANDOM", "", "MAGLEV", "CLUSTER_PROVIDED")


def filters_call_a_cluster(context: CheckContext) -> Iterator[Finding]:
    for each in context.applied:
        if google := each.service.get("google_grpc"):
            yield from _google(context, each, google)
        elif not each.cluster:
            yield found("no-grpc-service", each.service, name=each.name)
        else:
            yield from _missing(context, each.cluster, each.service, f"{each.name} calls")


def other_processors_call_a_cluster(context: CheckContext) -> Iterator[Finding]:
    """A processor without a cluster may be for memory: nothing tells whose it is."""
    for chain in context.chains:
        for _, entry in chain.others:
            service = config_of(entry).get("grpc_service")
            if config_of(entry).kind == PROCESSOR and service.get("envoy_grpc"):
                caller = f"{entry.get('name').text} calls"
                yield from _missing(context, cluster_named(service), service, caller)


def routes_lead_to_a_cluster(context: CheckContext) -> Iterator[Finding]:
    """Envoy does not start when a static route leads to no cluster."""
    for chain in context.guarded_chains:
        for target in (target for route in chain.routes for target in route.targets):
            yield from _missing(context, target.text, target, "this route leads to")


def _missing(context: CheckContext, name: str, place: Node, caller: str) -> Iterator[Finding]:
    if name not in context.clusters and not xds_source(context, "cds_config"):
        yield found("cluster-missing", place, caller=caller, cluster=repr(name))


def _google(context: CheckContext, each: AppliedFilter, google: Node) -> Iterator[Finding]:
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


def clusters_have_endpoints(context: CheckContext) -> Iterator[Finding]:
    for cluster in context.memory_clusters:
        elsewhere = cluster.get("eds_cluster_config") or cluster.get("cluster_type")
        if not elsewhere and not endpoints_of(cluster):
            yield found("no-endpoints", cluster.get("load_assignment"), cluster=_name(cluster))


def addresses_agree(context: CheckContext) -> Iterator[Finding]:
    """Envoy must call where the sidecar listens."""
    for cluster in context.memory_clusters:
        yield from _leads(context, cluster, "server.listen", context.config.server.listen)
    for cluster in map(context.cluster, context.api_clusters()):
        yield from _leads(context, cluster, "management.listen", context.config.management.listen)


def _leads(context: CheckContext, cluster: Node, setting: str, listen: str) -> Iterator[Finding]:
    address, endpoints = of_setting(listen), endpoints_of(cluster)
    if address is None or not endpoints or any(reaches(endpoint, address) for _, endpoint in endpoints):
        return
    code = "address-differs" if context.config_given else "address-differs/default"
    called = ", ".join(str(endpoint) for _, endpoint in endpoints)
    yield found(code, endpoints[0][0], caller=_name(cluster), called=called, listen=listen, setting=setting)


def bodies_fit_the_cluster(context: CheckContext) -> Iterator[Finding]:
    server = context.config.server
    for cluster in context.memory_clusters:
        limit = cluster.get("per_connection_buffer_limit_bytes")
        size = _number(limit, _BUFFER)
        if size < server.max_body_bytes:
            sizes = {"limit": _mib(size), "wanted": _mib(server.max_body_bytes)}
            enough = max(server.max_message_bytes, server.max_body_bytes)
            yield found("cluster-buffer-limit", limit, graded(size <= _BUFFER), **sizes, enough=enough)


def the_window_holds_a_body(context: CheckContext) -> Iterator[Finding]:
    wanted = context.config.server.max_body_bytes
    for cluster in context.memory_clusters:
        http2 = http2_options(cluster)
        size = _number(http2.get("initial_stream_window_size"), _WINDOW)
        if http2 and size < wanted:
            enough = min(2 * wanted, 2**31 - 1)
            yield found("stream-window", http2.get("initial_stream_window_size"), window=_mib(size), enough=enough)


def the_cluster_speaks_http2(context: CheckContext) -> Iterator[Finding]:
    for cluster in context.memory_clusters:
        if not http2_options(cluster):
            yield found("no-http2", cluster.get("typed_extension_protocol_options"), cluster=_name(cluster))


def streams_are_admitted(context: CheckContext) -> Iterator[Finding]:
    """Each open answer holds one or two streams to the sidecar."""
    for cluster in context.memory_clusters:
        limits = _circuit_breaker(cluster)
        limit = limits.get("max_requests")
        count = _number(limit, _REQUESTS)
        if count < _MANY_REQUESTS:
            place = limit if limits else cluster.get("circuit_breakers")
            note = "" if limit else " (Envoy's default)"
            texts = {"cluster": _name(cluster), "count": count, "default": note}
            yield found("circuit-breaker", place, graded(count <= _REQUESTS), **texts)


def bursts_are_admitted(context: CheckContext) -> Iterator[Finding]:
    for cluster in context.memory_clusters:
        for name, least in _LEAST.items():
            limit = _circuit_breaker(cluster).get(name)
            if _number(limit, least) < least:
                yield found("circuit-breaker-burst", limit, graded(limit.number == 0), name=name, count=limit.number)


def _circuit_breaker(cluster: Node) -> Node:
    """The thresholds of the default priority."""
    found_ones = cluster.get("circuit_breakers").items("thresholds")
    default = [each for each in found_ones if each.get("priority").choice(("DEFAULT", "HIGH")) == "DEFAULT"]
    return first([*default[:1], Node(None)])


def load_is_balanced(context: CheckContext) -> Iterator[Finding]:
    for cluster in context.memory_clusters:
        endpoints = endpoints_of(cluster)
        addresses = [str(address) for _, address in endpoints]
        for index, address in enumerate(addresses):
            if address in addresses[:index]:
                yield found("endpoint-twice", endpoints[index][0], address=address)
        policy = cluster.get("lb_policy").choice(_POLICIES)
        if len(set(addresses)) > 1 and policy != "LEAST_REQUEST" and not cluster.get("load_balancing_policy"):
            yield found("lb-policy", cluster.get("lb_policy"), policy=policy)


def one_process_owns_lite(context: CheckContext) -> Iterator[Finding]:
    for cluster in context.memory_clusters:
        count = len({str(address) for _, address in endpoints_of(cluster)})
        if count > 1 and context.config_given and uses_lite(context):
            yield found("lite-shared", cluster.get("load_assignment"), count=count)


def connections_carry_many_streams(context: CheckContext) -> Iterator[Finding]:
    for options in (options for cluster in context.memory_clusters for options in _protocol_options(cluster)):
        explicit = options.get("explicit_http_config", "http2_protocol_options")
        limit = first((explicit, options.get("http2_protocol_options"))).get("max_concurrent_streams")
        if _number(limit, _FEW_STREAMS) < _FEW_STREAMS:
            yield found("concurrent-streams", limit, count=limit.number)


def connections_and_streams_last(context: CheckContext) -> Iterator[Finding]:
    for cluster in context.memory_clusters:
        commons = [options.get("common_http_protocol_options") for options in _protocol_options(cluster)]
        for limit in (place.get("max_requests_per_connection") for place in (cluster, *commons)):
            if 0 < _number(limit, 0) < _FEW_REQUESTS:
                yield found("connection-requests", limit, count=limit.number)
        for common in commons:
            duration, stream = common.get("max_connection_duration"), common.get("max_stream_duration")
            if 0 < (duration.seconds or 0) < _SHORT_SECONDS:
                yield found("connection-duration", duration, seconds=f"{duration.seconds:g}")
            if stream.seconds:
                yield found("stream-duration", stream, seconds=f"{stream.seconds:g}")


def answers_outlive_the_sidecar(context: CheckContext) -> Iterator[Finding]:
    """A single filter holds an answer while the sidecar is silent; each piece that is sent restarts message_timeout."""
    for each in context.applied:
        if each.filter.role is not FilterRole.BOTH or each.body_mode("response") != "STREAMED":
            continue
        http2 = http2_options(context.cluster(each.cluster))
        keepalive = http2.get("connection_keepalive")
        interval, timeout = keepalive.get("interval").seconds, keepalive.get("timeout").seconds
        silence = 0.0 if interval is None or timeout is None else interval + timeout
        if http2 and not 0 < silence <= _LONG_SECONDS:
            length = f"for {silence:g} s" if silence else "without limit, because message_timeout does not end that"
            yield found("answers-held", keepalive, length=length)
        yield found("single-filter", first((*reversed(each.overrides), each.filter.config)), name=each.name)


def http2_options(cluster: Node) -> Node:
    """The HTTP/2 options where HTTP/2 is on; a cluster's own old field counts only without typed options."""
    options = [
        each
        for each in cluster.entries("typed_extension_protocol_options").values()
        if each.kind == "HttpProtocolOptions"
    ]
    if not options:
        return cluster.get("http2_protocol_options")
    places = [each.get("explicit_http_config", "http2_protocol_options") for each in options]
    if cluster.get("transport_socket"):
        # With TLS, both sides negotiate HTTP/2.
        automatic = [each.get("auto_config") for each in options]
        places += [first((each.get("http2_protocol_options"), each)) for each in automatic]
    return first(places)


def _protocol_options(cluster: Node) -> list[Node]:
    """Where a cluster's connections are configured: in old fields of its own, and in typed options."""
    return [cluster, *cluster.entries("typed_extension_protocol_options").values()]


def _number(node: Node, default: int) -> int:
    number = node.number
    return default if number is None else number


def _name(cluster: Node) -> str:
    return cluster.get("name").text


def _mib(count: int) -> str:
    return f"{count / _MIB:.3g} MiB"
