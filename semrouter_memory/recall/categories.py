"""Which memories matter to a request though it does not ask for them. Pure.

Strategy: similarity never finds "allergic to peanuts" from "suggest a dinner". So memories and requests are put into
a few classes by the words that such statements are made with (English, Chinese), and a table says which class of
memory is needed by which class of request. What a class needs is a bonus to a memory's relevance and no rule: a diet
that has nothing else in common with the request still yields to what was asked for.
"""

from enum import IntFlag
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.scripts import simplified
from semrouter_memory.language.sentences import QUESTION_MARKS
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import Memory, MemoryType
from semrouter_memory.ports import MAX_PINNED
from semrouter_memory.recall import category_lexicon


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


_MEMORY = (
    (MemoryCategory.DIET.value, category_lexicon.DIET),
    (MemoryCategory.HEALTH.value, category_lexicon.HEALTH),
    (MemoryCategory.TRAVEL.value, category_lexicon.TRAVEL),
    (MemoryCategory.TIME.value, category_lexicon.TIME),
    (MemoryCategory.CODE.value, category_lexicon.CODE),
    (MemoryCategory.WRITING.value, category_lexicon.WRITING),
    (MemoryCategory.MONEY.value, category_lexicon.MONEY),
    (MemoryCategory.ANSWER.value, category_lexicon.ANSWER),
    (MemoryCategory.NAME.value, category_lexicon.NAME),
)
_REQUEST = (
    (Need.FOOD, category_lexicon.FOOD),
    (Need.BODY, category_lexicon.BODY),
    (Need.TRIP, category_lexicon.TRIP),
    (Need.DATE, category_lexicon.DATE),
    (Need.PROGRAM, category_lexicon.PROGRAM),
    (Need.TEXT, category_lexicon.TEXT),
    (Need.PURCHASE, category_lexicon.PURCHASE),
    (Need.EXPLANATION, category_lexicon.EXPLANATION),
    (Need.LETTER, category_lexicon.LETTER),
)


_STATEMENT_CHARS = 500
_REQUEST_CHARS = 500
"""What stands in between is quoted or pasted, and to read it all costs more than the search."""


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
    return reduce(or_, [kind for kind, pattern in _MEMORY if pattern.search(content)], found)


def need_of(request: str) -> Need:
    """What the request needs, by its words; of a long one, by those at its beginning and end."""
    if len(request) > 2 * _REQUEST_CHARS:
        request = f"{request[:_REQUEST_CHARS]}\n{request[-_REQUEST_CHARS:]}"
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
