"""Turns, and stand-ins for what keeps them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semrouter_memory.backends import Backends
from semrouter_memory.codec.base import transcript_hash
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.events import Event, ExchangeFailed, StoreFailed, WorkFailed
from semrouter_memory.model import (
    ChatMessage,
    Claim,
    LoggedTurn,
    Message,
    Role,
    Scope,
    StoredChain,
    TurnState,
)

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
ALICE = Scope("alice")
Said = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Forbidden:
    """What was deleted."""

    statements: frozenset[str]
    erased_before: datetime
    paused_since: datetime | None

    def forbids(self, scope: Scope, content: str, observed_at: datetime) -> bool:
        return content in self.statements

    def erases(self, observed_at: datetime) -> bool:
        return observed_at < self.erased_before


@dataclass
class World:
    """Log, store, embedder, model and observer in one, with switches to break them."""

    values: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    chains: dict[str, StoredChain] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)
    erased_before: datetime = BEFORE_ALL
    paused_since: datetime | None = None
    broken: set[str] = field(default_factory=set)
    answer: str | Exception = ""
    asked: list[Sequence[ChatMessage]] = field(default_factory=list)
    events: list[tuple[str, Any]] = field(default_factory=list)
    name = "stand-in"
    retry_after = None

    @property
    def backends(self) -> Backends:
        names = ("state", "turn_log", "embedder", "observer")
        return cast("Backends", SimpleNamespace(**dict.fromkeys(names, self)))

    # StateStore
    async def get(self, scope: Scope, keys: Sequence[str]) -> Mapping[str, bytes]:
        self._fail_if("get")
        found = {key: self.values.get((scope.owner_id, scope.project_id, key)) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    async def put(self, scope: Scope, key: str, value: bytes, *, ttl: timedelta) -> None:
        self._fail_if("put")
        assert ttl > timedelta(0)
        self.values[scope.owner_id, scope.project_id, key] = value

    async def drop(self, scope: Scope, keys: Sequence[str]) -> None:
        for key in keys:
            self.values.pop((scope.owner_id, scope.project_id, key), None)

    # the turn log
    async def chain(self, scope: Scope, previous_response_id: str, *, limit: int) -> StoredChain:
        return self.chains.get(previous_response_id, StoredChain())

    async def surviving(self, claim: Claim) -> frozenset[str]:
        return frozenset(turn.id for turn in claim.turns) - self.deleted

    async def tombstones(self, scope: Scope) -> Any:
        return Forbidden(frozenset(self.forbidden), self.erased_before, self.paused_since)

    # Embedder
    def count_tokens(self, text: str) -> int:
        return len(text.split())

    # ChatModel
    def late(self) -> None:
        """Only deadlines tell."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        self.asked.append(messages)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    # Observer
    def observe(self, event: Event) -> None:
        match event:
            case StoreFailed(operation, error):
                self.events.append((operation, error))
            case WorkFailed(error) | ExchangeFailed(error):
                self.events.append(("work", error))
            case _:
                pass

    def _fail_if(self, what: str) -> None:
        if what in self.broken:
            raise UnavailableError(what, service=Service.STATE)


@pytest.fixture
def world() -> World:
    return World()


MakeTurns = Callable[..., list[LoggedTurn]]


@pytest.fixture
def make_turns() -> MakeTurns:
    def make(said: Said, *, transcripts: bool = True, first: int = 1, before: Said = ()) -> list[LoggedTurn]:
        turns = []
        for number, (user, answer) in enumerate(said):
            history = transcript_of([*before, *said[: number + 1]])
            turns.append(
                LoggedTurn(
                    id=f"t{first + number}",
                    sequence=first + number,
                    scope=ALICE,
                    session_id="s1",
                    user_text=user,
                    assistant_text=answer,
                    observed_at=NOW + timedelta(minutes=first + number),
                    state=TurnState.EXTRACTED,
                    transcript_hashes=(transcript_hash(history),) if transcripts else (),
                    items=({"role": "user", "content": user}, {"role": "assistant", "content": answer}),
                )
            )
        return turns

    return make


def transcript_of(said: Said) -> list[Message]:
    return [Message(role, text) for pair in said for role, text in zip((Role.USER, Role.ASSISTANT), pair, strict=True)]


def claim_of(turns: Sequence[LoggedTurn]) -> Claim:
    return Claim(scope=ALICE, session_id="s1", token="token", turns=tuple(turns))


def small_talk(count: int) -> list[tuple[str, str]]:
    return [(f"question {number}?", f"answer {number}") for number in range(1, count + 1)]
