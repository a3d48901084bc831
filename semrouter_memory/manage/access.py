"""Who may do what: the scope that a request acts in, and what every route checks of it.

The application puts an `Access` into its state; each request's scope comes from there, never from its body.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, get_origin

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.dependencies.models import Dependant

from semrouter_memory.codec.base import BodySettings
from semrouter_memory.config import IdentityConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.exchange.events import Headers
from semrouter_memory.exchange.identity import authenticated_user, scope_of
from semrouter_memory.manage.exception_handlers import unauthenticated
from semrouter_memory.manage.schemas import ErrorJson
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.manage.times import observed_in
from semrouter_memory.model import Period, Reach, Reason, Scope

PREFIX = "/v1/memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the routes work with.

    Attributes:
        user_of: the user that a request acts for; raises an `HTTPException` when there is none.
        user_parameters: query parameters that `user_of` reads.
    """

    service: MemoryService
    identity: IdentityConfig
    user_of: Callable[[Request], str]
    user_parameters: frozenset[str] = frozenset()

    def scope(self, user: str, project: str | None) -> Scope:
        """The scope of a user, in a project where one is named.

        Raises:
            InvalidRequestError: no project can be called like that.
        """
        scope = scope_of(user, BodySettings(project_id=project), self.identity)
        if isinstance(scope, Reason):
            raise InvalidRequestError("project_id is too long or not printable", field="project_id")
        return scope


def user_in_header(identity: IdentityConfig) -> Callable[[Request], str]:
    """The user that Envoy's filters authenticated, read as the memory filter reads it."""

    def user_of(request: Request) -> str:
        raw = request.headers.raw
        fields = [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in raw]
        user = authenticated_user(Headers(fields), {}, identity)
        if isinstance(user, Reason):
            raise unauthenticated("the identity is malformed or given twice", user.value)
        if not user:
            raise unauthenticated("no authenticated user: a filter in front must set one", Reason.NO_IDENTITY)
        return user

    return user_of


def access_of(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access)
    return access


def _user(request: Request, access: Annotated[Access, Depends(access_of)]) -> str:
    return access.user_of(request)


def _query_parameters(dependant: Dependant, access: Access) -> Iterator[tuple[str, bool]]:
    """The query parameters that a route declares, and whether each may be repeated."""
    if dependant.call is _user:
        yield from dict.fromkeys(access.user_parameters, False).items()
    for each in dependant.query_params:
        kind = each.field_info.annotation
        yield each.alias, any(get_origin(part) is list for part in (kind, *getattr(kind, "__args__", ())))
    for dependency in dependant.dependencies:
        yield from _query_parameters(dependency, access)


def _only_declared(request: Request, access: Annotated[Access, Depends(access_of)]) -> None:
    """Refuses query parameters that the route does not declare, and repeated ones.

    A mistyped `project_id` must not widen a deletion to everything.
    """
    known = dict(_query_parameters(request.scope["route"].dependant, access))
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


def ndjson_body(*kinds: str) -> dict[str, Any]:
    """Describes a request body of lines, which the framework does not parse."""
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


NDJSON = "application/x-ndjson"
User = Annotated[str, Depends(_user)]
Api = Annotated[Access, Depends(access_of)]
MemoryId = Annotated[str, Path(description="The memory's id.", examples=["mem_01890a5d-ac96-774b-bcce-b302099a8057"])]
ProjectFilter = Annotated[
    str | None, Query(description='Only this project; "" only memories without a project; without it every project.')
]

Observed = Annotated[Period, Depends(observed_in)]


def reach_of(project_id: str | None) -> Reach:
    return Reach.ALL if project_id is None else Reach.EXACT
