"""Whether something waits, told from a machine that is busy."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_TRIES = 3


async def promptly(do: Callable[[], Awaitable[T]], *, within: float) -> T:
    """What it returns, done again when it took longer: a busy machine is late now and then, what waits each time."""
    took = []
    for _ in range(_TRIES):
        began = time.monotonic()
        result = await do()
        took.append(time.monotonic() - began)
        if took[-1] < within:
            return result
    raise AssertionError(f"took {took} seconds, never less than {within}")
