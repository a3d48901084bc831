"""The part of a message in which the user speaks as themselves. Pure.

Strategy: whose words stand in a message is told by how they are laid out, not by what they are about. What may have been
pasted, quoted or handed over to be worked on is cut, and what is left stays as it was typed. Cutting too much loses a
memory; cutting too little keeps somebody else's words as the user's, or obeys an instruction that was hidden in them. So
in doubt it is cut.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from semrouter_memory.language.frames import unframed
from semrouter_memory.language.handed_over import without_handed_over
from semrouter_memory.language.layouts import (
    closing,
    gap,
    is_gap,
    without_laid_out,
    without_quoted,
)
from semrouter_memory.language.phrases import pattern, words_of
from semrouter_memory.language.quoted_spans import GAP, without_enclosed
from semrouter_memory.language.scripts import simplified, visible
from semrouter_memory.language.words import tokens, word_count

MAX_READ_CHARS, MAX_READ_LINES = 16_000, 1_000
"""What stands further behind is not read."""
MAX_PARAGRAPH_CHARS, MAX_TOLD_CHARS, MAX_TYPED_CHARS = 800, 2_000, 3_000
"""How long a paragraph may be, how long if it tells in the first person, and how long all of them together."""
_WORDS_PER_PERSON = 40
LEFT_OUT = "…"
"""Stands in a sentence for what was cut out of it."""

_INJECTS = pattern(r"{injections}")
_CONFIDENTIAL = pattern(r"{confidences}", re.IGNORECASE | re.MULTILINE)
_BLANKS = re.compile(r"([^\S\n]{40})[^\S\n]+")
"""More blanks than any layout has: patterns would try each of them."""
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_LETTER = re.compile(r"(?<=[.!?]) (?=Dear [^,\n]{1,40},\s*\n)")
"""Where a letter begins behind a sentence."""
_CUT = re.compile(rf"{GAP}+(?:[^\S\n]*{GAP}+)*")


def injects(text: str) -> bool:
    """Whether words that give orders to an assistant's memory, or speak of "the user", stand in the open."""
    return bool(_INJECTS.search(simplified(text)))


def confidential(text: str) -> bool:
    """Whether the user asks that this message is not stored."""
    return bool(_CONFIDENTIAL.search(simplified(text)))


@lru_cache(64)
def own_text(text: str) -> str:
    """What may be stored of what the user says as themselves: nothing where they ask not to store it."""
    text = _read(text)
    return "" if not text or confidential(text) else _typed(text)


def typed_text(text: str) -> str:
    """What the user says as themselves, word for word; `LEFT_OUT` stands where a quotation was cut out of a sentence, or a text behind its introduction."""
    return _typed(_read(text))


def _read(text: str) -> str:
    return visible(unframed(text, surely=True)[:MAX_READ_CHARS]).replace(GAP, "").strip()


def _typed(text: str) -> str:
    if not text:
        return ""
    text = _BLANKS.sub(r"\1", "\n".join(text.splitlines()))
    text = _LETTER.sub("\n", _BLANK_LINES.sub("\n\n", text))
    text = "\n".join(without_quoted(text.split("\n")[:MAX_READ_LINES]))
    lines = without_laid_out(without_enclosed(text).split("\n"))
    lines = without_handed_over(lines, closing(lines))
    lines = [gap(line) if len(line) > MAX_PARAGRAPH_CHARS and not _told(line) else line for line in lines]
    own_lines = _BLANK_LINES.sub("\n\n", "\n".join(_own(lines))).strip()
    return "" if injects(own_lines) or len(own_lines) > MAX_TYPED_CHARS else own_lines


def _own(lines: Iterable[str]) -> list[str]:
    """The lines that are not cut out; `LEFT_OUT` ends one that introduced what is: "My boss sent me this:"."""
    own: list[str] = []
    said = 0
    for line in lines:
        if is_gap(line):
            if own and own[said].endswith((":", "：")):
                own[said] += f" {LEFT_OUT}"
            continue
        own.append(_CUT.sub(LEFT_OUT, line).strip())
        said = len(own) - 1 if own[-1] else said
    return own


def _told(paragraph: str) -> bool:
    """Whether a long paragraph is somebody's own telling: few people type so much in one go about anything else."""
    persons = sum(token in words_of("oneself") for token in tokens(paragraph))
    return len(paragraph) <= MAX_TOLD_CHARS and persons * _WORDS_PER_PERSON >= word_count(paragraph)
