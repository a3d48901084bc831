"""The strategy `keywords`: the memories in which every keyword of the last message occurs, newest or oldest first.

Strategy: words are a filter and no measure, so there is no relevance: what matches is injected, up to a cap, in the configured
order. A message without keywords, an empty one too, filters nothing.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from semrouter_memory.config import RecallConfig
from semrouter_memory.model import Hit, Memory, RecallRequest
from semrouter_memory.recall.deadline import Deadline
from semrouter_memory.recall.keywords import KeywordExtractor, matching
from semrouter_memory.recall.memory_source import MemorySource
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.step_timer import StepTimer
from semrouter_memory.recall.strategy import SearchResult

_SPARE = 2
_LEAST = 20
_AT_A_TIME = 250
_MATCHES = 1.0
"""A match is above every threshold."""


class KeywordSearch:
    """Keywords first, then the memories that have them all. A model that is asked for them has `rewrite_deadline_ms`."""

    any_message = True

    def __init__(self, source: MemorySource, extractor: KeywordExtractor, config: RecallConfig) -> None:
        self._source = source
        self._extractor = extractor
        self._oldest_first = config.keyword_order == "insertion"
        self.limit: int | None = config.max_keyword_memories

    async def prepare(self) -> None:
        """Nothing to prepare."""

    async def search(self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer) -> SearchResult:
        """The matching memories, in the configured order. Raises `StoreUnavailableError`."""
        with timer.measure("keywords"):
            keywords = await self._keywords(query, deadline)
        with timer.measure("search"):
            memories = await self._source.in_order(request, deadline, oldest_first=self._oldest_first)
        with timer.measure("score"):
            first = next(memories, None)
            if first is None:
                return SearchResult(empty=True)
            matched = await self._matched(chain((first,), memories), keywords)
        return SearchResult([Hit(memory, _MATCHES, _MATCHES) for memory in matched])

    async def _keywords(self, query: Query, deadline: Deadline) -> Sequence[str]:
        if not self._extractor.asks_a_model:
            return await self._extractor.keywords(query.text, until=deadline.keywords(of_model=False))
        with deadline.external_model():
            return await self._extractor.keywords(query.text, until=deadline.keywords(of_model=True))

    async def _matched(self, memories: Iterator[Memory], keywords: Sequence[str]) -> list[Memory]:
        """More than the cap, since some may be visible or deleted; others get their turn between, and the deadline."""
        wanted = max(_SPARE * (self.limit or 0), _LEAST)
        matched: list[Memory] = []
        while len(matched) < wanted and (some := list(islice(memories, _AT_A_TIME))):
            matched += matching(some, keywords, limit=wanted - len(matched))
            await asyncio.sleep(0)
        return matched
