"""Checks of the user's identity: it is authenticated first, a client cannot claim it, and it goes where it belongs. Pure.

Strategy: the way of the identity header is followed on each route with memories. Only what runs before the memory filters
protects them; headers that routes, virtual hosts and route configurations remove are removed after all filters. HTTP/1.1
strips blanks from the ends of a header, so an id with a blank at an end is another user's at the management API: ids in the
file are checked one by one, and where they come from elsewhere, a filter must refuse such ids.
"""

from collections.abc import Iterable, Iterator, Sequence

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import Finding, found, graded
from semrouter_memory.doctor.gateway import (
    API_PATH,
    CHAT_PATHS,
    GatewayRoute,
    HttpFilterChain,
    config_of,
    is_enabled,
    per_route,
)
from semrouter_memory.doctor.header_path import (
    AUTHENTICATORS,
    HeaderStep,
    Source,
    is_from_client,
    last_setter,
    removals,
    setters,
    steps,
)
from semrouter_memory.doctor.matching import matching, text_matches
from semrouter_memory.doctor.node import Node, first
from semrouter_memory.exchange.identity import is_acceptable_id

_DEMO_KEYS = frozenset({"demo-key-alice", "demo-key-bob"})
_BLANK_ENDS = (" x", "x ", "\tx", "x\t")
_API_METHODS = ("GET", "POST", "PATCH", "DELETE")


def clients_cannot_claim_identity(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The identity headers, and the signals of upstream classifiers, are removed before a filter reads them."""
    signals, user, others = (
        context.config.memory.signals,
        _user_header(context),
        context.config.memory.identity.other_headers,
    )
    headers = dict.fromkeys((user, *others, signals.fact_header, signals.tool_header))
    routes = _guarded(chain)
    left = [name for name in headers if not all(_is_stripped(context, chain, name, route) for route in routes)]
    if left:
        places = [place for name in left for route in routes if route for place in removals(chain, name, route)]
        late = f"; removing it in {places[0].path} comes after the filters, too late" if places else ""
        yield found(
            "headers-not-stripped",
            chain.manager.get("early_header_mutation_extensions"),
            graded(not {user, *others}.isdisjoint(left)),
            headers=", ".join(left),
            effect=_effect(left, user, others),
            late=late,
            mutations=", ".join(f"{{remove: {name}}}" for name in left),
        )


def _effect(left: Sequence[str], user: str, others: Sequence[str]) -> str:
    if user in left:
        return "a client that sends it is that user"
    if not set(others).isdisjoint(left):
        return "a client that sends it reads, or changes, what that organisation or agent remembers"
    return "clients can steer recall with it"


def _is_stripped(context: CheckContext, chain: HttpFilterChain, header: str, route: GatewayRoute | None) -> bool:
    """Whether a header is removed before an authenticating or a memory filter reads it."""
    users = steps(chain, _user_header(context), route, claims=context.config.memory.identity.jwt_claim is not None)
    verifying = [each.index for each in users if each.source in (Source.VERIFIED, Source.OPAQUE)]
    reader = min((chain.first_memory, *verifying))
    return any(each.source is Source.REMOVAL and each.index < reader for each in steps(chain, header, route))


def _guarded(chain: HttpFilterChain) -> Sequence[GatewayRoute | None]:
    """The routes with memories; None stands for routes that are not in the file."""
    routes = [*(route for route in chain.routes if route.enabled), *chain.api_routes]
    return list({route.place.path: route for route in routes}.values()) or [None]


def users_are_authenticated_first(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """On no route do memories work without the authentication."""
    configured = _user_setters(context, chain, None)
    for route in _guarded(chain):
        sources = _user_setters(context, chain, route)
        if sources and not sources[0].is_early and sources[0].index >= chain.first_memory:
            entry = chain.filters[sources[0].index]
            yield found("authenticated-too-late", entry, name=entry.get("name").text)
        elif not sources and configured and route:
            names = " and ".join(chain.filters[each.index].get("name").text for each in configured)
            yield found("authentication-off", route.place, name=names, route=repr(route.name))
        elif not sources and not context.config.memory.identity.trust_body:
            yield _unauthenticated(context, chain)


def _unauthenticated(context: CheckContext, chain: HttpFilterChain) -> Finding:
    enabled = [entry for _, entry in chain.others if is_enabled(entry, Node(None))]
    names = [entry.get("name").text for entry in enabled if config_of(entry).kind in AUTHENTICATORS]
    code = "user-not-passed-on" if names else "not-authenticated"
    return found(code, chain.manager.get("http_filters"), names=", ".join(names), header=_user_header(context))


def users_come_from_a_verified_source(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A header that a client sends does not tell who it is, whichever header it is copied to."""
    for route in _guarded(chain):
        for header in (_user_header(context), *context.config.memory.identity.other_headers):
            yield from _set_from_clients(chain, route, header, is_user=header == _user_header(context))


def _set_from_clients(
    chain: HttpFilterChain, route: GatewayRoute | None, header: str, *, is_user: bool
) -> Iterator[Finding]:
    sources = [each for each in setters(chain, header, route) if each.index < chain.first_memory]
    verified = max((each.index for each in sources if each.source is Source.VERIFIED), default=-1)
    mutations = [each for each in sources if each.source is Source.MUTATION and each.index >= verified]
    if route in chain.api_routes and route:
        # The management API gets the value that its routes add after all filters.
        added = [each for each in route.headers_to_add() if each.get("key").text.lower() == header]
        mutations += [HeaderStep(Source.MUTATION, each, len(chain.filters)) for each in added]
    for step in mutations:
        if is_from_client(chain, step, route):
            yield found("user-from-client", step.node.get("value"), header=header)
        elif step.is_constant and is_user:
            yield found("user-constant", step.node.get("value"), header=header)


def tokens_are_required(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """Where a JWT filter alone authenticates, its rules require a token on every path where memories are.

    A request's path is matched with the routes, then with the rules in their order, up to the first that surely takes it;
    each of these rules must require a token. A requirement that a route names replaces the rules.
    """
    sources = [chain.filters[each.index] for each in _user_setters(context, chain, None) if not each.is_early]
    config = config_of(sources[0]) if len(sources) == 1 else Node(None)
    if config.kind != "JwtAuthentication" or config.get("filter_state_rules"):
        return
    for method, path, routes in _requests(chain):
        exempt = [place for route in routes if (place := _exemption(sources[0], route, method, path))]
        if not chain.routes and not _rules_require(config, method, path):
            exempt.append(config.get("rules"))
        if exempt:
            yield found("authentication-off/rules", exempt[0], request=f"{method} {path}")


def _requests(chain: HttpFilterChain) -> Iterator[tuple[str, str, list[GatewayRoute]]]:
    """Requests that reach memories, with the routes that they may end at."""
    for path in CHAT_PATHS:
        routes = [route for route in chain.matching_routes("POST", path) if route.enabled]
        if routes or (chain.memory and not chain.routes):
            yield "POST", path, routes
    for method in _API_METHODS if chain.api_routes else ():
        yield method, f"{API_PATH}/x", chain.api_routes


def _exemption(entry: Node, route: GatewayRoute, method: str, path: str) -> Node | None:
    """Where the route is exempt from a token; None: it requires one."""
    config, named = config_of(entry), per_route(route.override_for(entry)).get("requirement_name")
    if not route.runs(entry):
        return None  # users_are_authenticated_first reports that
    if named.text:
        requirement = config.entries("requirement_map").get(named.text, Node(None))
        return None if _requires(requirement, config) else named
    return None if _rules_require(config, method, path) else config.get("rules")


def _rules_require(config: Node, method: str, path: str) -> bool:
    rules = list(matching(config.items("rules"), method, path))
    return bool(rules) and all(_requires(_requirement(rule, config), config) for rule in rules)


def _requirement(rule: Node, config: Node) -> Node:
    named = rule.get("requirement_name").text
    return config.entries("requirement_map").get(named, Node(None)) if named else rule.get("requires")


def _requires(requirement: Node, config: Node) -> bool:
    """Whether a request without a token is refused."""
    if alternatives := requirement.get("requires_any"):
        each = alternatives.items("requirements")
        return bool(each) and all(_requires(one, config) for one in each)
    if together := requirement.get("requires_all"):
        return any(_requires(one, config) for one in together.items("requirements"))
    return bool(requirement.get("provider_name").text or requirement.get("provider_and_audiences"))


def keys_are_safe(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """API keys are not the published ones, and name users that the sidecar takes."""
    identity = context.config.memory.identity
    address = chain.listener.get("address", "socket_address", "address")
    is_open = bool(address) and address.text not in {"127.0.0.1", "::1"}
    for entry in (entry for entry in chain.filters if config_of(entry).kind == "ApiKeyAuth"):
        overrides = [per_route(each) for route in chain.routes for each in route.overrides_for(entry)]
        names_user = config_of(entry).get("forwarding", "header").text.lower() == identity.user_header
        for config in (config_of(entry), *overrides):
            credentials = config.items("credentials")
            if is_open and not _DEMO_KEYS.isdisjoint(each.get("key").text for each in credentials):
                yield found("demo-keys", config.get("credentials"))
            for client in (each.get("client") for each in credentials if names_user):
                if client.text != client.text.strip():
                    yield found("user-blank", client)
                elif not is_acceptable_id(client.text, identity):
                    yield found("user-unacceptable", client, chars=identity.max_id_chars)


def blank_ends_are_refused(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """Where ids are not in the file, a filter refuses those with a blank at an end before the management API."""
    header = _user_header(context)
    setter = last_setter(chain, header)
    if setter is None or config_of(setter.node).kind == "ApiKeyAuth":
        return
    behind = chain.filters[setter.index + 1 :]
    if not all(any(_refuses_blank_ends(each, route, header) for each in behind) for route in chain.api_routes):
        severity, name = graded(setter.source is Source.VERIFIED), setter.node.get("name").text
        yield found("blank-ends-accepted", setter.node, severity, name=name, header=header)


def _refuses_blank_ends(entry: Node, route: GatewayRoute, header: str) -> bool:
    """Whether a filter answers 403 to ids with a blank at an end on that route."""
    config, override = config_of(entry), per_route(route.override_for(entry))
    if config.kind != "RBAC" or not route.runs(entry):
        return False
    rules = (override.get("rbac") if override.kind == "RBACPerRoute" else config).get("rules")
    if rules.get("action").choice(("ALLOW", "DENY", "LOG")) != "DENY":
        return False
    policies = [policy for policy in rules.entries("policies").values() if _applies_to_all(policy)]
    matchers = [matcher for policy in policies for matcher in _alternatives(policy.items("permissions"))]
    about_user = [matcher for matcher in matchers if matcher.get("name").text.lower() == header]
    return all(any(_takes(matcher, sample) for matcher in about_user) for sample in _BLANK_ENDS)


def _applies_to_all(policy: Node) -> bool:
    condition = first((policy.get("condition"), policy.get("checked_condition")))
    return not condition and any(principal.get("any").flag for principal in policy.items("principals"))


def _alternatives(permissions: Iterable[Node]) -> Iterator[Node]:
    """The header matchers of which each one alone is enough."""
    for permission in permissions:
        if matcher := permission.get("header"):
            yield matcher
        yield from _alternatives(permission.get("or_rules").items("rules"))


def _takes(matcher: Node, sample: str) -> bool:
    return not matcher.get("invert_match").flag and text_matches(matcher.get("string_match"), sample) is True


def ids_are_not_sent_upstream(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The LLM server may belong to a third party. Routes remove headers after all filters have read them."""
    header = _user_header(context)
    if last_setter(chain, header) is None and not any(each.is_early for each in setters(chain, header)):
        return
    api = {route.node.path for route in chain.api_routes}
    models = {name for route in chain.chat_routes for name in route.clusters}
    for route in chain.routes if chain.memory else ():
        removed = removals(chain, header, route)
        if route.node.path in api and removed:
            yield found("user-removed-on-api", removed[0], header=header)
        elif route.node.path not in api and models & set(route.clusters) and not removed:
            yield found("user-upstream", route.node.get("request_headers_to_remove"), header=header)


def _user_setters(context: CheckContext, chain: HttpFilterChain, route: GatewayRoute | None) -> list[HeaderStep]:
    """The places that tell the sidecar who the user is."""
    return setters(chain, _user_header(context), route, claims=context.config.memory.identity.jwt_claim is not None)


def _user_header(context: CheckContext) -> str:
    return context.config.memory.identity.user_header
