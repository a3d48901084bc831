"""How commands print."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.model import Json

_PIPE_WIDTH = 240
_CONTENT_WIDTH = 24
_DAY_CHARS = len("2027-01-01")
_MAX_CELL_CHARS = 300
"""Of a long memory its beginning; `get` shows all of it."""
out = Console(highlight=False, markup=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def print_json(value: Json) -> None:
    # In another encoding than UTF-8, JSON's own escapes can be read everywhere.
    typer.echo(json.dumps(value, indent=2, ensure_ascii=not out.encoding.startswith("utf")))


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        out.print(shown(line))


def report(value: Json, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what the API answered, or what it means."""
    if as_json:
        print_json(value)
    else:
        print_lines(lines)


def print_page(show: Callable[[Json], None], following: str, page: Json) -> None:
    """Print a page of the API, and how the following one is asked for.

    Args:
        following: the name of the option; the page's `next_` member has its value.
    """
    show(page["data"])
    if page[f"next_{following}"]:
        err.print(f"more: --{following} {shown(str(page[f'next_{following}']))}")


def print_objects(columns: Mapping[str, str], objects: Iterable[Mapping[str, Json]]) -> None:
    """Print a table of the API's objects.

    Args:
        columns: the member in each column, by its heading.
    """
    print_table([*columns], ([_cell(each.get(member), member) for member in columns.values()] for each in objects))


def _cell(value: Json, member: str) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    text = "" if value is None else str(value)
    if member.endswith("_at"):
        return text[:_DAY_CHARS]
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[: _MAX_CELL_CHARS - 1]}…"


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
