"""Splits a document into passages that the embedding model reads whole. Pure.

Strategy: a passage stays within one section, and its heading path is its context. Paragraphs stay whole and are packed as
long as they fit. A paragraph that does not fit is cut between sentences, a sentence between words; only there passages overlap,
because only there the beginning of one passage needs the end of the one before.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from semrouter_memory.language.sentences import sentences

Count = Callable[[str], int]
"""The tokens of a text."""

PATH_SEPARATOR = " > "
_BLANKS = re.compile(r"\s+")
_CONTEXT_SHARE = 4
"""A context has at most this part of a passage's tokens."""


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, or a paragraph, list, table or listing, in reading order.

    Attributes:
        level: of a heading, 1 for the highest; 0 for text.
        page: where it begins, counted from 1; 0 where there are no pages.
    """

    text: str
    level: int = 0
    page: int = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document.

    Attributes:
        context: title and headings above it, "" for none.
    """

    text: str
    context: str = ""
    page: int = 0

    @property
    def embedded(self) -> str:
        """What the embedding model reads of it."""
        return f"{self.context}\n{self.text}" if self.context else self.text


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A part of a block that is not cut any more.

    Attributes:
        begins: it is the beginning of its block.
    """

    text: str
    tokens: int
    page: int
    begins: bool


def split(blocks: Iterable[Block], *, title: str, limit: int, overlap: int, count: Count) -> list[Passage]:
    """The passages of a document, in order, each text once.

    Args:
        title: begins every context.
        limit: tokens of a passage at most, its context included.
        overlap: tokens at most that a passage repeats of the one before, where a paragraph was cut between them.
    """
    found: dict[tuple[str, str], Passage] = {}
    for path, section in _sections(blocks):
        context = _context((title, *path), limit // _CONTEXT_SHARE, count)
        room = limit - (count(context) if context else 0)
        pieces = [piece for block in section for piece in _pieces(block, room, count)]
        for text, page in _packed(pieces, room, overlap):
            found.setdefault((context, text), Passage(text, context, page))
    return list(found.values())


def _sections(blocks: Iterable[Block]) -> Iterator[tuple[tuple[str, ...], list[Block]]]:
    """Runs of text, each with the headings above it."""
    path: list[Block] = []
    for is_heading, run in groupby(blocks, key=lambda block: block.level > 0):
        if not is_heading:
            yield tuple(heading.text for heading in path), list(run)
            continue
        for heading in run:
            path = [above for above in path if above.level < heading.level] + [heading]


def _context(path: Sequence[str], limit: int, count: Count) -> str:
    """The path, without its beginning where it is too long: the nearest heading says most."""
    names = list(dict.fromkeys(" ".join(name.split()) for name in path if name.strip()))
    while names and count(PATH_SEPARATOR.join(names)) > limit:
        del names[0]
    return PATH_SEPARATOR.join(names)


def _pieces(block: Block, room: int, count: Count) -> Iterator[_Fragment]:
    for at, (part, tokens) in enumerate(_parts(block.text.strip(), room, count)):
        yield _Fragment(part, tokens, block.page, begins=at == 0)


def _parts(text: str, room: int, count: Count) -> Iterator[tuple[str, int]]:
    """The text, or where it is too long its sentences, their halves, and so on; joined, they are the text."""
    tokens = count(text)
    if tokens <= room or len(text) <= 1:
        if text:
            yield text, tokens
        return
    parts = sentences(text)
    for part in parts if len(parts) > 1 else _halves(text):
        yield from _parts(part, room, count)


def _halves(text: str) -> tuple[str, str]:
    """Cut behind the first word that ends in the second half, where there is one."""
    middle = len(text) // 2
    blank = _BLANKS.search(text.rstrip(), middle)
    at = blank.end() if blank else middle
    return text[:at], text[at:]


def _packed(pieces: Iterable[_Fragment], room: int, overlap: int) -> Iterator[tuple[str, int]]:
    """Texts of as many pieces as fit, each with the page of its first piece."""
    passage: list[_Fragment] = []
    for piece in pieces:
        if passage and _tokens(passage) + piece.tokens > room:
            yield _joined(passage), passage[0].page
            passage = [] if piece.begins else _repeated(passage, min(overlap, room - piece.tokens))
        passage.append(piece)
    if passage:
        yield _joined(passage), passage[0].page


def _repeated(passage: Sequence[_Fragment], limit: int) -> list[_Fragment]:
    """The last pieces of the cut paragraph, within the limit."""
    found: list[_Fragment] = []
    for piece in reversed(passage):
        if _tokens(found) + piece.tokens > limit:
            break
        found.insert(0, piece)
        if piece.begins:
            break
    return found


def _tokens(passage: Iterable[_Fragment]) -> int:
    return sum(piece.tokens for piece in passage)


def _joined(passage: Sequence[_Fragment]) -> str:
    return "".join(("\n\n" if piece.begins else "") + piece.text for piece in passage).strip()
