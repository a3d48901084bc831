"""Deletes memories with every trace: rows, history, linked quotes and statements, summaries, insights, usage, state, turns.

Strategy. `tombstone` deletes on request. It commits a tombstone first: from then on every read that
checks tombstones hides the memory, on every replica, and no writer brings it back. Then the traces that lead to the memory
are purged (turns, usage, state), and the rows last, predecessors before successors: as long as anything is left, the named
row is still there, and repeating the call finishes the deletion. State is purged before the turns, which alone tell in
which projects it may be, and once more after them, because it may have been built meanwhile.

`purge` deletes what maintenance evicts. Between the decision and the deletion a memory may have been confirmed, edited or
used, so each is read again and deleted only when it is unchanged. No tombstone is left: saying it again stores it again.

`compact` takes what was deleted out of the files. Rows are deleted under the owner's lock, so nothing is confirmed or
superseded meanwhile.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain

from semrouter_memory.backends import Backends
from semrouter_memory.errors import (
    MemoryServiceError,
    NotFoundError,
    Service,
    StoreUnavailableError,
    UnavailableError,
)
from semrouter_memory.lineage import (
    SummarySplit,
    all_memories,
    find_paraphrases,
    generations,
    is_unsupported,
    pages,
    source_turns,
    split_summaries,
)
from semrouter_memory.model import (
    DERIVED_FROM,
    SESSION_SOURCE,
    Criteria,
    EvictionCandidate,
    EvictionReason,
    Memory,
    MemoryType,
    Reach,
    Scope,
    Tombstone,
    Usage,
)
from semrouter_memory.ports import MemoryWriter, OwnerHold
from semrouter_memory.retain.passages import embedded

PURGE_BATCH = 50
"""Memories purged under one hold of the lock: some hundred milliseconds on a server."""
MAX_LATE_USAGE = 10_000
"""Purged memories whose usage is deleted once more at the next sweep."""

_DERIVED = frozenset({MemoryType.EPISODIC, MemoryType.REFLECTIVE})
_BY_USAGE = frozenset({EvictionReason.PRUNED, EvictionReason.QUOTA})


@dataclass(frozen=True, slots=True)
class _Traces:
    """What is deleted together with a memory.

    Attributes:
        generations: the memory, its predecessors, theirs, and so on; then the same of linked quotes and statements.
        derived: summaries of the sessions in which these were said, which may repeat them in other words, and insights
            drawn from any of them.
        turn_ids: the turns that all of these were learned from, or that repeat one of them.
        project_ids: projects whose sessions may have state about them.
    """

    generations: Sequence[Sequence[Memory]]
    split: SummarySplit
    derived: Sequence[Memory]
    turn_ids: Sequence[str]
    project_ids: Collection[str]

    @property
    def memories(self) -> list[Memory]:
        """The named memory first."""
        return [*chain(*self.generations), *self.split.summaries, *self.derived]

    @property
    def deletion_order(self) -> Iterator[Sequence[Memory]]:
        """What is deleted first leaves the rest reachable: summaries before what they repeat, the named memory last."""
        named, *older = self.generations
        return filter(None, (self.derived, self.split.summaries, *reversed(older), named))


@dataclass(frozen=True, slots=True)
class PartResult:
    """What one part did.

    Attributes:
        note: what it left out and why that is correct; else "".
        error: why it failed; None when it succeeded.
    """

    part: str
    seconds: float
    note: str = ""
    error: MemoryServiceError | None = None


class DeletionService:
    """Deletes within one owner, and compacts the files of all.

    Args:
        documents: the collection of documents; an owner's go with everything else of the owner.

    Every method but `compact` raises `UnavailableError` when a part is unavailable.
    """

    def __init__(self, backends: Backends, *, documents: MemoryWriter | None = None) -> None:
        self._reader, self._writer, self._embedder = backends.store, backends.writer, backends.embedder
        self._turn_log, self._state = backends.turn_log, backends.state
        self._locks, self._locked_change, self._clock = backends.locks, backends.locked_change, backends.clock
        self._documents = documents
        self._late_usage: dict[str, list[str]] = {}
        self.file_lock = asyncio.Lock()
        """Held while files are rewritten or copied: one such task at a time."""

    # -- tombstone -----------------------------------------------------------------------------------------------------

    async def tombstone(self, scope: Scope, memory_id: str) -> None:
        """Delete one memory with all its traces.

        Raises:
            NotFoundError: the owner has no such memory.
            UnavailableError: of `Service.DELETION`: a part is unavailable.
        """

        async def delete(hold: OwnerHold) -> None:
            memory = await self._named(scope, memory_id)
            await self._turn_log.tombstone(self._tombstone_of(memory))
            with _unfinished():
                traces = await self._traces(scope, memory)
                await self._delete(scope, traces, hold)

        await self._locked_change(scope, delete)

    async def hide(self, memory: Memory) -> None:
        """Commit the memory's tombstone and no more: no read shows it from then on. `tombstone` deletes the rest.

        Raises:
            UnavailableError: the turn log is.
        """
        await self._turn_log.tombstone(self._tombstone_of(memory))

    async def finish(self, scope: Scope, memories: Sequence[Memory]) -> None:
        """Complete interrupted deletions: of these memories of the owner, which are deleted and still stored.

        A summary that was to go comes behind the memory that it goes with, whose deletion restores its other originals.

        Raises:
            UnavailableError: of `Service.DELETION`: a part is unavailable.
        """
        successors = {memory.id: memory.superseded_by for memory in memories}
        while successors:
            later = set(successors.values())
            # An import may have made a ring of them.
            first = [memory_id for memory_id in successors if memory_id not in later] or list(successors)
            for memory_id in first:
                del successors[memory_id]
                with suppress(NotFoundError):  # it went with the one before
                    await self.tombstone(scope, memory_id)

    async def tombstone_all(self, scope: Scope, reach: Reach) -> int:
        """Delete everything of the owner (`ALL`) or of the scope's project (`EXACT`); returns how many memories.

        Raises:
            UnavailableError: of `Service.DELETION`: a part is unavailable.
        """

        async def delete(hold: OwnerHold) -> int:
            await self._turn_log.tombstone(Tombstone(scope=scope, at=self._turn_log.now(), reach=reach))
            with _unfinished():
                if reach is Reach.EXACT:
                    # Usage is stored by owner; only the store knows which memories are the project's.
                    async for page in pages(self._reader, Criteria(scope, reach=reach)):
                        await self._state.drop_usage(scope, [memory.id for memory in page])
                await self._state.forget(scope, reach)
                await hold.confirm()
                if self._documents is not None and reach is Reach.ALL:
                    await self._documents.delete_all(scope, reach)
                return await self._writer.delete_all(scope, reach)

        return await self._locked_change(scope, delete)

    async def _named(self, scope: Scope, memory_id: str) -> Memory:
        try:
            memory = await self._reader.get(scope, memory_id)
        except StoreUnavailableError as error:
            await self._turn_log.tombstone(Tombstone(scope=scope, at=self._turn_log.now(), memory_id=memory_id))
            raise UnavailableError(service=Service.DELETION) from error
        # A row with a tombstone is found here on purpose: its deletion was not finished.
        if memory is None:
            raise NotFoundError("no such memory")
        return memory

    async def _traces(self, scope: Scope, memory: Memory) -> _Traces:
        found = await self._generations(scope, memory)
        memories = list(chain(*found))
        deleted = await self._turn_log.tombstones(scope)
        split = await split_summaries(self._reader, scope, memories, is_deleted=deleted.covers)
        turns = [*(turn_id for each in memories for turn_id in source_turns(each)), *split.turns]
        derived = await self._derived(scope, frozenset(turns), [*memories, *split.summaries])
        turns += [turn_id for each in derived for turn_id in source_turns(each)]
        repeated = await find_paraphrases(self._turn_log, scope, memories)
        # A memory may have been moved out of the project in which it was said, and every answer may repeat it.
        projects = {each.scope.project_id for each in (*memories, *split.summaries, *derived)}
        return _Traces(
            found, split, derived, list(dict.fromkeys((*turns, *repeated.turn_ids))), projects | repeated.project_ids
        )

    async def _generations(self, scope: Scope, memory: Memory) -> list[list[Memory]]:
        """The memory and its predecessors, then the same of every linked memory.

        Linked are the quotes of statements, the statements of quotes, and other statements of the same quotes; and in turn
        those of the linked ones, since a quote repeats what is deleted with its statement.
        """
        found = await generations(self._reader, scope, memory)
        stored: list[Memory] | None = None
        while quotes := {each.id if each.form == "quote" else each.quote for each in chain(*found)} - {""}:
            if stored is None:
                stored = await all_memories(self._reader, Criteria(scope))
            known = {each.id for each in chain(*found)}
            linked = [each for each in stored if each.id not in known and not quotes.isdisjoint({each.id, each.quote})]
            if not linked:
                break
            for each in linked:
                found += await generations(self._reader, scope, each)
        return found

    async def _derived(self, scope: Scope, turn_ids: frozenset[str], named: Sequence[Memory]) -> list[Memory]:
        """The summaries of these turns' sessions, and the insights that were drawn from what is deleted."""
        stored = await all_memories(self._reader, Criteria(scope, types=_DERIVED))
        known = {each.id for each in named}
        episodes = [
            each
            for each in stored
            if each.source == SESSION_SOURCE and each.id not in known and not turn_ids.isdisjoint(source_turns(each))
        ]
        known |= {each.id for each in episodes}
        insights = (each for each in stored if each.id not in known and not known.isdisjoint(each.ids(DERIVED_FROM)))
        return [*episodes, *insights]

    async def _delete(self, scope: Scope, traces: _Traces, hold: OwnerHold) -> None:
        named = traces.memories[0]
        await self._hide(traces)
        # Soon: until then the others are history of a deleted memory, which a sweep evicts.
        await self._restore(scope, traces.split, hold)
        await self._purge_state(scope, traces.project_ids)
        if traces.turn_ids:
            await self._turn_log.tombstone(self._tombstone_of(named), turn_ids=traces.turn_ids)
        # An answer may repeat a memory in any words, from recall or from earlier in the conversation.
        learned = min(min(memory.observed_at, memory.created_at) for memory in traces.memories)
        await self._turn_log.erase_answers(scope, since=learned)
        await self._state.drop_usage(scope, [memory.id for memory in traces.memories])
        await self._purge_state(scope, traces.project_ids)
        await hold.confirm()
        for memories in traces.deletion_order:
            await self._writer.delete(scope, [each.id for each in memories])

    async def _hide(self, traces: _Traces) -> None:
        """Commit a tombstone for each memory but the named one."""
        restored = {self._turn_log.content_hash(other.content) for other in traces.split.others}
        for memory in traces.memories[1:]:
            tombstone = self._tombstone_of(memory)
            if memory in traces.split.summaries and tombstone.content_hash in restored:
                # A restored original says the same; that may be said again.
                tombstone = replace(tombstone, content_hash="")
            await self._turn_log.tombstone(tombstone)

    async def _restore(self, scope: Scope, split: SummarySplit, hold: OwnerHold) -> None:
        """Make the other originals of deleted summaries active again."""
        memories = split.restored(now=self._clock.now())
        if memories:
            rows = await embedded(self._embedder, memories)
            await hold.confirm()
            await self._writer.upsert(scope, rows)

    async def _purge_state(self, scope: Scope, projects: Collection[str]) -> None:
        """State of the user's conversations in these projects; running conversations stay uncompressed from then on."""
        for project_id in sorted(projects):
            await self._state.forget(scope.in_project(project_id), Reach.EXACT)

    def _tombstone_of(self, memory: Memory) -> Tombstone:
        return Tombstone(
            scope=memory.scope,
            at=self._turn_log.now(),
            memory_id=memory.id,
            content_hash=self._turn_log.content_hash(memory.content),
        )

    # -- purge ---------------------------------------------------------------------------------------------------------

    async def purge(self, scope: Scope, candidates: Sequence[EvictionCandidate]) -> list[EvictionCandidate]:
        """Delete the candidates that are unchanged since they were chosen; returns those."""
        purged: list[EvictionCandidate] = []
        for start in range(0, len(candidates), PURGE_BATCH):
            batch = candidates[start : start + PURGE_BATCH]
            async with self._locks.hold(scope) as hold:
                unchanged = await self._unchanged(scope, batch)
                if unchanged:
                    await hold.confirm()
                    await self._writer.delete(scope, [each.memory.id for each in unchanged])
            if unchanged:
                await self._purge_usage(scope, [each.memory.id for each in unchanged])
            purged += unchanged
        return purged

    async def purge_late_usage(self) -> None:
        """Delete usage that was counted after the memory was purged: a use is written seconds after it happened."""
        late, self._late_usage = self._late_usage, {}
        for owner, memory_ids in late.items():
            with suppress(UnavailableError):
                await self._state.drop_usage(Scope.of_owner(owner), memory_ids)

    async def _purge_usage(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        if sum(map(len, self._late_usage.values())) < MAX_LATE_USAGE:
            self._late_usage.setdefault(scope.owner, []).extend(memory_ids)
        with suppress(UnavailableError):
            await self._state.drop_usage(scope, memory_ids)

    async def _unchanged(self, scope: Scope, batch: Sequence[EvictionCandidate]) -> list[EvictionCandidate]:
        usage = await self._usage(scope, batch)
        # Together: on a server each fresh read waits for a time tick.
        stored = await asyncio.gather(*(self._reader.get(scope, each.memory.id) for each in batch))
        found: dict[str, EvictionCandidate] = {}
        for each, memory in zip(batch, stored, strict=True):
            if memory is None or memory != each.memory:
                continue
            match each.reason:
                case EvictionReason.PRUNED | EvictionReason.QUOTA:
                    still_holds = usage.get(memory.id) == each.usage
                case EvictionReason.ORPHANED if memory.ids(DERIVED_FROM):
                    gone = not found.keys().isdisjoint(memory.ids(DERIVED_FROM))
                    still_holds = gone or await is_unsupported(self._reader, scope, memory)
                case EvictionReason.ORPHANED:
                    # A successor that is evicted stands before its history.
                    successor = memory.superseded_by
                    still_holds = successor in found or await self._reader.get(scope, successor) is None
                case _:
                    # Nothing ends a tombstone, and what the others go by is in the memory.
                    still_holds = True
            if still_holds:
                found[memory.id] = each
        return list(found.values())

    async def _usage(self, scope: Scope, batch: Iterable[EvictionCandidate]) -> Mapping[str, Usage]:
        ids = [each.memory.id for each in batch if each.reason in _BY_USAGE]
        return await self._state.usage(scope, ids) if ids else {}

    # -- compact -------------------------------------------------------------------------------------------------------

    async def compact(self, parts: Collection[str] | None = None) -> list[PartResult]:
        """Take what was deleted out of the files of these parts, by default of all; says of each how it went."""
        compactions = {"turn_log": self._turn_log.compact, "state": self._state.compact, "store": self._writer.compact}
        async with self.file_lock:
            return await run_parts(
                {part: compact for part, compact in compactions.items() if parts is None or part in parts}
            )


@contextmanager
def _unfinished() -> Iterator[None]:
    try:
        yield
    except UnavailableError as error:
        raise UnavailableError(service=Service.DELETION) from error


# -- the files of several parts ----------------------------------------------------------------------------------------


async def run_parts(work: Mapping[str, Callable[[], Awaitable[str | None]]]) -> list[PartResult]:
    """Run the work of each part, in order; what it returns is the note. An unexpected error is raised when all have run."""
    results: list[PartResult] = []
    unexpected: Exception | None = None
    for part, call in work.items():
        try:
            results.append(await _run(part, call))
        except Exception as error:  # noqa: BLE001 - raised below
            unexpected = unexpected or error
    if unexpected is not None:
        raise unexpected
    return results


async def _run(part: str, call: Callable[[], Awaitable[str | None]]) -> PartResult:
    began = time.monotonic()
    try:
        note = await call()
    except MemoryServiceError as error:
        return PartResult(part, time.monotonic() - began, error=error)
    return PartResult(part, time.monotonic() - began, note or "")
