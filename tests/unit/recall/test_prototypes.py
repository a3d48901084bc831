"""What a request resembles: general knowledge, small talk, a question about oneself, a wish."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.recall.prototypes import Prototypes, embed_prototypes
from tests.hashed import HashedEmbedder


async def test_every_group_has_a_row_for_each_sentence() -> None:
    known = await embed_prototypes(HashedEmbedder(64))
    for group in (*np.split(known.kinds, known.ends[:-1]), known.background):
        assert group.shape[1] == 64
        assert len(group) >= 10
        assert np.allclose(np.linalg.norm(group, axis=1), 1, atol=1e-5)


def test_nearness_is_the_mean_of_the_nearest_two() -> None:
    rows = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0]], dtype=np.float32)
    far = -np.eye(2, dtype=np.float32)
    kinds = np.concatenate((rows, far, rows[2:], rows[:2]))
    intent = Prototypes(kinds, (4, 6, 8, 10), background=far).intent(np.array([1, 0], dtype=np.float32))
    assert (intent.general, intent.chat, intent.asking, intent.request) == pytest.approx((0.8, -0.5, -0.5, 0.8))


SAYS = {
    "What is the capital of Peru?": "general",
    "How do volcanoes erupt?": "general",
    "Thank you, that helped a lot": "chat",
    "Tell me another joke": "chat",
    "What's my brother's name?": "asking",
    "Where did I park my car?": "asking",
    "What can I make for lunch today?": "request",
    "Help me write an email to my landlord": "request",
}


async def test_the_real_model_tells_the_kinds_of_request_apart(model_directory: Path) -> None:
    embedder = OnnxEmbedder.load(EmbeddingConfig(), model_directory)
    known = await embed_prototypes(embedder)
    for text, kind in SAYS.items():
        intent = known.intent(await embedder.embed_query(text))
        assert max(("general", "chat", "asking", "request"), key=partial(getattr, intent)) == kind, text
