"""The response phase: turns, sessions and deletions as the turn log has them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from semrouter_memory.model.scope import Json, Reach, Scope, ToolUse


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
        complete: False when the answer was only tool calls and the server keeps the conversation: the turn ends with a later
            exchange, which does not repeat the user's words.
        looped: the client repeats the conversation, and the answer is nothing but tool calls, comes behind some, or was cut:
            several exchanges may repeat the turn, the last one with its answer.
        transcript_hashes: chained hashes of the conversation up to and including the answer, one per choice.
        observed_at: when the request arrived.
        ends_session: the client says that the session is at its end with this turn.
        items: the turn's whole items as the Responses API spells them, input before output, tool calls included; None
            where they are not stored (context compression is off, another API, or they held a secret).
        agent: id of the agent that the request came from; "" for none.
        pauses_session: the user asks not to remember this conversation: nothing of its session is stored from this turn on,
            and what was said in it before is deleted from the log.
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
    looped: bool = False
    ends_session: bool = False
    items: tuple[Json, ...] | None = None
    agent: str = ""
    pauses_session: bool = False


class TurnState(StrEnum):
    WAITING = "waiting"
    EXTRACTED = "extracted"
    EMPTY = "empty"
    DEAD = "dead"
    """Extraction was given up: a dead letter, until an operator retries or drops it."""
    INCOMPLETE = "incomplete"
    """Its answer was only tool calls, in a stored chain: not accepted yet, stored for the exchange that completes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTurn:
    """A turn as the turn log holds it.

    Attributes:
        id: the log's own id.
        sequence: grows with every accepted turn; the order within a session.
        remember: the user asks to remember something.
        rules_done: it was read for quotes.
        rules_found: and it has one.
        attempts: failed extractions so far.
        error: a short word for the last failure; never content.
        transcript_hashes: as in `Turn`, those of repetitions included.
        items: as in `Turn`.
        agent: as in `Turn`.
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
    remember: bool = False
    rules_done: bool = False
    rules_found: bool = False
    attempts: int = 0
    error: str = ""
    transcript_hashes: tuple[str, ...] = ()
    items: tuple[Json, ...] | None = None
    agent: str = ""


class AppendOutcome(StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    COMPLETED = "completed"
    """The answer of a turn that was accepted without one: the end of a tool loop. Not counted as accepted again."""
    INCOMPLETE = "incomplete"
    """Stored until the exchange that completes it; not counted as accepted."""
    FORGOTTEN = "forgotten"
    """Said before a deletion of its scope, while remembering was paused, or in a session that is not remembered: not written."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of a turn; `session_id` and `turn_id` are "" as long as they are resolved later (a spooled turn)."""

    outcome: AppendOutcome
    session_id: str = ""
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Names a session's work; the same key is never worked on twice at a time."""

    scope: Scope
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSession:
    """A session that is not done with: turns wait, or its end has not been summed up. What triggers decide on.

    Attributes:
        waiting: turns not finished yet.
        unsummarised: accepted turns since the session's last episode.
        ended: its end was announced (by the client or through the API) and is not summed up yet.
        rules_pending: of these, turns that were not read for quotes.
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

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.scope, self.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to work on a session until the lease ends.

    Attributes:
        token: fences: a claim whose token is not the session's current one can finish nothing.
        turns: the waiting turns, oldest first; none when only the session's end is to be summed up.
        context: finished turns right before them, oldest first.
        ended: the session's end was announced.
        unsummarised: accepted turns since the session's last episode.
        not_before: turns that failed are not to be tried before this time (back-off after a failure).
    """

    scope: Scope
    session_id: str
    token: str
    turns: tuple[LoggedTurn, ...]
    context: tuple[LoggedTurn, ...] = ()
    ended: bool = False
    unsummarised: int = 0
    not_before: datetime | None = None

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.scope, self.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChain:
    """The turns behind a stored response, oldest first.

    Attributes:
        complete: the chain reaches its beginning, and every turn's items are known.
    """

    turns: tuple[LoggedTurn, ...] = ()
    complete: bool = False


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
