"""What the embedding model reads of a memory, and the passages of one that is longer.

Strategy. A quote or statement that is too long keeps its first sentences, as many as fit. A sentence is not cut: without its
end it may say something else ("unless ..."). A single one that is too long is refused.

A memory that a caller stores is stored whole, and found by its passages. The writer of all memories adds these as rows of
their own, so code that writes, changes or replaces a memory need not know of them. Listings, exports and lookups show whole
memories only, searches find passages only, and a deletion takes the passages with it (`MemoryReader`, `MemoryWriter`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.splitting import Block, split
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import EPISODE, PASSAGE_COUNT, STATEMENTS, EmbeddedMemory, Hit, Memory, Reach, Scope
from semrouter_memory.ports import Embedder, MemoryReader, MemoryWriter

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


# -- long memories -----------------------------------------------------------------------------------------------------


_PASSAGE_TOKENS = 64
"""A few sentences: one that is asked for decides the vector, and several passages fit into a request's token budget."""
_OVERLAP_TOKENS = 24
_OF_THE_WHOLE = frozenset({STATEMENTS, EPISODE})


class SplittingWriter:
    """Implements `MemoryWriter` with another, to which it gives long memories with their passages."""

    def __init__(self, writer: MemoryWriter, embedder: Embedder) -> None:
        self._writer = writer
        self._embedder = embedder
        self._fits = reads_all(embedder)

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        """See `MemoryWriter`. The rows are whole memories."""
        await self._writer.upsert(scope, [each for row in rows for each in await self._with_passages(row)])

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        return await self._writer.delete(scope, memory_ids)

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        return await self._writer.delete_all(scope, reach)

    async def compact(self) -> None:
        await self._writer.compact()

    async def _with_passages(self, row: EmbeddedMemory) -> list[EmbeddedMemory]:
        """The passages, then the memory: a write that is broken off leaves no memory without them."""
        passages = await asyncio.to_thread(self._passages, row.memory)
        if not passages and not row.memory.passage_count:
            return [row]
        vectors = await self._embedder.embed_passages([embedded_text(each) for each in passages])
        return [
            *map(EmbeddedMemory, passages, vectors),
            *(EmbeddedMemory(each, row.vector) for each in _emptied(row.memory, len(passages))),
            replace(row, memory=_counted(row.memory, len(passages))),
        ]

    def _passages(self, memory: Memory) -> list[Memory]:
        """The passages of a memory; none for one that the model reads whole."""
        if self._fits(embedded_text(memory)):
            return []
        found = split(
            [Block(text) for text in memory.content.split("\n\n")],
            title=memory.context or memory.asked,
            limit=min(_PASSAGE_TOKENS, self._embedder.max_passage_tokens),
            overlap=_OVERLAP_TOKENS,
            count=self._embedder.passage_tokens,
        )
        part = _counted(memory, len(found)).noting(dict.fromkeys(_OF_THE_WHOLE))
        return [replace(part, content=each.text, passage=number) for number, each in enumerate(found, 1)]


def _counted(memory: Memory, passages: int) -> Memory:
    return memory.noting({PASSAGE_COUNT: passages or None})


def _emptied(memory: Memory, passages: int) -> list[Memory]:
    """What replaces the passages that a longer version of the memory had: nothing finds or shows them."""
    return [
        replace(memory, content="", passage=number, superseded_at=memory.updated_at, metadata={})
        for number in range(passages + 1, memory.passage_count + 1)
    ]


async def whole(reader: MemoryReader, scope: Scope, hits: Sequence[Hit]) -> list[Hit]:
    """The hits with the memory in place of its passages, each once."""
    ids = list(dict.fromkeys(hit.memory.id for hit in hits if hit.memory.passage))
    memories = dict(zip(ids, await asyncio.gather(*(reader.get(scope, each) for each in ids)), strict=True))
    found: dict[str, Hit] = {}
    for hit in hits:
        memory = memories[hit.memory.id] if hit.memory.passage else hit.memory
        if memory is not None:
            found.setdefault(memory.id, replace(hit, memory=memory))
    return list(found.values())
