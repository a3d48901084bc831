"""Topic drift with the real embedding model and the default setting."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from semrouter_memory.config import EmbeddingConfig, RetainConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Claim, LoggedTurn, Scope, Vector
from semrouter_memory.retain.scheduling import TopicWatch

ALICE = Scope("alice")
START = datetime(2026, 3, 20, 12, tzinfo=UTC)

HEALTH = (
    "I was diagnosed with type 2 diabetes last month",
    "Which breakfast keeps my blood sugar low?",
    "My doctor prescribed metformin, what side effects are common?",
    "ok thanks",
    "How often should I measure my glucose?",
    "Does stress raise blood sugar too?",
)
CAR = (
    "My car makes a grinding noise when I brake",
    "Could it be the rear brake pads or the discs?",
    "What does a garage charge for an Opel Corsa brake job?",
)


class CountingEmbedder(OnnxEmbedder):
    texts = 0
    broken = False

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        if self.broken:
            raise UnavailableError("broken", service=Service.EMBEDDING)
        self.texts += len(texts)
        return await super().embed_passages(texts)


@pytest.fixture
async def embedder(model_directory: Path) -> CountingEmbedder:
    loaded = await asyncio.to_thread(CountingEmbedder.load, EmbeddingConfig(), model_directory)
    assert isinstance(loaded, CountingEmbedder)
    return loaded


@pytest.fixture
def watch(embedder: CountingEmbedder) -> TopicWatch:
    return TopicWatch(embedder, similarity=RetainConfig().drift_similarity)


def claim_of(texts: tuple[str, ...], *, read: int = 0) -> Claim:
    """A claim on these turns, of which so many were read before."""
    turns = [
        LoggedTurn(
            id=f"turn_{number}",
            sequence=number,
            scope=ALICE,
            session_id="s",
            user_text=text,
            assistant_text="",
            observed_at=START + timedelta(minutes=number),
        )
        for number, text in enumerate(texts)
    ]
    return Claim(scope=ALICE, session_id="s", token="t", context=tuple(turns[:read]), turns=tuple(turns[read:]))


async def test_a_conversation_that_stays_on_its_topic_has_not_drifted(watch: TopicWatch) -> None:
    assert not await watch.changed(claim_of(HEALTH))


async def test_a_conversation_that_turns_to_something_else_has(watch: TopicWatch) -> None:
    assert not await watch.changed(claim_of((*HEALTH, CAR[0])))
    assert await watch.changed(claim_of((*HEALTH, *CAR[:2])))
    assert await watch.changed(claim_of((*HEALTH, *CAR[:2]), read=6))


async def test_a_change_that_was_read_already_is_no_news(watch: TopicWatch) -> None:
    assert not await watch.changed(claim_of((*HEALTH, *CAR), read=8))


async def test_each_turn_is_embedded_once(watch: TopicWatch, embedder: CountingEmbedder) -> None:
    for count in range(1, len(HEALTH) + 1):
        await watch.changed(claim_of(HEALTH[:count]))
    assert embedder.texts == len(HEALTH) - 1, "all but the vague one"


async def test_what_cannot_be_embedded_has_not_drifted(watch: TopicWatch, embedder: CountingEmbedder) -> None:
    embedder.broken = True
    assert not await watch.changed(claim_of((*HEALTH, *CAR)))


async def test_only_the_last_turns_are_looked_at(watch: TopicWatch, embedder: CountingEmbedder) -> None:
    claim = claim_of((*CAR, *HEALTH) * 5)
    await watch.changed(replace(claim, turns=claim.turns[-20:]))
    assert embedder.texts == 12
