"""The sections `recall` and `memory`: recall without Envoy, and what owner indexes take."""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator

from semrouter_memory.bench import footprint
from semrouter_memory.bench.context import Bench
from semrouter_memory.bench.figures import Footprint, Footprints, ProcessFigures
from semrouter_memory.bench.in_process import TURNS, in_process

SIZES = (200, 1_000, 10_000)
QUESTIONS = 300
_ACTIVE = ((1_000, 200, 256), (100, 200, 8))
"""Users, memories of each and the bound in MiB: the default one, and one that holds half of the users."""


async def recall(bench: Bench) -> ProcessFigures:
    """Measure in this process."""
    async with in_process(bench.model, bench.directory / "recall", SIZES) as users:
        with bench.progress("writing the memories of three users", len(SIZES)) as done:
            for size in SIZES:
                await users.store(size)
                done(1)
        with bench.progress(
            "recall in the process, first for users who were away; then learning", QUESTIONS + TURNS
        ) as done:

            def shown(questions: Iterable[str]) -> Iterator[str]:
                for question in questions:
                    yield question
                    done(1)

            return await users.measured(QUESTIONS, shown)


async def footprints(bench: Bench) -> Footprints:
    """Measure in processes that have done nothing else."""
    measured = []
    for users, memories, max_mb in _ACTIVE:
        bench.say(f"{users:,} active users with {memories} memories each, within {max_mb} MiB")
        command = [sys.executable, "-m", footprint.__name__, str(users), str(memories), str(max_mb)]
        child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        answer, _ = await child.communicate()
        if child.returncode:
            raise footprint.FootprintError(f"measuring memory ended with {child.returncode}")
        measured.append(Footprint(**json.loads(answer)))
    return Footprints(measured=measured)
