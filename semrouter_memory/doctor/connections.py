"""Checks of the connections that lead to the sidecar: how many there may be, and how long they last."""

from collections.abc import Iterator

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import Applied, Role, cluster_named, protocol_options_of
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.limits import http2_options
from semrouter_memory.doctor.place import At

_LEAST = {"max_pending_requests": 1024, "max_connections": 100}
"""Below this, a burst is refused; Envoy's own defaults are 1,024."""
_FEW_STREAMS = 100
_FEW_REQUESTS = 1000
_SHORT_SECONDS = 60.0
_LONG_SECONDS = 10.0


def bursts_are_let_through(case: Case) -> Iterator[Finding]:
    for cluster in case.memory_clusters.values():
        breakers = cluster.get("circuit_breakers")
        found = [each for each in (breakers.all("thresholds") if breakers else ()) if not each.value("priority")]
        for name, least in _LEAST.items():
            said = found[0].value(name) if found else None
            if said is not None and said < least:
                grade = error if said == 0 else warning
                yield grade(
                    "circuit-breaker-burst",
                    found[0].where(name),
                    f"{name} is {said}: where many requests come at once, those above pass without memory",
                    f"{name}: 65536",
                )


def connections_hold_many_streams(case: Case) -> Iterator[Finding]:
    for cluster in case.memory_clusters.values():
        for options in protocol_options_of(cluster):
            http2 = options.descend("explicit_http_config", "http2_protocol_options")
            http2 = http2 or options.get("http2_protocol_options")
            said = http2.value("max_concurrent_streams") if http2 is not None else None
            if http2 is not None and said is not None and said < _FEW_STREAMS:
                yield warning(
                    "concurrent-streams",
                    http2.where("max_concurrent_streams"),
                    f"a connection holds {said} streams, and each open answer holds up to two: a busy gateway needs many"
                    " connections",
                    "leave max_concurrent_streams out",
                )


def connections_last(case: Case) -> Iterator[Finding]:
    for cluster in case.memory_clusters.values():
        yield from _worn_out(cluster)
        for options in protocol_options_of(cluster):
            common = options.get("common_http_protocol_options")
            if common is not None:
                yield from _worn_out(common)
                yield from _too_old(common)


def answers_outlive_the_sidecar(case: Case) -> Iterator[Finding]:
    """A single filter holds an answer while the sidecar is silent; each piece that is sent starts message_timeout anew."""
    for _, each in case.applied:
        if each.filter.role is Role.BOTH and each.mode is not None and _reads_pieces(each.mode):
            yield from _held(case, each)


def _reads_pieces(mode: At) -> bool:
    return bool(mode.value("response_body_mode").name == "STREAMED")


def _held(case: Case, each: Applied) -> Iterator[Finding]:
    cluster = case.clusters.get(cluster_named(each.service))
    http2 = http2_options(cluster) if cluster is not None else None
    seconds = _silence(http2) if http2 is not None else 0.0
    if http2 is not None and not 0 < seconds <= _LONG_SECONDS:
        yield error(
            "answers-held",
            http2.where("connection_keepalive"),
            "a sidecar that stops in mid-stream holds back the rest of the answer"
            + (f" for {seconds:g} s" if seconds else ", however long it takes: message_timeout does not end that"),
            "connection_keepalive: {interval: 0.5s, timeout: 1s}",
        )
    yield warning(
        "single-filter",
        each.where,
        f"every piece of a streamed answer waits for {each.filter.name}; a sidecar that answers pings but is blocked holds"
        " the rest of an answer back for as long",
        "the two filters of envoy/jwt.yaml, with Envoy 1.38 or newer",
    )


def _silence(http2: At) -> float:
    """After how long a connection without answers is reset; 0: never."""
    keepalive = http2.get("connection_keepalive")
    interval = keepalive.value("interval") if keepalive is not None else None
    timeout = keepalive.value("timeout") if keepalive is not None else None
    return 0.0 if interval is None or timeout is None else float((interval + timeout).total_seconds())


def _worn_out(at: At) -> Iterator[Finding]:
    said = at.value("max_requests_per_connection")
    if said is not None and 0 < said < _FEW_REQUESTS:
        yield warning(
            "connection-requests",
            at.where("max_requests_per_connection"),
            f"a connection to the sidecar ends after {said} streams, and each request needs two: they are made anew all"
            " the time",
            "leave max_requests_per_connection out",
        )


def _too_old(common: At) -> Iterator[Finding]:
    said = common.value("max_connection_duration")
    if said is not None and 0 < said.total_seconds() < _SHORT_SECONDS:
        yield warning(
            "connection-duration",
            common.where("max_connection_duration"),
            f"connections to the sidecar end after {said.total_seconds():g} s and are made anew all the time",
            "leave max_connection_duration out",
        )
