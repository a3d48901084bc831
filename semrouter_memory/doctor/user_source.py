"""Which filters set the identity header, in their order, and from what. Pure.

Strategy: the configuration of an authenticating filter tells whether it sets the header. The value of a header mutation
has command operators; one that repeats a part of the request is the client's claim, unless a filter in front sets that
part. A filter whose configuration does not tell counts as one that verifies the user.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from semrouter_memory.doctor.filter_chains import HttpFilterChain, config_of
from semrouter_memory.doctor.matching import text_matches
from semrouter_memory.doctor.node import Node

_OPAQUE = frozenset({"ExtAuthz", "Lua", "Wasm", "Config", "DynamicModuleFilter", "ExternalProcessor", "Composite"})
"""Filters of which the configuration does not tell what headers they set."""
AUTHENTICATORS = frozenset({"ApiKeyAuth", "JwtAuthentication", "BasicAuth"})
_HEADER = re.compile(r"%(?:REQ|REQ_WITHOUT_QUERY|REQUEST_HEADER)\(([^):]*:?[^)]*)\)")
"""An operator that repeats request headers: `%REQ(first?second):length%`."""
_FROM_REQUEST = re.compile(
    r"%(?:PATH|QUERY_PARAMS?|COOKIE|REQUESTED_SERVER_NAME)\b"
    r"|%CEL\([^%]*\brequest\.(?:headers|path|url_path|query|host)\b"
)
_OPERATOR = re.compile(r"%[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?::[0-9]+)?%")
_SET_BY_ENVOY = "x-forwarded-client-cert"
"""Envoy writes it itself, after it verified the certificate."""
_EARLY = -1
"""The index of mutations that run before all filters."""


class Source(Enum):
    VERIFIED = auto()
    """An authenticating filter."""
    MUTATION = auto()
    """A header mutation."""
    OPAQUE = auto()
    """A filter that may set the header."""


@dataclass(frozen=True, slots=True)
class HeaderSetter:
    """A place that sets a header.

    Attributes:
        node: the filter; of a mutation, the header with its value.
        index: of the filter.
    """

    source: Source
    node: Node
    index: int

    @property
    def is_early(self) -> bool:
        return self.index == _EARLY

    @property
    def value(self) -> str:
        """A mutation's value with its operators; a doubled percent sign is text."""
        return self.node.get("value").text.replace("%%", "")

    @property
    def is_constant(self) -> bool:
        return bool(self.value) and not _OPERATOR.search(self.value)


def setters(chain: HttpFilterChain, header: str, *, claims: bool = False) -> list[HeaderSetter]:
    """The places in front of the upstream that set a header, in the order in which they run.

    Args:
        claims: a token's claims in dynamic metadata count, too.
    """
    early = [HeaderSetter(Source.MUTATION, node, _EARLY) for node in _set_by(early_mutations(chain), header)]
    return [
        *early,
        *(setter for index, entry in chain.others for setter in _set_in(index, entry, header, claims=claims)),
    ]


def _set_in(index: int, entry: Node, header: str, *, claims: bool) -> Iterator[HeaderSetter]:
    config = config_of(entry)
    if is_opaque(entry):
        if "memory" not in entry.get("name").text:
            yield HeaderSetter(Source.OPAQUE, entry, index)
    elif config.kind == "HeaderMutation" and not entry.get("disabled").flag:
        for node in _set_by(filter_mutations(entry), header):
            yield HeaderSetter(Source.MUTATION, node, index)
    elif header in _forwarded_to(config) or (claims and _keeps_claims(config)):
        yield HeaderSetter(Source.VERIFIED, entry, index)


def is_opaque(entry: Node) -> bool:
    config = config_of(entry)
    if not config:
        return bool(entry.get("config_discovery"))
    return config.kind in _OPAQUE or not config.type.startswith("envoy.")


def _forwarded_to(config: Node) -> set[str]:
    """The headers in which an authenticating filter passes on who was authenticated."""
    if config.kind == "ApiKeyAuth":
        return {config.get("forwarding", "header").text.lower()}
    if config.kind == "BasicAuth":
        return {config.get("forward_username_header").text.lower()}
    claims = [claim for provider in _providers(config) for claim in provider.items("claim_to_headers")]
    return {claim.get("header_name").text.lower() for claim in claims}


def _keeps_claims(config: Node) -> bool:
    return any(provider.get("payload_in_metadata").text for provider in _providers(config))


def _providers(config: Node) -> Sequence[Node]:
    return [*config.entries("providers").values()] if config.kind == "JwtAuthentication" else []


def is_from_client(chain: HttpFilterChain, setter: HeaderSetter) -> bool:
    """Whether a mutation's value repeats what the client sends."""
    if _FROM_REQUEST.search(setter.value):
        return True
    read = [name.strip().lower() for found in _HEADER.findall(setter.value) for name in found.split("?")]
    return any(name != _SET_BY_ENVOY and not _is_set_before(chain, name, setter.index) for name in read)


def _is_set_before(chain: HttpFilterChain, header: str, index: int) -> bool:
    return any(each.index < index and each.source is not Source.MUTATION for each in setters(chain, header))


def last_setter(chain: HttpFilterChain, header: str) -> HeaderSetter | None:
    """The filter whose value is the user: the last one that is known to verify it, else the last that may."""
    enabled = [each for each in setters(chain, header) if not each.node.get("disabled").flag]
    for source in (Source.VERIFIED, Source.OPAQUE):
        found = [each for each in enabled if each.source is source]
        if found:
            return found[-1]
    return None


def early_mutations(chain: HttpFilterChain) -> list[Node]:
    configs = [entry.get("typed_config") for entry in chain.manager.items("early_header_mutation_extensions")]
    return [mutation for config in configs if config.kind == "HeaderMutation" for mutation in config.items("mutations")]


def filter_mutations(entry: Node) -> list[Node]:
    """The mutations of a header_mutation filter; they run in its place among the filters."""
    config = config_of(entry)
    return config.get("mutations").items("request_mutations") if config.kind == "HeaderMutation" else []


def removes(mutation: Node, header: str) -> bool:
    if removed := mutation.get("remove").text:
        return removed.lower() == header
    return text_matches(mutation.get("remove_on_match", "key_matcher"), header) is True


def _set_by(mutations: Sequence[Node], header: str) -> list[Node]:
    """Where a list of mutations sets the header, without what it removes again."""
    kept: list[Node] = []
    for mutation in mutations:
        added = mutation.get("append", "header")
        if mutation.get("remove").text.lower() == header:
            kept.clear()
        elif added.get("key").text.lower() == header:
            kept.append(added)
    return kept
