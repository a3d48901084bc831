"""The request phase: recall and the concurrent compression of the conversation, under one deadline."""

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from semrouter_memory.compress.pipeline import Compressor
from semrouter_memory.config import RecallConfig
from semrouter_memory.deletion.in_words import InWords
from semrouter_memory.events import ExchangeFailed, RecallFinished
from semrouter_memory.maintenance.recall_journal import RecallJournal
from semrouter_memory.model import Compression, CompressionReason, Reason, RecallRequest, RecallResult, Steered
from semrouter_memory.ports import Observer
from semrouter_memory.priority import RequestsFirst
from semrouter_memory.recall.conversation import StoredHistory, ToolLoopCache
from semrouter_memory.recall.deadline import Deadline, StepTimer
from semrouter_memory.recall.explanation import Explanation
from semrouter_memory.recall.recaller import Recaller
from semrouter_memory.recall.render import order_outcome


class ConcurrentCompression:
    """Starts at once; leaving the `with` ends it.

    Args:
        until: the loop's time at which it is done without.
        chain_state_until: the same of a stored chain's state; then the chain goes upstream whole.
    """

    def __init__(
        self,
        compressor: Compressor,
        request: RecallRequest,
        before: Compression | None,
        *,
        until: float,
        chain_state_until: float,
    ) -> None:
        self._task = asyncio.create_task(compressor.compress(request, before, until=chain_state_until))
        self._request = request
        self._until = until

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._task.cancel()

    async def visible(self, until: float) -> tuple[str, ...]:
        """Every text that the model will see; the state's statements count as texts.

        The memories of a request that repeats its conversation depend on the turns that leave: a compression that is later
        than `until` is done without. Those of a stored chain do not, so its compression goes on.
        """
        done, _ = await asyncio.wait((self._task,), timeout=max(0.0, until - asyncio.get_running_loop().time()))
        if not done:
            if not self._request.previous_response_id:
                self._task.cancel()
            return self._request.visible
        compression = await self.result()
        dropped = {at for turn in self._request.turns[: compression.dropped_turns] for at in turn.texts}
        remaining = (text for at, text in enumerate(self._request.visible) if at not in dropped)
        return (*compression.statements, *remaining)

    async def result(self) -> Compression:
        """The compression; the same each time."""
        await asyncio.wait((self._task,), timeout=max(0.0, self._until - asyncio.get_running_loop().time()))
        if not self._task.done():
            self._task.cancel()
            return Compression(reason=CompressionReason.TIMEOUT)
        return Compression(reason=CompressionReason.TIMEOUT) if self._task.cancelled() else self._task.result()


REPORTED_AFTER_SECONDS = 0.005
"""How long after a recall it is logged and counted: where cores are few, the proxy needs this one to send the request on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPhase:
    """What happens to a request before it goes upstream.

    Attributes:
        compressor: None: conversations go upstream whole.
        journal: takes note of each recall.
        steers: obeys what the user tells the memory, before it is searched.
    """

    recaller: Recaller
    history: StoredHistory
    observer: Observer
    config: RecallConfig
    priority: RequestsFirst
    compressor: Compressor | None = None
    journal: RecallJournal | None = None
    steers: InWords | None = None
    _compressions: ToolLoopCache[Compression] = field(init=False, default_factory=ToolLoopCache)
    _orders: ToolLoopCache[Steered] = field(init=False, default_factory=ToolLoopCache)

    async def prepare(self) -> None:
        """Same as of `Recaller`."""
        await self.recaller.prepare()

    async def recall(self, request: RecallRequest, explanation: Explanation | None = None) -> RecallResult:
        """What to put into the request. Never raises (but for cancellation): a failure is a reason, and no text.

        Args:
            explanation: where to record the reasons; then the result belongs to no request, and is counted nowhere.
        """
        with self.priority.request():
            return await self._recalled(request, explanation)

    async def _recalled(self, request: RecallRequest, explanation: Explanation | None) -> RecallResult:
        timer = StepTimer(explanation)
        steered: Steered | None = None
        try:
            deadline = Deadline(self.config)
            request = await self.history.completed(request, deadline, timer)
            if self.steers is not None and explanation is None:
                steered = await self.steers.obey(request)
                # Obeying has a deadline of its own.
                deadline = Deadline(self.config) if steered is not None else deadline
            if self.compressor is not None and request.compressible:
                result = await self._compressed(self.compressor, request, deadline, timer)
            else:
                result = await self.recaller.recall(request, deadline, timer)
            if explanation is not None:
                await self.recaller.explain_left_out(request, explanation)
        except Exception as error:  # noqa: BLE001 - no bug of ours may cost a request
            self.observer.observe(ExchangeFailed(error))
            result = RecallResult(reason=Reason.INTERNAL)
        if (told := steered or self._orders.get(request)) is not None:
            # In each step of a tool loop: the one that ends it is the one that answers the user.
            self._orders.put(request, told)
            result = replace(result, text=_joined(order_outcome(told), result.text))
        result = replace(
            result, steps_ms=timer.ms, runs=tuple(timer.runs), shortened=request.shortened, steered=steered
        )
        if explanation is None:
            if self.journal is not None:
                self.journal.note(request, result)
            asyncio.get_running_loop().call_later(REPORTED_AFTER_SECONDS, self.observer.observe, RecallFinished(result))
        return result

    async def _compressed(
        self, compressor: Compressor, request: RecallRequest, deadline: Deadline, timer: StepTimer
    ) -> RecallResult:
        """Recall, and the compression of the conversation at the same time."""
        with ConcurrentCompression(
            compressor,
            request,
            self._compressions.get(request),
            until=deadline.compression(stored_chain=bool(request.previous_response_id)),
            chain_state_until=deadline.chain_state(),
        ) as compressing:
            visible = partial(_visible, compressing, deadline, timer)
            result = await self.recaller.recall(request, deadline, timer, visible)
            compression = await compressing.result()
        # A step of a stored chain finds its items in the log again; here they would only take memory.
        self._compressions.put(request, replace(compression, items=None, statements=()))
        return replace(result, text=_joined(compression.text, result.text), compression=compression)


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


async def _visible(compressing: ConcurrentCompression, deadline: Deadline, timer: StepTimer) -> tuple[str, ...]:
    with timer.measure("compress"):
        return await compressing.visible(deadline.state_for_ranking())
