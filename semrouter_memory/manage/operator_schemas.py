"""The JSON of what only operators may ask: turns, one by one, and care of the files."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from semrouter_memory.deletion.files import PartResult
from semrouter_memory.model import LoggedTurn, TurnState, TurnTotals


class TurnJson(BaseModel):
    """A turn without its texts."""

    id: str
    sequence: int = Field(description="Grows with every turn; the order of a listing.")
    user_id: str
    project_id: str
    session_id: str
    observed_at: datetime = Field(description="When the request arrived.")
    state: TurnState
    attempts: int = Field(description="Failed extractions so far.")
    error: str = Field(description="A short word for the last failure; never content.")
    rules_done: bool = Field(description="It was read for quotes; a model may not have read it yet.")
    model: str = Field(description="What answered, as the answer says.")
    chars: int = Field(description="Length of its texts.")

    @classmethod
    def of(cls, turn: LoggedTurn) -> Self:
        return cls(**_fields(turn))


class WholeTurnJson(TurnJson):
    """A turn with its texts: what a user said and was answered."""

    user_text: str
    assistant_text: str
    tools: list[dict[str, str]] = Field(description="Tools that were called, and the beginning of what they returned.")
    items: list[Any] | None = Field(description="The whole items, where they are stored for context compression.")

    @classmethod
    def of_whole(cls, turn: LoggedTurn) -> Self:
        return cls(
            **_fields(turn),
            user_text=turn.user_text,
            assistant_text=turn.assistant_text,
            tools=[asdict(tool) for tool in turn.tools],
            items=None if turn.items is None else list(turn.items),
        )


class TurnList(BaseModel):
    """Turns, newest first."""

    object: Literal["list"] = "list"
    data: Sequence[TurnJson]
    next_before: int | None = Field(description="Send it as `before` for the next page; null at the end.")


class Retried(BaseModel):
    """These wait again."""

    object: Literal["turn.retried"] = "turn.retried"
    retried: int


class Dropped(BaseModel):
    """The turn is gone; it counts as deleted."""

    id: str
    object: Literal["turn.dropped"] = "turn.dropped"
    deleted: Literal[True] = True


class TotalsJson(BaseModel):
    """Durable counts: accepted = extracted + empty + dead_lettered + deleted + waiting."""

    object: Literal["turn.totals"] = "turn.totals"
    accepted: int
    extracted: int
    empty: int
    dead_lettered: int
    deleted: int
    waiting: int

    @classmethod
    def of(cls, totals: TurnTotals) -> Self:
        return cls(**asdict(totals))


class BackupRequest(BaseModel):
    """Where to."""

    model_config = ConfigDict(extra="forbid")

    directory: str = Field(
        min_length=1,
        description="An absolute path on the sidecar's machine that is not there yet.",
        examples=["/var/backups/semrouter-memory/2026-03-15"],
    )


class PartResultJson(BaseModel):
    """What one part did."""

    part: str = Field(description="`turn_log`, `state` or `store`.")
    seconds: float
    note: str = Field(description='What it left out and why that is correct; else "".')


class MaintenanceDone(BaseModel):
    """What each part did."""

    object: Literal["maintenance"] = "maintenance"
    data: list[PartResultJson]

    @classmethod
    def of(cls, results: Sequence[PartResult]) -> Self:
        return cls(
            data=[PartResultJson(part=each.part, seconds=round(each.seconds, 3), note=each.note) for each in results]
        )


class CollectionJson(BaseModel):
    """A collection of memories."""

    name: str
    embedding: str = Field(description="Fingerprint of the embedding that it was made for.")
    current: bool = Field(description="The sidecar uses it.")


class CountedCollection(CollectionJson):
    """A collection with its size."""

    memories: int


class CollectionList(BaseModel):
    """Collections at the configured place."""

    object: Literal["list"] = "list"
    data: list[CollectionJson]


class CollectionDropped(BaseModel):
    """The collection is deleted."""

    name: str
    object: Literal["collection.dropped"] = "collection.dropped"
    deleted: Literal[True] = True


def _fields(turn: LoggedTurn) -> dict[str, Any]:
    return {
        "id": turn.id,
        "sequence": turn.sequence,
        "user_id": turn.scope.user_id,
        "project_id": turn.scope.project_id,
        "session_id": turn.session_id,
        "observed_at": turn.observed_at,
        "state": turn.state,
        "attempts": turn.attempts,
        "error": turn.error,
        "rules_done": turn.rules_done,
        "model": turn.model,
        "chars": len(turn.user_text) + len(turn.assistant_text),
    }
