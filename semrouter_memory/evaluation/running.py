"""Shared by the commands: they read files of cases and write tables and JSON."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from semrouter_memory.app.adapters import Adapters
from semrouter_memory.app.models import ExternalModels
from semrouter_memory.config import Config, MemoryConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.evaluation.cases import Case, parse_cases, write_json
from semrouter_memory.evaluation.embedder import load_embedder
from semrouter_memory.evaluation.playing import FailureRecorder, played_adapters
from semrouter_memory.model import Json

CaseT = TypeVar("CaseT")
OutcomeT = TypeVar("OutcomeT")
_PlayedT_contra = TypeVar("_PlayedT_contra", contravariant=True)
_CameT_co = TypeVar("_CameT_co", covariant=True)


class CaseRunner(Protocol[_PlayedT_contra, _CameT_co]):
    """Runs cases one after the other."""

    async def play(self, case: _PlayedT_contra, /) -> _CameT_co: ...


@asynccontextmanager
async def models_of(config: Config) -> AsyncIterator[ExternalModels]:
    """The configured chat models, called as by the service; closed at the end."""
    async with AsyncExitStack() as exits:
        observer = FailureRecorder()
        yield ExternalModels(config.external_models, config.memory.retain, observer, exits)


def embedder_of(config: Config, model: Path | None, console: Console) -> OnnxEmbedder:
    return load_embedder(config, model=model, progress=lambda step: console.print(step, markup=False))


async def play_files(
    files: Sequence[Path],
    parse: Callable[[Case], CaseT],
    runner: Callable[[Adapters, MemoryConfig, ExternalModels], CaseRunner[CaseT, OutcomeT]],
    *,
    show: Callable[[Console, str, Sequence[OutcomeT]], None],
    result: Callable[[str, Sequence[OutcomeT]], Json],
    config: Config,
    model: Path | None,
    json_out: Path | None,
) -> None:
    """A command: read all files, run their cases, print and write the results.

    Args:
        show: prints one file's outcomes.
        result: one file's entry of the JSON.
        model: the embedding model's directory; None finds it.
        json_out: where the JSON goes; None writes none.

    Raises:
        InputFileError: a file does not fit, or the result cannot be written.
        ConfigurationError: the embedding model or a chat model's key is missing.
    """
    console = Console(highlight=False)
    # All of them before the first is played, so that a mistake in the last shows at once.
    cases = {file: parse_cases(file, parse) for file in files}
    embedder = embedder_of(config, model, console)
    results = []
    async with models_of(config) as models:
        with played_adapters(embedder) as adapters:
            run = runner(adapters, config.memory, models)
            for file, of_file in cases.items():
                outcomes = [await run.play(case) for case in tracked(of_file, file.name, total=len(of_file))]
                show(console, file.name, outcomes)
                results.append(result(file.name, outcomes))
    if json_out is not None:
        write_json(json_out, {"files": results})


T = TypeVar("T")


def tracked(items: Iterable[T], what: str, *, total: int) -> Iterator[T]:
    """Yield the items with a progress bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, description=what, total=total)
