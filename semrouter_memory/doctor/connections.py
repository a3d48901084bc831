"""Checks of the connections that lead to the sidecar: how many there may be, and how long they last."""

from collections.abc import Iterator

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import protocol_options_of
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.place import At

_LEAST = {"max_pending_requests": 1024, "max_connections": 100}
"""Below this, a burst is refused; Envoy's own defaults are 1,024."""
_FEW_STREAMS = 100
_FEW_REQUESTS = 1000
_SHORT_SECONDS = 60.0


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
