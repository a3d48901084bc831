"""Checks of routes: which requests memory is on, how large and how long they may be, and where the management API is."""

from collections.abc import Iterator
from typing import Any

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.filter_chains import API_PATH, CHAT_PATHS, GatewayRoute, HttpFilterChain
from semrouter_memory.doctor.finding import Finding, found, graded
from semrouter_memory.doctor.matching import excludes_upgrades, only_method
from semrouter_memory.doctor.node import Node, first

_MIB = 1024 * 1024
_BUFFER = _MIB
"""Envoy's default of the buffer limit."""
_ROUTE_SECONDS = 15.0
"""Envoy's default of a route's `timeout`."""
_IDLE_SECONDS = 300.0
"""Envoy's default of `stream_idle_timeout`."""
_SHORT_SECONDS = 300.0
_OTHER_PATHS = ("/", "/v1/files", "/v1/audio/transcriptions", "/v1/models")
_GRACEFUL_CLOSE = "envoy.reloadable_features.ext_proc_graceful_grpc_close"


def chats_have_memory(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        if any(chain.hosts) and not any(route.has_memory for route in chain.chat_routes):
            yield found("chat-without-memory", chain.manager.get("route_config"), paths=" or ".join(CHAT_PATHS))


def other_paths_have_none(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        for path in _OTHER_PATHS:
            held = [route for route in chain.matching_routes("POST", path) if _holds_bodies(route)]
            if held:
                yield found("memory-on-other-paths", held[0].match, path=path)
                break


def upgrades_are_not_held(context: CheckContext) -> Iterator[Finding]:
    """The body of an upgraded request never ends, so a filter that buffers it waits without limit."""
    for chain in context.memory_chains:
        api = {route.node.path for route in context.api_routes(chain)}
        for route in chain.routes:
            upgrades = _upgrades(route.action) or _upgrades(chain.manager)
            held = upgrades and _holds_bodies(route) and route.node.path not in api
            if held and not excludes_upgrades(route.match):
                only_post = only_method(route.match, "POST")
                which = "POST requests that ask for an upgrade" if only_post else "WebSockets and other upgrades"
                yield found("upgrade-held", route.match, graded(not only_post), requests=which)


def _holds_bodies(route: GatewayRoute) -> bool:
    return not route.request_modes.isdisjoint(("BUFFERED", "BUFFERED_PARTIAL"))


def _upgrades(node: Node) -> bool:
    # An upgrade with a filter chain of its own does not pass the memory filters.
    configs = node.items("upgrade_configs")
    return any(each.get("enabled").flag is not False and not each.get("filters") for each in configs)


def bodies_fit_the_route(context: CheckContext) -> Iterator[Finding]:
    """Envoy answers 413 to a buffered body above the limit."""
    server = context.config.server
    for chain in context.memory_chains:
        for route in (route for route in chain.chat_routes if "BUFFERED" in route.request_modes):
            limit = _buffer_limit(chain, route)
            number = limit.number
            size = _BUFFER if number is None else number
            if size < server.max_body_bytes:
                texts = {"limit": _mib(size), "wanted": _mib(server.max_body_bytes), "bytes": server.max_body_bytes}
                yield found("route-buffer-limit", limit, graded(size <= _BUFFER), **texts)
            elif size > server.max_message_bytes:
                yield found("route-above-message", limit, limit=_mib(server.max_message_bytes))


def _buffer_limit(chain: HttpFilterChain, route: GatewayRoute) -> Node:
    names = ("request_body_buffer_limit", "per_request_buffer_limit_bytes")
    limits = [level.get(name) for level in reversed(route.levels) for name in names]
    unset = route.node.get("request_body_buffer_limit")
    return first([*limits, chain.listener.get("per_connection_buffer_limit_bytes"), unset])


def answers_may_take_long(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        for route in chain.chat_routes:
            if route.action and route.has_memory:
                yield from _timeout(route.action)
                yield from _duration(chain, route.action)
                yield from _attempts(route)
        yield from _silence(chain)
        yield from _request_timeout(chain, context)


def _timeout(action: Node) -> Iterator[Finding]:
    timeout = action.get("timeout")
    if not timeout and action.get("max_stream_duration", "max_stream_duration"):
        return  # that bound is used instead
    seconds = timeout.seconds
    note = " (Envoy's default)" if seconds is None else ""
    yield from _cut("route-timeout", timeout, _ROUTE_SECONDS if seconds is None else seconds, note)


def _duration(chain: HttpFilterChain, action: Node) -> Iterator[Finding]:
    """The bound on whole streams: the connection manager's, unless the route sets its own; zero is none."""
    own = action.get("max_stream_duration", "max_stream_duration")
    duration = first((own, chain.manager.get("common_http_protocol_options", "max_stream_duration")))
    yield from _cut("answer-duration", duration, duration.seconds or 0.0)


def _cut(code: str, place: Node, seconds: float, note: str = "") -> Iterator[Finding]:
    if 0 < seconds < _SHORT_SECONDS:
        yield found(code, place, graded(seconds <= _ROUTE_SECONDS), seconds=f"{seconds:g}", default=note)


def _request_timeout(chain: HttpFilterChain, context: CheckContext) -> Iterator[Finding]:
    """Envoy's clock for a request's arrival runs on during recall."""
    timeout = chain.manager.get("request_timeout")
    seconds = timeout.seconds or 0.0
    if 0 < seconds < _ROUTE_SECONDS:
        yield found("request-timeout", timeout, graded(seconds <= context.deadline_seconds), seconds=f"{seconds:g}")


def _attempts(route: GatewayRoute) -> Iterator[Finding]:
    policy = first([level.get("retry_policy") for level in (route.action, *reversed(route.levels))])
    for name, what in (("per_try_timeout", "takes"), ("per_try_idle_timeout", "is silent for")):
        limit = policy.get(name)
        seconds = limit.seconds or 0.0
        if 0 < seconds < _SHORT_SECONDS:
            yield found("retry-timeout", limit, what=what, seconds=f"{seconds:g}", name=name)


def _silence(chain: HttpFilterChain) -> Iterator[Finding]:
    limits = [(chain.manager.get("stream_idle_timeout"), _IDLE_SECONDS)]
    limits += [(route.action.get("idle_timeout"), 0.0) for route in chain.chat_routes]
    for limit, default in limits:
        said = limit.seconds
        seconds, note = (default, " (Envoy's default)") if said is None else (said, "")
        if 0 < seconds <= _IDLE_SECONDS:
            name = limit.path.rpartition(".")[2]
            yield found("stream-idle-timeout", limit, seconds=f"{seconds:g}", default=note, name=name)


def api_is_reachable(context: CheckContext) -> Iterator[Finding]:
    chains = [chain for chain in context.memory_chains if any(chain.hosts)]
    routes = [route for chain in context.chains for route in context.api_routes(chain)]
    if chains and not routes:
        yield _api_missing(chains[0])
    memory = {cluster.path for cluster in context.memory_clusters}
    for route in routes:
        working = [each.name for each in route.applied if each.enabled]
        # Where only one filter works, filters_are_on_together reports that.
        if working and len(working) == len(route.applied):
            place = route.node.get("typed_per_filter_config")
            yield found("memory-api-filtered", place, names=" and ".join(working))
        for name in route.clusters:
            if context.cluster(name).path in memory:
                yield found("memory-api-cluster", route.node, path=API_PATH, cluster=name)


def _api_missing(chain: HttpFilterChain) -> Finding:
    for name in ("path_separated_prefix", "prefix"):
        for route in chain.routes:
            if API_PATH in route.match.get(name).text:
                return found("memory-api-shadowed", route.node, path=API_PATH)
    return found("memory-api-missing", chain.manager.get("route_config"), path=API_PATH)


def request_ids_are_envoys(context: CheckContext) -> Iterator[Finding]:
    """A retried exchange is recognised by its request id, which must not be the client's choice."""
    for chain in context.memory_chains:
        manager = chain.manager
        wrong = {
            "use_remote_address: true": (remote := manager.get("use_remote_address"), not remote.flag),
            "leave it out": (kept := manager.get("preserve_external_request_id"), bool(kept.flag)),
            "leave it out, or true": (made := manager.get("generate_request_id"), made.flag is False),
        }
        for fix, (place, is_wrong) in wrong.items():
            if is_wrong:
                yield found("request-id", place, fix=fix)


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


def _mib(count: int) -> str:
    return f"{count / _MIB:.3g} MiB"
