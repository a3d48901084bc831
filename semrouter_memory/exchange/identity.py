"""Whose memories a request is about. Without an identity, or with contradicting ones, the request passes without memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from semrouter_memory.codec.base import BodySettings
from semrouter_memory.config import IdentityConfig
from semrouter_memory.exchange.events import Headers
from semrouter_memory.model import Json, OwnerKind, Reason, Scope


def authenticated_user(headers: Headers, metadata: Mapping[str, Json], config: IdentityConfig) -> str | Reason:
    """The user that Envoy's filters authenticated: the JWT claim where one is configured, else the header.

    Returns:
        The id; "" without an authenticated user; a reason when the id cannot be trusted (sent twice, malformed).
    """
    return _verified(headers, metadata, config, config.user_header, config.jwt_claim)


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks, as Envoy's filters say.

    Attributes:
        user: "" where only the body may say it.
        others: the organisation and the agent, where there are any.
    """

    user: str
    others: tuple[Scope, ...] = ()

    @property
    def agent(self) -> str:
        """The agent's id, "" without one."""
        return next((scope.owner_id for scope in self.others if scope.kind is OwnerKind.AGENT), "")


def requester_of(
    headers: Headers, metadata: Mapping[str, Json], config: IdentityConfig, of_route: Mapping[OwnerKind, str]
) -> Requester | Reason:
    """Who asks, or why that is not known.

    Args:
        of_route: the organisation and the agent of a request that names none.
    """
    user = authenticated_user(headers, metadata, config)
    if isinstance(user, Reason):
        return user
    if not user and not config.trust_body:
        return Reason.NO_IDENTITY
    scopes = []
    for kind, header, claim in (
        (OwnerKind.ORGANISATION, config.organisation_header, config.organisation_claim),
        (OwnerKind.AGENT, config.agent_header, config.agent_claim),
    ):
        found = _verified(headers, metadata, config, header, claim) or of_route.get(kind, "")
        if isinstance(found, Reason) or (found and not is_acceptable_id(found, config)):
            return Reason.BAD_IDENTITY
        if found:
            scopes.append(Scope(found, kind=kind))
    return Requester(user, tuple(scopes))


def administered(headers: Headers, config: IdentityConfig) -> Scope | None:
    """The organisation that the user administers, as a filter named it."""
    found = _verified(headers, {}, config, config.organisation_admin_header, None)
    return Scope(found, kind=OwnerKind.ORGANISATION) if found and not isinstance(found, Reason) else None


def _verified(
    headers: Headers, metadata: Mapping[str, Json], config: IdentityConfig, header: str, claim: str | None
) -> str | Reason:
    ids = list(_claims(metadata, config.jwt_namespace, claim)) if claim else []
    if not ids:
        ids = list(headers.all(header))
    if not ids:
        return ""
    # Two values mean that somebody added one to what the authenticating filter wrote.
    if len(set(ids)) > 1 or not is_acceptable_id(ids[0], config):
        return Reason.BAD_IDENTITY
    return ids[0]


def scope_of(user: str, body: BodySettings, config: IdentityConfig) -> Scope | Reason:
    """The scope of a request from its authenticated user and what the body claims."""
    if body.user_id is not None and body.user_id != user:
        if not (config.trust_body and is_acceptable_id(body.user_id, config)):
            return Reason.IDENTITY_MISMATCH if user else Reason.NO_IDENTITY
        user = body.user_id
    if not user:
        return Reason.NO_IDENTITY
    project = body.project_id or ""
    if project and not is_acceptable_id(project, config):
        return Reason.BAD_IDENTITY
    return Scope(user, project)


def is_acceptable_id(value: str, config: IdentityConfig) -> bool:
    """Whether an id of a user or a project is printable, not blank at its ends and within the bound.

    Lone surrogates, which a header that is no UTF-8 arrives with, are not printable.

    The one rule for all: what Envoy's filters authenticate, what a body names, the management API and doctor.
    """
    return 0 < len(value) <= config.max_id_chars and value.isprintable() and value == value.strip()


def _claims(metadata: Mapping[str, Json], name: str, claim_name: str) -> Iterator[str]:
    """The claim in the JWT filter's metadata: at its top, or inside the payload it names (`payload_in_metadata`)."""
    namespace = metadata.get(name)
    if not isinstance(namespace, Mapping):
        return
    for payload in (namespace, *namespace.values()):
        if isinstance(payload, Mapping) and isinstance(claim := payload.get(claim_name), str):
            yield claim
