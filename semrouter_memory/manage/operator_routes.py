"""The operator's routes and their JSON: turns, compaction, backup, collections and live recordings. Never on the users' port.

The application puts an `OperatorContext` into its state.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, Protocol, Self

from fastapi import Depends, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, AliasPath, BeforeValidator, Field
from starlette.exceptions import HTTPException

from semrouter_memory.deletion.service import DeletionService, PartResult
from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.manage.access import CONFLICT, NDJSON, NOT_FOUND, TOO_LARGE, AllOwners, api_router, raw_body
from semrouter_memory.manage.backup import require_all
from semrouter_memory.manage.http_server import refusal
from semrouter_memory.manage.importing import Imported
from semrouter_memory.manage.portable import exported
from semrouter_memory.manage.schemas import MAX_PAGE, ApiAnswer, ApiList, ApiRequest
from semrouter_memory.model import LoggedTurn, Memory, Scope, TurnState
from semrouter_memory.ports import TurnLog
from semrouter_memory.replay.recordings import Recordings

_RETRY_PAGE = 200
_MAX_RECORDING_SECONDS = 24 * 3600
_MAX_SEQUENCE = 2**53 - 1
"""As far as every log and every JSON reader counts exactly."""


class Collections(Protocol):
    """All collections at the store's place. Raises `StoreUnavailableError`."""

    current: str

    async def embeddings(self) -> Mapping[str, str]:
        """Name -> fingerprint of the embedding."""

    async def count(self, name: str) -> int: ...

    def scan(self, name: str) -> AsyncIterator[Sequence[Memory]]: ...

    async def drop(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """What the operator's routes work with.

    Attributes:
        backup: writes one into a new directory (`write_backup`).
    """

    turn_log: TurnLog
    deletion: DeletionService
    backup: Callable[[FilePath], Awaitable[list[PartResult]]]
    collections: Collections
    recordings: Recordings


def _context(request: Request) -> OperatorContext:
    context = request.app.state.operator
    assert isinstance(context, OperatorContext)
    return context


Context = Annotated[OperatorContext, Depends(_context)]
TurnId = Annotated[str, Path(description="The turn's id.")]
User = Annotated[str | None, Query(min_length=1, description="Only this user's turns; without it, all users'.")]
Name = Annotated[str, Path(description="The collection's name.")]

turn_routes = api_router("/v1", "turns")
file_routes = api_router("/v1", "files")
collection_routes = api_router("/v1/collections", "collections")
recording_routes = api_router("/v1", "recordings", in_schema=False)
ROUTERS = (turn_routes, file_routes, collection_routes, recording_routes)


# -- turns -------------------------------------------------------------------------------------------------------------


class TurnJson(ApiAnswer):
    """A turn without its texts."""

    id: str
    sequence: int = Field(description="Grows with every turn; the order of a listing.")
    user_id: str = Field(validation_alias=AliasPath("scope", "owner_id"))
    project_id: str = Field(validation_alias=AliasPath("scope", "project_id"))
    session_id: str
    observed_at: datetime = Field(description="When the request arrived.")
    state: TurnState
    attempts: int = Field(description="Failed extractions so far.")
    error: str = Field(description="A short word for the last failure; never content.")
    rules_done: bool = Field(description="It was read for quotes; a model may not have read it yet.")
    model: str = Field(description="What answered, as the answer says.")
    chars: int = Field(default=0, description="Length of its texts.")

    @classmethod
    def of(cls, turn: LoggedTurn) -> Self:
        shown = cls.model_validate(turn)
        shown.chars = len(turn.user_text) + len(turn.assistant_text)
        return shown


class WholeTurnJson(TurnJson):
    """A turn with its texts: what a user said and was answered."""

    user_text: str
    assistant_text: str
    tools: Annotated[list[dict[str, str]], BeforeValidator(lambda tools: [*map(asdict, tools)])] = Field(
        description="Tools that were called, and the beginning of what they returned."
    )
    items: list[Any] | None = Field(description="The whole items, where they are stored for context compression.")


class TurnList(ApiList[TurnJson]):
    """Turns, newest first."""

    next_before: int | None = Field(description="Send it as `before` for the next page; null at the end.")


class Retried(ApiAnswer):
    """These wait again."""

    object: Literal["turn.retried"] = "turn.retried"
    retried: int


class Dropped(ApiAnswer):
    """The turn is gone; it counts as deleted."""

    id: str
    object: Literal["turn.dropped"] = "turn.dropped"
    deleted: Literal[True] = True


class TotalsJson(ApiAnswer):
    """Durable counts: accepted = extracted + empty + dead_lettered + deleted + waiting."""

    object: Literal["turn.totals"] = "turn.totals"
    accepted: int
    extracted: int
    empty: int
    dead_lettered: int
    deleted: int
    waiting: int


@turn_routes.get("/turns", summary="List turns")
async def list_turns(
    *,
    context: Context,
    user_id: User = None,
    state: Annotated[list[TurnState] | None, Query(description="Only these states; may be repeated.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    before: Annotated[int, Query(ge=0, le=_MAX_SEQUENCE, description="`next_before` of the page before.")] = 0,
) -> TurnList:
    """Turns of the log, newest first, without what was said. Finished ones are there until their retention ends."""
    # One more than is shown tells whether there is a next page.
    turns = await context.turn_log.list_turns(
        scope=_scope(user_id), states=frozenset(state) if state else None, limit=limit + 1, before=before
    )
    page = turns[:limit]
    further = page[-1].sequence if len(turns) > limit else None
    return TurnList(data=[TurnJson.of(turn) for turn in page], next_before=further)


@turn_routes.get("/turns/totals", summary="Count turns")
async def turn_totals(context: Context) -> TotalsJson:
    """What became of all turns ever accepted; stored in the log itself, so that nothing resets it."""
    return TotalsJson.model_validate(await context.turn_log.totals())


@turn_routes.post("/turns/retry", summary="Retry all dead letters")
async def retry_all(context: Context, user_id: User = None) -> Retried:
    """Let every dead letter wait again, or those of one user; each may fail as often as before."""
    retried = before = 0
    while True:
        page = await context.turn_log.list_turns(
            scope=_scope(user_id), states=frozenset({TurnState.DEAD}), limit=_RETRY_PAGE, before=before
        )
        retried += await context.turn_log.retry([turn.id for turn in page]) if page else 0
        if len(page) < _RETRY_PAGE:
            return Retried(retried=retried)
        before = page[-1].sequence


@turn_routes.get("/turns/{turn_id}", summary="Show a turn", responses=NOT_FOUND)
async def show_turn(context: Context, turn_id: TurnId) -> WholeTurnJson:
    """One turn with what the user said and was answered."""
    return WholeTurnJson.of(await _turn(context, turn_id))


@turn_routes.post("/turns/{turn_id}/retry", summary="Retry a dead letter", responses=CONFLICT)
async def retry_turn(context: Context, turn_id: TurnId) -> Retried:
    """Let it wait again; it may fail as often as before."""
    turn = await _turn(context, turn_id)
    if not await context.turn_log.retry([turn_id]):
        raise _conflict(f"only dead letters can be retried; this turn is {turn.state}", "turn_not_dead")
    return Retried(retried=1)


@turn_routes.delete("/turns/{turn_id}", summary="Drop a turn", responses=CONFLICT)
async def drop_turn(context: Context, turn_id: TurnId) -> Dropped:
    """Delete a dead letter or a waiting turn, without learning from it."""
    turn = await _turn(context, turn_id)
    if not await context.turn_log.drop([turn_id]):
        raise _conflict(f"only dead and waiting turns can be dropped; this turn is {turn.state}", "turn_finished")
    return Dropped(id=turn_id)


# -- files -------------------------------------------------------------------------------------------------------------


class PartResultJson(ApiAnswer):
    """What one part did."""

    part: str = Field(description="`turn_log`, `state` or `store`.")
    seconds: Annotated[float, AfterValidator(lambda seconds: round(seconds, 3))]
    note: str = Field(description='What it left out and why that is correct; else "".')


class MaintenanceDone(ApiAnswer):
    """What each part did."""

    object: Literal["maintenance"] = "maintenance"
    data: list[PartResultJson]


class BackupRequest(ApiRequest):
    """Where to."""

    directory: str = Field(
        min_length=1,
        description="An absolute path on the sidecar's machine that is not there yet.",
        examples=["/var/backups/semrouter-memory/2026-03-15"],
    )


@file_routes.post("/compact", summary="Take what was deleted out of the files")
async def compact(context: Context) -> MaintenanceDone:
    """Rewrites the files; requests go on meanwhile, writes to memories wait. Also done on schedule."""
    return _done(require_all(await context.deletion.compact()))


@file_routes.post("/backup", summary="Copy the data directory")
async def backup(context: Context, body: BackupRequest) -> MaintenanceDone:
    """A consistent copy, taken while everything runs. To restore it, let `memory.data_dir` name it."""
    if "\x00" in body.directory:
        raise InvalidRequestError("must be a path", field="directory")
    return _done(await context.backup(FilePath(body.directory)))


# -- collections -------------------------------------------------------------------------------------------------------


class CollectionJson(ApiAnswer):
    """A collection of memories."""

    name: str
    embedding: str = Field(description="Fingerprint of the embedding that it was made for.")
    current: bool = Field(description="The sidecar uses it.")


class CountedCollection(CollectionJson):
    """A collection with its size."""

    memories: int


class CollectionList(ApiList[CollectionJson]):
    """Collections at the configured place."""


class CollectionDropped(ApiAnswer):
    """The collection is deleted."""

    name: str
    object: Literal["collection.dropped"] = "collection.dropped"
    deleted: Literal[True] = True


@collection_routes.get("", summary="List collections")
async def list_collections(context: Context) -> CollectionList:
    """The collections that this service made, each for one embedding."""
    found = await context.collections.embeddings()
    return CollectionList(
        data=[
            CollectionJson(name=name, embedding=embedding, current=name == context.collections.current)
            for name, embedding in sorted(found.items())
        ]
    )


@collection_routes.post(
    "/import",
    summary="Import the lines of a collection",
    responses=TOO_LARGE,
    openapi_extra=raw_body(NDJSON),
)
async def import_collection(request: Request, access: AllOwners) -> Imported:
    """Memories of all users, embedded again and otherwise unchanged. Deleted ones are skipped.

    Stored ones are skipped too unless the line has a newer version, so the same lines may be sent again.
    """
    report = Imported()
    await access.service.importer.restore(request.stream(), report)
    return report


@collection_routes.get("/{name}", summary="Count a collection", responses=NOT_FOUND)
async def show_collection(context: Context, name: Name) -> CountedCollection:
    """One collection with the number of its memories, superseded and expired ones included."""
    embedding = await _embedding(context.collections, name)
    current = name == context.collections.current
    count = await context.collections.count(name)
    return CountedCollection(name=name, embedding=embedding, current=current, memories=count)


@collection_routes.get(
    "/{name}/export",
    summary="Export a collection",
    response_class=StreamingResponse,
    responses=NOT_FOUND,
)
async def export_collection(context: Context, name: Name) -> StreamingResponse:
    """Every memory of every user, one JSON object a line. The connection is cut when it cannot be completed."""
    await _embedding(context.collections, name)
    return StreamingResponse(exported(context.collections.scan(name), exact=True), media_type=NDJSON)


@collection_routes.delete("/{name}", summary="Drop a collection", responses=NOT_FOUND)
async def drop_collection(context: Context, name: Name) -> CollectionDropped:
    """Delete another collection with everything in it, for good."""
    if name == context.collections.current:
        raise InvalidRequestError("is the collection in use", field="name")
    await _embedding(context.collections, name)
    await context.collections.drop(name)
    # In Milvus Lite's file the text would stay until then.
    await context.deletion.compact({"store"})
    return CollectionDropped(name=name)


# -- recordings --------------------------------------------------------------------------------------------------------


@recording_routes.post("/recording")
async def record(
    context: Context,
    *,
    seconds: Annotated[float, Query(gt=0, le=_MAX_RECORDING_SECONDS)] = 60,
    sample: Annotated[float, Query(gt=0, le=1)] = 1,
    pseudonymise: bool = False,
    redact: Annotated[list[str] | None, Query(max_length=256)] = None,
) -> StreamingResponse:
    """Record for so long what Envoy and the sidecar send each other.

    The route is no part of the API's description: it sends a recording (`proto/recording.proto`), for `semrouter-memory record`.
    """
    live = context.recordings.live(seconds, sample=sample, pseudonymise=pseudonymise, headers=redact or ())
    return StreamingResponse(live, media_type="application/octet-stream")


async def _turn(context: OperatorContext, turn_id: str) -> LoggedTurn:
    turn = await context.turn_log.get_turn(turn_id)
    if turn is None:
        raise NotFoundError("no such turn", kind="turn")
    return turn


def _scope(user_id: str | None) -> Scope | None:
    return None if user_id is None else Scope(user_id)


def _conflict(message: str, code: str) -> HTTPException:
    return refusal(HTTPStatus.CONFLICT, message, code)


def _done(results: Sequence[PartResult]) -> MaintenanceDone:
    return MaintenanceDone(data=[PartResultJson.model_validate(each) for each in results])


async def _embedding(collections: Collections, name: str) -> str:
    embedding = (await collections.embeddings()).get(name)
    if embedding is None:
        raise NotFoundError("no such collection", kind="collection")
    return embedding
