"""The way of a request header through a filter chain: where it is removed and set, in their order, and from what. Pure.

Strategy: early header mutations run before every filter, filters in their order, each where the route enables it. The
configuration of an authenticating filter tells whether it sets the header. The value of a header mutation has command
operators; one that repeats a part of the request is the client's claim, unless a filter in front sets that part. A filter
whose configuration does not tell counts as one that verifies the user.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from semrouter_memory.doctor.gateway import GatewayRoute, HttpFilter, HttpFilterChain
from semrouter_memory.doctor.node import Node, text_matches

_OPAQUE = frozenset({"ExtAuthz", "Lua", "Wasm", "DynamicModuleFilter", "ExternalProcessor", "Composite"})
"""Filters of which the configuration does not tell what headers they set; the Go filter's is named as others' are."""
_GO = "envoy.extensions.filters.http.golang."
_HEADER = re.compile(r"%(?:REQ|REQ_WITHOUT_QUERY|REQUEST_HEADER)\(([^):]*:?[^)]*)\)")
"""An operator that repeats request headers: `%REQ(first?second):length%`."""
_FROM_REQUEST = re.compile(
    r"%(?:PATH|QUERY_PARAMS?|COOKIE|REQUESTED_SERVER_NAME)\b"
    r"|%CEL\([^%]*\brequest\.(?:headers|path|url_path|query|host)\b"
)
_OPERATOR = re.compile(r"%[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?::[0-9]+)?%")
_SET_BY_ENVOY = "x-forwarded-client-cert"
"""Envoy writes it itself, after it verified the certificate."""
EARLY = -1


class Source(Enum):
    VERIFIED = auto()
    """An authenticating filter."""
    CLAIM = auto()
    """An authenticating filter that keeps a token's claims as dynamic metadata, which no header mutation removes."""
    MUTATION = auto()
    """A header mutation."""
    OPAQUE = auto()
    """A filter that may set the header."""
    REMOVAL = auto()
    """A header mutation that removes it."""


@dataclass(frozen=True, slots=True)
class HeaderStep:
    """A place that sets or removes a header.

    Attributes:
        node: the filter; of a mutation, the header with its value, or the removal.
        index: of the filter; EARLY for mutations that run before all filters.
    """

    source: Source
    node: Node
    index: int

    @property
    def value(self) -> str:
        """A mutation's value with its operators; a doubled percent sign is text."""
        return self.node.get("value").text.replace("%%", "")

    @property
    def is_constant(self) -> bool:
        return bool(self.value) and not _OPERATOR.search(self.value)


def steps(chain: HttpFilterChain, header: str, route: GatewayRoute, *, claims: bool = False) -> list[HeaderStep]:
    """All steps of a header in their order.

    Args:
        claims: a token's claims in dynamic metadata count as a header that is set.
    """
    extensions = [entry.get("typed_config") for entry in chain.manager.items("early_header_mutation_extensions")]
    early = [mutation for config in extensions for mutation in config.items("mutations")]
    found = [*_mutated(early, header, EARLY)]
    for each in route.filters:
        if each.is_enabled and not each.role:
            found += _in_filter(each, header, claims=claims)
    return found


def _in_filter(each: HttpFilter, header: str, *, claims: bool) -> Iterator[HeaderStep]:
    config, entry, index = each.config, each.entry, each.index
    if _is_opaque(each):
        if "memory" not in each.name:
            yield HeaderStep(Source.OPAQUE, entry, index)
    elif config.kind == "HeaderMutation":
        # A route's own mutations follow the filter's, the most specific level's first.
        mutations = [part.get("mutations").items("request_mutations") for part in (config, *each.overrides)]
        yield from _mutated([mutation for part in mutations for mutation in part], header, index)
    elif claims and any(provider.get("payload_in_metadata").text for provider in _providers(config)):
        yield HeaderStep(Source.CLAIM, entry, index)
    elif header in _forwarded_to(config):
        yield HeaderStep(Source.VERIFIED, entry, index)


def setters(chain: HttpFilterChain, header: str, route: GatewayRoute, *, claims: bool = False) -> list[HeaderStep]:
    """The steps that set a header, without those that a removal in front of the memory filters undoes."""
    found: list[HeaderStep] = []
    for step in steps(chain, header, route, claims=claims):
        if step.source is not Source.REMOVAL:
            found.append(step)
        elif step.index < chain.first_memory:
            found = [each for each in found if each.source is Source.CLAIM]
    return found


def _is_opaque(each: HttpFilter) -> bool:
    config = each.config
    if not config:
        return bool(each.entry.get("config_discovery"))
    return config.kind in _OPAQUE or config.type.startswith(_GO) or not config.type.startswith("envoy.")


def _forwarded_to(config: Node) -> set[str]:
    """The headers in which an authenticating filter passes on who was authenticated."""
    if config.kind == "ApiKeyAuth":
        return {config.get("forwarding", "header").text.lower()}
    if config.kind == "BasicAuth":
        return {config.get("forward_username_header").text.lower()}
    claims = [claim for provider in _providers(config) for claim in provider.items("claim_to_headers")]
    return {claim.get("header_name").text.lower() for claim in claims}


def _providers(config: Node) -> Sequence[Node]:
    return [*config.entries("providers").values()] if config.kind == "JwtAuthentication" else []


def is_from_client(chain: HttpFilterChain, step: HeaderStep, route: GatewayRoute) -> bool:
    """Whether a mutation's value repeats what the client sends."""

    def is_trusted(name: str) -> bool:
        before = (each for each in setters(chain, name, route) if each.index < step.index)
        return name == _SET_BY_ENVOY or any(each.source is not Source.MUTATION for each in before)

    read = [name.strip().lower() for found in _HEADER.findall(step.value) for name in found.split("?")]
    return bool(_FROM_REQUEST.search(step.value)) or not all(is_trusted(name) for name in read)


def last_setter(chain: HttpFilterChain, header: str) -> HeaderStep | None:
    """The filter whose value is the user: the last one that is known to verify it, else the last that may."""
    found = [each for each in setters(chain, header, chain.bare) if each.source in (Source.VERIFIED, Source.OPAQUE)]
    return max(found, key=lambda each: (each.source is Source.VERIFIED, each.index), default=None)


def removals(chain: HttpFilterChain, header: str, route: GatewayRoute) -> list[Node]:
    """Where the header is removed after it was set, on its way to the upstream; the route's least specific level first."""
    places = [
        level.get("request_headers_to_remove")
        for level in route.levels
        if header in {name.lower() for name in level.texts("request_headers_to_remove")}
    ]
    found = steps(chain, header, route)
    last = max((position for position, step in enumerate(found) if step.source is not Source.REMOVAL), default=-1)
    return [*places, *(step.node for step in found[last + 1 :])]


def _mutated(mutations: Sequence[Node], header: str, index: int) -> Iterator[HeaderStep]:
    for mutation in mutations:
        added, removed = mutation.get("append", "header"), mutation.get("remove").text.lower()
        if removed == header or text_matches(mutation.get("remove_on_match", "key_matcher"), header):
            yield HeaderStep(Source.REMOVAL, mutation, index)
        elif added.get("key").text.lower() == header:
            yield HeaderStep(Source.MUTATION, added, index)
