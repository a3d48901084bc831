"""How often something was mentioned, since when, and when last: what can be told without a model. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.terms import search_terms
from semrouter_memory.model import REFLECTION_SOURCE, SESSION_SOURCE, Memory

_REPEATING = frozenset({SESSION_SOURCE, REFLECTION_SOURCE})


@dataclass(frozen=True, slots=True)
class Mentions:
    """What was counted.

    Attributes:
        times: how often it was said, with what was said again.
        first, last: when; None: never.
        passages: of documents that are about it.
    """

    times: int = 0
    first: datetime | None = None
    last: datetime | None = None
    passages: int = 0


def naming(question: str, found: Sequence[Memory]) -> list[Memory]:
    """Those that share a word with the question; all where none does: what is relevant is not always about it."""
    asked = {*search_terms(question)}
    return [memory for memory in found if not asked.isdisjoint(search_terms(memory.searched))] or list(found)


def counted(found: Sequence[Memory]) -> Mentions:
    """Count memories and passages; what only repeats another memory counts where there is nothing else."""
    memories = [memory for memory in found if memory.form != "passage"]
    known = {memory.id for memory in memories}
    said = [each for each in memories if each.source not in _REPEATING and each.quote not in known] or memories
    return Mentions(
        times=sum(1 + max(memory.confirmations, 0) for memory in said),
        first=min((min(memory.observed_at, memory.created_at) for memory in said), default=None),
        last=max((memory.observed_at for memory in said), default=None),
        passages=len(found) - len(memories),
    )


def in_words(mentions: Mentions, question: str, numbers: Sequence[int]) -> str:
    """The counts as sentences in the question's language, English or Chinese.

    Args:
        numbers: of the sources to cite.
    """
    marks = "".join((" " * bool(numbers), *(f"[{number}]" for number in numbers)))
    if CJK.search(question):
        told = "；".join((*_said_zh(mentions), *_passages_zh(mentions)))
        return f"{told}{marks}。" if told else "记忆里没有提到这个。"
    told = "; ".join((*_said(mentions), *_passages(mentions)))
    return f"{told}{marks}." if told else "Nothing that is remembered tells this."


def not_told(question: str) -> str:
    """The sentence for a question that what was found does not answer."""
    return "记忆里没有说明这一点。" if CJK.search(question) else "What is remembered does not tell this."


def _said(mentions: Mentions) -> list[str]:
    if mentions.first is None or mentions.last is None:
        return []
    first, last = (f"{day.day} {day:%B %Y}" for day in (mentions.first, mentions.last))
    if first == last:
        return [f"Mentioned {_times(mentions.times)}, on {first}"]
    return [f"Mentioned {_times(mentions.times)}, first on {first}, last on {last}"]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _passages(mentions: Mentions) -> list[str]:
    if not mentions.passages:
        return []
    return [
        "1 passage of a document is about it"
        if mentions.passages == 1
        else f"{mentions.passages} passages of documents are about it"
    ]


def _said_zh(mentions: Mentions) -> list[str]:
    if mentions.first is None or mentions.last is None:
        return []
    first, last = (f"{day.year}年{day.month}月{day.day}日" for day in (mentions.first, mentions.last))
    if first == last:
        return [f"提到过{mentions.times}次，在{first}"]
    return [f"提到过{mentions.times}次，最早在{first}，最近在{last}"]


def _passages_zh(mentions: Mentions) -> list[str]:
    return [f"有{mentions.passages}段文档与此有关"] if mentions.passages else []
