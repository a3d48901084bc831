"""How long one request may wait, which part of recall may use how much of that, and how long each step took.

Strategy: `deadline_ms` bounds the work of a request itself. Four waits are not counted: the queue for the embedding model, which
other requests fill in a burst; that for a thread, where the conversation is long; an external model, which has a deadline of its own
(`rewrite_deadline_ms`); and earlier answers. Every limit is here; callers name the part that they wait for.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from semrouter_memory.config import RecallConfig
from semrouter_memory.model import StepRun
from semrouter_memory.ports import ChatModel
from semrouter_memory.recall.explanation import Explanation, Judge, unrecorded

_T = TypeVar("_T")

# Parts of `deadline_ms`.
HISTORY = 0.25
"""Reading a stored chain's messages; then the query stands alone."""
OWNER_VERSION = 0.15
"""Reading an owner's version from Redis. Less than `OWNER_INDEX`: a Redis that hangs must be found out by this wait, which is
remembered, and not by that one, which every request would repeat."""
OWNER_INDEX = 0.4
"""Getting the owner's index, which is read in for a user who was away and has few memories; then the store is searched."""
AFTER_MODEL = 0.25
"""The least that is left for ranking after an external model was waited for."""
_STATE = 0.5
"""Part of the remaining time in which a conversation's state must be known before ranking, which takes less than 1 ms."""
_STORED_CHAIN = 6
"""Deadlines by which the compression of a stored chain may take longer than all else. A chain that was compressed before must not
go upstream without its state: the server continues from what it was sent then."""
_CHAIN_ASSEMBLY = 1
"""What is left of that when the state is given up: the chain is known by then and only has to be put together."""
_ANSWERS_SECONDS = 0.2
"""Reading earlier answers, which few requests ask for; it is not counted."""
_QUEUE_SECONDS = 0.4
"""With the deadline, this stays below the second after which Envoy continues without an answer."""


class Deadline:
    """The time of one request, from its creation on. `async with` it: what runs inside ends with `TimeoutError` when it is late.

    Args:
        bounded: False: nothing is late, as in a search of the management API.
    """

    def __init__(self, config: RecallConfig, *, bounded: bool = True) -> None:
        self._seconds = config.deadline_ms / 1000
        self._model_seconds = config.rewrite_deadline_ms / 1000
        self._end = _now() + self._seconds if bounded else math.inf
        self._timeout: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        self._timeout = asyncio.timeout_at(self._end if self._end < math.inf else None)
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timeout is not None:
            await self._timeout.__aexit__(kind, error, trace)

    # -- parts, as times of the loop -----------------------------------------------------------------------------------

    def history(self) -> float:
        return _now() + self._seconds * HISTORY

    def owner_index(self) -> float:
        return _now() + self._seconds * OWNER_INDEX

    def answers(self) -> float:
        return _now() + _ANSWERS_SECONDS

    def external_answer(self) -> float:
        return _now() + self._model_seconds

    def state_for_ranking(self) -> float:
        now = _now()
        return now + (self._end - now) * _STATE

    def compression(self, *, stored_chain: bool) -> float:
        return self._end + (self._seconds * _STORED_CHAIN if stored_chain else 0.0)

    def chain_state(self) -> float:
        """Until when the state of a stored chain is waited for."""
        return self._end + self._seconds * (_STORED_CHAIN - _CHAIN_ASSEMBLY)

    # -- waits that are not counted ------------------------------------------------------------------------------------

    def embedding_queue(self) -> AbstractContextManager[None]:
        """`with` it while waiting for other requests' embeddings: not counted, up to a limit."""
        return self._uncounted(most=_QUEUE_SECONDS)

    def long_conversation(self) -> AbstractContextManager[None]:
        """`with` it while a long conversation is searched for what it states: not counted, up to a limit."""
        return self._uncounted(most=_QUEUE_SECONDS)

    def external_model(self, *, least_left: float = 0.0) -> AbstractContextManager[None]:
        """`with` it while waiting for an external model: not counted.

        Args:
            least_left: part of the deadline that is left afterwards, however much was used before.
        """
        return self._uncounted(least_left=least_left)

    def earlier_answers(self) -> AbstractContextManager[None]:
        """`with` it while waiting for what is looked for until `answers`: not counted."""
        return self._uncounted()

    @contextmanager
    def _uncounted(self, *, most: float = math.inf, least_left: float = 0.0) -> Iterator[None]:
        timeout = self._timeout
        end = timeout.when() if timeout is not None else None
        if timeout is None or end is None:
            # Not bounded, or within another wait that is not counted.
            yield
            return
        begun = _now()
        _move(timeout, end + most if most < math.inf else None)
        yield
        _move(timeout, _now() + max(end - begun, self._seconds * least_left))


def _move(timeout: asyncio.Timeout, when: float | None) -> None:
    """Let the timeout end then, unless it has ended: a task that the request waited for may run once more after that."""
    if not timeout.expired():
        timeout.reschedule(when)


class StepTimer:
    """Durations of the steps that ran, in milliseconds; a step that ran twice counts with its sum.

    Attributes:
        runs: each run by itself, in the order in which they ended.
        explanation: where recall records why it chose what it chose; None: that is not asked for.
        judge: records a verdict there.
    """

    __slots__ = ("explanation", "judge", "ms", "runs")

    def __init__(self, explanation: Explanation | None = None) -> None:
        self.explanation = explanation
        self.judge: Judge = unrecorded if explanation is None else explanation.judge
        self.ms: dict[str, float] = {}
        self.runs: list[StepRun] = []

    def measure(self, name: str) -> "_Measure":
        """Use it with `with`."""
        return _Measure(self, name)


class _Measure:
    """A class, because a generator costs three times as much, and recall has half a dozen steps."""

    __slots__ = ("_name", "_started", "_timer")

    def __init__(self, timer: StepTimer, name: str) -> None:
        self._timer = timer
        self._name = name

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = time.perf_counter()
        timer, name = self._timer, self._name
        timer.ms[name] = timer.ms.get(name, 0.0) + (ended - self._started) * 1000
        timer.runs.append(StepRun(name, self._started, ended))


async def result_by(work: Awaitable[_T], until: float) -> _T | None:
    """The result of work that may be done without: None when it is late, fails, or is cancelled by anyone but the caller.

    Late work is cancelled and not waited for, whatever it does then.

    Args:
        until: a time of the loop.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=max(until - _now(), 0.0))
    finally:
        discard(task)
    if not task.done():
        # A well-behaved task ends now.
        await asyncio.sleep(0)
        return None
    return None if task.cancelled() or task.exception() else task.result()


async def answer_by(work: Awaitable[_T], model: ChatModel, until: float) -> _T | None:
    """Same as `result_by`, of work that asks a model, which is told where it is late."""
    result = await result_by(work, until)
    if result is None and _now() >= until:
        model.late()
    return result


def discard(task: "asyncio.Future[Any] | None") -> None:
    """Cancel a task, if there is one, that nothing waits for any more; its exception has no consequence."""
    if task is not None:
        task.cancel()
        task.add_done_callback(_retrieve)


def _retrieve(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()
