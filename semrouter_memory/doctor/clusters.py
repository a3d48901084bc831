"""Checks that what filters and routes lead to is there. Pure."""

from collections.abc import Iterator

from semrouter_memory.doctor.address import Address, of_setting, reaches
from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import Applied, cluster_named, config_of, endpoints_of
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.place import At
from semrouter_memory.doctor.unseen import from_elsewhere


def filters_lead_somewhere(case: Case) -> Iterator[Finding]:
    for _, each in case.applied:
        service, name = each.service, cluster_named(each.service)
        google = service.get("google_grpc") if service is not None else None
        if google is not None:
            yield from _google(case, each, google)
        elif service is None or not name:
            yield error(
                "no-grpc-service",
                each.filter.config.where("grpc_service"),
                f"{each.filter.name} names no cluster to call by gRPC, and the sidecar speaks nothing else",
                "grpc_service: {envoy_grpc: {cluster_name: memory_sidecar}, timeout: 0s}",
            )
        else:
            yield from _missing(case, name, service.path, f"{each.filter.name} calls")


def others_lead_somewhere(case: Case) -> Iterator[Finding]:
    """A filter that calls nobody may be one of ours: nothing tells whose it is."""
    for chain in case.chains:
        ours = {each.at.path for each in chain.memory}
        for entry in chain.filters:
            config = config_of(entry)
            service = config.get("grpc_service") if config is not None and config.is_a("ExternalProcessor") else None
            if service is not None and entry.path not in ours and service.get("envoy_grpc") is not None:
                yield from _missing(case, cluster_named(service), service.path, f"{entry.value('name')} calls")


def _google(case: Case, each: Applied, google: At) -> Iterator[Finding]:
    assert each.service is not None
    yield warning(
        "google-grpc",
        each.service.path,
        "Envoy's own gRPC client (envoy_grpc) is the one that is tested, and this one has neither its circuit breaker nor"
        " its buffers",
        "envoy_grpc: {cluster_name: ...}",
    )
    target, listen = _target(str(google.value("target_uri"))), of_setting(case.config.server.listen)
    if case.given and target is not None and listen is not None and not reaches(target, listen):
        yield error(
            "address-differs",
            google.where("target_uri"),
            f"{each.filter.name} calls {target}, the sidecar listens on {case.config.server.listen} (server.listen)",
            "use the same address in both",
        )


def _target(uri: str) -> Address | None:
    """A gRPC name: with a scheme that says how to look it up, or without."""
    for scheme in ("dns:", "ipv4:", "ipv6:"):
        if uri.startswith(scheme):
            uri = uri.removeprefix(scheme).rpartition("/")[2]
    return of_setting(uri)


def clusters_have_endpoints(case: Case) -> Iterator[Finding]:
    for cluster in case.memory_clusters.values():
        is_elsewhere = cluster.get("eds_cluster_config") is not None or cluster.get("cluster_type") is not None
        if not is_elsewhere and not endpoints_of(cluster):
            yield error(
                "no-endpoints",
                cluster.where("load_assignment"),
                f"{cluster.value('name')} has no endpoint: nothing reaches the sidecar",
                "lb_endpoints with the address of server.listen, as in envoy/two-filter.yaml",
            )


def routes_lead_somewhere(case: Case) -> Iterator[Finding]:
    """Envoy does not start when a route that stands in its file leads to no cluster."""
    for chain in case.guarded_chains:
        for at in (at for route in chain.routes for at in route.targets):
            field = "name" if at.path.endswith("]") else "cluster"
            name = at.value(field)
            if name:
                yield from _missing(case, name, at.where(field), "this route leads to")


def _missing(case: Case, name: str, place: str, what: str) -> Iterator[Finding]:
    """A cluster that is neither in the file nor comes from elsewhere."""
    if name not in case.clusters and not from_elsewhere(case, "cds_config"):
        yield error(
            "cluster-missing",
            place,
            f"{what} the cluster {name!r}, which is not among static_resources.clusters",
            "add it as in envoy/two-filter.yaml",
        )
