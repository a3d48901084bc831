"""What a store finds, with similarities that a test chooses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.bm25 import TermIndex, build
from semrouter_memory.model import Criteria, Hit, Memory, Vector
from semrouter_memory.recall.categories import categories_of


@dataclass(frozen=True, slots=True, eq=False)
class FoundIndex:
    """Implements `MemoryIndex`; the similarities are those of the hits, whatever they are compared with."""

    hits: Sequence[Hit]
    words: TermIndex

    @property
    def keys(self) -> NDArray[np.uint64]:
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(hit.memory.id, len(numbers)) for hit in self.hits], dtype=np.uint64)

    @property
    def created_at(self) -> NDArray[np.int64]:
        return np.array([hit.memory.created_at.timestamp() * 1e6 for hit in self.hits], dtype=np.int64)

    @property
    def labels(self) -> NDArray[np.uint16]:
        return np.array([categories_of(hit.memory) for hit in self.hits], dtype=np.uint16)

    def positions(self, _: Criteria) -> NDArray[np.intp]:
        """All: the store has looked at the criteria."""
        return np.arange(len(self.hits))

    def similarities(self, _: Vector) -> NDArray[np.float32]:
        return np.array([hit.similarity for hit in self.hits], dtype=np.float32)

    def memory(self, position: int) -> Memory:
        return self.hits[position].memory


def found_index(hits: Iterable[Hit]) -> FoundIndex:
    """The index of these hits, each memory or passage once."""
    once = {(hit.memory.id, hit.memory.passage): hit for hit in hits}
    ordered = sorted(once.values(), key=lambda hit: (hit.memory.created_at, hit.memory.id, hit.memory.passage))
    return FoundIndex(ordered, build([hit.memory.searched for hit in ordered]))
