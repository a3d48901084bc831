"""The memories that a store found, as an index: they stand for all of the owner's. Pure.

Strategy: an owner with very many memories, or one who was away, is asked of the store, which gives a few dozen. The
same formula ranks them; the statistics of words are those of the few, which is why the store should find by words too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.bm25 import TermIndex, build
from semrouter_memory.model import Hit, Memory, Scope, Vector
from semrouter_memory.recall.categories import categories_of

# While a request waits: what a long memory is about, its beginning says.
_INDEXED_CHARS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class HitIndex:
    """Implements `MemoryIndex` for one question: the similarities are those with the vector that was searched for."""

    hits: Sequence[Hit]
    words: TermIndex

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def created_at(self) -> NDArray[np.int64]:
        return np.array([hit.memory.created_at.timestamp() * 1e6 for hit in self.hits], dtype=np.int64)

    @property
    def labels(self) -> NDArray[np.uint16]:
        return np.array([categories_of(hit.memory) for hit in self.hits], dtype=np.uint16)

    def positions(self, *_: Scope, **__: object) -> NDArray[np.intp]:
        """All: the store has looked at scope, expiry and type."""
        return np.arange(len(self.hits))

    def similarities(self, _: Vector) -> NDArray[np.float32]:
        return np.array([hit.similarity for hit in self.hits], dtype=np.float32)

    def lexical(self, terms: Sequence[str]) -> NDArray[np.float32]:
        return self.words.scores(terms)

    def shares(self, terms: Sequence[str]) -> NDArray[np.float32]:
        return self.words.shares(terms)

    def memory(self, position: int) -> Memory:
        return self.hits[position].memory


def hit_index(hits: Iterable[Hit]) -> HitIndex:
    """The index of these hits, each memory once."""
    once = {hit.memory.id: hit for hit in hits}
    ordered = sorted(once.values(), key=lambda hit: (hit.memory.created_at, hit.memory.id))
    return HitIndex(ordered, build([hit.memory.searched[:_INDEXED_CHARS] for hit in ordered]))
