"""Obeys what a user's message tells the memory: "forget what I told you about my salary", "that's not true any more".

Strategy. What the order names is searched as recall would, among the user's own memories, and what it means for sure (`meant`) is
deleted: to delete by mistake is worse than to miss. The tombstones are committed before the request goes on; the rest of the
deletion is waited for so long and goes on behind the request. Nothing here can fail the request.

"That's not true any more" is about what the assistant has just said: the one memory that the question before finds, if the answer
states it. "Forget everything about me" deletes nothing: the API does that, on purpose.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from cachetools import TTLCache

from semrouter_memory.config import RecallConfig
from semrouter_memory.deletion.meant import meant
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import NotFoundError, UnavailableError
from semrouter_memory.events import ExchangeFailed, WorkFailed
from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.terms import terms
from semrouter_memory.model import (
    ALWAYS,
    Criteria,
    Hit,
    Memory,
    MemoryType,
    Reach,
    RecallRequest,
    Role,
    Scope,
    Steered,
    Steering,
)
from semrouter_memory.ports import Clock, Observer, TurnLog
from semrouter_memory.recall.vector_search import VectorSearch
from semrouter_memory.retain.grounding import denies
from semrouter_memory.retain.steering import Command, Order, command
from semrouter_memory.workers import BackgroundTasks

MAX_FORGOTTEN = 20
"""Memories that one message deletes at most."""
_TYPES = frozenset({MemoryType.SEMANTIC, MemoryType.PROCEDURAL})
"""An episode goes with a memory that it may tell of, and not by itself."""
_STATED = 0.93
"""Relevance to the question before, from which on a memory may be what the answer stated."""
_UNSTATED = 1 / 3
"""Share of a memory's terms that an answer need not state, if the question does not either."""
_MAX_OBEYED, _OBEYED_SECONDS = 10_000, 600
"""For so long the same request deletes only what was written since: it may be a retry, and what is left looks more relevant now."""


@dataclass(frozen=True, slots=True)
class _Obeyed:
    """An order: when it was obeyed last, and all that it deleted."""

    at: datetime
    forgotten: tuple[str, ...] = ()


_NEVER = _Obeyed(ALWAYS.start)


class InWords:
    """Obeys the orders that a user's message gives to the memory."""

    def __init__(
        self,
        *,
        search: VectorSearch,
        deletion: DeletionService,
        turn_log: TurnLog,
        observer: Observer,
        clock: Clock,
        config: RecallConfig,
    ) -> None:
        self._clock = clock
        self._turn_log = turn_log
        self._search = search
        self._deletion = deletion
        self._observer = observer
        self._threshold = config.forget_threshold
        self._seconds = config.forget_deadline_ms / 1000
        self._max_chars = config.max_query_chars
        self._obeyed: TTLCache[tuple[Scope, str, str, str], _Obeyed] = TTLCache(_MAX_OBEYED, _OBEYED_SECONDS)
        self._tasks = BackgroundTasks()

    async def obey(self, request: RecallRequest) -> Steered | None:
        """What became of the order in the newest message; None for none. Never raises (but for cancellation).

        Of a request that is sent again it tells what the order deleted before, too.
        """
        if not request.retained or request.continues_loop or request.options.unreadable:
            return None
        if self._threshold >= 1 or (found := command(request.query)) is None or found.order is Order.PAUSE:
            return None
        key = (request.scope, request.loop_key, request.previous_response_id, request.query)
        started, before = self._clock.now(), self._obeyed.get(key, _NEVER)
        # At once: a retry may come while this one is obeyed.
        self._obeyed[key] = replace(before, at=started)
        steered: Steered | None = None
        try:
            steered = await self._obeyed_now(found, request, before.at)
        finally:
            now = steered.forgotten if steered is not None else ()
            forgotten = self._obeyed.get(key, before).forgotten + now
            self._obeyed[key] = _Obeyed(started if now else before.at, forgotten)
        if forgotten:
            return Steered(Steering.FORGOTTEN, forgotten)
        # Most of what an assistant says is no memory, and "that's not true any more" no order then.
        return None if found.order is Order.UNTRUE and steered.outcome is Steering.NOT_FOUND else steered

    async def settle(self) -> None:
        """Return when every deletion that was begun has ended."""
        await self._tasks.settle()

    async def _obeyed_now(self, order: Command, request: RecallRequest, since: datetime) -> Steered:
        if order.order is Order.EVERYTHING:
            return Steered(Steering.REFUSED)
        until = asyncio.get_running_loop().time() + self._seconds
        hidden: list[str] = []
        try:
            async with asyncio.timeout_at(until):
                for memory in await self._meant(order, request, since):
                    await self._deletion.hide(memory)
                    hidden.append(memory.id)
        except (UnavailableError, TimeoutError):
            failed = True
        except Exception as error:  # noqa: BLE001 - no bug of ours may cost a request
            self._observer.observe(ExchangeFailed(error))
            failed = True
        else:
            failed = False
        await self._delete(request.scope, hidden, until)
        nothing = Steering.FAILED if failed else Steering.NOT_FOUND
        return Steered(Steering.FORGOTTEN, tuple(hidden)) if hidden else Steered(nothing)

    async def _meant(self, order: Command, request: RecallRequest, since: datetime) -> list[Memory]:
        """The memories that the order is about for sure, the surest first, of those written since then."""
        if order.order is Order.FORGET:
            found = await self._found([each.text for each in order.subjects], request, since)
            return meant(list(zip(order.subjects, found, strict=True)), self._threshold)[:MAX_FORGOTTEN]
        asked, answered = _just_said(request)
        if not asked:
            return []
        asked, stated = asked[: self._max_chars], sentences(answered[: self._max_chars])
        (hits,) = await self._found([asked], request, since)
        sure = (hit.memory for hit in hits if hit.relevance >= _STATED)
        return [each for each in sure if _is_stated(each, asked, stated)][:1]

    async def _found(self, texts: Sequence[str], request: RecallRequest, since: datetime) -> list[list[Hit]]:
        """For each text what is found of the memories that this request may delete, those written since then."""
        deleted = await self._turn_log.tombstones(request.scope)
        if deleted.paused_since is not None:
            return [[] for _ in texts]
        criteria = Criteria(request.scope, reach=Reach.RECALL, types=_TYPES)
        searches = (self._search.search_fresh(criteria, text, limit=MAX_FORGOTTEN) for text in texts)
        return [
            [
                hit
                for hit in hits[:MAX_FORGOTTEN]
                if hit.memory.updated_at >= since and _is_own(hit.memory, request) and not deleted.covers(hit.memory)
            ]
            for hits in await asyncio.gather(*searches)
        ]

    async def _delete(self, scope: Scope, memory_ids: Sequence[str], until: float) -> None:
        """Delete what is hidden with all its traces; what takes long goes on when the request does."""
        if not memory_ids:
            return
        task = self._tasks.start(self._deleted(scope, memory_ids), name="forget in words")
        await asyncio.wait((task,), timeout=max(until - asyncio.get_running_loop().time(), 0))

    async def _deleted(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        for memory_id in memory_ids:
            try:
                await self._deletion.tombstone(scope, memory_id)
            except NotFoundError:
                pass  # it went with the one before, whose quote or statement it is
            except Exception as error:  # noqa: BLE001 - it is hidden, and a sweep deletes it
                self._observer.observe(WorkFailed(error))


def _just_said(request: RecallRequest) -> tuple[str, str]:
    """The question before, and its answer; "" for none."""
    history = request.history
    answered = history[-1].text if history and history[-1].role is Role.ASSISTANT else ""
    asked = next((each.text for each in reversed(history) if each.role is Role.USER), "")
    return (asked, answered) if answered else ("", "")


def _is_stated(memory: Memory, asked: str, answered: Sequence[str]) -> bool:
    """Whether a sentence of the answer ("You live in Berlin.") tells the memory, in whatever person and order.

    The answer need not repeat what the question says, but tells something that the question does not, or all of it.
    """
    wanted, known = {*terms(f"{memory.context} {memory.content}")}, {*terms(asked)}
    for sentence in answered:
        told = wanted & {*terms(sentence)}
        unstated = wanted - told - known
        if not told or (told <= known and told != wanted):
            continue
        if len(unstated) > _UNSTATED * len(wanted) or any(term[0].isdigit() for term in unstated):
            continue
        if not denies(sentence, memory.content) and not denies(memory.content, sentence):
            return True
    return False


def _is_own(memory: Memory, request: RecallRequest) -> bool:
    """Whether it is a memory of this user that this request could be given."""
    options = request.options
    is_own = memory.scope.owner == request.scope.owner and memory.within_session in {"", options.session}
    return is_own and options.want(memory)
