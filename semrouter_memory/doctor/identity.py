"""Checks of the user's identity: it is authenticated first, a client cannot claim it, and it goes where it belongs. Pure.

Strategy: the way of the identity header through the filter chain is followed on each route with memories: where it is removed
and set, in their order, and from what. Early header mutations run before every filter, filters in their order, each where the
route enables it. The configuration of an authenticating filter tells whether it sets the header. The value of a header mutation
has command operators; one that repeats a part of the request is the client's claim, unless a filter in front sets that part. A
filter whose configuration does not tell counts as one that verifies the user.

Only what runs before the memory filters protects them; headers that routes, virtual hosts and route configurations remove are
removed after all filters. HTTP/1.1
strips blanks from the ends of a header, so an id with a blank at an end is another user's at the management API: ids in the
file are checked one by one, and where they come from elsewhere, a filter must refuse such ids.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import Finding, found, graded
from semrouter_memory.doctor.gateway import API_PATH, GatewayRoute, HttpFilter, HttpFilterChain
from semrouter_memory.doctor.node import Node, matching, rbac_refuses, text_matches
from semrouter_memory.exchange.identity import is_acceptable_id

_AUTHENTICATORS = frozenset({"ApiKeyAuth", "JwtAuthentication", "BasicAuth", "ExtAuthz"})
_DEMO_KEYS = frozenset({"demo-key-alice", "demo-key-bob"})
_BLANK_ENDS = (" x", "x ", "\tx", "x\t")
_API_METHODS = ("GET", "POST", "PATCH", "DELETE")
_OPAQUE = frozenset({"ExtAuthz", "Lua", "Wasm", "DynamicModuleFilter", "ExternalProcessor", "Composite"})
"""Filters of which the configuration does not tell what headers they set; the Go filter's is named as others' are."""
_GO = "envoy.extensions.filters.http.golang."
_HEADER = re.compile(r"%(?:REQ|REQ_WITHOUT_QUERY|REQUEST_HEADER)\(([^):]*:?[^)]*)\)")
"""An operator that repeats request headers: `%REQ(first?second):length%`."""
_FROM_REQUEST = re.compile(
    r"%(?:PATH|QUERY_PARAMS?|COOKIE|REQUESTED_SERVER_NAME)\b"
    r"|%CEL\([^%]*\brequest\.(?:headers|path|url_path|query|host)\b"
)
_OPERATOR = re.compile(r"%[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?::[0-9]+)?%")
_SET_BY_ENVOY = "x-forwarded-client-cert"
"""Envoy writes it itself, after it verified the certificate."""
EARLY = -1


# -- the way of a header -------------------------------------------------------------------------------------------------


class Source(Enum):
    VERIFIED = auto()
    """An authenticating filter."""
    CLAIM = auto()
    """An authenticating filter that keeps a token's claims as dynamic metadata, which no header mutation removes."""
    MUTATION = auto()
    """A header mutation."""
    OPAQUE = auto()
    """A filter that may set the header."""
    REMOVAL = auto()
    """A header mutation that removes it."""


@dataclass(frozen=True, slots=True)
class HeaderStep:
    """A place that sets or removes a header.

    Attributes:
        node: the filter; of a mutation, the header with its value, or the removal.
        index: of the filter; EARLY for mutations that run before all filters.
    """

    source: Source
    node: Node
    index: int

    @property
    def value(self) -> str:
        """A mutation's value with its operators; a doubled percent sign is text."""
        return self.node.get("value").text.replace("%%", "")

    @property
    def is_constant(self) -> bool:
        return bool(self.value) and not _OPERATOR.search(self.value)


def steps(chain: HttpFilterChain, header: str, route: GatewayRoute, *, claims: bool = False) -> list[HeaderStep]:
    """All steps of a header in their order.

    Args:
        claims: a token's claims in dynamic metadata count as a header that is set.
    """
    extensions = [entry.get("typed_config") for entry in chain.manager.items("early_header_mutation_extensions")]
    early = [mutation for config in extensions for mutation in config.items("mutations")]
    found = [*_mutated(early, header, EARLY)]
    for each in route.filters:
        if each.is_enabled and not each.role:
            found += _in_filter(each, header, claims=claims)
    return found


def _in_filter(each: HttpFilter, header: str, *, claims: bool) -> Iterator[HeaderStep]:
    config, entry, index = each.config, each.entry, each.index
    if _is_opaque(each, header):
        if "memory" not in each.name:
            yield HeaderStep(Source.OPAQUE, entry, index)
    elif config.kind == "HeaderMutation":
        # A route's own mutations follow the filter's, the most specific level's first.
        mutations = [part.get("mutations").items("request_mutations") for part in (config, *each.overrides)]
        yield from _mutated([mutation for part in mutations for mutation in part], header, index)
    elif claims and any(provider.get("payload_in_metadata").text for provider in _providers(config)):
        yield HeaderStep(Source.CLAIM, entry, index)
    elif header in _forwarded_to(config):
        yield HeaderStep(Source.VERIFIED, entry, index)


def setters(chain: HttpFilterChain, header: str, route: GatewayRoute, *, claims: bool = False) -> list[HeaderStep]:
    """The steps that set a header, without those that a removal in front of the memory filters undoes."""
    found: list[HeaderStep] = []
    for step in steps(chain, header, route, claims=claims):
        if step.source is not Source.REMOVAL:
            found.append(step)
        elif step.index < chain.first_memory:
            found = [each for each in found if each.source is Source.CLAIM]
    return found


def _is_opaque(each: HttpFilter, header: str) -> bool:
    """Whether it may set the header, as far as its configuration tells."""
    config = each.config
    if not config:
        return bool(each.entry.get("config_discovery"))
    if service := config.get("http_service"):
        # Of an authorisation server's answer nothing gets into the request but what is listed here.
        answer = service.get("authorization_response")
        lists = [answer.get(f"allowed_upstream_headers{suffix}") for suffix in ("", "_to_append")]
        return any(text_matches(pattern, header) is not False for each in lists for pattern in each.items("patterns"))
    return config.kind in _OPAQUE or config.type.startswith(_GO) or not config.type.startswith("envoy.")


def _forwarded_to(config: Node) -> set[str]:
    """The headers in which an authenticating filter passes on who was authenticated."""
    if config.kind == "ApiKeyAuth":
        return {config.get("forwarding", "header").text.lower()}
    if config.kind == "BasicAuth":
        return {config.get("forward_username_header").text.lower()}
    claims = [claim for provider in _providers(config) for claim in provider.items("claim_to_headers")]
    return {claim.get("header_name").text.lower() for claim in claims}


def _providers(config: Node) -> Sequence[Node]:
    return [*config.entries("providers").values()] if config.kind == "JwtAuthentication" else []


def is_from_client(chain: HttpFilterChain, step: HeaderStep, route: GatewayRoute) -> bool:
    """Whether a mutation's value repeats what the client sends."""

    def is_trusted(name: str) -> bool:
        before = (each for each in setters(chain, name, route) if each.index < step.index)
        return name == _SET_BY_ENVOY or any(each.source is not Source.MUTATION for each in before)

    read = [name.strip().lower() for found in _HEADER.findall(step.value) for name in found.split("?")]
    return bool(_FROM_REQUEST.search(step.value)) or not all(is_trusted(name) for name in read)


def last_setter(chain: HttpFilterChain, header: str) -> HeaderStep | None:
    """The filter whose value is the user: the last one that is known to verify it, else the last that may."""
    found = [each for each in setters(chain, header, chain.bare) if each.source in (Source.VERIFIED, Source.OPAQUE)]
    return max(found, key=lambda each: (each.source is Source.VERIFIED, each.index), default=None)


def removals(chain: HttpFilterChain, header: str, route: GatewayRoute) -> list[Node]:
    """Where the header is removed after it was set, on its way to the upstream; the route's least specific level first."""
    places = [
        level.get("request_headers_to_remove")
        for level in route.levels
        if header in {name.lower() for name in level.texts("request_headers_to_remove")}
    ]
    found = steps(chain, header, route)
    last = max((position for position, step in enumerate(found) if step.source is not Source.REMOVAL), default=-1)
    return [*places, *(step.node for step in found[last + 1 :])]


def _mutated(mutations: Sequence[Node], header: str, index: int) -> Iterator[HeaderStep]:
    for mutation in mutations:
        added, removed = mutation.get("append", "header"), mutation.get("remove").text.lower()
        if removed == header or text_matches(mutation.get("remove_on_match", "key_matcher"), header):
            yield HeaderStep(Source.REMOVAL, mutation, index)
        elif added.get("key").text.lower() == header:
            yield HeaderStep(Source.MUTATION, added, index)


# -- the checks --------------------------------------------------------------------------------------------------------


def clients_cannot_claim_identity(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The identity headers, and the signals of upstream classifiers, are removed before a filter reads them."""
    memory = context.config.memory
    signals, user, others = memory.signals, context.user_header, memory.identity.other_headers
    headers = dict.fromkeys((user, *others, signals.fact_header, signals.tool_header))
    routes = _guarded(chain)
    left = [name for name in headers if not all(_is_stripped(context, chain, name, route) for route in routes)]
    if left:
        places = [place for name in left for route in routes for place in removals(chain, name, route)]
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


def _is_stripped(context: CheckContext, chain: HttpFilterChain, header: str, route: GatewayRoute) -> bool:
    """Whether a header is removed before an authenticating or a memory filter reads it."""
    users = steps(chain, context.user_header, route, claims=context.reads_claims)
    verifying = [each.index for each in users if each.source in (Source.VERIFIED, Source.CLAIM, Source.OPAQUE)]
    reader = min((chain.first_memory, *verifying))
    return any(each.source is Source.REMOVAL and each.index < reader for each in steps(chain, header, route))


def _guarded(chain: HttpFilterChain) -> Sequence[GatewayRoute]:
    """The routes with memories."""
    routes = [*(route for route in chain.routes if route.enabled), *chain.api_routes]
    return list({route.path: route for route in routes}.values()) or [chain.bare]


def users_are_authenticated_first(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """On no route do memories work without the authentication."""
    configured = _user_setters(context, chain, chain.bare)
    authenticating = [each for each in chain.filters if each.is_enabled and each.config.kind in _AUTHENTICATORS]
    for route in _guarded(chain):
        sources = _user_setters(context, chain, route)
        if sources and sources[0].index >= chain.first_memory:
            late = chain.filters[sources[0].index]
            yield found("authenticated-too-late", late.entry, name=late.name)
        elif not sources and configured:
            names = " and ".join(chain.filters[each.index].name for each in configured)
            yield found("authentication-off", route.node, name=names, route=repr(route.name))
        elif not sources and not context.config.memory.identity.trust_body:
            names = ", ".join(each.name for each in authenticating)
            code = "user-not-passed-on" if authenticating else "not-authenticated"
            yield found(code, chain.bare.node, names=names, header=context.user_header)


def users_come_from_a_verified_source(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A header that a client sends does not tell who it is, whichever header it is copied to."""
    for route in _guarded(chain):
        for header in (context.user_header, *context.config.memory.identity.other_headers):
            yield from _set_from_clients(chain, route, header, is_user=header == context.user_header)


def _set_from_clients(chain: HttpFilterChain, route: GatewayRoute, header: str, *, is_user: bool) -> Iterator[Finding]:
    sources = [each for each in setters(chain, header, route) if each.index < chain.first_memory]
    verified = max((each.index for each in sources if each.source is Source.VERIFIED), default=-1)
    mutations = [each for each in sources if each.source is Source.MUTATION and each.index >= verified]
    if route in chain.api_routes:
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
    sources = [chain.filters[each.index] for each in _user_setters(context, chain, chain.bare) if each.index != EARLY]
    config = sources[0].config if len(sources) == 1 else Node(None)
    if config.kind != "JwtAuthentication" or config.get("filter_state_rules"):
        return
    for method, path, routes in _requests(chain):
        exempt = [place for route in routes if (place := _exemption(route.filters[sources[0].index], method, path))]
        if not chain.routes and not _rules_require(config, method, path):
            exempt.append(config.get("rules"))
        if exempt:
            yield found("authentication-off/rules", exempt[0], request=f"{method} {path}")


def _requests(chain: HttpFilterChain) -> Iterator[tuple[str, str, list[GatewayRoute]]]:
    """Requests that reach memories, with the routes that they may end at."""
    for path in chain.chat_paths:
        routes = [route for route in chain.matching_routes("POST", path) if route.enabled]
        if routes or (chain.memory and not chain.routes):
            yield "POST", path, routes
    for method in _API_METHODS if chain.api_routes else ():
        yield method, f"{API_PATH}/x", chain.api_routes


def _exemption(verifying: HttpFilter, method: str, path: str) -> Node | None:
    """Where a route is exempt from a token; None: it requires one."""
    config, named = verifying.config, verifying.override.get("requirement_name")
    if not verifying.is_enabled:
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
    for keys in (each for each in chain.filters if each.config.kind == "ApiKeyAuth"):
        overrides = [override for route in chain.routes for override in route.filters[keys.index].overrides]
        names_user = keys.config.get("forwarding", "header").text.lower() == identity.user_header
        for config in (keys.config, *overrides):
            credentials = config.items("credentials")
            if is_open and not _DEMO_KEYS.isdisjoint(each.get("key").text for each in credentials):
                yield found("demo-keys", config.get("credentials"))
            for client in (each.get("client") for each in credentials if names_user):
                if client.text != client.text.strip():
                    yield found("user-blank", client)
                elif not is_acceptable_id(client.text, identity):
                    yield found("user-unacceptable", client, chars=identity.max_id_chars)


def blank_ends_are_refused(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """Where ids are not in the file, a filter refuses those with a blank at an end before the management API.

    A user's id has to come from somewhere; an organisation's or an agent's need not, and counts where it is known to be set.
    """
    for header in (context.user_header, *context.config.memory.identity.other_headers):
        setter = last_setter(chain, header)
        if setter is None or chain.filters[setter.index].config.kind == "ApiKeyAuth":
            continue
        if header != context.user_header and setter.source is not Source.VERIFIED:
            continue
        behind = [route.filters[setter.index + 1 :] for route in chain.api_routes]
        if not all(any(_refuses_blank_ends(each, header) for each in filters) for filters in behind):
            severity, name = graded(setter.source is Source.VERIFIED), setter.node.get("name").text
            yield found("blank-ends-accepted", setter.node, severity, name=name, header=header)


def _refuses_blank_ends(on: HttpFilter, header: str) -> bool:
    """Whether a filter answers 403 to ids with a blank at an end."""
    if on.config.kind != "RBAC" or not on.is_enabled:
        return False
    rules = (on.override.get("rbac") if on.override.kind == "RBACPerRoute" else on.config).get("rules")
    return all(rbac_refuses(rules, header, value) for value in _BLANK_ENDS)


def ids_are_not_sent_upstream(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The LLM server may belong to a third party. Routes remove headers after all filters have read them."""
    header = context.user_header
    if last_setter(chain, header) is None and not any(
        each.index == EARLY for each in setters(chain, header, chain.bare)
    ):
        return
    api, chats = {route.path for route in chain.api_routes}, {route.path for route in chain.chat_routes}
    models = {name for route in chain.chat_routes for name in route.clusters}
    for route in chain.routes if chain.memory else ():
        removed = removals(chain, header, route)
        if route.path in api and removed and setters(chain, header, route):
            yield found("user-removed-on-api", removed[0], header=header)
        elif route.path not in api and _calls_a_model(route, chats, models) and not removed:
            yield found("user-upstream", route.node.get("request_headers_to_remove"), header=header)


def _calls_a_model(route: GatewayRoute, chats: set[str], models: set[str]) -> bool:
    """A chat may also name its cluster in a header."""
    return bool(route.action) and (route.path in chats or not models.isdisjoint(route.clusters))


def _user_setters(context: CheckContext, chain: HttpFilterChain, route: GatewayRoute) -> list[HeaderStep]:
    """The places that tell the sidecar who the user is."""
    return setters(chain, context.user_header, route, claims=context.reads_claims)
