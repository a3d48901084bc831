"""`semrouter-memory memory pause | resume | settings`: what a user switches."""

import typer

from semrouter_memory.cli.connection import user_command
from semrouter_memory.cli.output import out, print_json
from semrouter_memory.manage.client import MemoryClient


def register(group: typer.Typer) -> None:
    """Add the commands to a group."""
    for command in (pause, resume, settings):
        user_command(group, command.__name__)(command)


def pause(client: MemoryClient) -> None:
    """Pause remembering: nothing is recalled, and nothing that is said is stored, until `resume`."""
    out.print(f"paused since {client.set_paused(paused=True)['paused_at']}")


def resume(client: MemoryClient) -> None:
    """Remember again; what was said in the pause is not."""
    client.set_paused(paused=False)
    out.print("resumed")


def settings(client: MemoryClient) -> None:
    """Show the user's switches: whether remembering is paused, and since when."""
    print_json(client.settings())
