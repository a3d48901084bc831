"""Which shelves are at hand, and when one is right.

Strategy. A shelf is labelled with the owner's generation as it was before the store was read, and is used only while the
shared generation is still that one. Every write advances the generation twice. Before it: from then on no replica uses an
older shelf, even if this process dies right after. After it: what was filled meanwhile, and may show either state, is not
used either. A write that cannot be announced is not made. When it is made and cannot be announced again, that is tried
until it works; should the process die before, a replica that read within these moments is stale for `max_age_seconds`.
So is one that kept a shelf from before the last writes, where the generations' keeper has forgotten these.

The own shelf is carried over a write when the numbers say that nobody else wrote between; until that write is done, what was
before it is still right here. Whatever is in doubt is dropped
and read anew. Nothing is used while the generation cannot be asked: then recall asks the store.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from semrouter_memory.config import WorkingSetConfig
from semrouter_memory.errors import GenerationsError, StoreUnavailableError, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.ports import Clock, Generations, MemoryReader, SharedShelves
from semrouter_memory.store import packing
from semrouter_memory.store.kept import Kept, KeptShelves
from semrouter_memory.store.shelf import Mark, Shelf, filled

_T = TypeVar("_T")

_MIB = 1024 * 1024
_OWNERS_SHARE = 4
"""One owner takes at most this part of the whole."""
_FILLS = 4
"""Owners that are read at a time."""
_MAX_WAITING = 64
"""Owners that are being read or wait for it."""
_THREAD_FROM_CHARS = 10_000
"""Text from which on a shelf is made in a thread: that takes 10 ms, and the loop has other things to do."""
_CHARS_OF_ONE = 10
"""Characters that take as long as whatever else there is to do for a memory."""
_BYTES_OF_ONE = 100
"""Bytes that are copied in the time of a character."""
_LARGE = 2_000
"""Memories from which on carrying a shelf over a write costs more than 15 ms of every thread's time."""
_UNSEEN_WRITES = 3
"""So often a large shelf is carried over before somebody has to ask for it: what nobody asks for is read when it is."""
_ATTEMPTS = 3
"""Fills that one request waits for, while others write."""
_AFTER_THE_ANSWER_SECONDS = 0.03
"""Until an owner's memories are read who has none at hand: who asks for them now searches the store, and would wait behind."""
_AHEAD = 0.8
"""The part of its greatest age at which a shelf that is in use is read anew, in the background."""
_PAUSE_SECONDS = 1.0
"""Between attempts to announce a write that is done."""
_MAX_TOO_LARGE = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """What a write makes of its owner's shelf.

    Attributes:
        chars: of the text that it adds.
    """

    make: Callable[[Shelf], Shelf]
    chars: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Fill:
    """A shelf that is being filled.

    Attributes:
        others_asked: done when it is known whether another replica has it. What comes from the store takes a while.
    """

    task: asyncio.Task[None]
    others_asked: asyncio.Event


class Shelving:
    """Fills shelves, keeps them, and carries them over writes. For the arguments see `WorkingSet`.

    Attributes:
        kept: the shelves at hand.
    """

    def __init__(
        self,
        reader: MemoryReader,
        generations: Generations,
        *,
        config: WorkingSetConfig,
        clock: Clock,
        on_error: Callable[[BaseException], object],
        mark: Mark,
        shared: SharedShelves | None,
    ) -> None:
        self._reader = reader
        self._generations = generations
        self._config = config
        self._clock = clock
        self._on_error = on_error
        self._mark = mark
        self._shared = shared
        self._max_owner_bytes = config.max_mb * _MIB // _OWNERS_SHARE
        self.kept = KeptShelves(config.max_mb * _MIB)
        self._too_large: OrderedDict[str, float] = OrderedDict()
        self._writes: Counter[str] = Counter()
        # The generation that says: one write of ours since the shelf was right, and no other.
        self._written_alone: dict[str, int] = {}
        self._fills: dict[str, _Fill] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(_FILLS)
        self._unannounced: dict[str, Scope] = {}
        self._announcing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End what runs in the background."""
        running = [*self._running, *([self._announcing] if self._announcing else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        with suppress(GenerationsError):
            await self._announce_waiting()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def shelf(self, scope: Scope, *, until: float) -> Shelf | None:
        """See `Shelves`."""
        try:
            async with asyncio.timeout_at(until):
                return await self._at_hand(scope, until)
        except (GenerationsError, TimeoutError):
            return None
        except Exception as error:  # noqa: BLE001 - the store can still be asked
            self._on_error(error)
            return None

    async def _at_hand(self, scope: Scope, until: float) -> Shelf | None:
        for _ in range(_ATTEMPTS):
            if scope.owner in self._unannounced:
                await self._announce(scope)
            if self._is_too_large(scope.owner):
                return None
            generation = await self._generations.current(scope)
            if self._writes[scope.owner]:
                return self._before_the_write(scope.owner, generation)
            kept = self.kept.find(scope.owner)
            if kept is not None and kept.generation == generation and (age := self._age(kept)) < self._max_age:
                if age > self._max_age * _AHEAD:
                    self._filling(scope)
                if kept.unseen_writes:
                    self.kept.put(scope.owner, replace(kept, unseen_writes=0))
                return kept.shelf
            fill = self._filling(scope)
            if fill is None or asyncio.get_running_loop().time() >= until:
                return None
            await fill.others_asked.wait()
            if not fill.task.done() and asyncio.get_running_loop().time() + _AFTER_THE_ANSWER_SECONDS >= until:
                return None
            # Waiting for a task this way leaves it running when we are late.
            await asyncio.wait({fill.task})
        return None

    def _before_the_write(self, owner: str, generation: int) -> Shelf | None:
        """The shelf as it was, while a write of ours runs and nobody else's: it is not done before its caller hears so."""
        kept = self.kept.find(owner)
        alone = self._writes[owner] == 1 and self._written_alone.get(owner) == generation
        return kept.shelf if kept is not None and alone and self._age(kept) < self._max_age else None

    @property
    def _max_age(self) -> float:
        return self._config.max_age_seconds

    def _age(self, kept: Kept) -> float:
        return asyncio.get_running_loop().time() - kept.read_at

    def _is_too_large(self, owner: str) -> bool:
        """Whether the owner was found to be so, not long ago."""
        if owner not in self._too_large:
            return False
        if asyncio.get_running_loop().time() < self._too_large[owner]:
            return True
        del self._too_large[owner]
        return False

    # -- filling -------------------------------------------------------------------------------------------------------

    def _filling(self, scope: Scope) -> _Fill | None:
        """What fills the owner's shelf; None when there is none and no room for one."""
        fill = self._fills.get(scope.owner)
        if fill is None and self._reader.available and len(self._running) < _MAX_WAITING:
            others_asked = asyncio.Event()
            task = asyncio.create_task(self._fill(scope, others_asked), name="shelf-fill")
            fill = self._fills[scope.owner] = _Fill(task, others_asked)
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return fill

    async def _fill(self, scope: Scope, others_asked: asyncio.Event) -> None:
        try:
            async with self._slots:
                found = await self._read(scope, others_asked)
            # A write since then has taken this fill off the list: nothing is known of what it saw.
            if self._is_listed(scope.owner):
                self._keep(scope, found)
        except (StoreUnavailableError, GenerationsError):
            # Those who asked for it ask the store, which says what is wrong.
            pass
        except Exception as error:  # noqa: BLE001 - nobody waits for the result
            self._on_error(error)
        finally:
            others_asked.set()
            if self._is_listed(scope.owner):
                del self._fills[scope.owner]

    def _is_listed(self, owner: str) -> bool:
        """Whether the running task fills the owner's shelf."""
        fill = self._fills.get(owner)
        return fill is not None and fill.task is asyncio.current_task()

    async def _read(self, scope: Scope, others_asked: asyncio.Event) -> Kept | None:
        """A shelf from another replica or of the store's rows; None when there are too many."""
        generation = await self._generations.current(scope)
        before = self.kept.find(scope.owner)
        # One that is read for its age must come from the store.
        if before is None or before.generation != generation:
            kept = await self._from_others(scope, generation)
            if kept is not None:
                return kept
            others_asked.set()
            await asyncio.sleep(_AFTER_THE_ANSWER_SECONDS)
        read_at, now = asyncio.get_running_loop().time(), self._clock.now()
        rows = await self._reader.shelve(scope, limit=self._config.max_owner_memories, now=now)
        if rows is None:
            return None
        chars = sum(len(row.memory.content) for row in rows)
        shelf = await _made(chars + len(rows) * _CHARS_OF_ONE, lambda: filled(scope.user_id, rows, mark=self._mark))
        if self._shared is not None:
            value = await _made(shelf.nbytes // _BYTES_OF_ONE, lambda: packing.packed(shelf, read_at=now))
            await self._give(scope, generation, value)
        return Kept(shelf, generation, read_at)

    def _keep(self, scope: Scope, kept: Kept | None) -> None:
        owner = scope.owner
        fits = kept is not None and (
            len(kept.shelf) <= self._config.max_owner_memories and kept.shelf.nbytes <= self._max_owner_bytes
        )
        if kept is not None and fits:
            self.kept.put(owner, kept)
            return
        self.kept.drop(owner)
        self._too_large[owner] = asyncio.get_running_loop().time() + self._max_age
        self._too_large.move_to_end(owner)
        if len(self._too_large) > _MAX_TOO_LARGE:
            self._too_large.popitem(last=False)

    # -- other replicas' shelves ---------------------------------------------------------------------------------------

    async def _from_others(self, scope: Scope, generation: int) -> Kept | None:
        if self._shared is None:
            return None
        try:
            value = await self._shared.get(scope, generation)
        except UnavailableError:
            return None
        if value is None:
            return None
        unpacked = await _made(len(value) // _BYTES_OF_ONE, lambda: packing.unpacked(scope.user_id, value))
        if unpacked is None:
            return None
        shelf, read_at = unpacked
        age = max((self._clock.now() - read_at).total_seconds(), 0.0)
        if age >= self._max_age * _AHEAD:
            return None
        return Kept(shelf, generation, asyncio.get_running_loop().time() - age)

    async def _give(self, scope: Scope, generation: int, value: bytes) -> None:
        if self._shared is not None:
            with suppress(UnavailableError):
                await self._shared.put(scope, generation, value)

    # -- writing -------------------------------------------------------------------------------------------------------

    async def written(self, scope: Scope, write: Callable[[], Awaitable[_T]], change: Change) -> _T:
        """The outcome of a write, which is made between two announcements.

        Raises:
            StoreUnavailableError: it cannot be announced, and was not made. Also whatever `write` raises.
        """
        owner = scope.owner
        self._writes[owner] += 1
        # A fill that runs now may have seen the state before; its result is not taken.
        self._fills.pop(owner, None)
        try:
            announced = await self._begun(scope)
            kept = self.kept.find(owner)
            if kept is not None and kept.generation != announced[0]:
                kept = None
            if kept is not None and self._writes[owner] == 1:
                self._written_alone[owner] = announced[1]
            result = await self._made_known(scope, announced[1], kept, write, change)
        except BaseException:
            # Some of it may have been written, or will be.
            self.kept.drop(owner)
            raise
        finally:
            self._written_alone.pop(owner, None)
            self._writes[owner] -= 1
            if not self._writes[owner]:
                del self._writes[owner]
        return result

    async def _begun(self, scope: Scope) -> tuple[int | None, int]:
        try:
            announced = await self._generations.advance(scope)
        except GenerationsError as error:
            raise StoreUnavailableError(f"the write could not be announced: {error}") from None
        self._unannounced.pop(scope.owner, None)
        return announced

    async def _made_known(
        self,
        scope: Scope,
        announced: int,
        kept: Kept | None,
        write: Callable[[], Awaitable[_T]],
        change: Change,
    ) -> _T:
        try:
            result = await write()
        finally:
            before, after = await self._ended(scope)
        if kept is not None and before == announced and after is not None and _worth_carrying(kept):
            if scope.owner in self._written_alone:
                self._written_alone[scope.owner] = after
            await self._carry_over(scope, kept, after, change)
        else:
            self.kept.drop(scope.owner)
        return result

    async def _ended(self, scope: Scope) -> tuple[int | None, int | None]:
        """The number before and after the announcement; None when it is still to be made."""
        try:
            return await self._generations.advance(scope)
        except GenerationsError:
            self._announce_later(scope)
            return None, None
        except BaseException:
            # Whoever waited for it has left.
            self._announce_later(scope)
            raise

    async def _carry_over(self, scope: Scope, kept: Kept, generation: int, change: Change) -> None:
        try:
            size = change.chars + len(kept.shelf) * _CHARS_OF_ONE
            shelf = await _made(size, lambda: change.make(kept.shelf))
        except Exception as error:  # noqa: BLE001 - the write is done
            self.kept.drop(scope.owner)
            self._on_error(error)
        else:
            self._keep(scope, Kept(shelf, generation, kept.read_at, kept.unseen_writes + 1))

    # -- announcements that are still to be made -----------------------------------------------------------------------

    def _announce_later(self, scope: Scope) -> None:
        self._unannounced[scope.owner] = scope
        if self._announcing is None or self._announcing.done():
            self._announcing = asyncio.create_task(self._announce_all(), name="shelf-announcements")

    async def _announce(self, scope: Scope) -> None:
        await self._generations.advance(scope)
        self._unannounced.pop(scope.owner, None)

    async def _announce_all(self) -> None:
        while self._unannounced:
            with suppress(GenerationsError):
                await self._announce_waiting()
                continue
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _announce_waiting(self) -> None:
        for scope in list(self._unannounced.values()):
            await self._announce(scope)


def _worth_carrying(kept: Kept) -> bool:
    return len(kept.shelf) < _LARGE or kept.unseen_writes < _UNSEEN_WRITES


async def _made(chars: int, make: Callable[[], _T]) -> _T:
    """What is made of so much text, in a thread where it is much."""
    return await asyncio.to_thread(make) if chars >= _THREAD_FROM_CHARS else make()
