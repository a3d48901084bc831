"""Shared by the commands: they read files of cases, play them, and write tables and JSON."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from semrouter_memory.app.adapters import Adapters
from semrouter_memory.app.models import ExternalModels
from semrouter_memory.config import Config, MemoryConfig
from semrouter_memory.embedding import build
from semrouter_memory.embedding.files import BUILT_MODEL, MODEL_FILE
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.evaluation.cases import read_cases, write_json
from semrouter_memory.evaluation.playing import FailureRecorder, played_adapters
from semrouter_memory.learned.logistic import use_profile
from semrouter_memory.model import Json
from semrouter_memory.ports import Embedder

T = TypeVar("T")
CaseT = TypeVar("CaseT")
OutcomeT = TypeVar("OutcomeT")
_CaseT_contra = TypeVar("_CaseT_contra", contravariant=True)
_OutcomeT_co = TypeVar("_OutcomeT_co", covariant=True)
Play: TypeAlias = Callable[[str, Sequence[CaseT], Embedder, ExternalModels], Awaitable[OutcomeT]]
"""Plays one file, given its name, its cases and the models."""

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
) -> None:
    """A command: read all files, play their cases, print and write the results.

    Args:
        report: prints one file's outcome, and returns its entry of the JSON.

    Raises:
        InputFileError: a file does not fit, or the result cannot be written.
        ConfigurationError: the embedding model or a chat model's key is missing.
    """
    console = Console(highlight=False)
    # All of them before the first is played, so that a mistake in the last shows at once.
    cases = {file: read_cases(file, kind) for file in options.files}
    embedder = embedder_of(options, console)
    results = []
    async with models_of(options.config) as models:
        for file, of_file in cases.items():
            results.append(report(console, file.name, await play(file.name, of_file, embedder, models)))
    if options.json_out is not None:
        write_json(options.json_out, {"files": results})


class _Run(Protocol[_CaseT_contra, _OutcomeT_co]):
    async def play(self, case: _CaseT_contra, /) -> _OutcomeT_co: ...


def one_by_one(
    run: Callable[[Adapters, MemoryConfig, ExternalModels], _Run[CaseT, OutcomeT]], options: EvalOptions
) -> Play[CaseT, list[OutcomeT]]:
    """Plays the cases of a file one after the other, over temporary adapters."""

    async def play(name: str, cases: Sequence[CaseT], embedder: Embedder, models: ExternalModels) -> list[OutcomeT]:
        with played_adapters(embedder) as adapters:
            playing = run(adapters, options.config.memory, models)
            return [await playing.play(case) for case in tracked(cases, name, total=len(cases))]

    return play


@asynccontextmanager
async def models_of(config: Config) -> AsyncIterator[ExternalModels]:
    """The configured chat models, called as by the service; closed at the end."""
    async with AsyncExitStack() as exits:
        observer = FailureRecorder()
        yield ExternalModels(config.external_models, config.memory.retain, observer, exits)


def embedder_of(options: EvalOptions, console: Console) -> OnnxEmbedder:
    def step(text: str) -> None:
        console.print(text, markup=False)

    return load_embedder(options.config, model=options.model, progress=step)


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
    """A figure for a table."""
    return "-" if value is None else f"{value:.2f}"


def tracked(items: Iterable[T], what: str, *, total: int) -> Iterator[T]:
    """Yield the items with a progress bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, description=what, total=total)
