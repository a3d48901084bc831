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

from semrouter_memory.language.question_form import QUESTION_MARKS
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import Memory, MemoryType
from semrouter_memory.recall import standing_words


class Standing(IntFlag):
    """What a memory is about, where that matters unasked. A memory may be several, most are none."""

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
    (Standing.DIET, standing_words.DIET),
    (Standing.HEALTH, standing_words.HEALTH),
    (Standing.TRAVEL, standing_words.TRAVEL),
    (Standing.TIME, standing_words.TIME),
    (Standing.CODE, standing_words.CODE),
    (Standing.WRITING, standing_words.WRITING),
    (Standing.MONEY, standing_words.MONEY),
    (Standing.ANSWER, standing_words.ANSWER),
    (Standing.NAME, standing_words.NAME),
)
_REQUEST = (
    (Need.FOOD, standing_words.FOOD),
    (Need.BODY, standing_words.BODY),
    (Need.TRIP, standing_words.TRIP),
    (Need.DATE, standing_words.DATE),
    (Need.PROGRAM, standing_words.PROGRAM),
    (Need.TEXT, standing_words.TEXT),
    (Need.PURCHASE, standing_words.PURCHASE),
    (Need.EXPLANATION, standing_words.EXPLANATION),
    (Need.LETTER, standing_words.LETTER),
)


_STATEMENT_CHARS = 500
_REQUEST_CHARS = 500
"""What stands in between is quoted or pasted, and to read it all costs more than the search."""


def standing_of(memory: Memory) -> Standing:
    """What classes of standing memory a statement belongs to."""
    content = embedded_text(memory)[:_STATEMENT_CHARS].lower()
    is_question = memory.type is MemoryType.EPISODIC and memory.content.rstrip().endswith(QUESTION_MARKS)
    found = Standing.QUESTION if is_question else Standing.NONE
    if memory.form == "quote":
        found |= Standing.QUOTE
    return reduce(or_, (kind for kind, pattern in _MEMORY if pattern.search(content)), found)


def need_of(request: str) -> Need:
    """What the request needs, by its words; of a long one, by those at its beginning and end."""
    if len(request) > 2 * _REQUEST_CHARS:
        request = f"{request[:_REQUEST_CHARS]}\n{request[-_REQUEST_CHARS:]}"
    lowered = request.lower()
    return reduce(or_, (need for need, pattern in _REQUEST if pattern.search(lowered)), Need.NONE)


_UNASKED = (
    (~Need.DATE, Standing.ANSWER),
    (Need.LETTER, Standing.NAME),
)
_MOST_UNASKED = 2


def offered(marks: NDArray[np.uint16], scores: NDArray[np.float32], need: Need) -> NDArray[np.intp]:
    """The places of memories that are given to the model though the request is about something else.

    How the user wants to be answered matters to whatever is explained, suggested, written or programmed for them.
    """
    wanted = reduce(or_, (standing for needs, standing in _UNASKED if need & needs), Standing.NONE)
    places = np.flatnonzero(marks & wanted)
    return places[np.argsort(-scores[places], kind="stable")][:_MOST_UNASKED]
