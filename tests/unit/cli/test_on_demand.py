"""A command's libraries are loaded when it is run: the list of commands does not wait for them."""

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from semrouter_memory.cli import app

_SERVERS = ("fastapi", "google", "grpc", "httpx", "numpy", "onnxruntime", "openai", "pymilvus")
_SETTINGS = ("pydantic_settings", "yaml")


def _loaded(code: str, *arguments: str, of: tuple[str, ...]) -> list[str]:
    """Which of these libraries a new process has loaded after the code."""
    asked = f"import sys\n{code}\nprint('loaded:', *(name for name in {of} if name in sys.modules))"
    command = [sys.executable, "-c", asked, *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return said.splitlines()[-1].split()[1:]


def test_no_commands_help_loads_a_library_of_the_product() -> None:
    assert _loaded("import semrouter_memory.cli", of=(*_SERVERS, *_SETTINGS)) == []


def test_checking_a_file_loads_no_library_of_a_server(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("memory: {enabled: true}", encoding="utf-8")
    code = "from semrouter_memory.cli import app\napp(sys.argv[1:], standalone_mode=False)"
    assert _loaded(code, "config", "check", "--elsewhere", str(file), of=_SERVERS) == []


def test_an_operators_command_loads_no_settings(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret", encoding="utf-8")
    code = "from typer.testing import CliRunner\nfrom semrouter_memory.cli import app\nCliRunner().invoke(app, sys.argv[1:])"
    sidecar = ("--url", "http://127.0.0.1:1", "--operator-token-file", str(token))
    assert _loaded(code, "turns", "list", *sidecar, of=(*_SETTINGS, "httpx")) == ["httpx"]


def test_a_command_that_does_not_exist_is_refused_and_a_similar_one_named() -> None:
    result = CliRunner().invoke(app, ["serv"])
    assert result.exit_code == 2
    assert "Did you mean 'serve'?" in result.output
