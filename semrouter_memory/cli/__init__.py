"""The command line. It parses, calls, prints; logic is in the packages below."""

from typing import Annotated

import typer

from semrouter_memory import __version__
from semrouter_memory.cli.on_demand import OnDemandGroup, announce
from semrouter_memory.errors import EXIT_STATUS, MemoryServiceError

app = typer.Typer(
    cls=OnDemandGroup,
    name="semrouter-memory",
    help="A memory across sessions for LLM traffic behind Envoy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
announce(app)


@app.callback(invoke_without_command=True)
def _version(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def whole_command_line() -> OnDemandGroup:
    """All commands, loaded."""
    group = typer.main.get_command(app)
    assert isinstance(group, OnDemandGroup)
    for name in group.commands:
        group.load(name)
    return group


def main() -> None:
    """Entry point: an expected failure is one clear message and exit status 2, anything else a traceback."""
    try:
        app()
    except MemoryServiceError as error:
        typer.secho(f"semrouter-memory: {error}", fg="red", err=True)
        raise SystemExit(EXIT_STATUS) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
