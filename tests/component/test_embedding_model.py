"""The real model: what it says of texts, and that it keeps out of the event loop's way."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.model import Vector

pytest_plugins = ("tests.model_fixture",)

LONG = "A longer text about a trip to Hawaii, its budget and its hotels. " * 12


@pytest.fixture(scope="module")
def embedder(model_directory: Path) -> OnnxEmbedder:
    return OnnxEmbedder.load(EmbeddingConfig(), model_directory)


@pytest.mark.parametrize(
    ("one", "other", "cosine"),
    [
        ("What's my budget for the trip?", "User's budget for Hawaii is $10,000", 0.51),
        ("What's my budget?", "User has $10K budget for trip", 0.45),
        ("Where do I live?", "User lives in Berlin", 0.31),
        ("What's my name?", "User's name is Alice", 0.41),
        ("What do I do for work?", "User is a nurse at St Mary hospital", 0.13),
        ("Recommend me a restaurant for dinner", "User is allergic to peanuts", 0.03),
        ("What's the capital of France?", "User lives in Paris", 0.43),
        ("User's budget for Hawaii is $10,000", "User's budget for Hawaii is $15,000", 0.94),
        ("User lives in Berlin", "User lives in Munich", 0.785),
    ],
)
async def test_similarities_are_those_of_the_published_model(
    embedder: OnnxEmbedder, one: str, other: str, cosine: float
) -> None:
    """The expected values are those of the float32 model; int8 may move one by 0.05."""
    assert await embedder.embed_query(one) @ await embedder.embed_query(other) == pytest.approx(cosine, abs=0.05)


async def test_a_text_has_one_vector_whatever_it_is_embedded_with(embedder: OnnxEmbedder) -> None:
    texts = ["User lives in Berlin", LONG, "", "User prefers dark mode"]
    together = await embedder.embed_passages(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(await embedder.embed_query(text), vector)


async def test_threads_may_share_an_embedder(embedder: OnnxEmbedder) -> None:
    texts = [f"User has {count} cats" for count in range(20)]
    expected = await embedder.embed_passages(texts)
    found: dict[int, Sequence[Vector]] = {}

    def embed(number: int) -> None:
        async def queries() -> list[Vector]:
            return [await embedder.embed_query(text) for text in texts]

        found[number] = asyncio.run(queries())

    threads = [threading.Thread(target=embed, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(found) == [0, 1, 2, 3]
    for vectors in found.values():
        assert np.array_equal(vectors, expected)


@pytest.mark.parametrize("words", [5, 2_000], ids=["short", "long"])
async def test_the_loop_turns_while_a_query_is_embedded(embedder: OnnxEmbedder, words: int) -> None:
    assert await _turns_of_the_loop_during(embedder.embed_query("a " * words)) > 1


async def test_the_loop_turns_while_passages_are_embedded(embedder: OnnxEmbedder) -> None:
    assert await _turns_of_the_loop_during(embedder.embed_passages([f"short {number}" for number in range(32)])) > 1


async def test_a_long_query_does_not_wait_for_passages(embedder: OnnxEmbedder) -> None:
    passages = asyncio.ensure_future(embedder.embed_passages([f"{number} {LONG}" for number in range(40)]))
    await asyncio.sleep(0)
    await embedder.embed_query(LONG)
    assert not passages.done()
    await passages


async def test_a_deadline_is_kept(embedder: OnnxEmbedder) -> None:
    """The cancellation is not mistaken for a failure of the model."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await embedder.embed_passages([f"late {number} {LONG}" for number in range(8)])


async def _turns_of_the_loop_during(work: object) -> int:
    """One when it was done without ever giving the loop back; more, by however little, when it was done elsewhere."""
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns
