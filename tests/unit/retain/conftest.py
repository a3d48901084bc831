"""Makes what the extractors read and reconcile compares."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from semrouter_memory.model import Candidate, Hit, LoggedTurn, Memory, MemoryType, Scope

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
MakeTurn = Callable[..., LoggedTurn]
MakeHit = Callable[..., Hit]
MakeCandidate = Callable[..., Candidate]


@pytest.fixture
def make_turn() -> MakeTurn:
    def make(user_text: str, *, number: int = 1, assistant_text: str = "Noted.") -> LoggedTurn:
        return LoggedTurn(
            id=f"turn-{number}",
            sequence=number,
            scope=Scope("alice"),
            session_id="s1",
            user_text=user_text,
            assistant_text=assistant_text,
            observed_at=NOW + timedelta(minutes=number),
        )

    return make


@pytest.fixture
def make_candidate() -> MakeCandidate:
    def make(
        content: str, *, day: int = 1, kind: MemoryType = MemoryType.SEMANTIC, turn_ids: tuple[str, ...] = ("turn-new",)
    ) -> Candidate:
        return Candidate(
            type=kind, content=content, observed_at=NOW + timedelta(days=day), extractor="quotes", turn_ids=turn_ids
        )

    return make


@pytest.fixture
def make_hit() -> MakeHit:
    def make(
        content: str,
        similarity: float = 0.7,
        *,
        day: int = 0,
        kind: MemoryType = MemoryType.SEMANTIC,
        turn_ids: tuple[str, ...] = ("turn-old",),
    ) -> Hit:
        at = NOW + timedelta(days=day)
        memory = Memory(
            id=f"mem-{content}",
            scope=Scope("alice"),
            type=kind,
            content=content,
            source="conversation",
            observed_at=at,
            created_at=at,
            updated_at=at,
            metadata={"turn_ids": list(turn_ids)},
        )
        return Hit(memory, similarity, similarity)

    return make
