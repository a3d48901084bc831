"""Watches the topics of sessions, and decides whether a conversation has changed its topic.

Strategy. Each turn is embedded once. A topic is the mean of its turns' vectors. One turn that is unlike it may be an aside;
a second one in a row, when the topic has had a few turns to be one, is a change, and the two begin the next topic. Turns
that say little ("ok thanks", "and the second one?") are near nothing and count for nothing.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from cachetools import LRUCache

from semrouter_memory.errors import UnavailableError
from semrouter_memory.language.phrases import words_of
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.words import content_words
from semrouter_memory.model import Claim, LoggedTurn, Vector
from semrouter_memory.ports import Embedder
from semrouter_memory.retain.passages import beginning, reads_all

_MAX_VECTORS = 2_048
"""Turns whose vectors are cached: 1.5 KB each."""
_MAX_CHARS = 1_000
"""Of a turn; the beginning says what it is about."""

WINDOW = 12
"""Turns that are looked at: the last ones that say something."""
_SETTLED = 3
"""Turns that make a topic one that can be left."""
_IN_A_ROW = 2
_MIN_WORDS = 2
_MIN_CHINESE = 6
_READ_CHARS = 2_000


class TopicWatch:
    """Tells whether a session's waiting turns have left its topic.

    Args:
        similarity: see `RetainConfig.drift_similarity`.
    """

    def __init__(self, embedder: Embedder, *, similarity: float) -> None:
        self._embedder = embedder
        self._similarity = similarity
        self._vectors: LRUCache[str, Vector] = LRUCache(_MAX_VECTORS)

    async def changed(self, claim: Claim) -> bool:
        """Whether the last change of topic is among the waiting turns. What cannot be embedded has not changed."""
        turns = _last_telling((*claim.context, *claim.turns))
        try:
            vectors = await self._embedded(turns)
        except UnavailableError:
            return False
        place = last_change(vectors, self._similarity)
        return place is not None and turns[place].id in {turn.id for turn in claim.turns}

    async def _embedded(self, turns: Sequence[LoggedTurn]) -> list[Vector]:
        known = {turn.id: self._vectors[turn.id] for turn in turns if turn.id in self._vectors}
        if new := [turn for turn in turns if turn.id not in known]:
            fits = reads_all(self._embedder)
            vectors = await self._embedder.embed_passages(
                [beginning(turn.user_text[:_MAX_CHARS], fits) for turn in new]
            )
            known |= zip((turn.id for turn in new), vectors, strict=True)
            self._vectors.update(known)
        return [known[turn.id] for turn in turns]


def _last_telling(turns: Sequence[LoggedTurn]) -> list[LoggedTurn]:
    """The last turns that say something, oldest first."""
    telling = (turn for turn in reversed(turns) if says_something(turn.user_text))
    return list(islice(telling, WINDOW))[::-1]


def says_something(text: str) -> bool:
    """Whether a turn's words say enough to tell its topic."""
    text = text[:_READ_CHARS]
    telling = {*content_words(text)} - words_of("about_answers")
    return sum(word.isalpha() for word in telling) >= _MIN_WORDS or len(CJK.findall(text)) >= _MIN_CHINESE


def last_change(vectors: Sequence[Vector], similarity: float) -> int | None:
    """The place of the turn that completed the last change of topic, None when there was none.

    Args:
        vectors: of the turns that say something, oldest first.
        similarity: the cosine to the topic below which a turn is unlike it.
    """
    topic: list[Vector] = []
    unlike: list[Vector] = []
    changed: int | None = None
    for place, vector in enumerate(vectors):
        if len(topic) < _SETTLED or _cosine(vector, topic) >= similarity:
            topic.append(vector)
            unlike = []
            continue
        unlike.append(vector)
        if len(unlike) == _IN_A_ROW:
            topic, unlike, changed = unlike, [], place
    return changed


def _cosine(vector: Vector, topic: Sequence[Vector]) -> float:
    mean = np.mean(topic, axis=0)
    length = float(np.linalg.norm(mean))
    return float(mean @ vector) / length if length else 0.0
