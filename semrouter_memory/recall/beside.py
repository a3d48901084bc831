"""A conversation's compression, found beside the search for memories and within the same deadline.

It is on its own: a search that fails does not keep a conversation long, and a state that is late only leaves it so.
"""

import asyncio
from dataclasses import replace

from semrouter_memory.model import Compression, CompressionReason, RecallRequest, RecallResult
from semrouter_memory.ports import ContextCompressor

_SEPARATOR = "\n\n"


class CompressionBeside:
    """The compression of one request, under way.

    Args:
        until: the loop's time at which it is done without.
        state_until: the same of a stored chain's state; then the chain goes up whole.
    """

    def __init__(
        self,
        compressor: ContextCompressor,
        request: RecallRequest,
        before: Compression | None,
        *,
        until: float,
        state_until: float,
    ) -> None:
        self._task = asyncio.create_task(compressor.compress(request, before, until=state_until))
        self._repeats_itself = not request.previous_response_id
        self._until = until

    async def for_ranking(self, until: float) -> Compression:
        """What is known of it at that time of the loop, so that ranking is not late.

        The memories of a request that repeats its conversation depend on what leaves: what is later than this is done
        without. Those of a stored chain do not, so its compression goes on.
        """
        left = max(0.0, until - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait((self._task,), timeout=left)
        if not done and self._repeats_itself:
            self._task.cancel()
        return await self.result() if done else Compression(reason=CompressionReason.TIMEOUT)

    async def result(self) -> Compression:
        """What became of it; asked again, the same."""
        left = max(0.0, self._until - asyncio.get_running_loop().time())
        await asyncio.wait((self._task,), timeout=left)
        if not self._task.done():
            self._task.cancel()
            return Compression(reason=CompressionReason.TIMEOUT)
        return Compression(reason=CompressionReason.TIMEOUT) if self._task.cancelled() else self._task.result()

    def cancel(self) -> None:
        self._task.cancel()


def still_visible(request: RecallRequest, compression: Compression) -> tuple[str, ...]:
    """Every text that the model will see when the compression is carried out; the state's statements count as texts."""
    dropped = {at for turn in request.turns[: compression.dropped_turns] for at in turn.texts}
    return (*compression.statements, *(text for at, text in enumerate(request.visible) if at not in dropped))


def joined(result: RecallResult, compression: Compression) -> RecallResult:
    """The result with the state before its memories."""
    texts = (compression.text, result.text)
    return replace(result, text=_SEPARATOR.join(text for text in texts if text), compression=compression)


def without_items(compression: Compression) -> Compression:
    """What a later step of the turn needs to know of it."""
    return replace(compression, items=None, statements=())
