"""What is kept of turns, sessions and contents, and how it becomes hashes and stream entries.

Strategy: frozen values; a changed one is written whole. Ids of scopes are kept as bytes, one to one, whatever they
hold. Texts come here bounded and storable.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import orjson

from semrouter_memory.model import LoggedTurn, PendingSession, Scope, ToolUse, TurnState, joined
from semrouter_memory.sessions.columns import (
    dump_texts,
    dump_tools,
    dump_transcripts,
    load_items,
    load_texts,
    load_tools,
    load_transcripts,
    moment,
    pack,
    unpack,
)
from semrouter_memory.sessions.leases import is_over
from semrouter_memory.sessions.redis.connection import Argument

_OPEN = frozenset({TurnState.WAITING, TurnState.DEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn's state. Times are microseconds since 1970.

    Attributes:
        kept_since: from when the retention runs; None for a turn that is not finished.
        ends: the client said that the session is at its end with it.
        parent: the turn before it in a chain of stored responses.
        response: digest of the response id that its items end with.
        previous: digest of the one that they go on from; "" when they begin a conversation, None when that is not known.
        traces: digests by which it is found.
    """

    sequence: int
    owner: str
    session_id: str
    state: TurnState
    observed_at: int
    kept_since: int | None = None
    remember: bool = False
    rules_done: bool = False
    attempts: int = 0
    error: str = ""
    parent: int | None = None
    response: str = ""
    previous: str | None = None
    ends: bool = False
    traces: tuple[str, ...] = ()
    transcript_hashes: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return self.state is not TurnState.INCOMPLETE

    @property
    def open(self) -> bool:
        """It is to be kept until something becomes of it."""
        return self.state in _OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session's state: counters over its turns, its claim, its end. Times are microseconds since 1970.

    Attributes:
        newest: the highest sequence number of an accepted turn.
        oldest_waiting: the lowest one of a waiting turn; 0 for none.
        dead: how many of its turns are dead letters.
        end_at: sequence number of the newest turn when its end was announced last; 0 for never.
        summarised: the sequence number that its last episode goes up to.
        unsummarised: how many accepted turns came after that.
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
        """Its end was announced, and is not summed up."""
        return self.unsummarised > 0 and self.end_at > self.summarised

    def end_announced(self) -> "SessionRow":
        return replace(self, end_at=self.newest)

    def claimable(self, now: int, lease: timedelta) -> bool:
        return not self.token or is_over(self.lease_until, now=now, lease=lease)

    def given_back(self, *, not_before: int | None) -> "SessionRow":
        return replace(self, token="", lease_until=0, not_before=not_before)

    def recounted(self, waiting: Iterable[TurnRow]) -> "SessionRow":
        """With what follows from its waiting turns."""
        rows = list(waiting)
        return replace(
            self,
            waiting=len(rows),
            rules_pending=sum(not row.rules_done for row in rows),
            remember=any(row.remember for row in rows),
            oldest_waiting=min((row.sequence for row in rows), default=0),
            last_observed_at=max((row.observed_at for row in rows), default=self.last_observed_at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What was said in a turn."""

    user_texts: tuple[str, ...]
    assistant_text: str
    tools: tuple[ToolUse, ...] = ()
    model: str = ""
    items: bytes | None = None
    """JSON."""


# -- to and from Redis -------------------------------------------------------------------------------------------------


def turn_values(row: TurnRow) -> dict[str, Argument]:
    return {
        "owner": row.owner,
        "session": row.session_id,
        "state": row.state.value,
        "observed_at": row.observed_at,
        "kept_since": "" if row.kept_since is None else row.kept_since,
        "remember": int(row.remember),
        "rules_done": int(row.rules_done),
        "attempts": row.attempts,
        "error": row.error,
        "parent": "" if row.parent is None else row.parent,
        "response": row.response,
        "previous": "-" if row.previous is None else row.previous,
        "ends": int(row.ends),
        "traces": ",".join(row.traces),
        "transcripts": dump_transcripts(row.transcript_hashes) or b"",
    }


def turn_row(sequence: int, values: Mapping[bytes, bytes]) -> TurnRow | None:
    """The turn; None when there is none under that number any more."""
    if b"state" not in values:
        return None
    traces = values[b"traces"].decode()
    return TurnRow(
        sequence=sequence,
        owner=values[b"owner"].decode(),
        session_id=values[b"session"].decode(),
        state=TurnState(values[b"state"].decode()),
        observed_at=int(values[b"observed_at"]),
        kept_since=_optional(values[b"kept_since"]),
        remember=values[b"remember"] == b"1",
        rules_done=values[b"rules_done"] == b"1",
        attempts=int(values[b"attempts"]),
        error=values[b"error"].decode(),
        parent=_optional(values[b"parent"]),
        response=values[b"response"].decode(),
        previous=None if values[b"previous"] == b"-" else values[b"previous"].decode(),
        ends=values[b"ends"] == b"1",
        traces=tuple(traces.split(",")) if traces else (),
        transcript_hashes=tuple(load_transcripts(values[b"transcripts"])),
    )


def session_values(row: SessionRow) -> dict[str, Argument]:
    return {
        "user": pack(row.scope.user_id),
        "project": pack(row.scope.project_id),
        "agent": pack(row.scope.agent_id),
        "newest": row.newest,
        "waiting": row.waiting,
        "rules_pending": row.rules_pending,
        "remember": int(row.remember),
        "oldest_waiting": row.oldest_waiting,
        "last_observed_at": row.last_observed_at,
        "dead": row.dead,
        "summarised": row.summarised,
        "unsummarised": row.unsummarised,
        "end_at": row.end_at,
        "token": row.token,
        "lease_until": row.lease_until,
        "not_before": "" if row.not_before is None else row.not_before,
    }


def session_row(session_id: str, values: Mapping[bytes, bytes]) -> SessionRow | None:
    """The session; None when there is none of that id any more."""
    if b"user" not in values:
        return None
    return SessionRow(
        id=session_id,
        scope=Scope(unpack(values[b"user"]), unpack(values[b"project"]), unpack(values[b"agent"])),
        newest=int(values[b"newest"]),
        waiting=int(values[b"waiting"]),
        rules_pending=int(values[b"rules_pending"]),
        remember=values[b"remember"] == b"1",
        oldest_waiting=int(values[b"oldest_waiting"]),
        last_observed_at=int(values[b"last_observed_at"]),
        dead=int(values[b"dead"]),
        summarised=int(values[b"summarised"]),
        unsummarised=int(values[b"unsummarised"]),
        end_at=int(values[b"end_at"]),
        token=values[b"token"].decode(),
        lease_until=int(values[b"lease_until"]),
        not_before=_optional(values[b"not_before"]),
    )


def pending_value(row: SessionRow) -> bytes:
    """The session as one value of the hash that `pending` reads."""
    return orjson.dumps({name: _text(value) for name, value in session_values(row).items()})


def pending_row(session_id: str, value: bytes) -> SessionRow | None:
    values = {name.encode(): item.encode("latin-1") for name, item in orjson.loads(value).items()}
    return session_row(session_id, values)


def _text(value: Argument) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def pending_session(row: SessionRow) -> PendingSession:
    return PendingSession(
        scope=row.scope,
        session_id=row.id,
        waiting=row.waiting,
        rules_pending=row.rules_pending,
        remember=row.remember,
        last_observed_at=moment(row.last_observed_at),
        not_before=None if row.not_before is None else moment(row.not_before),
        unsummarised=row.unsummarised,
        ended=row.ended,
    )


def content_values(content: Content) -> dict[str, Argument]:
    values: dict[str, Argument] = {
        "user": dump_texts(content.user_texts),
        "assistant": content.assistant_text,
        "tools": dump_tools(content.tools),
        "model": content.model,
    }
    if content.items is not None:
        values["items"] = content.items
    return values


def content_of(values: Mapping[bytes, bytes]) -> Content:
    return Content(
        user_texts=tuple(load_texts(values[b"user"])),
        assistant_text=values[b"assistant"].decode(),
        tools=tuple(load_tools(values[b"tools"])),
        model=values[b"model"].decode(),
        items=values.get(b"items"),
    )


def logged(row: TurnRow, content: Content, scope: Scope, turn_id: str) -> LoggedTurn:
    return LoggedTurn(
        id=turn_id,
        sequence=row.sequence,
        scope=scope,
        session_id=row.session_id,
        user_text=joined(content.user_texts),
        assistant_text=content.assistant_text,
        observed_at=moment(row.observed_at),
        model=content.model,
        tools=content.tools,
        state=row.state,
        rules_done=row.rules_done,
        attempts=row.attempts,
        error=row.error,
        transcript_hashes=row.transcript_hashes,
        items=load_items(content.items),
    )


def _optional(value: bytes) -> int | None:
    return int(value) if value else None


def stream_fields(answer: Any) -> dict[bytes, bytes]:
    """The fields of an XRANGE's only entry; empty when there is none."""
    if not answer:
        return {}
    _, fields = answer[0]
    return fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
