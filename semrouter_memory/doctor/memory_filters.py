"""Checks of the memory filters: that they fail open, what they are sent, in which order, and with which timeouts."""

from collections.abc import Iterator

from semrouter_memory.doctor import dynamic_config
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.filter_chains import AppliedFilter, FilterRole, HttpFilterChain
from semrouter_memory.doctor.finding import Finding, found
from semrouter_memory.doctor.matching import regex_matches, text_matches
from semrouter_memory.doctor.node import Node

_MESSAGE_SECONDS = 0.2
"""Envoy's default of `message_timeout`."""
_CLOSE_SECONDS = 5.0
"""Envoy's default of `deferred_close_timeout`."""
_LONG_SECONDS = 10.0
_STREAM_SECONDS = 600.0


def memory_filters_exist(context: CheckContext) -> Iterator[Finding]:
    elsewhere = dynamic_config.xds_source(context, "lds_config") or dynamic_config.discovered(context)
    if not (context.memory_chains or elsewhere or dynamic_config.outside_chains(context)):
        yield found("no-memory-filter", context.bootstrap.get("static_resources"))


def each_task_has_one_filter(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        place = chain.manager.get("http_filters")
        if len(chain.observing) > 1 or len(chain.handling) > 1:
            yield found("filter-twice", place)
        elif not chain.handling:
            yield found("nothing-recalls", place)
        elif not chain.observing and chain.handling[0].role is FilterRole.RECALL:
            yield found("nothing-learns", place)


def filters_fail_open(context: CheckContext) -> Iterator[Finding]:
    for each in context.applied:
        if not each.failure_mode_allow.flag:
            yield found("failure-mode-allow", each.failure_mode_allow, name=each.name)


def retain_comes_first(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        for retain, recall in zip(chain.observing[:1], chain.handling[:1], strict=False):
            if retain.index > recall.index:
                yield found("filter-order", retain.entry, retain=retain.name, recall=recall.name)


def only_retain_observes(context: CheckContext) -> Iterator[Finding]:
    for each in context.memory_filters:
        mode = each.config.get("observability_mode")
        if each.role is FilterRole.RETAIN and not mode.flag:
            yield found("observability-mode", mode, name=each.name)
        if each.role is FilterRole.RECALL and mode.flag:
            yield found("recall-observes", mode, name=each.name)


def bodies_are_sent(context: CheckContext) -> Iterator[Finding]:
    for chain in context.memory_chains:
        for each in chain.applied:
            yield from _request_side(each)
            yield from _response_side(chain, each)


def _request_side(each: AppliedFilter) -> Iterator[Finding]:
    mode, body = each.body_mode("request"), each.mode.get("request_body_mode")
    if each.skips_headers("request"):
        yield found("request-headers-skipped", each.mode.get("request_header_mode"), name=each.name)
    if each.filter.role is FilterRole.RETAIN:
        if mode != "STREAMED":
            yield found("observer-request-body", body, name=each.name, mode=mode)
    elif mode == "BUFFERED_PARTIAL":
        yield found("request-body-partial", body)
    elif mode == "FULL_DUPLEX_STREAMED":
        yield found("full-duplex", body, name=each.name)
    elif mode != "BUFFERED":
        replaced = each.mode.path != each.filter.config.get("processing_mode").path
        hint = "; a route's processing_mode replaces the filter's as a whole" if replaced else ""
        yield found("recall-request-body", body, name=each.name, mode=mode, hint=hint)


def _response_side(chain: HttpFilterChain, each: AppliedFilter) -> Iterator[Finding]:
    mode, body = each.body_mode("response"), each.mode.get("response_body_mode")
    observes = each.filter.role is FilterRole.RETAIN
    if observes and mode != "STREAMED":
        yield found("observer-response-body", body, name=each.name, mode=mode)
    elif not observes and mode.startswith("BUFFERED"):
        better = "NONE" if each.filter.role is FilterRole.RECALL else "STREAMED"
        yield found("response-buffered", body, name=each.name, mode=better)
    elif not observes and mode == "FULL_DUPLEX_STREAMED":
        yield found("full-duplex", body, name=each.name)
    elif not observes and mode == "STREAMED" and chain.observing:
        yield found("answer-read-twice", body, name=each.name)
        return
    if each.skips_headers("response") and (observes or mode == "STREAMED"):
        yield found("response-headers-skipped", each.mode.get("response_header_mode"), name=each.name)


def recall_has_time(context: CheckContext) -> Iterator[Finding]:
    deadline = context.deadline_seconds
    for each in (each for chain in context.memory_chains for each in chain.handling):
        timeout = each.config.get("message_timeout")
        seconds, default = _or_default(timeout.seconds, _MESSAGE_SECONDS)
        if seconds <= deadline:
            yield found(
                "message-timeout",
                timeout,
                seconds=f"{seconds:g}",
                default=default,
                deadline=f"{deadline:g}",
                enough=f"{max(1.0, 2 * deadline):g}",
            )
        elif seconds > _LONG_SECONDS:
            yield found("message-timeout-long", timeout, seconds=f"{seconds:g}")


def retain_is_waited_for(context: CheckContext) -> Iterator[Finding]:
    for each in (each for chain in context.memory_chains for each in chain.observing):
        timeout = each.config.get("deferred_close_timeout")
        seconds, default = _or_default(timeout.seconds, _CLOSE_SECONDS)
        if seconds <= _CLOSE_SECONDS:
            yield found("deferred-close-timeout", timeout, seconds=f"{seconds:g}", default=default)


def streams_live_as_long_as_answers(context: CheckContext) -> Iterator[Finding]:
    for each in context.applied:
        timeout = each.service.get("timeout")
        if 0 < (timeout.seconds or 0) < _STREAM_SECONDS:
            yield found("grpc-timeout", timeout, seconds=f"{timeout.seconds:g}")


def modes_are_not_overridden(context: CheckContext) -> Iterator[Finding]:
    for each in context.memory_filters:
        if (allowed := each.config.get("allow_mode_override")).flag:
            yield found("mode-override", allowed)
        for name in ("request_attributes", "response_attributes"):
            if each.config.texts(name):
                yield found("attributes-unused", each.config.get(name), name=name)


def bodies_may_be_changed(context: CheckContext) -> Iterator[Finding]:
    for each in (each for chain in context.memory_chains for each in chain.handling):
        rules = each.config.get("mutation_rules")
        if forbids := _forbids_length(rules):
            yield found("mutation-rules", rules.get(forbids), rule=forbids)


def _forbids_length(rules: Node) -> str | None:
    """The rule that forbids to change content-length; an expression beats the rule for all."""
    if regex_matches(rules.get("disallow_expression"), "content-length"):
        return "disallow_expression"
    allowed = regex_matches(rules.get("allow_expression"), "content-length")
    return "disallow_all" if rules.get("disallow_all").flag and not allowed else None


def headers_are_forwarded(context: CheckContext) -> Iterator[Finding]:
    """Rules on which headers are sent must let those through that the sidecar reads."""
    needed = (":path", ":method", "content-type", context.config.memory.identity.user_header)
    for each in context.memory_filters:
        rules = each.config.get("forward_rules")
        if held := [name for name in needed if not _forwarded(rules, name)]:
            yield found("headers-not-forwarded", rules, name=each.name, headers=", ".join(held))


def _forwarded(rules: Node, name: str) -> bool:
    allowed = rules.get("allowed_headers")
    return not _listed(rules.get("disallowed_headers"), name) and (not allowed or _listed(allowed, name))


def _listed(headers: Node, name: str) -> bool:
    return any(text_matches(pattern, name) for pattern in headers.items("patterns"))


def _or_default(value: float | None, default: float) -> tuple[float, str]:
    """A setting's value, and a note where it is Envoy's default."""
    return (default, " (Envoy's default)") if value is None else (value, "")
