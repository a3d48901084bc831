"""`eval retrieval`: reads the files, asks what is in them, prints and writes what came of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from semrouter_memory.config import Config
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.evaluation.cases import parse_cases, write_json
from semrouter_memory.evaluation.retrieval import user_of
from semrouter_memory.evaluation.retrieval_figures import result_of
from semrouter_memory.evaluation.retrieval_report import print_figures, print_sweep
from semrouter_memory.evaluation.retrieval_run import RetrievalRun, has_milvus_lite, throwaway_adapters
from semrouter_memory.evaluation.retrieval_sweep import Swept
from semrouter_memory.evaluation.running import embedder_of, models_of

Draw: TypeAlias = Callable[[Path, Sequence[Swept]], None]


async def evaluate(
    files: Sequence[Path], *, config: Config, model: Path | None, json_out: Path | None, plot: Path | None, sweep: bool
) -> None:
    """The command: ask every query of the files, print tables, write the result and the picture.

    Args:
        model: the embedding model's directory; None finds it.
        json_out: where the JSON goes; None writes none.
        plot: where the picture goes; None draws none.
        sweep: ask again with other thresholds; a picture needs it.

    Raises:
        InputFileError: a file does not fit, or the result cannot be written.
        ConfigurationError: the embedding model, a chat model's key or the library that draws is missing.
    """
    console = Console(highlight=False)
    draw = _drawing() if plot else None
    # All of them before the first is played, so that a mistake in the last shows at once.
    cases = {file: parse_cases(file, user_of) for file in files}
    embedder = embedder_of(config, model, console)
    if not has_milvus_lite():
        console.print("Milvus Lite is not installed: an exact search in memory stands in for it.")
    results, swept = [], []
    threshold = config.memory.default_similarity_threshold
    async with models_of(config) as models, throwaway_adapters(embedder, config.memory) as (adapters, clock):
        run = RetrievalRun(adapters, clock, config.memory, models)
        for file, users in cases.items():
            owners = await run.store(file.name, users)
            asked = await run.ask(file.name, owners)
            print_figures(console, file.name, asked)
            results.append(result_of(file.name, asked))
            if sweep or draw:
                points = await run.sweep(file.name, owners)
                print_sweep(console, points, configured=threshold)
                swept.append(Swept(file=file.name, points=points, asked=asked, configured=threshold))
    if json_out is not None:
        write_json(json_out, {"files": results})
    if draw and plot:
        draw(plot, swept)


def _drawing() -> Draw:
    """What draws. Found before anything is measured, since the library is an extra."""
    try:
        from semrouter_memory.evaluation.retrieval_plot import draw  # noqa: PLC0415 - its library is an extra
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--plot needs {error.name}, which is not installed: pip install 'semrouter-memory[eval]'"
        ) from None
    return draw
