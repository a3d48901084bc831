"""The list of commands costs no more than itself: a command's libraries are loaded when it is run."""

import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from semrouter_memory.cli import OnDemandGroup, app, whole_command_line

_LOADED = """
import sys
from semrouter_memory.cli import app
app(sys.argv[1:], standalone_mode=False)
print("loaded:", *(name for name in ("grpc", "httpx", "numpy", "pydantic_settings", "pymilvus", "yaml") if name in sys.modules))
"""


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["serve", "--help"]])
def test_help_loads_no_library_of_the_product(arguments: list[str]) -> None:
    command = [sys.executable, "-c", _LOADED, *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert said.splitlines()[-1] == "loaded:"


def test_the_summary_in_the_list_is_the_beginning_of_the_commands_own_help() -> None:
    listed = typer.main.get_command(app)
    assert isinstance(listed, OnDemandGroup)
    summaries = {name: command.help for name, command in listed.commands.items()}
    own = {
        name: str(command.help).split("\n\n")[0].replace("\n", " ")
        for name, command in whole_command_line().commands.items()
    }
    assert summaries == own


def test_a_command_that_does_not_exist_is_refused_and_a_similar_one_named() -> None:
    result = CliRunner().invoke(app, ["serv"])
    assert result.exit_code == 2
    assert "Did you mean 'serve'?" in result.output
