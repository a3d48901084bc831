"""The vectors of what requests ask: few are computed at a time, and a request's own once for all of its searches.

Strategy: the searches of one request (the user's memories, other owners', documents) share its `Query`. The first of them to ask
embeds, the others wait for that and read the result. If the first one is cancelled, the next one embeds.
"""

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from semrouter_memory.model import Vector
from semrouter_memory.ports import Embedder
from semrouter_memory.recall.deadline import Deadline
from semrouter_memory.recall.query import Query

_CONCURRENT_EMBEDDINGS = 2
"""One that runs and one that is ready, so that the thread never waits."""


@dataclass(frozen=True, slots=True)
class _Embedded:
    """One request's vectors by text, and who may add to them."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    vectors: dict[str, Vector] = field(default_factory=dict)


class QueryVectors:
    """Embeds the texts of queries, each text once for a query."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._free = asyncio.Semaphore(_CONCURRENT_EMBEDDINGS)
        self._of_queries: WeakKeyDictionary[Query, _Embedded] = WeakKeyDictionary()

    async def get(self, query: Query, *texts: str, deadline: Deadline | None = None) -> list[Vector]:
        """The vectors of a query's texts.

        Embedding takes a processor, and there are few. In a burst each query waits for those before it; giving up at once
        would only waste what the others waited for.

        Args:
            deadline: does not count the wait for other requests' embeddings; None: the caller has its own limit.

        Raises:
            UnavailableError: the model does not answer.
        """
        found = self._of_queries.setdefault(query, _Embedded())
        if any(text not in found.vectors for text in texts):
            await self._acquire(found, deadline)
            try:
                for text in texts:
                    if text not in found.vectors:
                        found.vectors[text] = await self.embedder.embed_query(text)
            finally:
                self._free.release()
                found.turn.release()
        return [found.vectors[text] for text in texts]

    async def _acquire(self, found: _Embedded, deadline: Deadline | None) -> None:
        """Wait for the query's own turn and for a free place; both are held afterwards, or neither."""
        queue = deadline.embedding_queue() if deadline is not None and self._free.locked() else nullcontext()
        with queue:
            await found.turn.acquire()
            try:
                await self._free.acquire()
            except BaseException:
                found.turn.release()
                raise
