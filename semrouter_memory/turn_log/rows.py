"""Rows of turns, sessions and contents, as every storage keeps them. Pure.

Times are microseconds since 1970. Texts arrive bounded and storable (see `client_values.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import orjson

from semrouter_memory.databases import moment, pack, unpack
from semrouter_memory.model import LoggedTurn, OwnerKind, PendingSession, Scope, ToolUse, TurnState, joined
from semrouter_memory.turn_log.client_values import load_items

_OPEN = frozenset({TurnState.WAITING, TurnState.DEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn's state.

    Attributes:
        owner: the owner's digest.
        kept_since: the retention runs from then; None for a turn that is not finished.
        remember: the user asks to remember something.
        rules_found: it was read for quotes and has one.
        parent: the previous turn in a chain of stored responses.
        response: digest of the response id that its items end with.
        previous: digest of the one that its items continue; "" when they begin a conversation, None when unknown.
        ends: the session's end was announced with it.
        keys: the lookup keys that lead to it, and when each was learned last.
    """

    sequence: int
    owner: str
    project_id: str
    session_id: str
    state: TurnState
    observed_at: int
    kept_since: int | None = None
    remember: bool = False
    rules_done: bool = False
    rules_found: bool = False
    attempts: int = 0
    error: str = ""
    parent: int | None = None
    response: str = ""
    previous: str | None = None
    ends: bool = False
    keys: Mapping[str, int] = field(default_factory=dict)
    transcript_hashes: tuple[str, ...] = ()
    agent: str = ""

    @property
    def accepted(self) -> bool:
        return self.state is not TurnState.INCOMPLETE

    @property
    def open(self) -> bool:
        """It waits or is a dead letter: retention does not remove it."""
        return self.state in _OPEN

    def value(self) -> bytes:
        """As a storage keeps it."""
        return orjson.dumps(replace(self, project_id=_packed(self.project_id)))

    @classmethod
    def of_value(cls, value: bytes) -> "TurnRow":
        values = orjson.loads(value)
        values["project_id"] = _unpacked(values["project_id"])
        values["state"] = TurnState(values["state"])
        values["transcript_hashes"] = tuple(values["transcript_hashes"])
        return cls(**values)

    def logged(self, content: "Content", scope: Scope, turn_id: str) -> LoggedTurn:
        return LoggedTurn(
            id=turn_id,
            sequence=self.sequence,
            scope=scope,
            session_id=self.session_id,
            user_text=joined(content.user_texts),
            assistant_text=content.assistant_text,
            observed_at=moment(self.observed_at),
            model=content.model,
            tools=content.tools,
            state=self.state,
            remember=self.remember,
            rules_done=self.rules_done,
            rules_found=self.rules_found,
            attempts=self.attempts,
            error=self.error,
            transcript_hashes=self.transcript_hashes,
            items=load_items(content.items),
            agent=self.agent,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session's state: counters over its turns, its claim, its end.

    Attributes:
        newest: the highest sequence number of an accepted turn.
        waiting: turns that are not finished.
        rules_pending: waiting turns that the rules have not read.
        remember: a waiting turn asks to remember something.
        oldest_waiting: the lowest sequence number of a waiting turn; 0 for none.
        dead: dead letters.
        summarised: the last episode covers turns up to this sequence number.
        unsummarised: accepted turns after that.
        end_at: the newest turn's sequence number when the end was announced last; 0 for never.
        token: fences claims; "" while the session is not claimed.
    """

    id: str
    scope: Scope
    newest: int = 0
    waiting: int = 0
    rules_pending: int = 0
    remember: bool = False
    oldest_waiting: int = 0
    last_observed_at: int = 0
    dead: int = 0
    summarised: int = 0
    unsummarised: int = 0
    end_at: int = 0
    token: str = ""
    lease_until: int = 0
    not_before: int | None = None

    @property
    def is_pending(self) -> bool:
        return self.waiting > 0 or self.unsummarised > 0

    @property
    def ended(self) -> bool:
        """The end was announced and no episode covers it."""
        return self.unsummarised > 0 and self.end_at > self.summarised

    def released(self, *, not_before: int | None) -> "SessionRow":
        return replace(self, token="", lease_until=0, not_before=not_before)

    def with_turn(self, row: TurnRow) -> "SessionRow":
        """The session with a new turn; an incomplete one does not count."""
        if not row.accepted:
            return self
        return replace(
            self,
            newest=row.sequence,
            waiting=self.waiting + 1,
            rules_pending=self.rules_pending + 1,
            remember=self.remember or row.remember,
            oldest_waiting=self.oldest_waiting or row.sequence,
            last_observed_at=max(self.last_observed_at, row.observed_at) if self.waiting else row.observed_at,
            unsummarised=self.unsummarised + 1,
            end_at=row.sequence if row.ends else self.end_at,
        )

    def recounted(self, waiting: Iterable[TurnRow]) -> "SessionRow":
        """The session with the counters of these waiting turns."""
        rows = list(waiting)
        return replace(
            self,
            waiting=len(rows),
            rules_pending=sum(not row.rules_done for row in rows),
            remember=any(row.remember for row in rows),
            oldest_waiting=min((row.sequence for row in rows), default=0),
            last_observed_at=max((row.observed_at for row in rows), default=self.last_observed_at),
        )

    def as_pending(self, *, not_before: int | None) -> PendingSession:
        return PendingSession(
            scope=self.scope,
            session_id=self.id,
            waiting=self.waiting,
            rules_pending=self.rules_pending,
            remember=self.remember,
            last_observed_at=moment(self.last_observed_at),
            not_before=None if not_before is None else moment(not_before),
            unsummarised=self.unsummarised,
            ended=self.ended,
        )

    def value(self) -> bytes:
        """As a storage keeps it."""
        packed = Scope(_packed(self.scope.owner_id), _packed(self.scope.project_id), self.scope.kind)
        return orjson.dumps(replace(self, scope=packed))

    # The pending ones are read once a second, and nearly all of them are as they were.
    @staticmethod
    @lru_cache(16_384)
    def of_value(value: bytes) -> "SessionRow":
        values = orjson.loads(value)
        owner_id, project_id, kind = values["scope"].values()
        return SessionRow(**{**values, "scope": Scope(_unpacked(owner_id), _unpacked(project_id), OwnerKind(kind))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What was said in a turn. `items` is JSON.

    A storage keeps two values: what the user said, and what was answered, which can be erased alone.
    """

    user_texts: tuple[str, ...]
    model: str = ""
    assistant_text: str = ""
    tools: tuple[ToolUse, ...] = ()
    items: bytes | None = None

    def user_value(self) -> bytes:
        return orjson.dumps([self.user_texts, self.model])

    def answer_value(self) -> bytes:
        tools = [(tool.name, tool.outcome) for tool in self.tools]
        return orjson.dumps([self.assistant_text, tools, self.items and self.items.decode()])

    @classmethod
    def of_values(cls, user: bytes, answer: bytes | None) -> "Content":
        user_texts, model = orjson.loads(user)
        assistant_text, tools, items = orjson.loads(answer) if answer else ("", (), None)
        return cls(
            user_texts=tuple(user_texts),
            model=model,
            assistant_text=assistant_text,
            tools=tuple(ToolUse(*tool) for tool in tools),
            items=items and items.encode(),
        )


ERASED = Content(user_texts=()).user_value()
"""What is left of a turn whose text is erased."""


def _packed(identifier: str) -> str:
    """The bytes of an id as characters: whatever the id holds can be written as JSON, and ids stay apart."""
    return pack(identifier).decode("latin-1")


def _unpacked(identifier: str) -> str:
    return unpack(identifier.encode("latin-1"))
