"""One small hierarchy, in families by who must act. Pure.

Nothing here ever reaches a client of the LLM: on the request path each of these ends in "pass the request untouched".
"""


class MemoryServiceError(Exception):
    """Base of everything this package raises on purpose."""


# The operator must act: the process does not start, and the message names the setting and the fix.
class ConfigurationError(MemoryServiceError):
    """A setting is missing, malformed or contradicts another, or what it names (model files, a collection) does not fit."""


# The traffic is not ours: it passes untouched, and the reason is counted.
class BodyError(MemoryServiceError):
    """A body that is not what its path promises (not JSON, another shape, too large)."""


# A part is away for a while: this request goes on without memory, background work is tried again.
class UnavailableError(MemoryServiceError):
    """Base of everything that may work again later without anybody acting."""


class StoreUnavailableError(UnavailableError):
    """The vector store cannot be reached or did not answer in time."""


class StoreFullError(StoreUnavailableError):
    """The vector store can be read, but has no room to write."""


class EmbeddingError(UnavailableError):
    """A text could not be embedded."""


class ChatModelError(UnavailableError):
    """The external model failed: connection, timeout, or a status that is not a success.

    Attributes:
        status: the HTTP status of the answer; None when there was no answer.
        cause: what failed, in words that hold no content of prompt or answer.
    """

    def __init__(self, message: str, *, status: int | None = None, cause: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause


class ModelAwayError(ChatModelError):
    """The endpoint did not serve the call: no connection, no answer in time, overloaded, or a server's error.

    That the prompt is at fault is known only when the endpoint serves others.

    Attributes:
        wait_seconds: how long asking again makes no sense; 0 when that is not known.
    """

    def __init__(self, message: str, *, wait_seconds: float = 0.0, status: int | None = None, cause: str = "") -> None:
        super().__init__(message, status=status, cause=cause)
        self.wait_seconds = wait_seconds


class CircuitOpenError(ModelAwayError):
    """The external model is known to be unavailable: it was not called, or only as a probe. Counts as no attempt."""


class StateStoreError(UnavailableError):
    """Session state or usage could not be read or written."""


class OwnerVersionsError(UnavailableError):
    """Whether an owner's memories changed cannot be learned or told: the shared counter is away."""


class LockLostError(UnavailableError):
    """The owner's lock ran out while it was held (a process that stood still); nothing may be written under it."""


class ExtractionParseError(MemoryServiceError):
    """The external model answered something that is not the JSON array it was asked for."""


class TurnLogError(MemoryServiceError):
    """The turn log could not be read or written.

    Attributes:
        reason: `log_failed`, `log_full` (the disk has no room) or `log_damaged` (it takes no turns until a sound file is in its place).
    """

    def __init__(self, message: str, *, reason: str = "log_failed") -> None:
        super().__init__(message)
        self.reason = reason


# Who runs a command must act.
class InputFileError(MemoryServiceError):
    """A file of cases, a recording or Envoy's tap output cannot be read or written; the message names file and line or offset."""


# The caller of the management API must act; the message is shown to them.
class InvalidRequestError(MemoryServiceError):
    """A management request that cannot be carried out as it was asked.

    Attributes:
        field: the offending field, or None when it is not about one.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFoundError(MemoryServiceError):
    """There is no such memory among those the caller may see.

    Attributes:
        kind: what there is none of: `memory`, `session` or `turn`.
    """

    def __init__(self, message: str, *, kind: str = "memory") -> None:
        super().__init__(message)
        self.kind = kind
