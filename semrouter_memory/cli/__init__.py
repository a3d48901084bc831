"""The command line: its commands. It parses, calls, prints; logic is in the packages below.

What a command works with is imported when it runs: all of it takes seconds, which `--help` need not wait for.
"""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from semrouter_memory import __version__
from semrouter_memory.cli import eval as evaluation
from semrouter_memory.cli import knowledge, local, mcp, memory, operator, recordings, service
from semrouter_memory.errors import EXIT_STATUS, MemoryServiceError

app = typer.Typer(
    name="semrouter-memory",
    help="A memory across sessions for LLM traffic behind Envoy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _commands in (service, local, recordings, operator, memory, knowledge, mcp, evaluation):
    app.add_typer(_commands.app)


@app.callback(invoke_without_command=True)
def _version(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: an expected failure is one clear message and exit status 2, anything else a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        # Texts may have characters that the terminal's encoding does not.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except MemoryServiceError as error:
        typer.secho(f"semrouter-memory: {error}", fg="red", err=True)
        raise SystemExit(EXIT_STATUS) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
