"""Sizes of the injected block in the embedding model's tokens, in each format."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from semrouter_memory.model import Hit, RenderStyle
from semrouter_memory.recall.render import frame, line

# An active user's memories come again and again, and tokenising five of them costs as much as ranking all.
_COUNTED_LINES = 4096


class BlockSize:
    """Counts each line once.

    Args:
        count_tokens: of the embedding model.
    """

    def __init__(self, count_tokens: Callable[[str], int]) -> None:
        self._count = lru_cache(_COUNTED_LINES)(count_tokens)
        self._frames: dict[tuple[RenderStyle, bool], int] = {}

    def of_line(self, hit: Hit, style: RenderStyle) -> int:
        return self._count(line(hit, style))

    def of_frame(self, style: RenderStyle, *, of_documents: bool = False) -> int:
        """What a block has besides its memories, or besides its passages."""
        known = self._frames.get((style, of_documents))
        if known is None:
            known = self._frames[style, of_documents] = self._count(frame(style, of_documents=of_documents))
        return known

    def of_block(self, hits: Sequence[Hit], style: RenderStyle) -> int:
        """The size of the block of these hits."""
        passages = sum(hit.memory.form == "passage" for hit in hits)
        frames = self.of_frame(style) * (passages < len(hits)) + self.of_frame(style, of_documents=True) * (
            passages > 0
        )
        return frames + sum(self.of_line(hit, style) for hit in hits)
