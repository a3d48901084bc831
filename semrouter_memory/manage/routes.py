"""The routes under /v1/memory, the same for users and operators; who acts is the application's to say.

The application puts an `Access` into its state; each request's scope comes from there, never from its body.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import StreamingResponse

from semrouter_memory.codec.base import BodySettings
from semrouter_memory.config import IdentityConfig
from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.exchange.events import Headers
from semrouter_memory.exchange.identity import authenticated_user, scope_of
from semrouter_memory.manage.faults import refuse_unauthenticated
from semrouter_memory.manage.schemas import (
    MAX_PAGE,
    Deleted,
    DeletedAll,
    ErrorJson,
    HitJson,
    HitList,
    MemoryJson,
    MemoryList,
    SearchRequest,
    StoreRequest,
    UpdateRequest,
)
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import Memory, MemoryType, Reach, Reason, Scope

PREFIX = "/v1/memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the routes work with.

    Attributes:
        user_of: the user that a request acts for; raises `Refusal` when there is none.
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
            raise refuse_unauthenticated("the identity is malformed or given twice", user.value)
        if not user:
            raise refuse_unauthenticated("no authenticated user: a filter in front must set one", Reason.NO_IDENTITY)
        return user

    return user_of


def _access(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access)
    return access


def _user(request: Request, access: Annotated[Access, Depends(_access)]) -> str:
    return access.user_of(request)


def _only(*names: str) -> Any:
    """Refuses query parameters that a route does not know, and repeated ones.

    A mistyped `project_id` must not widen a deletion to everything.
    """

    def check(request: Request, access: Annotated[Access, Depends(_access)]) -> None:
        given = request.query_params
        for name in given:
            if name not in names and name not in access.extra_parameters:
                raise InvalidRequestError("unknown query parameter", field=name)
            if name != "type" and len(given.getlist(name)) > 1:
                raise InvalidRequestError("given more than once", field=name)

    return Depends(check)


def _says_whose(request: Request) -> None:
    if not request.query_params.get("user_id"):
        raise InvalidRequestError(
            "deleting all memories needs to be told whose: ?user_id=..., and &project_id=... for one project",
            field="user_id",
        )


def _errors(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """`default` keeps the framework from describing a 422 that never comes."""
    common = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)
    described: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorJson, "description": "Error"}}
    for status in (*common, *statuses):
        described[int(status)] = {"model": ErrorJson, "description": status.phrase}
    return described


User = Annotated[str, Depends(_user)]
Api = Annotated[Access, Depends(_access)]
MemoryId = Annotated[str, Path(description="The memory's id.", examples=["mem_01890a5d-ac96-774b-bcce-b302099a8057"])]
ProjectFilter = Annotated[
    str | None, Query(description='Only this project; "" only memories without a project; without it every project.')
]

router = APIRouter(prefix=PREFIX, tags=["memory"])


@router.get(
    "", summary="List memories", responses=_errors(), dependencies=[_only("type", "limit", "cursor", "project_id")]
)
async def list_memories(
    *,
    user: User,
    api: Api,
    types: Annotated[
        list[MemoryType] | None, Query(alias="type", description="Only these types; may be repeated.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: Annotated[str, Query(description="`next_cursor` of the page before.")] = "",
    project_id: ProjectFilter = None,
) -> MemoryList:
    """Active memories, newest first: neither superseded nor expired."""
    page = await api.service.page(
        api.scope(user, project_id), limit=limit, cursor=cursor, types=_types(types), reach=_reach(project_id)
    )
    return MemoryList(data=[MemoryJson.of(memory) for memory in page.memories], next_cursor=page.cursor or None)


@router.post("", summary="Store a memory", status_code=HTTPStatus.CREATED, responses=_errors(), dependencies=[_only()])
async def store_memory(user: User, api: Api, body: StoreRequest) -> MemoryJson:
    """Remember a statement. What looks like a secret (key, password, card number) is refused."""
    return MemoryJson.of(await api.service.store(api.scope(user, body.project_id), body.new_memory()))


@router.delete(
    "",
    summary="Forget everything of a user, or of one of their projects",
    responses=_errors(HTTPStatus.NOT_FOUND),
    dependencies=[_only("user_id", "project_id"), Depends(_says_whose)],
)
async def forget_memories(
    user: User,
    api: Api,
    user_id: Annotated[str, Query(min_length=1, description="Must be the authenticated user.")],
    project_id: Annotated[str | None, Query(min_length=1, description="Without it, every project.")] = None,
) -> DeletedAll:
    """Invisible to every read when the call returns; conversations that still wait to be learned from go too."""
    if user_id != user:
        raise NotFoundError("no such user")
    deleted = await api.service.forget_all(api.scope(user, project_id), _reach(project_id))
    return DeletedAll(user_id=user, project_id=project_id, deleted=deleted)


@router.post("/search", summary="Search memories", responses=_errors(), dependencies=[_only()])
async def search_memories(user: User, api: Api, body: SearchRequest) -> HitList:
    """The active memories nearest to a query, best first."""
    hits = await api.service.search(
        api.scope(user, body.project_id),
        body.query,
        limit=body.limit,
        types=_types(body.types),
        reach=_reach(body.project_id),
        threshold=body.threshold,
    )
    return HitList(data=[HitJson.of_hit(hit) for hit in hits])


@router.get(
    "/export",
    summary="Export all memories",
    response_class=StreamingResponse,
    responses={**_errors(), 200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
    dependencies=[_only()],
)
async def export_memories(user: User, api: Api) -> StreamingResponse:
    """Every active memory, newest first, one JSON object a line. The connection is cut when it cannot be completed."""
    memories = api.service.export(api.scope(user, None))
    # The first one is fetched before the response begins, so that a store that is away is a 503 and no broken stream.
    first = [memory async for memory in _head(memories)]
    return StreamingResponse(_lines(first, memories), media_type="application/x-ndjson")


@router.get("/{memory_id}", summary="Get a memory", responses=_errors(HTTPStatus.NOT_FOUND), dependencies=[_only()])
async def get_memory(user: User, api: Api, memory_id: MemoryId) -> MemoryJson:
    """One memory of the user; one that a newer memory superseded, too."""
    return MemoryJson.of(await api.service.get(api.scope(user, None), memory_id))


@router.patch(
    "/{memory_id}", summary="Change a memory", responses=_errors(HTTPStatus.NOT_FOUND), dependencies=[_only()]
)
async def update_memory(user: User, api: Api, memory_id: MemoryId, body: UpdateRequest) -> MemoryJson:
    """Fields that are not sent stay as they are; `observed_at` becomes now, as if the statement were said again."""
    if not body.model_fields_set:
        raise InvalidRequestError("nothing to change: send at least one field")
    api.scope(user, body.project_id)
    return MemoryJson.of(await api.service.update(api.scope(user, None), memory_id, body.edit()))


@router.delete(
    "/{memory_id}", summary="Forget a memory", responses=_errors(HTTPStatus.NOT_FOUND), dependencies=[_only()]
)
async def forget_memory(user: User, api: Api, memory_id: MemoryId) -> Deleted:
    """Invisible to every read when the call returns; the conversation turns it was learned from are deleted too."""
    await api.service.forget(api.scope(user, None), memory_id)
    return Deleted(id=memory_id)


def _types(types: list[MemoryType] | None) -> frozenset[MemoryType] | None:
    return frozenset(types) if types else None


def _reach(project_id: str | None) -> Reach:
    return Reach.ALL if project_id is None else Reach.EXACT


async def _head(memories: AsyncIterator[Memory]) -> AsyncIterator[Memory]:
    async for memory in memories:
        yield memory
        return


async def _lines(first: list[Memory], rest: AsyncIterator[Memory]) -> AsyncIterator[bytes]:
    for memory in first:
        yield _line(memory)
    async for memory in rest:
        yield _line(memory)


def _line(memory: Memory) -> bytes:
    return MemoryJson.of(memory).model_dump_json().encode() + b"\n"
