"""Memories that a store found, seen as a shelf: the nearest stand for all. Pure.

Strategy: an owner with very many memories, or one who was away, is asked of the store, which gives a few dozen. The
same formula ranks them; the statistics of words are those of the few, which is why the store should find by words too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language import bm25
from semrouter_memory.language.bm25 import TermIndex
from semrouter_memory.model import Hit, Memory, Scope, Vector
from semrouter_memory.recall.evidence import Floats
from semrouter_memory.recall.standing import standing_of

# While a request waits: what a long memory is about, its beginning says.
_INDEXED_CHARS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class FoundMemories:
    """Implements `MemoryShelf` for one question: the similarities are those with the vector that was searched for."""

    hits: Sequence[Hit]
    words: TermIndex

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def created_at(self) -> NDArray[np.int64]:
        return np.array([hit.memory.created_at.timestamp() * 1e6 for hit in self.hits], dtype=np.int64)

    @property
    def marks(self) -> NDArray[np.uint16]:
        return np.array([standing_of(hit.memory) for hit in self.hits], dtype=np.uint16)

    def positions(self, *_: Scope, **__: object) -> NDArray[np.intp]:
        """All: the store has looked at scope, expiry and type."""
        return np.arange(len(self.hits))

    def similarities(self, _: Vector) -> Floats:
        return np.array([hit.similarity for hit in self.hits], dtype=np.float32)

    def lexical(self, terms: Sequence[str]) -> Floats:
        return self.words.scores(terms)

    def shares(self, terms: Sequence[str]) -> Floats:
        return self.words.shares(terms)

    def memory(self, position: int) -> Memory:
        return self.hits[position].memory


def found(hits: Iterable[Hit]) -> FoundMemories:
    """The shelf of these hits, each memory once."""
    once = {hit.memory.id: hit for hit in hits}
    ordered = sorted(once.values(), key=lambda hit: (hit.memory.created_at, hit.memory.id))
    return FoundMemories(ordered, bm25.build([hit.memory.searched[:_INDEXED_CHARS] for hit in ordered]))
