"""`semrouter-memory eval lifecycle` with the real embedding model."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semrouter_memory.cli import app
from semrouter_memory.errors import InputFileError

UPDATE = {
    "id": "lc-1",
    "kind": "update",
    "candidates": [
        {"type": "semantic", "content": "User's budget for the trip is $15,000", "at": "2026-03-20T10:00:00Z"},
        {"type": "semantic", "content": "User's budget for the trip is $10,000", "at": "2026-03-15T10:00:00Z"},
    ],
    "active": ["$15,000"],
    "superseded": ["$10,000"],
    "max_active": 1,
}
REPEATED = {
    "id": "lc-2",
    "kind": "odd",
    "candidates": [{"type": "semantic", "content": "User likes [b]tea[/b]"}] * 2,
    "active": ["tea", "coffee"],
    "superseded": [],
    "max_active": 1,
}


def test_scenarios_are_played_counted_and_written(tmp_path: Path, model_directory: Path) -> None:
    cases, out = tmp_path / "set.jsonl", tmp_path / "out.json"
    cases.write_text("\n".join(json.dumps(case) for case in (UPDATE, REPEATED)))
    done = CliRunner().invoke(
        app, ["eval", "lifecycle", str(cases), "--model", str(model_directory), "--json", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(out.read_text()) == {
        "files": [
            {
                "file": "set.jsonl",
                "scenarios": 2,
                "right": 1,
                "wrong_supersede": 1,
                "kinds": {"update": {"scenarios": 1, "right": 1}, "odd": {"scenarios": 1, "right": 0}},
                "failed": ["lc-2"],
            }
        ]
    }
    assert "expected: 'coffee' should be in one active memory, is in 0" in done.output
    assert "active:   User likes [b]tea[/b]" in done.output


def test_a_file_that_does_not_fit_stops_before_anything_is_played(tmp_path: Path) -> None:
    cases = tmp_path / "set.jsonl"
    cases.write_text(json.dumps(UPDATE | {"max_active": "one"}))
    done = CliRunner().invoke(app, ["eval", "lifecycle", str(cases)])
    assert isinstance(done.exception, InputFileError)
    assert "line 1: max_active" in str(done.exception)


@pytest.mark.parametrize("name", ["lifecycle"])
def test_the_help_says_what_a_line_holds(name: str) -> None:
    assert "candidates" in CliRunner().invoke(app, ["eval", name, "--help"]).output
