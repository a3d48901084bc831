"""How many faithful and unfaithful paraphrases pass the check of a model's statements, with the real embedding model."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.model import ChatMessage, LoggedTurn, Scope
from semrouter_memory.retain.extract_llm import LlmExtractor

CASES = [
    line.split("\t")
    for line in (Path(__file__).parents[1] / "unit/retain/grounding.tsv").read_text("utf-8").splitlines()
]
AT = datetime(2026, 3, 20, 12, tzinfo=UTC)


class Answering:
    """A chat model that always answers the same."""

    name = "stand-in"
    retry_after = None

    def __init__(self, statement: str) -> None:
        self.answer = json.dumps([{"type": "semantic", "content": statement, "turn": 1}])

    def late(self) -> None:
        """Only deadlines tell."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        return self.answer


async def passes(embedder: OnnxEmbedder, said: str, statement: str) -> bool:
    turn = LoggedTurn(
        id="t1", sequence=1, scope=Scope("alice"), session_id="s1", user_text=said.replace("\\n", "\n"),
        assistant_text="Noted.", observed_at=AT,
    )  # fmt: skip
    grounded = await LlmExtractor(Answering(statement), embedder).extract([turn], [])
    assert len(grounded.candidates) + sum(grounded.turned_away.values()) == 1
    return bool(grounded.candidates)


async def test_most_faithful_paraphrases_pass_and_hardly_an_unfaithful_one(model_directory: Path) -> None:
    embedder = OnnxEmbedder.load(EmbeddingConfig(), model_directory)
    judged = [(kind, await passes(embedder, said, statement), said, statement) for kind, said, statement in CASES]
    refused = [case[2:] for case in judged if case[:2] == ("faithful", False)]
    passed = [case[2:] for case in judged if case[:2] == ("unfaithful", True)]
    assert len(CASES) >= 70
    assert (len(passed), len(refused)) <= (1, 5), (passed, refused)
