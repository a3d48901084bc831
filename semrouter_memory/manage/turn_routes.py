"""The operator's routes for turns, compaction and backup. Never on the users' port: they show users' texts.

The application puts an `OperatorContext` into its state.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path as FilePath
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.exceptions import HTTPException

from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.manage.access import errors, exactly
from semrouter_memory.manage.backup import Backup, require_all
from semrouter_memory.manage.exception_handlers import refusal
from semrouter_memory.manage.operator_schemas import (
    BackupRequest,
    Dropped,
    MaintenanceDone,
    Retried,
    TotalsJson,
    TurnJson,
    TurnList,
    WholeTurnJson,
)
from semrouter_memory.model import LoggedTurn, Memory, Scope, TurnState
from semrouter_memory.ports import LogFiles, TurnRecords

MAX_PAGE = 200
_RETRY_PAGE = 200
_MAX_SEQUENCE = 2**53 - 1
"""As far as every log and every JSON reader counts exactly."""


class Collections(Protocol):
    """All collections at the store's place. Raises `StoreUnavailableError`."""

    current: str

    async def embeddings(self) -> Mapping[str, str]:
        """Name -> fingerprint of the embedding."""
        ...

    async def count(self, name: str) -> int: ...

    def scan(self, name: str) -> AsyncIterator[Sequence[Memory]]: ...

    async def drop(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """What the operator's routes work with."""

    records: TurnRecords
    turn_log: LogFiles
    deletion: DeletionService
    backup: Backup
    collections: Collections


def _context(request: Request) -> OperatorContext:
    context = request.app.state.operator
    assert isinstance(context, OperatorContext)
    return context


Context = Annotated[OperatorContext, Depends(_context)]
TurnId = Annotated[str, Path(description="The turn's id.")]
User = Annotated[str | None, Query(min_length=1, description="Only this user's turns; without it, all users'.")]

router = APIRouter(prefix="/v1", tags=["turns"])


@router.get(
    "/turns",
    summary="List turns",
    responses=errors(),
    dependencies=[exactly("user_id", "state", "limit", "before")],
)
async def list_turns(
    *,
    context: Context,
    user_id: User = None,
    state: Annotated[list[TurnState] | None, Query(description="Only these states; may be repeated.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    before: Annotated[int, Query(ge=0, le=_MAX_SEQUENCE, description="`next_before` of the page before.")] = 0,
) -> TurnList:
    """Turns of the log, newest first, without what was said. Finished ones are there until their retention ends."""
    turns = await context.records.list_turns(
        scope=_scope(user_id), states=frozenset(state) if state else None, limit=limit, before=before
    )
    further = turns[-1].sequence if len(turns) == limit else None
    return TurnList(data=[TurnJson.of(turn) for turn in turns], next_before=further)


@router.get("/turns/totals", summary="Count turns", responses=errors(), dependencies=[exactly()])
async def turn_totals(context: Context) -> TotalsJson:
    """What became of all turns ever accepted; stored in the log itself, so that nothing resets it."""
    return TotalsJson.of(await context.turn_log.totals())


@router.post("/turns/retry", summary="Retry all dead letters", responses=errors(), dependencies=[exactly("user_id")])
async def retry_all(context: Context, user_id: User = None) -> Retried:
    """Let every dead letter wait again, or those of one user; each may fail as often as before."""
    retried = before = 0
    while True:
        page = await context.records.list_turns(
            scope=_scope(user_id), states=frozenset({TurnState.DEAD}), limit=_RETRY_PAGE, before=before
        )
        retried += await context.records.retry([turn.id for turn in page]) if page else 0
        if len(page) < _RETRY_PAGE:
            return Retried(retried=retried)
        before = page[-1].sequence


@router.get("/turns/{turn_id}", summary="Show a turn", responses=errors(HTTPStatus.NOT_FOUND), dependencies=[exactly()])
async def show_turn(context: Context, turn_id: TurnId) -> WholeTurnJson:
    """One turn with what the user said and was answered."""
    return WholeTurnJson.of_whole(await _turn(context, turn_id))


@router.post(
    "/turns/{turn_id}/retry",
    summary="Retry a dead letter",
    responses=errors(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    dependencies=[exactly()],
)
async def retry_turn(context: Context, turn_id: TurnId) -> Retried:
    """Let it wait again; it may fail as often as before."""
    turn = await _turn(context, turn_id)
    if not await context.records.retry([turn_id]):
        raise _conflict(f"only dead letters can be retried; this turn is {turn.state}", "turn_not_dead")
    return Retried(retried=1)


@router.delete(
    "/turns/{turn_id}",
    summary="Drop a turn",
    responses=errors(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    dependencies=[exactly()],
)
async def drop_turn(context: Context, turn_id: TurnId) -> Dropped:
    """Delete a dead letter or a waiting turn, without learning from it."""
    turn = await _turn(context, turn_id)
    if not await context.records.drop([turn_id]):
        raise _conflict(f"only dead and waiting turns can be dropped; this turn is {turn.state}", "turn_finished")
    return Dropped(id=turn_id)


@router.post(
    "/compact",
    summary="Take what was deleted out of the files",
    responses=errors(),
    dependencies=[exactly()],
    tags=["files"],
)
async def compact(context: Context) -> MaintenanceDone:
    """Rewrites the files; requests go on meanwhile, writes to memories wait. Also done on schedule."""
    return MaintenanceDone.of(require_all(await context.deletion.compact()))


@router.post("/backup", summary="Copy the data directory", responses=errors(), dependencies=[exactly()], tags=["files"])
async def backup(context: Context, body: BackupRequest) -> MaintenanceDone:
    """A consistent copy, taken while everything runs. To restore it, let `memory.data_dir` name it."""
    if "\x00" in body.directory:
        raise InvalidRequestError("must be a path", field="directory")
    return MaintenanceDone.of(await context.backup.write(FilePath(body.directory)))


async def _turn(context: OperatorContext, turn_id: str) -> LoggedTurn:
    turn = await context.records.get_turn(turn_id)
    if turn is None:
        raise NotFoundError("no such turn", kind="turn")
    return turn


def _scope(user_id: str | None) -> Scope | None:
    return None if user_id is None else Scope(user_id)


def _conflict(message: str, code: str) -> HTTPException:
    return refusal(HTTPStatus.CONFLICT, message, code)
