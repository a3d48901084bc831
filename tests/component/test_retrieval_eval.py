"""`semrouter-memory eval retrieval` with the real recaller, Milvus Lite and the real embedding model."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from semrouter_memory.cli import app
from semrouter_memory.errors import InputFileError

MARCH = "2026-03-15T10:00:00Z"


def line(user: str, budget: str) -> dict[str, Any]:
    return {
        "user": user,
        "memories": [
            {"id": "m1", "type": "semantic", "content": "User's hair is grey", "created_at": MARCH},
            {
                "id": "m2",
                "type": "semantic",
                "content": f"User's budget for the Hawaii trip is {budget}",
                "created_at": None,
            },
        ],
        "queries": [
            {"id": "q1", "kind": "direct", "text": "What is my budget for the Hawaii trip?", "gold": ["m2"]},
            {"id": "q2", "kind": "negative", "text": "thanks!", "history": [], "gold": []},
        ],
    }


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["eval", "retrieval", *map(str, arguments)])


def test_queries_are_asked_counted_written_and_drawn(tmp_path: Path, model_directory: Path) -> None:
    cases, out, plot, data = tmp_path / "set.jsonl", tmp_path / "out.json", tmp_path / "out.png", tmp_path / "data"
    cases.write_text("\n".join(json.dumps(line(*each)) for each in (("a", "$10,000"), ("b", "$77"))))
    config = tmp_path / "config.yaml"
    config.write_text(f"memory:\n  data_dir: {data}\n  milvus:\n    uri: {data / 'production.db'}\n")
    done = run(cases, "--model", model_directory, "--config", config, "--json", out, "--plot", plot)
    assert done.exit_code == 0, done.output
    (result,) = json.loads(out.read_text()).pop("files")
    ms = result.pop("ms")
    assert result == {
        "file": "set.jsonl",
        "queries": 4,
        "recall@5": 1.0,
        "recall@10": 1.0,
        "ndcg@5": 1.0,
        "mrr": 1.0,
        "injected": {"per_query": 0.5, "precision": 1.0, "recall": 1.0, "false_injection": 0.0},
        "kinds": {
            "direct": {"queries": 2, "recall@5": 1.0, "injected_recall": 1.0},
            "negative": {"queries": 2, "recall@5": None, "injected_recall": None},
        },
    }
    assert {"embed", "total"} <= ms.keys()
    assert all(times.keys() == {"p50", "p95"} and 0 < times["p50"] <= times["p95"] for times in ms.values())
    assert plot.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "what is injected by threshold" in done.output
    assert not data.exists(), "the configured store is left alone"


def test_without_plot_or_sweep_each_query_is_asked_once(tmp_path: Path, model_directory: Path) -> None:
    cases = tmp_path / "set.jsonl"
    cases.write_text(json.dumps(line("a", "$10,000")))
    done = run(cases, "--model", model_directory)
    assert done.exit_code == 0, done.output
    assert "negative" in done.output
    assert "threshold" not in done.output


def test_a_file_that_does_not_fit_stops_before_anything_is_asked(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    case = line("a", "$1")
    good.write_text(json.dumps(case))
    case["queries"][0]["gold"] = ["m3"]
    bad.write_text(json.dumps(case))
    done = run(good, bad)
    assert isinstance(done.exception, InputFileError)
    assert f"{bad}, line 1: queries[0].gold: there is no memory 'm3'" in str(done.exception)


def test_a_picture_without_the_sweep_that_it_shows_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "set.jsonl", "--plot", tmp_path / "out.png", "--no-sweep")
    assert done.exit_code == 2
    assert not (tmp_path / "out.png").exists()


def test_the_help_says_what_a_line_holds() -> None:
    assert "acceptable" in run("--help").output
