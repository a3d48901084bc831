"""Checks of routes: which requests memory is on, how long answers may take, and where the management API is."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import API_PATH, CHAT_PATHS, Chain, Route
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.matching import excludes_upgrades, only_method
from semrouter_memory.doctor.place import At

_ROUTE_SECONDS = 15.0
"""Envoy's own timeout of a route where nothing is said."""
_IDLE_SECONDS = 300.0
"""Envoy's own bound on silence where nothing is said."""
_SHORT_SECONDS = 300.0
_OTHER_PATHS = ("/", "/v1/files", "/v1/audio/transcriptions", "/v1/models")
_GRACEFUL_CLOSE = "envoy.reloadable_features.ext_proc_graceful_grpc_close"


def chats_are_remembered(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        if not any(chain.hosts) or any(route.remembers for route in chain.chat_routes):
            continue
        yield error(
            "chat-without-memory",
            chain.manager.where("route_config"),
            f"on no route that takes {' or '.join(CHAT_PATHS)} is a memory filter enabled",
            "enable both filters on the route of your LLM",
        )


def other_paths_are_left_alone(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        for path in _OTHER_PATHS:
            taking = [route for route in chain.takers("POST", path) if route.remembers and _holds(route)]
            if taking:
                yield warning(
                    "memory-on-other-paths",
                    taking[0].at.where("match"),
                    f"memory is on for {path}, too: bodies that are no chats are held until they are whole",
                    "match /v1/(chat/completions|responses) alone, and disable the filters on other routes",
                )
                break


def upgrades_are_left_alone(case: Case) -> Iterator[Finding]:
    """The body of an upgraded request never ends, so a filter that buffers it waits for ever."""
    for chain in case.memory_chains:
        upgrading = _upgrades(chain.manager)
        api = {route.at.path for route in case.api_routes(chain)}
        for route in chain.routes:
            action = route.action
            upgrades = (_upgrades(action) if action is not None else None) or upgrading
            held = upgrades and route.remembers and _holds(route) and route.at.path not in api
            if not held or excludes_upgrades(route.match):
                continue
            where = route.at.where("match")
            fix = "add {name: upgrade, present_match: false} to the route's headers"
            if only_method(route.match, "POST"):
                yield warning("upgrade-held", where, "a POST that asks for an upgrade hangs in the memory filter", fix)
            else:
                yield error("upgrade-held", where, "WebSockets and other upgrades hang here in the memory filter", fix)


def answers_may_take_long(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        for route in chain.chat_routes:
            action = route.action
            if action is None or not route.remembers:
                continue
            yield from _timeout(action)
            yield from _duration(chain, action)
            yield from _attempts(route, action)
        yield from _silence(chain)
        yield from _request_timeout(chain, case)


def _timeout(action: At) -> Iterator[Finding]:
    said = action.value("timeout")
    seconds = _ROUTE_SECONDS if said is None else said.total_seconds()
    duration = action.descend("max_stream_duration")
    if said is None and duration is not None and duration.value("max_stream_duration") is not None:
        return
    what = " (the default)" if said is None else ""
    yield from _cut("route-timeout", action.where("timeout"), seconds, what, "timeout: 0s")


def _duration(chain: Chain, action: At) -> Iterator[Finding]:
    """The bound on whole streams: the connection manager's, unless the route says its own; zero is none."""
    places = (action.get("max_stream_duration"), chain.manager.get("common_http_protocol_options"))
    at = next((at for at in places if at is not None and at.value("max_stream_duration") is not None), None)
    if at is not None:
        seconds, fix = at.value("max_stream_duration").total_seconds(), "leave max_stream_duration out, or 0s"
        yield from _cut("answer-duration", at.where("max_stream_duration"), seconds, ", however fast they flow", fix)


def _cut(code: str, place: str, seconds: float, what: str, fix: str) -> Iterator[Finding]:
    """An answer's bound, where it is one and short."""
    if 0 < seconds < _SHORT_SECONDS:
        grade = error if seconds <= _ROUTE_SECONDS else warning
        yield grade(code, place, f"answers are cut after {seconds:g} s{what}", fix)


def _request_timeout(chain: Chain, case: Case) -> Iterator[Finding]:
    """Envoy's clock for a request's arrival runs on while recall is at work."""
    said = chain.manager.value("request_timeout")
    seconds = said.total_seconds() if said is not None else 0.0
    if 0 < seconds < _ROUTE_SECONDS:
        grade = error if seconds <= case.deadline_seconds else warning
        yield grade(
            "request-timeout",
            chain.manager.where("request_timeout"),
            f"requests that are not through after {seconds:g} s get 408: large ones, and those that recall works on",
            "leave request_timeout out, or 60s",
        )


def _attempts(route: Route, action: At) -> Iterator[Finding]:
    policies = [at for level in (action, *reversed(route.levels)) if (at := level.get("retry_policy")) is not None]
    for policy, name in [
        (policy, name) for policy in policies[:1] for name in ("per_try_timeout", "per_try_idle_timeout")
    ]:
        limit = policy.value(name)
        if limit is not None and 0 < limit.total_seconds() < _SHORT_SECONDS:
            what = "takes" if name == "per_try_timeout" else "is silent for"
            yield warning(
                "retry-timeout",
                policy.where(name),
                f"an attempt that {what} longer than {limit.total_seconds():g} s is given up and repeated: a slow answer"
                " is paid for several times",
                f"leave {name} out, and retry on connect-failure,refused-stream",
            )


def _silence(chain: Chain) -> Iterator[Finding]:
    places = [(chain.manager, "stream_idle_timeout", _IDLE_SECONDS)]
    places += [(action, "idle_timeout", 0.0) for route in chain.chat_routes if (action := route.action) is not None]
    for at, name, default in places:
        said: timedelta | None = at.value(name)
        seconds = default if said is None else said.total_seconds()
        if 0 < seconds <= _IDLE_SECONDS:
            yield warning(
                "stream-idle-timeout",
                at.where(name),
                f"answers are cut after {seconds:g} s without a byte{' (the default)' if said is None else ''}, and a"
                " model may think for longer",
                f"{name}: 900s",
            )


def api_is_reachable(case: Case) -> Iterator[Finding]:
    chains = [chain for chain in case.memory_chains if any(chain.hosts)]
    if chains and not any(case.api_routes(chain) for chain in case.chains):
        yield _api_missing(chains[0])
    for chain in case.chains:
        for route in case.api_routes(chain):
            yield from _api_filters(route)
            yield from _api_cluster(case, route)


def _api_missing(chain: Chain) -> Finding:
    named = [
        route for route in chain.routes if API_PATH in str(route.match and route.match.value("path_separated_prefix"))
    ]
    named += [route for route in chain.routes if API_PATH in str(route.match and route.match.value("prefix"))]
    if named:
        return error(
            "memory-api-shadowed",
            named[0].at.path,
            f"an earlier route takes requests to {API_PATH}: the management API is never reached",
            "put this route before it",
        )
    return warning(
        "memory-api-missing",
        chain.manager.where("route_config"),
        f"no route leads to the management API: users can neither see nor delete what is remembered ({API_PATH})",
        "add the route memory-api and its cluster from envoy/two-filter.yaml",
    )


def _api_filters(route: Route) -> Iterator[Finding]:
    working = [each.filter.name for each in route.applied if each.enabled]
    # Where only one works, that is said already.
    if working and len(working) == len(route.applied):
        yield warning(
            "memory-api-filtered",
            route.at.where("typed_per_filter_config"),
            f"{' and '.join(working)} is at work on the management API: each request takes a detour, and imports are"
            " held back",
            "disable it on this route (ExtProcPerRoute, disabled: true)",
        )


def _api_cluster(case: Case, route: Route) -> Iterator[Finding]:
    for name in route.clusters:
        cluster = case.clusters.get(name)
        if cluster is not None and cluster.path in {at.path for at in case.memory_clusters.values()}:
            yield error(
                "memory-api-cluster",
                route.at.path,
                f"the route to {API_PATH} leads to {name}, which is the sidecar's gRPC port",
                "lead it to management.listen",
            )


def request_ids_are_envoys(case: Case) -> Iterator[Finding]:
    """A retried exchange is known by its request id, which must not be the client's choice."""
    for chain in case.memory_chains:
        manager = chain.manager
        wrong = {
            "use_remote_address": (not manager.value("use_remote_address"), "use_remote_address: true"),
            "preserve_external_request_id": (
                bool(manager.value("preserve_external_request_id")),
                "leave preserve_external_request_id out",
            ),
            "generate_request_id": (manager.value("generate_request_id") is False, "leave generate_request_id out"),
        }
        for name, (is_wrong, fix) in wrong.items():
            if is_wrong:
                yield warning(
                    "request-id",
                    manager.where(name),
                    "a client can choose x-request-id, and with it make one exchange pass for another's repetition",
                    fix,
                )


def streams_end_gracefully(case: Case) -> Iterator[Finding]:
    if case.bootstrap is None or not any(case.memory_chains):
        return
    runtime = case.bootstrap.get("layered_runtime")
    layers = runtime.all("layers") if runtime is not None else []
    values = [values for layer in layers if (values := layer.opened("static_layer")) is not None]
    said = [value for at in values if (value := _runtime_value(at.message, _GRACEFUL_CLOSE)) is not None]
    if not said or str(said[-1]).lower() != "true":
        yield warning(
            "graceful-close",
            case.bootstrap.where("layered_runtime"),
            "where the sidecar leaves an exchange, Envoy resets the stream, and the end of some answers is not seen",
            f"static_layer: {{{_GRACEFUL_CLOSE}: true}}",
        )


def _runtime_value(values: Any, key: str) -> Any:
    """A runtime key, written whole or as nested mappings; None when it is not there."""
    if not isinstance(values, dict):
        return None
    if key in values:
        return values[key]
    parts = ((name, key.removeprefix(f"{name}.")) for name in values if key.startswith(f"{name}."))
    found = (_runtime_value(values[name], rest) for name, rest in parts)
    return next((value for value in found if value is not None), None)


def _holds(route: Route) -> bool:
    modes = [each.mode for each in route.applied if each.enabled and each.mode is not None]
    return any(mode.value("request_body_mode").name.startswith("BUFFERED") for mode in modes)


def _upgrades(at: At) -> bool:
    configs = at.all("upgrade_configs")
    # A chain of its own, without the memory filters, is none of our business.
    return any(each.value("enabled") is not False and not each.value("filters") for each in configs)
