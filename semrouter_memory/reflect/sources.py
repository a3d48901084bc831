"""Memories and passages as the numbered sources of a prompt, and what a model makes of them held against these. Pure.

Strategy: stored text is hostile. Each source is one line in quotation marks, which cannot end its line, imitate a number or a
chat template's control tokens. A model may still obey one; so what it answers counts only as far as it cites sources that it was
shown and has no number and no name that stands in none of them.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from semrouter_memory.codec.base import strip_block, strip_reasoning, unfenced
from semrouter_memory.language.scripts import one_line, without_markers
from semrouter_memory.model import Memory
from semrouter_memory.recall.render import cited_source
from semrouter_memory.recall.time_expressions import with_dates
from semrouter_memory.retain import grounding

_MAX_CHARS = 2_000
"""Of one source; the beginning says most."""
_MARK = re.compile(r"[\[【]\s*(\d{1,3}(?:\s*[,，、;]\s*\d{1,3})*)\s*[\]】]")


def lines(memories: Iterable[Memory]) -> list[str]:
    """One line for each, with its number, its day and what it is."""
    return [f"[{number}] {_line(memory)}" for number, memory in enumerate(memories, 1)]


def within(memories: Sequence[Memory], tokens: int, count: Callable[[str], int]) -> list[Memory]:
    """The first of them that have no more tokens together; at least one."""
    size, taken = 0, list[Memory]()
    for memory, line in zip(memories, lines(memories), strict=True):
        size += count(line)
        if taken and size > tokens:
            break
        taken.append(memory)
    return taken


def cleaned(answer: str) -> str:
    """What a model answered, without its reasoning, a fence around it, and marks of our own."""
    return without_markers(strip_block(unfenced(strip_reasoning(answer)))).strip()


def cited(text: str) -> tuple[int, ...]:
    """The numbers that a text cites, each once, in their order."""
    marks = (int(number) for mark in _MARK.findall(text) for number in re.findall(r"\d+", mark))
    return tuple(dict.fromkeys(marks))


def made_up(text: str, memories: Sequence[Memory]) -> str:
    """Same as `grounding.made_up`, of a text with citations."""
    texts = [f"{memory.context}\n{_content(memory)}\n{cited_source(memory)}" for memory in memories]
    return grounding.made_up(_MARK.sub(" ", text), texts, [memory.observed_at for memory in memories])


def _line(memory: Memory) -> str:
    text = without_markers(one_line(_content(memory))).replace('"', "'")
    about = without_markers(one_line(memory.context)).replace('"', "'")
    match memory.form:
        case "passage":
            kind = f"from the document '{without_markers(one_line(cited_source(memory)))}'"
        case "quote":
            kind = "the user said"
        case _:
            kind = memory.type.value
    about = f" (about: '{about}')" if about else ""
    return f'{memory.observed_at:%Y-%m-%d}, {kind}{about}: "{text}"'


def _content(memory: Memory) -> str:
    """The text, in which a relative time has its date."""
    return with_dates(memory.content[:_MAX_CHARS], memory.observed_at)
