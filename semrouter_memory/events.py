"""What happens in the service, as values: code reports an event once, telemetry derives metrics, logs and spans from it. Pure.

An event never carries content. An exception in an event may: subscribers record its type only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from semrouter_memory.model import Appended, MaintenanceReport, Reason, RecallResult, ReconcileAction


@dataclass(frozen=True, slots=True)
class ExchangeBypassed:
    """An exchange passes without memory."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class ExchangeFailed:
    """An exchange passes without memory because of a bug."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class SettingsUnreadable:
    """Settings of a request or its route cannot be read; the features they control are off for the request."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class RecallFinished:
    """Recall decided about a request."""

    result: RecallResult


@dataclass(frozen=True, slots=True)
class TurnAppended:
    """A turn was offered to the turn log."""

    appended: Appended


@dataclass(frozen=True, slots=True)
class SecretsRedacted:
    """Secrets of these kinds were removed from a turn before it was logged."""

    kinds: Sequence[str]


@dataclass(frozen=True, slots=True)
class TurnDropped:
    """A finished exchange was not accepted.

    Attributes:
        reason: `log_full`, `log_damaged`, `log_failed` or `internal_error` when it could not be written; `encoded_answer`,
            `damaged_answer` or `answer_too_large` when its answer could not be read.
        detail: the content encoding of an `encoded_answer`.
    """

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionFinished:
    """An extractor read turns of a session, or failed to.

    Attributes:
        actions: what reconciling did, by action.
        failure: a short word; "" when the extraction succeeded.
        status: HTTP status of a model that answered with an error.
        cause: why a model failed, without content.
    """

    extractor: str
    turns: int
    candidates: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    dead_lettered: int = 0
    status: int | None = None
    cause: str = ""

    @property
    def stored(self) -> int:
        """How many memories were written."""
        return sum(self.actions.get(action, 0) for action in ReconcileAction if action is not ReconcileAction.SKIP)


@dataclass(frozen=True, slots=True)
class CandidatesRefused:
    """The grounding check refused facts that a model extracted: reason -> how many."""

    extractor: str
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SessionDue:
    """A session's turns are read, or its episode is written, because of this trigger."""

    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFinished:
    """A session's end was processed; `extractor` is "" when there was nothing to summarise."""

    extractor: str
    turns: int
    written: bool

    @property
    def outcome(self) -> str:
        return "written" if self.written else "dropped" if self.extractor else "nothing"


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """Background work ended in an error that is not an outage: a bug."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """An operation on the store failed."""

    operation: str
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStateChanged:
    """The store became available or unavailable."""

    available: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStateChanged:
    """A model's circuit opened or closed; `detail` is a status or an error's type."""

    host: str
    available: bool
    detail: str


@dataclass(frozen=True, slots=True)
class PassagesTruncated:
    """So many texts were longer than the embedding model reads; their vectors do not cover the rest."""

    count: int


@dataclass(frozen=True, slots=True)
class MaintenanceFinished:
    """A maintenance run ended."""

    report: MaintenanceReport


RequestEvent: TypeAlias = RecallFinished | ExchangeBypassed | ExchangeFailed | SettingsUnreadable
TurnEvent: TypeAlias = (
    TurnAppended | SecretsRedacted | TurnDropped | ExtractionFinished | CandidatesRefused | SessionDue | EpisodeFinished
)
ServiceEvent: TypeAlias = (
    WorkFailed | StoreFailed | StoreStateChanged | ModelStateChanged | PassagesTruncated | MaintenanceFinished
)
Event: TypeAlias = RequestEvent | TurnEvent | ServiceEvent
