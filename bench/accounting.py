"""What a process and its children have taken: CPU time and memory, as the kernel counts them (Linux)."""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_CPU_CLOCK = 2
"""The kernel's name of the clock that counts a process's CPU time, to the nanosecond; see clock_getcpuclockid(3)."""
_LOOK_SECONDS = 0.2
_QUIET_SHARE = 0.05
_PATIENCE_SECONDS = 180.0


def cpu_seconds(roots: Iterable[int]) -> float:
    """CPU time of these processes and their children, up to now. What has ended has no part in it."""
    total = 0.0
    for pid in _tree(roots):
        with suppress(OSError):
            total += time.clock_gettime((~pid << 3) | _CPU_CLOCK)
    return total


def resident_bytes(roots: Iterable[int]) -> int:
    """Memory of these processes and their children that is in the machine's."""
    total = 0
    for pid in _tree(roots):
        with suppress(OSError):
            total += int((_PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1])
    return total * os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    """The processes that this one started and that run."""
    found: list[int] = []
    with suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text(encoding="ascii").split())
    return found


async def quiet(roots: Iterable[int], *, look_seconds: float = _LOOK_SECONDS, share: float = _QUIET_SHARE) -> bool:
    """Wait until these processes have hardly anything to do; False when they still have after three minutes.

    Args:
        look_seconds: how long they must have had little to do.
        share: of a core's time that counts as little.
    """
    roots = tuple(roots)
    until = time.monotonic() + _PATIENCE_SECONDS
    before = cpu_seconds(roots)
    while time.monotonic() < until:
        await asyncio.sleep(look_seconds)
        now = cpu_seconds(roots)
        if now - before < share * look_seconds:
            return True
        before = now
    return False


def _tree(roots: Iterable[int]) -> Iterator[int]:
    for pid in roots:
        yield pid
        yield from _tree(children(pid))
