"""Checks of the user's identity: it is authenticated first, a client cannot claim it, and it goes where it belongs. Pure.

Strategy: only what runs before the memory filters protects them. Early header mutations run before every filter, filters
run in their order, and headers that routes, virtual hosts and route configurations remove are removed after all filters.
HTTP/1.1 strips blanks from the ends of a header, so an id with a blank at an end is another user's at the management API:
ids in the file are checked one by one, and where they come from elsewhere, a filter must refuse such ids.
"""

from collections.abc import Iterable, Iterator

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.filter_chains import GatewayRoute, HttpFilterChain, config_of, per_route
from semrouter_memory.doctor.finding import Finding, found, graded
from semrouter_memory.doctor.jwt_rules import tokens_are_required
from semrouter_memory.doctor.matching import text_matches
from semrouter_memory.doctor.node import Node, first
from semrouter_memory.doctor.user_source import (
    AUTHENTICATORS,
    HeaderSetter,
    Source,
    early_mutations,
    filter_mutations,
    is_from_client,
    last_setter,
    removes,
    setters,
)
from semrouter_memory.exchange.identity import is_acceptable_id

_DEMO_KEYS = frozenset({"demo-key-alice", "demo-key-bob"})
_BLANK_ENDS = (" x", "x ", "\tx", "x\t")


def clients_cannot_claim_identity(context: CheckContext) -> Iterator[Finding]:
    """The identity header, and the signals of upstream classifiers, are removed before a filter reads them."""
    signals, user = context.config.memory.signals, _user_header(context)
    for chain in context.guarded_chains:
        verifying = [each.index for each in _user_setters(context, chain) if each.source is not Source.MUTATION]
        in_front = chain.filters[: min((chain.first_memory, *verifying))]
        mutations = [*early_mutations(chain), *(mutation for entry in in_front for mutation in filter_mutations(entry))]
        headers = dict.fromkeys((user, signals.fact_header, signals.tool_header))
        left = [name for name in headers if not any(removes(mutation, name) for mutation in mutations)]
        if left:
            late = next((place.path for name in left for place in _removed_late(chain, chain.routes, name)), None)
            yield found(
                "headers-not-stripped",
                chain.manager.get("early_header_mutation_extensions"),
                graded(user in left),
                headers=", ".join(left),
                effect="a client that sends it is that user" if user in left else "clients can steer recall with it",
                late=f"; removing it in {late} comes after the filters, too late" if late else "",
                mutations=", ".join(f"{{remove: {name}}}" for name in left),
            )


def users_are_authenticated_first(context: CheckContext) -> Iterator[Finding]:
    for chain in context.guarded_chains if not context.config.memory.identity.trust_body else ():
        sources = _user_setters(context, chain)
        if any(each.is_early for each in sources):
            continue
        if not sources:
            yield _unauthenticated(context, chain)
        elif sources[0].index >= chain.first_memory:
            entry = chain.filters[sources[0].index]
            yield found("authenticated-too-late", entry, name=entry.get("name").text)


def _unauthenticated(context: CheckContext, chain: HttpFilterChain) -> Finding:
    names = [entry.get("name").text for _, entry in chain.others if config_of(entry).kind in AUTHENTICATORS]
    code = "user-not-passed-on" if names else "nobody-authenticates"
    return found(code, chain.manager.get("http_filters"), names=", ".join(names), header=_user_header(context))


def users_come_from_a_verified_source(context: CheckContext) -> Iterator[Finding]:
    """A header that a client sends does not tell who it is, whichever header it is copied to."""
    header = _user_header(context)
    for chain in context.guarded_chains:
        sources = setters(chain, header)
        verified = [
            each.index for each in sources if each.source is Source.VERIFIED and each.index < chain.first_memory
        ]
        for each in sources:
            overwritten = any(index > each.index for index in verified)
            if each.source is Source.MUTATION and each.index < chain.first_memory and not overwritten:
                yield from _judged(chain, each, header)
        for node in _added_for_the_api(context, chain, header):
            yield from _judged(chain, HeaderSetter(Source.MUTATION, node, len(chain.filters)), header)


def _added_for_the_api(context: CheckContext, chain: HttpFilterChain, header: str) -> Iterator[Node]:
    """The management API gets the value that its routes add after all filters."""
    for level in (level for route in context.api_routes(chain) for level in route.levels):
        headers = [option.get("header") for option in level.items("request_headers_to_add")]
        yield from (each for each in headers if each.get("key").text.lower() == header)


def _judged(chain: HttpFilterChain, setter: HeaderSetter, header: str) -> Iterator[Finding]:
    if is_from_client(chain, setter):
        yield found("user-from-client", setter.node.get("value"), header=header)
    elif setter.is_constant:
        yield found("user-constant", setter.node.get("value"), header=header)


def authentication_covers_memory(context: CheckContext) -> Iterator[Finding]:
    """No route with memories on it is exempt from the only authentication."""
    for chain in context.guarded_chains:
        sources = {each.index for each in _user_setters(context, chain) if not each.is_early}
        if len(sources) != 1:
            continue
        entry = chain.filters[sources.pop()]
        routes = [*(route for route in chain.routes if route.has_memory), *context.api_routes(chain)]
        for route in {route.place.path: route for route in routes}.values():
            if not route.runs(entry):
                yield found("authentication-off", route.place, name=entry.get("name").text, route=repr(route.name))
        if config_of(entry).kind == "JwtAuthentication":
            yield from tokens_are_required(context, chain, entry)


def demo_keys_are_replaced(context: CheckContext) -> Iterator[Finding]:
    for chain in context.guarded_chains:
        address = chain.listener.get("address", "socket_address", "address")
        for config in (config_of(entry) for entry in chain.filters):
            keys = (
                {each.get("key").text for each in config.items("credentials")} if config.kind == "ApiKeyAuth" else set()
            )
            if address and address.text not in {"127.0.0.1", "::1"} and keys & _DEMO_KEYS:
                yield found("demo-keys", config.get("credentials"))


def keys_name_acceptable_users(context: CheckContext) -> Iterator[Finding]:
    identity = context.config.memory.identity
    for chain in context.guarded_chains:
        for client in (each.get("client") for each in _credentials(chain, identity.user_header)):
            if client.text != client.text.strip():
                yield found("user-blank", client)
            elif not is_acceptable_id(client.text, identity):
                yield found("user-unacceptable", client, chars=identity.max_id_chars)


def _credentials(chain: HttpFilterChain, header: str) -> Iterator[Node]:
    for each in setters(chain, header):
        if config_of(each.node).kind == "ApiKeyAuth":
            yield from config_of(each.node).items("credentials")
            for level in chain.levels:
                overrides = level.entries("typed_per_filter_config")
                override = overrides.get(each.node.get("name").text, Node(None))
                yield from per_route(override).items("credentials")


def blank_ends_are_refused(context: CheckContext) -> Iterator[Finding]:
    """Where ids are not in the file, a filter refuses those with a blank at an end before the management API."""
    header = _user_header(context)
    for chain in context.guarded_chains:
        setter = last_setter(chain, header)
        if setter is None or config_of(setter.node).kind == "ApiKeyAuth":
            continue
        behind = chain.filters[setter.index + 1 :]
        if any(not _is_guarded(behind, route, header) for route in context.api_routes(chain)):
            severity, name = graded(setter.source is Source.VERIFIED), setter.node.get("name").text
            yield found("blank-ends-accepted", setter.node, severity, name=name, header=header)


def _is_guarded(filters: Iterable[Node], route: GatewayRoute, header: str) -> bool:
    """Whether one of the filters answers 403 to ids with a blank at an end on that route."""
    return any(_refuses_blank_ends(entry, route, header) for entry in filters)


def _refuses_blank_ends(entry: Node, route: GatewayRoute, header: str) -> bool:
    config, override = config_of(entry), route.override_for(entry)
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


def ids_are_not_sent_upstream(context: CheckContext) -> Iterator[Finding]:
    """The LLM server may belong to a third party. Routes remove headers after all filters have read them."""
    header = _user_header(context)
    for chain in context.memory_chains:
        if last_setter(chain, header) is None and not any(each.is_early for each in setters(chain, header)):
            continue
        api = {route.node.path for route in context.api_routes(chain)}
        models = {name for route in chain.chat_routes for name in route.clusters}
        for route in chain.routes:
            removed = _removed_late(chain, [route], header)
            if route.node.path in api and removed:
                yield found("user-removed-on-api", removed[0], header=header)
            elif route.node.path not in api and models & set(route.clusters) and not removed:
                yield found("user-upstream", route.node.get("request_headers_to_remove"), header=header)


def _removed_late(chain: HttpFilterChain, routes: Iterable[GatewayRoute], header: str) -> list[Node]:
    """Where the header is removed after the memory filters, on these routes; the least specific level first."""
    places = [
        level.get("request_headers_to_remove")
        for route in routes
        for level in route.levels
        if header in {name.lower() for name in level.texts("request_headers_to_remove")}
    ]
    mutations = [mutation for entry in chain.filters for mutation in filter_mutations(entry)]
    return [*places, *(mutation for mutation in mutations if removes(mutation, header))]


def _user_setters(context: CheckContext, chain: HttpFilterChain) -> list[HeaderSetter]:
    """The places that tell the sidecar who the user is."""
    return setters(chain, _user_header(context), claims=context.config.memory.identity.jwt_claim is not None)


def _user_header(context: CheckContext) -> str:
    return context.config.memory.identity.user_header
