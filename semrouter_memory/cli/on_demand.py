"""Commands whose modules are loaded when they are run: all together take a second, which `serve` and `--help` need not wait for."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

_MODULES = {
    "serve": ("serve", "Run the sidecar until SIGTERM or Ctrl-C."),
    "doctor": ("doctor", "Find mistakes in Envoy's configuration and the sidecar's own."),
    "demo": (
        "local",
        "Play a conversation that is remembered, through the real Envoy; exit status 1 when something was not.",
    ),
    "run": ("local", "Start Envoy, the sidecar and a stand-in LLM, and stay up until Ctrl-C."),
    "replay": (
        "replay",
        "Play recordings against a server, as Envoy did, and compare its answers with those that were recorded.",
    ),
    "record": ("record", "Record what Envoy and a running sidecar say to each other."),
    "compact": ("maintenance", "Take what was deleted out of the sidecar's files, now."),
    "backup": ("maintenance", "Copy turn log, state and memories, while the sidecar runs."),
    "model": ("model", "The embedding model's files."),
    "memory": ("memory", "List, search and change stored memories of a running sidecar."),
    "turns": ("turns", "Turns in the log of a running sidecar, asked at the operator's port."),
    "config": ("config", "The configuration file."),
    "eval": (
        "eval",
        "Measure the product on your own files of cases (JSON lines); each command's help says what a line holds.",
    ),
}
"""Of each command, the module whose `register` adds it, and the first sentence of its help."""


class OnDemandGroup(TyperGroup):
    """Has an empty command with the first sentence of its help for each, until it is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that the first argument names."""
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Replace the empty command of that name, if there is one, by the real one."""
        if name in _MODULES:
            loaded = typer.Typer()
            import_module(f"{__package__}.{_MODULES[name][0]}").register(loaded)
            self.commands[name] = get_group(loaded).commands[name]


def announce(group: typer.Typer) -> None:
    """Add the empty commands."""
    for name, (_, summary) in _MODULES.items():
        group.command(name, help=summary)(_empty)


def _empty() -> None:
    raise AssertionError("the command was not loaded")
