"""`python -m bench`, or `make bench`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bench.context import Amount
from bench.run import Options, run
from semrouter_memory.config import TelemetryConfig
from semrouter_memory.errors import ConfigurationError, MemoryServiceError
from semrouter_memory.telemetry import logs

_FULL_REQUESTS, _QUICK_REQUESTS = 500, 200
_LITE, _SERVER = "1000,10000,100000", "10000,100000,500000"


_Model = Annotated[Path, typer.Option(help="Directory with the embedding model's files (see `model build`).")]
_Directory = Annotated[Path, typer.Option(help="Takes data, logs and generated configurations; emptied first.")]
_Quick = Annotated[bool, typer.Option("--quick", help="The sections headline, throughput and streams, smaller.")]
_Only = Annotated[str, typer.Option(help="Sections to measure, for example growth,bodies.")]
_Requests = Annotated[
    int | None,
    typer.Option(help=f"One after the other, through each chain: {_FULL_REQUESTS}, --quick {_QUICK_REQUESTS}.", min=20),
]
_Memories = Annotated[int, typer.Option(help="How many memories the user has.", min=1)]
_LiteSizes = Annotated[str, typer.Option(help="Growth on Milvus Lite: memories in the store, rising; '' for none.")]
_ServerSizes = Annotated[str, typer.Option(help="The same on a Milvus server.")]
_Passages = Annotated[int, typer.Option(help="How many passages of documents are on the Milvus server.", min=100)]
_Processes = Annotated[
    int | None, typer.Option(help="How many processes are compared with one; without it, half the cores.", min=2)
]
_Json = Annotated[
    Path | None, typer.Option("--json", help="Takes the figures; without it, bench.json in the directory.")
]
_Plot = Annotated[Path | None, typer.Option(help="Takes the chart, a PNG; without it, bench.png in the directory.")]


def bench(
    *,
    model: _Model = Path(".cache/model"),
    directory: _Directory = Path(".run/bench"),
    quick: _Quick = False,
    only: _Only = "",
    requests: _Requests = None,
    memories: _Memories = 1_000,
    lite: _LiteSizes = _LITE,
    server: _ServerSizes = _SERVER,
    passages: _Passages = 2_000,
    processes: _Processes = None,
    json_file: _Json = None,
    plot: _Plot = None,
) -> None:
    """Measure what memory adds, as ratios to the floor of the same run: Envoy, a no-op service, the bare embedding.

    The sections are headline, throughput, streams, bodies, recall, growth, knowledge and processes. Each is shown and written down when it is
    measured; exit status 1 when one could not be.
    """
    logs.configure(TelemetryConfig(log_level="ERROR", log_format="console"))
    amount = Amount(
        requests=requests or (_QUICK_REQUESTS if quick else _FULL_REQUESTS),
        memories=memories,
        quick=quick,
        lite=_sizes("--lite", lite),
        server=_sizes("--server", server),
        passages=passages,
        processes=processes or max(2, (os.cpu_count() or 1) // 2),
    )
    options = Options(
        model=model,
        directory=directory,
        amount=amount,
        only=tuple(name.strip() for name in only.split(",") if name.strip()),
        json_file=json_file or directory / "bench.json",
        plot_file=plot or directory / "bench.png",
    )
    if not run(options):
        raise typer.Exit(1)


def _sizes(option: str, text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(each) for each in text.split(",") if each.strip())
    except ValueError:
        sizes = (0,)
    if any(size < 1 for size in sizes) or list(sizes) != sorted(set(sizes)):
        raise ConfigurationError(f"{option} takes rising numbers with commas between them, not {text!r}")
    return sizes


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(bench)


if __name__ == "__main__":
    try:
        app(prog_name="python -m bench")
    except MemoryServiceError as error:
        typer.secho(f"bench: {error}", fg="red", err=True)
        raise SystemExit(2) from None
