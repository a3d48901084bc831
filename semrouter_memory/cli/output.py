"""How commands print."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from semrouter_memory.model import Json

_PIPE_WIDTH = 240
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]


def print_json(value: Json) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(table: Table) -> None:
    # A pipe has no width of its own; the 80 columns that are assumed then would cut the ids.
    Console(highlight=False, width=None if out.is_terminal else _PIPE_WIDTH).print(table)


def shown(text: str) -> str:
    """Stored text is hostile: what could steer the terminal is replaced."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
