"""BM25 over some thousand texts at a time, compact and immutable. Pure.

Strategy: an inverted index in a few flat arrays. A term is a 64-bit hash (two terms of one owner share one about once in
a billion indexes); postings lie sorted by (term, text), so a query term is a binary search and a slice. What a posting adds
to its text's score does not depend on the query, so it is computed with the index. Scores are those
of Robertson & Zaragoza 2009 (k1 1.2, b 0.4) with Lucene's idf, which is never negative (N counts as 20 at least):

    sum over the query's terms of  ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * length / mean length))

A term that a query repeats counts as often. There is no factor k1 + 1: it changes no order. Memories are all short, so
their lengths say less than those of documents do: with b 0.4 a percent more is found among the first five than with 0.75.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.terms import search_terms

K1 = 1.2
B = 0.4

_ScalarT = TypeVar("_ScalarT", bound=np.generic)
_Postings = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint8]]
"""Term, text, how often; sorted by (term, text)."""

_LEAST_TEXTS = 20
"""Among fewer, a term's rarity is counted as among so many: the only memory there is holds rare terms all the same."""

_MOST = 255
"""A term's frequency within a text and a text's length are stored up to here, and up to the square of it."""
_LONGEST = 65_535


@dataclass(frozen=True, slots=True, eq=False)
class TermIndex:
    """An index of texts, by their positions.

    Attributes:
        hashes: the terms, ascending.
        starts: where each term's postings begin; one more at the end.
        texts: of each posting, which text.
        counts: of each posting, how often the text holds the term.
        weights: of each posting, what it adds to the score of its text.
        lengths: of each text, how many terms it has.
    """

    hashes: NDArray[np.uint64]
    starts: NDArray[np.uint32]
    texts: NDArray[np.uint32]
    counts: NDArray[np.uint8]
    weights: NDArray[np.float32]
    lengths: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        arrays = (self.hashes, self.starts, self.texts, self.counts, self.weights, self.lengths)
        return sum(array.nbytes for array in arrays)

    def find(self, terms: Sequence[str]) -> list[slice]:
        """Where the postings of each term are; an empty slice for a term that no text holds.

        All terms of a query at once: calls of numpy are what a query costs, whatever the number of memories.
        """
        if not len(self.hashes):
            return [slice(0, 0)] * len(terms)
        wanted = np.fromiter(map(term_hash, terms), np.uint64, len(terms))
        places = np.searchsorted(self.hashes, wanted)
        places[places == len(self.hashes)] = 0
        ends = self.starts[places + (self.hashes[places] == wanted)]
        return list(map(slice, self.starts[places].tolist(), ends.tolist()))

    def scores(self, postings: Sequence[slice]) -> NDArray[np.float32]:
        """How well each text answers the terms with these postings; 0 for those that hold none of them."""
        texts, weights = self.texts_at(postings), _joined(self.weights, postings)
        return np.bincount(texts, weights, len(self)).astype(np.float32)

    def texts_at(self, postings: Sequence[slice]) -> NDArray[np.uint32]:
        """The texts of these postings."""
        return _joined(self.texts, postings)

    def changed(
        self, moved: NDArray[np.intp], hashes: NDArray[np.uint64], lengths: NDArray[np.int64], places: NDArray[np.intp]
    ) -> "TermIndex":
        """Another index: texts that stay, at other positions, and further ones.

        Args:
            moved: of each of this index's texts, its new position, -1 for one that leaves; ascending but for those.
            hashes: the terms of the further texts, as `of_hashes` takes them.
            lengths: same.
            places: the positions of the further texts. All positions together are 0 to their number.
        """
        stays = moved >= 0
        new, new_lengths = _hashed_postings(hashes, lengths, places)
        all_lengths = np.empty(int(stays.sum()) + len(places), dtype=np.uint16)
        all_lengths[moved[stays]] = self.lengths[stays]
        all_lengths[places] = new_lengths
        texts = moved[self.texts]
        stay = texts >= 0
        remaining = (
            np.repeat(self.hashes, np.diff(self.starts))[stay],
            texts[stay].astype(np.uint32),
            self.counts[stay],
        )
        return _indexed(_merged(remaining, new) if len(new[0]) else remaining, all_lengths)


def build(texts: Sequence[str]) -> TermIndex:
    """The index of these texts."""
    return of_hashes(*hashed(texts))


def hashed(texts: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """What `of_hashes` takes."""
    every = [[term_hash(term) for term in search_terms(text)] for text in texts]
    lengths = np.fromiter(map(len, every), np.int64, len(every))
    return np.fromiter(chain.from_iterable(every), np.uint64, int(lengths.sum())), lengths


def of_hashes(hashes: NDArray[np.uint64], lengths: NDArray[np.int64]) -> TermIndex:
    """The index of texts whose terms are hashed already.

    Args:
        hashes: `term_hash` of the terms of the first text, then of the second and so on.
        lengths: of each text, how many terms it has.
    """
    return _indexed(*_hashed_postings(hashes, lengths, np.arange(len(lengths))))


@lru_cache(32_768)
def term_hash(term: str) -> int:
    """64 bits, the same in every process."""
    return int.from_bytes(blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def _hashed_postings(
    every: NDArray[np.uint64], lengths: NDArray[np.int64], places: NDArray[np.intp]
) -> tuple[_Postings, NDArray[np.uint16]]:
    """The texts' postings, and how many terms each of them has."""
    where = np.repeat(np.asarray(places, dtype=np.uint32), lengths)
    order = np.lexsort((where, every))
    every, where = every[order], where[order]
    first = np.ones(len(every), dtype=np.bool_)
    first[1:] = (every[1:] != every[:-1]) | (where[1:] != where[:-1])
    at = np.flatnonzero(first)
    counts = np.minimum(np.diff(at, append=len(every)), _MOST).astype(np.uint8)
    return (every[at], where[at], counts), np.minimum(lengths, _LONGEST).astype(np.uint16)


def _merged(remaining: _Postings, new: _Postings) -> _Postings:
    """Both, in order. The new ones are few as a rule, and sorting all again would take most of the time of a write."""
    (hashes, texts, counts), (new_hashes, new_texts, new_counts) = remaining, new
    places = np.searchsorted(hashes, new_hashes, side="left")
    ends = np.searchsorted(hashes, new_hashes, side="right")
    for at in np.flatnonzero(places < ends):
        places[at] += np.searchsorted(texts[places[at] : ends[at]], new_texts[at])
    return (
        np.insert(hashes, places, new_hashes),
        np.insert(texts, places, new_texts),
        np.insert(counts, places, new_counts),
    )


def _joined(values: NDArray[_ScalarT], parts: Sequence[slice]) -> NDArray[_ScalarT]:
    found = [values[part] for part in parts if part.start < part.stop]
    return np.concatenate(found) if found else values[:0]


def _indexed(postings: _Postings, lengths: NDArray[np.uint16]) -> TermIndex:
    hashes, texts, counts = postings
    first = np.ones(len(hashes), dtype=np.bool_)
    first[1:] = hashes[1:] != hashes[:-1]
    starts = np.append(np.flatnonzero(first), len(hashes)).astype(np.uint32)
    return TermIndex(hashes[first], starts, texts, counts, _weights(starts, texts, counts, lengths), lengths)


def _weights(
    starts: NDArray[np.uint32], texts: NDArray[np.uint32], counts: NDArray[np.uint8], lengths: NDArray[np.uint16]
) -> NDArray[np.float32]:
    sizes = np.diff(starts)
    idf = np.log1p((max(len(lengths), _LEAST_TEXTS) - sizes + 0.5) / (sizes + 0.5))
    steep = K1 * B * len(lengths) / max(int(lengths.sum()), len(lengths), 1)
    weights = np.repeat(idf, sizes) * (counts / (counts + (K1 * (1 - B) + steep * lengths[texts])))
    return weights.astype(np.float32)
