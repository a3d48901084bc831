"""What is known of each memory with respect to one question, as columns: what relevance is made of. Pure.

Strategy: the same columns whether all of the owner's memories are at hand or only the nearest that a store found. Nothing
is read from a memory's row here, so thousands of them cost a fraction of a millisecond. What the words tell comes first: it is found
while the model embeds the question.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.terms import terms
from semrouter_memory.language.third_person import is_personal
from semrouter_memory.model import Message, Role, Vector
from semrouter_memory.ports import MemoryShelf
from semrouter_memory.recall import wants
from semrouter_memory.recall.anchors import Intent
from semrouter_memory.recall.periods import Period
from semrouter_memory.recall.query import is_vague
from semrouter_memory.recall.standing import Need, need_of

Floats = NDArray[np.float32]

# How much of the lexical score of the memory so many places before, and after, counts: an answer follows its question,
# and what is said around a match is often what was meant.
_NEIGHBOURS = ((1, 0.7, 0.4), (2, 0.5, 0.35))
_TOGETHER_MICROSECONDS = 600 * 1_000_000
"""Memories this close in time are of one conversation."""
_GENERAL_FORM = re.compile(
    r"\s*(?:what(?:['’]?s| is| are| was| were| does| do)|who(?:['’]?s| is| was| won| invented| wrote| designed| discovered)"
    r"|why|when (?:did|was|is)|how (?:do|does|did|is|are|many|much|far|long|loud|tall|old|to)|where (?:is|are|was)"
    r"|which \w+ (?:is|are|was|has|have|did|does)|explain|define|describe|difference|convert|solve|calculate|is it"
    r"|are there|did the|do|does|is)\b"
    r"|.*(?:什么是|为什么|哪一?年|区别|怎么证明|怎么算|多少公里|多少米|翻译?成.[文语]|谁发明|原理|讲个|出个)",
    re.IGNORECASE,
)
_LONGEST = timedelta(days=120)
_ANSWERS = 2
_MAX_ANSWER_CHARS = 2_000


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Wording:
    """What a question says, as far as its words tell.

    Attributes:
        terms: of the text that is searched for.
        answered: terms of the last answers, whose content need not be said again.
        need: what the request needs, by its words.
        impersonal: it has the form of a question of general knowledge, and no first person.
        chinese: it has Chinese characters, of which the default model knows few.
        wants: log-odds, by its words, that it wants anything that is known of the user.
        named: index terms of each rare word.
    """

    terms: tuple[str, ...]
    answered: tuple[str, ...]
    need: Need
    personal: bool
    impersonal: bool
    chinese: bool
    wants: float
    named: tuple[tuple[str, ...], ...]

    def meant(self, vector: Vector, intent: Intent, *, known: int) -> "Question":
        """With what the model makes of it.

        Args:
            vector: of what is searched for.
            intent: of the request.
            known: how many of the rare words occur in memories.
        """
        names = wants.by_names(known, len(self.named) - known)
        meaning = wants.by_meaning(vector, intent, personal=self.personal, impersonal=self.impersonal)
        return Question(
            terms=self.terms,
            answered=self.answered,
            need=self.need,
            personal=self.personal,
            impersonal=self.impersonal,
            chinese=self.chinese,
            wants=self.wants + names + meaning,
            named=self.named,
            vector=vector,
            intent=intent,
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Question(Wording):
    """What is asked.

    Attributes:
        vector: of the text that is searched for.
    """

    vector: Vector
    intent: Intent

    @property
    def is_task(self) -> bool:
        """Whether the model is to say something of its own: neither small talk nor a question about the user."""
        intent = self.intent
        small_talk = intent.chat > max(intent.general, intent.asking, intent.request)
        about_the_user = self.personal and intent.asking > max(intent.general, intent.request)
        return not (small_talk or about_the_user)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Columns:
    """One row for each memory that may be shown, as far as words and times tell.

    Attributes:
        positions: where the memory is.
        lexical: BM25 with the question's terms.
        nearby: the same of the memories written just before and after, weighted.
        answered: how much of the memory the last answers have said, 0..1.
        marks: `Standing` of each.
        timely: whether the memory was written in the period that the question speaks of; None: it speaks of none.
        known: how many of the rare words that the question has occur in one of them.
    """

    positions: NDArray[np.intp]
    lexical: Floats
    nearby: Floats
    answered: Floats
    marks: NDArray[np.uint16]
    timely: NDArray[np.bool_] | None = None
    known: int

    def compared(self, shelf: MemoryShelf, vector: Vector) -> "Evidence":
        """With the memories' similarity to that vector."""
        return Evidence(
            positions=self.positions,
            lexical=self.lexical,
            nearby=self.nearby,
            answered=self.answered,
            marks=self.marks,
            timely=self.timely,
            known=self.known,
            similarity=shelf.similarities(vector)[_picked(shelf, self.positions)],
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evidence(Columns):
    """All that is known of each memory.

    Attributes:
        similarity: the cosine, -1..1.
    """

    similarity: Floats


def wording(text: str, request: str, history: Sequence[Message]) -> Wording:
    """What the question's words tell.

    Args:
        text: what is searched for.
        request: the last user message.
    """
    personal = is_personal(request)
    answers = [message.text[:_MAX_ANSWER_CHARS] for message in history if message.role is Role.ASSISTANT][-_ANSWERS:]
    return Wording(
        terms=tuple(dict.fromkeys(terms(text))),
        answered=tuple(term for answer in answers for term in terms(answer)),
        need=need_of(request),
        personal=personal,
        # "How much?" goes on with what was talked about.
        impersonal=not personal and bool(_GENERAL_FORM.match(request)) and not (history and is_vague(request)),
        chinese=bool(CJK.search(request)),
        wants=wants.by_words(request, history),
        named=wants.named(request),
    )


def gathered(shelf: MemoryShelf, positions: NDArray[np.intp], asked: Wording, period: Period | None = None) -> Columns:
    """What words and times tell of the memories at these positions.

    Args:
        period: that the question speaks of; a very long one says nothing.
    """
    lexical, created_at = shelf.lexical(asked.terms), shelf.created_at
    answered = shelf.shares(asked.answered) if asked.answered else np.zeros_like(lexical)
    picked = _picked(shelf, positions)
    return Columns(
        positions=positions,
        lexical=lexical[picked],
        # Of what may be shown only: what stands in another project, or has expired, is nobody's neighbour.
        nearby=_nearby(lexical[picked], created_at[picked]),
        answered=answered[picked],
        marks=shelf.marks[picked],
        timely=_written_in(period, created_at[picked]) if period and period.end - period.start <= _LONGEST else None,
        known=_known(shelf, picked, asked.named),
    )


def _known(shelf: MemoryShelf, picked: slice | NDArray[np.intp], named: Sequence[Sequence[str]]) -> int:
    """How many of the words occur in these memories."""

    def occur(terms: Sequence[str]) -> bool:
        return bool(shelf.lexical(terms)[picked].any())

    # Of a pasted text's hundred rare words none does as a rule, and one look tells.
    return sum(map(occur, named)) if named and occur([term for word in named for term in word]) else 0


def _picked(shelf: MemoryShelf, positions: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """As a rule these are all positions, and there is nothing to pick."""
    return slice(None) if len(positions) == len(shelf) else positions


def _written_in(period: Period, created_at: NDArray[np.int64]) -> NDArray[np.bool_]:
    start, end = (int(moment.timestamp() * 1_000_000) for moment in (period.start, period.end))
    return (created_at >= start) & (created_at < end)


def _nearby(lexical: Floats, created_at: NDArray[np.int64]) -> Floats:
    found = np.zeros_like(lexical)
    if not lexical.any():
        return found
    for distance, before, after in _NEIGHBOURS:
        together = created_at[distance:] - created_at[:-distance] <= _TOGETHER_MICROSECONDS
        # Memories come one by one as a rule; the turns of a conversation do not.
        if together.any():
            found[distance:] += np.float32(before) * lexical[:-distance] * together
            found[:-distance] += np.float32(after) * lexical[distance:] * together
    return found
