"""The operator's routes for turns and for care of the files. Never on the users' port: they show what users said.

The application puts an `Office` into its state.
"""

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request

from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.manage.access import errors, exactly
from semrouter_memory.manage.faults import Refusal
from semrouter_memory.manage.maintenance import Maintenance
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
from semrouter_memory.model import LoggedTurn, Scope, TurnState
from semrouter_memory.ports import TurnLog, TurnRecords

MAX_PAGE = 200
_RETRY_PAGE = 200
_MAX_SEQUENCE = 2**53 - 1
"""As far as every log and every JSON reader counts exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """What an operator works with beside memories."""

    records: TurnRecords
    turn_log: TurnLog
    maintenance: Maintenance


def _office(request: Request) -> Office:
    office = request.app.state.office
    assert isinstance(office, Office)
    return office


Desk = Annotated[Office, Depends(_office)]
TurnId = Annotated[str, Path(description="The turn's id.")]
User = Annotated[str | None, Query(min_length=1, description="Only this user's turns; without it everybody's.")]

router = APIRouter(prefix="/v1", tags=["turns"])


@router.get(
    "/turns",
    summary="List turns",
    responses=errors(),
    dependencies=[exactly("user_id", "state", "limit", "before")],
)
async def list_turns(
    *,
    desk: Desk,
    user_id: User = None,
    state: Annotated[list[TurnState] | None, Query(description="Only these states; may be repeated.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    before: Annotated[int, Query(ge=0, le=_MAX_SEQUENCE, description="`next_before` of the page before.")] = 0,
) -> TurnList:
    """Turns of the log, newest first, without what was said. Finished ones are there until their retention ends."""
    turns = await desk.records.list_turns(
        scope=_scope(user_id), states=frozenset(state) if state else None, limit=limit, before=before
    )
    further = turns[-1].sequence if len(turns) == limit else None
    return TurnList(data=[TurnJson.of(turn) for turn in turns], next_before=further)


@router.get("/turns/totals", summary="Count turns", responses=errors(), dependencies=[exactly()])
async def turn_totals(desk: Desk) -> TotalsJson:
    """What became of all turns ever accepted; kept in the log itself, so that nothing resets it."""
    return TotalsJson.of(await desk.turn_log.totals())


@router.post("/turns/retry", summary="Retry all dead letters", responses=errors(), dependencies=[exactly("user_id")])
async def retry_all(desk: Desk, user_id: User = None) -> Retried:
    """Let every dead letter wait again, or those of one user; each may fail as often as before."""
    retried = before = 0
    while True:
        page = await desk.records.list_turns(
            scope=_scope(user_id), states=frozenset({TurnState.DEAD}), limit=_RETRY_PAGE, before=before
        )
        retried += await desk.records.retry([turn.id for turn in page]) if page else 0
        if len(page) < _RETRY_PAGE:
            return Retried(retried=retried)
        before = page[-1].sequence


@router.get("/turns/{turn_id}", summary="Show a turn", responses=errors(HTTPStatus.NOT_FOUND), dependencies=[exactly()])
async def show_turn(desk: Desk, turn_id: TurnId) -> WholeTurnJson:
    """One turn with what the user said and was answered."""
    return WholeTurnJson.of_whole(await _turn(desk, turn_id))


@router.post(
    "/turns/{turn_id}/retry",
    summary="Retry a dead letter",
    responses=errors(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    dependencies=[exactly()],
)
async def retry_turn(desk: Desk, turn_id: TurnId) -> Retried:
    """Let it wait again; it may fail as often as before."""
    turn = await _turn(desk, turn_id)
    if not await desk.records.retry([turn_id]):
        raise _conflict(f"only dead letters can be retried; this turn is {turn.state}", "turn_not_dead")
    return Retried(retried=1)


@router.delete(
    "/turns/{turn_id}",
    summary="Drop a turn",
    responses=errors(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    dependencies=[exactly()],
)
async def drop_turn(desk: Desk, turn_id: TurnId) -> Dropped:
    """Delete a dead letter or a waiting turn, without learning from it."""
    turn = await _turn(desk, turn_id)
    if not await desk.records.drop([turn_id]):
        raise _conflict(f"only dead and waiting turns can be dropped; this turn is {turn.state}", "turn_finished")
    return Dropped(id=turn_id)


@router.post(
    "/compact",
    summary="Take what was deleted out of the files",
    responses=errors(),
    dependencies=[exactly()],
    tags=["files"],
)
async def compact(desk: Desk) -> MaintenanceDone:
    """Rewrites the files; requests go on meanwhile, writes to memories wait. Also done on schedule."""
    return MaintenanceDone.of(await desk.maintenance.compact())


@router.post("/backup", summary="Copy the data directory", responses=errors(), dependencies=[exactly()], tags=["files"])
async def backup(desk: Desk, body: BackupRequest) -> MaintenanceDone:
    """A consistent copy, taken while everything runs. To restore it, let `memory.data_dir` name it."""
    if "\x00" in body.directory:
        raise InvalidRequestError("must be a path", field="directory")
    return MaintenanceDone.of(await desk.maintenance.backup(FilePath(body.directory)))


async def _turn(desk: Office, turn_id: str) -> LoggedTurn:
    turn = await desk.records.get_turn(turn_id)
    if turn is None:
        raise NotFoundError("no such turn", kind="turn")
    return turn


def _scope(user_id: str | None) -> Scope | None:
    return None if user_id is None else Scope(user_id)


def _conflict(message: str, code: str) -> Refusal:
    return Refusal(HTTPStatus.CONFLICT, message, code)
