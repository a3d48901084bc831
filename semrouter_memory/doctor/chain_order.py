"""Checks of a chain's order and names: the router at its end, the names of overrides, and buffers in front."""

import difflib
from collections.abc import Iterator

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.filter_chains import HttpFilterChain, config_of, per_route
from semrouter_memory.doctor.finding import Finding, found, graded
from semrouter_memory.doctor.node import Node, first

_PROTOCOL_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_MISSPELT = 0.85
"""How alike two names are, of 1, when one is meant to be the other."""
_MIB = 1024 * 1024


def the_router_is_last(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        routers = [index for index, entry in enumerate(chain.filters) if _is_router(entry)]
        if not routers and config_of(chain.filters[-1]).type.startswith("envoy."):
            yield found("no-router", chain.manager.get("http_filters"))
        elif routers and routers[0] != len(chain.filters) - 1:
            yield found("router-not-last", chain.filters[routers[0]])


def _is_router(entry: Node) -> bool:
    config = config_of(entry)
    return config.kind == "Router" if config else entry.get("name").text.endswith(".router")


def protocol_options_have_their_name(context: CheckContext) -> Iterator[Finding]:
    for cluster in context.clusters.values():
        for key, options in cluster.entries("typed_extension_protocol_options").items():
            if options.kind == "HttpProtocolOptions" and key != _PROTOCOL_OPTIONS:
                yield found("protocol-options-key", options, key=repr(key), name=_PROTOCOL_OPTIONS)


def overrides_name_filters(context: CheckContext) -> Iterator[Finding]:
    """A misspelt override changes nothing; one for another chain's filter may be intended."""
    for chain in context.memory_chains:
        names = [entry.get("name").text for entry in chain.filters]
        for level in chain.levels:
            for name, override in level.entries("typed_per_filter_config").items():
                near = difflib.get_close_matches(name, names, n=1, cutoff=_MISSPELT)
                if name not in names and near:
                    yield found("filter-unknown", override, name=repr(name), near=near[0])


def bodies_pass_the_buffer_filter(context: CheckContext) -> Iterator[Finding]:
    """The buffer filter answers 413 to bodies above its own limit."""
    wanted = context.config.server.max_body_bytes
    for chain in context.memory_chains:
        for limit in _buffer_limits(chain):
            size = limit.number
            if size is not None and size < wanted:
                sizes = {"limit": f"{size / _MIB:.3g}", "wanted": f"{wanted / _MIB:.3g}", "bytes": wanted}
                yield found("buffer-filter", limit, graded(size <= _MIB), **sizes)


def _buffer_limits(chain: HttpFilterChain) -> Iterator[Node]:
    """The limits of the buffer filters in front of the memory filters, on each chat route."""
    for entry in chain.filters[: chain.memory[-1].index]:
        if (config := config_of(entry)).kind != "Buffer":
            continue
        for route in chain.chat_routes:
            if route.has_memory and route.runs(entry):
                buffer = first((per_route(route.override_for(entry)).get("buffer"), config))
                yield buffer.get("max_request_bytes")
