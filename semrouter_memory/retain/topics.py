"""Watches the topics of sessions: each turn is embedded once, and what follows from the vectors is decided in `drift`."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

from semrouter_memory.errors import UnavailableError
from semrouter_memory.model import Claim, LoggedTurn, Vector
from semrouter_memory.ports import Embedder
from semrouter_memory.retain.drift import WINDOW, last_change, says_something
from semrouter_memory.retain.passages import beginning, reads_all

_MAX_VECTORS = 2_048
"""Turns whose vectors are kept: 1.5 KB each."""
_MAX_CHARS = 1_000
"""Of a turn; the beginning says what it is about."""


class TopicWatch:
    """Tells whether a session's waiting turns have left its topic.

    Args:
        similarity: see `RetainConfig.drift_similarity`.
    """

    def __init__(self, embedder: Embedder, *, similarity: float) -> None:
        self._embedder = embedder
        self._similarity = similarity
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

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
        new = [turn for turn in turns if turn.id not in self._vectors]
        if new:
            fits = reads_all(self._embedder)
            vectors = await self._embedder.embed_passages(
                [beginning(turn.user_text[:_MAX_CHARS], fits) for turn in new]
            )
            self._vectors.update((turn.id, vector) for turn, vector in zip(new, vectors, strict=True))
        for turn in turns:
            self._vectors.move_to_end(turn.id)
        found = [self._vectors[turn.id] for turn in turns]
        while len(self._vectors) > _MAX_VECTORS:
            self._vectors.popitem(last=False)
        return found


def _last_telling(turns: Sequence[LoggedTurn]) -> list[LoggedTurn]:
    """The last turns that say something, oldest first."""
    telling = (turn for turn in reversed(turns) if says_something(turn.user_text))
    return list(islice(telling, WINDOW))[::-1]
