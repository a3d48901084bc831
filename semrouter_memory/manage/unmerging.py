"""What becomes of a summary when one of the memories that it was made of is forgotten.

Strategy: a summary repeats its originals, so it goes with any of them, and so does a summary of that summary. The other
originals take its place: they hold again, or where the summary had been replaced since, what replaced it replaced them.
A summary whose text was changed by hand is no summary any more (`edits.reworded`), and stays.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from semrouter_memory.model import Memory, Scope
from semrouter_memory.ports import MemoryReader


@dataclass(frozen=True, slots=True)
class Unmerged:
    """What a memory was merged into and with.

    Attributes:
        summaries: made of the memory, each next one of the one before.
        others: the other memories that these were made of.
    """

    summaries: tuple[Memory, ...] = ()
    others: tuple[Memory, ...] = ()

    @property
    def turns(self) -> tuple[str, ...]:
        """Turns that lead to the summaries and to none of the others."""
        kept = {turn_id for other in self.others for turn_id in source_turns(other)}
        return tuple(each for summary in self.summaries for each in source_turns(summary) if each not in kept)

    def restored(self, *, now: datetime) -> list[Memory]:
        """The others as they stand without the summaries; those that are not replaced by one are left out."""
        gone = {summary.id for summary in self.summaries}
        return [
            replace(
                other,
                superseded_at=self.summaries[-1].superseded_at,
                superseded_by=self.summaries[-1].superseded_by,
                updated_at=now,
            )
            for other in self.others
            if other.superseded_by in gone
        ]


async def unmerged(
    reader: MemoryReader, scope: Scope, memory: Memory, is_deleted: Callable[[Memory], bool]
) -> Unmerged:
    """What there is of it in the store.

    Args:
        is_deleted: others that were are left out.
    """
    summaries = await _summaries(reader, scope, memory)
    gone = {memory.id, *(summary.id for summary in summaries)}
    wanted = {each for summary in summaries for each in summary.ids("consolidated_from")} - gone
    stored = await asyncio.gather(*(reader.get(scope, memory_id) for memory_id in sorted(wanted)))
    others = tuple(other for other in stored if other is not None and not is_deleted(other))
    return Unmerged(tuple(summaries), others)


def source_turns(memory: Memory) -> tuple[str, ...]:
    """The turns that a memory was learned from, and those in which it was said otherwise."""
    return (*memory.ids("turn_ids"), *memory.ids("replaces"))


async def _summaries(reader: MemoryReader, scope: Scope, memory: Memory) -> list[Memory]:
    found: list[Memory] = []
    seen = {memory.id}
    while memory.superseded_by and memory.superseded_by not in seen:
        above = await reader.get(scope, memory.superseded_by)
        if above is None or memory.id not in above.ids("consolidated_from"):
            break
        seen.add(above.id)
        found.append(above)
        memory = above
    return found
