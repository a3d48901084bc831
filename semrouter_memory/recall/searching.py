"""Finds and weighs the memories for one request: at hand in the process where they are, else in the store.

Strategy: one embedding, and for an active user no round trip: every memory is looked at, and the few best are decoded.
Whatever the source, the same formula gives the relevance (`relevance`), or the plain cosine does (`semantic`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.config import RecallConfig
from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.language.third_person import to_third_person
from semrouter_memory.model import (
    Hit,
    Memory,
    MemoryType,
    Message,
    Reach,
    RecallOptions,
    RecallRequest,
    Scope,
    Vector,
)
from semrouter_memory.ports import Clock, Embedder, MemoryReader, MemoryShelf, Shelves
from semrouter_memory.recall import anchors, relevance
from semrouter_memory.recall.anchors import Anchors, Intent
from semrouter_memory.recall.evidence import Columns, Evidence, Floats, Question, Wording, gathered, wording
from semrouter_memory.recall.found import found
from semrouter_memory.recall.query import search_query, search_text
from semrouter_memory.recall.rank import best_first
from semrouter_memory.recall.standing import offered
from semrouter_memory.recall.steps import Steps
from semrouter_memory.recall.times import period_of

# More than asked for, so that memories which are visible, said twice or deleted do not starve the result.
_FETCH_FACTOR = 2
_FETCH_LEAST = 20
# A store is asked for more: the formula puts another in front than the cosine does.
_STORE_FACTOR = 3
# What is not at hand within this part of the deadline is asked of the store.
_SHELF_SHARE = 0.2
_PAGE = 1_000
_PATIENCE_SECONDS = 0.4
"""For others' queries; together with the deadline it stays below the second after which Envoy goes on without us."""
_SEARCHES = 2.0
"""Log-odds that a search wants something."""
_EMBEDDINGS = 2
"""At a time: one that runs and one that is ready, so that the thread never waits."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        hits: best first.
        offered: ids of those that are given unasked, because they say how to answer.
        empty: there was no memory to search.
        rewrite_late: the rewrite of the query took longer than its deadline.
    """

    hits: Sequence[Hit] = ()
    offered: frozenset[str] = frozenset()
    empty: bool = False
    rewrite_late: bool = False

    def joined(self, other: "Found") -> "Found":
        """What both found; a memory that both did counts with its better relevance."""
        hits = {hit.memory.id: hit for hit in sorted((*self.hits, *other.hits), key=lambda hit: hit.relevance)}
        return Found(
            best_first(hits.values()),
            self.offered | other.offered,
            empty=self.empty or other.empty,
            rewrite_late=self.rewrite_late or other.rewrite_late,
        )

    @property
    def best(self) -> float:
        return self.hits[0].relevance if self.hits else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _LookedAt:
    """Which memories may be shown, what the question's words say and tell of them; None where words do not count."""

    positions: NDArray[np.intp]
    asked: Wording | None = None
    columns: Columns | None = None


class Searcher:
    """Searches one owner's memories.

    Args:
        shelves: active owners' memories at hand; None: the store is always asked.
    """

    def __init__(
        self,
        *,
        embedder: Embedder,
        reader: MemoryReader,
        shelves: Shelves | None,
        clock: Clock,
        config: RecallConfig,
    ) -> None:
        self._embedder = embedder
        self._reader = reader
        self._shelves = shelves
        self._clock = clock
        self._config = config
        self._embedding = asyncio.Semaphore(_EMBEDDINGS)
        self._embedding_anchors: asyncio.Task[Anchors] | None = None

    async def prepare(self) -> None:
        """Embed the sentences that relevance is measured against: a tenth of a second, before the first request.

        Raises:
            EmbeddingError: the model does not answer.
        """
        if self._config.strategy == "hybrid":
            await self._anchors()

    async def search(
        self,
        query: str,
        request: RecallRequest,
        steps: Steps,
        deadline: asyncio.Timeout | None = None,
        *,
        likely_answer: bool = False,
    ) -> Found:
        """The best memories for a query.

        Args:
            query: the last user message, or what was made of it.
            deadline: of the search; put off while others' queries are embedded.
            likely_answer: the query was made up. Memories are compared with it; what is asked for, the user said.

        Raises:
            EmbeddingError: the model does not answer.
            StoreUnavailableError: the memories are not at hand, and the store is away.
        """
        with steps.measure("query"):
            words, text = self._texts(query, request.history)
        with steps.measure("search"):
            shelf = await self._shelf_unless_all_is_away(request)
        said = request.query if likely_answer else query
        looked, vector, intent = await self._at_once(
            lambda: self._looked_at(shelf, words, said, request) if shelf is not None else None,
            self._embedded(text, said, deadline),
            steps,
        )
        if shelf is None:
            with steps.measure("search"):
                shelf = await self._asked_of_the_store(vector, words, request)
        with steps.measure("score"):
            return await self._scored(
                shelf, looked or self._looked_at(shelf, words, said, request), vector, intent, _shown(request)
            )

    async def search_fresh(
        self, scope: Scope, query: str, *, limit: int, types: frozenset[MemoryType] | None, reach: Reach
    ) -> Sequence[Hit]:
        """The store's best memories for a query, every acknowledged write among them, with the relevance recall gives.

        Args:
            limit: up to which the order is that of the relevance; more may come, for what the caller leaves out.

        Raises:
            EmbeddingError: the model does not answer.
            StoreUnavailableError: the store is away.
        """
        options = RecallOptions(limit=limit, threshold=-1.0, types=types)
        request = RecallRequest(scope=scope, query=query, options=options)
        words, text = self._texts(query, ())
        vector, intent = await self._embedded(text, query, None)
        shelf = await self._asked_of_the_store(vector, words, request, reach=reach, fresh=True)
        looked = self._looked_at(shelf, words, query, request)
        scored = await self._scored(shelf, looked, vector, intent, _shown(request), searched=True)
        return scored.hits

    def _texts(self, query: str, history: Sequence[Message]) -> tuple[str, str]:
        """What is searched for by words, and by meaning."""
        bound = self._config.max_query_chars
        words = search_query(query, history, max_chars=bound)
        if self._config.strategy == "hybrid":
            return words, search_text(query, history, max_chars=bound)
        return words, to_third_person(words)

    async def _scored(
        self,
        shelf: MemoryShelf,
        looked: _LookedAt,
        vector: Vector,
        intent: Intent,
        shown: int,
        *,
        searched: bool = False,
    ) -> Found:
        if not len(looked.positions):
            return Found(empty=True)
        if looked.asked is None or looked.columns is None:
            return _nearest(shelf, looked.positions, vector, shown=shown)
        evidence = looked.columns.compared(shelf, vector)
        asked = looked.asked.meant(vector, intent, known=looked.columns.known)
        if searched:
            # Who searches wants to find, whatever the words.
            asked = replace(asked, wants=max(asked.wants, _SEARCHES))
        return _weighed(shelf, evidence, asked, await self._anchors(), shown=shown)

    async def _at_once(
        self,
        look: "Callable[[], _LookedAt | None]",
        embedded: Coroutine[None, None, tuple[Vector, Intent]],
        steps: Steps,
    ) -> "tuple[_LookedAt | None, Vector, Intent]":
        """What the words tell is found while the model works, in its thread."""
        embedding = asyncio.create_task(embedded)
        try:
            # It begins now.
            await asyncio.sleep(0)
            with steps.measure("score"):
                looked = look()
            with steps.measure("embed"):
                return looked, *await embedding
        finally:
            embedding.cancel()
            embedding.add_done_callback(_seen)

    async def _embedded(self, text: str, said: str, deadline: asyncio.Timeout | None) -> tuple[Vector, Intent]:
        """The vector of what is searched for, and what was said resembles."""
        hybrid = self._config.strategy == "hybrid"
        async with self._its_turn(deadline):
            vector = await self._embedder.embed_query(text)
            request = await self._of_the_request(vector, text, said) if hybrid else vector
        return vector, (await self._anchors()).intent(request) if hybrid else Intent()

    def _looked_at(self, shelf: MemoryShelf, words: str, said: str, request: RecallRequest) -> _LookedAt:
        now = self._clock.now()
        positions = shelf.positions(request.scope, now=now, types=request.options.types)
        if self._config.strategy != "hybrid" or not len(positions):
            return _LookedAt(positions)
        asked = wording(words, said, request.history)
        return _LookedAt(positions, asked, gathered(shelf, positions, asked, period_of(said, now)))

    @asynccontextmanager
    async def _its_turn(self, deadline: asyncio.Timeout | None) -> AsyncIterator[None]:
        """Embedding takes a processor, and there are few. In a burst each query waits for those before it, for a while.

        That wait is not the store's fault: giving up at once would only waste what the others waited for.
        """
        when = deadline.when() if deadline else None
        if deadline is None or when is None or not self._embedding.locked():
            async with self._embedding:
                yield
            return
        asked_at = asyncio.get_running_loop().time()
        deadline.reschedule(when + _PATIENCE_SECONDS)
        async with self._embedding:
            deadline.reschedule(when + asyncio.get_running_loop().time() - asked_at)
            yield

    async def listed(self, request: RecallRequest, steps: Steps) -> Iterator[Memory]:
        """The memories that recall may show, in `keyword_order`; of an owner who is not in the working set, the first ones.

        Raises:
            StoreUnavailableError: the memories are not at hand, and the store is away.
        """
        now, types = self._clock.now(), request.options.types
        oldest_first = self._config.keyword_order == "insertion"
        with steps.measure("search"):
            shelf = await self._shelf(request)
            if shelf is None:
                page = await self._reader.page(
                    request.scope, limit=_PAGE, types=types, reach=Reach.RECALL, now=now, oldest_first=oldest_first
                )
                return iter(page.memories)
        positions = shelf.positions(request.scope, now=now, types=types)
        return (shelf.memory(int(position)) for position in (positions if oldest_first else positions[::-1]))

    async def _of_the_request(self, vector: Vector, text: str, query: str) -> Vector:
        """The vector of what was said now: "Thanks, that's all" is small talk, whatever was talked about before."""
        said = " ".join(query.split())
        return vector if text == said else await self._embedder.embed_query(said[: self._config.max_query_chars])

    async def _shelf(self, request: RecallRequest) -> MemoryShelf | None:
        if self._shelves is None:
            return None
        patience = self._config.deadline_ms / 1000 * _SHELF_SHARE
        return await self._shelves.shelf(request.scope, until=asyncio.get_running_loop().time() + patience)

    async def _shelf_unless_all_is_away(self, request: RecallRequest) -> MemoryShelf | None:
        shelf = await self._shelf(request)
        if shelf is None and not self._reader.available:
            # Before the query is embedded for nothing.
            raise StoreUnavailableError("the store is known to be away")
        return shelf

    async def _asked_of_the_store(
        self, vector: Vector, words: str, request: RecallRequest, *, reach: Reach = Reach.RECALL, fresh: bool = False
    ) -> MemoryShelf:
        hits = await self._reader.search(
            request.scope,
            vector,
            limit=_shown(request) * _STORE_FACTOR,
            now=self._clock.now(),
            types=request.options.types,
            reach=reach,
            fresh=fresh,
            text=words if self._config.strategy == "hybrid" else "",
        )
        return found(hits)

    async def _anchors(self) -> Anchors:
        """Embedded once, for whoever asks first; a request that cannot wait leaves it to the next."""
        if self._embedding_anchors is None or _failed(self._embedding_anchors):
            self._embedding_anchors = asyncio.create_task(anchors.embedded(self._embedder))
        if self._embedding_anchors.done():
            return self._embedding_anchors.result()
        return await asyncio.shield(self._embedding_anchors)


def _failed(task: asyncio.Task[Anchors]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _seen(embedding: "asyncio.Task[tuple[Vector, Intent]]") -> None:
    """Its failure is known, or nobody's concern any more."""
    if not embedding.cancelled():
        embedding.exception()


def _nearest(shelf: MemoryShelf, positions: NDArray[np.intp], vector: Vector, *, shown: int) -> Found:
    """By the cosine alone."""
    similarities = shelf.similarities(vector)[positions]
    best = _first(similarities, shown)
    return Found(_hits(shelf, positions[best], similarities[best], similarities[best]))


def _weighed(shelf: MemoryShelf, evidence: Evidence, asked: Question, known: Anchors, *, shown: int) -> Found:
    """By all that is known of them."""
    needs = relevance.needed(evidence, asked)
    scores = relevance.scores(evidence, asked, needs)
    unasked = offered(evidence.marks, scores, asked.need).tolist() if asked.is_task else []
    chosen = list(dict.fromkeys((*unasked, *_first(scores, shown).tolist())))
    relevances = relevance.relevances(scores, chosen, asked, known, needs=needs, marks=evidence.marks)
    hits = _hits(shelf, evidence.positions[chosen], evidence.similarity[chosen], relevances)
    ids = frozenset(hit.memory.id for hit in hits[: len(unasked)])
    return Found(best_first(hits), ids)


def _first(scores: Floats, count: int) -> NDArray[np.intp]:
    """The places of the highest scores, best first; of equal ones those that come first."""
    if len(scores) <= count:
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, -count)[-count]
    places = np.flatnonzero(scores >= least)
    return places[np.argsort(-scores[places], kind="stable")][:count]


def _hits(shelf: MemoryShelf, positions: NDArray[np.intp], similarities: Floats, relevances: Floats) -> list[Hit]:
    memories: list[Memory] = [shelf.memory(int(position)) for position in positions]
    return [
        Hit(memory, similarity, weight)
        for memory, similarity, weight in zip(memories, similarities.tolist(), relevances.tolist(), strict=True)
    ]


def _shown(request: RecallRequest) -> int:
    return max(request.options.limit * _FETCH_FACTOR, _FETCH_LEAST)
