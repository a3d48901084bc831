"""Whatever is paused, resumed, said, delayed and restarted, in whatever order: nothing said in a pause is stored, all else is."""

import asyncio
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from semrouter_memory.model import AppendOutcome
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.contract.turn_logs import ALICE, SteppedClock, a_turn
from tests.examples import examples

STEPS = st.lists(
    st.sampled_from(["pause", "resume", "ask", "ask", "answer the first", "answer the last", "wait", "restart"])
)


async def played(steps: list[str], path: Path) -> None:
    clock = SteppedClock()
    log = SqliteTurnLog(path, clock=clock)
    is_paused = False
    # Requests that are not answered yet: when they came, and whether any part of the exchange was in a pause.
    asked: list[tuple[datetime, bool]] = []
    for number, step in enumerate(steps):
        match step:
            case "pause" | "resume":
                is_paused = step == "pause"
                await log.set_paused(ALICE, paused=is_paused)
                asked = [(at, forbidden or is_paused) for at, forbidden in asked]
            case "ask":
                asked.append((log.now(), is_paused))
            case "answer the first" | "answer the last" if asked:
                at, forbidden = asked.pop(0 if step == "answer the first" else -1)
                turn = a_turn(f"said {number}", session="s", at=at)
                expected = AppendOutcome.FORGOTTEN if forbidden else AppendOutcome.ACCEPTED
                assert log.append(turn, remember=False).outcome is expected
            case "wait":
                clock.moment += timedelta(seconds=1)
            case "restart":
                log.close()
                log = SqliteTurnLog(path, clock=clock)
    assert ((await log.tombstones(ALICE)).paused_since is not None) is is_paused
    log.close()


@given(steps=STEPS)
@settings(max_examples=examples(50))
def test_nothing_that_is_said_in_a_pause_is_stored(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(played(steps, Path(directory) / "turns.db"))
