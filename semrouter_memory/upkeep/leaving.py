"""Which memories leave, and why. Pure: what is asked of the store and when is decided elsewhere.

Strategy: a reason must hold by itself (a time that has passed, a deletion on record) or be computed from everything that
speaks for the memory. In doubt it stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from semrouter_memory.config import AgeingConfig
from semrouter_memory.model import Leaving, Memory, MemoryType, Usage
from semrouter_memory.upkeep.score import last_needed, score_of

HIGH_IMPORTANCE = 0.8
"""From here on a standing fact is not pruned, however old."""

_STANDING = frozenset({MemoryType.SEMANTIC, MemoryType.PROCEDURAL, MemoryType.REFLECTIVE})
"""Types that hold until something else is said; what happened once does not."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A memory that is to leave, as it was when that was decided."""

    memory: Memory
    reason: Leaving
    usage: Usage | None = None


def is_expired(memory: Memory, *, now: datetime, config: AgeingConfig) -> bool:
    """Its time is over: its own, or without one that of its type, counted from when it was said last."""
    if memory.expires_at is not None:
        return memory.expires_at <= now
    days = config.ttl_days.get(memory.type)
    return days is not None and memory.observed_at + timedelta(days=days) <= now


def is_old_history(memory: Memory, *, now: datetime, config: AgeingConfig) -> bool:
    """Superseded, and for longer than history is kept."""
    if memory.superseded_at is None or not config.history_days:
        return False
    # Superseded when the newer one was said; it became history when that was read, which may be long after.
    since = max(memory.superseded_at, memory.updated_at)
    return since + timedelta(days=config.history_days) <= now


def is_low(memory: Memory, usage: Usage | None, *, now: datetime, config: AgeingConfig) -> bool:
    """An active memory that scores low and for long was neither said nor used."""
    if memory.superseded_at is not None or (memory.type in _STANDING and memory.importance >= HIGH_IMPORTANCE):
        return False
    if now - last_needed(memory, usage) < timedelta(days=config.prune_after_days):
        return False
    return score_of(memory, usage, now=now, half_life_days=config.half_life_days) < config.prune_below


def orphans(history: Iterable[Memory], present: set[str]) -> list[Memory]:
    """History whose successor is not among the present ids, and in turn the history of that.

    A memory that was taken back has no successor and is nobody's orphan.
    """
    found: list[Memory] = []
    left = [memory for memory in history if memory.superseded_by]
    present = set(present)
    while gone := [memory for memory in left if memory.superseded_by not in present]:
        found.extend(gone)
        left = [memory for memory in left if memory.superseded_by in present]
        present.difference_update(memory.id for memory in gone)
    return found


def has_quota(config: AgeingConfig) -> bool:
    return bool(config.max_memories or config.max_bytes)


def exceeds_quota(count: int, size: int, config: AgeingConfig) -> bool:
    """Whether one user's memories are more, or in bytes larger, than they may be."""
    return bool((config.max_memories and count > config.max_memories) or (config.max_bytes and size > config.max_bytes))


def size_of(memory: Memory) -> int:
    """Bytes of its text."""
    return len(memory.content.encode("utf-8", "surrogatepass"))


def over_quota(
    memories: Sequence[Memory], usage: Mapping[str, Usage], *, now: datetime, config: AgeingConfig
) -> list[Judged]:
    """What leaves of one user's memories so that the rest is within the quota.

    What is not recalled any more leaves first, the longest superseded before others; then active memories, the
    lowest-scored before others.
    """

    def rank(memory: Memory) -> tuple[bool, float, datetime, str]:
        if memory.superseded_at is not None:
            return False, 0.0, memory.superseded_at, memory.id
        if is_expired(memory, now=now, config=config):
            return False, 0.0, memory.observed_at, memory.id
        worth = score_of(memory, usage.get(memory.id), now=now, half_life_days=config.half_life_days)
        return True, worth, memory.observed_at, memory.id

    count, size = len(memories), sum(map(size_of, memories))
    leaving: list[Judged] = []
    for memory in sorted(memories, key=rank):
        if not exceeds_quota(count, size, config):
            break
        leaving.append(Judged(memory, Leaving.QUOTA, usage.get(memory.id)))
        count, size = count - 1, size - size_of(memory)
    return leaving
