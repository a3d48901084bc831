"""The embedder for tests is deterministic and puts texts with common words near each other."""

import numpy as np
import pytest

from tests.hashed import HashedEmbedder

QUERY = "What is the budget for the Hawaii trip?"
NEAR = "User's budget for the Hawaii trip is $10,000"
FAR = "A dog named Rex sleeps under my desk"


async def test_texts_with_common_words_are_nearer_than_others() -> None:
    embedder = HashedEmbedder()
    query = await embedder.embed_query(QUERY)
    near, far = await embedder.embed_passages([NEAR, FAR])
    assert query @ near > 0.6
    assert abs(query @ far) < 0.3


async def test_inflected_words_are_near() -> None:
    embedder = HashedEmbedder()
    assert await embedder.embed_query("budgets") @ await embedder.embed_query("budget") > 0.3


async def test_case_and_punctuation_do_not_matter() -> None:
    embedder = HashedEmbedder()
    assert await embedder.embed_query("Berlin!") @ await embedder.embed_query("berlin") == pytest.approx(1)


async def test_vectors_are_the_same_on_every_machine() -> None:
    """Python's own hash differs between processes; these components are written down."""
    vector = await HashedEmbedder(dimension=8).embed_query("dark mode")
    assert vector.tolist() == pytest.approx(
        [0.294884, 0.0, 0.147442, 0.0, -0.294884, 0.884652, 0.147442, 0.0], abs=1e-6
    )


async def test_dimension_is_as_asked() -> None:
    embedder = HashedEmbedder(dimension=16)
    assert embedder.dimension == len(await embedder.embed_query("a")) == 16
    assert embedder.fingerprint != HashedEmbedder().fingerprint


async def test_a_text_without_words_has_a_direction() -> None:
    assert np.linalg.norm(await HashedEmbedder().embed_query("?!")) == pytest.approx(1)


def test_a_token_is_a_word() -> None:
    assert HashedEmbedder().count_tokens("User's name is Alice.") == 5
