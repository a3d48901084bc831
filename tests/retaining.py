"""A retainer with its real turn log, locks, rules and writer, worked by hand; store and model can be made to fail."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.config import RetainConfig
from semrouter_memory.errors import ModelUnavailableError
from semrouter_memory.events import (
    CandidatesRefused,
    EpisodeFinished,
    Event,
    ExtractionFinished,
    SecretsRedacted,
    SessionDue,
    StoreFailed,
    TurnAppended,
    TurnDropped,
    WorkFailed,
)
from semrouter_memory.model import (
    Appended,
    ChatMessage,
    Criteria,
    EmbeddedMemory,
    Memory,
    MemoryType,
    Scope,
    SessionHints,
    SessionKey,
    ToolUse,
    Turn,
    TurnTotals,
)
from semrouter_memory.ports import ChatModel
from semrouter_memory.retain.failures import RetainParts, SessionStateBuilder
from semrouter_memory.retain.pipeline import Retainer
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter
from semrouter_memory.state.local import InProcessOwnerLocks
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.hashed import HashedEmbedder
from tests.memory_service import backends_of

ALICE = Scope("alice")
START = datetime(2026, 3, 20, 12, tzinfo=UTC)


class SteppingClock:
    def __init__(self) -> None:
        self.time = START
        self.passed = timedelta()

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.passed.total_seconds()

    def step(self, **amount: float) -> None:
        """Time passes."""
        self.passed += timedelta(**amount)
        self.set(**amount)

    def set(self, **amount: float) -> None:
        """Somebody sets the clock ahead, or back."""
        self.time += timedelta(**amount)


class Collecting:
    """An observer that keeps what retain tells it."""

    def __init__(self) -> None:
        self.reports: list[ExtractionFinished] = []
        self.refused: list[tuple[str, dict[str, int]]] = []
        self.appended: list[Appended] = []
        self.dropped: list[str] = []
        self.redacted: list[str] = []
        self.store_failures = 0
        self.bugs: list[BaseException] = []
        self.triggers: list[str] = []
        self.episodes: list[tuple[str, bool]] = []

    def observe(self, event: Event) -> None:
        match event:
            case TurnAppended(appended):
                self.appended.append(appended)
            case SecretsRedacted(kinds):
                self.redacted.extend(kinds)
            case TurnDropped(reason):
                self.dropped.append(reason)
            case ExtractionFinished():
                self.reports.append(event)
            case StoreFailed():
                self.store_failures += 1
            case CandidatesRefused(extractor, reasons):
                self.refused.append((extractor, dict(reasons)))
            case WorkFailed(error):
                self.bugs.append(error)
            case SessionDue(trigger):
                self.triggers.append(trigger)
            case EpisodeFinished(extractor=extractor, written=written):
                self.episodes.append((extractor, written))
            case _:
                pass


class BreakableStore(InMemoryStore):
    """The in-memory store, which can be taken away and can run something before it writes."""

    def __init__(self) -> None:
        super().__init__(dimension=384)
        self.error: Exception | None = None
        self.away = False
        self.fail_after_write: BaseException | None = None

    @property
    def available(self) -> bool:
        return not self.away

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        if self.error:
            raise self.error
        await super().upsert(scope, rows)
        if self.fail_after_write:
            error, self.fail_after_write = self.fail_after_write, None
            raise error


class ScriptedModel:
    """Answers with the given facts, or with the episode when it is asked for one, or fails."""

    name = "stand-in"

    def __init__(self) -> None:
        self.facts: list[str] = []
        self.raw: str | None = None
        self.episode = "NONE"
        self.error: Exception | None = None
        self.prompts: list[str] = []
        self.meanwhile: Callable[[], Any] | None = None

    @property
    def retry_after(self) -> float | None:
        return (
            self.error.wait_seconds
            if isinstance(self.error, ModelUnavailableError) and self.error.circuit_open
            else None
        )

    def late(self) -> None:
        """Only deadlines tell."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        self.prompts.append(messages[-1].content)
        if self.meanwhile:
            await self.meanwhile()
        if self.error:
            raise self.error
        if messages[-1].content.startswith("Session:"):
            return self.episode
        return (
            self.raw
            if self.raw is not None
            else json.dumps([{"type": "semantic", "content": fact} for fact in self.facts])
        )


class Bench:
    """A retainer with its parts, worked by hand instead of by the pool."""

    def __init__(
        self,
        path: Path,
        *,
        model: ChatModel | None,
        config: RetainConfig,
        batch_size: int,
        states: SessionStateBuilder | None = None,
        max_passage_tokens: int = 1_000_000,
        log: SqliteTurnLog | None = None,
    ) -> None:
        self.clock = SteppingClock()
        self.observer = Collecting()
        self.store = BreakableStore()
        self.model = model
        self.log = log or SqliteTurnLog(path / "turns.db", clock=self.clock)
        self.woken: list[SessionKey] = []
        self.locks = InProcessOwnerLocks()
        backends = backends_of(
            store=self.store,
            embedder=HashedEmbedder(max_passage_tokens=max_passage_tokens),
            turn_log=self.log,
            locks=self.locks,
            clock=self.clock,
            observer=self.observer,
        )
        self.priority = backends.priority
        self.retainer = Retainer(
            RetainParts(
                backends=backends,
                writer=ReconcilingWriter(backends),
                chat_model=model,
                config=config,
                batch_size=batch_size,
                states=states,
            ),
            wake=self.woken.append,
            jitter=lambda: 0.0,
            monotonic=self.clock.monotonic,
        )

    def say(
        self,
        text: str,
        *,
        session: str = "s1",
        answer: str = "Noted.",
        tools: tuple[ToolUse, ...] = (),
        ends: bool = False,
        agent: str = "",
    ) -> Appended | None:
        self.clock.step(seconds=1)
        return self.retainer.intake.accept(
            Turn(
                scope=ALICE,
                hints=SessionHints(explicit=session),
                user_texts=(text,),
                assistant_text=answer,
                observed_at=self.log.now(),
                request_id=f"r{self.clock.now().timestamp()}",
                tools=tools,
                ends_session=ends,
                agent=agent,
            )
        )

    async def work(self) -> None:
        """Run what was woken, as the pool does."""
        while self.woken:
            await self.retainer.process(self.woken.pop(0))

    async def tick(self) -> None:
        await self.retainer.tick()
        await self.work()

    async def memories(self, scope: Scope = ALICE) -> list[Memory]:
        page = await self.store.page(Criteria(scope, active_at=self.clock.now()), limit=100)
        return list(page.memories)

    async def episodes(self) -> list[Memory]:
        return [memory for memory in await self.memories() if memory.type is MemoryType.EPISODIC]

    async def contents(self) -> list[str]:
        return sorted(memory.content for memory in await self.memories())

    async def totals(self) -> TurnTotals:
        return await self.log.totals()


MakeBench = Callable[..., Bench]


@pytest.fixture
async def make_bench(tmp_path: Path) -> AsyncIterator[MakeBench]:
    made: list[Bench] = []

    def make(
        model: ChatModel | None = None,
        *,
        batch_size: int = 10,
        states: SessionStateBuilder | None = None,
        max_passage_tokens: int = 1_000_000,
        log: SqliteTurnLog | None = None,
        **settings: object,
    ) -> Bench:
        config = RetainConfig.model_validate(settings)
        bench = Bench(
            tmp_path,
            model=model,
            config=config,
            batch_size=batch_size,
            states=states,
            max_passage_tokens=max_passage_tokens,
            log=log,
        )
        made.append(bench)
        return bench

    yield make
    for log in {bench.log for bench in made}:
        log.close()
