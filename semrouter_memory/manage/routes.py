"""The routes under /v1/memory, the same for users and operators; who acts is the application's to say (`access`)."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query

from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.manage.access import (
    PREFIX,
    Api,
    MemoryId,
    ProjectFilter,
    User,
    errors,
    only,
    reach_of,
    says_whose,
)
from semrouter_memory.manage.schemas import (
    MAX_PAGE,
    Deleted,
    DeletedAll,
    History,
    HitJson,
    HitList,
    MemoryJson,
    MemoryList,
    SearchRequest,
    StoreRequest,
    UpdateRequest,
)
from semrouter_memory.model import Form, Memory, MemoryType, Scope

router = APIRouter(prefix=PREFIX, tags=["memory"])


@router.get(
    "",
    summary="List memories",
    responses=errors(),
    dependencies=[only("type", "form", "limit", "cursor", "project_id", "include")],
)
async def list_memories(
    *,
    user: User,
    api: Api,
    types: Annotated[
        list[MemoryType] | None, Query(alias="type", description="Only these types; may be repeated.")
    ] = None,
    form: Annotated[Form | None, Query(description="Only quotes, or only statements.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: Annotated[str, Query(description="`next_cursor` of the page before.")] = "",
    project_id: ProjectFilter = None,
    include: Annotated[
        Literal["history"] | None, Query(description="`history`: superseded memories too; `superseded_at` marks them.")
    ] = None,
) -> MemoryList:
    """Active memories, newest first: neither superseded nor expired."""
    scope = api.scope(user, project_id)
    page = await api.service.page(
        scope,
        limit=limit,
        cursor=cursor,
        types=_types(types),
        form=form,
        reach=reach_of(project_id),
        history=include == "history",
    )
    return MemoryList(data=await _shown(api, scope, page.memories), next_cursor=page.cursor or None)


@router.post("", summary="Store a memory", status_code=HTTPStatus.CREATED, responses=errors(), dependencies=[only()])
async def store_memory(user: User, api: Api, body: StoreRequest) -> MemoryJson:
    """Remember a statement. What looks like a secret (key, password, card number) is refused."""
    scope = api.scope(user, body.project_id)
    (stored,) = await _shown(api, scope, [await api.service.store(scope, body.new_memory())])
    return stored


@router.delete(
    "",
    summary="Forget everything of a user, or of one of their projects",
    responses=errors(HTTPStatus.NOT_FOUND),
    dependencies=[only("user_id", "project_id"), Depends(says_whose)],
)
async def forget_memories(
    user: User,
    api: Api,
    user_id: Annotated[str, Query(min_length=1, description="Must be the authenticated user.")],
    project_id: Annotated[str | None, Query(min_length=1, description="Without it, every project.")] = None,
) -> DeletedAll:
    """Invisible to every read when the call returns; history, session state and turns that still wait go too."""
    if user_id != user:
        raise NotFoundError("no such user")
    deleted = await api.service.forget_all(api.scope(user, project_id), reach_of(project_id))
    return DeletedAll(user_id=user, project_id=project_id, deleted=deleted)


@router.post("/search", summary="Search memories", responses=errors(), dependencies=[only()])
async def search_memories(user: User, api: Api, body: SearchRequest) -> HitList:
    """The active memories most relevant to a query, best first."""
    scope = api.scope(user, body.project_id)
    hits = await api.service.search(
        scope,
        body.query,
        limit=body.limit,
        types=_types(body.types),
        reach=reach_of(body.project_id),
        threshold=body.threshold,
    )
    usage = await api.service.usage(scope, (hit.memory for hit in hits))
    return HitList(data=[HitJson.of_hit(hit, usage) for hit in hits])


@router.get("/{memory_id}", summary="Get a memory", responses=errors(HTTPStatus.NOT_FOUND), dependencies=[only()])
async def get_memory(user: User, api: Api, memory_id: MemoryId) -> MemoryJson:
    """One memory of the user; one that a newer memory superseded, too."""
    scope = api.scope(user, None)
    (found,) = await _shown(api, scope, [await api.service.get(scope, memory_id)])
    return found


@router.get(
    "/{memory_id}/history",
    summary="What was said before",
    responses=errors(HTTPStatus.NOT_FOUND),
    dependencies=[only()],
)
async def memory_history(user: User, api: Api, memory_id: MemoryId) -> History:
    """All memories that replaced one another to which that one belongs, oldest first. Any of their ids will do."""
    scope = api.scope(user, None)
    return History(data=await _shown(api, scope, await api.service.history(scope, memory_id)))


@router.patch("/{memory_id}", summary="Change a memory", responses=errors(HTTPStatus.NOT_FOUND), dependencies=[only()])
async def update_memory(user: User, api: Api, memory_id: MemoryId, body: UpdateRequest) -> MemoryJson:
    """Fields that are not sent stay as they are; `observed_at` becomes now, as if the statement were said again."""
    if not body.model_fields_set:
        raise InvalidRequestError("nothing to change: send at least one field")
    api.scope(user, body.project_id)
    scope = api.scope(user, None)
    (changed,) = await _shown(api, scope, [await api.service.update(scope, memory_id, body.edit())])
    return changed


@router.delete("/{memory_id}", summary="Forget a memory", responses=errors(HTTPStatus.NOT_FOUND), dependencies=[only()])
async def forget_memory(user: User, api: Api, memory_id: MemoryId) -> Deleted:
    """Invisible to every read when the call returns; what it had replaced, and the turns all of it came from, go too."""
    await api.service.forget(api.scope(user, None), memory_id)
    return Deleted(id=memory_id)


async def _shown(api: Api, scope: Scope, memories: Sequence[Memory]) -> list[MemoryJson]:
    usage = await api.service.usage(scope, memories)
    return [MemoryJson.of(memory, usage) for memory in memories]


def _types(types: list[MemoryType] | None) -> frozenset[MemoryType] | None:
    return frozenset(types) if types else None
