"""What the commands have in common: files of cases in, tables and JSON out."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

from rich.console import Console

from semrouter_memory.app.models import ExternalModels
from semrouter_memory.config import Config
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.evaluation.cases import Case, parse_cases, write_json
from semrouter_memory.evaluation.embedder import load_embedder
from semrouter_memory.evaluation.playing import Noticing
from semrouter_memory.evaluation.progress import tracked
from semrouter_memory.model import Json
from semrouter_memory.ports import Observer

CaseT = TypeVar("CaseT")
OutcomeT = TypeVar("OutcomeT")


@asynccontextmanager
async def models_of(config: Config) -> AsyncIterator[ExternalModels]:
    """The configured chat models, asked as the service asks them; closed at the end."""
    async with AsyncExitStack() as exits:
        observer = cast("Observer", Noticing())
        yield ExternalModels(config.external_models, config.memory.retain, observer, exits)


def embedder_of(config: Config, model: Path | None, console: Console) -> OnnxEmbedder:
    return load_embedder(config, model=model, progress=lambda step: console.print(step, markup=False))


def read_all(files: Sequence[Path], parse: Callable[[Case], CaseT]) -> dict[Path, list[CaseT]]:
    """All of them before the first is played, so that a mistake in the last shows at once."""
    return {file: parse_cases(file, parse) for file in files}


async def play_all(
    cases: Mapping[Path, Sequence[CaseT]],
    play: Callable[[CaseT], Awaitable[OutcomeT]],
    *,
    show: Callable[[str, Sequence[OutcomeT]], None],
    result: Callable[[str, Sequence[OutcomeT]], Json],
    json_out: Path | None,
) -> None:
    """Play each file's cases, show what came of them, and write the results.

    Args:
        show: prints one file's outcomes.
        result: one file's entry of the JSON.
        json_out: where the JSON goes; None writes none.

    Raises:
        CaseFileError: the result cannot be written.
    """
    results = []
    for file, of_file in cases.items():
        outcomes = [await play(case) for case in tracked(of_file, file.name, total=len(of_file))]
        show(file.name, outcomes)
        results.append(result(file.name, outcomes))
    if json_out is not None:
        write_json(json_out, {"files": results})
