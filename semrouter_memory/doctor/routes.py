"""Checks of routes: which requests memory is on, how large and how long they may be, and where the management API is."""

import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import (
    MIB,
    Below,
    Finding,
    Rule,
    Unit,
    broken,
    found,
    graded,
    is_off,
    is_on,
    is_set,
)
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

_ROUTE_SECONDS = 15.0
"""Envoy's default of a route's `timeout`."""
_OTHER_PATHS = ("/", "/v1/files", "/v1/audio/transcriptions", "/v1/models")
_GRACEFUL_CLOSE = "envoy.reloadable_features.ext_proc_graceful_grpc_close"
_MISSPELT = 0.85
"""How alike two names are, of 1, when one is meant to be the other."""


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
    body, message = server.max_body_bytes, max(server.max_message_bytes, server.max_body_bytes)
    texts = {"wanted": Unit.BYTES.shown(body), "bytes": body}
    for route in chain.chat_routes:
        if "BUFFERED" in route.request_modes:
            size = _buffer_limit(chain, route)
            limit = Rule("route-buffer-limit", "", Below(body, Unit.BYTES, MIB, error_to=MIB))
            yield from broken([limit], lambda _, size=size: size, **texts)
            if (size.number or 0) > message:
                yield found("route-above-message", size, limit=Unit.BYTES.shown(server.max_message_bytes))
        for entry in chain.filters[: chain.memory[-1].index]:
            if route.enabled and config_of(entry).kind == "Buffer" and route.runs(entry):
                buffer = first((per_route(route.override_for(entry)).get("buffer"), config_of(entry)))
                limit = Rule("buffer-filter", "max_request_bytes", Below(body, Unit.BYTES, error_to=MIB))
                yield from broken([limit], buffer.get, **texts)


def _buffer_limit(chain: HttpFilterChain, route: GatewayRoute) -> Node:
    names = ("request_body_buffer_limit", "per_request_buffer_limit_bytes")
    limits = [level.get(name) for level in reversed(route.levels) for name in names]
    unset = route.node.get("request_body_buffer_limit")
    return first([*limits, chain.listener.get("per_connection_buffer_limit_bytes"), unset])


_SLOW = Below(300, Unit.SECONDS, error_to=_ROUTE_SECONDS, unlimited=0)
_ROUTE = (
    Rule("route-timeout", "timeout", replace(_SLOW, default=_ROUTE_SECONDS)),
    Rule("answer-duration", "max_stream_duration.max_stream_duration", _SLOW),
)
_RETRY = (
    Rule("retry-timeout", "per_try_timeout", replace(_SLOW, error_to=None), {"what": "takes"}),
    Rule("retry-timeout", "per_try_idle_timeout", replace(_SLOW, error_to=None), {"what": "is silent for"}),
)
# Envoy's default of 300 s is too short for a model that thinks.
_IDLE = Below(301, Unit.SECONDS, 300, unlimited=0)


def answers_may_take_long(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for route in (route for route in chain.chat_routes if route.action and route.enabled):
        own = route.action.get("max_stream_duration", "max_stream_duration")
        # Without a timeout, a duration of the route's own is used instead of the default.
        yield from broken(_ROUTE[1:] if own and not route.action.get("timeout") else _ROUTE, route.action.get)
        policy = first([level.get("retry_policy") for level in (route.action, *reversed(route.levels))])
        yield from broken(_RETRY, policy.get)
        if not own:
            duration = Rule("answer-duration", "common_http_protocol_options.max_stream_duration", _SLOW)
            yield from broken([duration], chain.manager.get)
        if route.action.get("idle_timeout"):
            yield from broken([Rule("stream-idle-timeout", "idle_timeout", _IDLE)], route.action.get)


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


_MANAGER = (
    Rule("routes-unseen", "rds", is_set),
    Rule("routes-unseen", "scoped_routes", is_set),
    Rule("routes-unseen", "route_config.vhds", is_set),
    # A retried exchange is recognised by its request id, which must not be the client's choice.
    Rule("request-id", "use_remote_address", is_off, {"fix": "use_remote_address: true"}),
    Rule("request-id", "preserve_external_request_id", is_on, {"fix": "leave it out"}),
    Rule("request-id", "generate_request_id", lambda node: node.flag is False, {"fix": "leave it out, or true"}),
)


def manager_fits(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The fields of the HTTP connection manager."""
    # Envoy's clock for a request's arrival runs on during recall.
    arrival = Below(_ROUTE_SECONDS, Unit.SECONDS, error_to=context.deadline_seconds, unlimited=0)
    rules = [*_MANAGER, Rule("request-timeout", "request_timeout", arrival)]
    if not all(route.action.get("idle_timeout") for route in chain.chat_routes) or not chain.chat_routes:
        rules.append(Rule("stream-idle-timeout", "stream_idle_timeout", _IDLE))
    yield from broken(rules, chain.manager.get)
    for host in chain.manager.get("route_config").items("virtual_hosts"):
        yield from broken([Rule("routes-unseen", "matcher", is_set)], host.get)


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
