"""The compression of one request, as a task concurrent with recall. Independent of it: each may fail without affecting the other."""

import asyncio
from types import TracebackType
from typing import Self

from semrouter_memory.model import Compression, CompressionReason, RecallRequest
from semrouter_memory.ports import ContextCompressor


class ConcurrentCompression:
    """Starts at once; leaving the `with` ends it.

    Args:
        until: the loop's time at which it is done without.
        chain_state_until: the same of a stored chain's state; then the chain goes upstream whole.
    """

    def __init__(
        self,
        compressor: ContextCompressor,
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
