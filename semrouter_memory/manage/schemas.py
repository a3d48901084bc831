"""The JSON of the management API. What comes in is strict: an unknown field is an error, not a wish that is ignored."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from semrouter_memory.manage.edits import ImportReport, MemoryEdit, NewMemory, Unchanged
from semrouter_memory.model import Form, Hit, Json, Memory, MemoryType, Usage

MAX_PAGE = 200
MAX_HITS = 100

Content = Annotated[
    str,
    Field(
        min_length=1,
        description="The statement, in the third person. Its length is bounded by `management.max_content_chars` and by"
        " what the embedding model reads (`memory.embedding.max_tokens`); a longer one answers 400 with the limit.",
        examples=["User's budget for the Hawaii trip is $10,000"],
    ),
]
Importance = Annotated[float, Field(ge=0, le=1, strict=True, description="0 (trivia) to 1 (vital)")]
Metadata = Annotated[
    dict[str, Any],
    Field(
        description="Anything worth keeping with the statement, as JSON. `form`, `context`, `quote`, `statements`,"
        " `outdated_by`, `turn_ids`, `extractor`, `model`, `confirmations`, `flagged`, `contradicts`, `replaces`, `consolidated_from`, `imported_at` and `asserted_at`"
        " belong to the service. Bounded by `management.max_metadata_bytes`.",
        examples=[{"origin": "crm"}],
    ),
]
Project = Annotated[
    str, Field(description='The project it belongs to; "" is the user\'s own space.', examples=["trip-planner"])
]


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from None


UtcTime = Annotated[AwareDatetime, AfterValidator(_utc)]
"""With any offset from UTC; stored in UTC."""

Expiry = Annotated[
    UtcTime | None,
    Field(
        description="From when on it is no longer recalled, with its offset from UTC (RFC 3339); must lie in the"
        " future. Null: never; not sent when storing: as `memory.ageing.ttl_days` says for the type.",
        examples=["2027-01-01T00:00:00Z"],
    ),
]


UsageById: TypeAlias = Mapping[str, Usage] | None
"""Usage of memories by id, without those never used; None: not known now."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StoreRequest(_Request):
    """A statement to remember."""

    content: Content
    type: MemoryType = MemoryType.SEMANTIC
    project_id: Project = ""
    importance: Importance = 0.5
    expires_at: Expiry = None
    metadata: Metadata = Field(default_factory=dict)

    def new_memory(self) -> NewMemory:
        return NewMemory(
            content=self.content,
            type=self.type,
            importance=self.importance,
            expires_at=self.expires_at if "expires_at" in self.model_fields_set else Unchanged.UNCHANGED,
            metadata=self.metadata,
        )


def _absent() -> Any:
    """The value of a field that was not sent; never read, because `model_fields_set` says so."""
    return None


class UpdateRequest(_Request):
    """Changes to a memory; a field that is not sent stays as it is.

    Null is no value, except for `expires_at`, and inside `metadata`, which is merged (RFC 7396): there it removes a key.
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    content: Content = Field(default_factory=_absent)
    type: MemoryType = Field(default_factory=_absent)
    project_id: Project = Field(default_factory=_absent)
    importance: Importance = Field(default_factory=_absent)
    expires_at: Expiry = Field(default_factory=_absent)
    metadata: Metadata = Field(default_factory=_absent)

    def edit(self) -> MemoryEdit:
        return MemoryEdit(**{name: getattr(self, name) for name in self.model_fields_set})


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 10.0 is an integer there."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class SearchRequest(_Request):
    """What to look for."""

    query: Annotated[str, Field(min_length=1, examples=["What's my budget for the trip?"])]
    limit: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=MAX_HITS, strict=True)] = 10
    types: Annotated[
        list[MemoryType] | None, Field(min_length=1, description="Only these types; without it every type.")
    ] = None
    project_id: Annotated[
        str | None,
        Field(description='Only this project; "" only memories without a project; without it every project.'),
    ] = None
    threshold: Annotated[
        float | None,
        Field(ge=-1, le=1, strict=True, description="Least relevance; without it the most relevant, however little."),
    ] = None


class StatementJson(BaseModel):
    """A statement that was derived from a quote."""

    attribute: str = Field(examples=["budget for the Hawaii trip"])
    value: str = Field(examples=["$10,000"])
    text: str = Field(examples=["User's budget for the Hawaii trip is $10,000"])


class MemoryJson(BaseModel):
    """One memory."""

    id: str = Field(examples=["mem_01890a5d-ac96-774b-bcce-b302099a8057"])
    type: MemoryType
    form: Form = Field(description="`quote`: in the user's own words; `statement`: in the third person.")
    content: str = Field(examples=["User's budget for the Hawaii trip is $10,000"])
    user_id: str = Field(examples=["alice"])
    project_id: str = Field(description='"" is the user\'s own space.')
    agent_id: str = Field(description='The agent that it was learned with, if one was named; else "".')
    session_id: str = Field(description='The session it was said in; "" when it was stored through this API.')
    source: str = Field(description="`conversation` or `api`.", examples=["conversation"])
    observed_at: datetime = Field(description="When it was said; decides what is newer.")
    created_at: datetime
    updated_at: datetime
    superseded_at: datetime | None = Field(description="When a newer memory replaced it; it is not recalled since.")
    superseded_by: str | None = Field(
        description="The id of that newer memory; null where a statement was only taken back."
    )
    expires_at: datetime | None = Field(description="From then on it is not recalled, and a sweep deletes it.")
    importance: float
    flagged: bool = Field(description="It contradicts other memories and could not be reconciled; all stay.")
    contradicts: list[str] = Field(description="The ids of those.")
    access_count: int | None = Field(
        description="How often it was put into a request, as written every `memory.ageing.usage_seconds`; null while that"
        " cannot be read."
    )
    last_accessed_at: datetime | None = Field(description="When last; null when never, or while it cannot be read.")
    context: str = Field(description='What a quote was said about, where its own words do not tell; else "".')
    statements: list[StatementJson] = Field(description="What a quote says for certain; empty for a statement.")
    quote: str | None = Field(description="The id of the quote that a model made the statement from.")
    metadata: dict[str, Any]

    @classmethod
    def of(cls, memory: Memory, usage: UsageById = None) -> Self:
        return cls(**_fields(memory, usage))


class HitJson(MemoryJson):
    """A memory that a search found."""

    similarity: float = Field(description="Cosine of query and memory, -1 to 1.")
    relevance: float = Field(
        description="The calibrated probability that it helps, as recall weighs it, 0 to 1; `threshold` is compared with"
        " it. With `memory.recall.strategy: semantic` it is the cosine."
    )

    @classmethod
    def of_hit(cls, hit: Hit, usage: UsageById) -> Self:
        return cls(**_fields(hit.memory, usage), similarity=hit.similarity, relevance=hit.relevance)


class MemoryList(BaseModel):
    """One page, newest first. It may hold fewer than `limit` memories and still have a successor."""

    object: Literal["list"] = "list"
    data: Sequence[MemoryJson]
    next_cursor: str | None = Field(description="Send it as `cursor` for the next page; null at the end.")


class HitList(BaseModel):
    """What a search found, best first."""

    object: Literal["list"] = "list"
    data: Sequence[HitJson]


class History(BaseModel):
    """Memories that replaced one another, oldest first. What was deleted is not among them."""

    object: Literal["list"] = "list"
    data: Sequence[MemoryJson]


class SessionEnd(BaseModel):
    """The session's end is announced; it is summed up in the background."""

    object: Literal["memory.session_end"] = "memory.session_end"
    session_id: str = Field(description="Our own id of the session.")
    waiting: int = Field(description="Turns of it that are not learned from yet.")


class RefusedLine(BaseModel):
    """Why a line was refused."""

    line: int = Field(description="Its number, from 1.")
    param: str | None = Field(description="The field that is at fault, if it is one.")
    message: str


class Imported(BaseModel):
    """What became of the lines: each was imported, skipped or refused."""

    object: Literal["memory.import"] = "memory.import"
    lines: int = Field(description="How many there were, blank ones left out.")
    imported: int
    skipped: int = Field(description="Known already, or expired.")
    refused: int
    errors: list[RefusedLine] = Field(description="The first refused lines, at most 100.")

    @classmethod
    def of(cls, report: ImportReport) -> Self:
        return cls(
            lines=report.lines,
            imported=report.imported,
            skipped=report.skipped,
            refused=report.refused,
            errors=[RefusedLine(line=each.line, param=each.field, message=each.message) for each in report.errors],
        )


class Deleted(BaseModel):
    """The memory is gone, and with it what it had replaced; a quote goes with its statements, a statement with its quote."""

    id: str
    object: Literal["memory.deleted"] = "memory.deleted"
    deleted: Literal[True] = True


class DeletedAll(BaseModel):
    """The memories are gone, and with them the turns that still waited for extraction."""

    object: Literal["memory.deleted"] = "memory.deleted"
    user_id: str
    project_id: str | None = Field(description="Null when every project was meant.")
    deleted: int = Field(description="How many memories there were.", examples=[12])


class ErrorDetail(BaseModel):
    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None = Field(description="The field or parameter that is at fault, if it is one.")
    code: str = Field(examples=["memory_not_found"])


class ErrorJson(BaseModel):
    """An error, in the shape of OpenAI's APIs."""

    error: ErrorDetail


def _fields(memory: Memory, usage: UsageById) -> dict[str, Any]:
    used = usage.get(memory.id) if usage is not None else None
    return {
        "id": memory.id,
        "type": memory.type,
        "form": memory.form,
        "content": memory.content,
        "user_id": memory.scope.user_id,
        "project_id": memory.scope.project_id,
        "agent_id": memory.scope.agent_id,
        "session_id": memory.session_id,
        "source": memory.source,
        "observed_at": memory.observed_at,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "superseded_at": memory.superseded_at,
        "superseded_by": memory.superseded_by or None,
        "expires_at": memory.expires_at,
        "importance": memory.importance,
        "flagged": memory.metadata.get("flagged") is True,
        "contradicts": _ids(memory.metadata.get("contradicts")),
        "access_count": used.access_count if used else None if usage is None else 0,
        "last_accessed_at": used.last_accessed_at if used else None,
        "context": memory.context,
        "statements": [asdict(fact) for fact in memory.facts],
        "quote": memory.quote or None,
        "metadata": dict(memory.metadata),
    }


def _ids(value: Json) -> list[str]:
    """Ids in metadata: one or several, or what a caller once called so."""
    several = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in several if isinstance(each, str) and each]
