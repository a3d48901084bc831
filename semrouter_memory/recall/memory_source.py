"""Where memories are searched: in the owner's index if there is one, else in the store."""

from collections.abc import Iterator

from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Memory, Reach, RecallRequest, Vector
from semrouter_memory.ports import Clock, MemoryIndex, MemoryReader, OwnerIndexes
from semrouter_memory.recall.deadline import Deadline
from semrouter_memory.recall.hit_index import HitIndex, hit_index

_PAGE = 1_000


class MemorySource:
    """One owner's memories.

    Args:
        indexes: of recently active owners; None: the store is always searched.
    """

    def __init__(self, *, reader: MemoryReader, indexes: OwnerIndexes | None, clock: Clock) -> None:
        self._reader = reader
        self._indexes = indexes
        self.now = clock.now

    async def index(self, request: RecallRequest, deadline: Deadline) -> MemoryIndex | None:
        """The owner's index; None: search the store.

        Raises:
            StoreUnavailableError: there is neither, known before the query is embedded in vain.
        """
        if self._indexes is not None:
            index = await self._indexes.get(request.scope, until=deadline.owner_index())
            if index is not None:
                return index
        if not self._reader.available:
            raise StoreUnavailableError("the store is known to be unavailable")
        return None

    async def nearest(
        self,
        request: RecallRequest,
        vector: Vector,
        *,
        words: str,
        limit: int,
        reach: Reach = Reach.RECALL,
        fresh: bool = False,
    ) -> HitIndex:
        """The store's best memories. Raises `StoreUnavailableError`.

        Args:
            words: of the query, for a search by words as well; "" for none.
        """
        hits = await self._reader.search(
            request.scope,
            vector,
            limit=limit,
            now=self.now(),
            types=request.options.types,
            reach=reach,
            fresh=fresh,
            text=words,
        )
        return hit_index(hits)

    async def in_order(self, request: RecallRequest, deadline: Deadline, *, oldest_first: bool) -> Iterator[Memory]:
        """The memories that may be recalled, by age; of an owner without an index, the first ones.

        Raises:
            StoreUnavailableError: the owner has no index, and the store is unavailable.
        """
        types = request.options.types
        index = await self.index(request, deadline)
        if index is None:
            page = await self._reader.page(
                request.scope,
                limit=_PAGE,
                types=types,
                reach=Reach.RECALL,
                now=self.now(),
                oldest_first=oldest_first,
            )
            return iter(page.memories)
        positions = index.positions(request.scope, now=self.now(), types=types)
        return (index.memory(int(position)) for position in (positions if oldest_first else positions[::-1]))
