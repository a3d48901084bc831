"""Prototype sentences (`prototypes.toml`) that a request and its similarities are measured against.

Strategy: a cosine means little by itself. How near a request is to questions of general knowledge, to small talk and to
questions about oneself says whether it needs memories at all; and how near it is to a few dozen everyday statements says
what a cosine of nothing in particular is for that request. They are embedded once, with whatever model is configured.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.phrases import lists, separated
from semrouter_memory.model import Vector
from semrouter_memory.ports import Embedder

_KINDS = ("general", "chat", "asking", "request")
"""As `Intent` has them."""
_NEAREST = 2


@dataclass(frozen=True, slots=True)
class Intent:
    """How near a request is to each kind: the mean cosine with the two nearest sentences."""

    general: float = 0.0
    chat: float = 0.0
    asking: float = 0.0
    request: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Prototypes:
    """The embedded sentences, one row each.

    Attributes:
        kinds: of requests, one kind after the other.
        ends: where each kind ends, in the order of `Intent`'s attributes.
        background: statements as memories are written, of no user.
    """

    kinds: NDArray[np.float32]
    ends: tuple[int, ...]
    background: NDArray[np.float32]

    def intent(self, vector: Vector) -> Intent:
        nearness = (self.kinds @ vector).tolist()
        return Intent(*(_nearest(nearness[start:end]) for start, end in pairwise((0, *self.ends))))


async def embed_prototypes(embedder: Embedder) -> Prototypes:
    """Embed the sentences: a tenth of a second, in another thread.

    Raises:
        UnavailableError: the model does not answer.
    """
    sentences = {name: separated(listed) for name, listed in lists("prototypes", __package__).items()}
    requests = [sentences[kind] for kind in _KINDS]
    return Prototypes(
        kinds=np.stack([await embedder.embed_query(text) for kind in requests for text in kind]),
        ends=tuple(accumulate(map(len, requests))),
        background=np.stack(await embedder.embed_passages(sentences["background"])),
    )


def _nearest(nearness: Sequence[float]) -> float:
    nearest = sorted(nearness)[-_NEAREST:]
    return sum(nearest) / len(nearest)


class LazyPrototypes:
    """The prototypes, embedded once, at the first call. A request that cannot wait leaves the result to the next."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._task: asyncio.Task[Prototypes] | None = None

    async def get(self) -> Prototypes:
        """Raises `UnavailableError`; the next call tries again."""
        if self._task is None or _failed(self._task):
            self._task = asyncio.create_task(embed_prototypes(self._embedder))
        if self._task.done():
            return self._task.result()
        return await asyncio.shield(self._task)


def _failed(task: asyncio.Task[Prototypes]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
