"""The JSON of the management API.

Requests are strict: an unknown field is an error. Answers are read from the service's own values (`from_attributes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeAlias, TypeVar

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from semrouter_memory.manage.parameters import (
    Category,
    FilterText,
    IsPinned,
    OneForm,
    OneProject,
    OneSource,
    Since,
    Until,
    UtcTime,
)
from semrouter_memory.model import (
    CATEGORY,
    PASSAGE_COUNT,
    Episode,
    Form,
    Hit,
    Json,
    Memory,
    MemoryType,
    Usage,
    filterable,
)

MAX_PAGE = 200
MAX_HITS = 100

Content = Annotated[
    str,
    Field(
        min_length=1,
        description="The statement, in the third person. A longer one than `management.max_content_chars` is refused;"
        " the error names the limit.",
        examples=["User's budget for the Hawaii trip is $10,000"],
    ),
]
Importance = Annotated[float, Field(ge=0, le=1, strict=True, description="0 (trivia) to 1 (vital)")]
Pinned = Annotated[
    bool,
    Field(
        strict=True,
        description="Whether every request is given it, whatever it asks, within `memory.recall.pinned_tokens`. A pinned memory"
        " does not expire, and is evicted only where pinned ones alone exceed the quota; a newer statement that replaces it is pinned in its place.",
    ),
]


Metadata = Annotated[
    dict[str, Any],
    Field(
        description="Anything worth keeping with the statement, as JSON; filters name its texts, numbers and booleans. `form`, `context`, `quote`, `statements`,"
        " `episode`, `outdated_by`, `turn_ids`, `extractor`, `model`, `confirmations`, `flagged`, `pinned`, `contradicts`, `replaces`, `consolidated_from`, `derived_from`, `imported_at`, `asserted_at` and `within`"
        " belong to the service. Bounded by `management.max_metadata_bytes`.",
        examples=[{"origin": "crm"}],
    ),
]
Project = Annotated[
    str, Field(description='The project it belongs to; "" is the user\'s own space.', examples=["trip-planner"])
]


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


class ApiRequest(BaseModel):
    """What a route reads."""

    model_config = ConfigDict(extra="forbid")


class ApiAnswer(BaseModel):
    """What a route answers."""

    model_config = ConfigDict(from_attributes=True, json_schema_serialization_defaults_required=True)


_Item = TypeVar("_Item")


class ApiList(ApiAnswer, Generic[_Item]):
    """What a route lists, or one page of it."""

    object: Literal["list"] = "list"
    data: Sequence[_Item]


_PARTS = frozenset(each.name for each in fields(Episode))
_Part = Annotated[str, Field(max_length=1000)]


class EpisodeParts(ApiRequest):
    """What was done, part by part; for the type `episodic` alone."""

    goal: _Part = Field(
        default_factory=str, description="What was to be done.", examples=["Deploy the billing service"]
    )
    steps: list[_Part] = Field(
        default_factory=list, max_length=50, description="In their order.", examples=[["helm upgrade", "smoke test"]]
    )
    outcome: _Part = Field(default_factory=str, description="How it ended.", examples=["Rolled back: old k8s version"])
    lessons: list[_Part] = Field(
        default_factory=list,
        max_length=20,
        description="What to do the same or otherwise next time.",
        examples=[["Verify the k8s version first"]],
    )

    def applied(self, episode: Episode) -> Episode:
        """The episode with the parts that were sent, without blank texts."""
        sent: dict[str, Any] = {name: _trimmed(getattr(self, name)) for name in _PARTS & self.model_fields_set}
        return replace(episode, **sent)

    @property
    def episode(self) -> Episode:
        """The parts that were sent."""
        return self.applied(Episode())


def _trimmed(part: str | list[str]) -> str | tuple[str, ...]:
    return part.strip() if isinstance(part, str) else tuple(text for each in part if (text := each.strip()))


class StoreRequest(EpisodeParts):
    """A statement to remember, or an episode by its parts; its `content` is then made of them, unless it is given."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in ("content", *sorted(_PARTS))]}
    )

    content: Content = ""
    type: Annotated[
        MemoryType,
        Field(description="`semantic`: what is so; `procedural`: how something is done; `episodic`: what happened."),
    ] = MemoryType.SEMANTIC
    project_id: Project = ""
    importance: Importance = 0.5
    category: Category = ""
    expires_at: Expiry = None
    within_session: str = Field(
        default_factory=str,
        max_length=256,
        description="What the client calls a session: recalled there alone, and deleted at its end, soon if that never comes.",
    )
    promote: bool = Field(default_factory=bool, description="Not deleted at the session's end: then the user's own.")
    pinned: Pinned = Field(default_factory=bool)
    metadata: Metadata = Field(default_factory=dict)


def _absent() -> Any:
    """The value of a field that was not sent; never read, because `model_fields_set` says so."""
    return None


class UpdateRequest(EpisodeParts):
    """Changes to a memory; a field that is not sent stays as it is.

    A `content` that was made of an episode's parts follows them. A new `content` or type replaces the parts with those that
    are sent along.

    Null is no value, except for `expires_at`, and inside `metadata`, which is merged (RFC 7396): there it removes a key.
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    content: Content = Field(default_factory=_absent)
    type: MemoryType = Field(default_factory=_absent)
    project_id: Project = Field(default_factory=_absent)
    importance: Importance = Field(default_factory=_absent)
    category: Category = Field(default_factory=_absent)
    expires_at: Expiry = Field(default_factory=_absent)
    pinned: Pinned = Field(default_factory=_absent)
    metadata: Metadata = Field(default_factory=_absent)

    def changes(self) -> dict[str, Any]:
        """The fields that were sent, besides the parts of an episode."""
        return {name: getattr(self, name) for name in self.model_fields_set - _PARTS}


def whole_number(value: Any) -> Any:
    """JSON knows one kind of number: 10.0 is an integer there."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class SearchRequest(ApiRequest):
    """What to look for."""

    query: Annotated[
        str, Field(min_length=1, description="What to look for, in words.", examples=["What's my budget for the trip?"])
    ]
    limit: Annotated[
        int, Field(ge=1, le=MAX_HITS, strict=True, description="At most so many."), BeforeValidator(whole_number)
    ] = 10
    types: Annotated[
        list[MemoryType] | None, Field(min_length=1, description="Only these types; without it every type.")
    ] = None
    project_id: OneProject = None
    threshold: Annotated[
        float | None,
        Field(ge=-1, le=1, strict=True, description="Least relevance; without it the most relevant, however little."),
    ] = None
    since: Since = None
    until: Until = None
    form: OneForm = None
    source: OneSource = None
    pinned: IsPinned = None
    filter: FilterText = ""
    cursor: Annotated[str, Field(description="`next_cursor` of the page before, which the same search gave.")] = ""


def _ids(value: Json) -> list[str]:
    """Ids in metadata: one or several, or what a caller once called so."""
    several = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in several if isinstance(each, str) and each]


_IdOrNull = Annotated[str | None, BeforeValidator(lambda value: value or None)]


class StatementJson(ApiAnswer):
    """A statement that was derived from a quote."""

    attribute: str = Field(examples=["budget for the Hawaii trip"])
    value: str = Field(examples=["$10,000"])
    text: str = Field(examples=["User's budget for the Hawaii trip is $10,000"])


class MemoryJson(ApiAnswer):
    """One memory."""

    id: str = Field(examples=["mem_01890a5d-ac96-774b-bcce-b302099a8057"])
    type: MemoryType
    form: Form = Field(description="`quote`: in the user's own words; `statement`: in the third person.")
    content: str = Field(examples=["User's budget for the Hawaii trip is $10,000"])
    owner: str = Field(
        validation_alias=AliasPath("scope", "owner"),
        description="The kind of the owner (`user`, `org`, `agent`), a colon and the id.",
        examples=["user:alice"],
    )
    project_id: str = Field(
        validation_alias=AliasPath("scope", "project_id"), description='"" is the owner\'s own space.'
    )
    session_id: str = Field(description='The session it was said in; "" when it was stored through this API.')
    within_session: str = Field(description='What the client calls the session that it holds in; "": in all.')
    promote: bool = Field(description="Whether it becomes the user's own at the end of that session.")
    source: str = Field(
        description="`conversation`, `session` (the summary of one), `reflection` (an insight) or `api`.",
        examples=["conversation"],
    )
    observed_at: datetime = Field(description="When it was said; decides what is newer.")
    created_at: datetime
    updated_at: datetime
    superseded_at: datetime | None = Field(description="When a newer memory replaced it; it is not recalled since.")
    superseded_by: _IdOrNull = Field(
        description="The id of that newer memory; null where a statement was only taken back."
    )
    expires_at: datetime | None = Field(description="From then on it is not recalled, and a sweep deletes it.")
    importance: float
    pinned: bool = Field(description="Whether every request is given it, whatever it asks.")
    category: Annotated[str, BeforeValidator(lambda value: filterable(value) if isinstance(value, str) else "")] = (
        Field(
            validation_alias=AliasPath("metadata", CATEGORY),
            default="",
            description='The category that a caller gave it, or "".',
        )
    )
    flagged: Annotated[bool, BeforeValidator(lambda value: value is True)] = Field(
        validation_alias=AliasPath("metadata", "flagged"),
        default=False,
        description="It contradicts other memories and could not be reconciled; all stay.",
    )
    contradicts: Annotated[list[str], BeforeValidator(_ids)] = Field(
        validation_alias=AliasPath("metadata", "contradicts"), default_factory=list, description="The ids of those."
    )
    access_count: int | None = Field(
        default=None,
        description="How often it was put into a request, as written every `memory.ageing.usage_seconds`; null while that"
        " cannot be read.",
    )
    last_accessed_at: datetime | None = Field(
        default=None, description="When last; null when never, or while it cannot be read."
    )
    context: str = Field(description='What a quote was said about, where its own words do not tell; else "".')
    statements: list[StatementJson] = Field(
        validation_alias="facts", description="What a quote says for certain; empty for a statement."
    )
    goal: str = Field(validation_alias=AliasPath("episode", "goal"), description='Of an episode: its goal, or "".')
    steps: list[str] = Field(validation_alias=AliasPath("episode", "steps"), description="Of an episode.")
    outcome: str = Field(validation_alias=AliasPath("episode", "outcome"), description='Of an episode; else "".')
    lessons: list[str] = Field(validation_alias=AliasPath("episode", "lessons"), description="Of an episode.")
    quote: _IdOrNull = Field(description="The id of the quote that a model made the statement from.")
    metadata: dict[str, Any]

    @classmethod
    def of(cls, memory: Memory, usage: UsageById = None) -> Self:
        """Args: usage: None: not known now."""
        shown = cls.model_validate(memory)
        # How it is stored, not what was said.
        shown.metadata.pop(PASSAGE_COUNT, None)
        if usage is not None:
            used = usage.get(memory.id)
            shown.access_count = used.access_count if used else 0
            shown.last_accessed_at = used.last_accessed_at if used else None
        return shown


class HitJson(MemoryJson):
    """A memory that a search found."""

    similarity: float = Field(default_factory=float, description="Cosine of query and memory, -1 to 1.")
    relevance: float = Field(
        default_factory=float,
        description="The calibrated probability that it helps, as recall weighs it, 0 to 1; `threshold` is compared with"
        " it. With `memory.recall.strategy: semantic` it is the cosine.",
    )

    @classmethod
    def of_hit(cls, hit: Hit, usage: UsageById) -> Self:
        shown = cls.of(hit.memory, usage)
        shown.similarity, shown.relevance = hit.similarity, hit.relevance
        return shown


class MemoryList(ApiList[MemoryJson]):
    """One page, newest first. It may hold fewer than `limit` memories and still have a successor."""

    next_cursor: str | None = Field(description="Send it as `cursor` for the next page; null at the end.")


class HitList(ApiList[HitJson]):
    """One page of what a search found, best first."""

    next_cursor: str | None = Field(description="Send it as `cursor` for the next page; null at the end.")


class EntityJson(ApiAnswer):
    """A name in the user's memories."""

    name: str = Field(examples=["Anna Schmidt"])
    aliases: Sequence[str] = Field(
        description="Shorter forms, and what it is of the user's.", examples=[["Anna", "sister"]]
    )
    memory_ids: Sequence[str] = Field(
        validation_alias="texts", description="The memories that speak of it, newest first."
    )


class EntityList(ApiList[EntityJson]):
    """One page of names, in the order of the alphabet."""

    next_after: str | None = Field(description="Send it as `after` for the next page; null at the end.")


class History(ApiList[MemoryJson]):
    """Memories that replaced one another, oldest first. What was deleted is not among them."""


class SettingsRequest(ApiRequest):
    """What the user switches."""

    paused: Annotated[bool, Field(strict=True, description="Whether remembering is paused.")]


class SettingsJson(ApiAnswer):
    """How the user's memory is switched. While it is paused, no request is given memories and nothing that is said is stored."""

    object: Literal["memory.settings"] = "memory.settings"
    paused: bool
    paused_at: datetime | None = Field(description="Since when; null while it is not paused.")

    @classmethod
    def of(cls, paused_since: datetime | None) -> Self:
        return cls(paused=paused_since is not None, paused_at=paused_since)


class SessionEnd(ApiAnswer):
    """The session's end is announced; it is summed up in the background."""

    object: Literal["memory.session_end"] = "memory.session_end"
    session_id: str = Field(description="Our own id of the session.")
    waiting: int = Field(description="Turns of it that are not learned from yet.")


class Deleted(ApiAnswer):
    """The memory is gone, and with it what it had replaced; a quote goes with its statements, a statement with its quote."""

    id: str
    object: Literal["memory.deleted"] = "memory.deleted"
    deleted: Literal[True] = True


class DeletedAll(ApiAnswer):
    """The memories are gone, and with them the turns that still waited for extraction."""

    object: Literal["memory.deleted"] = "memory.deleted"
    owner: str = Field(examples=["user:alice"])
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
