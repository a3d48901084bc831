"""`semrouter-memory serve` and `config ...`: the sidecar, and its configuration file."""

import gc
import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()
_config = typer.Typer(help="The configuration file.", no_args_is_help=True)
app.add_typer(_config, name="config")


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The YAML file; without one, the defaults.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="How many processes serve; without it, server.processes.", show_default=False),
    ] = None,
    *,
    until_eof: Annotated[bool, typer.Option("--until-eof", hidden=True)] = False,
) -> None:
    """Run the sidecar until SIGTERM, SIGHUP or Ctrl-C.

    Settings come from the file, with environment variables on top: SEMROUTER_MEMORY__MEMORY__MILVUS__URI sets
    memory.milvus.uri, and so on. `semrouter-memory config reference` prints all keys.
    """
    # What loading makes stays: collections on the way would find no garbage, and cost 0.3 s. `run` enables them again.
    gc.disable()
    from semrouter_memory.config import load, variable_of  # noqa: PLC0415 - takes a moment to load

    if processes is not None:
        os.environ[variable_of("server.processes")] = str(processes)
    configuration = load(config)
    if configuration.server.processes > 1:
        gc.enable()
        from semrouter_memory.app.processes import serve_processes  # noqa: PLC0415 - same

        serve_processes(configuration, () if config is None else ("--config", str(config)))
        return
    from semrouter_memory.app.sidecar import run  # noqa: PLC0415 - the server's libraries take seconds to load

    run(configuration, until_eof=until_eof)


@_config.command()
def check(
    file: Annotated[Path, typer.Argument(help="The YAML file.")],
    *,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="The service runs on another machine: check the file alone.")
    ] = False,
) -> None:
    """Say whether the service would start with a file and the environment on top of it; exit status 2 when not.

    Files, directories and the embedding model are looked at on this machine.
    Nothing is connected to; `doctor` does that.
    """
    from semrouter_memory.app import preflight  # noqa: PLC0415 - takes a moment to load
    from semrouter_memory.config import load  # noqa: PLC0415

    config = load(file)
    if elsewhere:
        preflight.check_file(config)
    else:
        preflight.check(config)
        preflight.check_parts(config)
    typer.echo(f"{file} fits")


@_config.command()
def reference() -> None:
    """Print every key with its type, default and meaning, as Markdown."""
    from semrouter_memory.config.loading import reference_markdown  # noqa: PLC0415 - same

    typer.echo(reference_markdown())
