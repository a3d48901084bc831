"""Checks of the memory filters: each one's fields, their order, what they have in common, and whether they are in the file.

Strategy: a table says which values of which fields are a mistake; the fields that it names are read as they apply on each
route. What depends on the sidecar's settings, or on several filters, has a function of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semrouter_memory.codec.settings import ROUTE, ROUTE_PREFIX, Governs, governed_by
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import Finding, Unit, found, limit
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

_HEADER_MODES = ("DEFAULT", "SEND", "SKIP")
_MESSAGE_SECONDS = 0.2
"""Envoy's default of `message_timeout`."""
_CLOSE_SECONDS = 5.0
"""Envoy's default of `deferred_close_timeout`."""
_LONG_SECONDS = 10.0
_STREAM_SECONDS = 600.0
_NAMESPACE = "semrouter.memory"
"""The namespace of the sidecar's dynamic metadata."""
_OFF = {Governs.READING: "nothing is recalled", Governs.WRITING: "nothing is stored"}


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A field of a memory filter, and which of its values are a mistake.

    Attributes:
        roles: the filters that it holds for.
        path: a field of the configuration, and fields below it.
        is_wrong: tells a mistake; a missing field has Envoy's default.
    """

    code: str
    roles: Sequence[FilterRole]
    path: tuple[str, ...]
    is_wrong: Callable[[Node], bool]


def _is_on(field: Node) -> bool:
    return field.flag is True


def _is_off(field: Node) -> bool:
    return field.flag is not True


def _is_set(field: Node) -> bool:
    return bool(field.value)


def _skips(field: Node) -> bool:
    return field.choice(_HEADER_MODES) == "SKIP"


def _in(*modes: str) -> Callable[[Node], bool]:
    return lambda field: field.choice(BODY_MODES) in modes


def _not_in(*modes: str) -> Callable[[Node], bool]:
    return lambda field: field.choice(BODY_MODES) not in modes


_RETAIN, _RECALL, _BOTH = (FilterRole.RETAIN,), (FilterRole.RECALL,), (FilterRole.BOTH,)
_HANDLING, _READING, _ALL = (*_RECALL, *_BOTH), (*_RETAIN, *_BOTH), tuple(FilterRole)
_REQUEST_HEADERS, _REQUEST = ("processing_mode", "request_header_mode"), ("processing_mode", "request_body_mode")
_ANSWER_HEADERS, _ANSWER = ("processing_mode", "response_header_mode"), ("processing_mode", "response_body_mode")
_WHOLE = ("BUFFERED", "BUFFERED_PARTIAL")

FIELD_RULES = (
    FieldRule("failure-mode-allow", _ALL, ("failure_mode_allow",), _is_off),
    FieldRule("observability-mode", _RETAIN, ("observability_mode",), _is_off),
    FieldRule("recall-observes", _RECALL, ("observability_mode",), _is_on),
    FieldRule("mode-override", _ALL, ("allow_mode_override",), _is_on),
    FieldRule("attributes-unused", _ALL, ("request_attributes",), _is_set),
    FieldRule("attributes-unused", _ALL, ("response_attributes",), _is_set),
    FieldRule("request-headers-skipped", _ALL, _REQUEST_HEADERS, _skips),
    FieldRule("observer-request-body", _RETAIN, _REQUEST, _not_in("STREAMED")),
    FieldRule("request-body-partial", _HANDLING, _REQUEST, _in("BUFFERED_PARTIAL")),
    FieldRule("full-duplex", _HANDLING, _REQUEST, _in("FULL_DUPLEX_STREAMED")),
    FieldRule("recall-request-body", _HANDLING, _REQUEST, _in("NONE", "STREAMED", "GRPC")),
    FieldRule("response-headers-skipped", _READING, _ANSWER_HEADERS, _skips),
    FieldRule("observer-response-body", _RETAIN, _ANSWER, _not_in("STREAMED")),
    FieldRule("response-buffered", _RECALL, _ANSWER, _in(*_WHOLE)),
    FieldRule("response-buffered/single", _BOTH, _ANSWER, _in(*_WHOLE)),
    FieldRule("full-duplex", _HANDLING, _ANSWER, _in("FULL_DUPLEX_STREAMED")),
)


def fields_fit_the_role(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for each in chain.applied:
        for rule in FIELD_RULES:
            field = each.setting(*rule.path)
            if each.role in rule.roles and rule.is_wrong(field):
                value = field.text if isinstance(field.value, str) else "NONE"
                yield found(rule.code, field, name=each.name, field=rule.path[-1], value=value)


def timeouts_fit(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for each in chain.applied:
        timeout = each.service.get("timeout")
        yield from limit("grpc-timeout", timeout, Unit.SECONDS, below=_STREAM_SECONDS)
    for each in chain.observing:
        closing = each.setting("deferred_close_timeout")
        yield from _at_most("deferred-close-timeout", closing, _CLOSE_SECONDS, default=_CLOSE_SECONDS)
    deadline = context.deadline_seconds
    texts = {"deadline": f"{deadline:g}", "enough": f"{max(1.0, 2 * deadline):g}"}
    for timeout in (each.setting("message_timeout") for each in chain.handling):
        yield from _at_most("message-timeout", timeout, deadline, default=_MESSAGE_SECONDS, **texts)
        if (seconds := timeout.seconds or 0) > max(_LONG_SECONDS, deadline):
            yield found("message-timeout-long", timeout, value=Unit.SECONDS.shown(seconds))


def _at_most(code: str, timeout: Node, seconds: float, *, default: float, **texts: Any) -> Iterator[Finding]:
    """A finding where Envoy waits so long or less; with these timeouts, zero is not without limit."""
    given = timeout.seconds
    value, note = (default, " (Envoy's default)") if given is None else (given, "")
    if value <= seconds:
        yield found(code, timeout, value=Unit.SECONDS.shown(value), default=note, **texts)


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


def retain_comes_first(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for retain, recall in zip(chain.observing[:1], chain.handling[:1], strict=False):
        if retain.index > recall.index:
            yield found("filter-order", retain.entry, retain=retain.name, recall=recall.name)


def answers_are_read_once(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    for each in chain.applied if chain.observing else ():
        if each.role is FilterRole.RECALL and each.body_mode("response") == "STREAMED":
            yield found("answer-read-twice", each.setting(*_ANSWER), name=each.name)


def bodies_may_be_changed(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """An expression beats the rule for all."""
    for rules in (each.setting("mutation_rules") for each in chain.handling):
        allowed = regex_matches(rules.get("allow_expression"), "content-length")
        if regex_matches(rules.get("disallow_expression"), "content-length"):
            yield found("mutation-rules", rules.get("disallow_expression"), rule="disallow_expression")
        elif rules.get("disallow_all").flag and not allowed:
            yield found("mutation-rules", rules.get("disallow_all"), rule="disallow_all")


def headers_are_forwarded(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """Rules on which headers are sent must let those through that the sidecar reads."""
    needed = (":path", ":method", "content-type", context.config.memory.identity.user_header)
    for each in chain.memory:
        rules = each.setting("forward_rules")
        if held := [name for name in needed if not _forwarded(rules, name)]:
            yield found("headers-not-forwarded", rules, name=each.name, headers=", ".join(held))


def _forwarded(rules: Node, name: str) -> bool:
    def listed(headers: Node) -> bool:
        return any(text_matches(pattern, name) for pattern in headers.items("patterns"))

    allowed = rules.get("allowed_headers")
    return not listed(rules.get("disallowed_headers")) and (not allowed or listed(allowed))


def _variants(chain: HttpFilterChain) -> Iterator[tuple[Sequence[MemoryFilter], Node, str]]:
    """The filters as they are, then as routes override them, with the place and a note on the route."""
    yield chain.memory, chain.manager.get("http_filters"), ""
    for route in chain.routes:
        if route.has_overrides:
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


def claim_metadata_is_forwarded(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A claim is read from dynamic metadata, which Envoy forwards only where the filter says so."""
    namespace = context.config.memory.identity.jwt_namespace
    for each in chain.applied if context.config.memory.identity.jwt_claim is not None else ():
        options = each.setting("metadata_options")
        if namespace not in options.get("forwarding_namespaces").texts("untyped"):
            yield found("jwt-metadata-not-forwarded", options, name=each.name, namespace=namespace)


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


def listeners_are_in_the_file(context: CheckContext) -> Iterator[Finding]:
    if source := context.xds_source("lds_config"):
        yield found("listeners-unseen", source)


def filters_are_in_the_file(context: CheckContext) -> Iterator[Finding]:
    for entry in _discovered(context):
        yield found("filter-unseen", entry.get("config_discovery"), name=entry.get("name").text)
    for config in _outside_chains(context):
        yield found("filter-unseen/outside", config)
        if _is_off(allowed := config.get("failure_mode_allow")):
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
