"""The features that relevance is made of: one value for the query, one table for the candidates. Pure.

Strategy: the same columns whether all of the owner's memories are indexed or only the nearest that a store found. No memory is
decoded here, so thousands of them cost a fraction of a millisecond. The features of words come first: they are extracted while the
model embeds the query.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.bm25 import TermIndex
from semrouter_memory.language.phrases import begins, phrases
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.terms import search_terms
from semrouter_memory.language.words import tokens
from semrouter_memory.model import Hit, Memory, Period, Vector
from semrouter_memory.ports import MemoryIndex
from semrouter_memory.recall import wants
from semrouter_memory.recall.categories import Need, need_of
from semrouter_memory.recall.prototypes import Intent
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.time_expressions import period_of

Floats = NDArray[np.float32]

# How much of the lexical score of the memory so many positions before, and after, counts: an answer follows its question,
# and what was said around a match is often what was meant.
_NEIGHBOURS = ((1, 0.7, 0.4), (2, 0.5, 0.35))
_TOGETHER_MICROSECONDS = 600 * 1_000_000
"""Memories this close in time are of one conversation."""
_LONGEST_PERIOD = timedelta(days=120)


_NO_INTENT = Intent()


def _not_embedded() -> Floats:
    return np.empty(0, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class QueryFeatures:
    """What is known of a query.

    Attributes:
        text: what the user asked.
        terms: of the text that is searched for; of a long message, of what it asks.
        need: what the request needs, by its words.
        impersonal: it has the form of a question of general knowledge, and no first person.
        chinese: it has Chinese characters, of which the default model knows few.
        wants: log-odds that it wants anything that is known of the user.
        names: index terms of each rare word.
        period: that it speaks of.
        vector: of the text that is searched for; empty until that is embedded.
        intent: of the request; the same.
    """

    text: str
    terms: tuple[str, ...]
    need: Need
    personal: bool
    impersonal: bool
    chinese: bool
    wants: float
    names: tuple[tuple[str, ...], ...]
    period: Period | None = None
    vector: Vector = field(default_factory=_not_embedded)
    intent: Intent = _NO_INTENT

    @classmethod
    def of(cls, query: Query) -> "QueryFeatures":
        """The features that words tell."""
        asked, personal = query.asked, query.is_personal
        words = dict.fromkeys(search_terms(query.said if query.is_long else query.search_words))
        chinese = bool(CJK.search(query.text))
        return cls(
            text=query.text,
            terms=tuple(words),
            need=need_of(asked),
            personal=personal,
            impersonal=not personal and _is_general(asked) and not query.follows_up,
            chinese=chinese,
            wants=wants.by_words(asked, query.history, chinese=chinese),
            names=wants.named(asked, chinese=chinese),
            period=period_of(asked, query.now),
        )

    def embedded(self, vector: Vector, intent: Intent, *, known_names: int) -> "QueryFeatures":
        """With what the model tells.

        Args:
            known_names: how many of the names occur in memories.
        """
        form = {"impersonal": self.impersonal, "chinese": self.chinese}
        by_names = wants.by_names(known_names, len(self.names) - known_names, **form, needs=bool(self.need))
        by_meaning = wants.by_meaning(vector, intent, personal=self.personal, **form)
        return replace(self, vector=vector, intent=intent, wants=self.wants + by_names + by_meaning)

    @property
    def is_task(self) -> bool:
        """Whether the model is to say something of its own: neither small talk nor a question about the user."""
        intent = self.intent
        small_talk = intent.chat > max(intent.general, intent.asking, intent.request)
        about_the_user = self.personal and intent.asking > max(intent.general, intent.request)
        return not (small_talk or about_the_user)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CandidateFeatures:
    """The memories that may be recalled, one row each.

    Attributes:
        index: where they are, at these `positions`.
        lexical: BM25 with the query's terms.
        nearby: the same of the memories written just before and after, weighted.
        labels: `MemoryCategory` of each.
        timely: whether the memory was written in the period that the query speaks of; None: it speaks of none.
        known_names: how many of the query's names occur in one of them.
        similarity: the cosine, -1..1; empty until the query is embedded.
    """

    index: MemoryIndex
    positions: NDArray[np.intp]
    lexical: Floats
    nearby: Floats
    labels: NDArray[np.uint16]
    timely: NDArray[np.bool_] | None = None
    known_names: int = 0
    similarity: Floats = field(default_factory=_not_embedded)

    @classmethod
    def of(cls, index: MemoryIndex, positions: NDArray[np.intp], query: QueryFeatures) -> "CandidateFeatures":
        """The features that words and times tell."""
        words, created_at = index.words, index.created_at
        selected = _selection(index, positions)
        named = tuple(chain.from_iterable(query.names))
        found = iter(words.find((*query.terms, *named)))
        lexical = words.scores([*islice(found, len(query.terms))])[selected]
        known_names = _known_names(
            words, selected, [[*islice(found, len(name))] for name in query.names], together=query.chinese
        )
        return cls(
            index=index,
            positions=positions,
            lexical=lexical,
            # Among the candidates only: a memory of another project, or an expired one, is no neighbour.
            nearby=_nearby(lexical, created_at[selected]),
            labels=index.labels[selected],
            timely=_timely(query.period, created_at[selected]),
            known_names=known_names,
        )

    def compared(self, vector: Vector) -> "CandidateFeatures":
        """With the memories' similarity to that vector."""
        return replace(self, similarity=self.index.similarities(vector)[_selection(self.index, self.positions)])

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def keys(self) -> NDArray[np.uint64]:
        """`MemoryIndex.keys` of each."""
        return self.index.keys[_selection(self.index, self.positions)]

    def columns(self, rows: Sequence[int] | NDArray[np.intp]) -> dict[str, Floats]:
        """The features of these rows by name."""
        timely = {} if self.timely is None else {"timely": self.timely[rows].astype(np.float32)}
        return {
            "similarity": self.similarity[rows],
            "lexical": self.lexical[rows],
            "nearby": self.nearby[rows],
            **timely,
        }

    def hits(self, rows: Sequence[int] | NDArray[np.intp], relevances: Floats) -> list[Hit]:
        """The memories of these rows, each with its relevance."""
        positions, similarities = self.positions[rows].tolist(), self.similarity[rows].tolist()
        ranked = zip(positions, similarities, relevances.tolist(), strict=True)
        return [_IndexedHit.of(self.index, *each) for each in ranked]


class _IndexedHit(Hit):
    """A hit whose memory is decoded when it is first asked for: most are too far from the question to be looked at."""

    __slots__ = ("_index", "_position")
    _index: MemoryIndex
    _position: int

    @classmethod
    def of(cls, index: MemoryIndex, position: int, similarity: float, relevance: float) -> "_IndexedHit":
        hit = cls.__new__(cls)
        for name, value in zip(_HIT_FIELDS, (index, position, similarity, relevance), strict=True):
            object.__setattr__(hit, name, value)
        return hit

    def __getattr__(self, name: str) -> Memory:
        """Called for `memory` alone, as long as it is not set."""
        if name != "memory":
            raise AttributeError(name)
        memory = self._index.memory(self._position)
        object.__setattr__(self, "memory", memory)
        # Hits are stored for a while, and the index may be replaced.
        object.__setattr__(self, "_index", None)
        return memory


_HIT_FIELDS = ("_index", "_position", "similarity", "relevance")


def _is_general(asked: str) -> bool:
    """Whether it has the form of a question of general knowledge."""
    return begins(tokens(asked), phrases("general_forms")) or phrases("general_forms_zh").occur_in(asked)


def _known_names(
    words: TermIndex, selected: slice | NDArray[np.intp], names: Sequence[Sequence[slice]], *, together: bool
) -> int:
    """How many of the names, given by the postings of their terms, occur in these memories; together: in one of them."""
    if together:
        counts = np.zeros(len(words), dtype=np.uint16)
        for name in names:
            counts[words.texts_at(name)] += np.uint16(1)
        return int(counts[selected].max(initial=0))
    if isinstance(selected, slice):
        return sum(any(part.start < part.stop for part in name) for name in names)
    shown = np.zeros(len(words), dtype=np.bool_)
    shown[selected] = True
    return sum(bool(shown[words.texts_at(name)].any()) for name in names)


def _selection(index: MemoryIndex, positions: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """As a rule these are all positions, and there is nothing to select."""
    return slice(None) if len(positions) == len(index.created_at) else positions


def _timely(period: Period | None, created_at: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Whether each was written in the period; None for no period, and for a very long one, which tells nothing."""
    if period is None or period.end - period.start > _LONGEST_PERIOD:
        return None
    return written_in(period, created_at)


def written_in(period: Period, created_at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each of these times, in microseconds, is in the period."""
    start, end = (int(moment.timestamp() * 1_000_000) for moment in (period.start, period.end))
    return (created_at >= start) & (created_at < end)


def _nearby(lexical: Floats, created_at: NDArray[np.int64]) -> Floats:
    nearby = np.zeros_like(lexical)
    if not lexical.any():
        return nearby
    for distance, before, after in _NEIGHBOURS:
        together = created_at[distance:] - created_at[:-distance] <= _TOGETHER_MICROSECONDS
        # Memories come one by one as a rule; the turns of a conversation do not.
        if together.any():
            nearby[distance:] += np.float32(before) * lexical[:-distance] * together
            nearby[:-distance] += np.float32(after) * lexical[distance:] * together
    return nearby
