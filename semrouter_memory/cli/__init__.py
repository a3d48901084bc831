"""The command line: its commands, and options in groups. It parses, calls, prints; logic is in the packages below.

Each command's module is loaded when the command is run: all of them take a second, which `serve` and `--help` need not wait for.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from semrouter_memory import __version__
from semrouter_memory.errors import EXIT_STATUS, MemoryServiceError

_COMMANDS = {
    "serve": ("service", "Run the sidecar until SIGTERM, SIGHUP or Ctrl-C."),
    "doctor": ("local", "Find mistakes in Envoy's configuration and the sidecar's own."),
    "demo": (
        "local",
        "Play a conversation that is remembered, through the real Envoy; exit status 1 when something was not.",
    ),
    "run": ("local", "Start Envoy, the sidecar and a stand-in LLM, and stay up until Ctrl-C."),
    "replay": (
        "recordings",
        "Play recordings against a server, as Envoy did, and compare its answers with those that were recorded.",
    ),
    "record": ("recordings", "Record what Envoy and a running sidecar say to each other."),
    "compact": ("operator", "Take what was deleted out of the sidecar's files, now."),
    "backup": ("operator", "Copy turn log, state and memories, while the sidecar runs."),
    "model": ("local", "The embedding model's files."),
    "memory": ("memory", "List, search and change stored memories of a running sidecar."),
    "knowledge": ("knowledge", "Documents of an organisation, which its members' requests are answered with."),
    "mcp": (
        "mcp",
        "Give a desktop client the memory's tools: MCP over stdin and stdout, answered by a running sidecar.",
    ),
    "turns": ("operator", "Turns in the log of a running sidecar, asked at the operator's port."),
    "config": ("service", "The configuration file."),
    "eval": (
        "eval",
        "Measure the product on your own files of cases (JSON lines); each command's help says what a line holds.",
    ),
}
"""Of each command, the module whose `app` has it, and the first sentence of its help."""


class OnDemandGroup(TyperGroup):
    """Has an empty command with the first sentence of its help for each, until it is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that the first argument names."""
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Replace the empty command of that name, if there is one, by the real one."""
        if name in _COMMANDS:
            module = import_module(f"{__package__}.{_COMMANDS[name][0]}")
            self.commands[name] = get_group(module.app).commands[name]


app = typer.Typer(
    cls=OnDemandGroup,
    name="semrouter-memory",
    help="A memory across sessions for LLM traffic behind Envoy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def _empty() -> None:
    raise AssertionError("the command was not loaded")


for _name, (_, _summary) in _COMMANDS.items():
    app.command(_name, help=_summary)(_empty)


def with_groups(function: Callable[..., None], **makers: type) -> Callable[..., None]:
    """The command as typer reads it: options in the place of each parameter that is made of them.

    Args:
        function: a parameter whose type is a dataclass is made of options that are this dataclass's fields.
        makers: of a parameter's name, the dataclass that is handed over in its place; its options come last.
    """
    parameters = signature(function).parameters
    groups: dict[str, Any] = {name: each.annotation for name, each in parameters.items()}
    groups = {name: kind for name, kind in groups.items() if is_dataclass(kind)} | makers
    options_of = {name: signature(group).parameters for name, group in groups.items()}

    @wraps(function)
    def command(**given: Any) -> None:
        made = {name: groups[name](**{each: given.pop(each) for each in options_of[name]}) for name in groups}
        function(**given, **made)

    ordered = [name for name in parameters if name not in makers] + list(makers)
    flat = [
        option.replace(kind=Parameter.KEYWORD_ONLY)
        for name in ordered
        for option in (options_of[name].values() if name in groups else [parameters[name]])
    ]
    command.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in flat}
    return command


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
