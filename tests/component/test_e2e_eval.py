"""`semrouter-memory eval e2e` with the real pipelines, Milvus Lite and the real embedding model."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from semrouter_memory.cli import app

CASE = {
    "id": "u",
    "sessions": [
        {"at": "2026-03-01T10:00:00Z", "turns": [{"user": "My budget for the Hawaii trip is $10,000", "assistant": "ok"}]},
        {"at": "2026-03-08T10:00:00Z", "turns": [{"user": "My dog is called Rex", "assistant": "Nice."}]},
    ],
    "questions": [
        {"id": "q1", "at": "2026-04-01T09:00:00Z", "kind": "direct", "text": "What is my budget for the Hawaii trip?",
         "any_of": ["$10,000"]},
        {"id": "q2", "at": "2026-04-01T09:00:00Z", "kind": "direct", "text": "What is my shoe size?", "any_of": ["44"]},
        {"id": "q3", "at": "2026-04-01T09:00:00Z", "kind": "negative", "text": "thanks!"},
    ],
}  # fmt: skip


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["eval", "e2e", *map(str, arguments)], env={"COLUMNS": "200"})


def test_what_was_said_in_one_session_answers_a_later_question(tmp_path: Path, model_directory: Path) -> None:
    cases, out = tmp_path / "set.jsonl", tmp_path / "out.json"
    cases.write_text("\n".join(json.dumps(CASE | {"id": user}) for user in ("a", "b")))
    done = run(cases, "--model", model_directory, "--json", out, "--misses")
    assert done.exit_code == 0, done.output
    (result,) = json.loads(out.read_text())["files"]
    assert result["kinds"]["all that want memory"]["answered"] == 0.5
    assert result["kinds"]["all that want none"]["quiet"] == 1.0
    assert result["lost"] == {"not stored": 2}
    assert result["memories"] >= 4
    assert "What is my shoe size?" in done.output


def test_a_file_that_does_not_fit_is_named_with_its_line(tmp_path: Path, model_directory: Path) -> None:
    cases = tmp_path / "set.jsonl"
    cases.write_text(json.dumps(CASE) + "\n" + json.dumps(CASE | {"sessions": []}))
    done = run(cases, "--model", model_directory)
    assert done.exit_code != 0
    assert "line 2: sessions must hold at least one session" in f"{done.output}{done.exception}"
