"""From a request to the block of memories that is put into it: decide, search, choose, render.

Strategy: nothing here can fail the request. Every way out is a reason; the request is waited for no longer than its
deadline; the plain path starts no task and no thread but the embedding's, because at a millisecond per search those would be
what it costs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial
from itertools import chain

from semrouter_memory.config import RecallConfig
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.events import ExchangeFailed
from semrouter_memory.model import (
    ANY_MEMORY,
    EarlierAnswer,
    Hit,
    OtherOwner,
    Reason,
    RecallOptions,
    RecallRequest,
    RecallResult,
    RenderStyle,
    Scope,
    StrategyName,
)
from semrouter_memory.ports import Clock, Embedder, Observer, Tombstones, TurnLog
from semrouter_memory.priority import LARGE_BODIES, is_large
from semrouter_memory.recall.conversation import ToolLoopCache
from semrouter_memory.recall.deadline import Deadline, StepTimer, discard, result_by
from semrouter_memory.recall.documents import DocumentSearch
from semrouter_memory.recall.earlier_answers import EarlierAnswers, fitting, means_earlier_answers
from semrouter_memory.recall.explanation import Explanation, Verdict
from semrouter_memory.recall.query import Query, decide
from semrouter_memory.recall.render import answered, frame, line, render, today_line
from semrouter_memory.recall.selection import Budget, OthersHits, choose
from semrouter_memory.recall.strategy import SearchResult, Strategy, best_first, pinned_tokens

# So many of the best are named in the result, whether they were injected or not.
_RANKING = 20
# An active user's memories come again and again, and tokenising five of them costs as much as ranking all.
_COUNTED_TEXTS = 4_096
_OUTAGES = {Service.EMBEDDING: Reason.EMBEDDING_FAILED, Service.STORE: Reason.STORE_UNAVAILABLE}

ReadVisible = Callable[[], Awaitable[Sequence[str]]]
"""Reads every text that the model will see anyway."""


@dataclass(frozen=True, slots=True)
class StrategyPair:
    """A strategy for the user's memories, and the same for other owners', which asks no model once more."""

    own: Strategy
    others: Strategy


class Recaller:
    """Finds the memories that belong into a request.

    Args:
        strategies: the configured one, and those that a route may name in its place.
        documents: searches the documents of a request's organisation and user; None: nothing does.
    """

    def __init__(
        self,
        *,
        strategies: Mapping[StrategyName, StrategyPair],
        embedder: Embedder,
        turn_log: TurnLog,
        observer: Observer,
        clock: Clock,
        config: RecallConfig,
        documents: DocumentSearch | None = None,
    ) -> None:
        self._strategies = strategies
        self._turn_log = turn_log
        self._observer = observer
        self._clock = clock
        self._config = config
        self._documents = documents
        self._answers = EarlierAnswers(turn_log)
        self._earlier = ToolLoopCache[RecallResult]()
        self._count_tokens = lru_cache(_COUNTED_TEXTS)(embedder.count_tokens)
        self.prepare = strategies[config.strategy].own.prepare

    async def recall(
        self, request: RecallRequest, deadline: Deadline, timer: StepTimer, visible: ReadVisible | None = None
    ) -> RecallResult:
        """The block for the request. Never raises (but for cancellation): a failure is a reason, and no text.

        Args:
            visible: asked once there is something to choose from; None: what the request shows.
        """
        if not request.has_place:
            return RecallResult(reason=Reason.NO_PLACE, without_history=not request.before)
        try:
            async with deadline:
                earlier = self._earlier.get(request)
                if earlier is not None:
                    result = await self._repeated(earlier, request.scope)
                else:
                    result = await self._decided(request, deadline, timer, visible or partial(_shown, request))
                self._earlier.put(request, replace(result, ranking=()))
                with timer.measure("render"):
                    text = render(result.hits, self._style(request.options), result.answers, today=result.today)
                tokens = self._size(result, request.options)
                return replace(result, text=text, tokens=tokens, without_history=not request.before)
        except TimeoutError:
            if timer.explanation is not None:
                timer.explanation.timed_out()
            return RecallResult(reason=Reason.TIMEOUT)
        except Exception as error:  # noqa: BLE001 - the one place where recall fails open
            reason = _OUTAGES.get(error.service) if isinstance(error, UnavailableError) else None
            if reason is None:
                self._observer.observe(ExchangeFailed(error))
            return RecallResult(reason=reason or Reason.INTERNAL)

    async def explain_left_out(self, request: RecallRequest, explanation: Explanation) -> None:
        """Record the memories that their type or the filter keeps out: recall does not even find them."""
        options, query = request.options, explanation.query
        if query is None or (options.types is None and not options.memory_filter):
            return
        anything = replace(request, options=replace(options, types=None, memory_filter=ANY_MEMORY))
        with suppress(UnavailableError, TimeoutError):
            async with (deadline := Deadline(self._config)):
                found = (await self._strategy(request).others.search(query, anything, deadline, StepTimer())).hits
                unwanted = [hit for hit in found if not options.want(hit.memory)]
                explanation.left_out(await self._not_deleted(request.scope, unwanted), options)

    async def _decided(
        self, request: RecallRequest, deadline: Deadline, timer: StepTimer, visible: ReadVisible
    ) -> RecallResult:
        if request.options.unreadable:
            return RecallResult(reason=Reason.UNREADABLE_SETTING)
        if request.options.limit <= 0:
            return RecallResult(reason=Reason.DISABLED)
        now, most = self._clock.now(), self._config.max_query_chars
        query = Query(text=request.query, history=request.before, now=now, max_chars=most)
        if timer.explanation is not None:
            timer.explanation.query = query
        with timer.measure("decide"):
            why_not = decide(query, request.signals, any_message=self._strategy(request).own.any_message)
        if why_not is not None:
            return RecallResult(reason=why_not)
        documents, answers = self._documents_of(query, request), self._answers_meant(query, request)
        try:
            chosen = await self._searched(query, request, deadline, timer, visible)
            if chosen.reason is Reason.PAUSED:
                return chosen
            if answers is not None:
                with timer.measure("answers"):
                    with deadline.earlier_answers():
                        found = await result_by(answers, deadline.answers()) or ()
                    chosen = self._with_answers(chosen, found, query, request.options)
            if documents is None:
                return chosen
            with timer.measure("documents"):
                passages = await self._passages(documents, request, visible, deadline, timer)
            return replace(chosen, reason=Reason.INJECTED, hits=chosen.hits + passages) if passages else chosen
        finally:
            discard(documents)
            discard(answers)

    def _answers_meant(self, query: Query, request: RecallRequest) -> "asyncio.Task[Sequence[EarlierAnswer]] | None":
        """The search of earlier answers, at the same time as that of the memories."""
        if not means_earlier_answers(request, query):
            return None
        return asyncio.create_task(self._answers.found(request, query), name="earlier answers")

    def _with_answers(
        self, chosen: RecallResult, found: Sequence[EarlierAnswer], query: Query, options: RecallOptions
    ) -> RecallResult:
        """With what of the answers the budget leaves room for."""
        style, left = self._style(options), self._config.token_budget - self._size(chosen, options)
        count = self._count_tokens
        shown = fitting(found, query.asked, cost=lambda each: count(answered([each], style)), count=count, budget=left)
        return replace(chosen, reason=Reason.INJECTED, answers=shown) if shown else chosen

    async def _searched(
        self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer, visible: ReadVisible
    ) -> RecallResult:
        """What is chosen of the memories."""
        result, others = await self._search_all(query, request, deadline, timer)
        # Asked after the store, so that no answer of its is older than a deletion.
        tombstones = await self._turn_log.tombstones(request.scope)
        if tombstones.paused_since is not None:
            return RecallResult(reason=Reason.PAUSED)
        hits = _existing(request.scope, tombstones, result.hits, timer.explanation)
        texts = await visible()
        options = request.options.of_overview() if result.is_overview else request.options
        given = set[Verdict]()

        def judge(hit: Hit, verdict: Verdict) -> None:
            given.add(verdict)
            timer.judge(hit, verdict)

        budget = self._budget(options, query.today)
        with timer.measure("rank"):
            choosing = partial(
                choose,
                hits,
                options,
                visible=texts,
                cost=self._cost(options),
                budget=budget,
                pinned=result.pinned if budget.pinned_tokens else frozenset(),
                pinned_by_user=result.pinned_by_user if budget.pinned_tokens else frozenset(),
                others=others,
                judge=judge,
            )
            chosen = await _chosen(texts, deadline, choosing)
        found = [*hits, *(hit for other in others for hit in other.hits)]
        reason = Reason.INJECTED if chosen else _why_nothing(result, found, given)
        ranking = tuple((best_first(found) if others else found)[:_RANKING])
        return RecallResult(reason=reason, hits=chosen, ranking=ranking, today=query.today)

    async def _search_all(
        self, query: Query, request: RecallRequest, deadline: Deadline, timer: StepTimer
    ) -> tuple[SearchResult, Sequence[OthersHits]]:
        """Search the user's memories and, at the same time, the other owners'; of these, what is late or fails is left out."""
        searches = [
            asyncio.create_task(self._search_other(query, request, other, timer.explanation), name="recall other owner")
            for other in request.others
        ]
        try:
            result = await self._strategy(request).own.search(query, request, deadline, timer)
            left = deadline.state_for_ranking() - asyncio.get_running_loop().time()
            done = (await asyncio.wait(searches, timeout=max(left, 0.0)))[0] if searches else ()
            return result, [search.result() for search in searches if search in done]
        finally:
            for search in searches:
                discard(search)

    async def _search_other(
        self, query: Query, request: RecallRequest, other: OtherOwner, explanation: Explanation | None
    ) -> OthersHits:
        try:
            # A deadline of its own: what it adds for a queue is this search's alone.
            strategy, apart = self._strategy(request).others, Explanation() if explanation is not None else None
            result = await strategy.search(query, request.of(other), Deadline(self._config), StepTimer(apart))
            if explanation is not None and apart is not None:
                explanation.adopt(apart)
            pinned = result.pinned_by_user if pinned_tokens(request.options, self._config) else frozenset[str]()
            return OthersHits(other, await self._not_deleted(other.scope, result.hits, explanation), pinned)
        except UnavailableError:
            return OthersHits(other, ())
        except Exception as error:  # noqa: BLE001 - the user's own memories are recalled all the same
            self._observer.observe(ExchangeFailed(error))
            return OthersHits(other, ())

    def _documents_of(self, query: Query, request: RecallRequest) -> "asyncio.Future[list[list[Hit]]] | None":
        """The searches of documents, at the same time as that of the memories."""
        if self._documents is None or not (owners := self._document_owners(request)):
            return None
        return asyncio.gather(*(self._documents.search(query, owner) for owner in owners))

    def _document_owners(self, request: RecallRequest) -> list[Scope]:
        of_user = self._documents is not None and self._documents.of_users
        owners = (request.organisation, request.scope.in_project("") if of_user else None)
        return [owner for owner in owners if owner is not None]

    async def _passages(
        self,
        searches: "asyncio.Future[list[list[Hit]]]",
        request: RecallRequest,
        visible: ReadVisible,
        deadline: Deadline,
        timer: StepTimer,
    ) -> tuple[Hit, ...]:
        """The passages to render; none where a search is late or fails."""
        found: Sequence[Hit] = best_first(chain(*(await result_by(searches, deadline.state_for_ranking()) or ())))
        if not found or self._documents is None:
            return ()
        for owner in self._document_owners(request):
            found = await self._not_deleted(owner, found, timer.explanation)
        texts = await visible()
        choosing = partial(
            choose,
            found,
            replace(request.options, limit=self._documents.limit, types=None),
            visible=texts,
            cost=self._cost(request.options),
            budget=Budget(tokens=self._documents.token_budget - self._frame(request.options, of_documents=True)),
            judge=timer.judge,
        )
        return await _chosen(texts, deadline, choosing)

    async def _repeated(self, earlier: RecallResult, scope: Scope) -> RecallResult:
        """The result of the turn's earlier step, without what was deleted since: the block stays the same in a loop."""
        if not earlier.hits and not earlier.answers:
            return earlier
        tombstones = await self._turn_log.tombstones(scope)
        if tombstones.paused_since is not None:
            return RecallResult(reason=Reason.PAUSED)
        hits = tuple(_existing(scope, tombstones, earlier.hits))
        for other in {hit.memory.scope.in_project("") for hit in hits if hit.memory.scope.owner != scope.owner}:
            hits = tuple(await self._not_deleted(other, hits))
        answers = tuple(each for each in earlier.answers if not tombstones.erases(each.at))
        reason = Reason.INJECTED if hits or answers else Reason.NO_MEMORIES
        return RecallResult(reason=reason, hits=hits, answers=answers, today=earlier.today)

    async def _not_deleted(
        self, scope: Scope, hits: Sequence[Hit], explanation: Explanation | None = None
    ) -> Sequence[Hit]:
        """The hits without this owner's deleted memories."""
        return _existing(scope, await self._turn_log.tombstones(scope), hits, explanation) if hits else hits

    def _strategy(self, request: RecallRequest) -> StrategyPair:
        return self._strategies[request.options.strategy or self._config.strategy]

    def _style(self, options: RecallOptions) -> RenderStyle:
        return options.render or self._config.render

    def _cost(self, options: RecallOptions) -> Callable[[Hit], int]:
        style = self._style(options)
        return lambda hit: self._count_tokens(line(hit, style))

    def _frame(self, options: RecallOptions, *, of_documents: bool = False) -> int:
        return self._count_tokens(frame(self._style(options), of_documents=of_documents))

    def _size(self, result: RecallResult, options: RecallOptions) -> int:
        """The size of the block of what was chosen, in the embedding model's tokens."""
        parts = {hit.memory.form == "passage" for hit in result.hits}
        frames = sum(self._frame(options, of_documents=of_documents) for of_documents in parts)
        answers = self._count_tokens(answered(result.answers, self._style(options))) if result.answers else 0
        today = self._count_tokens(today_line(result.today)) if result.today and (result.hits or answers) else 0
        return frames + sum(map(self._cost(options), result.hits)) + answers + today

    def _budget(self, options: RecallOptions, today: date | None) -> Budget:
        tokens = self._config.token_budget - self._frame(options)
        tokens -= self._count_tokens(today_line(today)) if today else 0
        return Budget(tokens=tokens, pinned_tokens=pinned_tokens(options, self._config))


async def _chosen(texts: Sequence[str], deadline: Deadline, choosing: Callable[[], tuple[Hit, ...]]) -> tuple[Hit, ...]:
    if not is_large(sum(map(len, texts))):
        return choosing()
    with deadline.long_conversation():
        return await LARGE_BODIES.run(choosing)


async def _shown(request: RecallRequest) -> Sequence[str]:
    return request.visible


def _existing(
    scope: Scope, tombstones: Tombstones, hits: Sequence[Hit], explanation: Explanation | None = None
) -> Sequence[Hit]:
    """The hits without this owner's deleted memories: the store, and an earlier step, may still show these."""
    existing = hits
    if tombstones:
        existing = [hit for hit in hits if hit.memory.scope.owner != scope.owner or not tombstones.covers(hit.memory)]
    if explanation is not None:
        explanation.found(hits, existing)
    return existing


def _why_nothing(result: SearchResult, existing: Sequence[Hit], verdicts: set[Verdict]) -> Reason:
    """Args: existing: of all owners."""
    has_none = not existing and (result.empty or result.hits)
    if result.rewrite_late and not has_none:
        return Reason.REWRITE_TIMEOUT
    if Verdict.OVER_BUDGET in verdicts:
        return Reason.OVER_BUDGET
    if Verdict.VISIBLE in verdicts:
        return Reason.ALREADY_VISIBLE
    return Reason.NO_MEMORIES if has_none else Reason.BELOW_THRESHOLD
