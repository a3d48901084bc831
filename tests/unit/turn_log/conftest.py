"""A clock that stands still, and a turn log in a temporary file."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from semrouter_memory.model import Scope, SessionHints, Turn
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

OpenLog = Callable[[Path], SqliteTurnLog]


class StandingClock:
    def now(self) -> datetime:
        return NOW


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "turns.db"


@pytest.fixture
def open_log() -> Iterator[OpenLog]:
    """Opens turn logs, and closes them at the end."""
    opened: list[SqliteTurnLog] = []

    def open_it(path: Path) -> SqliteTurnLog:
        opened.append(SqliteTurnLog(path, clock=StandingClock()))
        return opened[-1]

    yield open_it
    for log in opened:
        log.close()


@pytest.fixture
def said() -> Callable[[str], Turn]:
    """A turn in which alice says something."""

    def turn(text: str) -> Turn:
        return Turn(
            scope=Scope("alice"),
            hints=SessionHints(explicit="s"),
            user_texts=(text,),
            assistant_text="fine",
            observed_at=NOW,
        )

    return turn
