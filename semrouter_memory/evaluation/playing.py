"""The adapters of every evaluation, on temporary files.

The pipelines, the embedder, the turn log and the state store are the service's own. The memory store is an exact search in
memory, or Milvus Lite; the clock is set by the evaluation, and background work runs to its end after each turn.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from semrouter_memory.app.adapters import Adapters, Store, announcing_writer, owner_indexes_of
from semrouter_memory.config import MemoryConfig, MilvusConfig
from semrouter_memory.errors import name_of
from semrouter_memory.evaluation.cases import CaseTurn
from semrouter_memory.events import Event, ExchangeFailed, ExtractionFinished, TurnDropped, WorkFailed
from semrouter_memory.model import Scope, SessionHints, SessionKey, Turn
from semrouter_memory.ports import Embedder
from semrouter_memory.retain.pipeline import Retainer
from semrouter_memory.state.in_process import InProcessOwnerLocks, InProcessOwnerVersions
from semrouter_memory.state.sqlite import SqliteStateStore
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.location import has_lite
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.turn_log.sqlite.log import SqliteTurnLog

_NOWHERE = {"uri": None, "address": None, "token": None, "token_file": None}
"""Without these settings, the store is a file in the data directory."""


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


def turn_of(scope: Scope, session: str, turn: CaseTurn, *, at: datetime) -> Turn:
    """The turn as the service logs it."""
    return Turn(
        scope=scope,
        hints=SessionHints(explicit=session),
        user_texts=(turn.user,),
        assistant_text=turn.assistant,
        observed_at=at,
        request_id=f"{session}-{at.isoformat()}",
    )


@asynccontextmanager
async def throwaway_adapters(embedder: Embedder, config: MemoryConfig) -> AsyncIterator[tuple[Adapters, PlayClock]]:
    """The adapters with Milvus Lite on a temporary file; without Milvus Lite, an exact search in memory.

    The owner index is used as configured.
    """
    async with AsyncExitStack() as exits:
        played = exits.enter_context(played_adapters(embedder))
        clock = cast("PlayClock", played.clock)
        directory = Path(exits.enter_context(TemporaryDirectory(prefix="semrouter-memory-")))
        store: Store = played.store
        if has_lite():
            here = config.milvus.model_copy(update=_NOWHERE)
            store = await _lite(here, directory, played, exits)
        versions = InProcessOwnerVersions()
        indexes = owner_indexes_of(
            config, store, versions, clock=clock, on_error=lambda error: played.observer.observe(WorkFailed(error))
        )
        exits.push_async_callback(indexes.close)
        cached = indexes if config.owner_index.enabled else None
        adapters = replace(played, store=store, writer=announcing_writer(store, indexes), owner_indexes=cached)
        documents = store.secondary("knowledge") if isinstance(store, MilvusStore) else None
        yield replace(adapters, documents=documents), clock


async def _lite(config: MilvusConfig, directory: Path, played: Adapters, exits: AsyncExitStack) -> MilvusStore:
    store = MilvusStore(config, data_dir=directory, fingerprint=played.embedder.fingerprint, observer=played.observer)
    await store.start()
    exits.push_async_callback(store.close)
    return store
