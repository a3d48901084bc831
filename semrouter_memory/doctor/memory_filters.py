"""Checks of the memory filters: each one's fields, their order, what they have in common, and whether they are in the file.

Strategy: tables say which values of which fields are a mistake in which filter; the fields are read as they apply on each
route. What depends on several fields or filters has a function of its own.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from semrouter_memory.codec.settings import ROUTE, ROUTE_PREFIX, Governs, governed_by
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import Below, FieldRule, Finding, Unit, Wrong, broken, found, is_off, is_on, is_set
from semrouter_memory.doctor.gateway import (
    BODY_MODES,
    PROCESSOR,
    FilterRole,
    HttpFilterChain,
    MemoryFilter,
    calls_sidecar,
    cluster_named,
    config_of,
)
from semrouter_memory.doctor.matching import regex_matches, text_matches
from semrouter_memory.doctor.node import Node
from semrouter_memory.exchange.policy import route_settings

_LONG_SECONDS = 10.0
_NAMESPACE = "semrouter.memory"
"""The namespace of the sidecar's dynamic metadata."""
_OFF = {Governs.READING: "nothing is recalled", Governs.WRITING: "nothing is stored"}


def _skips(node: Node) -> bool:
    return node.choice(("DEFAULT", "SEND", "SKIP")) == "SKIP"


def _in(*modes: str) -> Callable[[Node], Wrong]:
    return lambda node: node.choice(BODY_MODES) in modes and {"value": node.text or "NONE"}


def _not_in(mode: str) -> Callable[[Node], Wrong]:
    return _in(*(each for each in BODY_MODES if each != mode))


_REQUEST_HEADERS, _REQUEST = "processing_mode.request_header_mode", "processing_mode.request_body_mode"
_ANSWER_HEADERS, _ANSWER = "processing_mode.response_header_mode", "processing_mode.response_body_mode"
_WHOLE = _in("BUFFERED", "BUFFERED_PARTIAL")

_EACH = (
    FieldRule("failure-mode-allow", "failure_mode_allow", is_off),
    FieldRule("mode-override", "allow_mode_override", is_on),
    FieldRule("attributes-unused", "request_attributes", is_set),
    FieldRule("attributes-unused", "response_attributes", is_set),
    FieldRule("request-headers-skipped", _REQUEST_HEADERS, _skips),
    FieldRule("grpc-timeout", "grpc_service.timeout", Below(600, Unit.SECONDS, unlimited=0)),
)
_HANDLING = (
    *_EACH,
    FieldRule("request-body-partial", _REQUEST, _in("BUFFERED_PARTIAL")),
    FieldRule("full-duplex", _REQUEST, _in("FULL_DUPLEX_STREAMED")),
    FieldRule("recall-request-body", _REQUEST, _in("NONE", "STREAMED", "GRPC")),
    FieldRule("full-duplex", _ANSWER, _in("FULL_DUPLEX_STREAMED")),
)
_RULES = {
    FilterRole.RETAIN: (
        *_EACH,
        FieldRule("observability-mode", "observability_mode", is_off),
        FieldRule("observer-request-body", _REQUEST, _not_in("STREAMED")),
        FieldRule("response-headers-skipped", _ANSWER_HEADERS, _skips),
        FieldRule("observer-response-body", _ANSWER, _not_in("STREAMED")),
        # Copies that were not read in Envoy's default of 5 s are dropped.
        FieldRule("deferred-close-timeout", "deferred_close_timeout", Below(math.nextafter(5, 6), Unit.SECONDS, 5)),
    ),
    FilterRole.RECALL: (
        *_HANDLING,
        FieldRule("recall-observes", "observability_mode", is_on),
        FieldRule("response-buffered", _ANSWER, _WHOLE),
    ),
    FilterRole.BOTH: (
        *_HANDLING,
        FieldRule("response-headers-skipped", _ANSWER_HEADERS, _skips),
        FieldRule("response-buffered/single", _ANSWER, _WHOLE),
    ),
}


def fields_fit_the_role(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    rules = [*_forwarding(context)]
    waiting = [*_waiting(context)]
    for each in chain.applied:
        more = [] if each.role is FilterRole.RETAIN else waiting
        yield from broken([*_RULES[each.role], *rules, *more], each.setting, name=each.name)


def _forwarding(context: CheckContext) -> Iterator[FieldRule]:
    """The sidecar is sent the headers that it reads, and a claim, which it reads from dynamic metadata."""
    identity = context.config.memory.identity
    headers = (":path", ":method", "content-type", identity.user_header)

    def held(rules: Node) -> Wrong:
        names = [name for name in headers if not _forwarded(rules, name)]
        return bool(names) and {"headers": ", ".join(names)}

    yield FieldRule("headers-not-forwarded", "forward_rules", held)
    if any((identity.jwt_claim, identity.organisation_claim, identity.agent_claim)):
        namespace = identity.jwt_namespace
        yield FieldRule(
            "jwt-metadata-not-forwarded",
            "metadata_options",
            lambda options: namespace not in options.get("forwarding_namespaces").texts("untyped"),
            {"namespace": namespace},
        )


def _waiting(context: CheckContext) -> Iterator[FieldRule]:
    """Envoy waits for recall, and not for long where it hangs."""
    deadline = context.deadline_seconds
    texts = {"deadline": f"{deadline:g}", "enough": f"{max(1.0, 2 * deadline):g}"}
    short = Below(math.nextafter(deadline, math.inf), Unit.SECONDS, 0.2)
    yield FieldRule("message-timeout", "message_timeout", short, texts)
    yield FieldRule("message-timeout-long", "message_timeout", lambda node: _is_long(node, deadline))


def _is_long(node: Node, deadline: float) -> Wrong:
    seconds = node.seconds or 0
    return seconds > max(_LONG_SECONDS, deadline) and {"value": Unit.SECONDS.shown(seconds)}


def memory_filters_exist(context: CheckContext) -> Iterator[Finding]:
    elsewhere = context.xds_source("lds_config") or _discovered(context) or _outside_chains(context)
    if not (context.memory_chains or elsewhere):
        yield found("no-memory-filter", context.bootstrap.get("static_resources"))


def each_task_has_one_filter(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    place = chain.manager.get("http_filters")
    if len(chain.observing) > 1 or len(chain.handling) > 1:
        yield found("filter-twice", place)
    elif not chain.handling:
        yield found("nothing-recalls", place)
    elif not chain.observing and chain.handling[0].role is FilterRole.RECALL:
        yield found("nothing-learns", place)
    for retain, recall in zip(chain.observing[:1], chain.handling[:1], strict=False):
        if retain.index > recall.index:
            yield found("filter-order", retain.entry, retain=retain.name, recall=recall.name)


def answers_are_read_once(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for each in chain.applied if chain.observing else ():
        if each.role is FilterRole.RECALL and each.body_mode("response") == "STREAMED":
            yield found("answer-read-twice", each.setting(*_ANSWER.split(".")), name=each.name)


def bodies_may_be_changed(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """An expression beats the rule for all."""
    for rules in (each.setting("mutation_rules") for each in chain.handling):
        allowed = regex_matches(rules.get("allow_expression"), "content-length")
        if regex_matches(rules.get("disallow_expression"), "content-length"):
            yield found("mutation-rules", rules.get("disallow_expression"), rule="disallow_expression")
        elif rules.get("disallow_all").flag and not allowed:
            yield found("mutation-rules", rules.get("disallow_all"), rule="disallow_all")


def _forwarded(rules: Node, name: str) -> bool:
    def listed(headers: Node) -> bool:
        return any(text_matches(pattern, name) for pattern in headers.items("patterns"))

    allowed = rules.get("allowed_headers")
    return not listed(rules.get("disallowed_headers")) and (not allowed or listed(allowed))


def _variants(chain: HttpFilterChain) -> Iterator[tuple[Sequence[MemoryFilter], Node, str]]:
    """The filters as they are, then as routes override them, with the place and a note on the route."""
    yield chain.memory, chain.manager.get("http_filters"), ""
    for route in chain.routes:
        if any(each.overrides for each in route.memory):
            yield route.memory, route.place, f" on route {route.name!r}"


def filters_send_the_same(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    everywhere = _differing(chain.memory)
    for filters, place, on in _variants(chain):
        # What differs without the route already is reported once.
        if _differing(filters) and (not on or _differing(filters) != everywhere):
            enabled = [each for each in filters if each.is_enabled] if on else filters
            if different := _differing(enabled):
                names = " and ".join(each.name for each in enabled)
                yield found("filters-differ", place, names=names, on=on, settings=", ".join(different))
    clusters = sorted({each.cluster for each in chain.memory if each.cluster})
    if len(clusters) > 1:
        yield found("clusters-differ", chain.manager.get("http_filters"), clusters=", ".join(clusters))


def _differing(filters: Sequence[MemoryFilter]) -> list[str]:
    sent = [each.metadata for each in filters]
    return sorted(name for name in set().union(*sent) if len({metadata.get(name) for metadata in sent}) > 1)


def filters_are_on_together(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for filters, place, on in _variants(chain):
        off = ", ".join(each.name for each in filters if not each.is_enabled)
        enabled = ", ".join(each.name for each in filters if each.is_enabled)
        if off and enabled:
            yield found("one-filter-disabled", place, off=off, on=on, enabled=enabled)


def settings_are_known(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    secret = context.config.server.secret_header
    for each in chain.applied:
        known = {name: value for name, value in each.metadata.items() if name in ROUTE}
        unknown = [name for name in each.metadata if name.startswith(ROUTE_PREFIX) and name not in {*known, secret}]
        for name in [*unknown, *route_settings(known).unreadable]:
            code = "setting-unknown" if name in unknown else "setting-value"
            off = _OFF.get(governed_by([name]), "nothing is recalled or stored")
            place = each.service.get("initial_metadata")
            yield found(code, place, name=name, off=off, settings=", ".join(sorted(ROUTE)))


def secret_is_sent(context: CheckContext) -> Iterator[Finding]:
    """Where the sidecar asks for a secret, the memory filters and the route to its API must send it."""
    for each in context.applied:
        yield from _secret(context, each.metadata, each.name, each.service.get("initial_metadata"))
    for route in (route for chain in context.chains for route in chain.api_routes):
        sent = {header.get("key").text.lower(): header.get("value").text for header in route.headers_to_add()}
        yield from _secret(context, sent, "the route to /v1/memory", route.node.get("request_headers_to_add"))


def _secret(context: CheckContext, sent: Mapping[str, str], sender: str, place: Node) -> Iterator[Finding]:
    header = context.config.server.secret_header
    value = sent.get(header, "")
    if context.secret is not None and header not in sent:
        yield found("secret-not-sent", place, sender=sender, header=header)
    elif context.secret is not None and "%" not in value and value != context.secret:
        yield found("secret-wrong", place, sender=sender, header=header)


def results_are_received(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """Response headers show the sidecar's dynamic metadata, which Envoy takes only where the filter says so."""
    levels = [level for route in chain.chat_routes for level in route.levels]
    headers = [option for level in levels for option in level.items("response_headers_to_add")]
    shown = [each for each in headers if f"DYNAMIC_METADATA({_NAMESPACE}:" in each.get("header", "value").text]
    options = [each.setting("metadata_options") for each in chain.handling]
    received = {name for option in options for name in option.get("receiving_namespaces").texts("untyped")}
    if shown and options and _NAMESPACE not in received:
        name = chain.handling[0].name
        yield found("results-not-received", options[0], header=shown[0].path, name=name, namespace=_NAMESPACE)


_XDS = (
    FieldRule("listeners-unseen", "dynamic_resources.lds_config", is_set),
    FieldRule("clusters-unseen", "dynamic_resources.cds_config", is_set),
)


def all_is_in_the_file(context: CheckContext) -> Iterator[Finding]:
    yield from broken(_XDS, context.bootstrap.get)
    for entry in _discovered(context):
        yield found("filter-unseen", entry.get("config_discovery"), name=entry.get("name").text)
    for config in _outside_chains(context):
        yield found("filter-unseen/outside", config)
        if is_off(allowed := config.get("failure_mode_allow")):
            yield found("failure-mode-allow", allowed, name="this filter")


def _discovered(context: CheckContext) -> list[Node]:
    """The ext_proc filters whose configuration comes over xDS."""
    entries = [entry for chain in context.chains for entry in chain.filters]
    types = [(entry, entry.get("config_discovery").texts("type_urls")) for entry in entries]
    return [entry for entry, urls in types if any(url.endswith(PROCESSOR) for url in urls)]


def _outside_chains(context: CheckContext) -> list[Node]:
    """The configurations of ext_proc filters for memory that are in no HTTP filter chain of a listener."""
    known = {config_of(entry).path for chain in context.chains for entry in chain.filters}
    outside = [node for node in _processors(context.bootstrap.get("static_resources")) if node.path not in known]
    return [node for node in outside if not context.memory_chains or _is_for_memory(context, node)]


def _processors(node: Node) -> Iterator[Node]:
    """Every configuration of an ext_proc filter at or below a node."""
    for name, value in node.value.items() if isinstance(node.value, dict) else ():
        for child in node.items(str(name)) if isinstance(value, list) else [node.get(str(name))]:
            yield from _processors(child)
    if isinstance(node.value, dict) and node.kind == PROCESSOR:
        yield node


def _is_for_memory(context: CheckContext, config: Node) -> bool:
    named = "memory" in cluster_named(config.get("grpc_service"))
    return named or calls_sidecar(config, context.clusters, context.listen)
