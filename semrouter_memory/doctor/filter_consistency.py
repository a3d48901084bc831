"""Checks of what the memory filters must have in common: their settings, the routes they are on, and the secret."""

from collections.abc import Iterator, Mapping, Sequence

from semrouter_memory.codec.settings import ROUTE, ROUTE_PREFIX, Governs, governed_by
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.filter_chains import AppliedFilter, GatewayRoute
from semrouter_memory.doctor.finding import Finding, found
from semrouter_memory.doctor.node import Node
from semrouter_memory.exchange.policy import route_settings

_NAMESPACE = "semrouter.memory"
"""The namespace of the sidecar's dynamic metadata."""
_OFF = {Governs.READING: "nothing is recalled", Governs.WRITING: "nothing is stored"}


def filters_send_the_same(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        yield from _differences(chain.base, chain.manager.get("http_filters"), "")
        clusters = sorted({each.cluster for each in chain.base if each.cluster})
        if len(clusters) > 1:
            yield found("clusters-differ", chain.manager.get("http_filters"), clusters=", ".join(clusters))
        for route in chain.routes:
            # What already differs without the route is reported once.
            if _is_overridden(route) and _differing(route.applied) != _differing(chain.base):
                working = [each for each in route.applied if each.enabled]
                yield from _differences(working, route.place, f" on route {route.name!r}")


def _differences(applied: Sequence[AppliedFilter], place: Node, on: str) -> Iterator[Finding]:
    if different := _differing(applied):
        names = " and ".join(each.name for each in applied)
        yield found("filters-differ", place, names=names, on=on, settings=", ".join(different))


def _differing(applied: Sequence[AppliedFilter]) -> list[str]:
    names = {name for each in applied for name in each.metadata}
    return sorted(name for name in names if len({each.metadata.get(name) for each in applied}) > 1)


def filters_are_on_together(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        yield from _half_on(chain.base, chain.manager.get("http_filters"), "")
        for route in chain.routes:
            if _is_overridden(route):
                yield from _half_on(route.applied, route.place, f" on route {route.name!r}")


def _half_on(applied: Sequence[AppliedFilter], place: Node, on: str) -> Iterator[Finding]:
    off = ", ".join(each.name for each in applied if not each.enabled)
    enabled = ", ".join(each.name for each in applied if each.enabled)
    if off and enabled:
        yield found("one-filter-disabled", place, off=off, on=on, enabled=enabled)


def _is_overridden(route: GatewayRoute) -> bool:
    return any(each.overrides for each in route.applied)


def settings_are_known(context: CheckContext) -> Iterator[Finding]:
    secret = context.config.server.secret_header
    for each in context.applied:
        known = {name: value for name, value in each.metadata.items() if name in ROUTE}
        unknown = [name for name in each.metadata if name.startswith(ROUTE_PREFIX) and name not in {*known, secret}]
        for name in [*unknown, *route_settings(known).unreadable]:
            code = "setting-unknown" if name in unknown else "setting-value"
            off = _OFF.get(governed_by([name]), "nothing is recalled or stored")
            place = each.service.get("initial_metadata")
            yield found(code, place, name=name, off=off, settings=", ".join(sorted(ROUTE)))


def secret_is_sent(context: CheckContext) -> Iterator[Finding]:
    """Where the sidecar asks for a secret, the memory filters and the route to its API must send it."""
    for chain in context.memory_chains:
        for each in chain.base:
            yield from _secret(context, each.metadata, each.name, each.service.get("initial_metadata"))
    for chain in context.chains:
        for route in context.api_routes(chain):
            added = [header.get("header") for level in route.levels for header in level.items("request_headers_to_add")]
            sent = {header.get("key").text.lower(): header.get("value").text for header in added}
            yield from _secret(context, sent, "the route to /v1/memory", route.node.get("request_headers_to_add"))


def _secret(context: CheckContext, sent: Mapping[str, str], sender: str, place: Node) -> Iterator[Finding]:
    header = context.config.server.secret_header
    value = sent.get(header, "")
    if context.secret is not None and header not in sent:
        yield found("secret-not-sent", place, sender=sender, header=header)
    elif context.secret is not None and "%" not in value and value != context.secret:
        yield found("secret-wrong", place, sender=sender, header=header)


def claim_metadata_is_forwarded(context: CheckContext) -> Iterator[Finding]:
    """A claim is read from dynamic metadata, which Envoy forwards only where the filter says so."""
    identity = context.config.memory.identity
    for each in context.applied if identity.jwt_claim is not None else ():
        if identity.jwt_namespace not in each.namespaces:
            place = each.filter.config.get("metadata_options")
            yield found("jwt-metadata-not-forwarded", place, name=each.name, namespace=identity.jwt_namespace)


def results_are_received(context: CheckContext) -> Iterator[Finding]:
    """Response headers show the sidecar's dynamic metadata, which Envoy takes only where the filter says so."""
    for chain in context.memory_chains:
        shown = [header for route in chain.chat_routes for header in _result_headers(route)]
        options = [each.config.get("metadata_options") for each in chain.handling]
        received = {name for option in options for name in option.get("receiving_namespaces").texts("untyped")}
        if shown and options and _NAMESPACE not in received:
            name = chain.handling[0].name
            yield found("results-not-received", options[0], header=shown[0].path, name=name, namespace=_NAMESPACE)


def _result_headers(route: GatewayRoute) -> Iterator[Node]:
    for level in route.levels:
        for option in level.items("response_headers_to_add"):
            if f"DYNAMIC_METADATA({_NAMESPACE}:" in option.get("header", "value").text:
                yield option
