"""A strategy with an external model beside it, which makes a better query (`rewrite`)."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from semrouter_memory.model import RecallRequest
from semrouter_memory.recall.deadline import AFTER_MODEL, Deadline, result_by
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.rewrite import QueryRewriter
from semrouter_memory.recall.step_timer import StepTimer
from semrouter_memory.recall.strategy import SearchResult, Strategy


class RewritingSearch:
    """Searches the plain query and, with a deadline of its own, what a model makes of it; the plain result stands in any case."""

    def __init__(self, strategy: Strategy, rewriter: QueryRewriter) -> None:
        self._strategy = strategy
        self._rewriter = rewriter
        self.any_message = strategy.any_message
        self.limit = strategy.limit

    async def prepare(self) -> None:
        await self._strategy.prepare()

    async def search(self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer) -> SearchResult:
        if self._rewriter.wants_before(query):
            return await self._beside(query, request, deadline, timer)
        plain = await self._strategy.search(query, request, deadline, timer)
        threshold = request.options.threshold
        if not self._rewriter.wants_after(query.text, best_relevance=plain.best, threshold=threshold):
            return plain
        answering = self._rewriter.rewrite(query.text, query.history)
        until = deadline.rewrite()
        return plain.joined(
            await self._rewritten(answering, query, request, deadline, timer, until=until, is_answer=True)
        )

    async def _beside(self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer) -> SearchResult:
        """The model is asked while the plain query is searched."""
        until = deadline.rewrite()
        rewriting = asyncio.create_task(self._rewriter.rewrite(query.text, query.history))
        try:
            with deadline.external_model():
                # The call begins now; what that costs is not the plain path's time.
                await asyncio.sleep(0)
            plain = await self._strategy.search(query, request, deadline, timer)
            return plain.joined(await self._rewritten(rewriting, query, request, deadline, timer, until=until))
        finally:
            rewriting.cancel()

    async def _rewritten(
        self,
        rewriting: Awaitable[str],
        query: Query,
        request: RecallRequest,
        deadline: Deadline,
        timer: StepTimer,
        *,
        until: float,
        is_answer: bool = False,
    ) -> SearchResult:
        """What the rewrite finds; nothing when it is late or fails."""
        result = None
        with deadline.external_model(least_left=AFTER_MODEL):
            with timer.measure("rewrite"):
                text = await result_by(rewriting, until)
            if text:
                better = replace(query, likely_answer=text) if is_answer else replace(query, text=text)
                result = await result_by(self._strategy.search(better, request, deadline, timer), until)
        return result or SearchResult(rewrite_late=asyncio.get_running_loop().time() >= until)
