"""Search of an organisation's documents: its passages by meaning and words, and whether the request asks for one.

Strategy: the store finds by vector and, where it can, by words; both are ranked by one learned model, whose probability is compared
with the threshold as a memory's relevance is. A request that asks for nothing of the kind reaches it with no passage, so there is
no rule for when documents are searched. How it does on documents left out: `docs/learned-decisions.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from semrouter_memory.config import KnowledgeConfig
from semrouter_memory.language.bm25 import build
from semrouter_memory.language.terms import search_terms
from semrouter_memory.learned import Features, Logistic, log_odds, probabilities
from semrouter_memory.model import Criteria, Hit, MemoryType, Scope
from semrouter_memory.ports import Clock, MemoryReader
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.strategy import best_first

FETCHED = 40
"""Passages that the store gives for meaning, and as many for words."""
_PASSAGES = frozenset({MemoryType.SEMANTIC})
_MOST_TERMS = 8.0
"""A longer request matches more words of any passage."""
_LEXICAL = 0.3
"""The worth of a BM25 score, by the number of words asked, against a cosine."""
_SHOWN_CUT = log_odds(0.6)
"""Relevance is shifted so that a passage on the cut has 0.6, the default threshold."""
_MODEL = Logistic.load("passages")


class DocumentSearch:
    """Finds passages for a request.

    Args:
        reader: the collection of documents.
        vectors: of the queries, shared with the other searches of a request.

    Attributes:
        limit: passages in a request at most.
        token_budget: their tokens at most.
        of_users: users have documents, too.
    """

    def __init__(self, *, reader: MemoryReader, vectors: QueryVectors, clock: Clock, config: KnowledgeConfig) -> None:
        self.limit = config.limit
        self.token_budget = config.token_budget
        self.of_users = config.user_documents
        self._reader = reader
        self._vectors = vectors
        self._clock = clock

    async def search(self, query: Query, owner: Scope, *, fresh: bool = False) -> list[Hit]:
        """The best passages, best first, each with its relevance.

        Raises:
            UnavailableError: the model or the store does not answer.
        """
        (vector,) = await self._vectors.get(query, query.search_text)
        criteria = Criteria(owner, active_at=self._clock.now(), types=_PASSAGES)
        found = await self._reader.search(criteria, vector, limit=FETCHED, fresh=fresh, text=query.search_words)
        return ranked(found, query)


def ranked(found: Sequence[Hit], query: Query) -> list[Hit]:
    """The same hits by relevance."""
    odds = [_MODEL.log_odds(each) - _MODEL.log_cut + _SHOWN_CUT for each in features(found, query)]
    relevances = probabilities(odds).tolist()
    return best_first(replace(hit, relevance=value) for hit, value in zip(found, relevances, strict=True))


def features(found: Sequence[Hit], query: Query) -> list[Features]:
    """What relevance is made of, for each passage."""
    if not found:
        return []
    asked = list(dict.fromkeys(search_terms(query.search_words)))
    index = build([hit.memory.searched for hit in found])
    postings = index.find(asked)
    lexical = index.scores(postings) / min(max(len(asked), 1.0), _MOST_TERMS)
    cosine = np.array([hit.similarity for hit in found])
    score = cosine + _LEXICAL * lexical
    behind = score - score.max()
    return [
        {
            "score": float(score[at]),
            "behind": float(behind[at]),
            "lexical": float(lexical.max()),
            "personal": float(query.is_personal),
            "length": math.log1p(len(asked)),
        }
        for at in range(len(found))
    ]
