"""What the evaluations share: reading files of cases, pipelines on temporary files, tables and progress.

The pipelines, the embedder, the turn log and the state store are the service's own. The memory store is an exact search in
memory, or Milvus Lite; the clock is set by the evaluation, and background work runs to its end after each turn.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, TypeVar, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from semrouter_memory.app.adapters import Adapters, ExternalModels, Store, connect, record_format
from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.config import Config, MemoryConfig, RedisConfig
from semrouter_memory.embedding import build
from semrouter_memory.embedding.files import BUILT_MODEL, MODEL_FILE
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import name_of
from semrouter_memory.evaluation.cases import CaseTurn, read_cases, write_json
from semrouter_memory.events import Event, ExchangeFailed, ExtractionFinished, TurnDropped, WorkFailed
from semrouter_memory.learned import use_profile
from semrouter_memory.model import Json, Scope, SessionHints, SessionKey, Turn
from semrouter_memory.ports import Embedder
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.location import has_lite

T = TypeVar("T")
CaseT = TypeVar("CaseT")
OutcomeT = TypeVar("OutcomeT")
Play: TypeAlias = Callable[[str, Sequence[CaseT], Pipelines], Awaitable[OutcomeT]]
"""Plays one file, given its name and its cases."""

TURN_TIME = timedelta(minutes=1)
_PATIENCE_MS = 10_000
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


@asynccontextmanager
async def played_pipelines(
    embedder: Embedder, config: Config, *, store: Store | None = None
) -> AsyncIterator[Pipelines]:
    """The service's pipelines on temporary files, with a `PlayClock`, a `FailureRecorder`, and the configured chat models.

    Recall has a long deadline: what it finds is measured, and not what a loaded machine misses.

    Args:
        store: None: Milvus Lite on a temporary file; without Milvus Lite, an exact search in memory.
    """
    async with AsyncExitStack() as exits:
        directory = Path(exits.enter_context(TemporaryDirectory(prefix="semrouter-memory-")))
        memory = config.memory
        own = {
            "data_dir": directory,
            "redis": RedisConfig(),
            "milvus": memory.milvus.model_copy(update=_NOWHERE),
            "recall": memory.recall.model_copy(update={"deadline_ms": _PATIENCE_MS}),
        }
        memory = memory.model_copy(update=own)
        if store is None and not has_lite():
            store = exact_store(embedder)
        adapters = await connect(
            memory,
            observer=FailureRecorder(),
            arrived=lambda *_: None,
            on_exit=exits,
            clock=PlayClock(),
            embedder=embedder,
            store=store,
        )
        models = ExternalModels(config.external_models, memory.retain, FailureRecorder(), exits)
        yield Pipelines(memory, adapters, models)


def exact_store(embedder: Embedder) -> InMemoryStore:
    """An empty store in this process's memory."""
    return InMemoryStore(dimension=embedder.dimension, record_format=record_format())


def clock_of(adapters: Adapters) -> PlayClock:
    """The clock that the evaluation sets."""
    return cast("PlayClock", adapters.clock)


class Learner:
    """The service's retainer; what workers do in the background is done at once."""

    def __init__(self, pipelines: Pipelines) -> None:
        self._turn_log = pipelines.adapters.turn_log
        self._clock = clock_of(pipelines.adapters)
        self._woken: list[SessionKey] = []
        self._retainer = pipelines.retainer(wake=self._woken.append)

    async def session(self, scope: Scope, name: str, turns: Iterable[CaseTurn]) -> None:
        """A whole session, each turn a minute after the one before."""
        for turn in turns:
            await self.turn(turn_of(scope, name, turn, at=self._clock.now()))
            self._clock.time += TURN_TIME
        await self._turn_log.end_session(scope, name)
        await self._retainer.tick()
        await self._work()

    async def turn(self, turn: Turn) -> None:
        self._retainer.intake.accept(turn)
        await self._work()

    async def _work(self) -> None:
        await self._retainer.intake.settle()
        while self._woken:
            await self._retainer.process(self._woken.pop(0))


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


# -- commands ----------------------------------------------------------------------------------------------------------

CHECKOUT_MODEL = Path(".cache/model")
"""Where the Makefile's targets keep the model, seen from the checkout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What every command is given.

    Attributes:
        model: the embedding model's directory; None finds it.
        json_out: where the JSON goes; None writes none.
    """

    files: Sequence[Path]
    config: Config
    model: Path | None = None
    json_out: Path | None = None


async def play_files(
    options: EvalOptions,
    kind: type[CaseT],
    *,
    play: Play[CaseT, OutcomeT],
    report: Callable[[Console, str, OutcomeT], Json],
    made: Sequence[CaseT] = (),
    exact: bool = False,
) -> None:
    """A command: read all files, play their cases, print and write the results.

    Args:
        report: prints one file's outcome, and returns its entry of the JSON.
        made: cases that are in no file.
        exact: the memories are searched in this process's memory, and not in Milvus Lite.

    Raises:
        InputFileError: a file does not fit, or the result cannot be written.
        ConfigurationError: the embedding model or a chat model's key is missing.
    """
    console = Console(highlight=False)
    # All of them before the first is played, so that a mistake in the last shows at once.
    cases: list[tuple[str, Sequence[CaseT]]] = [(file.name, read_cases(file, kind)) for file in options.files]
    cases += [("made", made)] if made else []

    def step(text: str) -> None:
        console.print(text, markup=False)

    embedder = load_embedder(options.config, model=options.model, progress=step)
    results = []
    for name, of_file in cases:
        async with played_pipelines(
            embedder, options.config, store=exact_store(embedder) if exact else None
        ) as pipelines:
            outcome = await play(name, of_file, pipelines)
        results.append(report(console, name, outcome))
    if options.json_out is not None:
        write_json(options.json_out, {"files": results})


def one_by_one(
    play_case: Callable[[CaseT, Scope, Pipelines], Awaitable[OutcomeT]],
) -> Play[CaseT, list[OutcomeT]]:
    """Plays the cases of a file one after the other, each for a user with a store and an observer of their own."""

    async def play(name: str, cases: Sequence[CaseT], pipelines: Pipelines) -> list[OutcomeT]:
        outcomes = []
        for number, case in enumerate(tracked(cases, name, total=len(cases)), start=1):
            adapters, store = pipelines.adapters, exact_store(pipelines.adapters.embedder)
            own = replace(adapters, store=store, writer=store, owner_indexes=None, observer=FailureRecorder())
            outcomes.append(await play_case(case, Scope(f"user-{number}"), replace(pipelines, adapters=own)))
        return outcomes

    return play


def load_embedder(config: Config, *, model: Path | None, progress: build.Progress) -> OnnxEmbedder:
    """Load the service's embedding model; build it once if it is missing.

    Args:
        model: its directory; None looks where the configuration says, then in `.cache/model`, and when neither has one
            builds the published model where the configuration says.
        progress: called with each step of the build, which takes half a minute and a download.

    Raises:
        ConfigurationError: there is none and it cannot be built, or it is not what the settings say.
    """
    section = config.memory.embedding
    directory = model or _directory(config.memory)
    if model is None and section.model == BUILT_MODEL and not (directory / MODEL_FILE).exists():
        progress(f"no embedding model in {directory}: building it, once")
        build.build_model(directory, progress=progress)
    embedder = OnnxEmbedder.load(section, directory)
    use_profile(directory, embedder.fingerprint)
    return embedder


def _directory(config: MemoryConfig) -> Path:
    configured = config.model_directory
    if (configured / MODEL_FILE).exists() or not (CHECKOUT_MODEL / MODEL_FILE).exists():
        return configured
    return CHECKOUT_MODEL if config.embedding.model == BUILT_MODEL else configured


def table_of(title: str, first: str, columns: Iterable[str]) -> Table:
    """A table of figures, which stand right."""
    table = Table(title=Text(title), title_justify="left")
    table.add_column(first)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def print_failures(console: Console, reasons: Iterable[str]) -> None:
    """Why recall did not search; "" counts as no failure."""
    if failed := Counter(filter(None, reasons)):
        counts = ", ".join(f"{reason}: {count}" for reason, count in failed.items())
        console.print(f"[red]Failed, and counted as nothing injected: {counts}[/red]")


def tracked(items: Iterable[T], what: str, *, total: int) -> Iterator[T]:
    """Yield the items with a progress bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, description=what, total=total)
