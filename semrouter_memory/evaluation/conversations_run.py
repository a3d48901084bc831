"""Plays conversations through the retainer that serves, each as a session of a user of its own, up to the session's end.

Real are the retainer with its rules (and the model, where one is configured), the writer that reconciles, the embedder
and the turn log. The store is an exact search in this process's memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from rich.console import Console

from semrouter_memory.config import Config
from semrouter_memory.evaluation.cases import parse_cases, write_json
from semrouter_memory.evaluation.conversations import Conversation, Remembered, conversation_of, judge, result_of
from semrouter_memory.evaluation.conversations_report import print_remembered
from semrouter_memory.evaluation.embedder import load_embedder
from semrouter_memory.evaluation.progress import tracked
from semrouter_memory.llm.breaker import Limits
from semrouter_memory.llm.circuit import Circuits
from semrouter_memory.llm.client import OpenAIChatModel
from semrouter_memory.model import ExtractionReport, Reach, Scope, SessionHints, Turn
from semrouter_memory.ports import ChatModel, Embedder, Observer
from semrouter_memory.retain.pipeline import Retainer, SessionKey
from semrouter_memory.retain.writing import ReconcilingWriter
from semrouter_memory.sessions.locks import InProcessOwnerLocks
from semrouter_memory.sessions.sqlite import SqliteTurnLog
from semrouter_memory.store.in_memory import InMemoryStore

_START = datetime(2026, 3, 15, 9, tzinfo=UTC)
_TURN_TIME = timedelta(minutes=1)
_LIMIT = 10_000
"""More memories than any conversation leaves."""


@dataclass(slots=True)
class _Clock:
    time: datetime = _START

    def now(self) -> datetime:
        return self.time


@dataclass(slots=True)
class _Noticing:
    """An observer that listens for failures only."""

    failures: list[str] = field(default_factory=list)

    def extraction_finished(self, report: ExtractionReport) -> None:
        if report.failure:
            self.failures.append(report.failure)

    def work_failed(self, error: BaseException) -> None:
        self.failures.append(type(error).__name__)

    def turn_dropped(self, reason: str) -> None:
        self.failures.append(reason)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@dataclass(slots=True)
class _Ids:
    count: int = 0

    def draw(self) -> str:
        self.count += 1
        return f"mem_{self.count:08d}"


class ConversationsRun:
    """Plays conversations. Use `open`."""

    def __init__(
        self, turn_log: SqliteTurnLog, clock: _Clock, embedder: Embedder, config: Config, model: ChatModel | None
    ) -> None:
        self._turn_log = turn_log
        self._clock = clock
        self._embedder = embedder
        self._config = config
        self._model = model
        self._played = 0

    @classmethod
    @contextmanager
    def open(
        cls, embedder: Embedder, config: Config, *, model: ChatModel | None = None
    ) -> Iterator["ConversationsRun"]:
        """With a turn log that is thrown away at the end.

        Args:
            model: extracts too, as the one with the role `memory_extraction` does.
        """
        with TemporaryDirectory(prefix="semrouter-memory-") as directory:
            clock = _Clock()
            turn_log = SqliteTurnLog(Path(directory) / "turns.db", clock=clock)
            try:
                yield cls(turn_log, clock, embedder, config, model)
            finally:
                turn_log.close()

    async def play(self, conversation: Conversation) -> Remembered:
        """Say every turn, end the session, and look at what is known then."""
        self._played += 1
        scope = Scope(f"conversation-{self._played}")
        store = InMemoryStore(dimension=self._embedder.dimension)
        woken: list[SessionKey] = []
        observer = _Noticing()
        retainer = self._retainer(store, observer, woken)
        for number, (user, assistant) in enumerate(conversation.turns):
            self._clock.time += _TURN_TIME
            retainer.accept(self._turn(scope, number, user, assistant))
            await _work(retainer, woken)
        await self._turn_log.end_session(scope, _session(scope))
        await retainer.tick()
        await _work(retainer, woken)
        page = await store.page(scope, limit=_LIMIT, reach=Reach.ALL, now=self._clock.now())
        return judge(conversation, [memory.content for memory in reversed(page.memories)], observer.failures)

    def _retainer(self, store: InMemoryStore, observer: _Noticing, woken: list[SessionKey]) -> Retainer:
        memory = self._config.memory
        return Retainer(
            turn_log=self._turn_log,
            reader=store,
            writer=ReconcilingWriter(
                turn_log=self._turn_log,
                reader=store,
                writer=store,
                embedder=self._embedder,
                locks=InProcessOwnerLocks(),
                clock=self._clock,
                new_id=_Ids().draw,
            ),
            embedder=self._embedder,
            chat_model=self._model,
            observer=cast("Observer", observer),
            clock=self._clock,
            config=memory.retain,
            extraction_batch_size=memory.extraction_batch_size,
            wake=woken.append,
        )

    def _turn(self, scope: Scope, number: int, user: str, assistant: str) -> Turn:
        return Turn(
            scope=scope,
            hints=SessionHints(explicit=_session(scope)),
            user_texts=(user,),
            assistant_text=assistant,
            observed_at=self._clock.now(),
            request_id=f"{scope.user_id}-{number}",
        )


async def evaluate(files: Sequence[Path], *, config: Config, model: Path | None, json_out: Path | None) -> None:
    """The command: read all files, play them, print tables and write the result.

    Args:
        model: the embedding model's directory; None finds it.
        json_out: where the JSON goes; None writes none.

    Raises:
        CaseFileError: a file is not one of conversations, or the result cannot be written.
        ConfigurationError: the embedding model or a chat model's key is missing.
    """
    console = Console(highlight=False)
    conversations = {file: parse_cases(file, conversation_of) for file in files}
    embedder = load_embedder(config, model=model, progress=lambda step: console.print(step, markup=False))
    results = []
    async with AsyncExitStack() as exits:
        run = exits.enter_context(ConversationsRun.open(embedder, config, model=_chat_model(config, exits)))
        for file, cases in conversations.items():
            outcomes = [await run.play(case) for case in tracked(cases, file.name, total=len(cases))]
            print_remembered(console, file.name, outcomes)
            results.append(result_of(file.name, outcomes))
    if json_out is not None:
        write_json(json_out, {"files": results})


def _chat_model(config: Config, exits: AsyncExitStack) -> ChatModel | None:
    retain = config.memory.retain
    limits = Limits(
        failures=retain.breaker_failures,
        first_seconds=retain.breaker_seconds,
        longest_seconds=retain.breaker_max_seconds,
    )
    for section in config.external_models:
        if section.model_role == "memory_extraction":
            circuit = Circuits(limits, observer=cast("Observer", _Noticing())).circuit(section.llm_endpoint.url)
            model = OpenAIChatModel(section, section.api_key, circuit=circuit)
            exits.push_async_callback(model.aclose)
            return model
    return None


def _session(scope: Scope) -> str:
    return f"session-of-{scope.user_id}"


async def _work(retainer: Retainer, woken: list[SessionKey]) -> None:
    """What the workers would do in the background."""
    while woken:
        await retainer.process(woken.pop(0))
