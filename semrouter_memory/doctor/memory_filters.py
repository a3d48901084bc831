"""Checks of the memory filters: each one's fields, their order, what they have in common, and whether they are in the file.

Strategy: tables say which values of which fields are a mistake in which filter; the fields are read as they apply on each
route. What depends on several fields or filters has a function of its own.
"""

from collections.abc import Iterator, Mapping, Sequence

from semrouter_memory.codec.settings import ROUTE, ROUTE_PREFIX, Governs, governed_by
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import Finding, broken, found, graded
from semrouter_memory.doctor.gateway import PROCESSOR, FilterRole, HttpFilter, HttpFilterChain
from semrouter_memory.doctor.node import Node, first, regex_matches, text_matches
from semrouter_memory.exchange.policy import route_settings

_NAMESPACE = "semrouter.memory"
"""The namespace of the sidecar's dynamic metadata."""
_REPETITION = ("x-request-id", "idempotency-key")
"""The headers that tell a repeated exchange."""
_OFF = {Governs.READING: "nothing is recalled", Governs.WRITING: "nothing is stored"}


def fields_fit_the_role(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """The sidecar is also sent the headers that it reads, and a claim, which it reads from dynamic metadata."""
    identity = context.config.memory.identity
    claimed = any((identity.jwt_claim, identity.organisation_claim, identity.agent_claim))
    for each in chain.applied:
        yield from broken(str(each.role), context.figures, each.setting, name=each.name)
        rules, options = each.setting("forward_rules"), each.setting("metadata_options")
        needed, others = _headers_read(context, each)
        if held := [name for name in (*needed, *others) if not _forwarded(rules, name)]:
            is_error = not set(needed).isdisjoint(held)
            yield found("headers-not-forwarded", rules, graded(is_error), name=each.name, headers=", ".join(held))
        forwarded = options.get("forwarding_namespaces").texts("untyped")
        if claimed and identity.jwt_namespace not in forwarded:
            yield found("jwt-metadata-not-forwarded", options, name=each.name, namespace=identity.jwt_namespace)


def _headers_read(context: CheckContext, on: HttpFilter) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The headers without which memory does not work, or not as the client wants, and those that are heeded where they are sent."""
    identity, signals = context.config.memory.identity, context.config.memory.signals
    answer = () if on.role is FilterRole.RECALL else (":status",)
    needed = (":path", ":method", *answer, "content-type", identity.user_header, *identity.opt_out_headers)
    heeded = ("content-encoding", *identity.other_headers, identity.session_header, identity.session_end_header)
    return needed, (*heeded, *_REPETITION, signals.fact_header, signals.tool_header)


def _forwarded(rules: Node, name: str) -> bool:
    def listed(headers: Node) -> bool:
        return any(text_matches(pattern, name) for pattern in headers.items("patterns"))

    allowed = rules.get("allowed_headers")
    return not listed(rules.get("disallowed_headers")) and (not allowed or listed(allowed))


def memory_filters_exist(context: CheckContext) -> Iterator[Finding]:
    resources = context.bootstrap.get("static_resources")
    if not (context.memory_chains or context.bootstrap.get("dynamic_resources", "lds_config") or _discovered(context)):
        # Behind a matcher's action or among the filters of an upstream, for example.
        yield found("filter-unseen/outside" if PROCESSOR in str(resources.value) else "no-memory-filter", resources)


def each_task_has_one_filter(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    place, observing = chain.bare.node, [each for each in chain.memory if each.role is FilterRole.RETAIN]
    if len(observing) > 1 or len(chain.handling) > 1:
        yield found("filter-twice", place)
    elif not chain.handling:
        yield found("nothing-recalls", place)
    elif not observing and chain.handling[0].role is FilterRole.RECALL:
        yield found("nothing-learns", place)
    for retain, recall in zip(observing[:1], chain.handling[:1], strict=False):
        if retain.index > recall.index:
            yield found("filter-order", retain.entry, retain=retain.name, recall=recall.name)


def bodies_may_be_changed(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """An expression beats the rule for all."""
    for rules in (each.setting("mutation_rules") for each in chain.handling):
        allowed = regex_matches(rules.get("allow_expression"), "content-length")
        if regex_matches(rules.get("disallow_expression"), "content-length"):
            yield found("mutation-rules", rules.get("disallow_expression"), rule="disallow_expression")
        elif rules.get("disallow_all").flag and not allowed:
            yield found("mutation-rules", rules.get("disallow_all"), rule="disallow_all")


def filters_agree(_: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """As they are, and as routes override them."""
    everywhere = _differing(chain.bare.enabled)
    overriding = [route for route in chain.routes if any(each.given for each in route.memory)]
    for route in (chain.bare, *overriding):
        off = ", ".join(each.name for each in route.memory if not each.is_enabled)
        on, different = [each.name for each in route.enabled], _differing(route.enabled)
        where = f" on route {route.name!r}" if route.node else ""
        if off and on:
            yield found("one-filter-disabled", route.node, off=off, on=where, enabled=", ".join(on))
        # What differs without the route already is reported once.
        if different and not (where and different == everywhere):
            yield found("filters-differ", route.node, names=" and ".join(on), on=where, settings=", ".join(different))
    clusters = sorted({each.cluster for each in chain.memory if each.cluster})
    if len(clusters) > 1:
        yield found("clusters-differ", chain.bare.node, clusters=", ".join(clusters))


def _differing(filters: Sequence[HttpFilter]) -> list[str]:
    sent = [each.metadata for each in filters]
    return sorted(name for name in set().union(*sent) if len({metadata.get(name) for metadata in sent}) > 1)


def settings_are_known(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    secret = context.config.server.secret_header
    for each in chain.applied:
        known = {name: value for name, value in each.metadata.items() if name in ROUTE}
        unknown = [name for name in each.metadata if name.startswith(ROUTE_PREFIX) and name not in {*known, secret}]
        for name in [*unknown, *route_settings(known).unreadable]:
            code = "setting-unknown" if name in unknown else "setting-value"
            off = _OFF.get(governed_by([name]), "nothing is recalled or stored")
            yield found(code, each.metadata_entries[name], name=name, off=off, settings=", ".join(sorted(ROUTE)))


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


def bodies_are_read_in_their_order(context: CheckContext, chain: HttpFilterChain) -> Iterator[Finding]:
    """A body is plain where the memory filters read it, and signed, with its headers, where nothing changes it any more."""
    first_filter, last_filter = chain.first_memory, chain.memory[-1].index
    for route in (route for route in chain.chat_routes if route.enabled):
        removed = [name.lower() for level in route.levels for name in level.texts("request_headers_to_remove")]
        for each in (each for each in route.filters if each.is_enabled):
            kind, direction = each.config.kind, each.config.get("request_direction_config")
            is_on = direction.get("common_config", "enabled", "default_value").flag is not False
            if kind == "Decompressor" and is_on and each.index > first_filter:
                yield found("decompressed-too-late", each.entry, name=each.name)
            elif kind == "Compressor" and direction and is_on and each.index < last_filter:
                yield found("compressed-too-early", direction, name=each.name)
            elif kind == "AwsRequestSigning":
                signing = first((each.override.get("aws_request_signing"), each.config))
                if each.index < last_filter and not signing.get("use_unsigned_payload").flag:
                    yield found(
                        "signed-too-early", each.entry, name=each.name, part="the body", change="memories follow"
                    )
                elif context.user_header in removed and not _excludes(signing, context.user_header):
                    part, change = context.user_header, "the route removes it"
                    yield found("signed-too-early", each.entry, name=each.name, part=part, change=change)


def _excludes(signing: Node, header: str) -> bool:
    return any(text_matches(each, header) for each in signing.items("match_excluded_headers"))


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


def all_is_in_the_file(context: CheckContext) -> Iterator[Finding]:
    yield from broken("bootstrap", context.figures, context.bootstrap.get)
    for entry in _discovered(context):
        yield found("filter-unseen", entry.get("config_discovery"), name=entry.get("name").text)


def _discovered(context: CheckContext) -> list[Node]:
    """The ext_proc filters whose configuration comes over xDS."""
    entries = [each.entry for chain in context.chains for each in chain.filters]
    types = [(entry, entry.get("config_discovery").texts("type_urls")) for entry in entries]
    return [entry for entry, urls in types if any(url.endswith(PROCESSOR) for url in urls)]
