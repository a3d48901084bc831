"""Checks of what both filters must have in common: their settings, the routes they are on, and the secret."""

from collections.abc import Iterator, Mapping

from semrouter_memory.codec.settings import ROUTE, ROUTE_PREFIX, Governs, governed_by
from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import Applied, Role, Route, cluster_named
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.place import At
from semrouter_memory.exchange.policy import route_settings

NAMESPACE = "semrouter.memory"
"""Under which the sidecar tells what it did."""

_OFF = {Governs.READING: "nothing is recalled", Governs.WRITING: "nothing is stored"}


def filters_agree(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        yield from _differences(chain.base, chain.manager.where("http_filters"), "")
        told = _differing(chain.base)
        for route in chain.routes:
            # What already differs without the route is said once.
            if any(each.override for each in route.applied) and _differing(route.applied) != told:
                yield from _differences(route.applied, route.place, f" on route {route.at.value('name')!r}")


def _differences(applied: tuple[Applied, ...], where: str, on: str) -> Iterator[Finding]:
    working = [each for each in applied if each.enabled or not on]
    different = _differing(tuple(working))
    if different:
        names = " and ".join(each.filter.name for each in working)
        yield error(
            "filters-differ",
            where,
            f"{names} send different initial_metadata{on} ({', '.join(different)}): what one does, the other does not"
            " know of",
            "give both the same grpc_service (a YAML anchor does) and the same overrides",
        )
    clusters = {name for each in working if (name := cluster_named(each.service))}
    if len(clusters) > 1 and not on:
        yield warning(
            "clusters-differ",
            where,
            f"the memory filters call different clusters ({', '.join(sorted(clusters))})",
            "let both call the same",
        )


def _differing(applied: tuple[Applied, ...]) -> list[str]:
    if not applied:
        return []
    names = {name for each in applied for name in each.metadata}
    return sorted(name for name in names if len({each.metadata.get(name) for each in applied}) > 1)


def filters_are_on_together(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        if len(chain.memory) > 1 and len({each.enabled for each in chain.base}) > 1:
            yield _half_on(chain.base, chain.manager.where("http_filters"), "")
        for route in chain.routes:
            overridden = any(each.override for each in route.applied)
            if overridden and len({each.enabled for each in route.applied}) > 1:
                yield _half_on(route.applied, route.place, f" on route {route.at.value('name')!r}")


def _half_on(applied: tuple[Applied, ...], where: str, on: str) -> Finding:
    off = ", ".join(each.filter.name for each in applied if not each.enabled)
    works = ", ".join(each.filter.name for each in applied if each.enabled)
    return error(
        "one-filter-disabled",
        where,
        f"{off} is disabled{on}, {works} is not",
        "disable both or none; to recall without learning send x-memory-auto-store: false from both",
    )


def settings_are_known(case: Case) -> Iterator[Finding]:
    for _, each in case.applied:
        place = each.service.where("initial_metadata") if each.service is not None else each.where
        secret = case.config.server.secret_header
        known = {name: value for name, value in each.metadata.items() if name in ROUTE}
        unknown = [name for name in each.metadata if name.startswith(ROUTE_PREFIX) and name not in {*known, secret}]
        for name in [*unknown, *route_settings(known).unreadable]:
            what = f"{name} is no setting" if name in unknown else f"the value of {name} cannot be read"
            yield error(
                "setting-unknown" if name in unknown else "setting-value",
                place,
                f"{what}: {_OFF.get(governed_by([name]), 'nothing is recalled or stored')} where it holds",
                f"settings are {', '.join(sorted(ROUTE))}",
            )


def secret_is_sent(case: Case) -> Iterator[Finding]:
    """Where the sidecar asks for a secret, both filters and the route to its API must carry it."""
    if case.secret is None:
        return
    header = case.config.server.secret_header
    for chain in case.memory_chains:
        for each in chain.base:
            where = each.service.where("initial_metadata") if each.service is not None else each.where
            yield from _secret(each.metadata, each.filter.name, where, header, case.secret)
    for chain in case.chains:
        for route in case.api_routes(chain):
            sent = _added_headers(route)
            yield from _secret(
                sent, "the route to /v1/memory", route.at.where("request_headers_to_add"), header, case.secret
            )


def _secret(sent: Mapping[str, str], who: str, where: str, header: str, secret: str) -> Iterator[Finding]:
    value = sent.get(header)
    if value is None:
        yield error(
            "secret-not-sent",
            where,
            f"{who} does not send {header}, and the sidecar turns away whoever does not",
            f"send the shared secret as {header}",
        )
    elif "%" not in value and value != secret:
        yield error("secret-wrong", where, f"{who} sends another {header} than the sidecar expects", "send the same")


def _added_headers(route: Route) -> dict[str, str]:
    options: list[At] = [option for level in route.levels for option in level.all("request_headers_to_add")]
    headers = [header for option in options if (header := option.get("header")) is not None]
    return {header.value("key").lower(): header.value("value") for header in headers}


def namespaces_are_forwarded(case: Case) -> Iterator[Finding]:
    """A claim is read from metadata, which Envoy only forwards when it is told to."""
    identity = case.config.memory.identity
    if identity.jwt_claim is None:
        return
    for _, each in case.applied:
        if identity.jwt_namespace not in each.namespaces:
            yield error(
                "jwt-metadata-not-forwarded",
                each.filter.config.where("metadata_options"),
                f"identity.jwt_claim is set, but {each.filter.name} does not forward {identity.jwt_namespace}",
                f"metadata_options: {{forwarding_namespaces: {{untyped: [{identity.jwt_namespace}]}}}}",
            )


def results_are_received(case: Case) -> Iterator[Finding]:
    """What a response header or the access log tells of memory comes as metadata, which Envoy must be told to take."""
    for chain in case.memory_chains:
        asked = [place for route in chain.chat_routes for place in _asking_for_results(route)]
        handling = [each for each in chain.memory if each.role is not Role.RETAIN]
        options = [each.config.descend("metadata_options", "receiving_namespaces") for each in handling]
        if asked and handling and not any(NAMESPACE in at.value("untyped") for at in options if at is not None):
            yield warning(
                "results-not-received",
                handling[0].config.where("metadata_options"),
                f"{asked[0]} tells what memory did, but {handling[0].name} does not take that from the sidecar",
                f"metadata_options: {{receiving_namespaces: {{untyped: [{NAMESPACE}]}}}}",
            )


def _asking_for_results(route: Route) -> Iterator[str]:
    for level in route.levels:
        for option in level.all("response_headers_to_add"):
            header = option.get("header")
            if header is not None and f"DYNAMIC_METADATA({NAMESPACE}:" in header.value("value"):
                yield option.path
