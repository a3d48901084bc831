"""Which memories matter to a request though it does not ask for them. Pure.

Strategy: similarity never finds "allergic to peanuts" from "suggest a dinner". So memories and requests are put into
a few classes by the words that such statements are made with (`categories.toml`), and a table says which class of memory
is needed by which class of request. What a class needs is a bonus to a memory's relevance and no rule: a diet that has
nothing else in common with the request still yields to what was asked for.
"""

import re
from enum import IntFlag
from functools import cached_property, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.phrases import lists, separated
from semrouter_memory.language.scripts import CJK, WORD_END, WORD_START, simplified
from semrouter_memory.language.sentences import QUESTION_MARKS, orders, sentences
from semrouter_memory.language.third_person import embedded_text, to_third_person
from semrouter_memory.model import Memory, MemoryType
from semrouter_memory.ports import MAX_PINNED


class MemoryCategory(IntFlag):
    """What a memory is about, where that matters to requests that do not ask for it. A memory may be in several, most are in none."""

    NONE = 0
    DIET = 1
    """What somebody must not, or will not, eat or drink."""
    HEALTH = 2
    """A condition, an injury, a medicine, a limit of the body."""
    TRAVEL = 4
    """How somebody travels, and what keeps them from it."""
    TIME = 8
    """When somebody can, or never can."""
    CODE = 16
    """How code is to be written, and in what."""
    WRITING = 32
    """How a text for somebody is to be written."""
    MONEY = 64
    """What may be spent, and where."""
    ANSWER = 128
    """How the user wants to be answered."""
    NAME = 256
    """What the user is called."""
    QUESTION = 512
    """No statement but a question, as the turns of a conversation may be."""
    QUOTE = 1024
    """The user's own words."""
    PINNED = 2048
    """The user wants to have it in every request."""


class Need(IntFlag):
    """What a request asks for, as far as memories of a class matter to it."""

    NONE = 0
    FOOD = 1
    BODY = 2
    TRIP = 4
    DATE = 8
    PROGRAM = 16
    TEXT = 32
    PURCHASE = 64
    EXPLANATION = 128
    LETTER = 256
    """A text that somebody signs."""


class _Words:
    """A list in two versions: English text, which most is, is searched in half the time without Chinese.

    Each is compiled when it is first needed, which takes some milliseconds: see `prepare`.
    """

    def __init__(self, listed: str) -> None:
        self._listed = separated(listed)

    def search(self, text: str) -> re.Match[str] | None:
        return (self._of_ascii if text.isascii() else self._of_any).search(text)

    @property
    def _english(self) -> str:
        return "|".join(each for each in self._listed if not CJK.search(each))

    @cached_property
    def _of_ascii(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\w)(?:{self._english})(?!\w)", re.ASCII)

    @cached_property
    def _of_any(self) -> re.Pattern[str]:
        chinese = "|".join(filter(CJK.search, self._listed))
        return re.compile(rf"{WORD_START}(?:{self._english}){WORD_END}|{chinese}")


_LISTS = lists("categories", __package__)
_MEMORY = tuple((MemoryCategory[name.upper()].value, _Words(listed)) for name, listed in _LISTS["memories"].items())
_STATEMENT = tuple(
    (MemoryCategory[name.upper()].value, re.compile("|".join(separated(listed)), re.MULTILINE))
    for name, listed in _LISTS["statements"].items()
)
_BEGINS = "|".join(separated(_LISTS["orders"]["begins"]))
_ORDER = re.compile(rf"(?:^|[,;] |\band )(?:(?:{_BEGINS})[,:]? )*(?:{'|'.join(separated(_LISTS['orders']['answer']))})")
"""How users order to be answered: "please answer user in german"."""
_REQUEST = tuple((Need[name.upper()], _Words(listed)) for name, listed in _LISTS["requests"].items())

_STATEMENT_CHARS = 500


def prepare() -> None:
    """Compile the patterns and load what is read of Chinese: a tenth of a second."""
    simplified("一")
    for _, pattern in (*_MEMORY, *_REQUEST):
        pattern.search("a")
        pattern.search("一")


def categories_of(memory: Memory) -> int:
    """The `MemoryCategory` bits of a memory. As a plain number: an index is made of those of all memories of a user."""
    content = embedded_text(memory)[:_STATEMENT_CHARS].lower()
    is_question = memory.type is MemoryType.EPISODIC and memory.content.rstrip().endswith(QUESTION_MARKS)
    found = MemoryCategory.QUESTION.value if is_question else 0
    if memory.form == "quote":
        found |= MemoryCategory.QUOTE.value
    if memory.pinned:
        found |= MemoryCategory.PINNED.value
    found = reduce(or_, [kind for kind, pattern in _MEMORY if pattern.search(content)], found)
    said = _sentences(memory)
    if any(map(_orders_answers, said)):
        found |= MemoryCategory.ANSWER.value
    stated = "\n".join(said)
    return reduce(or_, [kind for kind, pattern in _STATEMENT if pattern.search(stated)], found)


def _orders_answers(sentence: str) -> bool:
    """Whether it orders how to answer: not on the way to something else, "make a packing list, and keep it short"."""
    found = _ORDER.search(sentence)
    return found is not None and (found.start() == 0 or not orders(sentence))


def _sentences(memory: Memory) -> list[str]:
    """What the memory says, without what it is found by besides: its sentences, each on one line, in the third person."""
    said = simplified(memory.content[:_STATEMENT_CHARS])
    told = to_third_person(said) if memory.form == "quote" else said
    return [" ".join(each.split()) for each in sentences(told.lower())]


def need_of(request: str) -> Need:
    """What the request needs, by its words."""
    lowered = request.lower()
    return reduce(or_, (need for need, pattern in _REQUEST if pattern.search(lowered)), Need.NONE)


_PINNED = (
    (~Need.DATE, MemoryCategory.ANSWER),
    (Need.LETTER, MemoryCategory.NAME),
)
_MAX_PINNED = 2


def pinned_by_user(labels: NDArray[np.uint16], scores: NDArray[np.float32]) -> NDArray[np.intp]:
    """The rows of memories that the user wants to have in every request, best first."""
    return _best(labels, MemoryCategory.PINNED, scores)[:MAX_PINNED]


def pinned(labels: NDArray[np.uint16], scores: NDArray[np.float32], need: Need) -> NDArray[np.intp]:
    """The rows of memories that are injected although the request is about something else.

    How the user wants to be answered matters to whatever is explained, suggested, written or programmed for them.
    """
    wanted = reduce(or_, (category for needs, category in _PINNED if need & needs), MemoryCategory.NONE)
    return _best(labels, wanted, scores)[:_MAX_PINNED]


def _best(labels: NDArray[np.uint16], wanted: MemoryCategory, scores: NDArray[np.float32]) -> NDArray[np.intp]:
    """The rows with any of these categories."""
    # As one of numpy's own numbers: half the time.
    rows = np.flatnonzero(labels & np.uint16(wanted))
    return rows[np.argsort(-scores[rows], kind="stable")] if len(rows) else rows
