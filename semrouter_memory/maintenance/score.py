"""How much a memory is worth keeping. Pure.

The formula, with time in days:

    evidence  = confirmations + log2(1 + access_count)
    worth     = importance + (1 - importance) * evidence / (evidence + 4)
    freshness = 2 ** -(age / (half_life * (1 + evidence)))
    score     = worth * freshness, halved for a memory that is flagged

`age` runs since the memory was last said, changed or put into a request. So each factor is in 0..1: what is used and said
again is worth more and fades more slowly; unused memories fade to nothing, the unimportant first. With the defaults
(importance 0.5, half-life 90 days) a memory that was said once and never used is below 0.1 after 209 days.
"""

import math
from datetime import datetime, timedelta

from semrouter_memory.model import Memory, Usage

_DAY = timedelta(days=1)
_HALF_WAY_EVIDENCE = 4.0
"""Evidence that takes a memory half of the way from its importance to 1."""
_FLAGGED = 0.5


def score(
    *,
    importance: float,
    access_count: int,
    age_days: float,
    confirmations: int,
    flagged: bool,
    half_life_days: float,
) -> float:
    """0..1; never falls with importance, uses and confirmations, never rises with age and with being flagged."""
    evidence = max(confirmations, 0) + math.log2(1 + max(access_count, 0))
    importance = min(max(importance, 0.0), 1.0)
    worth = importance + (1 - importance) * evidence / (evidence + _HALF_WAY_EVIDENCE)
    freshness = math.exp2(-max(age_days, 0.0) / (half_life_days * (1 + evidence)))
    return worth * freshness * (_FLAGGED if flagged else 1.0)


def score_of(memory: Memory, usage: Usage | None, *, now: datetime, half_life_days: float) -> float:
    """The score of a stored memory; `usage` None means never used."""
    return score(
        importance=memory.importance,
        access_count=usage.access_count if usage else 0,
        age_days=(now - last_needed(memory, usage)) / _DAY,
        confirmations=confirmations(memory),
        flagged=is_flagged(memory),
        half_life_days=half_life_days,
    )


def last_needed(memory: Memory, usage: Usage | None) -> datetime:
    """When it was last said, changed, imported or used."""
    times = [memory.observed_at, memory.created_at, memory.updated_at]
    return max(*times, usage.last_accessed_at) if usage else max(times)


def confirmations(memory: Memory) -> int:
    """How often it was said again."""
    count = memory.metadata.get("confirmations", 0)
    # A caller's metadata may use the name for something else.
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def is_flagged(memory: Memory) -> bool:
    """Whether it contradicts another memory and could not be reconciled."""
    return bool(memory.metadata.get("flagged"))
