"""The real embedding model, built once per checkout."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.build import build_model
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.model import Vector
from semrouter_memory.ports import Embedder

_DIRECTORY = Path(os.environ.get("SEMROUTER_MEMORY_TEST_MODEL", Path(__file__).parents[1] / ".cache" / "model"))
_QUERIES: dict[str, Vector] = {}


@pytest.fixture(scope="session")
def model_directory() -> Path:
    """Holds the int8 all-MiniLM-L6-v2; SEMROUTER_MEMORY_TEST_MODEL puts it elsewhere than into `.cache/model`.

    Without a way to download the weights the test is skipped on a laptop and fails in CI.
    """
    with _one_at_a_time(_DIRECTORY):
        try:
            return build_model(_DIRECTORY, progress=print).directory
        except ConfigurationError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no embedding model: {error}")


@pytest.fixture(scope="module")
def embedder(model_directory: Path) -> Embedder:
    return _EmbeddingOnce.load(EmbeddingConfig(), model_directory)


class _EmbeddingOnce(OnnxEmbedder):
    """Embeds each question once, and each of the sentences that relevance is measured against."""

    async def embed_query(self, text: str) -> Vector:
        if text not in _QUERIES:
            _QUERIES[text] = await super().embed_query(text)
        return _QUERIES[text]


@contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Test runs side by side wait for the first one to build."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
