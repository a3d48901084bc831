"""The routes that move memories out and in as lines of JSON, and the one that ends a session.

They stand before `routes`, whose /{memory_id} would take their names for ids.
"""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from semrouter_memory.manage.access import PREFIX, Api, User, errors, only
from semrouter_memory.manage.exception_handlers import described, refusal
from semrouter_memory.manage.import_report import ImportReport
from semrouter_memory.manage.portable import export_line
from semrouter_memory.manage.schemas import Imported, SessionEnd
from semrouter_memory.model import Memory

router = APIRouter(prefix=PREFIX, tags=["memory"])

_NDJSON = "application/x-ndjson"
_LINES = (_NDJSON, "text/plain")
"""What an import may be sent as; the lines are read the same."""
_SESSIONS, _END = b"/sessions/", b"/end"


@router.get(
    "/export",
    summary="Export all memories",
    response_class=StreamingResponse,
    responses={**errors(), 200: {"content": {_NDJSON: {"schema": {"type": "string"}}}}},
    dependencies=[only("history")],
)
async def export_memories(
    user: User,
    api: Api,
    history: Annotated[bool, Query(description="Superseded memories too; `superseded_at` marks them.")] = True,  # noqa: FBT002 - the framework's way
) -> StreamingResponse:
    """Every memory, newest first, one JSON object a line. The connection is cut when it cannot be completed."""
    memories = api.service.export(api.scope(user, None), history=history)
    # The first one is fetched before the response begins, so that a store that is away is a 503 and no broken stream.
    first = [memory async for memory in _head(memories)]
    return StreamingResponse(_lines(first, memories), media_type=_NDJSON)


@router.post(
    "/import",
    summary="Import exported memories",
    responses=errors(HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    dependencies=[only("from_user")],
    openapi_extra={
        "requestBody": {"required": True, "content": {kind: {"schema": {"type": "string"}} for kind in _LINES}}
    },
)
async def import_memories(
    request: Request,
    user: User,
    api: Api,
    from_user: Annotated[
        str | None, Query(min_length=1, description="Take over this other user's exported lines, too.")
    ] = None,
) -> Imported:
    """Lines as an export writes them; only `content` is needed. They become the authenticated user's, whatever they say.

    Each line stands for itself. One whose memory is there already is skipped, so the same lines may be sent again. A
    memory that was deleted comes back, under a new id when it was deleted by its own.
    """
    report = ImportReport()
    try:
        await api.service.import_lines(
            lambda project: api.scope(user, project or None), request.stream(), report, from_user=from_user
        )
    except HTTPException as error:
        message, code = described(error)
        raise refusal(HTTPStatus(error.status_code), f"{message}; up to there: {report}", code) from None
    return Imported.of(report)


@router.post(
    "/sessions/{session_id:path}/end",
    summary="End a session",
    status_code=HTTPStatus.ACCEPTED,
    responses=errors(HTTPStatus.NOT_FOUND),
    dependencies=[only()],
)
async def end_session(
    request: Request,
    user: User,
    api: Api,
    session_id: Annotated[
        str,
        Path(description="What the client calls it (x-session-id, conversation id), percent-encoded; or our own id."),
    ],
) -> SessionEnd:
    """What waits is learned from now, and the session is summed up in one episodic memory."""
    pending = await api.service.end_session(api.scope(user, None), _as_sent(request, session_id))
    return SessionEnd(session_id=pending.session_id, waiting=pending.waiting)


def _as_sent(request: Request, decoded: str) -> str:
    """The id, decoded as headers are: bytes that are no UTF-8 must name the session that a header with them named."""
    raw: bytes = request.scope.get("raw_path", b"").partition(b"?")[0]
    _, found, rest = raw.partition(_SESSIONS)
    if not found or not rest.endswith(_END):
        return decoded
    return unquote_to_bytes(rest[: -len(_END)]).decode("utf-8", "surrogateescape")


async def _head(memories: AsyncIterator[Memory]) -> AsyncIterator[Memory]:
    async for memory in memories:
        yield memory
        return


async def _lines(first: list[Memory], rest: AsyncIterator[Memory]) -> AsyncIterator[bytes]:
    for memory in first:
        yield export_line(memory)
    async for memory in rest:
        yield export_line(memory)
