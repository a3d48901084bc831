"""One mistake at a time in the shipped chains: doctor finds it, and nothing else."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from tests.deploy_files import Chain
from tests.envoy_mutations import (
    TYPES,
    chain,
    codes,
    diagnose,
    endpoints,
    filter_of,
    http2_of,
    move,
    override,
)

_SECRET = "0123456789"


@dataclass(frozen=True)
class Mistake:
    """What is done to a shipped chain or to the settings, and what doctor must say: severity, code, and where.

    Attributes:
        also: another finding that comes of the same mistake.
    """

    name: str
    make: Callable[[Chain], object]
    finds: str
    where: str
    also: str = ""
    chain: str = "two-filter"
    settings: dict[str, Any] = field(default_factory=dict)
    secret: str | None = None


def _rewrite_model() -> dict[str, Any]:
    model = {
        "model_role": "memory_rewrite",
        "llm_endpoint": {"base_url": "http://127.0.0.1:1/v1"},
        "llm_model_name": "m",
    }
    return {"external_models": (model,)}


def _retain(envoy: Chain) -> dict[str, Any]:
    return filter_of(envoy, "memory.retain")


def _recall(envoy: Chain) -> dict[str, Any]:
    return filter_of(envoy, "memory.recall")


def _both(envoy: Chain) -> tuple[dict[str, Any], dict[str, Any]]:
    return _retain(envoy), _recall(envoy)


def _mode(config: dict[str, Any], **modes: str) -> None:
    config["processing_mode"].update(modes)


def _route(envoy: Chain, name: str = "llm") -> dict[str, Any]:
    return envoy.routes[name]


def _sidecar(envoy: Chain) -> dict[str, Any]:
    return envoy.clusters["memory_sidecar"]


def _per_route(envoy: Chain, name: str, **filters: Any) -> None:
    _route(envoy, name).setdefault("typed_per_filter_config", {}).update(
        {key.replace("__", "-").replace("_", ".").replace("-", "_"): value for key, value in filters.items()}
    )


def _late(envoy: Chain, place: dict[str, Any]) -> None:
    extensions = envoy.manager.pop("early_header_mutation_extensions")
    place["request_headers_to_remove"] = [mutation["remove"] for mutation in extensions[0]["typed_config"]["mutations"]]


def _unstripped(envoy: Chain, header: str) -> None:
    envoy.manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"].remove({"remove": header})


def _stripped_by(envoy: Chain, **key_matcher: str) -> None:
    _unstripped(envoy, "x-authz-user-id")
    mutations = envoy.manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"]
    mutations.append({"remove_on_match": {"key_matcher": key_matcher}})


def _forwards(config: dict[str, Any], *, without: str = "") -> object:
    """Only what is read is sent along; recall is not sent the answer."""
    read = [
        ":path",
        ":method",
        "content-type",
        "content-encoding",
        "x-authz-user-id",
        "x-memory-opt-out",
        "x-memory-org",
    ]
    read += ["x-memory-org-admin", "x-memory-agent", "x-session-id", "x-session-end", "x-request-id", "idempotency-key"]
    read += ["x-vsr-fact-check-needed", "x-vsr-requires-tool", *([":status"] if "observability_mode" in config else [])]
    config["forward_rules"] = {"allowed_headers": {"patterns": [{"exact": name} for name in read if name != without]}}
    return config


def _metadata(config: dict[str, Any], **values: str) -> object:
    config["grpc_service"]["initial_metadata"] = [
        {"key": f"x-memory-{name.replace('_', '-')}", "value": value} for name, value in values.items()
    ]
    return config


def _second_endpoint(envoy: Chain, port: int) -> object:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    endpoints(envoy, "memory_sidecar").append({"endpoint": {"address": address}})
    return envoy


def _http1(envoy: Chain) -> None:
    (options,) = _sidecar(envoy)["typed_extension_protocol_options"].values()
    options["explicit_http_config"] = {"http_protocol_options": {}}


def _endpoint_port(envoy: Chain, cluster: str, port: int) -> None:
    endpoints(envoy, cluster)[0]["endpoint"]["address"]["socket_address"]["port_value"] = port


def _replace_auth(envoy: Chain, kind: str, config: dict[str, Any]) -> None:
    envoy.manager["http_filters"][0] = {"name": "auth", "typed_config": {"@type": f"{TYPES}.{kind}", **config}}


def _jwt(envoy: Chain) -> dict[str, Any]:
    return filter_of(envoy, "envoy.filters.http.jwt_authn")


def _keys(envoy: Chain) -> list[dict[str, str]]:
    credentials: list[dict[str, str]] = filter_of(envoy, "envoy.filters.http.api_key_auth")["credentials"]
    return credentials


def _key_of_a_route(envoy: Chain) -> None:
    kind = f"{TYPES}.extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute"
    own = {"@type": kind, "credentials": [{"key": "k", "client": "alice "}]}
    _per_route(envoy, "memory-api", envoy_filters_http_api__key__auth=own)


def _unguarded(envoy: Chain) -> None:
    envoy.manager["http_filters"].remove(envoy.filters["envoy.filters.http.rbac"])


def _named_elsewhere(envoy: Chain) -> None:
    kind = "extensions.filters.http.ext_authz.v3.ExtAuthz"
    _replace_auth(envoy, kind, {"grpc_service": {"envoy_grpc": {"cluster_name": "llm"}}})
    _unguarded(envoy)


def _guarded_by(envoy: Chain, *, action: str, policy: dict[str, Any]) -> None:
    filter_of(envoy, "envoy.filters.http.rbac")["rules"] = {"action": action, "policies": {"ids": policy}}


def _users_guarded_by(envoy: Chain, *, action: str, policy: dict[str, Any]) -> None:
    """Tokens name no one but users."""
    for provider in _jwt(envoy)["providers"].values():
        del provider["claim_to_headers"][1:]
    _guarded_by(envoy, action=action, policy=policy)


def _of_a_pattern() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Policies that let only ids through which have no blank."""
    regex, everything = {"regex": "[A-Za-z0-9._-]+"}, [{"any": True}]
    is_one = {"header": {"name": "x-authz-user-id", "string_match": {"safe_regex": regex}}}
    is_none = {"header": {**is_one["header"], "invert_match": True}}
    yield "allowed", "ALLOW", {"permissions": [is_one], "principals": everything}
    yield (
        "and more",
        "ALLOW",
        {"permissions": [{"and_rules": {"rules": [{"destination_port": 1}, is_one]}}], "principals": everything},
    )
    yield "all others denied", "DENY", {"permissions": [{"not_rule": is_one}], "principals": everything}
    yield "inverted", "DENY", {"permissions": [is_none], "principals": everything}
    yield "of principals", "DENY", {"permissions": everything, "principals": [{"not_id": is_one}]}
    old = {"header": {"name": "X-Authz-User-Id", "safe_regex_match": regex}}
    yield "in an old spelling", "ALLOW", {"permissions": [old], "principals": everything}


def _refuses(envoy: Chain, regex: str, header: str = "x-authz-user-id") -> None:
    (policy,) = filter_of(envoy, "envoy.filters.http.rbac")["rules"]["policies"].values()
    policy["permissions"] = [{"header": {"name": header, "string_match": {"safe_regex": {"regex": regex}}}}]


def _accepts(envoy: Chain, header: str) -> None:
    (policy,) = filter_of(envoy, "envoy.filters.http.rbac")["rules"]["policies"].values()
    policy["permissions"] = [each for each in policy["permissions"] if each["header"]["name"] != header]


def _api_first(envoy: Chain, prefix: str) -> None:
    routes = envoy.manager["route_config"]["virtual_hosts"][0]["routes"]
    api = _route(envoy, "memory-api")
    api["match"] = {"prefix": prefix}
    routes.append(routes.pop(routes.index(api)))


def _rename(envoy: Chain) -> None:
    """Nothing but the address tells that these filters are ours."""
    for entry in envoy.manager["http_filters"]:
        entry["name"] = entry["name"].replace("memory.", "x.")
    for route in envoy.routes.values():
        overrides = route.get("typed_per_filter_config", {})
        for name in list(overrides):
            overrides[name.replace("memory.", "x.")] = overrides.pop(name)
    _sidecar(envoy)["name"] = "processor"
    for name in ("x.retain", "x.recall"):
        filter_of(envoy, name)["grpc_service"]["envoy_grpc"]["cluster_name"] = "processor"
    filter_of(envoy, "x.recall")["failure_mode_allow"] = False


def _user(value: str, key: str = "x-authz-user-id") -> dict[str, Any]:
    return {"append": {"header": {"key": key, "value": value}}}


def _early(envoy: Chain, *mutations: dict[str, Any]) -> None:
    """No key is asked for; what comes before the filters sets the user."""
    envoy.manager["http_filters"].pop(0)
    envoy.manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"] += mutations


def _answered(envoy: Chain, path: str, *headers: dict[str, Any]) -> None:
    """By Envoy itself; the memory filters are on there."""
    answer = {"match": {"path": path, "headers": [*headers]}, "direct_response": {"status": 404}}
    envoy.manager["route_config"]["virtual_hosts"][0]["routes"].insert(0, answer)


def _answers_by_itself(envoy: Chain) -> None:
    _answered(envoy, "/healthz")
    _answered(envoy, "/v1/responses", {"name": "upgrade", "present_match": False})


def _as_structs(envoy: Chain) -> object:
    """The filters' configurations in another spelling, which control planes write that do not know their types."""
    for entry in envoy.manager["http_filters"]:
        config = entry["typed_config"]
        struct = {"@type": "type.googleapis.com/xds.type.v3.TypedStruct", "type_url": config.pop("@type")}
        entry["typed_config"] = {**struct, "value": config}
    return envoy


def _mutation(*mutations: dict[str, Any]) -> dict[str, Any]:
    kind = f"{TYPES}.extensions.filters.http.header_mutation.v3.HeaderMutation"
    return {"name": "mutation", "typed_config": {"@type": kind, "mutations": {"request_mutations": list(mutations)}}}


def _stripped_and_set(envoy: Chain) -> None:
    _unstripped(envoy, "x-authz-user-id")
    envoy.manager["http_filters"][0] = _mutation({"remove": "x-authz-user-id"}, _user("%REQ(x-user)%"))


def _key_renamed(envoy: Chain, header: str) -> None:
    """The key's owner goes into one header, and a mutation takes it from another or the same."""
    filter_of(envoy, "envoy.filters.http.api_key_auth")["forwarding"]["header"] = "x-owner"
    envoy.manager["http_filters"].insert(1, _mutation(_user(f"%REQ({header})%")))


def _requires(envoy: Chain, *requirements: dict[str, Any]) -> None:
    _jwt(envoy)["rules"][0]["requires"] = {"requires_any": {"requirements": list(requirements)}}


def _rules_for(envoy: Chain, *prefixes: str) -> object:
    _jwt(envoy)["rules"] = [
        {"match": {"prefix": prefix}, "requires": {"provider_name": "users"}} for prefix in prefixes
    ]
    return envoy


def _protocol(envoy: Chain) -> dict[str, Any]:
    (options,) = _sidecar(envoy)["typed_extension_protocol_options"].values()
    return options  # type: ignore[no-any-return]


def _by_tls(envoy: Chain, cluster: str) -> None:
    kind = f"{TYPES}.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    envoy.clusters[cluster]["transport_socket"] = {"name": "tls", "typed_config": {"@type": kind}}


def _threshold(envoy: Chain, **limits: int) -> None:
    _sidecar(envoy)["circuit_breakers"]["thresholds"][0].update(limits)


def _buffer_filter(envoy: Chain, size: int) -> None:
    kind = f"{TYPES}.extensions.filters.http.buffer.v3.Buffer"
    config = {"@type": kind, "max_request_bytes": size}
    envoy.manager["http_filters"].insert(1, {"name": "buffer", "typed_config": config})


def _weighted(envoy: Chain, **said: Any) -> None:
    """Half of the traffic goes elsewhere, with more said about it."""
    clusters = [{"name": "llm", "weight": 1}, {"name": "llm", "weight": 1, **said}]
    _route(envoy)["route"] = {"timeout": "0s", "weighted_clusters": {"clusters": clusters}}


def _another_listener(envoy: Chain, prefix: str) -> None:
    """A second port, without authentication, where everything below the prefix reaches the management API."""
    listeners = envoy.bootstrap["static_resources"]["listeners"]
    listeners.append(copy.deepcopy(listeners[0]))
    manager = listeners[1]["filter_chains"][0]["filters"][0]["typed_config"]
    manager["http_filters"] = manager["http_filters"][-1:]
    manager["route_config"]["virtual_hosts"][0]["routes"] = [
        {"match": {"prefix": prefix}, "route": {"cluster": "memory_api", "prefix_rewrite": "/v1/memory"}}
    ]


def _asked_of_a_server(envoy: Chain, **answer: Any) -> None:
    """An authorisation server, asked by HTTP."""
    service = {
        "server_uri": {"uri": "http://authz", "cluster": "llm", "timeout": "1s"},
        "authorization_response": answer,
    }
    _replace_auth(envoy, "extensions.filters.http.ext_authz.v3.ExtAuthz", {"http_service": service})


def _old_http2_beside_http1(envoy: Chain) -> None:
    _http1(envoy)
    _sidecar(envoy)["http2_protocol_options"] = {}


def _automatic(envoy: Chain) -> object:
    options = _protocol(envoy)
    options["auto_config"] = options.pop("explicit_http_config")
    return envoy


def _elsewhere(envoy: Chain, **sources: Any) -> None:
    envoy.bootstrap["dynamic_resources"] = {name: {"path_config_source": {"path": "/x"}} for name in sources}
    for name, resources in sources.items():
        envoy.bootstrap["static_resources"].pop(resources)
        assert name in {"lds_config", "cds_config"}


def _discovered(envoy: Chain) -> None:
    for name in ("memory.retain", "memory.recall"):
        kind = envoy.filters[name].pop("typed_config")["@type"]
        envoy.filters[name]["config_discovery"] = {"config_source": {"ads": {}}, "type_urls": [kind]}


def _composite(envoy: Chain) -> None:
    """Both stand behind a matcher's action."""
    for name in ("memory.retain", "memory.recall"):
        entry = envoy.filters[name]
        action = f"{TYPES}.extensions.filters.http.composite.v3.ExecuteFilterAction"
        inner = {"@type": action, "typed_config": {"name": "own", "typed_config": entry["typed_config"]}}
        composite = {"@type": f"{TYPES}.extensions.filters.http.composite.v3.Composite"}
        entry["typed_config"] = {
            "@type": f"{TYPES}.extensions.common.matching.v3.ExtensionWithMatcher",
            "extension_config": {"name": "composite", "typed_config": composite},
            "xds_matcher": {"on_no_match": {"action": {"name": "run", "typed_config": inner}}},
        }


def _upstream(envoy: Chain) -> None:
    """Both stand among the filters of the LLM's cluster."""
    moved = [envoy.filters[name] for name in ("memory.retain", "memory.recall")]
    for entry in moved:
        envoy.manager["http_filters"].remove(entry)
    (options,) = envoy.clusters["llm"]["typed_extension_protocol_options"].values()
    options["http_filters"] = moved


def _google(envoy: Chain, target: str) -> None:
    for config in _both(envoy):
        config["grpc_service"] = {"google_grpc": {"target_uri": target, "stat_prefix": "m"}}


def _strips(envoy: Chain) -> dict[str, Any]:
    """A filter strips in place of the early mutations."""
    (extension,) = envoy.manager.pop("early_header_mutation_extensions")
    entry = _mutation(*extension["typed_config"]["mutations"])
    envoy.manager["http_filters"].insert(0, entry)
    return entry


def _mutates_on_route(envoy: Chain, *mutations: dict[str, Any]) -> None:
    envoy.manager["http_filters"].insert(1, _mutation())
    kind = f"{TYPES}.extensions.filters.http.header_mutation.v3.HeaderMutationPerRoute"
    _per_route(envoy, "llm", mutation={"@type": kind, "mutations": {"request_mutations": list(mutations)}})


def _off(*names: str) -> dict[str, Any]:
    return {name: {"@type": f"{TYPES}.config.route.v3.FilterConfig", "disabled": True} for name in names}


def _two_authentications(envoy: Chain) -> None:
    """Both are disabled where memories are."""
    kind = f"{TYPES}.extensions.filters.http.lua.v3.Lua"
    envoy.manager["http_filters"].insert(1, {"name": "own", "typed_config": {"@type": kind}})
    route = _route(envoy)
    route["typed_per_filter_config"] = _off("own", "envoy.filters.http.api_key_auth")


def _requires_on(envoy: Chain, method: str) -> None:
    """Chats ask for a token, and the API where it is asked by one method."""
    chats, required = {"safe_regex": {"regex": "/v1/(chat/completions|responses)"}}, {"provider_name": "users"}
    api = {"prefix": "/v1/memory", "headers": [{"name": ":method", "string_match": {"exact": method}}]}
    _jwt(envoy)["rules"] = [{"match": match, "requires": required} for match in (chats, api)]


def _fraction(envoy: Chain) -> None:
    """A fraction of the chats ends at a route of its own, and all others where answers are cut."""
    share = {"default_value": {"numerator": 10, "denominator": "HUNDRED"}}
    first = copy.deepcopy(_route(envoy))
    first["match"]["runtime_fraction"] = share
    envoy.manager["route_config"]["virtual_hosts"][0]["routes"].insert(0, first)
    _route(envoy)["route"].pop("timeout")


def _below(envoy: Chain, **match: Any) -> dict[str, Any]:
    """Clients name a provider, which the route takes off the path; all other paths are without memory."""
    route = _route(envoy)
    route["match"] = {**match, "headers": route["match"]["headers"]}
    route["route"]["prefix_rewrite"] = "/v1/"
    return route


def _open_with_demo_keys_on_a_route(envoy: Chain) -> None:
    (listener,) = envoy.bootstrap["static_resources"]["listeners"]
    listener["address"]["socket_address"]["address"] = "0.0.0.0"
    for each in _keys(envoy):
        each["key"] = each["key"].replace("demo", "own")
    kind = f"{TYPES}.extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute"
    own = {"@type": kind, "credentials": [{"key": "demo-key-alice", "client": "alice"}]}
    _per_route(envoy, "llm", envoy_filters_http_api__key__auth=own)


def _without_secret_on_route(envoy: Chain) -> None:
    for config in _both(envoy):
        _metadata(config, secret=_SECRET)
    _route(envoy, "memory-api")["request_headers_to_add"] = [{"header": {"key": "x-memory-secret", "value": _SECRET}}]
    bare = override(grpc_service={"envoy_grpc": {"cluster_name": "memory_sidecar"}, "timeout": "0s"})
    _per_route(envoy, "llm", memory_retain=bare, memory_recall=bare)


def _inserted(envoy: Chain, index: int, kind: str, **config: Any) -> None:
    entry = {"name": "own", "typed_config": {"@type": f"{TYPES}.extensions.filters.http.{kind}", **config}}
    envoy.manager["http_filters"].insert(index, entry)


_SIGNING = {"kind": "aws_request_signing.v3.AwsRequestSigning", "service_name": "bedrock", "region": "eu-west-1"}
_USER_UNSIGNED = {"match_excluded_headers": [{"prefix": "x-authz-"}]}
_DECOMPRESSOR, _COMPRESSOR = "decompressor.v3.Decompressor", "compressor.v3.Compressor"
_OFF_BY_DEFAULT = {"common_config": {"enabled": {"default_value": False, "runtime_key": "k"}}}
_PROVIDERS = (
    {"path": "/openai/v1/chat/completions"},
    {"safe_regex": {"regex": "/openai/v1/(?:chat/completions|responses)"}},
    {"safe_regex": {"regex": "^/(groq|openai)/v1/(chat/completions|responses)$"}},
    {"safe_regex": {"regex": "/tenants/[^/]+/v1/chat/completions"}},
    {"path": "/v1beta/openai/chat/completions"},
    {"path": "/openai/responses"},
    {"safe_regex": {"regex": "/openai/deployments/[^/]+/chat/completions"}},
    {"safe_regex": {"regex": "/openai/(deployments/[^/]+/chat/completions|responses)"}},
)
_DISABLED = {"@type": f"{TYPES}.extensions.filters.http.ext_proc.v3.ExtProcPerRoute", "disabled": True}
_BUFFER = 4 * 1024 * 1024
_PROCESSES = {"memory": {"milvus": {"address": "m:1"}, "redis": {"url": "redis://r"}}, "server": {"processes": 2}}

MISTAKES = [
    Mistake("recall fails closed", lambda e: _recall(e).pop("failure_mode_allow"), "error failure-mode-allow", "http_filters[3].typed_config.failure_mode_allow"),
    Mistake("retain fails closed", lambda e: _retain(e).update(failure_mode_allow=False), "error failure-mode-allow", "http_filters[2].typed_config.failure_mode_allow"),
    Mistake("the single filter fails closed", lambda e: filter_of(e, "memory").pop("failure_mode_allow"), "error failure-mode-allow", "http_filters[2].typed_config.failure_mode_allow", chain="single-filter"),
    Mistake("a route makes recall fail closed", lambda e: _per_route(e, "llm", memory_recall=override(failure_mode_allow=False)), "error failure-mode-allow", 'routes[0].typed_per_filter_config["memory.recall"].overrides.failure_mode_allow'),
    Mistake("nothing strips headers", lambda e: e.manager.pop("early_header_mutation_extensions"), "error headers-not-stripped", "typed_config.early_header_mutation_extensions"),
    Mistake("the identity is not stripped", lambda e: _unstripped(e, "x-authz-user-id"), "error headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("x-memory-org is not stripped", lambda e: _unstripped(e, "x-memory-org"), "error headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("x-memory-org-admin is not stripped", lambda e: _unstripped(e, "x-memory-org-admin"), "error headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("x-memory-agent is not stripped", lambda e: _unstripped(e, "x-memory-agent"), "error headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("a client's header is the organisation", lambda e: _early(e, _user("%DOWNSTREAM_PEER_SUBJECT%"), _user("%REQ(x-org)%", "x-memory-org")), "error user-from-client", "mutations[7].append.header.value"),
    Mistake("a client's header is the administrator", lambda e: _early(e, _user("%DOWNSTREAM_PEER_SUBJECT%"), _user("%REQ(x-org)%", "x-memory-org-admin")), "error user-from-client", "mutations[7].append.header.value"),
    Mistake("a signal is not stripped", lambda e: _unstripped(e, "x-vsr-requires-tool"), "warning headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("the route strips", lambda e: _late(e, _route(e)), "error headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("the virtual host strips", lambda e: _late(e, e.manager["route_config"]["virtual_hosts"][0]), "error headers-not-stripped", "early_header_mutation_extensions", also="error user-removed-on-api"),
    Mistake("the route configuration strips", lambda e: _late(e, e.manager["route_config"]), "error headers-not-stripped", "early_header_mutation_extensions", also="error user-removed-on-api"),
    Mistake("another header is the identity", lambda _: None, "error headers-not-stripped", "early_header_mutation_extensions", also="error user-not-passed-on", settings={"memory": {"identity": {"user_header": "x-user"}}}),
    Mistake("nobody authenticates", lambda e: e.manager["http_filters"].pop(0), "error not-authenticated", "typed_config.http_filters"),
    Mistake("authentication comes last", lambda e: move(e, "envoy.filters.http.api_key_auth", 3), "error authenticated-too-late", "http_filters[3]"),
    Mistake("the key's owner is not passed on", lambda e: filter_of(e, "envoy.filters.http.api_key_auth").pop("forwarding"), "error user-not-passed-on", "typed_config.http_filters"),
    Mistake("the claim is not passed on", lambda e: _jwt(e)["providers"]["users"].pop("claim_to_headers"), "error user-not-passed-on", "typed_config.http_filters", chain="jwt"),
    Mistake("no token is asked for", lambda e: _jwt(e).update(rules=[]), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("tokens are asked for elsewhere", lambda e: _jwt(e)["rules"][0].update(match={"prefix": "/admin"}), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("a route does without authentication", lambda e: _route(e).update(typed_per_filter_config={"envoy.filters.http.jwt_authn": {"@type": f"{TYPES}.extensions.filters.http.jwt_authn.v3.PerRouteConfig", "disabled": True}}), "error authentication-off", "routes[0]", chain="jwt"),
    Mistake("recall stands first", lambda e: move(e, "memory.recall", 1), "error filter-order", "http_filters[3]"),
    Mistake("only one sends a setting", lambda e: _metadata(_retain(e), limit="3"), "error filters-differ", "typed_config.http_filters"),
    Mistake("they send different settings", lambda e: (_metadata(_retain(e), limit="3"), _metadata(_recall(e), limit="4")), "error filters-differ", "typed_config.http_filters"),
    Mistake("a route sets one of them", lambda e: _per_route(e, "llm", memory_recall=override(grpc_initial_metadata=[{"key": "x-memory-limit", "value": "1"}])), "error filters-differ", "routes[0]"),
    Mistake("a route gives one another service", lambda e: _per_route(e, "llm", memory_retain=override(grpc_service={"envoy_grpc": {"cluster_name": "memory_sidecar"}, "initial_metadata": [{"key": "x-memory-enabled", "value": "false"}]})), "error filters-differ", "routes[0]"),
    Mistake("one is disabled on a route", lambda e: _per_route(e, "llm", memory_retain=_DISABLED), "error one-filter-disabled", "routes[0]"),
    Mistake("one is left on beside the LLM", lambda e: _route(e, "other")["typed_per_filter_config"].pop("memory.retain"), "error one-filter-disabled", "routes[2]"),
    Mistake("a setting has another name", lambda e: [_metadata(config, limt="3") for config in _both(e)], "error setting-unknown", "grpc_service.initial_metadata"),
    Mistake("a setting has no such value", lambda e: [_metadata(config, limit="many") for config in _both(e)], "error setting-value", "grpc_service.initial_metadata"),
    Mistake("the route buffers 1 MiB", lambda e: _route(e).pop("request_body_buffer_limit"), "error route-buffer-limit", "routes[0].request_body_buffer_limit"),
    Mistake("a key's user has a blank at its end", lambda e: _keys(e)[0].update(client="alice "), "error user-blank", "credentials[0].client"),
    Mistake("a key's user begins with a tab", lambda e: _keys(e)[1].update(client="\tbob"), "error user-blank", "credentials[1].client"),
    Mistake("a key's user ends with a blank that is no ASCII", lambda e: _keys(e)[0].update(client="alice\u3000"), "error user-blank", "credentials[0].client"),
    Mistake("a key's user cannot be printed", lambda e: _keys(e)[0].update(client="ali\u200bce"), "error user-unacceptable", "credentials[0].client"),
    Mistake("a route's key has a user with a blank", _key_of_a_route, "error user-blank", 'routes[1].typed_per_filter_config["envoy.filters.http.api_key_auth"].credentials[0].client'),
    Mistake("nothing refuses a subject with a blank", _unguarded, "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    *(Mistake(f"only {header} may have a blank", lambda e, header=header: _accepts(e, header), "error blank-ends-accepted", "http_filters[0]", chain="jwt") for header in ("x-authz-user-id", "x-memory-org", "x-memory-org-admin", "x-memory-agent")),  # type: ignore[misc]
    Mistake("a subject with a blank is refused before it is known", lambda e: move(e, "envoy.filters.http.rbac", 0), "error blank-ends-accepted", "http_filters[1]", chain="jwt"),
    Mistake("only a blank at the beginning is refused", lambda e: _refuses(e, "(?s)\\s.*"), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("blanks are refused to some alone", lambda e: next(iter(filter_of(e, "envoy.filters.http.rbac")["rules"]["policies"].values())).update(principals=[{"url_path": {"path": {"prefix": "/x"}}}]), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("ids of a pattern are let through, and all others", lambda e: _guarded_by(e, action="ALLOW", policy={**next(_of_a_pattern())[2], "permissions": [{"any": True}]}), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("blanks are refused under a condition", lambda e: next(iter(filter_of(e, "envoy.filters.http.rbac")["rules"]["policies"].values())).update(condition={"const_expr": {"bool_value": False}}), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("what is not known of ids is logged", lambda e: _guarded_by(e, action="LOG", policy={"permissions": [{"destination_port": 1}], "principals": [{"any": True}]}), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("blanks are logged", lambda e: filter_of(e, "envoy.filters.http.rbac")["rules"].update(action="LOG"), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("blanks are refused in another header", lambda e: _refuses(e, "(?s)\\s.*|.*\\s", "x-other"), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("the API's route refuses nothing", lambda e: _per_route(e, "memory-api", envoy_filters_http_rbac={"@type": f"{TYPES}.extensions.filters.http.rbac.v3.RBACPerRoute"}), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("the API's route refuses nothing, wrapped", lambda e: _per_route(e, "memory-api", envoy_filters_http_rbac={"@type": f"{TYPES}.config.route.v3.FilterConfig", "config": {"@type": f"{TYPES}.extensions.filters.http.rbac.v3.RBACPerRoute"}}), "error blank-ends-accepted", "http_filters[0]", chain="jwt"),
    Mistake("another server's names may have a blank", _named_elsewhere, "warning blank-ends-accepted", "http_filters[0]"),
    Mistake("the LLM server learns who the user is", lambda e: _route(e).pop("request_headers_to_remove"), "warning user-upstream", "routes[0].request_headers_to_remove"),
    Mistake("the LLM server learns it on other paths", lambda e: _route(e, "other").pop("request_headers_to_remove"), "warning user-upstream", "routes[2].request_headers_to_remove"),
    Mistake("the API does not learn who the user is", lambda e: _route(e, "memory-api").update(request_headers_to_remove=["X-Authz-User-Id"]), "error user-removed-on-api", "routes[1].request_headers_to_remove"),
    Mistake("no ping ends a sidecar that has stopped", lambda e: http2_of(e).pop("connection_keepalive"), "error answers-held", "http2_protocol_options.connection_keepalive", chain="single-filter"),
    Mistake("a ping may take a minute", lambda e: http2_of(e)["connection_keepalive"].update(timeout="60s"), "error answers-held", "http2_protocol_options.connection_keepalive", chain="single-filter"),
    Mistake("the listener buffers less", lambda e: (_route(e).pop("request_body_buffer_limit"), e.bootstrap["static_resources"]["listeners"][0].update(per_connection_buffer_limit_bytes=_BUFFER)), "warning route-buffer-limit", "listeners[0].per_connection_buffer_limit_bytes"),
    Mistake("the cluster buffers 1 MiB", lambda e: _sidecar(e).pop("per_connection_buffer_limit_bytes"), "error cluster-buffer-limit", "clusters[0].per_connection_buffer_limit_bytes"),
    Mistake("messages are small", lambda _: None, "error message-size", "server.max_message_bytes", settings={"server": {"max_message_bytes": 64 * 1024 * 1024}}),
    Mistake("the route buffers more than a message", lambda e: _route(e).update(request_body_buffer_limit=1 << 30), "warning route-above-message", "routes[0].request_body_buffer_limit"),
    Mistake("the window is small", lambda e: http2_of(e).clear(), "warning stream-window", "http2_protocol_options.initial_stream_window_size"),
    Mistake("no circuit breaker", lambda e: _sidecar(e).pop("circuit_breakers"), "error circuit-breaker", "clusters[0].circuit_breakers"),
    Mistake("a tight circuit breaker", lambda e: _sidecar(e)["circuit_breakers"]["thresholds"][0].pop("max_requests"), "error circuit-breaker", "thresholds[0].max_requests"),
    Mistake("a circuit breaker for the other priority", lambda e: _sidecar(e)["circuit_breakers"]["thresholds"][0].update(priority="HIGH"), "error circuit-breaker", "clusters[0].circuit_breakers"),
    Mistake("no HTTP/2", lambda e: _sidecar(e).pop("typed_extension_protocol_options"), "error no-http2", "clusters[0].typed_extension_protocol_options"),
    Mistake("HTTP/1", _http1, "error no-http2", "clusters[0].typed_extension_protocol_options"),
    Mistake("recall sees no body", lambda e: _mode(_recall(e), request_body_mode="NONE"), "error recall-request-body", "http_filters[3].typed_config.processing_mode.request_body_mode"),
    Mistake("recall gets the body in pieces", lambda e: _mode(_recall(e), request_body_mode="STREAMED"), "error recall-request-body", "processing_mode.request_body_mode"),
    Mistake("recall gets a part of the body", lambda e: _mode(_recall(e), request_body_mode="BUFFERED_PARTIAL"), "warning request-body-partial", "processing_mode.request_body_mode"),
    Mistake("recall is full duplex", lambda e: _mode(_recall(e), request_body_mode="FULL_DUPLEX_STREAMED", request_trailer_mode="SEND"), "warning full-duplex", "processing_mode.request_body_mode"),
    Mistake("recall sees no headers", lambda e: _mode(_recall(e), request_header_mode="SKIP"), "error request-headers-skipped", "processing_mode.request_header_mode"),
    Mistake("recall has no mode", lambda e: _recall(e).pop("processing_mode"), "error recall-request-body", "http_filters[3].typed_config.processing_mode"),
    Mistake("recall holds answers", lambda e: _mode(_recall(e), response_body_mode="BUFFERED"), "error response-buffered", "processing_mode.response_body_mode"),
    Mistake("recall reads answers, too", lambda e: _mode(_recall(e), response_body_mode="STREAMED"), "error answer-read-twice", "processing_mode.response_body_mode"),
    Mistake("the single filter holds answers", lambda e: _mode(filter_of(e, "memory"), response_body_mode="BUFFERED"), "error response-buffered", "processing_mode.response_body_mode", chain="single-filter"),
    Mistake("the single filter learns nothing", lambda e: _mode(filter_of(e, "memory"), response_body_mode="NONE"), "warning nothing-learns", "typed_config.http_filters", chain="single-filter"),
    Mistake("the single filter sees no status", lambda e: _mode(filter_of(e, "memory"), response_header_mode="SKIP"), "error response-headers-skipped", "processing_mode.response_header_mode", chain="single-filter"),
    Mistake("retain buffers requests", lambda e: _mode(_retain(e), request_body_mode="BUFFERED"), "error observer-request-body", "http_filters[2].typed_config.processing_mode.request_body_mode"),
    Mistake("retain sees no answer", lambda e: _mode(_retain(e), response_body_mode="NONE"), "error observer-response-body", "processing_mode.response_body_mode"),
    Mistake("retain sees no status", lambda e: _mode(_retain(e), response_header_mode="SKIP"), "error response-headers-skipped", "processing_mode.response_header_mode"),
    Mistake("retain is waited for", lambda e: _retain(e).pop("observability_mode"), "error observability-mode", "http_filters[2].typed_config.observability_mode"),
    Mistake("recall only observes", lambda e: _recall(e).update(observability_mode=True), "error recall-observes", "http_filters[3].typed_config.observability_mode"),
    Mistake("a route's mode forgets a body", lambda e: _per_route(e, "llm", memory_recall=override(processing_mode={"response_header_mode": "SKIP"})), "error recall-request-body", 'typed_per_filter_config["memory.recall"].overrides.processing_mode.request_body_mode'),
    Mistake("modes may be overridden", lambda e: _recall(e).update(allow_mode_override=True), "warning mode-override", "typed_config.allow_mode_override"),
    Mistake("attributes are sent", lambda e: _recall(e).update(request_attributes=["request.headers"]), "warning attributes-unused", "typed_config.request_attributes"),
    Mistake("bodies may not be changed", lambda e: _recall(e).update(mutation_rules={"disallow_all": True}), "error mutation-rules", "mutation_rules.disallow_all"),
    Mistake("the user is not forwarded", lambda e: _recall(e).update(forward_rules={"allowed_headers": {"patterns": [{"prefix": ":"}, {"exact": "content-type"}]}}), "error headers-not-forwarded", "typed_config.forward_rules"),
    Mistake("an opt-out is not forwarded", lambda e: [_forwards(config, without="x-memory-opt-out") for config in _both(e)], "error headers-not-forwarded", "typed_config.forward_rules"),
    Mistake("the status is not forwarded", lambda e: _forwards(_retain(e), without=":status"), "error headers-not-forwarded", "http_filters[2].typed_config.forward_rules"),
    Mistake("the session is not forwarded", lambda e: _forwards(_recall(e), without="x-session-id"), "warning headers-not-forwarded", "http_filters[3].typed_config.forward_rules"),
    Mistake("no time to rewrite", lambda e: _recall(e).pop("message_timeout"), "error message-timeout", "http_filters[3].typed_config.message_timeout", settings=_rewrite_model()),
    Mistake("no time to recall", lambda e: _recall(e).update(message_timeout="0.050s"), "error message-timeout", "typed_config.message_timeout"),
    Mistake("no time to forget", lambda e: _recall(e).update(message_timeout="0.3s"), "error message-timeout", "typed_config.message_timeout"),
    Mistake("too much time", lambda e: _recall(e).update(message_timeout="60s"), "warning message-timeout-long", "typed_config.message_timeout"),
    Mistake("copies are dropped after 5 s", lambda e: _retain(e).pop("deferred_close_timeout"), "error deferred-close-timeout", "http_filters[2].typed_config.deferred_close_timeout"),
    Mistake("streams end after 30 s", lambda e: _recall(e)["grpc_service"].update(timeout="30s"), "warning grpc-timeout", "grpc_service.timeout"),
    Mistake("no graceful close", lambda e: e.bootstrap.pop("layered_runtime"), "warning graceful-close", "layered_runtime"),
    Mistake("two processes in turn", lambda e: (_second_endpoint(e, 50052), _sidecar(e).update(lb_policy="ROUND_ROBIN")), "warning lb-policy", "clusters[0].lb_policy", settings={"memory": {"milvus": {"address": "m:1"}}}),
    Mistake("two processes, one Lite file", lambda e: _second_endpoint(e, 50052), "error lite-shared", "clusters[0].load_assignment"),
    Mistake("upgrades reach the filters", lambda e: _route(e)["match"]["headers"].clear(), "error upgrade-held", "routes[0].match"),
    Mistake("upgrades reach the filters where Envoy answers", partial(_answered, path="/v1/responses"), "error upgrade-held", "routes[0].match"),
    Mistake("a POST may upgrade", lambda e: _route(e)["match"]["headers"].pop(1), "warning upgrade-held", "routes[0].match"),
    Mistake("memory on every path", lambda e: _route(e)["match"].update(safe_regex={"regex": "/v1/.*"}), "warning memory-on-other-paths", "routes[0].match"),
    Mistake("no memory for chats", lambda e: _per_route(e, "llm", memory_retain=_DISABLED, memory_recall=_DISABLED), "error chat-without-memory", "route_config"),
    Mistake("answers are cut after 15 s", lambda e: _route(e)["route"].pop("timeout"), "error route-timeout", "routes[0].route.timeout"),
    Mistake("answers are cut after a minute", lambda e: _route(e)["route"].update(timeout="60s"), "warning route-timeout", "routes[0].route.timeout"),
    Mistake("silence ends a stream", lambda e: e.manager.pop("stream_idle_timeout"), "warning stream-idle-timeout", "typed_config.stream_idle_timeout"),
    Mistake("silence ends a route's stream", lambda e: _route(e)["route"].update(idle_timeout="30s"), "warning stream-idle-timeout", "route.idle_timeout"),
    Mistake("slow answers are repeated", lambda e: _route(e)["route"].update(retry_policy={"retry_on": "5xx", "per_try_timeout": "20s"}), "warning retry-timeout", "retry_policy.per_try_timeout"),
    Mistake("clients choose request ids", lambda e: e.manager.pop("use_remote_address"), "warning request-id", "typed_config.use_remote_address"),
    Mistake("clients' request ids are kept", lambda e: e.manager.update(preserve_external_request_id=True), "warning request-id", "typed_config.preserve_external_request_id"),
    Mistake("another port than the sidecar's", lambda e: _endpoint_port(e, "memory_sidecar", 50099), "error address-differs", "clusters[0].load_assignment"),
    Mistake("another port than the API's", lambda e: _endpoint_port(e, "memory_api", 9999), "error address-differs", "clusters[1].load_assignment"),
    Mistake("no such cluster", lambda e: [config["grpc_service"]["envoy_grpc"].update(cluster_name="gone") for config in _both(e)], "error cluster-missing", "grpc_service"),
    Mistake("no route to the API", lambda e: e.manager["route_config"]["virtual_hosts"][0]["routes"].pop(1), "warning memory-api-missing", "route_config"),
    Mistake("the API's route stands last", lambda e: _api_first(e, "/v1/memory"), "error memory-api-shadowed", "routes[2]"),
    Mistake("the filters work on the API", lambda e: _route(e, "memory-api").pop("typed_per_filter_config"), "warning memory-api-filtered", "routes[1].typed_per_filter_config"),
    Mistake("the API is asked at the gRPC port", lambda e: _route(e, "memory-api")["route"].update(cluster="memory_sidecar"), "error memory-api-cluster", "routes[1]", settings={"management": {"listen": "127.0.0.1:50051"}}),
    Mistake("no memory filter", lambda e: [e.manager["http_filters"].remove(e.filters[name]) for name in ("memory.retain", "memory.recall")], "error no-memory-filter", "static_resources"),
    Mistake("only retain", lambda e: e.manager["http_filters"].remove(e.filters["memory.recall"]), "warning nothing-recalls", "typed_config.http_filters"),
    Mistake("only recall", lambda e: e.manager["http_filters"].remove(e.filters["memory.retain"]), "warning nothing-learns", "typed_config.http_filters"),
    Mistake("filters of other names", _rename, "error failure-mode-allow", "http_filters[3].typed_config.failure_mode_allow"),
    Mistake("the claim is not forwarded", lambda e: _jwt(e)["providers"]["users"].update(payload_in_metadata="jwt"), "error jwt-metadata-not-forwarded", "typed_config.metadata_options", chain="jwt", settings={"memory": {"identity": {"jwt_claim": "sub"}}}),
    Mistake("results are not taken", lambda e: _recall(e).pop("metadata_options", None), "warning results-not-received", "http_filters[3].typed_config.metadata_options"),
    Mistake("the secret is not sent", lambda _: None, "error secret-not-sent", "", secret=_SECRET),
    Mistake("the sidecar is open to others", lambda e: _endpoint_port(e, "memory_sidecar", 50051), "error secret-missing", "server.listen", settings={"server": {"listen": "0.0.0.0:50051"}}),
    Mistake("the body says who it is", lambda _: None, "warning trust-body", "memory.identity.trust_body", settings={"memory": {"identity": {"trust_body": True}}}),
    Mistake("memory is off", lambda _: None, "warning memory-off", "memory.enabled", settings={"memory": {"enabled": False}}),
    Mistake("Redis with a file", lambda _: None, "warning lite-with-redis", "memory.milvus", settings={"memory": {"redis": {"url": "redis://r"}}}),
    Mistake("a model's key is not there", lambda _: None, "error api-key-missing", "external_models[0]", settings={"external_models": ({**_rewrite_model()["external_models"][0], "api_key_env": "NO_SUCH_VARIABLE"},)}),
    Mistake("a client's header is the user", lambda e: _early(e, _user("%REQ(x-user)%")), "error user-from-client", "mutations[6].append.header.value"),
    Mistake("a client's header is a part of the user", lambda e: _early(e, _user("u-%REQ_WITHOUT_QUERY(:path?x-user):9%")), "error user-from-client", "mutations[6].append.header.value"),
    Mistake("a request header is the user", lambda e: _early(e, _user("%REQUEST_HEADER(x-user)%")), "error user-from-client", "mutations[6].append.header.value"),
    Mistake("a query is the user", lambda e: _early(e, _user("%QUERY_PARAM(user)%")), "error user-from-client", "mutations[6].append.header.value"),
    Mistake("the user is set and removed again", lambda e: _early(e, _user("%DOWNSTREAM_PEER_SUBJECT%"), {"remove": "x-authz-user-id"}), "error not-authenticated", "typed_config.http_filters"),
    Mistake("a filter removes the user and takes it from the client", _stripped_and_set, "error user-from-client", "request_mutations[1].append.header.value"),
    Mistake("everybody is one user", lambda e: _early(e, _user("alice")), "warning user-constant", "mutations[6].append.header.value"),
    Mistake("a filter takes the user from the client", lambda e: e.manager["http_filters"].__setitem__(0, _mutation(_user("%REQ(x-user)%"))), "error user-from-client", "http_filters[0].typed_config.mutations.request_mutations[0]"),
    Mistake("a filter overwrites who authenticated", lambda e: e.manager["http_filters"].insert(1, _mutation(_user("%REQ(x-user)%"))), "error user-from-client", "http_filters[1].typed_config.mutations.request_mutations[0]"),
    Mistake("the user is taken from beside the key's owner", lambda e: _key_renamed(e, "x-other"), "error user-from-client", "http_filters[1].typed_config.mutations"),
    Mistake("the API's route takes the user from the client", lambda e: _route(e, "memory-api").update(request_headers_to_add=[_user("%REQ(x-user)%")["append"]]), "error user-from-client", "routes[1].request_headers_to_add[0].header.value"),
    Mistake("a token is asked for on one chat path", lambda e: _rules_for(e, "/v1/chat/completions", "/v1/memory"), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("a token is asked for on the other chat path", lambda e: _rules_for(e, "/v1/responses", "/v1/memory"), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("no token is asked for on the API", lambda e: _rules_for(e, "/v1/chat", "/v1/responses"), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("a token may be missing", lambda e: _requires(e, {"provider_name": "users"}, {"allow_missing": {}}), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("a token may fail", lambda e: _requires(e, {"provider_name": "users"}, {"allow_missing_or_failed": {}}), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("a route names a weak requirement", lambda e: (_jwt(e).update(requirement_map={"weak": {"allow_missing": {}}}), _route(e).update(typed_per_filter_config={"envoy.filters.http.jwt_authn": {"@type": f"{TYPES}.extensions.filters.http.jwt_authn.v3.PerRouteConfig", "requirement_name": "weak"}})), "error authentication-off", "requirement_name", chain="jwt"),
    Mistake("a stream lasts 10 s", lambda e: _route(e)["route"].update(max_stream_duration={"max_stream_duration": "10s"}), "error answer-duration", "route.max_stream_duration.max_stream_duration"),
    Mistake("a stream lasts a minute, and nothing else is said", lambda e: (_route(e)["route"].pop("timeout"), _route(e)["route"].update(max_stream_duration={"max_stream_duration": "60s"})), "warning answer-duration", "route.max_stream_duration.max_stream_duration"),
    Mistake("all streams last a minute", lambda e: e.manager.update(common_http_protocol_options={"max_stream_duration": "60s"}), "warning answer-duration", "typed_config.common_http_protocol_options.max_stream_duration"),
    Mistake("requests have 5 s to arrive", lambda e: e.manager.update(request_timeout="5s"), "warning request-timeout", "typed_config.request_timeout"),
    Mistake("requests have less than recall", lambda e: e.manager.update(request_timeout="0.010s"), "error request-timeout", "typed_config.request_timeout"),
    Mistake("silent attempts are repeated", lambda e: _route(e)["route"].update(retry_policy={"per_try_idle_timeout": "20s"}), "warning retry-timeout", "retry_policy.per_try_idle_timeout"),
    Mistake("the virtual host repeats slow answers", lambda e: e.manager["route_config"]["virtual_hosts"][0].update(retry_policy={"per_try_timeout": "20s"}), "warning retry-timeout", "virtual_hosts[0].retry_policy.per_try_timeout"),
    Mistake("a circuit breaker of 2000", lambda e: _threshold(e, max_requests=2000), "warning circuit-breaker", "thresholds[0].max_requests"),
    Mistake("few may wait", lambda e: _threshold(e, max_pending_requests=10), "warning circuit-breaker-burst", "thresholds[0].max_pending_requests"),
    Mistake("none may wait", lambda e: _threshold(e, max_pending_requests=0), "error circuit-breaker-burst", "thresholds[0].max_pending_requests"),
    Mistake("one connection", lambda e: _threshold(e, max_connections=1), "warning circuit-breaker-burst", "thresholds[0].max_connections"),
    Mistake("the sidecar is called by TLS", lambda e: _by_tls(e, "memory_sidecar"), "error tls", "clusters[0].transport_socket"),
    Mistake("the API is called by TLS", lambda e: _by_tls(e, "memory_api"), "error tls", "clusters[1].transport_socket"),
    Mistake("the API is called by HTTP/2", lambda e: e.clusters["memory_api"].update(typed_extension_protocol_options=_sidecar(e)["typed_extension_protocol_options"]), "error api-http2", "clusters[1].typed_extension_protocol_options"),
    Mistake("several processes get few connections", lambda e: http2_of(e).pop("max_concurrent_streams"), "warning concurrent-streams", "http2_protocol_options.max_concurrent_streams", settings=_PROCESSES),
    Mistake("few streams in a connection", lambda e: http2_of(e).update(max_concurrent_streams=2), "warning concurrent-streams", "http2_protocol_options.max_concurrent_streams"),
    Mistake("a connection for ten requests", lambda e: _protocol(e).update(common_http_protocol_options={"max_requests_per_connection": 10}), "warning connection-requests", "common_http_protocol_options.max_requests_per_connection"),
    Mistake("a connection for 5 s", lambda e: _protocol(e).update(common_http_protocol_options={"max_connection_duration": "5s"}), "warning connection-duration", "common_http_protocol_options.max_connection_duration"),
    Mistake("a filter's name is misspelt", lambda e: _per_route(e, "llm", memory_recal=override(grpc_initial_metadata=[])), "error filter-unknown", 'routes[0].typed_per_filter_config["memory.recal"]'),
    Mistake("content-length may not be changed", lambda e: _recall(e).update(mutation_rules={"disallow_expression": {"regex": "content-.*"}}), "error mutation-rules", "mutation_rules.disallow_expression"),
    Mistake("a filter buffers 1 MiB", lambda e: _buffer_filter(e, 1 << 20), "error buffer-filter", "http_filters[1].typed_config.max_request_bytes"),
    Mistake("no service is named", lambda e: _recall(e).pop("grpc_service"), "error no-grpc-service", "http_filters[3].typed_config.grpc_service"),
    Mistake("no endpoint", lambda e: _sidecar(e).pop("load_assignment"), "error no-endpoints", "clusters[0].load_assignment"),
    Mistake("the old switch for HTTP/2 beside typed options", _old_http2_beside_http1, "error no-http2", "clusters[0].typed_extension_protocol_options"),
    Mistake("clusters come from elsewhere", lambda e: _elsewhere(e, cds_config="clusters"), "warning clusters-unseen", "dynamic_resources.cds_config"),
    Mistake("listeners come from elsewhere", lambda e: _elsewhere(e, lds_config="listeners"), "warning listeners-unseen", "dynamic_resources.lds_config"),
    Mistake("filters come from elsewhere", _discovered, "warning filter-unseen", "http_filters[2].config_discovery"),
    Mistake("filters stand behind a matcher", _composite, "warning filter-unseen", "static_resources"),
    Mistake("endpoints come from elsewhere", lambda e: (_sidecar(e).pop("load_assignment"), _sidecar(e).update(type="EDS", eds_cluster_config={"eds_config": {"ads": {}}})), "warning endpoints-unseen", "clusters[0].eds_cluster_config"),
    Mistake("virtual hosts come from elsewhere", lambda e: e.manager["route_config"].update(vhds={"config_source": {"ads": {}}}), "warning routes-unseen", "route_config.vhds"),
    Mistake("Google's client is used", lambda e: _google(e, "dns:///localhost:50051"), "warning google-grpc", "http_filters[2].typed_config.grpc_service"),
    Mistake("the filter that strips is disabled", lambda e: _strips(e).update(disabled=True), "error headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("what is stripped is written in another case", lambda e: _stripped_by(e, prefix="X-Authz"), "error headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("a route disables the filter that strips", lambda e: (_strips(e), _route(e).update(typed_per_filter_config=_off("mutation"))), "error headers-not-stripped", "early_header_mutation_extensions"),
    Mistake("a route takes the user from the client", lambda e: _mutates_on_route(e, _user("%REQ(x-user)%")), "error user-from-client", 'typed_per_filter_config["mutation"].mutations.request_mutations[0]'),
    Mistake("a filter removes who was authenticated", lambda e: e.manager["http_filters"].insert(1, _mutation({"remove": "x-authz-user-id"})), "error user-not-passed-on", "typed_config.http_filters"),
    Mistake("neither authentication is enabled on a route", _two_authentications, "error authentication-off", "routes[0]"),
    Mistake("the authentication is disabled", lambda e: e.filters["envoy.filters.http.api_key_auth"].update(disabled=True), "error not-authenticated", "typed_config.http_filters"),
    Mistake("headers become metadata", lambda e: _replace_auth(e, "extensions.filters.http.header_to_metadata.v3.Config", {}), "error not-authenticated", "typed_config.http_filters"),
    Mistake("a token is asked for only to read the API", lambda e: _requires_on(e, "GET"), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("the demo keys of a route are open to others", _open_with_demo_keys_on_a_route, "warning demo-keys", 'typed_per_filter_config["envoy.filters.http.api_key_auth"].credentials'),
    Mistake("most chats end at a second route", _fraction, "error route-timeout", "routes[1].route.timeout"),
    Mistake("a route's service sends no secret", _without_secret_on_route, "error secret-not-sent", 'typed_per_filter_config["memory.retain"].overrides.grpc_service.initial_metadata', secret=_SECRET),
    Mistake("a share of the requests passes one of them", lambda e: _weighted(e, typed_per_filter_config={"memory.recall": _DISABLED}), "error one-filter-disabled", "routes[0]"),
    Mistake("a share of the requests fails closed", lambda e: _weighted(e, typed_per_filter_config={"memory.recall": override(failure_mode_allow=False)}), "error failure-mode-allow", 'weighted_clusters.clusters[1].typed_per_filter_config["memory.recall"].overrides.failure_mode_allow'),
    Mistake("a header names the LLM, which learns the user", lambda e: (_route(e).update(route={"cluster_header": "x-llm", "timeout": "0s"}), _route(e).pop("request_headers_to_remove")), "warning user-upstream", "routes[0].request_headers_to_remove"),
    Mistake("a second port is the API's", lambda e: _another_listener(e, "/"), "error not-authenticated", "listeners[1].filter_chains[0].filters[0].typed_config.http_filters"),
    Mistake("a second port is the API's under another name", lambda e: _another_listener(e, "/mine"), "error not-authenticated", "listeners[1].filter_chains[0].filters[0].typed_config.http_filters"),
    Mistake("only the list leads to the API", lambda e: _route(e, "memory-api").update(match={"path": "/v1/memory"}), "warning memory-api-missing", "routes[1]"),
    Mistake("only what is below leads to the API", lambda e: _route(e, "memory-api").update(match={"prefix": "/v1/memory/"}), "warning memory-api-missing", "routes[1]"),
    Mistake("an authorisation server may set nothing", _asked_of_a_server, "error user-not-passed-on", "typed_config.http_filters"),
    Mistake("an authorisation server may set another header", lambda e: _asked_of_a_server(e, allowed_upstream_headers={"patterns": [{"exact": "x-user"}]}), "error user-not-passed-on", "typed_config.http_filters"),
    Mistake("the API is not authenticated", lambda e: _route(e, "memory-api")["typed_per_filter_config"].update(_off("envoy.filters.http.api_key_auth")), "error authentication-off", "routes[1]"),
    Mistake("a route's setting has another name", lambda e: _per_route(e, "llm", memory_recall=override(grpc_initial_metadata=[{"key": "x-memory-limt", "value": "1"}]), memory_retain=override(grpc_initial_metadata=[{"key": "x-memory-limt", "value": "1"}])), "error setting-unknown", 'routes[0].typed_per_filter_config["memory.retain"].overrides.grpc_initial_metadata[0]'),
    Mistake("a filter is a struct, and fails closed", lambda e: (_recall(e).pop("failure_mode_allow"), _as_structs(e)), "error failure-mode-allow", "http_filters[3].typed_config.value.failure_mode_allow"),
    Mistake("an override names the kind of filter", lambda e: _per_route(e, "llm", envoy_filters_http_ext__proc=override(failure_mode_allow=True)), "error filter-unknown", 'routes[0].typed_per_filter_config["envoy.filters.http.ext_proc"]'),
    Mistake("bodies are decompressed at the end", lambda e: _inserted(e, 4, _DECOMPRESSOR), "warning decompressed-too-late", "http_filters[4]"),
    Mistake("bodies are decompressed between the two", lambda e: _inserted(e, 3, _DECOMPRESSOR), "warning decompressed-too-late", "http_filters[3]"),
    Mistake("requests are compressed first", lambda e: _inserted(e, 1, _COMPRESSOR, request_direction_config={}), "error compressed-too-early", "http_filters[1]"),
    Mistake("bodies are signed before memories are added", lambda e: _inserted(e, 2, **_SIGNING), "error signed-too-early", "http_filters[2]"),
    Mistake("the user is signed and removed", lambda e: _inserted(e, 4, **_SIGNING), "error signed-too-early", "http_filters[4]"),
    Mistake("a body that is not signed has a user that is", lambda e: _inserted(e, 2, use_unsigned_payload=True, **_SIGNING), "error signed-too-early", "http_filters[2]"),
    *(Mistake(f"below {' '.join(map(str, match.values()))} the route buffers 1 MiB", lambda e, match=match: _below(e, **match).pop("request_body_buffer_limit"), "error route-buffer-limit", "routes[0].request_body_buffer_limit") for match in _PROVIDERS),  # type: ignore[misc]
    Mistake("answers below a prefix are cut", lambda e: _below(e, **_PROVIDERS[0])["route"].pop("timeout"), "error route-timeout", "routes[0].route.timeout"),
    Mistake("upgrades below a prefix are held", lambda e: _below(e, **_PROVIDERS[0])["match"]["headers"].pop(), "warning upgrade-held", "routes[0].match"),
    Mistake("no token is asked for below a prefix", lambda e: (_below(e, **_PROVIDERS[0]), _rules_for(e, "/v1")), "error authentication-off", "typed_config.rules", chain="jwt"),
    Mistake("memory is on for other APIs alone", lambda e: _below(e, prefix="/v1/completions"), "error chat-without-memory", "typed_config.route_config"),
    Mistake("memory is on for uploads of any size", lambda e: _route(e, "other").pop("typed_per_filter_config"), "error memory-on-other-paths", "routes[2].match", also="error upgrade-held"),
    Mistake("all of a provider's paths are held", lambda e: _below(e, prefix="/openai/"), "warning memory-on-other-paths", "routes[0].match"),
    Mistake("a filter buffers 4 MiB", lambda e: _buffer_filter(e, _BUFFER), "warning buffer-filter", "http_filters[1].typed_config.max_request_bytes"),
]  # fmt: skip


def _of_the_chain(name: str) -> set[tuple[str, str]]:
    """What doctor says of a shipped chain without any mistake."""
    return {("warning", "single-filter")} if name == "single-filter" else set()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_is_found_and_nothing_else(mistake: Mistake) -> None:
    envoy = chain(mistake.chain)
    mistake.make(envoy)
    findings = diagnose(envoy, mistake.settings, secret=mistake.secret)
    severity, code = mistake.finds.split()
    expected = {(severity, code)}
    if mistake.also:
        severity, code = mistake.also.split()
        expected.add((severity, code))
    assert codes(findings) - _of_the_chain(mistake.chain) == expected
    assert any(finding.where.endswith(mistake.where) or mistake.where in finding.where for finding in findings)
    assert all(finding.what and finding.fix for finding in findings)


def test_the_single_filter_is_not_recommended() -> None:
    """It is sound, but answers wait for the sidecar."""
    assert codes(diagnose(chain("single-filter"))) == {("warning", "single-filter")}


def test_a_secret_that_is_sent_everywhere_is_right_and_one_that_differs_is_not() -> None:
    envoy = chain()
    for config in _both(envoy):
        _metadata(config, secret=_SECRET)
    _route(envoy, "memory-api")["request_headers_to_add"] = [{"header": {"key": "x-memory-secret", "value": _SECRET}}]
    assert diagnose(envoy, secret=_SECRET) == []
    wrong = diagnose(envoy, secret="another")
    assert codes(wrong) == {("error", "secret-wrong")}
    assert not any(_SECRET in str(finding) or finding.fix == "another" for finding in wrong)


def test_an_address_that_differs_from_defaults_is_only_a_warning_when_no_settings_were_given() -> None:
    envoy = chain()
    _endpoint_port(envoy, "memory_sidecar", 50099)
    assert codes(diagnose(envoy, config_given=False)) == {("warning", "address-differs")}


def _sound() -> Iterator[tuple[str, Callable[[Chain], object], str]]:
    yield "as shipped", lambda _: None, "two-filter"
    yield "as shipped", lambda _: None, "jwt"
    yield (
        "settings for both",
        lambda e: [_metadata(config, limit="3", types="semantic") for config in _both(e)],
        "two-filter",
    )
    yield (
        "the same override for both",
        lambda e: _per_route(
            e,
            "llm",
            memory_retain=override(grpc_initial_metadata=[{"key": "X-Memory-Limit", "value": "1"}]),
            memory_recall=override(grpc_initial_metadata=[{"key": "x-memory-limit", "value": "1"}]),
        ),
        "two-filter",
    )
    yield (
        "identity stripped on the way up, too",
        lambda e: _route(e).update(request_headers_to_remove=["x-authz-user-id"]),
        "two-filter",
    )
    yield (
        "an authentication of one's own",
        lambda e: _replace_auth(
            e,
            "extensions.filters.http.ext_authz.v3.ExtAuthz",
            {"grpc_service": {"envoy_grpc": {"cluster_name": "llm"}}},
        ),
        "two-filter",
    )
    yield (
        "Lua sets the user",
        lambda e: _replace_auth(e, "extensions.filters.http.lua.v3.Lua", {}),
        "two-filter",
    )
    yield (
        "a certificate is the user",
        lambda e: _early(e, _user("%DOWNSTREAM_PEER_SUBJECT%")),
        "two-filter",
    )
    yield (
        "metadata is the user",
        lambda e: _early(e, _user("%DYNAMIC_METADATA(auth:user)%")),
        "two-filter",
    )
    yield (
        "the key's owner is renamed",
        lambda e: _key_renamed(e, "x-owner"),
        "two-filter",
    )
    yield (
        "the key's owner overwrites what the client said",
        lambda e: e.manager["http_filters"].insert(0, _mutation(_user("%REQ(x-user)%"))),
        "two-filter",
    )
    yield (
        "either of two tokens",
        lambda e: _requires(e, {"provider_name": "users"}, {"provider_and_audiences": {"provider_name": "users"}}),
        "jwt",
    )
    yield (
        "a token on each path that remembers",
        lambda e: _rules_for(e, "/v1/chat/completions", "/v1/responses", "/v1/memory"),
        "jwt",
    )
    yield (
        "a route takes the bound on streams away",
        lambda e: (
            e.manager.update(common_http_protocol_options={"max_stream_duration": "60s"}),
            _route(e)["route"].update(max_stream_duration={"max_stream_duration": "0s"}),
        ),
        "two-filter",
    )
    yield (
        "content-length may be changed alone",
        lambda e: _recall(e).update(
            mutation_rules={"disallow_all": True, "allow_expression": {"regex": "content-length"}}
        ),
        "two-filter",
    )
    yield (
        "headers that are read are forwarded",
        lambda e: [_forwards(config) for config in _both(e)],
        "two-filter",
    )
    yield from (
        (f"ids are of a pattern alone, {name}", partial(_users_guarded_by, action=action, policy=policy), "jwt")
        for name, action, policy in _of_a_pattern()
    )
    yield (
        "Envoy itself answers on a path, and in place of the LLM",
        _answers_by_itself,
        "two-filter",
    )
    yield (
        "a large buffer filter",
        lambda e: _buffer_filter(e, 64 << 20),
        "two-filter",
    )
    yield (
        "structs in place of messages",
        _as_structs,
        "jwt",
    )
    yield (
        "camel case",
        lambda e: e.manager.update(useRemoteAddress=e.manager.pop("use_remote_address")),
        "two-filter",
    )
    yield (
        "half of the traffic is without memory",
        lambda e: _weighted(e, typed_per_filter_config={"memory.retain": _DISABLED, "memory.recall": _DISABLED}),
        "two-filter",
    )
    yield (
        "the share that goes to the LLM removes the user",
        lambda e: _route(e).update(
            route={
                "timeout": "0s",
                "weighted_clusters": {
                    "clusters": [
                        {
                            "name": "llm",
                            "weight": 1,
                            "request_headers_to_remove": _route(e).pop("request_headers_to_remove"),
                        }
                    ]
                },
            }
        ),
        "two-filter",
    )
    yield (
        "an authorisation server may set the user",
        lambda e: _asked_of_a_server(e, allowed_upstream_headers={"patterns": [{"prefix": "x-authz-"}]}),
        "two-filter",
    )
    yield (
        "HTTP/2 is agreed on by TLS",
        lambda e: (
            _automatic(e),
            _sidecar(e).update(transport_socket={"name": "tls"}),
        ),
        "two-filter",
    )
    yield (
        "nested runtime keys",
        lambda e: e.bootstrap["layered_runtime"]["layers"][0].update(
            static_layer={"envoy": {"reloadable_features": {"ext_proc_graceful_grpc_close": "true"}}}
        ),
        "two-filter",
    )
    yield (
        "what begins like the header is stripped, in any case",
        lambda e: _stripped_by(e, prefix="X-Authz", ignore_case="true"),
        "two-filter",
    )
    yield (
        "a filter in front strips",
        _strips,
        "two-filter",
    )
    yield (
        "a filter behind ours removes the user for the LLM server",
        lambda e: (
            e.manager["http_filters"].insert(4, _mutation({"remove": "x-authz-user-id"})),
            [_route(e, name).pop("request_headers_to_remove") for name in ("llm", "other")],
            _route(e, "memory-api")["typed_per_filter_config"].update(_off("mutation")),
        ),
        "two-filter",
    )
    yield (
        "a route's stream may be silent for longer than others",
        lambda e: (
            e.manager.pop("stream_idle_timeout"),
            _route(e)["route"].update(idle_timeout="900s"),
        ),
        "two-filter",
    )
    yield (
        "a route takes no upgrades",
        lambda e: (
            _route(e)["match"]["headers"].pop(1),
            _route(e)["route"].update(upgrade_configs=[{"upgrade_type": "websocket", "enabled": False}]),
        ),
        "two-filter",
    )
    yield from (
        (
            name,
            lambda e, index=index, config=config: _inserted(e, index, **config),
            "two-filter",
        )
        for name, index, config in (
            ("bodies are decompressed first", 0, {"kind": _DECOMPRESSOR}),
            ("answers alone are decompressed", 4, {"kind": _DECOMPRESSOR, "request_direction_config": _OFF_BY_DEFAULT}),
            ("answers are compressed", 0, {"kind": _COMPRESSOR}),
            ("requests are compressed last", 4, {"kind": _COMPRESSOR, "request_direction_config": {}}),
            ("all is signed but the user, last", 4, {**_SIGNING, **_USER_UNSIGNED}),
            ("headers are signed, without the user", 2, {**_SIGNING, **_USER_UNSIGNED, "use_unsigned_payload": True}),
        )
    )
    yield from (
        ("chats are below a prefix", lambda e, match=match: _below(e, **match), "two-filter") for match in _PROVIDERS
    )
    yield (
        "a second listener that has nothing to do with us",
        lambda e: e.bootstrap["static_resources"]["listeners"].append(
            {
                "name": "other",
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}},
                "filter_chains": [
                    {
                        "filters": [
                            {
                                "name": "hcm",
                                "typed_config": {
                                    "@type": e.manager["@type"],
                                    "stat_prefix": "x",
                                    "route_config": {"virtual_hosts": []},
                                },
                            }
                        ]
                    }
                ],
            }
        ),
        "two-filter",
    )


@pytest.mark.parametrize(
    ("name", "change", "which"), list(_sound()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_sound_has_no_findings(name: str, change: Callable[[Chain], object], which: str) -> None:
    envoy = chain(which)
    change(envoy)
    assert diagnose(envoy) == [], name


def test_a_second_listener_that_reaches_the_api_without_authentication_is_found() -> None:
    envoy = chain()
    listeners = envoy.bootstrap["static_resources"]["listeners"]
    other = chain().bootstrap["static_resources"]["listeners"][0]
    manager = other["filter_chains"][0]["filters"][0]["typed_config"]
    manager["http_filters"] = manager["http_filters"][-1:]
    manager.pop("early_header_mutation_extensions")
    for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
        route.pop("typed_per_filter_config", None)
    listeners.append(other)
    findings = diagnose(envoy)
    assert codes(findings) == {("error", "not-authenticated"), ("error", "headers-not-stripped")}
    assert all("listeners[1]" in finding.where for finding in findings)

    """A gateway with a semantic router: both are services of a cluster and listen on all of their addresses."""
    envoy = chain()
    other = copy.deepcopy(_sidecar(envoy))
    other["name"] = "router"
    envoy.bootstrap["static_resources"]["clusters"].append(other)
    for name, host in (("memory_sidecar", "memory.svc"), ("router", "router.svc")):
        endpoints(envoy, name)[0]["endpoint"]["address"]["socket_address"]["address"] = host
    config = {"@type": _recall(envoy)["@type"], "grpc_service": {"envoy_grpc": {"cluster_name": "router"}}}
    envoy.manager["http_filters"].insert(2, {"name": "routing", "typed_config": config})
    for filters in _both(envoy):
        _metadata(filters, secret=_SECRET)
    _route(envoy, "memory-api")["request_headers_to_add"] = [{"header": {"key": "x-memory-secret", "value": _SECRET}}]
    assert diagnose(envoy, {"server": {"listen": "0.0.0.0:50051"}}, secret=_SECRET) == []


def test_filters_of_an_upstream_are_not_checked_and_doctor_says_so() -> None:
    envoy = chain()
    _upstream(envoy)
    assert codes(diagnose(envoy)) == {("warning", "filter-unseen")}


def test_sockets_are_compared_as_paths() -> None:
    envoy = chain()
    for cluster in ("memory_sidecar", "memory_api"):
        endpoints(envoy, cluster)[0]["endpoint"]["address"] = {"pipe": {"path": f"/run/memory/{cluster}.sock"}}
    settings = {
        "server": {"listen": "unix:/run/memory/memory_sidecar.sock"},
        "management": {"listen": "unix:/run/memory/memory_api.sock"},
    }
    assert diagnose(envoy, settings) == []
    settings["server"]["listen"] = "unix:/run/memory/other.sock"
    assert codes(diagnose(envoy, settings)) == {("error", "address-differs")}
