"""Checks of who the user is: that something authenticates first, and that clients cannot say it themselves.

Strategy: only what runs before the memory filters counts. Early header mutations run before every filter, filters run in
their order, and headers that routes, virtual hosts and route configurations remove are removed after all filters.
"""

from collections.abc import Iterable, Iterator, Sequence

from semrouter_memory.config import Config
from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import Chain, Route, config_of, switched_off
from semrouter_memory.doctor.claims import OPAQUE, kept_in
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.matching import text_matches
from semrouter_memory.doctor.place import At
from semrouter_memory.doctor.tokens import tokens_are_asked_for

_DEMO_KEYS = frozenset({"demo-key-alice", "demo-key-bob"})


def clients_cannot_name_themselves(case: Case) -> Iterator[Finding]:
    """The identity header, and the signals of upstream classifiers, are removed before anybody reads them."""
    signals = case.config.memory.signals
    user = case.config.memory.identity.user_header
    for chain in case.guarded_chains:
        early = _early_mutations(chain)
        first = _filter_mutations(chain, before=_first_that_matters(chain, case))
        left = [
            name
            for name in dict.fromkeys((user, signals.fact_header, signals.tool_header))
            if not any(_removes(mutation, name) for mutation in (*early, *first))
        ]
        if left:
            yield _not_removed(chain, left, user)


def _not_removed(chain: Chain, names: Sequence[str], user: str) -> Finding:
    make = error if user in names else warning
    what = "whoever sends it is that user" if user in names else "clients can steer recall with it"
    late = next((place for name in names for place in removed_late(chain, chain.routes, name)), None)
    return make(
        "headers-not-stripped",
        chain.manager.where("early_header_mutation_extensions"),
        f"{', '.join(names)}: not removed from what clients send; where no filter overwrites it, {what}"
        + (f"; removing it in {late} comes after the filters, too late" if late else ""),
        "remove them in early_header_mutation_extensions: " + ", ".join(f"{{remove: {name}}}" for name in names),
    )


def users_are_authenticated_first(case: Case) -> Iterator[Finding]:
    identity = case.config.memory.identity
    if identity.trust_body:
        return
    for chain in case.guarded_chains:
        limit = min((each.index for each in chain.memory), default=len(chain.filters))
        others = [entry for entry in chain.filters if entry.path not in {each.at.path for each in chain.memory}]
        setting = [entry for entry in others if _may_set_user(entry, case.config)]
        if set_early(chain, identity.user_header):
            continue
        if not setting:
            yield _nobody(chain, others, identity.user_header)
        elif chain.filters.index(setting[0]) >= limit:
            yield error(
                "authenticated-too-late",
                setting[0].path,
                f"{setting[0].value('name')} runs behind the memory filters: they see no user, or one that a client sent",
                "put it before the memory filters",
            )


def _nobody(chain: Chain, others: list[At], header: str) -> Finding:
    authenticating = [entry.value("name") for entry in others if _authenticates(config_of(entry))]
    if authenticating:
        return error(
            "user-not-passed-on",
            chain.manager.where("http_filters"),
            f"{', '.join(authenticating)} authenticates but does not set {header}: nobody has memories",
            f"let it set {header} (forwarding.header, claim_to_headers, forward_username_header), or set"
            " memory.identity.user_header to what it sets",
        )
    return error(
        "nobody-authenticates",
        chain.manager.where("http_filters"),
        f"no filter before the memory filters authenticates users and sets {header}",
        "add one, such as api_key_auth in envoy/two-filter.yaml or jwt_authn in envoy/jwt.yaml",
    )


def authentication_covers_memory(case: Case) -> Iterator[Finding]:
    """No route with memories on it is exempt from authentication."""
    for chain in case.guarded_chains:
        setting = [entry for entry in chain.filters if _may_set_user(entry, case.config)]
        routes = [*(route for route in chain.routes if route.remembers), *case.api_routes(chain)]
        for entry in setting:
            for route in {route.place: route for route in routes}.values():
                if len(setting) == 1 and _exempt(route, entry):
                    yield error(
                        "authentication-off",
                        route.place,
                        f"{entry.value('name')} is disabled on route {route.at.value('name')!r}, where memories are",
                        "authenticate there, or disable the memory filters there, too",
                    )
            config = config_of(entry)
            if config is not None and config.is_a("JwtAuthentication") and len(setting) == 1:
                yield from tokens_are_asked_for(case, chain, entry, config)


def demo_keys_are_replaced(case: Case) -> Iterator[Finding]:
    for chain in case.guarded_chains:
        address = chain.listener.descend("address", "socket_address")
        if address is None or address.value("address") in {"127.0.0.1", "::1"}:
            continue
        for entry in chain.filters:
            config = config_of(entry)
            credentials = config.all("credentials") if config is not None and config.is_a("ApiKeyAuth") else []
            if any(credential.value("key") in _DEMO_KEYS for credential in credentials):
                yield warning(
                    "demo-keys",
                    f"{entry.path}.typed_config.credentials",
                    "the keys of the example are published, and this listener is open to others",
                    "make your own: openssl rand -hex 24",
                )


def body_is_not_trusted(case: Case) -> Iterator[Finding]:
    if case.config.memory.identity.trust_body:
        yield warning(
            "trust-body",
            "memory.identity.trust_body",
            "whoever sends a request says which user they are",
            "for development only: leave it out",
        )


def _early_mutations(chain: Chain) -> list[At]:
    extensions = chain.manager.all("early_header_mutation_extensions")
    configs = [config for entry in extensions if (config := entry.opened("typed_config")) is not None]
    return [mutation for config in configs if config.is_a("HeaderMutation") for mutation in config.all("mutations")]


def _filter_mutations(chain: Chain, *, before: int) -> list[At]:
    """What header_mutation filters in front do; they run in their place among the filters."""
    configs = [config for entry in chain.filters[:before] if (config := config_of(entry)) is not None]
    found = [config.get("mutations") for config in configs if config.is_a("HeaderMutation")]
    return [mutation for at in found if at is not None for mutation in at.all("request_mutations")]


def _first_that_matters(chain: Chain, case: Case) -> int:
    """The first filter that reads the user or sets it; mutations may remove it before they set it."""
    reads = [each.index for each in chain.memory]
    sets = [
        index
        for index, entry in enumerate(chain.filters)
        if _may_set_user(entry, case.config) and not _is_mutation(config_of(entry))
    ]
    return min((*reads, *sets), default=len(chain.filters))


def _is_mutation(config: At | None) -> bool:
    return config is not None and config.is_a("HeaderMutation")


def _removes(mutation: At, name: str) -> bool:
    removed = mutation.value("remove")
    if removed is not None:
        return str(removed).lower() == name
    on_match = mutation.get("remove_on_match")
    return on_match is not None and text_matches(on_match.get("key_matcher"), name) is True


def removed_late(chain: Chain, routes: Iterable[Route], name: str) -> list[str]:
    """Where the header is removed after the memory filters, on these routes; the least specific place first."""
    places: dict[str, None] = {}
    for route in routes:
        for level in route.levels:
            if name in {str(header).lower() for header in level.value("request_headers_to_remove")}:
                places[level.where("request_headers_to_remove")] = None
    behind = _filter_mutations(chain, before=len(chain.filters))
    for mutation in behind:
        if _removes(mutation, name):
            places[mutation.path] = None
    return list(places)


def set_early(chain: Chain, header: str) -> bool:
    """From a client certificate, for example."""
    return bool(kept_in(_early_mutations(chain), header))


def _authenticates(config: At | None) -> bool:
    return config is not None and config.type.rpartition(".")[2] in {"ApiKeyAuth", "JwtAuthentication", "BasicAuth"}


def _may_set_user(entry: At, config: Config) -> bool:
    """Whether the filter sets the user, as far as its configuration tells; what cannot be told may."""
    filtered, identity = config_of(entry), config.memory.identity
    if filtered is None:
        return entry.get("config_discovery") is not None
    name = filtered.type.rpartition(".")[2]
    if filtered.message is None or name in OPAQUE:
        return "memory" not in entry.value("name")
    if name == "ApiKeyAuth":
        forwarding = filtered.get("forwarding")
        return forwarding is not None and forwarding.value("header").lower() == identity.user_header
    if name == "BasicAuth":
        return str(filtered.value("forward_username_header")).lower() == identity.user_header
    if name == "JwtAuthentication":
        return any(_provides(provider, config) for provider in filtered.entries("providers"))
    mutations = filtered.get("mutations") if name == "HeaderMutation" else None
    return mutations is not None and bool(kept_in(mutations.all("request_mutations"), identity.user_header))


def _provides(provider: At, config: Config) -> bool:
    identity = config.memory.identity
    headers = {claim.value("header_name").lower() for claim in provider.all("claim_to_headers")}
    in_metadata = identity.jwt_claim is not None and bool(provider.value("payload_in_metadata"))
    return identity.user_header in headers or in_metadata


def _exempt(route: Route, entry: At) -> bool:
    override = route.configured(entry.value("name"))
    inner = override.opened("config") if override is not None and override.is_a("FilterConfig") else None
    return switched_off(override) or switched_off(inner) or (override is None and bool(entry.value("disabled")))
