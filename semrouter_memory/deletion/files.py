"""Work on the files of several parts (turn log, state, store): each part does its share, whatever becomes of the others."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from semrouter_memory.errors import MemoryServiceError


@dataclass(frozen=True, slots=True)
class PartResult:
    """What one part did.

    Attributes:
        note: what it left out and why that is correct; else "".
        error: why it failed; None when it succeeded.
    """

    part: str
    seconds: float
    note: str = ""
    error: MemoryServiceError | None = None


async def run_parts(work: Mapping[str, Callable[[], Awaitable[str | None]]]) -> list[PartResult]:
    """Run the work of each part, in order; what it returns is the note. An unexpected error is raised when all have run."""
    results: list[PartResult] = []
    unexpected: Exception | None = None
    for part, call in work.items():
        try:
            results.append(await _run(part, call))
        except Exception as error:  # noqa: BLE001 - raised below
            unexpected = unexpected or error
    if unexpected is not None:
        raise unexpected
    return results


async def _run(part: str, call: Callable[[], Awaitable[str | None]]) -> PartResult:
    began = time.monotonic()
    try:
        note = await call()
    except MemoryServiceError as error:
        return PartResult(part, time.monotonic() - began, error=error)
    return PartResult(part, time.monotonic() - began, note or "")
