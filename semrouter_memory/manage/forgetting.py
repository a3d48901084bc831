"""How memories are forgotten, everywhere.

Strategy. A deletion commits its tombstone first: from that moment every read that asks the tombstones hides it, on every
replica. Then goes what leads to it (turns, usage, state), and the rows last, what was replaced before what replaced it:
as long as anything is left, the row that was named is still there, and asking again finishes the work. All of it happens
under the owner's lock, so nothing is confirmed or superseded meanwhile; and what a writer that lost its lock wrote later is
hidden by the tombstone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from semrouter_memory.errors import (
    LockLostError,
    NotFoundError,
    StateStoreError,
    StoreUnavailableError,
    UnavailableError,
)
from semrouter_memory.manage.chains import generations
from semrouter_memory.manage.retelling import retelling_turns
from semrouter_memory.model import SESSION_SOURCE, Memory, MemoryType, Reach, Scope, Tombstone
from semrouter_memory.ports import (
    Clock,
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
        turn_log: TurnLog,
        records: TurnRecords | None,
        state: StateStore | None,
        locks: OwnerLocks,
        clock: Clock,
        written: Written,
    ) -> None:
        self._reader = reader
        self._writer = writer
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
            await self._bury(memory)
            try:
                with _unfinished():
                    await self._erase(scope, memory, hold)
            finally:
                self._written(scope)

    async def forget_all(self, scope: Scope, reach: Reach) -> int:
        """Same as `MemoryService.forget_all`."""
        async with self._locks.hold(scope) as hold:
            await self._turn_log.bury(Tombstone(scope=scope, at=self._clock.now(), reach=reach))
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
            await self._turn_log.bury(Tombstone(scope=scope, at=self._clock.now(), memory_id=memory_id))
            self._written(scope)
            raise DeletionUnfinishedError from error
        # A row that is buried already is found here on purpose: a part was away when it was to be deleted.
        if memory is None:
            raise NotFoundError("no such memory")
        return memory

    async def _erase(self, scope: Scope, memory: Memory, hold: OwnerHold) -> None:
        """The memory and all that it replaced; what is deleted first leaves the rest reachable."""
        found = await generations(self._reader, scope, memory)
        # The oldest of all, so that they go first.
        stated = [each for generation in found for each in generation]
        found.append(await self._retold(scope, stated))
        for generation in found[1:]:
            for older in generation:
                await self._bury(older)
        if self._records is not None and (turn_ids := await retelling_turns(self._records, scope, stated)):
            await self._turn_log.bury(self._tombstone(memory), turn_ids=turn_ids)
        await self._drop_state(scope, [each for generation in found for each in generation])
        await hold.confirm()
        for generation in filter(None, reversed(found)):
            await self._writer.delete(scope, [each.id for each in generation])

    async def _retold(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """Summaries of sessions in which these were said: they may repeat it in other words."""
        turns = {turn_id for memory in memories for turn_id in _source_turns(memory)}
        known = {memory.id for memory in memories}
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
                and not turns.isdisjoint(_source_turns(memory))
            ]
            if not (cursor := page.cursor):
                break
        return found

    async def _bury(self, memory: Memory) -> None:
        await self._turn_log.bury(self._tombstone(memory), turn_ids=_source_turns(memory))

    def _tombstone(self, memory: Memory) -> Tombstone:
        return Tombstone(
            scope=memory.scope,
            at=self._clock.now(),
            memory_id=memory.id,
            content_hash=self._turn_log.content_hash(memory.content),
        )

    async def _drop_state(self, scope: Scope, memories: Sequence[Memory]) -> None:
        """What is kept of their use, and of the sessions of their projects: any of these may repeat what they said.

        Conversations that are running then go up whole for their rest.
        """
        if self._state is None:
            return
        await self._state.drop_usage(scope, [memory.id for memory in memories])
        for project_id in sorted({memory.scope.project_id for memory in memories}):
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
    except (StoreUnavailableError, StateStoreError, LockLostError) as error:
        raise DeletionUnfinishedError from error


def _source_turns(memory: Memory) -> tuple[str, ...]:
    turn_ids = memory.metadata.get("turn_ids")
    return tuple(str(turn_id) for turn_id in turn_ids) if isinstance(turn_ids, list | tuple) else ()
