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

    @property
    def asserted_at(self) -> datetime:
        """When somebody last wanted it to be known: said, or imported later. What was deleted after that stays deleted."""
        imported = self.metadata.get("imported_at")
        try:
            return max(self.observed_at, datetime.fromisoformat(imported)) if imported else self.observed_at
        except (TypeError, ValueError):
            # Not ours: a caller's own metadata from before the name was reserved.
            return self.observed_at


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
    """Something an extractor found worth remembering, before it is reconciled with what is known.

    Attributes:
        extractor: what found it: `rules` or `llm`.
        model: what answered the user in that turn.
        extraction_model: what read the turn, where that was a model.
    """

    type: MemoryType
    content: str
    observed_at: datetime
    extractor: str
    session_id: str = ""
    turn_ids: tuple[str, ...] = ()
    model: str = ""
    extraction_model: str = ""


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
class PastTurn:
    """An answered turn of the conversation that a request repeats.

    Attributes:
        number: how many turns the conversation had with it; earlier ones that cannot be told apart from it belong to it.
        messages: how many of the request's `history` there are up to its end.
        places: positions of its messages in the request's array. System and developer messages belong to no turn.
        texts: positions of its texts in `visible`.
        chars: characters of its texts.
        transcript_hash: of the conversation up to its end; "" where nobody asked for it.
    """

    number: int
    messages: int
    places: tuple[int, ...]
    texts: tuple[int, ...]
    chars: int = 0
    transcript_hash: str = ""


class CompressionReason(StrEnum):
    """Why a conversation was shortened or not. Also the metric's label."""

    COMPRESSED = "compressed"
    REBUILT = "rebuilt"
    """A stored chain that was compressed before and has no state now: its whole history comes from the log."""
    NO_STATE = "no_state"
    """No state covers a beginning of this very conversation."""
    TOO_SHORT = "too_short"
    CHAIN_INCOMPLETE = "chain_incomplete"
    """Not every item of the stored chain is known."""
    CHAIN_LOST = "chain_lost"
    """Same, and it was compressed before: the server goes on from what it was sent then."""
    NOT_MARKED = "not_marked"
    """The note that the chain is compressed could not be written."""
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """What becomes of a conversation's beginning. Without `text`, `dropped_turns` and `items` it stays as it is.

    Attributes:
        text: the rendered state, "" for none.
        dropped_turns: how many turns leave, the first ones.
        items: what a stored chain is rebuilt from, in place of `previous_response_id`; None: it is not.
        statements: what `text` says, in the words of memories; they need not be said again.
        tokens_before: size of the conversation's texts, in the embedding model's tokens. An estimate from characters.
        tokens_after: the same, of the turns that stay and `text`.
    """

    reason: CompressionReason
    text: str = ""
    dropped_turns: int = 0
    items: tuple[Json, ...] | None = None
    statements: tuple[str, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0


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
        compressible: the conversation's beginning may be replaced by a state.
        turns: the answered turns before this one, oldest first; only those of a compressible request that repeats them.
        answers_calls: ids of the tool calls that the request itself brings results of.
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
    compressible: bool = False
    turns: tuple[PastTurn, ...] = ()
    answers_calls: frozenset[str] = frozenset()


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
        compression: what becomes of the conversation's beginning; None when that was no question.
    """

    reason: Reason
    text: str = ""
    hits: tuple[Hit, ...] = ()
    steps_ms: Mapping[str, float] = field(default_factory=dict)
    tokens: int = 0
    without_history: bool = False
    compression: Compression | None = None


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
    """Another value: the targets are superseded."""
    REFINE = "refine"
    """The same in more detail: the targets are superseded."""
    RETRACT = "retract"
    """What the targets say is no longer so: they are superseded."""
    SKIP = "skip"
    FLAG = "flag"
    """Contradicts the targets, and nothing tells which holds: both stay, marked."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What to do with a candidate, and why.

    Attributes:
        reason: a short word for the log, for example `same_attribute_new_value`.
        targets: the known memories that are superseded (UPDATE, REFINE, RETRACT), confirmed (SKIP: one) or contradicted
            (FLAG). With ADD: history that belongs before a candidate that arrived late.
        successor: the memory that was said after the candidate and replaced it: the candidate is written as history.
    """

    action: ReconcileAction
    reason: str
    targets: tuple[Memory, ...] = ()
    successor: Memory | None = None


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
        return sum(self.actions.get(action, 0) for action in ReconcileAction if action is not ReconcileAction.SKIP)


class Leaving(StrEnum):
    """Why upkeep deletes a memory."""

    EXPIRED = "expired"
    BURIED = "buried"
    """It was deleted while the store was away: hidden since, erased now."""
    HISTORY = "history"
    """Superseded for longer than history is kept."""
    ORPHANED = "orphaned"
    """History of a memory that is gone."""
    PRUNED = "pruned"
    """Low for long."""
    QUOTA = "quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport:
    """What upkeep did, or would do: what is logged, counted and shown to the operator.

    Attributes:
        memories: how many were looked at, of how many `owners`; history included.
        deleted: reason -> type -> how many.
        would_delete: the same for what a dry run, or pruning in `dry-run`, leaves alone.
        would_delete_ids: reason -> ids of those, a bounded number of them.
        held: low for long by age, but their use has not been counted for long enough to tell.
        summaries: memories that consolidation wrote, in place of `merged` others.
        ended: values of the state store that had ended.
        failures: short names of the parts that were away; what hangs on them was left out.
    """

    dry_run: bool = False
    memories: int = 0
    owners: int = 0
    deleted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    would_delete: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    would_delete_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    held: int = 0
    summaries: int = 0
    merged: int = 0
    ended: int = 0
    failures: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a prompt that we send to an external model."""

    role: str
    content: str


def joined(texts: Sequence[str]) -> str:
    """Several messages of one turn as one text."""
    return "\n".join(text for text in texts if text)
