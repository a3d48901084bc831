"""Checks of the memory filters themselves: that they fail open, what they are sent, in which order, with which patience."""

from collections.abc import Iterator

from semrouter_memory.doctor import unseen
from semrouter_memory.doctor.case import EXT_PROC_SECONDS, Case, halves
from semrouter_memory.doctor.chains import Applied, Chain, Role
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.matching import regex_matches, text_matches
from semrouter_memory.doctor.place import At

_DEFAULT_CLOSE_SECONDS = 5.0
_LONG_SECONDS = 10.0
_STREAM_SECONDS = 600.0


def memory_filters_are_there(case: Case) -> Iterator[Finding]:
    if case.bootstrap is None or any(case.memory_chains):
        return
    if unseen.from_elsewhere(case, "lds_config") or unseen.discovered(case) or unseen.elsewhere(case):
        return  # said already
    yield error(
        "no-memory-filter",
        case.bootstrap.where("static_resources"),
        "no HTTP filter chain has an ext_proc filter that calls the sidecar",
        "add memory.retain and memory.recall as in envoy/two-filter.yaml",
    )


def each_half_is_there(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        observing, handling = halves(chain)
        where = chain.manager.where("http_filters")
        if len(observing) > 1 or len(handling) > 1:
            yield error(
                "filter-twice",
                where,
                "several filters of this chain do the same for memory: every turn is read or changed twice",
                "keep one memory.retain and one memory.recall",
            )
        elif not handling:
            yield warning(
                "nothing-recalls",
                where,
                "no filter handles the request: memories are learned and never used",
                "add memory.recall behind memory.retain, as in envoy/two-filter.yaml",
            )
        elif not observing and handling[0].filter.role is Role.RECALL:
            yield warning(
                "nothing-learns",
                where,
                "no filter sees the answers: memories are used and none is learned",
                "add memory.retain before memory.recall (envoy/two-filter.yaml), or set response_body_mode: STREAMED",
            )


def filters_fail_open(case: Case) -> Iterator[Finding]:
    for _, each in case.applied:
        fails_open, where = each.fails_open
        if not fails_open:
            yield error(
                "failure-mode-allow",
                where,
                f"{each.filter.name} fails closed: when the sidecar is away or slow, requests end in 500 or 504",
                "failure_mode_allow: true",
            )


def retain_stands_first(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        observing, handling = halves(chain)
        if observing and handling and observing[0].filter.index > handling[0].filter.index:
            yield error(
                "filter-order",
                observing[0].filter.at.path,
                f"{observing[0].filter.name} stands behind {handling[0].filter.name}: it sees the request with the"
                " memories in it, and what was injected is learned again",
                f"put {observing[0].filter.name} before {handling[0].filter.name}",
            )


def retain_observes(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        for each in chain.memory:
            observing = bool(each.config.value("observability_mode"))
            where = each.config.where("observability_mode")
            if each.role is Role.RETAIN and not observing:
                yield error(
                    "observability-mode",
                    where,
                    f"{each.name} is not in observability mode: every piece of an answer waits for the sidecar",
                    "observability_mode: true",
                )
            if each.role is Role.RECALL and observing:
                yield error(
                    "recall-observes",
                    where,
                    f"{each.name} is in observability mode: it only gets copies and can put nothing into a request",
                    "leave observability_mode out",
                )


def bodies_are_sent(case: Case) -> Iterator[Finding]:
    for chain, each in case.applied:
        yield from _request_side(each)
        yield from _response_side(chain, each)


def _request_side(each: Applied) -> Iterator[Finding]:
    name, where = each.filter.name, _mode_place(each, "request_body_mode")
    body = _mode(each, "request_body_mode")
    if _mode(each, "request_header_mode") == "SKIP":
        yield error(
            "request-headers-skipped",
            _mode_place(each, "request_header_mode"),
            f"{name} is not sent the request headers: it knows neither user nor path",
            "request_header_mode: SEND",
        )
    if each.filter.role is Role.RETAIN:
        if body != "STREAMED":
            yield error(
                "observer-request-body", where, _observer(name, body, "requests"), "request_body_mode: STREAMED"
            )
    elif body == "BUFFERED_PARTIAL":
        yield warning(
            "request-body-partial",
            where,
            "larger bodies pass without memory, and the LLM server always gets chunks without a content-length",
            "request_body_mode: BUFFERED, with a request_body_buffer_limit on the route",
        )
    elif body == "FULL_DUPLEX_STREAMED":
        yield _full_duplex(name, where)
    elif body != "BUFFERED":
        yield error(
            "recall-request-body",
            where,
            f"{name} gets the request body {_named(body)}: memories can only be put into one that is whole"
            f"{_replaced_as_a_whole(each)}",
            "request_body_mode: BUFFERED",
        )


def _response_side(chain: Chain, each: Applied) -> Iterator[Finding]:
    name, where = each.filter.name, _mode_place(each, "response_body_mode")
    body = _mode(each, "response_body_mode")
    if each.filter.role is Role.RETAIN:
        if body != "STREAMED":
            yield error(
                "observer-response-body", where, _observer(name, body, "answers"), "response_body_mode: STREAMED"
            )
        if _mode(each, "response_header_mode") == "SKIP":
            yield _headers_skipped(each)
    elif body in {"BUFFERED", "BUFFERED_PARTIAL"}:
        fix = "response_body_mode: " + ("NONE" if each.filter.role is Role.RECALL else "STREAMED")
        yield error("response-buffered", where, f"{name} holds answers back until they are whole: tokens wait", fix)
    elif body == "FULL_DUPLEX_STREAMED":
        yield _full_duplex(name, where)
    elif body == "STREAMED" and _has_observer(chain):
        yield error(
            "answer-read-twice",
            where,
            f"{name} reads the answer beside the observing filter: each turn is learned twice, and every token makes a"
            " round trip",
            "response_body_mode: NONE, response_header_mode: SKIP",
        )
    elif body == "STREAMED" and _mode(each, "response_header_mode") == "SKIP":
        yield _headers_skipped(each)


def recall_has_time(case: Case) -> Iterator[Finding]:
    deadline = case.deadline_seconds
    for chain in case.memory_chains:
        for each in chain.memory:
            if each.role is Role.RETAIN:
                continue
            said = each.config.value("message_timeout")
            seconds = EXT_PROC_SECONDS if said is None else said.total_seconds()
            where = each.config.where("message_timeout")
            if seconds <= deadline:
                yield error(
                    "message-timeout",
                    where,
                    f"Envoy waits {seconds:g} s{' (its default)' if said is None else ''}, recall may take {deadline:g} s"
                    " (deadline_ms, and rewrite_deadline_ms with a memory_rewrite model): late memories are thrown away",
                    f"message_timeout: {max(1.0, 2 * deadline):g}s",
                )
            elif seconds > _LONG_SECONDS:
                yield warning(
                    "message-timeout-long",
                    where,
                    f"a sidecar that hangs holds each request back for {seconds:g} s",
                    "message_timeout: 1s",
                )


def observer_is_waited_for(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        for each in chain.memory:
            said = each.config.value("deferred_close_timeout")
            seconds = _DEFAULT_CLOSE_SECONDS if said is None else said.total_seconds()
            if each.role is Role.RETAIN and seconds <= _DEFAULT_CLOSE_SECONDS:
                yield error(
                    "deferred-close-timeout",
                    each.config.where("deferred_close_timeout"),
                    f"copies that the sidecar has not read {seconds:g} s after an exchange"
                    f"{' (the default)' if said is None else ''} are dropped, and with them what was to be learned",
                    "deferred_close_timeout: 60s",
                )


def streams_live_as_long_as_answers(case: Case) -> Iterator[Finding]:
    for _, each in case.applied:
        timeout = each.service.value("timeout") if each.service is not None else None
        if timeout is not None and 0 < timeout.total_seconds() < _STREAM_SECONDS:
            assert each.service is not None
            yield warning(
                "grpc-timeout",
                each.service.where("timeout"),
                f"a stream to the sidecar lives as long as its answer; here it ends after {timeout.total_seconds():g} s",
                "timeout: 0s",
            )


def modes_stay_as_they_are(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        for each in chain.memory:
            if each.config.value("allow_mode_override"):
                yield warning(
                    "mode-override",
                    each.config.where("allow_mode_override"),
                    "the sidecar never overrides modes, and an override that does not restate every body mode loses a"
                    " body",
                    "leave allow_mode_override out",
                )
            for name in ("request_attributes", "response_attributes"):
                if each.config.value(name):
                    yield warning(
                        "attributes-unused",
                        each.config.where(name),
                        "the sidecar reads no attributes; they cost with every request, and a whole map such as"
                        " request.headers arrives as useless text",
                        f"leave {name} out",
                    )


def bodies_may_be_changed(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        for each in chain.memory:
            rules = each.config.get("mutation_rules")
            forbids = _forbids_length(rules) if rules is not None and each.role is not Role.RETAIN else None
            if rules is not None and forbids is not None:
                yield error(
                    "mutation-rules",
                    rules.where(forbids),
                    "a changed body needs a changed content-length, which is not allowed here: Envoy answers 500",
                    f"leave {forbids} out, or allow content-length",
                )


def _forbids_length(rules: At) -> str | None:
    """Which rule forbids to change content-length; an expression beats the rule for all."""
    if regex_matches(rules.get("disallow_expression"), "content-length"):
        return "disallow_expression"
    allowed = regex_matches(rules.get("allow_expression"), "content-length")
    return "disallow_all" if rules.value("disallow_all") and not allowed else None


def headers_are_forwarded(case: Case) -> Iterator[Finding]:
    """Rules on which headers are sent must let those through that an exchange is understood by."""
    needed = (":path", ":method", "content-type", case.config.memory.identity.user_header)
    for chain in case.memory_chains:
        for each in chain.memory:
            rules = each.config.get("forward_rules")
            held = [name for name in needed if rules is not None and not _forwarded(rules, name)]
            if held and rules is not None:
                yield error(
                    "headers-not-forwarded",
                    rules.path,
                    f"{each.name} is not sent {', '.join(held)}",
                    "allow them, or leave forward_rules out",
                )


def _forwarded(rules: At, name: str) -> bool:
    allowed, disallowed = rules.get("allowed_headers"), rules.get("disallowed_headers")
    if disallowed is not None and _listed(disallowed, name):
        return False
    return allowed is None or _listed(allowed, name)


def _listed(headers: At, name: str) -> bool:
    return any(text_matches(pattern, name) for pattern in headers.all("patterns"))


def _has_observer(chain: Chain) -> bool:
    return any(each.role is Role.RETAIN for each in chain.memory)


def _mode(each: Applied, name: str) -> str:
    value = each.mode.value(name) if each.mode is not None else None
    return value.name if value is not None else "NONE" if "body" in name else "DEFAULT"


def _mode_place(each: Applied, name: str) -> str:
    return each.mode.where(name) if each.mode is not None else each.filter.config.where("processing_mode")


def _named(body: str) -> str:
    return "not at all" if body == "NONE" else f"in mode {body}"


def _observer(name: str, body: str, side: str) -> str:
    return f"{name} gets the bodies of {side} {_named(body)}: nothing can be learned from them"


def _replaced_as_a_whole(each: Applied) -> str:
    own = each.filter.config.get("processing_mode")
    overridden = each.mode is not None and own is not None and each.mode.path != own.path
    return "; a route's processing_mode replaces the filter's as a whole" if overridden else ""


def _headers_skipped(each: Applied) -> Finding:
    return error(
        "response-headers-skipped",
        _mode_place(each, "response_header_mode"),
        f"{each.filter.name} is not sent the answer's headers: it cannot tell an answer from an error page",
        "response_header_mode: SEND",
    )


def _full_duplex(name: str, where: str) -> Finding:
    return warning(
        "full-duplex",
        where,
        f"{name} uses FULL_DUPLEX_STREAMED, which knows neither a timeout nor failing open: a dead sidecar is a 500",
        "BUFFERED for requests and STREAMED for answers, where your gateway offers them",
    )
