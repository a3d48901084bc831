"""Checks of routes: which requests memory is on, how large and how long they may be, and where the management API is."""

import difflib
from collections.abc import Iterator
from typing import Any

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import MIB, Finding, Unit, found, graded, limit
from semrouter_memory.doctor.gateway import (
    API_PATH,
    CHAT_PATHS,
    GatewayRoute,
    HttpFilterChain,
    config_of,
    per_route,
)
from semrouter_memory.doctor.matching import excludes_upgrades, only_method
from semrouter_memory.doctor.node import Node, first

_BUFFER = MIB
"""Envoy's default of the buffer limit."""
_ROUTE_SECONDS = 15.0
"""Envoy's default of a route's `timeout`."""
_IDLE_SECONDS = 300.0
"""Envoy's default of `stream_idle_timeout`."""
_SHORT_SECONDS = 300.0
_OTHER_PATHS = ("/", "/v1/files", "/v1/audio/transcriptions", "/v1/models")
_GRACEFUL_CLOSE = "envoy.reloadable_features.ext_proc_graceful_grpc_close"
_MISSPELT = 0.85
"""How alike two names are, of 1, when one is meant to be the other."""


def routes_are_in_the_file(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    config = chain.manager.get("route_config")
    sources = [chain.manager.get("rds"), chain.manager.get("scoped_routes"), config.get("vhds")]
    for source in [*sources, *(host.get("matcher") for host in config.items("virtual_hosts"))]:
        if source:
            yield found("routes-unseen", source)


def memory_is_on_for_chats_alone(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    if chain.routes and not any(route.enabled for route in chain.chat_routes):
        yield found("chat-without-memory", chain.manager.get("route_config"), paths=" or ".join(CHAT_PATHS))
    for path in _OTHER_PATHS:
        held = [route for route in chain.matching_routes("POST", path) if _holds_bodies(route)]
        if held:
            yield found("memory-on-other-paths", held[0].match, path=path)
            return


def upgrades_are_not_held(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The body of an upgraded request never ends, so a filter that buffers it waits without limit."""
    api = {route.node.path for route in chain.api_routes}
    for route in chain.routes:
        held = _upgrades(chain, route) and _holds_bodies(route) and route.node.path not in api
        if held and not excludes_upgrades(route.match):
            only_post = only_method(route.match, "POST")
            which = "POST requests that ask for an upgrade" if only_post else "WebSockets and other upgrades"
            yield found("upgrade-held", route.match, graded(not only_post), requests=which)


def _holds_bodies(route: GatewayRoute) -> bool:
    return not route.request_modes.isdisjoint(("BUFFERED", "BUFFERED_PARTIAL"))


def _upgrades(chain: HttpFilterChain, route: GatewayRoute) -> bool:
    """Whether an upgrade passes the memory filters; a route's own switch for a type beats the connection manager's."""
    # An upgrade with a filter chain of its own does not pass the memory filters.
    managed = {each.get("upgrade_type").text.lower(): each for each in chain.manager.items("upgrade_configs")}
    switches = managed | {each.get("upgrade_type").text.lower(): each for each in route.action.items("upgrade_configs")}
    return any(
        switch.get("enabled").flag is not False and not managed.get(name, switch).get("filters")
        for name, switch in switches.items()
    )


def bodies_fit_the_route(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """Envoy answers 413 to a buffered body above the limit, and the buffer filter to one above its own."""
    server = context.config.server
    wanted: dict[str, Any] = {
        "below": server.max_body_bytes,
        "error_to": _BUFFER,
        "wanted": Unit.BYTES.shown(server.max_body_bytes),
        "bytes": server.max_body_bytes,
    }
    for route in chain.chat_routes:
        if "BUFFERED" in route.request_modes:
            size = _buffer_limit(chain, route)
            yield from limit("route-buffer-limit", size, Unit.BYTES, default=_BUFFER, **wanted)
            if (size.number or 0) > max(server.max_message_bytes, server.max_body_bytes):
                yield found("route-above-message", size, limit=Unit.BYTES.shown(server.max_message_bytes))
        for entry in chain.filters[: chain.memory[-1].index]:
            if route.enabled and config_of(entry).kind == "Buffer" and route.runs(entry):
                buffer = first((per_route(route.override_for(entry)).get("buffer"), config_of(entry)))
                yield from limit("buffer-filter", buffer.get("max_request_bytes"), Unit.BYTES, **wanted)


def _buffer_limit(chain: HttpFilterChain, route: GatewayRoute) -> Node:
    names = ("request_body_buffer_limit", "per_request_buffer_limit_bytes")
    limits = [level.get(name) for level in reversed(route.levels) for name in names]
    unset = route.node.get("request_body_buffer_limit")
    return first([*limits, chain.listener.get("per_connection_buffer_limit_bytes"), unset])


def answers_may_take_long(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    common = chain.manager.get("common_http_protocol_options")
    bound = {"below": _SHORT_SECONDS, "error_to": _ROUTE_SECONDS}
    for route in (route for route in chain.chat_routes if route.action and route.enabled):
        timeout, own = route.action.get("timeout"), route.action.get("max_stream_duration", "max_stream_duration")
        if timeout or not own:  # else `own` is used instead
            yield from limit("route-timeout", timeout, Unit.SECONDS, default=_ROUTE_SECONDS, **bound)
        yield from limit("answer-duration", first((own, common.get("max_stream_duration"))), Unit.SECONDS, **bound)
        policy = first([level.get("retry_policy") for level in (route.action, *reversed(route.levels))])
        for name, what in (("per_try_timeout", "takes"), ("per_try_idle_timeout", "is silent for")):
            yield from limit("retry-timeout", policy.get(name), Unit.SECONDS, below=_SHORT_SECONDS, what=what)
    silence = chain.manager.get("stream_idle_timeout")
    for idle in [first((route.action.get("idle_timeout"), silence)) for route in chain.chat_routes] or [silence]:
        yield from limit("stream-idle-timeout", idle, Unit.SECONDS, below=_IDLE_SECONDS + 1, default=_IDLE_SECONDS)
    # Envoy's clock for a request's arrival runs on during recall.
    request, deadline = chain.manager.get("request_timeout"), context.deadline_seconds
    yield from limit("request-timeout", request, Unit.SECONDS, below=_ROUTE_SECONDS, error_to=deadline)


def api_is_reachable(context: CheckContext) -> Iterator[Finding]:
    chains = [chain for chain in context.memory_chains if chain.routes]
    routes = [route for chain in context.chains for route in chain.api_routes]
    if chains and not routes:
        yield _api_missing(chains[0])
    memory = {cluster.get("name").text for cluster in context.memory_clusters}
    for route in routes:
        # Where only one filter is enabled, filters_are_on_together reports that.
        if route.enabled and len(route.enabled) == len(route.memory):
            place = route.node.get("typed_per_filter_config")
            yield found("memory-api-filtered", place, names=" and ".join(each.name for each in route.enabled))
        for name in memory.intersection(route.clusters):
            yield found("memory-api-cluster", route.node, path=API_PATH, cluster=name)


def _api_missing(chain: HttpFilterChain) -> Finding:
    for route in chain.routes:
        if any(API_PATH in route.match.get(name).text for name in ("path_separated_prefix", "prefix")):
            return found("memory-api-shadowed", route.node, path=API_PATH)
    return found("memory-api-missing", chain.manager.get("route_config"), path=API_PATH)


def request_ids_are_envoys(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A retried exchange is recognised by its request id, which must not be the client's choice."""
    remote, external, made = (
        chain.manager.get(name)
        for name in ("use_remote_address", "preserve_external_request_id", "generate_request_id")
    )
    if not remote.flag:
        yield found("request-id", remote, fix="use_remote_address: true")
    if external.flag:
        yield found("request-id", external, fix="leave it out")
    if made.flag is False:
        yield found("request-id", made, fix="leave it out, or true")


def overrides_name_filters(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A misspelt override changes nothing; one for another chain's filter may be intended."""
    names = [entry.get("name").text for entry in chain.filters]
    for level in (level for route in chain.routes for level in route.levels):
        for name, override in level.entries("typed_per_filter_config").items():
            near = difflib.get_close_matches(name, names, n=1, cutoff=_MISSPELT)
            if name not in names and near:
                yield found("filter-unknown", override, name=repr(name), near=near[0])


def streams_end_gracefully(context: CheckContext) -> Iterator[Finding]:
    layers = context.bootstrap.get("layered_runtime").items("layers")
    values = [_runtime_value(layer.get("static_layer").value, _GRACEFUL_CLOSE) for layer in layers]
    given = [value for value in values if value is not None]
    if context.memory_chains and (not given or str(given[-1]).lower() != "true"):
        yield found("graceful-close", context.bootstrap.get("layered_runtime"), key=_GRACEFUL_CLOSE)


def _runtime_value(values: Any, key: str) -> Any:
    """A runtime key, written whole or as nested mappings; None when it is missing."""
    if not isinstance(values, dict) or key in values:
        return values.get(key) if isinstance(values, dict) else None
    parts = ((name, key.removeprefix(f"{name}.")) for name in values if key.startswith(f"{name}."))
    inner = (_runtime_value(values[name], rest) for name, rest in parts)
    return next((value for value in inner if value is not None), None)
