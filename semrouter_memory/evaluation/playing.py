"""What every evaluation plays with: the parts that serve, on files that are thrown away.

Real are the pipelines, the embedder, the turn log and the state store. The store of memories is an exact search in this
process's memory, time is a clock that the play moves, and the workers' background is played out after each turn.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from semrouter_memory.app.adapters import Adapters
from semrouter_memory.events import Event, ExchangeFailed, ExtractionFinished, TurnDropped, WorkFailed
from semrouter_memory.model import SessionKey
from semrouter_memory.ports import Embedder
from semrouter_memory.retain.pipeline import Retainer
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.turn_log.in_process import InProcessOwnerLocks
from semrouter_memory.turn_log.sqlite.log import SqliteTurnLog
from semrouter_memory.turn_log.sqlite.state import SqliteStateStore


@dataclass(slots=True)
class PlayClock:
    """The `Clock` of a play: it stands where the play puts it."""

    time: datetime = datetime(2026, 3, 15, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


@dataclass(slots=True)
class FailureRecorder:
    """An observer that listens for failures only."""

    failures: list[str] = field(default_factory=list)

    def observe(self, event: Event) -> None:
        match event:
            case ExtractionFinished(failure=failure) if failure:
                self.failures.append(failure)
            case TurnDropped(reason=reason):
                self.failures.append(reason)
            case WorkFailed(error=error) | ExchangeFailed(error=error):
                self.failures.append(type(error).__name__)
            case _:
                pass


@contextmanager
def played_adapters(embedder: Embedder) -> Iterator[Adapters]:
    """Adapters with a `PlayClock` and a `FailureRecorder`, thrown away at the end."""
    clock = PlayClock()
    with TemporaryDirectory(prefix="semrouter-memory-") as name:
        turn_log = SqliteTurnLog(Path(name) / "turns.db", clock=clock)
        state = SqliteStateStore(Path(name) / "state.db", clock=clock)
        store = InMemoryStore(dimension=embedder.dimension)
        try:
            yield Adapters(
                embedder=embedder,
                store=store,
                writer=store,
                owner_indexes=None,
                turn_log=turn_log,
                state=state,
                locks=InProcessOwnerLocks(),
                clock=clock,
                observer=FailureRecorder(),
            )
        finally:
            turn_log.close()
            state.close()


async def work(retainer: Retainer, woken: list[SessionKey]) -> None:
    """What the workers would do in the background."""
    await retainer.intake.settle()
    while woken:
        await retainer.process(woken.pop(0))
