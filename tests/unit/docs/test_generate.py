"""The generated references are current, and leave nothing out."""

from typing import Any

from typer.main import get_command

from docs.generate import REFERENCE, pages
from semrouter_memory.cli import app
from semrouter_memory.config.loading import reference_markdown
from semrouter_memory.exchange.states import TRANSITIONS


def test_the_committed_references_are_current() -> None:
    """Write them anew with `make docs`."""
    committed = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
    assert committed == dict(pages())


def test_every_page_says_how_it_is_generated() -> None:
    assert all("generated from" in text.splitlines()[2] and "`make docs`" in text for text in pages().values())


def test_every_setting_has_a_row_with_its_bounds() -> None:
    page = pages()["configuration.md"]
    keys = [line.split("`")[1] for line in reference_markdown().splitlines()[2:]]
    assert [key for key in keys if f"| `{key}` |" not in page] == []
    assert "| `memory.identity.max_id_chars` | integer, at least 1, at most 512 | `256` |" in page


def test_every_command_has_its_options() -> None:
    page = pages()["cli.md"]
    commands: Any = get_command(app)
    for name, command in commands.commands.items():
        for title in [f"{name} {each}" for each in getattr(command, "commands", [])] or [name]:
            assert f"## `semrouter-memory {title}`\n" in page
    assert "| `--sweep`, `--no-sweep` |" in page
    assert "One of `semantic`, `procedural`, `episodic`, `reflective`." in page


def test_every_transition_is_in_the_diagram_and_in_the_table() -> None:
    page = pages()["exchange-states.md"]
    for state, row in TRANSITIONS.items():
        for trigger, after in row.items():
            assert f"    {state} --> {after}: {trigger}\n" in page
            assert f"| `{state}` | `{trigger}` | `{after}` |\n" in page
