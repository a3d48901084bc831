"""Which memories are evicted, and why. Pure.

Strategy: a reason holds by itself (a time that has passed, a committed deletion) or is computed from all evidence for the
memory (importance, confirmations, usage). In doubt the memory is not evicted.

The score says how much a memory is worth keeping, with time in days:

    evidence  = confirmations + log2(1 + access_count)
    worth     = importance + (1 - importance) * evidence / (evidence + 4)
    freshness = 2 ** -(age / (half_life * (1 + evidence)))
    score     = worth * freshness, halved for a memory that is flagged

`age` runs since the memory was last said, changed or put into a request. So each factor is in 0..1: what is used and said
again is worth more and fades more slowly; unused memories fade to nothing, the unimportant first. With the defaults
(importance 0.5, half-life 90 days) a memory that was said once and never used is below 0.1 after 209 days.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from semrouter_memory.config import AgeingConfig
from semrouter_memory.model import DERIVED_FROM, EvictionCandidate, EvictionReason, Memory, MemoryType, Usage

_HALF_WAY_EVIDENCE = 4.0
"""Evidence that takes a memory half of the way from its importance to 1."""
_FLAGGED = 0.5


def score(memory: Memory, usage: Usage | None, *, now: datetime, half_life_days: float) -> float:
    """0..1; never falls with importance, uses and confirmations, never rises with age and with being flagged.

    Args:
        usage: None: it was never used.
    """
    evidence = max(memory.confirmations, 0) + math.log2(1 + max(usage.access_count if usage else 0, 0))
    importance = min(max(memory.importance, 0.0), 1.0)
    worth = importance + (1 - importance) * evidence / (evidence + _HALF_WAY_EVIDENCE)
    age = max(_days(last_needed(memory, usage), now), 0.0)
    freshness = math.exp2(-age / (half_life_days * (1 + evidence)))
    return worth * freshness * (_FLAGGED if is_flagged(memory) else 1.0)


def last_needed(memory: Memory, usage: Usage | None) -> datetime:
    """When it was last said, changed, imported or used."""
    times = [memory.observed_at, memory.created_at, memory.updated_at]
    return max(*times, usage.last_accessed_at) if usage else max(times)


def is_flagged(memory: Memory) -> bool:
    """Whether it contradicts another memory and could not be reconciled."""
    return bool(memory.metadata.get("flagged"))


HIGH_IMPORTANCE = 0.8
"""A durable memory of at least this importance is never pruned."""

_DURABLE = frozenset({MemoryType.SEMANTIC, MemoryType.PROCEDURAL, MemoryType.REFLECTIVE})
"""Types that hold until something newer is said, unlike episodes."""


def is_pinned_now(memory: Memory) -> bool:
    """Whether it is pinned, and no history: then it leaves only for the quota, after all others."""
    return memory.pinned and memory.superseded_at is None


def is_expired(memory: Memory, *, now: datetime, config: AgeingConfig) -> bool:
    """Past its own expiry; without one, past the lifetime of its type since it was said last. What is pinned is not."""
    if is_pinned_now(memory):
        return False
    if memory.expires_at is not None:
        return memory.expires_at <= now
    days = config.ttl_days.get(memory.type)
    return days is not None and _days(memory.observed_at, now) >= days


def is_old_history(memory: Memory, *, now: datetime, config: AgeingConfig) -> bool:
    """Superseded for longer than `history_days`."""
    if memory.superseded_at is None or not config.history_days:
        return False
    # `superseded_at` is when the newer one was said; it may have been processed long after.
    since = max(memory.superseded_at, memory.updated_at)
    return _days(since, now) >= config.history_days


def is_unused(memory: Memory, usage: Usage | None, *, now: datetime, config: AgeingConfig) -> bool:
    """An active memory with a low score that for long was neither said nor used."""
    if (
        memory.superseded_at is not None
        or is_pinned_now(memory)
        or (memory.type in _DURABLE and memory.importance >= HIGH_IMPORTANCE)
    ):
        return False
    if _days(last_needed(memory, usage), now) < config.prune_after_days:
        return False
    return score(memory, usage, now=now, half_life_days=config.half_life_days) < config.prune_below


def _days(since: datetime, now: datetime) -> float:
    """The age in days. A setting is compared with it, not added to a time, which ends with the year 9999."""
    return (now - since) / timedelta(days=1)


def orphans(history: Iterable[Memory], present: set[str]) -> list[Memory]:
    """History whose successor is not among the present ids, and in turn the history of that.

    A retracted memory has no successor and is no orphan.
    """
    found: list[Memory] = []
    rest = [memory for memory in history if memory.superseded_by]
    present = set(present)
    while gone := [memory for memory in rest if memory.superseded_by not in present]:
        found.extend(gone)
        rest = [memory for memory in rest if memory.superseded_by in present]
        present.difference_update(memory.id for memory in gone)
    return found


def unsupported(insights: Iterable[Memory], present: set[str]) -> list[Memory]:
    """Insights of which a source is not among the ids that are present and active."""
    return [memory for memory in insights if not present.issuperset(memory.ids(DERIVED_FROM))]


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
) -> list[EvictionCandidate]:
    """Which of one user's memories are evicted so that the rest is within the quota.

    Superseded and expired memories come first, the longest superseded before others; then active memories, those with the
    lowest score before others. What is pinned leaves only when it alone exceeds the quota: pins are no way around it.
    """

    def rank(memory: Memory) -> tuple[bool, bool, float, datetime, str]:
        if memory.superseded_at is not None:
            return False, False, 0.0, memory.superseded_at, memory.id
        if is_expired(memory, now=now, config=config):
            return False, False, 0.0, memory.observed_at, memory.id
        worth = score(memory, usage.get(memory.id), now=now, half_life_days=config.half_life_days)
        return is_pinned_now(memory), True, worth, memory.observed_at, memory.id

    count, size = len(memories), sum(map(size_of, memories))
    evicted: list[EvictionCandidate] = []
    for memory in sorted(memories, key=rank):
        if not exceeds_quota(count, size, config):
            break
        evicted.append(EvictionCandidate(memory, EvictionReason.QUOTA, usage.get(memory.id)))
        count, size = count - 1, size - size_of(memory)
    return evicted
