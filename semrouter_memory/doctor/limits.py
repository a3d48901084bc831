"""Checks of sizes and numbers: buffers, messages, streams, and the cluster that leads to the sidecar."""

from collections.abc import Iterator

from semrouter_memory.doctor import own
from semrouter_memory.doctor.address import of_setting, reaches
from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import Chain, Route, endpoints_of, protocol_options_of
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.place import At

_ENVOY_BUFFER = 1024 * 1024
"""Envoy's own limit where nothing is said."""
_ENVOY_REQUESTS = 1024
_MANY_REQUESTS = 3000
_ENVOY_WINDOW = 16 * 1024 * 1024
_MIB = 1024 * 1024


def bodies_fit_the_route(case: Case) -> Iterator[Finding]:
    """A buffered body above the limit is Envoy's 413."""
    wanted = case.config.server.max_body_bytes
    for chain in case.memory_chains:
        for route in chain.chat_routes:
            if not _buffers(route):
                continue
            limit, where = _route_limit(chain, route)
            if limit < wanted:
                grade = error if limit <= _ENVOY_BUFFER else warning
                yield grade(
                    "route-buffer-limit",
                    where,
                    f"requests above {_mib(limit)} get 413 while they are buffered for memory; the sidecar takes"
                    f" {_mib(wanted)}",
                    f"request_body_buffer_limit: {wanted} on the route",
                )
            elif limit > case.config.server.max_message_bytes:
                yield warning(
                    "route-above-message",
                    where,
                    f"bodies above {_mib(case.config.server.max_message_bytes)} do not fit a message to the sidecar and"
                    " pass without memory",
                    "raise server.max_message_bytes, or lower the route's limit",
                )


def _buffers(route: Route) -> bool:
    modes = [each.mode.value("request_body_mode").name for each in route.applied if each.enabled and each.mode]
    return any(mode == "BUFFERED" for mode in modes)


def _route_limit(chain: Chain, route: Route) -> tuple[int, str]:
    for level in reversed(route.levels):
        for name in ("request_body_buffer_limit", "per_request_buffer_limit_bytes"):
            if (value := level.value(name)) is not None:
                return int(value), level.where(name)
    value = chain.listener.value("per_connection_buffer_limit_bytes")
    if value is not None:
        return int(value), chain.listener.where("per_connection_buffer_limit_bytes")
    return _ENVOY_BUFFER, route.at.where("request_body_buffer_limit")


def bodies_fit_the_cluster(case: Case) -> Iterator[Finding]:
    wanted = case.config.server.max_body_bytes
    for cluster in case.memory_clusters.values():
        said = cluster.value("per_connection_buffer_limit_bytes")
        limit = _ENVOY_BUFFER if said is None else int(said)
        if limit < wanted:
            grade = error if limit <= _ENVOY_BUFFER else warning
            yield grade(
                "cluster-buffer-limit",
                cluster.where("per_connection_buffer_limit_bytes"),
                f"a buffered body travels in one message, and {_mib(limit)} are buffered here for bodies of up to"
                f" {_mib(wanted)}",
                f"per_connection_buffer_limit_bytes: {max(case.config.server.max_message_bytes, wanted)}",
            )


def the_window_holds_a_body(case: Case) -> Iterator[Finding]:
    wanted = case.config.server.max_body_bytes
    for cluster in case.memory_clusters.values():
        http2 = http2_options(cluster)
        if http2 is None:
            continue
        said = http2.value("initial_stream_window_size")
        window = _ENVOY_WINDOW if said is None else int(said)
        if window < wanted:
            yield warning(
                "stream-window",
                http2.where("initial_stream_window_size"),
                f"copies beyond {_mib(window)} that the sidecar has not read hold the client's own bodies back",
                f"initial_stream_window_size: {min(2 * wanted, 2**31 - 1)}",
            )


def messages_hold_bodies(case: Case) -> Iterator[Finding]:
    server = case.config.server
    if server.max_message_bytes <= server.max_body_bytes:
        yield error(
            "message-size",
            "server.max_message_bytes",
            f"{server.max_message_bytes} is not above max_body_bytes ({server.max_body_bytes}): the largest bodies do not"
            " fit a message, and their stream fails",
            f"server.max_message_bytes: {server.max_body_bytes + 8 * _MIB}",
        )


def the_cluster_speaks_http2(case: Case) -> Iterator[Finding]:
    for cluster in case.memory_clusters.values():
        if http2_options(cluster) is None:
            yield error(
                "no-http2",
                cluster.where("typed_extension_protocol_options"),
                f"the cluster {cluster.value('name')} does not speak HTTP/2: no stream reaches the sidecar",
                "explicit_http_config: {http2_protocol_options: {}} in HttpProtocolOptions",
            )


def streams_are_let_through(case: Case) -> Iterator[Finding]:
    """Each open answer holds one or two streams to the sidecar."""
    for cluster in case.memory_clusters.values():
        breakers = cluster.get("circuit_breakers")
        found = [each for each in (breakers.all("thresholds") if breakers else ()) if not each.value("priority")]
        place = found[0].where("max_requests") if found else cluster.where("circuit_breakers")
        said = found[0].value("max_requests") if found else None
        limit = _ENVOY_REQUESTS if said is None else int(said)
        if limit < _MANY_REQUESTS:
            grade = error if limit <= _ENVOY_REQUESTS else warning
            yield grade(
                "circuit-breaker",
                place,
                f"{cluster.value('name')} lets {limit} streams through{' (the default)' if said is None else ''}, and each"
                " open answer holds up to two; those above fail",
                "circuit_breakers: {thresholds: [{max_connections: 65536, max_pending_requests: 65536,"
                " max_requests: 65536}]}",
            )


def load_is_spread(case: Case) -> Iterator[Finding]:
    for cluster in case.memory_clusters.values():
        found = endpoints_of(cluster)
        addresses = [str(address) for _, address in found]
        for index, address in enumerate(addresses):
            if address in addresses[:index]:
                yield warning(
                    "endpoint-twice",
                    found[index][0],
                    f"{address} is listed more than once; processes that share a port (SO_REUSEPORT) do not share its load",
                    "one port or socket for each process, each listed once",
                )
        policy = cluster.value("lb_policy").name
        if len(set(addresses)) > 1 and policy != "LEAST_REQUEST" and cluster.get("load_balancing_policy") is None:
            yield warning(
                "lb-policy",
                cluster.where("lb_policy"),
                f"{policy} counts streams, but exchanges differ in length: some processes will have more to do",
                "lb_policy: LEAST_REQUEST",
            )


def streams_are_not_cut(case: Case) -> Iterator[Finding]:
    for cluster in case.memory_clusters.values():
        for options in protocol_options_of(cluster):
            common = options.get("common_http_protocol_options")
            if common is not None and common.value("max_stream_duration"):
                yield warning(
                    "stream-duration",
                    common.where("max_stream_duration"),
                    f"streams to the sidecar end after {common.value('max_stream_duration').total_seconds():g} s, and"
                    " longer answers are not learned from",
                    "leave max_stream_duration out",
                )


def addresses_agree(case: Case) -> Iterator[Finding]:
    """Envoy must call where the sidecar listens."""
    for cluster in case.memory_clusters.values():
        yield from _leads(case, cluster, "server.listen", case.config.server.listen)
    names = {name for chain in case.chains for route in case.api_routes(chain) for name in route.clusters}
    for name in sorted(names & set(case.clusters)):
        yield from _leads(case, case.clusters[name], "management.listen", case.config.management.listen)


def _leads(case: Case, cluster: At, setting: str, listen: str) -> Iterator[Finding]:
    address, found = of_setting(listen), endpoints_of(cluster)
    if address is None or not found or any(reaches(endpoint, address) for _, endpoint in found):
        return
    grade, what = (error, "") if case.given else (warning, " by default; no --config was given")
    yield grade(
        "address-differs",
        found[0][0],
        f"{cluster.value('name')} calls {', '.join(str(endpoint) for _, endpoint in found)}, the sidecar listens on"
        f" {listen} ({setting}){what}",
        "use the same address in both" if case.given else "give the sidecar's settings: --config FILE",
    )


def one_process_owns_lite(case: Case) -> Iterator[Finding]:
    lite = own.keeps_a_file(case)
    for cluster in case.memory_clusters.values():
        count = len({str(address) for _, address in endpoints_of(cluster)})
        if lite and case.given and count > 1:
            yield error(
                "lite-shared",
                cluster.where("load_assignment"),
                f"{count} sidecars, but memories are in a Milvus Lite file, which belongs to one process",
                "memory.milvus.address of a Milvus server, and memory.redis.url",
            )


def http2_options(cluster: At) -> At | None:
    """Where HTTP/2 is switched on; a cluster's own old field counts only without typed options."""
    found = cluster.opened_map("typed_extension_protocol_options").values()
    options = [each for each in found if each.is_a("HttpProtocolOptions")]
    if not options:
        return cluster.get("http2_protocol_options")
    places = [each.descend("explicit_http_config", "http2_protocol_options") for each in options]
    if cluster.get("transport_socket") is not None:
        # With TLS, the two agree on HTTP/2 by themselves.
        automatic = [at for each in options if (at := each.get("auto_config")) is not None]
        places += [at.get("http2_protocol_options") or at for at in automatic]
    return next((at for at in places if at is not None), None)


def _mib(count: int) -> str:
    return f"{count / _MIB:.3g} MiB"
