"""Work of a thread that must not go on unattended."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from semrouter_memory.errors import StoreUnavailableError

_T = TypeVar("_T")


async def finished_in_thread(work: Callable[[], _T], *, discard: Callable[[_T], object] | None = None) -> _T:
    """Run work in a thread. A caller that is cancelled meanwhile leaves only when the work is finished.

    Args:
        discard: is given the result that a cancelled caller does not get.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        with suppress(OSError, StoreUnavailableError):
            result = await working
            if discard is not None:
                discard(result)
        raise
