"""The values that cross module boundaries. All frozen, none with behaviour beyond its own fields.

Times are aware datetimes in UTC. Texts are user content: they never go into a log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]
"""One L2-normalised embedding, shape (dimension,)."""

Json: TypeAlias = Any
"""Parsed JSON: dict, list, str, int, float, bool or None."""


# -- who and what ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory an operation is about. Every store and session call takes one.

    `project_id` "" is the user's own space, without a project.
    """

    user_id: str
    project_id: str = ""
    agent_id: str = ""

    @property
    def owner(self) -> str:
        """The partition that isolates this user's rows, for example `user:alice`."""
        return f"user:{self.user_id}"


class Reach(StrEnum):
    """Which of the owner's projects an operation touches, relative to its scope."""

    RECALL = "recall"
    """The scope's project and the user's own space; without a project only the latter."""
    EXACT = "exact"
    """Only the scope's project ("" = only the user's own space)."""
    ALL = "all"
    """Every project of the owner."""


class MemoryType(StrEnum):
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    EPISODIC = "episodic"
    REFLECTIVE = "reflective"


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, reduced to its text."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that an agent called on the way to its answer.

    Attributes:
        name: the tool's name.
        outcome: the beginning of what it returned; "" when the result was not seen.
    """

    name: str
    outcome: str = ""


# -- memories ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One remembered statement, in the third person ("User's budget for the Hawaii trip is $10,000").

    Attributes:
        observed_at: when it was said; decides what is newer.
        superseded_at: set when a newer memory replaced it; from then on it is history and is not recalled.
        source: `conversation` or `api`.
        metadata: provenance (`turn_ids`, `extractor`, `model`) and whatever an API caller attached.
    """

    id: str
    scope: Scope
    type: MemoryType
    content: str
    source: str
    observed_at: datetime
    created_at: datetime
    updated_at: datetime
    session_id: str = ""
    superseded_at: datetime | None = None
    superseded_by: str = ""
    expires_at: datetime | None = None
    importance: float = 0.5
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbeddedMemory:
    """A memory with the vector it is found by: what the store writes."""

    memory: Memory
    vector: Vector


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that a search found.

    Attributes:
        similarity: the cosine, -1..1.
        relevance: what is compared with `similarity_threshold`; at first the same as `similarity`.
    """

    memory: Memory
    similarity: float
    relevance: float


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, newest first; `cursor` "" means that there is no further page."""

    memories: tuple[Memory, ...]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something an extractor found worth remembering, before it is reconciled with what is known."""

    type: MemoryType
    content: str
    observed_at: datetime
    extractor: str
    session_id: str = ""
    turn_ids: tuple[str, ...] = ()
    model: str = ""


# -- request phase -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Signals:
    """What upstream classifiers said of the request."""

    is_fact: bool = False
    requires_tool: bool = False


class Position(StrEnum):
    SYSTEM = "system"
    USER_TAIL = "user_tail"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """The settings of one request, merged from file, route and body."""

    limit: int
    threshold: float
    types: frozenset[MemoryType] | None = None
    position: Position = Position.SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """All that recall needs to know of a request.

    Attributes:
        query: the text of the last user message; "" when the body has none (a tool result in a stored chain).
        history: user and assistant messages before that one, oldest first.
        visible: every text that the model will see anyway, system prompt included.
        loop_key: names the user turn: a hash of the conversation up to and including the turn's user messages, so it is
            equal for all steps of an agent's tool loop. Set on every request.
        continues_loop: the last message is a tool result: a later step of the turn that `loop_key` names.
    """

    scope: Scope
    query: str
    options: RecallOptions
    history: tuple[Message, ...] = ()
    visible: tuple[str, ...] = ()
    previous_response_id: str = ""
    signals: Signals = Signals()
    loop_key: str = ""
    continues_loop: bool = False


class Reason(StrEnum):
    """Why memory was searched or not, used or not. Also the metric's label."""

    SEARCH = "search"
    FACT = "fact_query"
    TOOL = "tool_query"
    GREETING = "greeting"
    NO_QUERY = "no_query"
    # outcomes of a search
    INJECTED = "injected"
    BELOW_THRESHOLD = "below_threshold"
    TIMEOUT = "timeout"
    STORE_UNAVAILABLE = "store_unavailable"
    EMBEDDING_FAILED = "embedding_failed"
    INTERNAL = "internal_error"
    # the exchange is not ours
    DISABLED = "disabled"
    OPTED_OUT = "opted_out"
    NO_IDENTITY = "no_identity"
    BAD_IDENTITY = "bad_identity"
    IDENTITY_MISMATCH = "identity_mismatch"
    UNKNOWN_PATH = "unknown_path"
    NOT_POST = "not_post"
    ENCODED_BODY = "encoded_body"
    NOT_JSON = "not_json"
    UNAUTHENTICATED_PROXY = "unauthenticated_proxy"
    UNSUITABLE_BODY_MODE = "unsuitable_body_mode"
    BODY_TOO_LARGE = "body_too_large"
    EARLY_RESPONSE = "early_response"
    NO_ANSWER = "no_answer"


@dataclass(frozen=True, slots=True)
class Decision:
    search: bool
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    """What recall found. `text` is the rendered block, "" when nothing is to be injected.

    Attributes:
        steps_ms: duration of each step that ran, in order (`history`, `embed`, `search`, `rank`, ...).
        tokens: size of `text` in the embedding model's tokens.
        without_history: there were no earlier messages that a vague query could have been completed with.
    """

    reason: Reason
    text: str = ""
    hits: tuple[Hit, ...] = ()
    steps_ms: Mapping[str, float] = field(default_factory=dict)
    tokens: int = 0
    without_history: bool = False


# -- response phase ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHints:
    """How a turn says which session it belongs to; the first that is set wins.

    Attributes:
        explicit: the session header's value.
        conversation_id: of the Responses API.
        previous_response_id: of the Responses API.
        history_hash: chained hash of the messages before this turn; "" when there is no assistant message among them,
            which makes it a new session.
    """

    explicit: str = ""
    conversation_id: str = ""
    previous_response_id: str = ""
    history_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The user's messages since the last assistant answer, and that answer.

    Attributes:
        request_id: Envoy's `x-request-id`; "" when unknown.
        retry_of: a key that marks client retries of one request (`idempotency-key`); "" when unknown.
        user_texts: the user's messages of this turn, in order. Empty for the end of a stored chain's tool loop, whose
            messages are in an earlier, incomplete turn.
        complete: False when the answer was only tool calls: the turn ends with a later exchange.
        transcript_hashes: chained hashes of the conversation up to and including the answer, one per choice.
        observed_at: when the request arrived.
        ends_session: the client says that the session is at its end with this turn.
        items: the turn's whole items as the Responses API spells them, input before output, tool calls included; None
            where they are not kept (context compression is off, another API, or they held a secret).
    """

    scope: Scope
    hints: SessionHints
    user_texts: tuple[str, ...]
    assistant_text: str
    observed_at: datetime
    request_id: str = ""
    retry_of: str = ""
    response_id: str = ""
    model: str = ""
    transcript_hashes: tuple[str, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    complete: bool = True
    ends_session: bool = False
    items: tuple[Json, ...] | None = None


class TurnState(StrEnum):
    WAITING = "waiting"
    EXTRACTED = "extracted"
    EMPTY = "empty"
    DEAD = "dead"
    """Extraction was given up: a dead letter, until somebody retries or drops it."""
    INCOMPLETE = "incomplete"
    """Its answer was only tool calls: not accepted yet, kept aside for the exchange that completes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTurn:
    """A turn as the turn log holds it.

    Attributes:
        id: the log's own id.
        sequence: grows with every accepted turn; the order within a session.
        rules_done: the rule extractor has seen it.
        attempts: failed extractions so far.
        error: a short word for the last failure; never content.
        transcript_hashes: as in `Turn`, those of repetitions included.
        items: as in `Turn`.
    """

    id: str
    sequence: int
    scope: Scope
    session_id: str
    user_text: str
    assistant_text: str
    observed_at: datetime
    model: str = ""
    tools: tuple[ToolUse, ...] = ()
    state: TurnState = TurnState.WAITING
    rules_done: bool = False
    attempts: int = 0
    error: str = ""
    transcript_hashes: tuple[str, ...] = ()
    items: tuple[Json, ...] | None = None


class AppendOutcome(StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    INCOMPLETE = "incomplete"
    """Kept aside until the exchange that completes it; not counted as accepted."""
    FORGOTTEN = "forgotten"
    """Said before a deletion of its scope: not written."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of a turn; `session_id` and `turn_id` are "" as long as they are resolved later (a spooled turn)."""

    outcome: AppendOutcome
    session_id: str = ""
    turn_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSession:
    """A session that is not done with: turns wait, or its end has not been summed up. What triggers decide on.

    Attributes:
        waiting: turns not finished yet.
        unsummarised: accepted turns since the session's last episode.
        ended: its end was announced (by the client or through the API) and is not summed up yet.
        rules_pending: of these, turns that the rule extractor has not seen.
        remember: one of the waiting turns asks explicitly to remember something.
        last_observed_at: the newest turn's time; the session is idle since then.
        not_before: no attempt before this time (back-off after a failure).
    """

    scope: Scope
    session_id: str
    waiting: int
    rules_pending: int
    remember: bool
    last_observed_at: datetime
    not_before: datetime | None = None
    unsummarised: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to work on a session until the lease ends.

    Attributes:
        token: fences: a claim whose token is not the session's current one can finish nothing.
        turns: the waiting turns, oldest first; none when only the session's end is to be summed up.
        context: finished turns right before them, oldest first.
        ended: the session's end was announced.
        unsummarised: accepted turns since the session's last episode.
    """

    scope: Scope
    session_id: str
    token: str
    turns: tuple[LoggedTurn, ...]
    context: tuple[LoggedTurn, ...] = ()
    ended: bool = False
    unsummarised: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChain:
    """The turns behind a stored response, oldest first.

    Attributes:
        complete: the chain reaches its beginning, and every turn's items are known.
    """

    turns: tuple[LoggedTurn, ...] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """How often a memory was put into a request, and when last."""

    access_count: int
    last_accessed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTotals:
    """Durable counts: accepted = extracted + empty + dead_lettered + deleted + waiting."""

    accepted: int = 0
    extracted: int = 0
    empty: int = 0
    dead_lettered: int = 0
    deleted: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A deletion that later writes must respect.

    Attributes:
        memory_id: the deleted memory; "" for a deletion of a whole scope.
        content_hash: of the deleted memory's normalised text, so that the same statement, said before, stays away.
        reach: for a scope deletion: EXACT (one project) or ALL (the whole user).
        at: when; what was observed at or before it is covered.
    """

    scope: Scope
    at: datetime
    memory_id: str = ""
    content_hash: str = ""
    reach: Reach = Reach.ALL


class ReconcileAction(StrEnum):
    ADD = "add"
    UPDATE = "update"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What to do with a candidate, and why.

    Attributes:
        target: the known memory that is superseded (UPDATE) or confirmed (SKIP).
        reason: a short word for the log, for example `same_attribute_new_value`.
    """

    action: ReconcileAction
    reason: str
    target: Memory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionReport:
    """How one extraction of a session ended: what is logged and counted."""

    extractor: str
    turns: int
    candidates: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    dead_lettered: int = 0

    @property
    def stored(self) -> int:
        """How many memories were written."""
        return self.actions.get(ReconcileAction.ADD, 0) + self.actions.get(ReconcileAction.UPDATE, 0)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a prompt that we send to an external model."""

    role: str
    content: str


def joined(texts: Sequence[str]) -> str:
    """Several messages of one turn as one text."""
    return "\n".join(text for text in texts if text)
