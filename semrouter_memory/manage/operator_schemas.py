"""The JSON of the operator's routes."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AliasPath, BeforeValidator, Field

from semrouter_memory.manage.schemas import ApiAnswer, ApiRequest
from semrouter_memory.model import LoggedTurn, TurnState


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


class TurnList(ApiAnswer):
    """Turns, newest first."""

    object: Literal["list"] = "list"
    data: Sequence[TurnJson]
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


class BackupRequest(ApiRequest):
    """Where to."""

    directory: str = Field(
        min_length=1,
        description="An absolute path on the sidecar's machine that is not there yet.",
        examples=["/var/backups/semrouter-memory/2026-03-15"],
    )
