"""The adapters that the contract suites run over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from semrouter_memory.sessions.sqlite import SqliteTurnLog
from tests.contract.turn_logs import SteppedClock


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(params=["sqlite"])
def turn_log(clock: SteppedClock, tmp_path: Path) -> Iterator[SqliteTurnLog]:
    log = SqliteTurnLog(tmp_path / "log" / "turns.db", clock=clock, max_turn_chars=1000)
    yield log
    log.close()
