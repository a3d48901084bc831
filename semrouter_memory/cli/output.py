"""How commands print."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.model import Json

_PIPE_WIDTH = 240
_CONTENT_WIDTH = 24
out = Console(highlight=False, markup=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]


def print_json(value: Json) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def report(value: Json, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what the API answered, or what it means."""
    if as_json:
        print_json(value)
        return
    for line in lines:
        out.print(shown(line))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose last column is folded."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings[:-1]:
        table.add_column(heading, no_wrap=True)
    table.add_column(headings[-1], overflow="fold", min_width=_CONTENT_WIDTH)
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    # A pipe has no width of its own; the 80 columns that are assumed then would cut the ids.
    Console(width=None if out.is_terminal else _PIPE_WIDTH).print(table)


def shown(text: str) -> str:
    """Stored text is hostile: what could steer the terminal is replaced."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
