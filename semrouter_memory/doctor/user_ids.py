"""Checks of the user's id on its way: it reaches the management API unchanged, and the LLM server not at all. Pure.

Strategy: HTTP/1.1 strips blanks from the ends of a header, so an id with a blank at an end is another user's at the
management API. Ids in the file are looked at one by one; where they come from elsewhere, a filter must refuse such ids.
"""

from collections.abc import Iterable, Iterator

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import Chain, Route, config_of, switched_off
from semrouter_memory.doctor.claims import OPAQUE, sets
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.identity import removed_late, set_early
from semrouter_memory.doctor.matching import text_matches
from semrouter_memory.doctor.place import At
from semrouter_memory.exchange.identity import is_acceptable_id

_BLANK_ENDS = (" x", "x ", "\tx", "x\t")


def keys_name_acceptable_users(case: Case) -> Iterator[Finding]:
    identity = case.config.memory.identity
    for chain in case.guarded_chains:
        for credential in _credentials(chain, identity.user_header):
            client = str(credential.value("client"))
            if client != client.strip():
                yield error(
                    "user-blank",
                    credential.where("client"),
                    "a blank at an end of the user's id: memory is off for this user, and at the management API, which"
                    " gets the id without the blank, it is another user",
                    "write the id without blanks at its ends",
                )
            elif not is_acceptable_id(client, identity):
                yield error(
                    "user-unacceptable",
                    credential.where("client"),
                    f"memory is off for this user: an id has 1 to {identity.max_id_chars} printable characters",
                    "give the user another id",
                )


def blank_ends_are_refused(case: Case) -> Iterator[Finding]:
    """Where ids are not in the file, a filter refuses those with a blank at an end before the management API."""
    header = case.config.memory.identity.user_header
    for chain in case.guarded_chains:
        setter = _last_setter(chain, header)
        if setter is None:
            continue
        index, entry = setter
        config = config_of(entry)
        if config is not None and config.is_a("ApiKeyAuth"):
            continue  # its ids are in the file
        for route in case.api_routes(chain):
            if not any(_refuses_blank_ends(each, route, header) for each in chain.filters[index + 1 :]):
                make = warning if _is_opaque(config) else error
                yield make(
                    "blank-ends-accepted",
                    entry.path,
                    f"{entry.value('name')} may set {header} to an id with a blank at an end; the management API gets it"
                    " without the blank, which is another user",
                    "put the filter envoy.filters.http.rbac of envoy/jwt.yaml behind it",
                )


def ids_do_not_leave(case: Case) -> Iterator[Finding]:
    """The LLM server may be a third party. Routes remove headers after all filters have read them."""
    header = case.config.memory.identity.user_header
    for chain in case.memory_chains:
        if _last_setter(chain, header) is None and not set_early(chain, header):
            continue
        api = {route.at.path: route for route in case.api_routes(chain)}
        models = {name for route in chain.chat_routes for name in route.clusters}
        for route in chain.routes:
            removed = removed_late(chain, [route], header)
            if route.at.path in api and removed:
                yield error(
                    "user-removed-on-api",
                    removed[0],
                    f"{header} is removed on the way to the management API, which then knows no user",
                    "remove it on the routes that lead to the LLM server alone",
                )
            elif route.at.path not in api and models & set(route.clusters) and not removed:
                yield warning(
                    "user-upstream",
                    route.at.where("request_headers_to_remove"),
                    f"the LLM server is sent {header}: it learns who the user is",
                    f"request_headers_to_remove: [{header}]",
                )


def _credentials(chain: Chain, header: str) -> Iterator[At]:
    for entry in chain.filters:
        config = config_of(entry)
        if config is None or not config.is_a("ApiKeyAuth") or not sets(entry, header):
            continue
        yield from config.all("credentials")
        overrides = [level.opened_map("typed_per_filter_config") for route in chain.routes for level in route.levels]
        for override in (each.get(str(entry.value("name"))) for each in overrides):
            inner = override.opened("config") if override is not None and override.is_a("FilterConfig") else override
            yield from inner.all("credentials") if inner is not None else ()


def _last_setter(chain: Chain, header: str) -> tuple[int, At] | None:
    """The filter whose word on the user counts: one that is known to set it, else the last that may."""
    ours = {each.at.path for each in chain.memory}
    found = [
        (index, entry)
        for index, entry in enumerate(chain.filters)
        if entry.path not in ours and not entry.value("disabled") and sets(entry, header)
    ]
    known = [(index, entry) for index, entry in found if not _is_opaque(config_of(entry))]
    return next(iter((*reversed(known), *reversed(found))), None)


def _is_opaque(config: At | None) -> bool:
    return config is None or config.message is None or config.type.rpartition(".")[2] in OPAQUE


def _refuses_blank_ends(entry: At, route: Route, header: str) -> bool:
    """Whether the filter answers 403 to such ids on that route."""
    override = route.configured(str(entry.value("name")))
    if entry.value("disabled") or switched_off(override):
        return False
    config = config_of(entry)
    if config is None or not config.is_a("RBAC"):
        return False
    if override is not None and override.is_a("RBACPerRoute"):
        config = override.get("rbac")
    rules = config.get("rules") if config is not None else None
    if rules is None or rules.value("action").name != "DENY":
        return False
    policies = [policy for policy in rules.entries("policies") if _is_for_all(policy)]
    matchers = [matcher for policy in policies for matcher in _alternatives(policy.all("permissions"))]
    ours = [matcher for matcher in matchers if str(matcher.value("name")).lower() == header]
    return all(any(_takes(matcher, sample) for matcher in ours) for sample in _BLANK_ENDS)


def _is_for_all(policy: At) -> bool:
    conditions = policy.get("condition") or policy.get("checked_condition")
    return conditions is None and any(principal.value("any") for principal in policy.all("principals"))


def _alternatives(permissions: Iterable[At]) -> Iterator[At]:
    """The header matchers of which each one is enough."""
    for permission in permissions:
        matcher, either = permission.get("header"), permission.get("or_rules")
        if matcher is not None:
            yield matcher
        if either is not None:
            yield from _alternatives(either.all("rules"))


def _takes(matcher: At, sample: str) -> bool:
    return not matcher.value("invert_match") and text_matches(matcher.get("string_match"), sample) is True
