"""What every embedder promises (`ports.Embedder`)."""

from pathlib import Path

import numpy as np
import pytest

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.ports import Embedder
from tests.hashed import HashedEmbedder

pytest_plugins = ("tests.model_fixture",)

TEXTS = [
    pytest.param("What's my budget for the trip?", id="a question"),
    pytest.param("", id="empty"),
    pytest.param(" \t\n", id="white space"),
    pytest.param("我的预算是多少？", id="Chinese"),
    pytest.param("\ud83d alone", id="a lone surrogate"),
    pytest.param("\x00\x1f\ufffd\U0010ffff", id="control characters"),
    pytest.param("[CLS] [SEP] [PAD] [MASK]", id="special tokens"),
    pytest.param("word " * 20_000, id="100,000 characters"),
    pytest.param("x" * 20_000, id="one long word"),
]


@pytest.fixture(scope="module", params=["hashed", "onnx"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "hashed":
        return HashedEmbedder()
    directory: Path = request.getfixturevalue("model_directory")
    return OnnxEmbedder.load(EmbeddingConfig(), directory)


@pytest.mark.parametrize("text", TEXTS)
async def test_any_text_becomes_a_unit_vector(embedder: Embedder, text: str) -> None:
    query = await embedder.embed_query(text)
    assert query.shape == (embedder.dimension,)
    assert query.dtype == np.float32
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("text", TEXTS)
async def test_without_prefixes_query_and_passage_are_one(embedder: Embedder, text: str) -> None:
    assert np.array_equal(await embedder.embed_query(text), (await embedder.embed_passages([text]))[0])


async def test_passages_keep_their_order(embedder: Embedder) -> None:
    texts = ["User lives in Berlin", "No", "User is allergic to peanuts and to everything else", "User lives in Berlin"]
    vectors = await embedder.embed_passages(texts)
    assert len(vectors) == len(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.array_equal(await embedder.embed_query(text), vector)


async def test_no_passages_are_no_vectors(embedder: Embedder) -> None:
    assert await embedder.embed_passages([]) == []


async def test_a_passage_on_the_subject_is_nearer_than_another(embedder: Embedder) -> None:
    query = await embedder.embed_query("What is the budget for the trip?")
    near, far = await embedder.embed_passages(["The budget for the trip is $10,000", "Rex is a brown dog"])
    assert query @ near > query @ far + 0.3


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_of_any_text_are_counted(embedder: Embedder, text: str) -> None:
    assert embedder.count_tokens(text) >= 0
    assert embedder.count_tokens(text + " budget") == embedder.count_tokens(text) + 1


def test_fingerprint_is_a_short_constant(embedder: Embedder) -> None:
    assert 0 < len(embedder.fingerprint) < 64
    assert embedder.fingerprint == embedder.fingerprint.strip()


@pytest.mark.parametrize("text", TEXTS)
def test_the_tokens_of_a_passage_are_counted_to_its_end(embedder: Embedder, text: str) -> None:
    assert embedder.max_passage_tokens > 0
    assert embedder.passage_tokens(text) == embedder.count_tokens(text), "there is no prefix"
