"""The strategy `keywords`: the memories in which every keyword of the last message occurs, newest or oldest first.

Strategy: words are a filter and no measure, so there is no relevance: what matches is given, up to a cap, in the
configured order, and a message without keywords, an empty one too, filters nothing.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from semrouter_memory.config import RecallConfig
from semrouter_memory.model import Hit, Memory, RecallRequest
from semrouter_memory.recall.keywords import KeywordExtractor, matching
from semrouter_memory.recall.searching import Found, Searcher
from semrouter_memory.recall.steps import Steps

_SPARE = 2
_LEAST = 20
_AT_A_TIME = 250
_MATCHES = 1.0
"""There is no more and no less: each match is above every threshold."""


class KeywordSearch:
    """Keywords first, then the memories that have them all. A model that is asked for them has `rewrite_deadline_ms`."""

    def __init__(self, searcher: Searcher, extractor: KeywordExtractor, config: RecallConfig) -> None:
        self._searcher = searcher
        self._extractor = extractor
        self._config = config

    async def search(self, request: RecallRequest, steps: Steps, deadline: asyncio.Timeout) -> Found:
        """The matching memories, in the configured order.

        Args:
            deadline: of the plain path; it does not count while a model is asked.

        Raises:
            StoreUnavailableError: the memories are not at hand, and the store is away.
        """
        loop, asks_a_model = asyncio.get_running_loop(), self._extractor.asks_a_model
        milliseconds = self._config.rewrite_deadline_ms if asks_a_model else self._config.deadline_ms
        left = (deadline.when() or loop.time()) - loop.time()
        if asks_a_model:
            deadline.reschedule(None)
        with steps.measure("keywords"):
            keywords = await self._extractor.keywords(request.query, until=loop.time() + milliseconds / 1000)
        if asks_a_model:
            deadline.reschedule(loop.time() + max(left, 0.0))
        listed = await self._searcher.listed(request, steps)
        with steps.measure("score"):
            first = next(listed, None)
            if first is None:
                return Found(empty=True)
            matched = await self._matched(chain((first,), listed), keywords)
        return Found(tuple(_hits(matched)))

    async def _matched(self, listed: Iterator[Memory], keywords: Sequence[str]) -> list[Memory]:
        """More than the cap, since some may be visible or deleted; others get their turn between, and the deadline."""
        wanted = max(_SPARE * self._config.max_keyword_memories, _LEAST)
        matched: list[Memory] = []
        while len(matched) < wanted and (some := list(islice(listed, _AT_A_TIME))):
            matched += matching(some, keywords, limit=wanted - len(matched))
            await asyncio.sleep(0)
        return matched


def _hits(memories: list[Memory]) -> Iterator[Hit]:
    return (Hit(memory, _MATCHES, _MATCHES) for memory in memories)
