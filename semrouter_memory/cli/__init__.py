"""The command line. It parses, calls, prints; logic is in the packages below."""

from pathlib import Path
from typing import Annotated

import typer

from semrouter_memory import __version__
from semrouter_memory.cli.config import config_app
from semrouter_memory.cli.doctor import register as register_doctor
from semrouter_memory.cli.eval import eval_app
from semrouter_memory.cli.local import register as register_local
from semrouter_memory.cli.maintenance import register as register_maintenance
from semrouter_memory.cli.memory import memory_app
from semrouter_memory.cli.model import model_app
from semrouter_memory.cli.record import record_app
from semrouter_memory.cli.replay import replay
from semrouter_memory.cli.turns import turns_app
from semrouter_memory.errors import EXIT_STATUS, MemoryServiceError

app = typer.Typer(
    name="semrouter-memory",
    help="A memory across sessions for LLM traffic behind Envoy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(model_app, name="model")
app.add_typer(memory_app, name="memory")
app.add_typer(turns_app, name="turns")
app.add_typer(config_app, name="config")
app.add_typer(eval_app, name="eval")
app.add_typer(record_app, name="record")
app.command()(replay)


@app.callback(invoke_without_command=True)
def _version(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The YAML file; without one, the defaults.")
    ] = None,
) -> None:
    """Run the sidecar until SIGTERM or Ctrl-C.

    Settings come from the file, with environment variables on top: SEMROUTER_MEMORY__MEMORY__MILVUS__URI sets
    memory.milvus.uri, and so on. `semrouter-memory config reference` prints all keys.
    """
    from semrouter_memory.app import run  # noqa: PLC0415 - the server's libraries take a second to load
    from semrouter_memory.config import load  # noqa: PLC0415

    run(load(config))


register_doctor(app)
register_local(app)
register_maintenance(app)


def main() -> None:
    """Entry point: an expected failure is one clear message and exit status 2, anything else a traceback."""
    try:
        app()
    except MemoryServiceError as error:
        typer.secho(f"semrouter-memory: {error}", fg="red", err=True)
        raise SystemExit(EXIT_STATUS) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
