"""Checks of a chain's shape: its end, the names that other places call its filters by, and what is buffered in front."""

import difflib
from collections.abc import Iterator

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import Chain, Route, config_of
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.place import At, keyed

_PROTOCOL_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_MISSPELT = 0.85
"""How alike two names are, of 1, when one is meant to be the other."""
_MIB = 1024 * 1024


def the_router_stands_last(case: Case) -> Iterator[Finding]:
    for chain in case.memory_chains:
        routers = [index for index, entry in enumerate(chain.filters) if _is_router(entry)]
        where = chain.manager.where("http_filters")
        if not routers and not _is_unknown(chain.filters[-1]):
            yield error("no-router", where, "the chain does not end with the router: Envoy refuses it", "add it, last")
        elif routers and routers[0] != len(chain.filters) - 1:
            yield error(
                "router-not-last",
                chain.filters[routers[0]].path,
                "the router ends the chain: Envoy refuses filters behind it",
                "put it last",
            )


def protocol_options_have_their_name(case: Case) -> Iterator[Finding]:
    for cluster in case.clusters.values():
        for key, options in cluster.opened_map("typed_extension_protocol_options").items():
            if options.is_a("HttpProtocolOptions") and key != _PROTOCOL_OPTIONS:
                yield error(
                    "protocol-options-key",
                    options.path,
                    f"Envoy knows no protocol options of the name {key!r} and refuses the cluster",
                    f"{_PROTOCOL_OPTIONS} as the key",
                )


def overrides_name_filters(case: Case) -> Iterator[Finding]:
    """A misspelt override changes nothing; one for another chain's filter may be meant."""
    for chain in case.memory_chains:
        names = [str(entry.value("name")) for entry in chain.filters]
        levels = {level.path: level for route in chain.routes for level in route.levels}
        for level in levels.values():
            for name in level.value("typed_per_filter_config") or {}:
                near = difflib.get_close_matches(str(name), names, n=1, cutoff=_MISSPELT)
                if name not in names and near:
                    yield error(
                        "filter-unknown",
                        keyed(level.where("typed_per_filter_config"), str(name)),
                        f"the chain has no filter of the name {name!r}: this changes nothing",
                        f"is {near[0]} meant?",
                    )


def bodies_pass_the_buffer_filter(case: Case) -> Iterator[Finding]:
    """The buffer filter answers 413 to what is larger than its own limit."""
    wanted = case.config.server.max_body_bytes
    for chain in case.memory_chains:
        for entry in chain.filters[: chain.memory[-1].index]:
            for limit, where in _buffer_limits(chain, entry):
                if limit < wanted:
                    grade = error if limit <= _MIB else warning
                    yield grade(
                        "buffer-filter",
                        where,
                        f"requests above {limit / _MIB:.3g} MiB get 413 here; the sidecar takes {wanted / _MIB:.3g} MiB",
                        f"max_request_bytes: {wanted}, or no buffer filter: the memory filters buffer by themselves",
                    )


def _buffer_limits(chain: Chain, entry: At) -> Iterator[tuple[int, str]]:
    config = config_of(entry)
    if config is None or not config.is_a("Buffer"):
        return
    for route in chain.chat_routes:
        at = _buffer_on(route, entry, config)
        limit = at.value("max_request_bytes") if at is not None and route.remembers else None
        if at is not None and limit is not None:
            yield int(limit), at.where("max_request_bytes")


def _buffer_on(route: Route, entry: At, config: At) -> At | None:
    override = route.configured(entry.value("name"))
    if override is None:
        return None if entry.value("disabled") else config
    return None if override.value("disabled") else override.get("buffer") or config


def _is_router(entry: At) -> bool:
    config = config_of(entry)
    return config.is_a("Router") if config is not None else str(entry.value("name")).endswith(".router")


def _is_unknown(entry: At) -> bool:
    """Whether the filter is configured elsewhere, or of a type that is not known here."""
    config = config_of(entry)
    return config is None or config.message is None
