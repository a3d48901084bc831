"""Who may do what: the scope that a request acts in, and what every route checks of it.

The application puts an `Access` into its state; each request's scope comes from there, never from its body.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request

from semrouter_memory.codec.base import BodySettings
from semrouter_memory.config import IdentityConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.exchange.events import Headers
from semrouter_memory.exchange.identity import authenticated_user, scope_of
from semrouter_memory.manage.exception_handlers import unauthenticated
from semrouter_memory.manage.schemas import ErrorJson
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import Reach, Reason, Scope

PREFIX = "/v1/memory"

_REPEATABLE = frozenset({"type", "state"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the routes work with.

    Attributes:
        user_of: the user that a request acts for; raises an `HTTPException` when there is none.
        extra_parameters: query parameters that `user_of` reads.
    """

    service: MemoryService
    identity: IdentityConfig
    user_of: Callable[[Request], str]
    extra_parameters: frozenset[str] = frozenset()

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


def only(*names: str) -> Any:
    """Refuses query parameters that a route does not know, and repeated ones.

    A mistyped `project_id` must not widen a deletion to everything.
    """

    def check(request: Request, access: Annotated[Access, Depends(access_of)]) -> None:
        _check_parameters(request, access.extra_parameters.union(names))

    return Depends(check)


def exactly(*names: str) -> Any:
    """Same, for a route without an owner: what says whose memories are meant is unknown there, too."""

    def check(request: Request) -> None:
        _check_parameters(request, frozenset(names))

    return Depends(check)


def _check_parameters(request: Request, known: frozenset[str]) -> None:
    given = request.query_params
    for name in given:
        if name not in known:
            raise InvalidRequestError("unknown query parameter", field=name)
        if name not in _REPEATABLE and len(given.getlist(name)) > 1:
            raise InvalidRequestError("given more than once", field=name)


def says_whose(request: Request) -> None:
    if not request.query_params.get("user_id"):
        raise InvalidRequestError(
            "deleting all memories needs to be told whose: ?user_id=..., and &project_id=... for one project",
            field="user_id",
        )


def errors(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """`default` keeps the framework from describing a 422 that never comes."""
    common = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)
    described: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorJson, "description": "Error"}}
    for status in (*common, *statuses):
        described[int(status)] = {"model": ErrorJson, "description": status.phrase}
    return described


User = Annotated[str, Depends(_user)]
Api = Annotated[Access, Depends(access_of)]
MemoryId = Annotated[str, Path(description="The memory's id.", examples=["mem_01890a5d-ac96-774b-bcce-b302099a8057"])]
ProjectFilter = Annotated[
    str | None, Query(description='Only this project; "" only memories without a project; without it every project.')
]


def reach_of(project_id: str | None) -> Reach:
    return Reach.ALL if project_id is None else Reach.EXACT
