"""CPU time and memory are those of a process and its children."""

import asyncio
import os
import sys

from bench import accounting

BUSY = "print('on', flush=True)\nwhile True: pass"
IDLE = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', sys.argv[1]])"


async def started(*arguments: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", *arguments, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def test_a_childs_work_counts_for_the_process_that_started_it() -> None:
    parent = await started(IDLE, BUSY)
    try:
        (child,) = accounting.children(parent.pid)
        before = accounting.cpu_seconds([parent.pid])
        async with asyncio.timeout(30):
            while accounting.cpu_seconds([parent.pid]) < before + 0.05:  # noqa: ASYNC110 - the kernel tells nobody
                await asyncio.sleep(0.01)
        assert accounting.cpu_seconds([child]) >= 0.05
        assert accounting.resident_bytes([parent.pid]) > accounting.resident_bytes([child]) > 1024 * 1024
    finally:
        os.killpg(parent.pid, 9)
        await parent.wait()


async def test_a_process_that_waits_is_quiet() -> None:
    waiting = await started("print('on', flush=True)\nimport time\ntime.sleep(60)")
    try:
        assert await accounting.quiet([waiting.pid])
    finally:
        waiting.kill()
        await waiting.wait()


def test_a_process_that_has_ended_costs_nothing() -> None:
    assert accounting.cpu_seconds([2**22 + 1]) == 0.0
    assert accounting.resident_bytes([2**22 + 1]) == 0
