"""Makes hits and requests for the tests of the request phase."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from semrouter_memory.model import Hit, Memory, MemoryType, Scope

MakeHit = Callable[..., Hit]
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


@pytest.fixture
def make_hit() -> MakeHit:
    def make(
        content: str,
        relevance: float = 0.8,
        *,
        memory_id: str = "",
        memory_type: MemoryType = MemoryType.SEMANTIC,
        **metadata: object,
    ) -> Hit:
        memory = Memory(
            id=memory_id or f"mem-{content}",
            scope=Scope("alice"),
            type=memory_type,
            content=content,
            source="conversation",
            observed_at=NOW,
            created_at=NOW,
            updated_at=NOW,
            metadata=metadata,
        )
        return Hit(memory, relevance, relevance)

    return make
