"""Memories and vectors for tests of what stores them; the same ones in every run."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from semrouter_memory.model import Criteria, EmbeddedMemory, Memory, MemoryType, Reach, Scope, Vector

DIMENSION = 16
NOW = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)


def recallable(scope: Scope, **narrowed: Any) -> Criteria:
    """What recall may use of the scope's memories at `NOW`."""
    return Criteria(scope, reach=Reach.RECALL, active_at=NOW, **narrowed)


def vector(seed: int, *, dimension: int = DIMENSION) -> Vector:
    """A random direction, the same for the same seed."""
    drawn = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    normalised: Vector = drawn / np.linalg.norm(drawn)
    return normalised


def memory(
    scope: Scope,
    memory_id: str = "mem_1",
    *,
    content: str = "User's budget for the Hawaii trip is $10,000",
    kind: MemoryType = MemoryType.SEMANTIC,
    created_at: datetime = NOW,
    superseded_at: datetime | None = None,
    expires_at: datetime | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Memory:
    return Memory(
        id=memory_id,
        scope=scope,
        type=kind,
        content=content,
        source="api",
        observed_at=created_at - timedelta(minutes=5),
        created_at=created_at,
        updated_at=created_at,
        superseded_at=superseded_at,
        expires_at=expires_at,
        metadata=metadata or {},
    )


def embedded(one: Memory, seed: int = 0) -> EmbeddedMemory:
    return EmbeddedMemory(one, vector(seed))
