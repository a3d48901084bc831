"""`semrouter-memory bench`: what memory costs, in time and in memory, beside what is needed for anything of the kind."""

import asyncio
import json
import math
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import track

from semrouter_memory.bench import footprint, tables
from semrouter_memory.bench.chains import TURN, ChainBench
from semrouter_memory.bench.figures import Footprint, ProcessFigures
from semrouter_memory.bench.in_process import in_process

_SIZES = (200, 1_000, 10_000)
_QUESTIONS = 300
_ACTIVE = ((1_000, 200, 256), (100, 200, 8))
"""Users, memories of each and the bound in MiB: the default one, and one that holds half of the users."""


async def bench(*, model: Path, directory: Path, requests: int, stored: int) -> None:
    """Measure and print."""
    console = Console()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    chain = await ChainBench(model, directory, requests=requests, stored=stored, console=console).run()
    process = await _process_figures(model, directory / "process", console)
    footprints = [await _footprint(*active, console) for active in _ACTIVE]
    console.print(tables.requests_table(chain, requests=requests, stored=stored))
    console.print(tables.tokens_table(chain, streams=math.ceil(requests / TURN)))
    console.print(tables.process_table(process, questions=_QUESTIONS))
    console.print(tables.footprint_table(footprints))
    missed = tables.missed(chain, process, footprints)
    console.print(f"Targets missed in this run: {', '.join(missed)}" if missed else "All targets reached in this run.")


async def _process_figures(model: Path, directory: Path, console: Console) -> ProcessFigures:
    async with in_process(model, directory, _SIZES) as users:
        for size in _SIZES:
            console.print(f"[dim]==> embedding and writing the memories of a user with {size:,}[/]")
            await users.store(size)

        def shown(questions: Iterable[str]) -> Iterable[str]:
            return track(
                questions,
                "in the process",
                console=console,
                total=_QUESTIONS,
                transient=True,
                disable=not console.is_terminal,
            )

        console.print("[dim]==> recalling in the process, first for users who were away[/]")
        return await users.measured(_QUESTIONS, shown)


async def _footprint(users: int, memories: int, max_mb: int, console: Console) -> Footprint:
    """Measured in a process that has done nothing else."""
    console.print(f"[dim]==> {users:,} active users with {memories} memories each, within {max_mb} MiB[/]")
    command = [sys.executable, "-m", footprint.__name__, str(users), str(memories), str(max_mb)]
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    answer, _ = await child.communicate()
    if child.returncode:
        raise footprint.FootprintError(f"measuring memory ended with {child.returncode}")
    return Footprint(**json.loads(answer))
