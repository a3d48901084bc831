"""Checks for configuration that is not in the file: it is named, so that silence is never taken for approval. Pure."""

from collections.abc import Iterator

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.filter_chains import PROCESSOR, calls_sidecar, cluster_named, config_of
from semrouter_memory.doctor.finding import Finding, found
from semrouter_memory.doctor.node import Node


def xds_source(context: CheckContext, name: str) -> Node:
    """The source from which listeners (`lds_config`) or clusters (`cds_config`) come over xDS."""
    return context.bootstrap.get("dynamic_resources", name)


def resources_are_in_the_file(context: CheckContext) -> Iterator[Finding]:
    for name, code in (("lds_config", "listeners-unseen"), ("cds_config", "clusters-unseen")):
        if source := xds_source(context, name):
            yield found(code, source)


def endpoints_are_in_the_file(context: CheckContext) -> Iterator[Finding]:
    for cluster in context.memory_clusters:
        if source := cluster.get("eds_cluster_config"):
            yield found("endpoints-unseen", source, cluster=cluster.get("name").text)


def routes_are_in_the_file(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        config = chain.manager.get("route_config")
        sources = [chain.manager.get("rds"), chain.manager.get("scoped_routes"), config.get("vhds")]
        for source in [*sources, *(host.get("matcher") for host in config.items("virtual_hosts"))]:
            if source:
                yield found("routes-unseen", source)


def filters_are_in_the_file(context: CheckContext) -> Iterator[Finding]:
    for entry in discovered(context):
        yield found("filter-unseen", entry.get("config_discovery"), name=entry.get("name").text)
    for config in outside_chains(context):
        yield found("filter-unseen/outside", config)
        if not (allowed := config.get("failure_mode_allow")).flag:
            yield found("failure-mode-allow", allowed, name="this filter")


def discovered(context: CheckContext) -> list[Node]:
    """The ext_proc filters whose configuration comes over xDS."""
    entries = [entry for chain in context.chains for entry in chain.filters]
    return [
        entry
        for entry in entries
        if any(url.endswith(PROCESSOR) for url in entry.get("config_discovery").texts("type_urls"))
    ]


def outside_chains(context: CheckContext) -> list[Node]:
    """The configurations of ext_proc filters for memory that are in no HTTP filter chain of a listener."""
    known = {config_of(entry).path for chain in context.chains for entry in chain.filters}
    found_ones = [node for node in _processors(context.bootstrap.get("static_resources")) if node.path not in known]
    return [node for node in found_ones if not context.memory_chains or _is_for_memory(context, node)]


def _processors(node: Node) -> Iterator[Node]:
    """Every configuration of an ext_proc filter at or below a node."""
    if isinstance(node.value, dict):
        if node.kind == PROCESSOR:
            yield node
        for name in node.value:
            yield from _below(node, str(name))


def _below(node: Node, name: str) -> Iterator[Node]:
    for child in node.items(name) if isinstance(node.value[name], list) else [node.get(name)]:
        yield from _processors(child)


def _is_for_memory(context: CheckContext, config: Node) -> bool:
    named = "memory" in cluster_named(config.get("grpc_service"))
    return named or calls_sidecar(config, context.clusters, context.listen)
