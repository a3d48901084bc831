"""End-to-end cases: sessions of a user, questions asked later, and the judgement of what is injected. Pure.

A line of a file is one user:

    {"id": "u-1",
     "sessions": [{"at": "2026-03-15T10:00:00Z", "turns": [{"user": "...", "assistant": "..."}, ...]}, ...],
     "questions": [{"id": "q1", "at": "2026-04-02T09:00:00Z", "kind": "direct", "text": "...",
                    "history": [{"role": "user", "content": "..."}, ...],
                    "any_of": ["lower-case text", ...], "none_of": [...], "answer": "..."}, ...]}

A question with `any_of` is answered when the injected text contains one of them, and misled when it contains a text of
`none_of`. A question with `answer` is scored by its coverage: the share of the answer's content words that are injected.
A question with neither wants nothing: it is quiet when nothing is injected. `history`, `any_of`, `none_of` and `answer`
may be left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from semrouter_memory.evaluation.cases import Case, each_of, message_of, text_of, texts_of, time_of
from semrouter_memory.model import Message

_COVERED = 0.5
"""A question with `answer` is a miss below this coverage."""

_WORD = re.compile(r"[a-z0-9$€]+")
_ENDING = re.compile(r"(?:ing|ed|es|s)$")
_FUNCTION_WORDS = frozenset(
    _WORD.findall("""
    a an the of to in on at for and or but is are was were be been being has have had do does did with by from as
    that this it its his her their he she they them him i my me we our you your not no yes about into than then so
    if when what who which there here s t re ve ll d m
    """)
)


@dataclass(frozen=True, slots=True)
class CaseSession:
    """A conversation. `turns` are (user, assistant) pairs."""

    at: datetime
    turns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseQuestion:
    """Asked in a new conversation, after all sessions. Texts of `any_of` and `none_of` are lower-cased."""

    id: str
    at: datetime
    kind: str
    text: str
    history: tuple[Message, ...] = ()
    any_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()
    answer: str = ""

    @property
    def wants_memory(self) -> bool:
        return bool(self.any_of or self.answer)

    def score(self, text: str) -> float:
        """How much of what is wanted the text holds, from 0 to 1."""
        if self.answer:
            words = content_words(self.answer)
            return len(words & content_words(text)) / len(words) if words else 0.0
        return float(any(part in text.lower() for part in self.any_of))


@dataclass(frozen=True, slots=True)
class EndToEndCase:
    """One line of a file."""

    id: str
    sessions: tuple[CaseSession, ...]
    questions: tuple[CaseQuestion, ...]


class MissStage(StrEnum):
    """Where the wanted text was lost."""

    NOT_KEPT = "not stored"
    NOT_FOUND = "stored but not among the first ten"
    NOT_INJECTED = "ranked but not injected"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuestion:
    """A question and what became of it.

    Attributes:
        score: 1 or 0 for `any_of` and for a question that wants nothing (quiet); the coverage for `answer`.
        lost: where a miss was lost; None where the question is no miss.
        injected: the text that recall would put into the request.
        failed: why recall did not search; "" where it did.
    """

    user: str
    question: CaseQuestion
    score: float
    misled: bool
    lost: MissStage | None
    injected: str
    tokens: int
    failed: str = ""


def user_of(case: Case) -> EndToEndCase:
    """Read one line.

    Raises:
        KeyError: a field is missing.
        TypeError: a field has another form.
        ValueError: a time or role is none, or there are no sessions.
    """
    sessions = each_of(case, "sessions", _session)
    if not sessions:
        raise ValueError("sessions must hold at least one session")
    return EndToEndCase(text_of(case, "id"), sessions, each_of(case, "questions", _question))


def _session(case: Case) -> CaseSession:
    return CaseSession(
        time_of(case, "at"), each_of(case, "turns", lambda turn: (text_of(turn, "user"), text_of(turn, "assistant")))
    )


def _question(case: Case) -> CaseQuestion:
    return CaseQuestion(
        id=text_of(case, "id"),
        at=time_of(case, "at"),
        kind=text_of(case, "kind"),
        text=text_of(case, "text"),
        history=each_of(case, "history", message_of) if case.get("history") else (),
        any_of=_lowered(case, "any_of"),
        none_of=_lowered(case, "none_of"),
        answer=text_of(case, "answer") if case.get("answer") else "",
    )


def _lowered(case: Case, name: str) -> tuple[str, ...]:
    return tuple(text.lower() for text in texts_of(case, name)) if case.get(name) else ()


def judge(
    user: str,
    question: CaseQuestion,
    *,
    injected: str,
    tokens: int,
    stored: Sequence[str],
    first_ten: Sequence[str],
    failed: str = "",
) -> JudgedQuestion:
    """Compare what was injected with what was wanted.

    Args:
        stored: every active memory of the user, as recall would show it.
        first_ten: the best of the ranking, in the same form.
    """
    misled = any(part in injected.lower() for part in question.none_of)
    if not question.wants_memory:
        score, lost = float(not injected), None
    else:
        score = 0.0 if misled and question.any_of else question.score(injected)
        lost = _lost(question, injected, stored, first_ten)
    return JudgedQuestion(
        user=user,
        question=question,
        score=score,
        misled=misled,
        lost=lost,
        injected=injected,
        tokens=tokens,
        failed=failed,
    )


def _lost(question: CaseQuestion, injected: str, stored: Sequence[str], first_ten: Sequence[str]) -> MissStage | None:
    stages = (
        (injected, None),
        ("\n".join(first_ten), MissStage.NOT_INJECTED),
        ("\n".join(stored), MissStage.NOT_FOUND),
    )
    return next((lost for text, lost in stages if question.score(text) >= _COVERED), MissStage.NOT_KEPT)


def content_words(text: str) -> frozenset[str]:
    """The words that carry an answer: without function words and single letters, without a plain English ending."""
    found = _WORD.findall(text.lower())
    return frozenset(
        _ENDING.sub("", word) for word in found if word.isdigit() or (len(word) > 1 and word not in _FUNCTION_WORDS)
    )
