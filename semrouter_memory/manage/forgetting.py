"""How memories are forgotten, everywhere.

Strategy. A deletion commits its tombstone first: from that moment every read that asks the tombstones hides it, on every
replica. Then goes what leads to it (turns, usage, state), and the rows last, what was replaced before what replaced it:
as long as anything is left, the row that was named is still there, and asking again finishes the work. The state goes
before the turns, which alone tell in which projects it may be, and once more after them, for it may have been built
meanwhile. All of it happens under the owner's lock, so nothing is confirmed or superseded meanwhile; and what a writer that lost its lock wrote later is
hidden by the tombstone.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from semrouter_memory.errors import (
    EmbeddingError,
    LockLostError,
    NotFoundError,
    StateStoreError,
    StoreUnavailableError,
    UnavailableError,
)
from semrouter_memory.lexical.voice import embedded_text
from semrouter_memory.manage.chains import generations
from semrouter_memory.manage.retelling import Told, told
from semrouter_memory.manage.unmerging import Unmerged, source_turns, unmerged
from semrouter_memory.model import SESSION_SOURCE, EmbeddedMemory, Memory, MemoryType, Reach, Scope, Tombstone
from semrouter_memory.ports import (
    Clock,
    Embedder,
    MemoryReader,
    MemoryWriter,
    OwnerHold,
    OwnerLocks,
    StateStore,
    TurnLog,
    TurnRecords,
)

_PAGE = 500

Written = Callable[[Scope], object]
"""Is told of an owner whose memories changed."""


class DeletionUnfinishedError(UnavailableError):
    """A part was away: the deletion is on record and hides what was named from every read, but not all is erased yet.

    Asking again erases it.
    """


class Forgetter:
    """Deletes within one owner. Same arguments as `MemoryService`."""

    def __init__(
        self,
        *,
        reader: MemoryReader,
        writer: MemoryWriter,
        embedder: Embedder,
        turn_log: TurnLog,
        records: TurnRecords | None,
        state: StateStore | None,
        locks: OwnerLocks,
        clock: Clock,
        written: Written,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._embedder = embedder
        self._turn_log = turn_log
        self._records = records
        self._state = state
        self._locks = locks
        self._clock = clock
        self._written = written

    async def forget(self, scope: Scope, memory_id: str) -> None:
        """Same as `MemoryService.forget`; the id is one that may be asked for."""
        async with self._locks.hold(scope) as hold:
            memory = await self._named(scope, memory_id)
            await self._turn_log.tombstone(self._tombstone(memory))
            try:
                with _unfinished():
                    await self._erase(scope, memory, hold)
            finally:
                self._written(scope)

    async def forget_all(self, scope: Scope, reach: Reach) -> int:
        """Same as `MemoryService.forget_all`."""
        async with self._locks.hold(scope) as hold:
            await self._turn_log.tombstone(Tombstone(scope=scope, at=self._turn_log.now(), reach=reach))
            try:
                with _unfinished():
                    await self._forget_state(scope, reach)
                    await hold.confirm()
                    return await self._writer.delete_all(scope, reach)
            finally:
                self._written(scope)

    async def _named(self, scope: Scope, memory_id: str) -> Memory:
        try:
            memory = await self._reader.get(scope, memory_id)
        except StoreUnavailableError as error:
            await self._turn_log.tombstone(Tombstone(scope=scope, at=self._turn_log.now(), memory_id=memory_id))
            self._written(scope)
            raise DeletionUnfinishedError from error
        # A row that is buried already is found here on purpose: a part was away when it was to be deleted.
        if memory is None:
            raise NotFoundError("no such memory")
        return memory

    async def _erase(self, scope: Scope, memory: Memory, hold: OwnerHold) -> None:
        """The memory, all that it replaced and what repeats any of it; what is deleted first leaves the rest reachable."""
        found = await generations(self._reader, scope, memory)
        for each in await self._linked(scope, [each for generation in found for each in generation]):
            found += await generations(self._reader, scope, each)
        stated = [each for generation in found for each in generation]
        deleted = await self._turn_log.tombstones(scope)
        merged = await unmerged(self._reader, scope, memory, deleted.covers)
        turns = [*(turn_id for each in stated for turn_id in source_turns(each)), *merged.turns]
        retold = await self._retold(scope, turns, {each.id for each in stated})
        for each in (*stated[1:], *retold):
            await self._turn_log.tombstone(self._tombstone(each))
        await self._bury_summaries(merged)
        # Soon: until then the others are history of what is gone, which a sweep deletes.
        await self._restore(scope, merged, hold)
        turns += [turn_id for episode in retold for turn_id in source_turns(episode)]
        await self._erase_traces(scope, [*stated, *merged.summaries, *retold], turns, await self._told(scope, stated))
        await hold.confirm()
        # The oldest first, the named one last.
        for generation in filter(None, (retold, *reversed(found[1:]), merged.summaries, found[0])):
            await self._writer.delete(scope, [each.id for each in generation])

    async def _retold(self, scope: Scope, turn_ids: Collection[str], known: Collection[str]) -> list[Memory]:
        """Summaries of sessions in which these were said: they may repeat it in other words."""
        turns = frozenset(turn_ids)
        found: list[Memory] = []
        cursor = ""
        while turns:
            page = await self._reader.page(
                scope, limit=_PAGE, cursor=cursor, types=frozenset({MemoryType.EPISODIC}), reach=Reach.ALL, now=None
            )
            found += [
                memory
                for memory in page.memories
                if memory.source == SESSION_SOURCE
                and memory.id not in known
                and not turns.isdisjoint(source_turns(memory))
            ]
            if not (cursor := page.cursor):
                break
        return found

    async def _linked(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """The quotes of these statements, the statements of these quotes, and other statements of the same quotes."""
        known = {memory.id for memory in memories}
        quotes = {each.id for each in memories if each.form == "quote"} | {
            each.quote for each in memories if each.quote
        }
        found: list[Memory] = []
        cursor = ""
        while quotes:
            page = await self._reader.page(scope, limit=_PAGE, cursor=cursor, reach=Reach.ALL, now=None)
            found += [
                each for each in page.memories if each.id not in known and not quotes.isdisjoint({each.id, each.quote})
            ]
            if not (cursor := page.cursor):
                break
        return found

    async def _told(self, scope: Scope, memories: Sequence[Memory]) -> Told:
        return Told() if self._records is None else await told(self._records, scope, memories)

    async def _bury_summaries(self, merged: Unmerged) -> None:
        others = {self._turn_log.content_hash(other.content) for other in merged.others}
        for summary in merged.summaries:
            tombstone = self._tombstone(summary)
            # One of the others may say the same; that may be said again.
            hidden = replace(tombstone, content_hash="") if tombstone.content_hash in others else tombstone
            await self._turn_log.tombstone(hidden)

    async def _restore(self, scope: Scope, merged: Unmerged, hold: OwnerHold) -> None:
        """What was merged with it stands for itself again."""
        memories = merged.restored(now=self._clock.now())
        if memories:
            vectors = await self._embedder.embed_passages([embedded_text(memory) for memory in memories])
            await hold.confirm()
            rows = [EmbeddedMemory(memory, vector) for memory, vector in zip(memories, vectors, strict=True)]
            await self._writer.upsert(scope, rows)

    def _tombstone(self, memory: Memory) -> Tombstone:
        return Tombstone(
            scope=memory.scope,
            at=self._turn_log.now(),
            memory_id=memory.id,
            content_hash=self._turn_log.content_hash(memory.content),
        )

    async def _erase_traces(self, scope: Scope, memories: Sequence[Memory], turns: Sequence[str], told: Told) -> None:
        """Turns, what is kept of their use, and the state of all the user's conversations: any may repeat it.

        A memory may have been moved from the project in which it was said, and answers in any project may have told it.
        Conversations that are running go up whole for their rest.
        """
        projects = {memory.scope.project_id for memory in memories} | told.project_ids
        await self._drop_states(scope, projects)
        turn_ids = list(dict.fromkeys((*turns, *told.turn_ids)))
        if turn_ids:
            await self._turn_log.tombstone(self._tombstone(memories[0]), turn_ids=turn_ids)
        # An answer may tell a memory in any words, whether it was given one or read it in the conversation.
        learned = min(min(memory.observed_at, memory.created_at) for memory in memories)
        await self._turn_log.erase_answers(scope, since=learned)
        if self._state is not None:
            await self._state.drop_usage(scope, [memory.id for memory in memories])
        await self._drop_states(scope, projects)

    async def _drop_states(self, scope: Scope, projects: Collection[str]) -> None:
        if self._state is not None:
            for project_id in sorted(projects):
                await self._state.forget(Scope(scope.user_id, project_id), Reach.EXACT)

    async def _forget_state(self, scope: Scope, reach: Reach) -> None:
        if self._state is None:
            return
        if reach is Reach.EXACT:
            # Usage is kept by owner; only here it is known which of it is the project's.
            cursor = ""
            while True:
                page = await self._reader.page(scope, limit=_PAGE, cursor=cursor, reach=reach, now=None)
                await self._state.drop_usage(scope, [memory.id for memory in page.memories])
                if not (cursor := page.cursor):
                    break
        await self._state.forget(scope, reach)


@contextmanager
def _unfinished() -> Iterator[None]:
    try:
        yield
    except (StoreUnavailableError, StateStoreError, EmbeddingError, LockLostError) as error:
        raise DeletionUnfinishedError from error
