"""The package's exceptions, in families by who must act, and how each one is reported. Pure.

On the request path each of these ends in "pass the request untouched": none reaches a client of the LLM.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from http import HTTPStatus
from typing import Any


class MemoryServiceError(Exception):
    """Base of everything this package raises on purpose."""


# The operator must act: the process does not start, and the message names the setting and the fix.
class ConfigurationError(MemoryServiceError):
    """A setting is missing, malformed or contradicts another, or what it names (model files, a collection) does not fit."""


# The traffic is not ours: it passes untouched, and the reason is counted.
class BodyError(MemoryServiceError):
    """A body that is not what its path promises (not JSON, another shape, too large)."""


# A part is unavailable for a while: this request goes on without memory, background work is tried again.
class Service(StrEnum):
    """What is unavailable: a part, or an operation that an unavailable part left unfinished."""

    STORE = "store"
    STATE = "state"
    TURN_LOG = "turn_log"
    OWNER_VERSIONS = "owner_versions"
    """The counters that say whether an owner's memories changed."""
    LOCK = "lock"
    EMBEDDING = "embedding"
    CHAT_MODEL = "chat_model"
    REDIS = "redis"
    """Seen inside its adapters only: they raise the error of the part that they implement."""
    SERVER = "server"
    """A server or process that a command needs."""
    DELETION = "deletion"
    """It is committed and hides the memory from every read, but traces are left. Repeating it deletes them."""
    IMPORT = "import"
    """Sending the same lines again goes on where it ended."""
    MAINTENANCE = "maintenance"
    """The message names the part that failed. The others succeeded, and repeating the request is safe."""


class UnavailableError(MemoryServiceError):
    """Something that may work again later without an operator."""

    def __init__(self, message: str = "", *, service: Service) -> None:
        super().__init__(message)
        self.service = service


class StoreUnavailableError(UnavailableError):
    """The vector store cannot be reached, did not answer in time, or refused a call.

    Attributes:
        disk_full: it can be read, but has no disk space to write.
        connection_lost: the other end does not answer: calls need a new connection.
    """

    def __init__(self, message: str = "", *, disk_full: bool = False, connection_lost: bool = False) -> None:
        super().__init__(message, service=Service.STORE)
        self.disk_full = disk_full
        self.connection_lost = connection_lost


class LockLostError(UnavailableError):
    """The owner's lock cannot be had, or expired while it was held; nothing may be written under it."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message, service=Service.LOCK)


class ModelFault(Enum):
    """What a failed call says about the model, whose endpoint is available."""

    PROMPT = auto()
    """This prompt, or this answer, is at fault."""
    REFUSED = auto()
    """The endpoint refuses this model: key, path or name are wrong, or the plainest prompt is refused as well."""
    UNPARSABLE = auto()
    """The answer is not the JSON that the prompt asked for, or is cut off."""


class ChatModelError(UnavailableError):
    """The external model failed: connection, timeout, a status that is not a success, or an unusable answer.

    Attributes:
        status: the HTTP status of the answer; None when there was no answer.
        cause: what failed, in words that hold no content of prompt or answer.
    """

    def __init__(
        self, message: str, *, fault: ModelFault = ModelFault.PROMPT, status: int | None = None, cause: str = ""
    ) -> None:
        super().__init__(message, service=Service.CHAT_MODEL)
        self.fault = fault
        self.status = status
        self.cause = cause


class ModelUnavailableError(ChatModelError):
    """The endpoint did not serve the call: no connection, no answer in time, overloaded, or a server's error.

    That the prompt is at fault is known only when the endpoint serves others.

    Attributes:
        wait_seconds: how long asking again makes no sense; 0 when that is not known.
        circuit_open: the endpoint, or this model, was known to fail: no call was made, or only a probe. It counts as no attempt.
    """

    def __init__(
        self,
        message: str,
        *,
        wait_seconds: float = 0.0,
        circuit_open: bool = False,
        status: int | None = None,
        cause: str = "",
    ) -> None:
        super().__init__(message, status=status, cause=cause)
        self.wait_seconds = wait_seconds
        self.circuit_open = circuit_open


class TurnLogError(UnavailableError):
    """The turn log could not be read or written.

    Attributes:
        reason: `log_failed`, `log_full` (the disk has no room) or `log_damaged` (it takes no turns until a sound file is in its place).
    """

    def __init__(self, message: str, *, reason: str = "log_failed") -> None:
        super().__init__(message, service=Service.TURN_LOG)
        self.reason = reason


# The user of a command must act.
class InputFileError(MemoryServiceError):
    """A file of cases, a recording or Envoy's tap output cannot be read or written; the message names file and line or offset."""


# The caller of the management API must act; the message is shown to them.
class InvalidRequestError(MemoryServiceError):
    """A management request that cannot be carried out as it was asked.

    Attributes:
        field: the offending field, or None when it is not about one.
        code: what the API calls the error.
    """

    def __init__(self, message: str, *, field: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.field = field
        self.code = code


class NotFoundError(MemoryServiceError):
    """There is no such memory among those the caller may see; the message is shown to the caller.

    Attributes:
        kind: what there is none of: `memory`, `owner`, `user`, `session`, `settings`, `turn` ...
    """

    def __init__(self, message: str, *, kind: str = "memory") -> None:
        super().__init__(message)
        self.kind = kind


# -- how errors are reported ---------------------------------------------------------------------------------------

EXIT_STATUS = 2
"""The exit status of a command that ends in a `MemoryServiceError`."""
TOO_MANY_LINES = "too_many_lines"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a client of the management API gets."""

    status: HTTPStatus
    code: str
    message: str
    field: str | None = None


_SERVICES = {
    Service.STATE: ("StateStoreError", "state_unavailable", "the state store is unavailable at present"),
    Service.STORE: ("StoreUnavailableError", "store_unavailable", "the store is unavailable at present"),
    Service.OWNER_VERSIONS: ("OwnerVersionsError", "", ""),
    Service.LOCK: (
        "LockLostError",
        "lock_lost",
        "this user's memories cannot be locked for a change at present; repeat the request",
    ),
    Service.EMBEDDING: ("EmbeddingError", "embedding_unavailable", "the text could not be embedded"),
    Service.TURN_LOG: (
        "TurnLogError",
        "turn_log_unavailable",
        "the turn log, which has the tombstones, is not readable",
    ),
    Service.DELETION: (
        "DeletionUnfinishedError",
        "deletion_unfinished",
        "a part is unavailable; the memory is hidden from now on, but not all of it is deleted: repeat the request",
    ),
    Service.IMPORT: ("ImportUnfinishedError", "import_unfinished", ""),
    Service.MAINTENANCE: ("MaintenanceError", "maintenance_failed", ""),
}
"""The service's name in logs and metrics, its code in the API, and the message there; "" is the error's own message."""


def name_of(error: BaseException) -> str:
    """Names an error in logs, in labels of metrics and in spans: its message may quote content."""
    match error:
        case StoreUnavailableError(disk_full=True):
            return "StoreFullError"
        case StoreUnavailableError(connection_lost=True):
            return "ConnectionLostError"
        case ModelUnavailableError(circuit_open=True):
            return "CircuitOpenError"
        case UnavailableError() if error.service in _SERVICES:
            return _SERVICES[error.service][0]
        case _:
            return type(error).__name__


def failure_of(error: BaseException) -> str:
    """The reason of a failed extraction."""
    match error:
        case ChatModelError(fault=ModelFault.UNPARSABLE):
            return "parse_failed"
        case ChatModelError():
            return "model_failed"
        case StoreUnavailableError():
            return "write_refused"
        case _:
            return name_of(error)


def http_answer(error: BaseException) -> HttpAnswer:
    """The management API's answer to a request that ended in this error."""
    match error:
        case InvalidRequestError():
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if error.code == TOO_MANY_LINES else HTTPStatus.BAD_REQUEST
            return HttpAnswer(status, error.code, str(error), error.field)
        case NotFoundError():
            return HttpAnswer(HTTPStatus.NOT_FOUND, f"{error.kind}_not_found", str(error))
        case UnavailableError() if error.service in _SERVICES and _SERVICES[error.service][1]:
            _, code, message = _SERVICES[error.service]
            return HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, code, message or str(error))
        case _:
            message = "the server failed to answer this request"
            return HttpAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", message)


def complaint(problem: Mapping[str, Any]) -> str:
    """What one of pydantic's `errors()` says: the rule that a field breaks, never the value."""
    return _COMPLAINTS.get(problem["type"]) or str(problem["msg"]).removeprefix("Value error, ")


_COMPLAINTS = {
    "extra_forbidden": "unknown field",
    "model_type": "Input should be a mapping",
    "dict_type": "Input should be a mapping",
    "tuple_type": "Input should be a list",
    "path_type": "Input should be a path",
}
"""In place of the library's, which speak of Python's types."""
