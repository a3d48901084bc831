"""What a memory may be as long as: what the embedding model reads of it. Nothing is stored whose end has no vector. Pure.

Strategy. A text that is too long keeps its first sentences, as many as fit. A sentence is not cut: without its end it may
say something else ("unless ..."). A single one that is too long is refused.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import EmbeddedMemory, Memory
from semrouter_memory.ports import Embedder

Fits = Callable[[str], bool]
"""Whether the model reads all of a text."""

_SEPARATORS = " \n;；"


def reads_all(embedder: Embedder) -> Fits:
    """Whether this model does. A long text takes milliseconds for every thousand characters."""
    most = embedder.max_passage_tokens
    # A token of plain ASCII has one character at least; one token may stand for the text's beginning.
    return lambda text: (text.isascii() and len(text) < most) or embedder.passage_tokens(text) <= most


async def embedded(embedder: Embedder, memories: Sequence[Memory]) -> list[EmbeddedMemory]:
    """The memories with their vectors; that of a long one is its beginning's. What was embedded a moment ago is in the model's cache.

    Raises:
        UnavailableError: the model does not answer.
    """
    fits = reads_all(embedder)
    texts = [beginning(embedded_text(memory), fits) for memory in memories]
    vectors = await embedder.embed_passages(texts) if texts else ()
    return [EmbeddedMemory(*row) for row in zip(memories, vectors, strict=True)]


def fitted(text: str, fits: Fits) -> str:
    """The text, or as many of its first sentences as fit; "" when the first does not."""
    if fits(text):
        return text
    # What ends with a semicolon is cut as a sentence is.
    ends = list(accumulate(map(len, sentences(text.replace(";", ".").replace("；", "。")))))
    beginnings = (text[:end].rstrip(_SEPARATORS) for end in reversed(ends[:-1]))
    return next((beginning for beginning in beginnings if beginning and fits(beginning)), "")


def beginning(text: str, fits: Fits) -> str:
    """A beginning that fits: to compare with, not to be found by."""
    while text and not fits(text):
        text = text[: len(text) // 2]
    return text
