"""The routes under /v1/memory, the same for users and operators; the application says who acts (`access`)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from importlib import import_module
from typing import Annotated, Literal
from urllib.parse import unquote_to_bytes

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.manage.access import (
    NDJSON,
    NOT_FOUND,
    OWNER,
    PREFIX,
    TOO_LARGE,
    Api,
    Filter,
    MemoryId,
    Observed,
    OwnerAccess,
    api_router,
    raw_body,
    reach_of,
)
from semrouter_memory.manage.explaining import ExplainableSearch, RecallJson, ReceiptList
from semrouter_memory.manage.http_server import described, refusal
from semrouter_memory.manage.importing import Imported
from semrouter_memory.manage.parameters import IsPinned, OneForm, OneProject, OneSource, observed_in
from semrouter_memory.manage.portable import exported
from semrouter_memory.manage.reflecting import Reflection, ReflectRequest
from semrouter_memory.manage.schemas import (
    MAX_PAGE,
    Deleted,
    DeletedAll,
    EntityJson,
    EntityList,
    History,
    HitJson,
    HitList,
    MemoryJson,
    MemoryList,
    SearchRequest,
    SessionEnd,
    SettingsJson,
    SettingsRequest,
    StoreRequest,
    UpdateRequest,
)
from semrouter_memory.model import ANY_MEMORY, Criteria, Memory, MemoryType, OwnerKind, Scope, parse_filter

router = api_router(PREFIX, "memory")

_SESSIONS, _END = b"/sessions/", b"/end"


@router.get("", summary="List memories")
async def list_memories(
    *,
    api: Api,
    types: Annotated[
        list[MemoryType] | None, Query(alias="type", description="Only these types; may be repeated.")
    ] = None,
    form: OneForm = None,
    source: OneSource = None,
    pinned: IsPinned = None,
    goal: Annotated[str, Query(description="Only episodes with this text in their goal, whatever its case.")] = "",
    outcome: Annotated[str, Query(description="The same of their outcome.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: Annotated[str, Query(description="`next_cursor` of the page before.")] = "",
    project_id: OneProject = None,
    observed: Observed,
    memory_filter: Filter = ANY_MEMORY,
    include: Annotated[
        Literal["history"] | None, Query(description="`history`: superseded memories too; `superseded_at` marks them.")
    ] = None,
) -> MemoryList:
    """Active memories, newest first: neither superseded nor expired."""
    scope = api.scope(project_id)
    page = await api.service.page(
        Criteria(
            scope, reach=reach_of(project_id), types=_types(types), memory_filter=memory_filter, observed=observed
        ),
        limit=limit,
        cursor=cursor,
        wanted=_wanted(form, source, pinned, goal=goal, outcome=outcome),
        history=include == "history",
    )
    return MemoryList(data=await _shown(api, page.memories), next_cursor=page.cursor or None)


@router.post("", summary="Store a memory", status_code=HTTPStatus.CREATED)
async def store_memory(api: Api, body: StoreRequest) -> MemoryJson:
    """Remember a statement. What looks like a secret (key, password, card number) is refused."""
    scope = api.scope(body.project_id)
    (stored,) = await _shown(api, [await api.service.store(scope, body)])
    return stored


@router.delete("", summary="Forget everything of an owner, or of one project", responses=NOT_FOUND)
async def forget_memories(
    request: Request,
    api: Api,
    user_id: Annotated[
        str | None, Query(min_length=1, description="Must be the authenticated user. Required without `owner`.")
    ] = None,
    project_id: Annotated[str | None, Query(min_length=1, description="Without it, every project.")] = None,
) -> DeletedAll:
    """Invisible to every read when the call returns; history, session state and turns that still wait go too."""
    if user_id is None and OWNER not in request.query_params:
        raise InvalidRequestError("say whose: ?user_id=...", field="user_id")
    if user_id is not None and Scope(user_id).owner != api.owner.owner:
        raise NotFoundError("no such user", kind="user")
    deleted = await api.service.forget_all(api.scope(project_id), reach_of(project_id))
    return DeletedAll(owner=api.owner.owner, project_id=project_id, deleted=deleted)


@router.post("/search", summary="Search memories")
async def search_or_explain(api: Api, body: ExplainableSearch) -> HitList | RecallJson:
    """The active memories most relevant to a query, best first; or, as recall, what a request with it would be given, and why."""
    if body.kind == "recall":
        scope = api.scope(body.project_id)
        explained = await api.service.explainer.explain(scope, api.headers, body)
        return RecallJson.of(explained, scope, await api.service.usage(scope, explained.memories))
    if body.messages is not None:
        raise InvalidRequestError('only with "as": "recall"', field="messages")
    return await search_memories(api, body)


async def search_memories(api: OwnerAccess, body: SearchRequest) -> HitList:
    """The active memories most relevant to a query, best first."""
    scope = api.scope(body.project_id)
    hits, cursor = await api.service.search(
        Criteria(
            scope,
            reach=reach_of(body.project_id),
            types=_types(body.types),
            memory_filter=parse_filter(body.filter),
            observed=observed_in(body.since, body.until),
        ),
        body.query,
        limit=body.limit,
        cursor=body.cursor,
        wanted=_wanted(body.form, body.source, body.pinned),
        threshold=body.threshold,
    )
    usage = await api.service.usage(scope, (hit.memory for hit in hits))
    return HitList(data=[HitJson.of_hit(hit, usage) for hit in hits], next_cursor=cursor or None)


@router.post("/reflect", summary="Answer a question from memories")
async def reflect_on(api: Api, body: ReflectRequest) -> Reflection:
    """By a model that sees only what is relevant of the owner's memories and documents, with citations; a number or name that stands in none of these refuses its answer. Without a model: how often it was mentioned, since when, and when last."""
    return await api.reflector.reflect(api.scope(body.project_id), api.organisation, body)


# -- MCP, not described: its messages are those of MCP, and `tools/list` describes them. Before /{memory_id}, as what follows ---


@router.post("/mcp", include_in_schema=False)
async def mcp_message(request: Request, api: Api) -> Response:
    """Answer one message of JSON-RPC; none is stored, so any replica answers the next."""
    body = await request.body()
    # In a thread, and at first use: loading the SDK takes a second.
    server = await asyncio.to_thread(import_module, "semrouter_memory.manage.mcp_server")
    response: Response = server.McpResponse(api, body)
    return response


@router.get("/mcp", include_in_schema=False)
@router.delete("/mcp", include_in_schema=False)
async def no_mcp_session() -> None:
    """There are no sessions to listen to or to end."""
    raise refusal(HTTPStatus.METHOD_NOT_ALLOWED, "send messages with POST", "method_not_allowed", {"allow": "POST"})


# -- as lines, sessions and settings: before /{memory_id}, which would take their names for ids -------------------------------


@router.get(
    "/export",
    summary="Export all memories",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}}}},
)
async def export_memories(
    api: Api,
    observed: Observed,
    history: Annotated[bool, Query(description="Superseded memories too; `superseded_at` marks them.")] = True,  # noqa: FBT002 - the framework's way
) -> StreamingResponse:
    """Every memory, or those of a period, newest first, one JSON object a line. The connection is cut when it cannot be completed."""
    lines = exported(api.service.export(api.owner, observed=observed, history=history))
    # The first ones are made before the response begins, so that an unavailable store is a 503 and not a broken stream.
    first = await anext(lines)
    return StreamingResponse(_all(first, lines), media_type=NDJSON)


@router.get("/entities", summary="List the names in memories")
async def list_entities(
    api: Api,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    after: Annotated[str, Query(description="`next_after` of the page before.")] = "",
) -> EntityList:
    """People, places, organisations, products and what the user calls their own, each with the active memories that name it."""
    further = [each for each in await api.service.entities(api.owner) if each.name > after]
    page = further[:limit]
    data = [EntityJson.model_validate(each) for each in page]
    return EntityList(data=data, next_after=page[-1].name if len(further) > limit else None)


@router.get("/receipts", summary="List the last recalls")
async def list_receipts(api: Api) -> ReceiptList:
    """What the last 50 requests were given, without any text; forgetting a memory forgets the receipts before it."""
    return ReceiptList(data=await api.service.receipts(api.owner))


@router.get("/settings", summary="Show the user's switches", responses=NOT_FOUND)
async def get_settings(api: Api) -> SettingsJson:
    """Whether remembering is paused."""
    return SettingsJson.of(await api.service.paused_since(_user(api.owner)))


@router.put("/settings", summary="Pause or resume remembering", responses=NOT_FOUND)
async def put_settings(api: Api, body: SettingsRequest) -> SettingsJson:
    """In every project, until it is resumed; forgetting everything does not end it.

    While it is paused, no request is given memories, and no exchange of which any part was in the pause is stored, then or
    later. What was said before is still learned. Memories can be listed, searched, added and changed here as usual.
    """
    return SettingsJson.of(await api.service.set_paused(_user(api.owner), paused=body.paused))


@router.post(
    "/import",
    summary="Import exported memories",
    responses=TOO_LARGE,
    # The lines are read the same, whatever they are sent as.
    openapi_extra=raw_body(NDJSON, "text/plain"),
)
async def import_memories(
    request: Request,
    api: Api,
    from_user: Annotated[
        str | None, Query(min_length=1, description="Take over this other user's exported lines, too.")
    ] = None,
) -> Imported:
    """Lines as an export writes them; only `content` or the parts of an episode are needed. They become the acting owner's, whatever they say.

    Each line stands for itself. One whose memory is there already is skipped, so the same lines may be sent again. A
    memory that was deleted comes back, under a new id when it was deleted by its own.
    """
    report = Imported()
    from_owner = None if from_user is None else Scope(from_user).owner
    try:
        await api.service.importer.run(
            lambda project: api.scope(project or None), request.stream(), report, from_owner=from_owner
        )
    except HTTPException as error:
        message, code = described(error)
        raise refusal(HTTPStatus(error.status_code), f"{message}; up to there: {report}", code) from None
    return report


@router.post(
    "/sessions/{session_id:path}/end",
    summary="End a session",
    status_code=HTTPStatus.ACCEPTED,
    responses=NOT_FOUND,
)
async def end_session(
    request: Request,
    api: Api,
    session_id: Annotated[
        str,
        Path(description="What the client calls it (x-session-id, conversation id), percent-encoded; or our own id."),
    ],
    project_id: Annotated[
        str, Query(description="The project of the session's requests; with our own id not needed.")
    ] = "",
) -> SessionEnd:
    """What waits is learned from now, and the session is summed up in one episodic memory."""
    pending = await api.service.end_session(api.scope(project_id), _as_sent(request, session_id))
    return SessionEnd(session_id=pending.session_id, waiting=pending.waiting)


# -- one memory --------------------------------------------------------------------------------------------------------


@router.get("/{memory_id}", summary="Get a memory", responses=NOT_FOUND)
async def get_memory(api: Api, memory_id: MemoryId) -> MemoryJson:
    """One memory; one that a newer memory superseded, too."""
    (found,) = await _shown(api, [await api.service.get(api.owner, memory_id)])
    return found


@router.get("/{memory_id}/history", summary="What was said before", responses=NOT_FOUND)
async def memory_history(api: Api, memory_id: MemoryId) -> History:
    """All memories that replaced one another to which that one belongs, oldest first. Any of their ids will do."""
    return History(data=await _shown(api, await api.service.history(api.owner, memory_id)))


@router.patch("/{memory_id}", summary="Change a memory", responses=NOT_FOUND)
async def update_memory(api: Api, memory_id: MemoryId, body: UpdateRequest) -> MemoryJson:
    """Fields that are not sent stay as they are; `observed_at` becomes now, as if the statement were said again."""
    if not body.model_fields_set:
        raise InvalidRequestError("nothing to change: send at least one field")
    api.scope(body.project_id)  # refuses what no project can be called
    (changed,) = await _shown(api, [await api.service.update(api.owner, memory_id, body)])
    return changed


@router.delete("/{memory_id}", summary="Forget a memory", responses=NOT_FOUND)
async def forget_memory(api: Api, memory_id: MemoryId) -> Deleted:
    """Invisible to every read when the call returns; what it had replaced, and the turns all of it came from, go too."""
    await api.service.forget(api.owner, memory_id)
    return Deleted(id=memory_id)


async def _shown(api: OwnerAccess, memories: Sequence[Memory]) -> list[MemoryJson]:
    usage = await api.service.usage(api.owner, memories)
    return [MemoryJson.of(memory, usage) for memory in memories]


def _wanted(
    form: OneForm, source: OneSource, pinned: IsPinned, *, goal: str = "", outcome: str = ""
) -> Callable[[Memory], bool]:
    """Which memories a listing or a search shows."""

    def is_wanted(memory: Memory) -> bool:
        parts = ((goal, memory.episode.goal), (outcome, memory.episode.outcome))
        asked = ((form, memory.form), (source, memory.source), (pinned, memory.pinned))
        return all(value in {None, own} for value, own in asked) and all(
            text.casefold() in part.casefold() for text, part in parts
        )

    return is_wanted


def _user(owner: Scope) -> Scope:
    """The owner, which must be a user: what organisations and agents know is not learned from their own requests."""
    if owner.kind is not OwnerKind.USER:
        raise NotFoundError("only users have settings", kind="settings")
    return owner


def _types(types: list[MemoryType] | None) -> frozenset[MemoryType] | None:
    return frozenset(types) if types else None


def _as_sent(request: Request, decoded: str) -> str:
    """The id, decoded as headers are: bytes that are no UTF-8 must name the session that a header with them named."""
    raw: bytes = request.scope.get("raw_path", b"").partition(b"?")[0]
    _, found, rest = raw.partition(_SESSIONS)
    if not found or not rest.endswith(_END):
        return decoded
    return unquote_to_bytes(rest[: -len(_END)]).decode("utf-8", "surrogateescape")


async def _all(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for lines in rest:
        yield lines
