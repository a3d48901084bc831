"""The adapters of every evaluation, on temporary files.

The pipelines, the embedder, the turn log and the state store are the service's own. The memory store is an exact search in
memory, the clock is set by the evaluation, and background work runs to its end after each turn.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from semrouter_memory.app.adapters import Adapters
from semrouter_memory.errors import name_of
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
    """A `Clock` that the evaluation sets."""

    time: datetime = datetime(2026, 3, 15, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


@dataclass(slots=True)
class FailureRecorder:
    """An observer that records failures."""

    failures: list[str] = field(default_factory=list)

    def observe(self, event: Event) -> None:
        match event:
            case ExtractionFinished(failure=failure) if failure:
                self.failures.append(failure)
            case TurnDropped(reason=reason):
                self.failures.append(reason)
            case WorkFailed(error=error) | ExchangeFailed(error=error):
                self.failures.append(name_of(error))
            case _:
                pass


@contextmanager
def played_adapters(embedder: Embedder) -> Iterator[Adapters]:
    """Temporary adapters with a `PlayClock` and a `FailureRecorder`."""
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
    """Do the workers' background work now."""
    await retainer.intake.settle()
    while woken:
        await retainer.process(woken.pop(0))
