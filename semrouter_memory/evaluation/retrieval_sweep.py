"""The same queries with other thresholds, because a threshold is chosen by looking at what it costs and what it gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semrouter_memory.evaluation.retrieval_figures import Asked, Injected, injected_of
from semrouter_memory.model import Vector
from semrouter_memory.ports import Embedder

_STEPS = 20
THRESHOLDS = tuple(step / _STEPS for step in range(_STEPS + 1))


@dataclass(frozen=True, slots=True)
class Point:
    """What a threshold gives."""

    threshold: float
    injected: Injected


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One file's sweep, and what was asked with the configured threshold."""

    file: str
    points: Sequence[Point]
    asked: Sequence[Asked]
    configured: float


def points_of(asked: Mapping[float, Sequence[Asked]]) -> list[Point]:
    """The points of a sweep, from what was asked with each threshold."""
    return [Point(threshold, injected_of(of_threshold)) for threshold, of_threshold in asked.items()]


class CachingEmbedder:
    """Same as the `Embedder` it is given, but a query is embedded once, however often it is asked."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._queries: dict[str, Vector] = {}

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    async def embed_query(self, text: str) -> Vector:
        if text not in self._queries:
            self._queries[text] = await self._embedder.embed_query(text)
        return self._queries[text]

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embedder.embed_passages(texts)

    def count_tokens(self, text: str) -> int:
        return self._embedder.count_tokens(text)

    @property
    def max_passage_tokens(self) -> int:
        return self._embedder.max_passage_tokens

    def passage_tokens(self, text: str) -> int:
        return self._embedder.passage_tokens(text)
