"""Where a user that a header mutation sets comes from: from what vouches for it, from the client, or from nowhere. Pure.

Strategy: the value's command operators tell. What repeats a part of the request is the client's word, unless a filter in
front sets that header. What cannot be told counts as vouched for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.chains import Chain, config_of
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.doctor.place import At

OPAQUE = frozenset({"ExtAuthz", "Lua", "Wasm", "Config", "DynamicModuleFilter", "ExternalProcessor", "Composite"})
"""Filters of which the configuration does not tell what headers they set."""
_AUTHENTICATORS = frozenset({"ApiKeyAuth", "JwtAuthentication", "BasicAuth"})
_HEADER = re.compile(r"%(?:REQ|REQ_WITHOUT_QUERY|REQUEST_HEADER)\(([^):]*:?[^)]*)\)")
"""An operator that repeats request headers: `%REQ(first?second):length%`."""
_OF_CLIENT = re.compile(
    r"%(?:PATH|QUERY_PARAMS?|COOKIE|REQUESTED_SERVER_NAME)\b"
    r"|%CEL\([^%]*\brequest\.(?:headers|path|url_path|query|host)\b"
)
_OPERATOR = re.compile(r"%[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?::[0-9]+)?%")
_BY_ENVOY = "x-forwarded-client-cert"
"""Envoy writes it itself, after it verified the certificate."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A mutation that sets the user.

    Attributes:
        at: the header with its value.
        index: of the filter that does it; -1: before all filters.
    """

    at: At
    index: int

    @property
    def value(self) -> str:
        """The value with its operators; a doubled percent sign is text."""
        return str(self.at.value("value")).replace("%%", "")


def users_come_from_who_vouches(case: Case) -> Iterator[Finding]:
    """What a client sends is not who it is, whichever header it is copied from."""
    header = case.config.memory.identity.user_header
    for chain in case.guarded_chains:
        limit = min((each.index for each in chain.memory), default=len(chain.filters))
        for claim in _claims(chain, header):
            if claim.index < limit and not _overwritten(chain, claim, header, limit):
                yield from _judged(chain, claim, header)
        for at in _added_on_the_api(case, chain, header):
            yield from _judged(chain, Claim(at, len(chain.filters)), header)


def _added(mutation: At, header: str) -> At | None:
    """The header that a mutation sets, when it is that one."""
    found = mutation.descend("append", "header")
    return found if found is not None and found.value("key").lower() == header else None


def sets(entry: At, header: str) -> bool:
    """Whether a filter sets the header from what it verified; one that does not tell may."""
    config = config_of(entry)
    if config is None or config.message is None:
        return True
    kind = config.type.rpartition(".")[2]
    if kind == "ApiKeyAuth":
        forwarding = config.get("forwarding")
        return forwarding is not None and forwarding.value("header").lower() == header
    if kind == "BasicAuth":
        return str(config.value("forward_username_header")).lower() == header
    if kind == "JwtAuthentication":
        claims = [claim for provider in config.entries("providers") for claim in provider.all("claim_to_headers")]
        return header in {claim.value("header_name").lower() for claim in claims}
    return kind in OPAQUE


def _judged(chain: Chain, claim: Claim, header: str) -> Iterator[Finding]:
    if _is_of_client(chain, claim):
        yield error(
            "user-from-client",
            claim.at.where("value"),
            f"{header} is set from what the client sends: whoever names a user is that user",
            "take it from what is verified: a key, a token, or the client's certificate (%DOWNSTREAM_PEER_SUBJECT%)",
        )
    elif claim.value and not _OPERATOR.search(claim.value):
        yield warning(
            "user-constant",
            claim.at.where("value"),
            f"{header} is the same for all: everybody is one user and sees the others' memories",
            "for one person alone; else authenticate users",
        )


def _is_of_client(chain: Chain, claim: Claim) -> bool:
    if _OF_CLIENT.search(claim.value):
        return True
    read = [name.strip().lower() for found in _HEADER.findall(claim.value) for name in found.split("?")]
    ours = {each.at.path for each in chain.memory}
    before = [entry for entry in chain.filters[: max(claim.index, 0)] if entry.path not in ours]
    return any(name != _BY_ENVOY and not any(sets(entry, name) for entry in before) for name in read)


def _claims(chain: Chain, header: str) -> list[Claim]:
    """The mutations that set the header and are not undone by a later one of the same list."""
    lists: list[tuple[int, list[At]]] = []
    for extension in chain.manager.all("early_header_mutation_extensions"):
        config = extension.opened("typed_config")
        if config is not None and config.is_a("HeaderMutation"):
            lists.append((-1, config.all("mutations")))
    for index, entry in enumerate(chain.filters):
        filtered = config_of(entry)
        inner = filtered.get("mutations") if filtered is not None and filtered.is_a("HeaderMutation") else None
        if inner is not None and not entry.value("disabled"):
            lists.append((index, inner.all("request_mutations")))
    return [Claim(at, index) for index, mutations in lists for at in kept_in(mutations, header)]


def kept_in(mutations: list[At], header: str) -> list[At]:
    """Where a list of mutations sets the header, without what it removes again."""
    kept: list[At] = []
    for mutation in mutations:
        if str(mutation.value("remove")).lower() == header:
            kept.clear()
        elif (at := _added(mutation, header)) is not None:
            kept.append(at)
    return kept


def _overwritten(chain: Chain, claim: Claim, header: str, limit: int) -> bool:
    """Whether a filter that authenticates sets the header afterwards."""
    behind = [config_of(entry) for entry in chain.filters[claim.index + 1 : limit] if sets(entry, header)]
    return any(config is not None and config.type.rpartition(".")[2] in _AUTHENTICATORS for config in behind)


def _added_on_the_api(case: Case, chain: Chain, header: str) -> Iterator[At]:
    """What routes add after all filters is what the management API gets."""
    for route in case.api_routes(chain):
        for level in route.levels:
            headers = [at for option in level.all("request_headers_to_add") if (at := option.get("header")) is not None]
            yield from (at for at in headers if at.value("key").lower() == header)
