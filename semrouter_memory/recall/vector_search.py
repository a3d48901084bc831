"""Search by meaning: the strategies `hybrid` (calibrated relevance of meaning and words) and `semantic` (the cosine alone).

Strategy: one embedding, and for an active owner no round trip: every memory is considered, and the few best are decoded. The same
formula gives the relevance whether the memories come from the index or from the store.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from semrouter_memory.config import RecallConfig
from semrouter_memory.language.scripts import CJK, simplified
from semrouter_memory.language.third_person import to_third_person
from semrouter_memory.language.words import content_runs, content_words
from semrouter_memory.model import ALWAYS, Criteria, Hit, OwnerKind, RecallRequest, Vector
from semrouter_memory.ports import MemoryIndex
from semrouter_memory.recall import categories, relevance, wants
from semrouter_memory.recall.deadline import Deadline, StepTimer, discard
from semrouter_memory.recall.explanation import Explanation
from semrouter_memory.recall.features import CandidateFeatures, Floats, QueryFeatures
from semrouter_memory.recall.prototypes import Intent, LazyPrototypes
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.strategy import MemorySource, SearchResult, best_first, pinned_tokens
from semrouter_memory.recall.time_expressions import period_of

# More than asked for, so that memories which are visible, repeated or deleted do not starve the result.
_FETCH_FACTOR = 2
_MIN_FETCHED = 20
# A store is asked for more: the formula orders them differently from the cosine.
_STORE_FACTOR = 3
_SEARCHES = 2.0
"""Log-odds that a search wants something."""
_NEXT = 0.001
"""What is asked for is all: every memory is relevant, and this keeps the order."""
_PAIR = 2
_KNOWN = 0.5
"""From this worth of a cosine on, the model knows the query's language."""

_Embedded: TypeAlias = tuple[Vector, Intent]


class VectorSearch(ABC):
    """What both strategies share: index or store, and the words' part while the model embeds the query."""

    any_message = False

    def __init__(self, *, source: MemorySource, vectors: QueryVectors, config: RecallConfig) -> None:
        self._source = source
        self._vectors = vectors
        self._config = config

    async def prepare(self) -> None:  # noqa: B027 - a strategy may have nothing to prepare
        """See `Strategy`."""

    async def search(self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer) -> SearchResult:
        """See `Strategy`."""
        with timer.measure("query"):
            text = self._text(query)
        criteria, limit = self._source.criteria(request), _fetched(request.options.limit)
        index = None
        if not self._source.reader.available:
            # Nothing is embedded in vain.
            with timer.measure("search"):
                index = await self._source.index(request, deadline)
        embedding = asyncio.create_task(self._embedded(text, query, deadline))
        try:
            # It starts now: the memories of a user who was away are read in meanwhile.
            await asyncio.sleep(0)
            if index is None:
                with timer.measure("search"):
                    index = await self._source.index(request, deadline)
            with timer.measure("score"):
                features = QueryFeatures.of(query)
                candidates = None if index is None else CandidateFeatures.of(index, index.positions(criteria), features)
            with timer.measure("embed"):
                vector, intent = await embedding
        finally:
            discard(embedding)
        if candidates is None:
            pinned = pinned_tokens(request.options, self._config) > 0
            with timer.measure("search"):
                index = await self._in_store(criteria, vector, query, limit=limit, pinned=pinned)
            with timer.measure("score"):
                candidates = CandidateFeatures.of(index, index.positions(criteria), features)
        with timer.measure("score"):
            if not len(candidates):
                return SearchResult(empty=True)
            features = features.embedded(vector, intent, known_names=candidates.known_names)
            if timer.explanation is not None:
                timer.explanation.features = features
                timer.explanation.searched.append(text)
            return await self._ranked(candidates.compared(vector), features, limit, timer.explanation)

    async def search_fresh(
        self, criteria: Criteria, text: str, *, limit: int, calibrated: bool = False
    ) -> Sequence[Hit]:
        """The store's best active memories for a query, every acknowledged write among them, with their relevance.

        Args:
            limit: up to which the order is that of the relevance; more may come, for what the caller leaves out.
            calibrated: the relevance is that of recall, whose threshold it is compared with. A search wants to find
                something, whatever its words; its relevance is higher.

        Raises:
            UnavailableError: the model does not answer.
            StoreUnavailableError: the store is unavailable.
        """
        now, limit = self._source.now(), _fetched(limit)
        criteria = replace(criteria, active_at=now)
        query = Query(text=text, now=now, max_chars=self._config.max_query_chars)
        vector, intent = await self._embedded(self._text(query), query, Deadline(self._config, bounded=False))
        index = await self._in_store(criteria, vector, query, limit=limit, fresh=True)
        features = QueryFeatures.of(query)
        candidates = CandidateFeatures.of(index, index.positions(criteria), features)
        if not len(candidates):
            return ()
        features = features.embedded(vector, intent, known_names=candidates.known_names)
        if not calibrated:
            features = replace(features, wants=max(features.wants, _SEARCHES))
        return (await self._ranked(candidates.compared(vector), features, limit, None)).hits

    async def _in_store(
        self,
        criteria: Criteria,
        vector: Vector,
        query: Query,
        *,
        limit: int,
        pinned: bool = False,
        fresh: bool = False,
    ) -> MemoryIndex:
        limit, text = limit * _STORE_FACTOR, self._words(query)
        return await self._source.reader.search_index(
            criteria, vector, limit=limit, fresh=fresh, text=text, pinned=pinned
        )

    # -- what a strategy decides ---------------------------------------------------------------------------------------

    @abstractmethod
    def _text(self, query: Query) -> str:
        """The text that is embedded and searched for."""

    @abstractmethod
    def _words(self, query: Query) -> str:
        """The words that the store searches as well; "" for none."""

    @abstractmethod
    async def _embedded(self, text: str, query: Query, deadline: Deadline) -> _Embedded:
        """The vector of what is searched for, and the intent of the request."""

    @abstractmethod
    async def _ranked(
        self, candidates: CandidateFeatures, query: QueryFeatures, fetched: int, explanation: Explanation | None
    ) -> SearchResult:
        """The best candidates. The query is embedded, and they are compared with it."""


class HybridSearch(VectorSearch):
    """Relevance of meaning, words, times and needs (`relevance`)."""

    def __init__(self, *, source: MemorySource, vectors: QueryVectors, config: RecallConfig) -> None:
        super().__init__(source=source, vectors=vectors, config=config)
        self._prototypes = LazyPrototypes(vectors.embedder)

    async def prepare(self) -> None:
        categories.prepare()
        await self._prototypes.get()

    async def search(self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer) -> SearchResult:
        """See `Strategy`. What a user asks of all that is known is answered with the user's own, and not with an organisation's."""
        if request.scope.kind is OwnerKind.USER and wants.is_overview(query.asked):
            return await self._overview(query, request, deadline, timer)
        return await super().search(query, request, deadline, timer)

    async def _overview(
        self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer
    ) -> SearchResult:
        """What is pinned, then the newest memories; of the period that the request names, where it names one."""
        written, limit = period_of(query.asked, query.now) or ALWAYS, _fetched(request.options.of_overview().limit)
        with timer.measure("search"):
            memories = await self._source.in_order(request, deadline, oldest_first=False, written=written)
        with timer.measure("score"):
            # A long memory comes once for each of its passages.
            found = list({memory.id: memory for memory in islice(memories, limit)}.values())
        return SearchResult(
            [Hit(memory, 0.0, 1.0 - rank * _NEXT) for rank, memory in enumerate(found)],
            pinned_by_user=frozenset(memory.id for memory in found if memory.pinned),
            empty=not found and written == ALWAYS,
            is_overview=True,
        )

    def _text(self, query: Query) -> str:
        return query.search_text

    def _words(self, query: Query) -> str:
        return query.search_words

    async def _embedded(self, text: str, query: Query, deadline: Deadline) -> _Embedded:
        texts = (text, text if query.stands_alone else query.said)
        vector, said = await self._vectors.get(query, *texts, deadline=deadline)
        return vector, (await self._prototypes.get()).intent(said)

    async def _ranked(
        self, candidates: CandidateFeatures, query: QueryFeatures, fetched: int, explanation: Explanation | None
    ) -> SearchResult:
        prototypes = await self._prototypes.get()
        needs = relevance.needed(candidates, query)
        scores = relevance.score(candidates, query, needs)
        first = categories.pinned(candidates.labels, scores, query.need).tolist() if query.is_task else []
        mine = categories.pinned_by_user(candidates.labels, scores).tolist()
        rows = list(dict.fromkeys((*mine, *first, *relevance.highest(scores, fetched, candidates.keys).tolist())))
        hits = candidates.hits(
            rows, relevance.relevances(scores, rows, query, prototypes, needs=needs, labels=candidates.labels)
        )
        if explanation is not None:
            made_of = relevance.features(scores, query, prototypes, needs=needs, rows=np.asarray(rows, dtype=np.intp))
            _record(explanation, hits, {**candidates.columns(rows), "needed": needs[rows], **made_of})
        return SearchResult(best_first(hits), _ids(hits, rows, first), _ids(hits, rows, mine))


class SemanticSearch(VectorSearch):
    """The plain cosine, with the question in the third person, as statements are."""

    def _text(self, query: Query) -> str:
        return to_third_person(query.search_words)

    def _words(self, query: Query) -> str:  # noqa: ARG002 - meaning only
        return ""

    async def _embedded(self, text: str, query: Query, deadline: Deadline) -> _Embedded:
        (vector,) = await self._vectors.get(query, text, deadline=deadline)
        return vector, Intent()

    async def _ranked(
        self, candidates: CandidateFeatures, query: QueryFeatures, fetched: int, explanation: Explanation | None
    ) -> SearchResult:
        mine = categories.pinned_by_user(candidates.labels, candidates.similarity).tolist()
        rows = list(
            dict.fromkeys((*mine, *relevance.highest(candidates.similarity, fetched, candidates.keys).tolist()))
        )
        hits = candidates.hits(rows, candidates.similarity[rows])
        if explanation is not None:
            _record(explanation, hits, candidates.columns(rows))
        if relevance.cosine_worth(query) < _KNOWN:
            # To a model that knows few Chinese characters, sentences that share nothing look alike.
            units = frozenset(_chinese_units(query.text))
            hits = [hit if _shares(units, hit.memory.content) else replace(hit, relevance=0.0) for hit in hits]
        return SearchResult(best_first(hits), pinned_by_user=_ids(hits, rows, mine))


def _ids(hits: Sequence[Hit], rows: Sequence[int], wanted: Sequence[int]) -> frozenset[str]:
    """The ids of the hits in these rows; no other memory is decoded for it."""
    return frozenset(hits[rows.index(row)].memory.id for row in wanted)


def _record(explanation: Explanation, hits: Sequence[Hit], columns: Mapping[str, Floats | float]) -> None:
    """Record the features by memory; those of the query alone are the same for each."""
    for row, hit in enumerate(hits):
        explanation.columns[hit.memory.scope.owner, hit.memory.id] = {
            name: float(column if isinstance(column, float) else column[row]) for name, column in columns.items()
        }


def _shares(units: frozenset[str], content: str) -> bool:
    """Whether a memory has one of the query's words; any does where the query has none."""
    lowered = simplified(content).lower()
    return not units or any(unit in lowered for unit in units)


def _chinese_units(query: str) -> Iterator[str]:
    """Words of other scripts, and pairs of neighbouring Chinese characters: most Chinese words have two."""
    yield from (word for word in content_words(query) if not CJK.match(word))
    for run in content_runs(query):
        if len(run) < _PAIR:
            yield run
        yield from (run[at : at + _PAIR] for at in range(len(run) - 1))


def _fetched(limit: int) -> int:
    return max(limit * _FETCH_FACTOR, _MIN_FETCHED)
