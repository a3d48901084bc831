"""An embedder without a model: words and their letter trigrams, hashed into a vector.

Deterministic on every machine. Texts that share words are near each other, texts that share nothing are near
orthogonal; meaning plays no part.
"""

import re
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from semrouter_memory.model import Vector

_WORD = re.compile(r"\w+")
_WORD_WEIGHT, _TRIGRAM_WEIGHT = 1.0, 0.5


class HashedEmbedder:
    """Implements `ports.Embedder`; a token is a word."""

    def __init__(self, dimension: int = 384, *, max_passage_tokens: int = 1_000_000) -> None:
        self._dimension = dimension
        self._max_passage_tokens = max_passage_tokens

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def fingerprint(self) -> str:
        return f"hashed/{self._dimension}"

    async def embed_query(self, text: str) -> Vector:
        return self._embed(text)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        return [self._embed(text) for text in texts]

    def count_tokens(self, text: str) -> int:
        return len(_WORD.findall(text))

    @property
    def max_passage_tokens(self) -> int:
        return self._max_passage_tokens

    def passage_tokens(self, text: str) -> int:
        return self.count_tokens(text)

    def _embed(self, text: str) -> Vector:
        vector: Vector = np.zeros(self._dimension, dtype=np.float32)
        for feature, weight in _features(text):
            # A text with a lone surrogate must embed too, as it does with the real tokenizer.
            digest = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
            sign = 1 if digest & 1 else -1
            vector[(digest >> 1) % self._dimension] += sign * weight
        length = np.linalg.norm(vector)
        if not length:
            vector[0] = length = np.float32(1)
        normalised: Vector = vector / length
        return normalised


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(text.casefold()):
        yield word, _WORD_WEIGHT
        framed = f"^{word}$"
        for start in range(len(framed) - 2):
            yield framed[start : start + 3], _TRIGRAM_WEIGHT
