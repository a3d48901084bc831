"""Who may do what: the scope that a request acts in, and what every route checks of it.

The application puts an `Access` into its state, and gives its routes the rule that decides for which owner a request acts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Annotated, Any, get_origin

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.dependencies.models import Dependant

from semrouter_memory.config import IdentityConfig
from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.exchange.events import Headers
from semrouter_memory.exchange.identity import administered, authenticated_user, is_acceptable_id, requester_of
from semrouter_memory.knowledge.service import KnowledgeService
from semrouter_memory.manage.http_server import unauthenticated
from semrouter_memory.manage.parameters import filter_in, observed_in
from semrouter_memory.manage.reflecting import Reflector
from semrouter_memory.manage.schemas import ErrorJson
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import MemoryFilter, OwnerKind, Period, Reach, Reason, Scope

PREFIX = "/v1/memory"
OWNER = "owner"
"""The query parameter that names another owner than the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the routes work with.

    Attributes:
        knowledge: the documents of organisations.
        reflector: answers questions.
    """

    service: MemoryService
    identity: IdentityConfig
    knowledge: KnowledgeService
    reflector: Reflector


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAccess(Access):
    """What they work with for the owner of one request.

    Attributes:
        headers: of the request, as the filter reads them.
    """

    owner: Scope
    headers: list[tuple[str, str]]

    @property
    def organisation(self) -> Scope | None:
        """The organisation whose documents the request may search: the owner, or the one that a filter named."""
        if self.owner.kind is OwnerKind.ORGANISATION:
            return self.owner
        found = requester_of(Headers(self.headers), {}, self.identity, {})
        others = () if isinstance(found, Reason) else found.others
        return next((scope for scope in others if scope.kind is OwnerKind.ORGANISATION), None)

    def scope(self, project: str | None) -> Scope:
        """The owner's scope, in a project where one is named.

        Raises:
            InvalidRequestError: no project can be called like that.
        """
        if project and not is_acceptable_id(project, self.identity):
            raise InvalidRequestError(
                f"project_id must have at most {self.identity.max_id_chars} characters, printable ones, and no blank at an end",
                field="project_id",
            )
        return self.owner.in_project(project or "")


# -- the owner: each port has one rule, a dependency of all its routes that act for an owner


def owner_in_header(identity: IdentityConfig) -> Callable[..., None]:
    """The user that Envoy's filters authenticated, read as the memory filter reads it; or the organisation in `owner`.

    The rule raises `NotFoundError` for an owner that is neither the user nor the organisation that the user administers.
    """

    def decide(
        request: Request,
        owner: Annotated[
            str | None,
            Query(description="Another owner: `org:acme`, for the organisation's administrators. Without it the user."),
        ] = None,
    ) -> None:
        headers = Headers(_fields_of(request))
        user = authenticated_user(headers, {}, identity)
        if isinstance(user, Reason):
            raise unauthenticated("the identity is malformed or given twice", user.value)
        if not user:
            raise unauthenticated("no authenticated user: a filter in front must set one", Reason.NO_IDENTITY)
        allowed = [scope for scope in (Scope(user), administered(headers, identity)) if scope is not None]
        acting = next((scope for scope in allowed if owner in {None, scope.owner}), None)
        if acting is None:
            raise NotFoundError("no such owner", kind="owner")
        request.state.owner, request.state.owner_parameters = acting, (OWNER,)

    return decide


def owner_in_query(identity: IdentityConfig) -> Callable[..., None]:
    """The owner that an operator names. The rule raises `InvalidRequestError` where none is named."""

    def decide(
        request: Request,
        # What the framework refused would leave the routes without an owner: its length is checked below.
        user_id: Annotated[
            str | None, Query(json_schema_extra={"minLength": 1}, description="The user to act for.")
        ] = None,
        owner: Annotated[str | None, Query(description="Or any owner: `org:acme`, `agent:travel-bot`.")] = None,
    ) -> None:
        try:
            scope = Scope(user_id or "") if owner is None else Scope.of_owner(owner)
        except ValueError:
            scope = Scope("")
        if not is_acceptable_id(scope.owner_id, identity):
            if owner is None:
                raise InvalidRequestError("say for which user: ?user_id=...", field="user_id")
            raise InvalidRequestError("must be user:, org: or agent: and an id", field=OWNER)
        request.state.owner, request.state.owner_parameters = scope, (OWNER, "user_id")

    return decide


def _fields_of(request: Request) -> list[tuple[str, str]]:
    """The headers as the filter reads them."""
    return [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in request.headers.raw]


def _access(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access)
    return access


def _owner_access(request: Request) -> OwnerAccess:
    access = _access(request)
    common = {each.name: getattr(access, each.name) for each in fields(access)}
    return OwnerAccess(**common, owner=request.state.owner, headers=_fields_of(request))


def _query_parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """The query parameters that a route declares, and whether each may be repeated."""
    for each in dependant.query_params:
        kind = each.field_info.annotation
        yield each.alias, any(get_origin(part) is list for part in (kind, *getattr(kind, "__args__", ())))
    for dependency in dependant.dependencies:
        yield from _query_parameters(dependency)


def _only_declared(request: Request) -> None:
    """Refuses query parameters that the route does not declare, and repeated ones.

    A mistyped `project_id` must not widen a deletion to everything.
    """
    by_rule = dict.fromkeys(getattr(request.state, "owner_parameters", ()), False)
    known = by_rule | dict(_query_parameters(request.scope["route"].dependant))
    for name in request.query_params:
        if name not in known:
            raise InvalidRequestError("unknown query parameter", field=name)
        if not known[name] and len(request.query_params.getlist(name)) > 1:
            raise InvalidRequestError("given more than once", field=name)


def _errors(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    return {int(status): {"model": ErrorJson, "description": status.phrase} for status in statuses}


NOT_FOUND = _errors(HTTPStatus.NOT_FOUND)
CONFLICT = _errors(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
TOO_LARGE = _errors(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def api_router(prefix: str, tag: str, *, in_schema: bool = True) -> APIRouter:
    """A router whose routes refuse undeclared query parameters and describe the errors that every route may answer."""
    common = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)
    # `default` keeps the framework from describing a 422 that never comes.
    described = {"default": {"model": ErrorJson, "description": "Error"}, **_errors(*common)}
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=described,
        dependencies=[Depends(_only_declared)],
        include_in_schema=in_schema,
    )


def raw_body(*kinds: str, **schema: str) -> dict[str, Any]:
    """Describes a request body of these content types, which the framework does not parse."""
    content = {kind: {"schema": {"type": "string", **schema}} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


NDJSON = "application/x-ndjson"
Api = Annotated[OwnerAccess, Depends(_owner_access)]
AllOwners = Annotated[Access, Depends(_access)]
"""Where no rule names an owner."""
MemoryId = Annotated[str, Path(description="The memory's id.", examples=["mem_01890a5d-ac96-774b-bcce-b302099a8057"])]
Observed = Annotated[Period, Depends(observed_in)]
Filter = Annotated[MemoryFilter, Depends(filter_in)]


def reach_of(project_id: str | None) -> Reach:
    return Reach.ALL if project_id is None else Reach.EXACT
