"""What stands where doctor does not look: it is named, so that silence is never taken for approval. Pure."""

from collections.abc import Iterator

from semrouter_memory.doctor.address import reaches
from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import cluster_named, config_of, endpoints_of
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.place import At

_PROCESSOR = "ExternalProcessor"
_STATIC = "give doctor a file in which it stands among static_resources"
_DYNAMIC = {
    "lds_config": ("listeners-unseen", "listeners come from elsewhere: their filters and routes are not checked"),
    "cds_config": ("clusters-unseen", "clusters come from elsewhere: those that are not in this file are not checked"),
}


def from_elsewhere(case: Case, name: str) -> At | None:
    """Where the bootstrap says that listeners (`lds_config`) or clusters (`cds_config`) come over xDS."""
    return case.bootstrap.descend("dynamic_resources", name) if case.bootstrap is not None else None


def resources_can_be_seen(case: Case) -> Iterator[Finding]:
    for name, (code, what) in _DYNAMIC.items():
        at = from_elsewhere(case, name)
        if at is not None:
            yield warning(code, at.path, what, _STATIC)


def endpoints_can_be_seen(case: Case) -> Iterator[Finding]:
    for cluster in case.memory_clusters.values():
        at = cluster.get("eds_cluster_config")
        if at is not None:
            yield warning(
                "endpoints-unseen",
                at.path,
                f"the endpoints of {cluster.value('name')} come from elsewhere: whether they are the sidecar's is not"
                " checked",
                _STATIC,
            )


def routes_can_be_seen(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        places = [at for name in ("rds", "scoped_routes") if (at := chain.manager.get(name)) is not None]
        config = chain.manager.get("route_config")
        if config is not None:
            hosts = config.all("virtual_hosts")
            places += [at for at in (config.get("vhds"), *(host.get("matcher") for host in hosts)) if at is not None]
        for at in places:
            yield warning(
                "routes-unseen",
                at.path,
                "routes come from elsewhere, or are chosen by a matcher: which requests memory is on, and with what"
                " limits, is not checked",
                "look at them with envoy/two-filter.yaml beside you",
            )


def filters_can_be_seen(case: Case) -> Iterator[Finding]:
    for at in discovered(case):
        yield warning(
            "filter-unseen",
            at.where("config_discovery"),
            f"the configuration of {at.value('name')} comes from elsewhere and is not checked",
            _STATIC,
        )
    for config in elsewhere(case):
        yield warning(
            "filter-unseen",
            config.path,
            "an ext_proc filter for memory stands where only its failing open is checked: behind a matcher's action, in an"
            " api_listener, or among the filters of an upstream, which see each attempt of a request anew",
            "put it among the http_filters of the HTTP connection manager",
        )
        if not config.value("failure_mode_allow"):
            yield error(
                "failure-mode-allow",
                config.where("failure_mode_allow"),
                "this filter fails closed: when the sidecar is away or slow, requests end in 500 or 504",
                "failure_mode_allow: true",
            )


def discovered(case: Case) -> list[At]:
    """The ext_proc filters whose configuration comes over xDS."""
    entries = (entry for chain in case.chains for entry in chain.filters)
    sources = ((entry, at) for entry in entries if (at := entry.get("config_discovery")) is not None)
    return [entry for entry, at in sources if any(url.endswith(_PROCESSOR) for url in at.value("type_urls"))]


def elsewhere(case: Case) -> list[At]:
    """The configurations of ext_proc filters for memory that are in no chain."""
    if case.bootstrap is None:
        return []
    filters = (config_of(entry) for chain in case.chains for entry in chain.filters)
    seen = {config.path for config in filters if config is not None}
    opened = case.bootstrap.opened_at
    others = [
        At(found.message, path, opened, found.type)
        for path, found in opened.items()
        if path not in seen and found.message is not None and found.type.endswith(f".{_PROCESSOR}")
    ]
    return [at for at in others if not any(case.memory_chains) or _is_ours(case, at)]


def _is_ours(case: Case, config: At) -> bool:
    cluster = cluster_named(config.get("grpc_service"))
    listen = case.listen
    found = (address for _, address in endpoints_of(case.clusters.get(cluster)))
    return "memory" in cluster or any(listen is not None and reaches(address, listen) for address in found)
