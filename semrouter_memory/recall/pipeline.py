"""The request phase: from a request to the block of memories that is put into it.

Strategy: nothing here can fail the request. Every way out is a reason; the request is waited for no longer than its
deadline; the plain path starts no task and no thread, because at a millisecond per search those would be what it costs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from semrouter_memory.codec.base import transcript_hash
from semrouter_memory.config import RecallConfig
from semrouter_memory.errors import EmbeddingError, StoreUnavailableError
from semrouter_memory.events import ExchangeFailed, RecallFinished
from semrouter_memory.model import (
    Compression,
    Hit,
    Memory,
    Message,
    Reason,
    RecallRequest,
    RecallResult,
    Role,
    Scope,
)
from semrouter_memory.ports import Clock, ContextCompressor, Embedder, Observer, TurnLog, UsageNotes
from semrouter_memory.recall.beside import CompressionBeside, joined, still_visible, without_items
from semrouter_memory.recall.decide import decide
from semrouter_memory.recall.in_time import in_time
from semrouter_memory.recall.keyword_search import KeywordSearch
from semrouter_memory.recall.loops import Choice, TurnChoices, TurnKey
from semrouter_memory.recall.query import HISTORY_MESSAGES, is_vague
from semrouter_memory.recall.rank import Budget, choose
from semrouter_memory.recall.render import frame, line, render
from semrouter_memory.recall.rewrite import QueryRewriter
from semrouter_memory.recall.searching import Found, Searcher
from semrouter_memory.recall.steps import Steps

# The chain's last user messages, and the assistant's between them.
_CHAIN_MESSAGES = 4 * HISTORY_MESSAGES
# A chain that is not at hand within this part of the deadline is done without.
_CHAIN_SHARE = 0.25
# Deadlines that a stored chain's compression may take longer than all else: a chain that was compressed before, and goes
# up as it is because the log was late, goes on from what the server was sent then, without the state.
_CHAIN_PATIENCE = 6
# What is left of that when the state is given up: the chain is known by then, and only has to be put together.
_CHAIN_ASSEMBLY = 1
# Ranking takes a fraction of a millisecond. A state that is not at hand within this part of what is left is late.
_STATE_SHARE = 0.5
# After a rewrite, what is found already has at least this part of the deadline for what is left to do.
_LAST_SHARE = 0.25
# An active user's memories come again and again, and tokenising five of them costs as much as ranking all.
_COUNTED_LINES = 4096
# So many of the best are named in the result, whether they were injected or not.
_RANKING = 20


class Recaller:
    """Finds the memories that belong into a request."""

    def __init__(
        self,
        *,
        embedder: Embedder,
        searcher: Searcher,
        keyword_search: KeywordSearch | None = None,
        turn_log: TurnLog,
        observer: Observer,
        clock: Clock,
        config: RecallConfig,
        rewriter: QueryRewriter | None = None,
        compressor: ContextCompressor | None = None,
        usage: UsageNotes | None = None,
    ) -> None:
        self._embedder = embedder
        self._searcher = searcher
        self._keyword_search = keyword_search
        self._turn_log = turn_log
        self._observer = observer
        self._clock = clock
        self._config = config
        self._rewriter = rewriter
        self._compressor = compressor
        self._usage = usage
        self._choices = TurnChoices[Choice]()
        self._compressions = TurnChoices[Compression]()
        self._count = lru_cache(_COUNTED_LINES)(embedder.count_tokens)

    async def prepare(self) -> None:
        """What can be done before the first request, so that it need not wait for it.

        Raises:
            EmbeddingError: the model does not answer.
        """
        await self._searcher.prepare()

    async def recall(self, request: RecallRequest) -> RecallResult:
        """What to put into the request. Never raises (but for cancellation): a failure is a reason, and no text."""
        steps = Steps()
        try:
            result = await self._recalled(request, steps)
        except Exception as error:  # noqa: BLE001 - the one place where recall fails open
            self._observer.observe(ExchangeFailed(error))
            result = RecallResult(reason=Reason.INTERNAL)
        result = replace(result, steps_ms=steps.ms, runs=tuple(steps.runs))
        self._observer.observe(RecallFinished(result))
        return result

    async def _recalled(self, request: RecallRequest, steps: Steps) -> RecallResult:
        until = asyncio.get_running_loop().time() + self._config.deadline_ms / 1000
        request = await self._with_chain(_bounded(request, self._config), steps)
        if self._compressor is None or not request.compressible:
            return await self._remembered(request, steps, until)
        before = self._compressions.find(_key(request), self._clock.now()) if request.continues_loop else None
        deadline = self._config.deadline_ms / 1000
        patience = deadline * _CHAIN_PATIENCE if request.previous_response_id else 0.0
        beside = CompressionBeside(
            self._compressor,
            request,
            before,
            until=until + patience,
            state_until=until + patience - deadline * _CHAIN_ASSEMBLY,
        )
        try:
            result = await self._remembered(request, steps, until, beside)
            compression = await beside.result()
        finally:
            beside.cancel()
        if request.loop_key:
            # A step of a stored chain finds its items in the log again; here they would only take memory.
            self._compressions.keep(_key(request), without_items(compression), self._clock.now())
        return joined(result, compression)

    async def _remembered(
        self, request: RecallRequest, steps: Steps, until: float, beside: CompressionBeside | None = None
    ) -> RecallResult:
        """The memories' part; a part that is away or late is a reason."""
        if not request.has_place:
            return RecallResult(reason=Reason.NO_PLACE, without_history=not request.history)
        try:
            async with asyncio.timeout_at(until) as deadline:
                choice = await self._choice_before(request)
                if choice is None:
                    choice = await self._choose(request, steps, until, deadline, beside)
                    # Here, not at each step: an agent's loop uses a memory once.
                    self._note(choice)
            if request.loop_key:
                self._choices.keep(_key(request), choice, self._clock.now())
            with steps.measure("render"):
                return replace(self._rendered(choice), without_history=not request.history)
        except TimeoutError:
            return RecallResult(reason=Reason.TIMEOUT)
        except EmbeddingError:
            return RecallResult(reason=Reason.EMBEDDING_FAILED)
        except StoreUnavailableError:
            return RecallResult(reason=Reason.STORE_UNAVAILABLE)

    def _note(self, choice: Choice) -> None:
        if self._usage is not None and choice.hits:
            self._usage.note([hit.memory for hit in choice.hits])

    async def _choose(
        self,
        request: RecallRequest,
        steps: Steps,
        until: float,
        deadline: asyncio.Timeout,
        beside: CompressionBeside | None,
    ) -> Choice:
        if request.options.unreadable:
            return Choice(Reason.UNREADABLE_SETTING)
        if request.options.limit <= 0:
            return Choice(Reason.DISABLED)
        with steps.measure("decide"):
            decision = decide(request.query, request.signals, without_query=self._keyword_search is not None)
        if not decision.search:
            return Choice(decision.reason)
        found = await self._found(request, steps, deadline)
        deletions = await self._deletions(request.scope, found.hits)
        if beside is not None:
            with steps.measure("compress"):
                now = asyncio.get_running_loop().time()
                compression = await beside.for_ranking(now + (until - now) * _STATE_SHARE)
                request = replace(request, visible=still_visible(request, compression))
        with steps.measure("rank"):
            chosen = self._ranked(found, request, deletions)
        return Choice(Reason.INJECTED if chosen else _why_nothing(found), chosen, tuple(found.hits[:_RANKING]))

    # -- history -------------------------------------------------------------------------------------------------------

    async def _with_chain(self, request: RecallRequest, steps: Steps) -> RecallRequest:
        """The request with what the server's stored chain adds to it, when that makes a difference."""
        needed = not request.query or is_vague(request.query) or self._rewriter is not None
        if not (request.previous_response_id and needed):
            return request
        with steps.measure("history"):
            chain = await self._chain(request.scope, request.previous_response_id)
        if request.query:
            return replace(request, history=(*chain, *request.history))
        return _bounded(_asked_in(chain, request), self._config)

    async def _chain(self, scope: Scope, response_id: str) -> Sequence[Message]:
        try:
            async with asyncio.timeout(self._config.deadline_ms / 1000 * _CHAIN_SHARE):
                return await self._turn_log.history(scope, response_id, limit=_CHAIN_MESSAGES)
        except Exception:  # noqa: BLE001 - without it the query stands alone
            return ()

    # -- search --------------------------------------------------------------------------------------------------------

    async def _found(self, request: RecallRequest, steps: Steps, deadline: asyncio.Timeout) -> Found:
        if self._keyword_search is not None:
            return await self._keyword_search.search(request, steps, deadline)
        rewriter = self._rewriter
        if rewriter is not None and rewriter.wants_before(request.query, request.history):
            return await self._found_with(rewriter, request, steps, deadline)
        plain = await self._searcher.search(request.query, request, steps, deadline)
        threshold = request.options.threshold
        if rewriter is None or not rewriter.wants_after(request.query, best_relevance=plain.best, threshold=threshold):
            return plain
        rewriting = rewriter.rewrite(request.query, request.history)
        until = self._rewritten_by()
        return plain.joined(
            await self._found_rewritten(rewriting, request, steps, deadline, until=until, likely_answer=True)
        )

    async def _found_with(
        self, rewriter: QueryRewriter, request: RecallRequest, steps: Steps, deadline: asyncio.Timeout
    ) -> Found:
        """What is asked and what a model makes of it; the model is asked while the plain query is searched."""
        loop, until = asyncio.get_running_loop(), self._rewritten_by()
        begun = loop.time()
        rewriting = asyncio.create_task(rewriter.rewrite(request.query, request.history))
        try:
            # The model's call begins now. What that costs, however long, is no part of the plain path's time.
            await asyncio.sleep(0)
            deadline.reschedule((deadline.when() or begun) + loop.time() - begun)
            plain = await self._searcher.search(request.query, request, steps, deadline)
            return plain.joined(await self._found_rewritten(rewriting, request, steps, deadline, until=until))
        finally:
            rewriting.cancel()

    def _rewritten_by(self) -> float:
        return asyncio.get_running_loop().time() + self._config.rewrite_deadline_ms / 1000

    async def _found_rewritten(
        self,
        rewriting: Awaitable[str],
        request: RecallRequest,
        steps: Steps,
        deadline: asyncio.Timeout,
        *,
        until: float,
        likely_answer: bool = False,
    ) -> Found:
        """What the rewrite finds; nothing when it is late or fails, so that the plain result stands."""
        loop = asyncio.get_running_loop()
        left = (deadline.when() or 0.0) - loop.time()
        # The plain path has kept its deadline; the rewrite has its own.
        deadline.reschedule(None)
        with steps.measure("rewrite"):
            query = await in_time(rewriting, until)
        found = None
        if query:
            found = await in_time(self._searcher.search(query, request, steps, likely_answer=likely_answer), until)
        deadline.reschedule(loop.time() + max(left, self._config.deadline_ms / 1000 * _LAST_SHARE))
        return found or Found(rewrite_late=loop.time() >= until)

    # -- rank and render -----------------------------------------------------------------------------------------------

    async def _deletions(self, scope: Scope, hits: Sequence[Hit]) -> Callable[[Memory], bool]:
        """Whether a memory was deleted. Asked after the store, so that no answer of its is older than a deletion."""
        return (await self._turn_log.tombstones(scope)).covers if hits else _nothing

    def _ranked(self, found: Found, request: RecallRequest, is_deleted: Callable[[Memory], bool]) -> tuple[Hit, ...]:
        options = request.options
        if self._keyword_search is not None:
            options = replace(options, limit=self._config.max_keyword_memories)
        return choose(
            found.hits,
            options,
            visible=request.visible,
            is_deleted=is_deleted,
            cost=self._cost,
            budget=Budget(
                tokens=self._config.token_budget - self._frame_tokens, unasked_tokens=self._config.standing_tokens
            ),
            unasked=found.offered,
            shares_words_with=request.query if self._config.strategy == "semantic" else "",
            in_order=self._keyword_search is not None,
        )

    async def _choice_before(self, request: RecallRequest) -> Choice | None:
        """The choice of the turn's earlier step, without what was deleted since: the block stays the same in a loop."""
        if not (request.continues_loop and request.loop_key):
            return None
        choice = self._choices.find(_key(request), self._clock.now())
        if choice is None or not choice.hits:
            return choice
        is_deleted = await self._deletions(request.scope, choice.hits)
        left = tuple(hit for hit in choice.hits if not is_deleted(hit.memory))
        return Choice(Reason.INJECTED if left else Reason.BELOW_THRESHOLD, left)

    def _rendered(self, choice: Choice) -> RecallResult:
        text = render(choice.hits, self._config.render)
        tokens = self._frame_tokens + sum(map(self._cost, choice.hits)) if text else 0
        return RecallResult(reason=choice.reason, text=text, hits=choice.hits, tokens=tokens, ranking=choice.ranking)

    def _cost(self, hit: Hit) -> int:
        return self._count(line(hit, self._config.render))

    @cached_property
    def _frame_tokens(self) -> int:
        return self._embedder.count_tokens(frame(self._config.render))


def _why_nothing(found: Found) -> Reason:
    if found.empty:
        return Reason.NO_MEMORIES
    return Reason.REWRITE_TIMEOUT if found.rewrite_late else Reason.BELOW_THRESHOLD


def _nothing(_: Memory) -> bool:
    return False


def _bounded(request: RecallRequest, config: RecallConfig) -> RecallRequest:
    """The request within the configured bounds; the same object when it is, as nearly all are."""
    if request.options.limit > config.max_limit:
        request = replace(request, options=replace(request.options, limit=config.max_limit))
    if len(request.query) > config.max_query_chars:
        request = replace(request, query=request.query[: config.max_query_chars])
    return request


def _asked_in(chain: Sequence[Message], request: RecallRequest) -> RecallRequest:
    """A step of a stored chain's tool loop brings no user message: the question is the chain's last one."""
    last = max((at for at, message in enumerate(chain) if message.role is Role.USER), default=None)
    if last is None:
        return request
    first = max((at + 1 for at in range(last) if chain[at].role is Role.ASSISTANT), default=0)
    # The body named no turn, so its loop key names none either. This one is that of a first step with these messages.
    return replace(
        request,
        query=chain[last].text,
        history=tuple(chain[:first]),
        loop_key=transcript_hash(chain[first : last + 1]),
    )


def _key(request: RecallRequest) -> TurnKey:
    return TurnKey(request.scope, request.loop_key, request.options)
