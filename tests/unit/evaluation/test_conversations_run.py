"""`eval conversations` with the real retainer, turn log and embedding model."""

import json
from pathlib import Path

from typer.testing import CliRunner

from semrouter_memory.cli import app
from semrouter_memory.config import Config
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.evaluation.cases import case_of
from semrouter_memory.evaluation.conversations import ConversationCase, Remembered, play
from semrouter_memory.evaluation.running import exact_store, one_by_one, played_pipelines


def conversation(*user_texts: str, wanted: str = "", unwanted: str = "") -> ConversationCase:
    return case_of(
        ConversationCase,
        {
            "id": "c",
            "turns": [{"user": text, "assistant": "Noted."} for text in user_texts],
            "should_remember": [{"about": wanted, "any_of": [wanted]}] if wanted else [],
            "should_not_remember": [unwanted] if unwanted else [],
        },
    )


async def played(model_directory: Path, *conversations: ConversationCase) -> list[Remembered]:
    config = Config()
    embedder = OnnxEmbedder.load(config.memory.embedding, model_directory)
    async with played_pipelines(embedder, config, store=exact_store(embedder)) as pipelines:
        return await one_by_one(play)("cases.jsonl", conversations, pipelines)


async def test_what_was_said_is_remembered_in_the_users_words(model_directory: Path) -> None:
    (outcome,) = await played(model_directory, conversation("I live in Quito", "I have two cats", wanted="quito"))
    assert any("I live in Quito" in memory for memory in outcome.memories)
    assert (outcome.missed, outcome.violations, outcome.failures) == ((), (), ())


async def test_what_was_replaced_is_history_and_counts_no_more(model_directory: Path) -> None:
    said = "My budget for the Hawaii trip is $10,000", "My budget for the Hawaii trip is now $15,000"
    (outcome,) = await played(model_directory, conversation(*said, wanted="15,000"))
    assert outcome.missed == ()
    assert not any("10,000" in memory for memory in outcome.memories)


async def test_one_conversations_memories_are_not_anothers(model_directory: Path) -> None:
    first, second = await played(model_directory, conversation("I live in Quito"), conversation("hello"))
    assert first.memories
    assert second.memories == ()


def test_the_command_writes_the_result_and_ends_well_whatever_the_score(tmp_path: Path, model_directory: Path) -> None:
    cases, out = tmp_path / "cases.jsonl", tmp_path / "out" / "result.json"
    turns = [{"user": "I live in Quito", "assistant": "ok"}]
    lines = [
        {"id": "a", "turns": turns, "should_remember": [{"about": "x", "any_of": ["lima"]}], "should_not_remember": []},
        {"id": "b", "turns": turns, "should_remember": [], "should_not_remember": ["live in quito"]},
    ]
    cases.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["eval", "conversations", str(cases), "--model", str(model_directory), "--json", str(out)]
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 0, ended.output
    (result,) = json.loads(out.read_text())["files"]
    assert (result["file"], result["conversations"]) == ("cases.jsonl", 2)
    assert (result["should_remember"], result["remembered"]) == (1, 0)
    assert {violation["id"] for violation in result["violations"]} == {"b"}
    assert "I live in Quito" in {violation["text"] for violation in result["violations"]}
