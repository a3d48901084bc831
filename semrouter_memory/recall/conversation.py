"""What a request's own body does not tell: the messages of a stored chain, and what a tool loop's first step decided.

The block of memories must not change between the steps of a loop: a provider's prompt cache ends at the first byte that differs, and
a model whose context changes in mid-task is confused.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from cachetools import TTLCache

from semrouter_memory.codec.base import transcript_hash
from semrouter_memory.config import RecallConfig
from semrouter_memory.model import Message, OtherOwner, RecallOptions, RecallRequest, Role, Scope
from semrouter_memory.ports import TurnLog
from semrouter_memory.recall.deadline import Deadline, StepTimer
from semrouter_memory.recall.query import HISTORY_MESSAGES, is_vague, line_of

_Value = TypeVar("_Value")
_TurnKey = tuple[str, Scope, RecallOptions, tuple[OtherOwner, ...]]
"""One user turn, asked with certain settings: other settings make another decision."""

_MAX_TURNS = 1_000
_MAX_AGE_SECONDS = 600
# The chain's last user messages, and the assistant's between them.
_CHAIN_MESSAGES = 4 * HISTORY_MESSAGES


class StoredHistory:
    """Reads chains from the turn log, best effort.

    Args:
        always: also for a query that is not vague, for a model that rewrites it.
    """

    def __init__(self, turn_log: TurnLog, config: RecallConfig, *, always: bool = False) -> None:
        self._turn_log = turn_log
        self._max_query_chars = config.max_query_chars
        self._always = always

    async def completed(self, request: RecallRequest, deadline: Deadline, timer: StepTimer) -> RecallRequest:
        """The request with the chain's messages if they make a difference."""
        if not request.previous_response_id:
            return request
        if request.query and not (self._always or is_vague(line_of(request.query, self._max_query_chars))):
            return request
        with timer.measure("history"):
            chain = await self._chain(request.scope, request.previous_response_id, deadline)
        if request.query:
            return replace(request, history=(*chain, *request.history))
        return _asked_in(chain, request)

    async def _chain(self, scope: Scope, response_id: str, deadline: Deadline) -> Sequence[Message]:
        try:
            async with asyncio.timeout_at(deadline.history()):
                return await self._turn_log.history(scope, response_id, limit=_CHAIN_MESSAGES)
        except Exception:  # noqa: BLE001 - without it the query stands alone
            return ()


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
        unanswered=tuple(message.text for message in chain[first:last]),
        loop_key=transcript_hash(chain[first : last + 1]),
    )


class ToolLoopCache(Generic[_Value]):
    """The decisions of one kind for the last turns, bounded in number and age."""

    def __init__(self) -> None:
        self._values: TTLCache[_TurnKey, _Value] = TTLCache(_MAX_TURNS, _MAX_AGE_SECONDS, timer=_now)

    def put(self, request: RecallRequest, value: _Value) -> None:
        if request.loop_key:
            self._values[_key(request)] = value

    def get(self, request: RecallRequest) -> _Value | None:
        """The decision of the turn's earlier step; None for a first step, and when the earlier one is too old."""
        return self._values.get(_key(request)) if request.continues_loop and request.loop_key else None


def _key(request: RecallRequest) -> _TurnKey:
    return request.loop_key, request.scope, request.options, request.others


def _now() -> float:
    return asyncio.get_running_loop().time()
