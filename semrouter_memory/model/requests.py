"""The request phase: what is asked, and what was decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from semrouter_memory.model.filters import ANY_MEMORY, MemoryFilter
from semrouter_memory.model.memories import Hit, Memory
from semrouter_memory.model.scope import Json, MemoryType, Message, OwnerKind, Role, Scope


@dataclass(frozen=True, slots=True)
class Signals:
    """What upstream classifiers said of the request."""

    is_fact: bool = False
    requires_tool: bool = False


@dataclass(frozen=True, slots=True)
class OtherOwner:
    """An owner besides the user whose memories a request may see.

    Attributes:
        limit: memories that are injected at most.
        budget_share: part of the token budget that they may take.
    """

    scope: Scope
    limit: int
    budget_share: float


StrategyName: TypeAlias = Literal["hybrid", "semantic", "keywords"]
"""How memories are found."""

RenderStyle: TypeAlias = Literal["markdown", "xml"]
"""The format of the injected block."""


class Position(StrEnum):
    SYSTEM = "system"
    USER_TAIL = "user_tail"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """The settings of one request, merged from file, route and body.

    Attributes:
        overview_limit: memories that are injected at most where a request asks for all that is known; None: `limit`.
        session: what the client calls its session; memories of other sessions are left out.
        unreadable: a setting that governs reading cannot be read, so nothing is recalled.
        tool_result_tokens: tokens of the tools' results from which on old ones are left out; 0: never.
        strategy: how memories are found; None: as configured, like the two below.
        render: the format of the block.
        pinned_tokens: part of the budget for memories that are injected whatever is asked.
        memory_filter: which memories are searched, of every owner; documents are not filtered.
    """

    limit: int
    threshold: float
    types: frozenset[MemoryType] | None = None
    position: Position = Position.SYSTEM
    session: str = ""
    unreadable: bool = False
    tool_result_tokens: int = 0
    strategy: StrategyName | None = None
    render: RenderStyle | None = None
    pinned_tokens: int | None = None
    memory_filter: MemoryFilter = ANY_MEMORY
    overview_limit: int | None = None

    def of_overview(self) -> "RecallOptions":
        """The options where a request asks for all that is known."""
        return self if self.overview_limit is None else replace(self, limit=self.overview_limit)

    def want(self, memory: Memory) -> bool:
        """Whether a memory is of the types asked for, and fulfils the filter."""
        return (self.types is None or memory.type in self.types) and memory in self.memory_filter


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTurn:
    """An answered turn of the conversation that a request repeats.

    Attributes:
        number: how many turns the conversation had with it; earlier ones that cannot be told apart from it belong to it.
        messages: how many of the request's `history` there are up to its end.
        places: positions of its messages in the request's array. System and developer messages belong to no turn. None
            for a turn that stays because no text can stand for it (an image, a file).
        texts: positions of its texts in `visible`.
        chars: characters of its texts.
        transcript_hash: of the conversation up to its end; "" where it is not needed.
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
    """Same, and it was compressed before: the server goes on from what it was sent then, and is told the state, if there is one."""
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
        proof: names the turns that leave, so that a later step can tell whether they are its own conversation's.
        deletions: what the owner had deleted by then; compared, never read.
    """

    reason: CompressionReason
    text: str = ""
    dropped_turns: int = 0
    items: tuple[Json, ...] | None = None
    statements: tuple[str, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    proof: str = ""
    deletions: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ShortenedResults:
    """Old results of tools that are one line each in the request.

    Attributes:
        results: how many.
        tokens: how many fewer the request has, an estimate from bytes.
    """

    results: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """All that recall needs to know of a request.

    Attributes:
        query: the text of the last user message; "" when the body has none (a tool result in a stored chain).
        history: user and assistant messages before this turn, oldest first.
        unanswered: the user's messages of this turn before the last one.
        visible: every text that the model will see anyway, system prompt included.
        loop_key: names the user turn: a hash of the conversation up to and including the turn's user messages, so it is
            equal for all steps of an agent's tool loop. Set on every request.
        continues_loop: the last message is a tool result: a later step of the turn that `loop_key` names.
        compressible: the conversation's beginning may be replaced by a state.
        turns: the answered turns before this one, oldest first; only those of a compressible request that repeats them.
        answers_calls: ids of the tool calls that the request itself brings results of.
        model: the one that the client asks; for traces.
        has_place: memories can be put into the request.
        shortened: old results of tools that are left out of it; None: none.
        others: the organisation and the agent, where the request has them.
        retained: what is said may be stored, and so may change what is.
    """

    scope: Scope
    query: str
    options: RecallOptions
    history: tuple[Message, ...] = ()
    unanswered: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    previous_response_id: str = ""
    signals: Signals = Signals()
    loop_key: str = ""
    continues_loop: bool = False
    compressible: bool = False
    turns: tuple[PastTurn, ...] = ()
    answers_calls: frozenset[str] = frozenset()
    model: str = ""
    has_place: bool = True
    shortened: ShortenedResults | None = None
    others: tuple[OtherOwner, ...] = ()
    retained: bool = False

    @property
    def before(self) -> tuple[Message, ...]:
        """All messages before the query, oldest first."""
        return (*self.history, *(Message(Role.USER, text) for text in self.unanswered))

    @property
    def organisation(self) -> Scope | None:
        """Whose documents are searched as well; None for none."""
        return next((other.scope for other in self.others if other.scope.kind is OwnerKind.ORGANISATION), None)

    def of(self, other: OtherOwner) -> "RecallRequest":
        """The same request to another owner's memories."""
        return replace(self, scope=other.scope, options=replace(self.options, limit=other.limit), others=())


class Reason(StrEnum):
    """Why memory was not searched, used or not. Also the metric's label."""

    FACT = "fact_query"
    TOOL = "tool_query"
    GREETING = "greeting"
    NO_QUERY = "no_query"
    NO_PLACE = "no_place"
    """The request has no text that memories could be added to."""
    # outcomes of a search
    INJECTED = "injected"
    BELOW_THRESHOLD = "below_threshold"
    ALREADY_VISIBLE = "already_visible"
    """All that is relevant enough stands in the request already."""
    OVER_BUDGET = "over_budget"
    """Something would be injected, and is too long for the token budget, or for the part of it for what is pinned."""
    NO_MEMORIES = "no_memories"
    """The user has none that could be recalled here."""
    PAUSED = "paused"
    """The user has paused remembering."""
    REWRITE_TIMEOUT = "rewrite_timeout"
    """The plain query found nothing to inject, and the rewrite of it was late."""
    TIMEOUT = "timeout"
    STORE_UNAVAILABLE = "store_unavailable"
    EMBEDDING_FAILED = "embedding_failed"
    INTERNAL = "internal_error"
    # the exchange is not ours
    DISABLED = "disabled"
    UNREADABLE_SETTING = "unreadable_setting"
    """A setting of the request or the route cannot be read; what it governs is off."""
    OPTED_OUT = "opted_out"
    NO_IDENTITY = "no_identity"
    BAD_IDENTITY = "bad_identity"
    IDENTITY_MISMATCH = "identity_mismatch"
    UNKNOWN_PATH = "unknown_path"
    NOT_POST = "not_post"
    ENCODED_BODY = "encoded_body"
    NOT_JSON = "not_json"
    UNREAD_FIELDS = "unread_fields"
    """Not JSON either, but it seems to have our fields, which go upstream."""
    UNAUTHENTICATED_PROXY = "unauthenticated_proxy"
    UNSUITABLE_BODY_MODE = "unsuitable_body_mode"
    BODY_TOO_LARGE = "body_too_large"
    EARLY_RESPONSE = "early_response"
    NO_ANSWER = "no_answer"
    ENCODED_ANSWER = "encoded_answer"
    """In a content encoding that is not known."""
    DAMAGED_ANSWER = "damaged_answer"
    """Its compressed data is damaged, or grows beyond the bound."""
    ANSWER_TOO_LARGE = "answer_too_large"

    @property
    def is_outcome(self) -> bool:
        """Whether memories were searched to the end."""
        return self in _OUTCOMES

    @property
    def is_failure(self) -> bool:
        """Whether recall failed, so that it is unknown what it would have injected."""
        return self in {Reason.TIMEOUT, Reason.STORE_UNAVAILABLE, Reason.EMBEDDING_FAILED, Reason.INTERNAL}


_OUTCOMES = frozenset(
    {Reason.INJECTED, Reason.BELOW_THRESHOLD, Reason.ALREADY_VISIBLE, Reason.OVER_BUDGET}
    | {Reason.NO_MEMORIES, Reason.REWRITE_TIMEOUT}
)


class Steering(StrEnum):
    """What became of an order to the memory."""

    FORGOTTEN = "forgotten"
    NOT_FOUND = "not_found"
    """No memory is about it for sure."""
    REFUSED = "refused"
    """The order to forget everything: a sentence is not enough for that."""
    FAILED = "failed"
    """The store, the log or the model is unavailable, or late; nothing more was forgotten."""


@dataclass(frozen=True, slots=True)
class Steered:
    """An order to the memory, and what it did.

    Attributes:
        forgotten: ids of the memories that are deleted.
    """

    outcome: Steering
    forgotten: tuple[str, ...] = ()


class StepRun(NamedTuple):
    """One run of a step, in seconds of `time.perf_counter`. A tuple, because recall makes half a dozen of them."""

    name: str
    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """What the assistant answered in an earlier conversation, shortened, and the beginning of what the user asked."""

    asked: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    """What recall found. `text` is the rendered block, "" when nothing is to be injected.

    Attributes:
        steps_ms: duration of each step that ran, in order (`history`, `embed`, `search`, `rank`, ...).
        runs: when each of them ran, in the order in which they ended; for traces.
        tokens: size of `text` in the embedding model's tokens.
        without_history: there were no earlier messages that a vague query could have been completed with.
        compression: what becomes of the conversation's beginning; None when that was no question.
        shortened: same as `RecallRequest.shortened`.
        today: the day, where the request reckons with it.
        answers: what the assistant answered earlier, where the request speaks of it.
        ranking: the best of what was considered, before threshold, limit and budget, best first.
        steered: the order that the message gave to the memory; None: it gave none.
    """

    reason: Reason
    text: str = ""
    hits: tuple[Hit, ...] = ()
    answers: tuple[EarlierAnswer, ...] = ()
    today: date | None = None
    steps_ms: Mapping[str, float] = field(default_factory=dict)
    runs: tuple[StepRun, ...] = field(default=(), repr=False, compare=False)
    tokens: int = 0
    without_history: bool = False
    compression: Compression | None = None
    shortened: ShortenedResults | None = None
    ranking: tuple[Hit, ...] = ()
    steered: Steered | None = None
