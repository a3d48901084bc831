"""What takes several reads: all memories of an owner, and what one is related to (predecessors, successors, summaries, turns that repeat it).

Strategy: a memory has at most one successor and any number of predecessors, so related memories form a tree whose root is
the current one. Rows are read as they are stored, deleted ones included: the caller decides what it shows.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from semrouter_memory.language.words import Stem, content_words
from semrouter_memory.model import DERIVED_FROM, Criteria, LoggedTurn, Memory, Scope
from semrouter_memory.ports import MemoryReader, TurnLog

_PAGE = 500
_TURNS_PAGE = 200
_PARAPHRASE = 0.75
"""Share of a memory's words that a turn must contain to count as a paraphrase of it."""


# -- one owner's memories ----------------------------------------------------------------------------------------------


async def pages(
    reader: MemoryReader,
    criteria: Criteria,
    *,
    since: datetime | None = None,
    limit: int = _PAGE,
) -> AsyncIterator[Sequence[Memory]]:
    """All memories that are meant, newest first, page by page.

    Args:
        since: the page with the first memory that was stored before then is the last one.

    Raises:
        StoreUnavailableError: the store is unavailable.
    """
    cursor = ""
    while True:
        page = await reader.page(criteria, limit=limit, cursor=cursor)
        yield page.memories
        cursor = page.cursor
        if not cursor or (since and page.memories and page.memories[-1].created_at < since):
            return


async def all_memories(reader: MemoryReader, criteria: Criteria) -> list[Memory]:
    """Same as `pages`, as one list."""
    return [memory async for page in pages(reader, criteria) for memory in page]


# -- predecessors and successors ---------------------------------------------------------------------------------------


async def generations(
    reader: MemoryReader, scope: Scope, *roots: Memory, steps: int | None = None
) -> list[list[Memory]]:
    """The memories, their predecessors, the predecessors of those, and so on, for so many steps; each memory once."""
    found = [list(roots)]
    seen = {root.id for root in roots}
    while steps is None or len(found) <= steps:
        older = await reader.predecessors(scope, [memory.id for memory in found[-1]])
        fresh = {memory.id: memory for memory in older if memory.id not in seen}
        if not fresh:
            break
        seen.update(fresh)
        found.append(list(fresh.values()))
    return found


async def lineage(reader: MemoryReader, scope: Scope, memory: Memory) -> list[Memory]:
    """The whole tree that a memory belongs to, oldest first; no memory stands before its predecessors."""
    root = memory
    async for successor in _successors(reader, scope, memory):
        root = successor
    found = await generations(reader, scope, root)
    observed = {root.id: root.observed_at}
    for older in found[1:]:
        # A clock that was set back must not put a memory before what it replaced.
        observed |= {
            each.id: min(each.observed_at, observed.get(each.superseded_by, each.observed_at)) for each in older
        }
    members = [(each, depth) for depth, generation in enumerate(found) for each in generation]
    members.sort(key=lambda pair: (observed[pair[0].id], -pair[1], pair[0].created_at, pair[0].id))
    return [each for each, _ in members]


async def _successors(reader: MemoryReader, scope: Scope, memory: Memory) -> AsyncIterator[Memory]:
    """The memory's successor, the successor of that, and so on."""
    seen = {memory.id}
    while memory.superseded_by and memory.superseded_by not in seen:
        successor = await reader.get(scope, memory.superseded_by)
        if successor is None:
            return
        seen.add(successor.id)
        yield successor
        memory = successor


async def _summaries(reader: MemoryReader, scope: Scope, memory: Memory) -> AsyncIterator[Memory]:
    """The summary that was made of the memory, the one that was made of that, and so on."""
    async for successor in _successors(reader, scope, memory):
        if memory.id not in successor.ids("consolidated_from"):
            return
        yield successor
        memory = successor


def without_successors(memory: Memory, gone: Mapping[str, Memory], *, now: datetime) -> Memory:
    """A superseded memory as it is without the successors that go, by id: active again, or superseded by theirs."""
    last = memory
    while last.superseded_by in gone:
        last = gone[last.superseded_by]
    return memory.changed(now, superseded_at=last.superseded_at, superseded_by=last.superseded_by)


def source_turns(memory: Memory) -> tuple[str, ...]:
    """The turns that a memory was learned from, and those of the content it had before an edit."""
    return (*memory.ids("turn_ids"), *memory.ids("replaces"))


# -- memories that are derived from others -----------------------------------------------------------------------------


async def may_derive(
    reader: MemoryReader, deletions: TurnLog, scope: Scope, derived: Memory, sources: Sequence[Memory]
) -> bool:
    """Whether a memory may be written that was made of these: they are what they were, and nothing of it was deleted.

    To be asked under the owner's lock.
    """
    stored = await asyncio.gather(*(reader.get(scope, source.id) for source in sources))
    deleted = await deletions.tombstones(scope)
    return (
        stored == [*sources]
        and not any(map(deleted.covers, (*sources, derived)))
        and not deleted.forbids(derived.scope, derived.content, derived.asserted_at)
    )


async def is_unsupported(reader: MemoryReader, scope: Scope, insight: Memory) -> bool:
    """Whether a source of an insight is not stored any more, or superseded. A summary says what the sources in it said."""
    # Together: on a server each fresh read waits for a time tick.
    for source in await asyncio.gather(*(reader.get(scope, each) for each in insight.ids(DERIVED_FROM))):
        if source is None:
            return True
        latest = source
        async for summary in _summaries(reader, scope, source):
            latest = summary
        if latest.superseded_at is not None:
            return True
    return False


# -- summaries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SummarySplit:
    """How the summaries of memories are taken apart when these memories are deleted.

    A summary repeats its originals, so it is deleted with any of them, and so is a summary of that summary. The other
    originals take its place: they are active again, or if the summary itself was superseded, by its successor. A summary
    whose content was edited by hand has no originals any more (`MemoryService.update`) and stays.

    Attributes:
        summaries: those of the memories, the summaries of these, and so on.
        others: the other originals of these summaries.
    """

    summaries: tuple[Memory, ...] = ()
    others: tuple[Memory, ...] = ()

    @property
    def turns(self) -> tuple[str, ...]:
        """Turns that the summaries were learned from and none of the others was."""
        remaining = {turn_id for other in self.others for turn_id in source_turns(other)}
        return tuple(each for summary in self.summaries for each in source_turns(summary) if each not in remaining)

    def restored(self, *, now: datetime) -> list[Memory]:
        """The others as they are without the summaries; those that no summary supersedes are left out."""
        gone = {summary.id: summary for summary in self.summaries}
        return [without_successors(other, gone, now=now) for other in self.others if other.superseded_by in gone]


async def split_summaries(
    reader: MemoryReader, scope: Scope, memories: Collection[Memory], *, is_deleted: Callable[[Memory], bool]
) -> SummarySplit:
    """The split of the summaries that any of the memories was merged into; deleted originals are left out."""
    gone = {memory.id for memory in memories}
    summaries: list[Memory] = []
    for memory in memories:
        async for summary in _summaries(reader, scope, memory):
            if summary.id in gone:
                break
            summaries.append(summary)
            gone.add(summary.id)
    wanted = {each for summary in summaries for each in summary.ids("consolidated_from")} - gone
    stored = await asyncio.gather(*(reader.get(scope, memory_id) for memory_id in sorted(wanted)))
    others = tuple(other for other in stored if other is not None and not is_deleted(other))
    return SummarySplit(tuple(summaries), others)


# -- paraphrases -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paraphrases:
    """Turns that repeat memories, though the memories were not learned from them.

    Attributes:
        turn_ids: of the turns that repeat any of the memories.
        project_ids: all projects in which the user has turns.
    """

    turn_ids: tuple[str, ...] = ()
    project_ids: frozenset[str] = frozenset()


async def find_paraphrases(records: TurnLog, scope: Scope, memories: Collection[Memory]) -> Paraphrases:
    """Search all turns of this owner, in every project.

    An answer repeats the memories that were recalled for it, and the turn log keeps answers for a while. A turn with
    nearly all words of a memory counts as a paraphrase, in any order; words are compared by their beginnings.
    """
    statements = [stems for memory in memories if (stems := [Stem.of(word) for word in content_words(memory.content)])]
    turn_ids: list[str] = []
    project_ids: set[str] = set()
    before = 0
    while True:
        page = await records.list_turns(scope=scope.in_project(""), states=None, limit=_TURNS_PAGE, before=before)
        # In a thread: long turns take a tenth of a second.
        turn_ids += await asyncio.to_thread(_repeating, page, statements)
        project_ids.update(turn.scope.project_id for turn in page)
        if len(page) < _TURNS_PAGE:
            return Paraphrases(tuple(turn_ids), frozenset(project_ids))
        before = page[-1].sequence


def _repeating(turns: Sequence[LoggedTurn], statements: Sequence[Sequence[Stem]]) -> list[str]:
    """Ids of the turns that repeat any of the statements."""
    texts = {turn.id: f"{turn.user_text}\n{turn.assistant_text}".lower() for turn in turns}
    return [turn_id for turn_id, text in texts.items() if any(_repeats(text, stems) for stems in statements)]


def _repeats(text: str, stems: Sequence[Stem]) -> bool:
    return sum(stem.is_in(text) for stem in stems) >= _PARAPHRASE * len(stems)
