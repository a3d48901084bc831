"""`semrouter-memory eval redaction` on a file of texts."""

import json
from pathlib import Path

from typer.testing import CliRunner

from semrouter_memory.cli.eval import eval_app


def test_changed_texts_are_counted_by_kind_and_shown_without_their_secrets(tmp_path: Path) -> None:
    file, out = tmp_path / "cases.jsonl", tmp_path / "out.json"
    turns = [
        {"user": "My password is hunter2", "assistant": "Noted."},
        {"user": "I like pineapple", "assistant": "Me too"},
    ]
    file.write_text(json.dumps({"id": "one", "turns": turns}) + "\n", encoding="utf-8")
    done = CliRunner().invoke(eval_app, ["redaction", str(file), "--show", "--json", str(out)])
    assert done.exit_code == 0
    assert "My password is [redacted]" in done.output
    assert "hunter2" not in done.output
    assert json.loads(out.read_text()) == [{"file": "cases.jsonl", "texts": 4, "changed": 1, "kinds": {"password": 1}}]
