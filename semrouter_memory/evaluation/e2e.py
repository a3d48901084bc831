"""Plays sessions through the service's pipelines, asks questions in new conversations, and judges what is injected.

The command's help says what a line holds, and how a question is scored.

The turn log, the retainer, the store (Milvus Lite on a temporary file), the owner index and the recaller are the service's
own; the clock follows the file. Questions are asked after the last session and are not stored. Recall has a long deadline,
so that the figures do not depend on the machine's load.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.evaluation.cases import CaseTurn, History, LowerCasedTexts, Time
from semrouter_memory.evaluation.cases import Text as CaseText
from semrouter_memory.evaluation.retrieval import by_kind, mean
from semrouter_memory.evaluation.retrieval_run import request_of
from semrouter_memory.evaluation.running import (
    EvalOptions,
    Learner,
    clock_of,
    play_files,
    print_failures,
    share,
    table_of,
    tracked,
)
from semrouter_memory.lineage import all_memories
from semrouter_memory.model import Criteria, Hit, Json, Scope
from semrouter_memory.recall.render import line

_FIRST = 10
_COVERED = 0.5
"""A question with `answer` is a miss below this coverage."""

_WORD = re.compile(r"[a-z0-9$€]+")
_ENDINGS = ("ing", "ed", "es", "s")
_FUNCTION_WORDS = frozenset(
    _WORD.findall("""
    a an the of to in on at for and or but is are was were be been being has have had do does did with by from as
    that this it its his her their he she they them him i my me we our you your not no yes about into than then so
    if when what who which there here s t re ve ll d m
    """)
)


@dataclass(frozen=True, slots=True)
class CaseSession:
    at: Time
    turns: tuple[CaseTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseQuestion:
    """Asked in a new conversation, after all sessions."""

    id: str
    at: Time
    kind: str
    text: str
    history: History = ()
    any_of: LowerCasedTexts = ()
    none_of: LowerCasedTexts = ()
    answer: CaseText = ""

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

    def __post_init__(self) -> None:
        if not self.sessions:
            raise ValueError("sessions must hold at least one session")


class MissStage(StrEnum):
    """Where the wanted text was lost."""

    NOT_KEPT = "not stored"
    NOT_FOUND = "stored but not among the first ten"
    NOT_INJECTED = "ranked but not injected"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuestion:
    """A question and what became of it.

    Attributes:
        injected: the text that recall would put into the request.
        shown: its memories and passages alone, a line each.
        stored: every active memory of the user, in the same form.
        first_ten: the best of the ranking, in the same form.
        failed: why recall did not search; "" where it did.
    """

    user: str
    question: CaseQuestion
    injected: str
    shown: Sequence[str]
    tokens: int
    stored: Sequence[str]
    first_ten: Sequence[str]
    failed: str = ""

    @property
    def misled(self) -> bool:
        return any(part in self.injected.lower() for part in self.question.none_of)

    @property
    def score(self) -> float:
        """1 or 0 for `any_of` and for a question that wants nothing (quiet); the coverage for `answer`."""
        if not self.question.wants_memory:
            return float(not self.injected)
        return 0.0 if self.misled and self.question.any_of else self.question.score(self.injected)

    @property
    def lost(self) -> MissStage | None:
        """Where a miss was lost; None where the question is no miss."""
        stages = (
            (self.injected, None),
            ("\n".join(self.first_ten), MissStage.NOT_INJECTED),
            ("\n".join(self.stored), MissStage.NOT_FOUND),
        )
        if not self.question.wants_memory:
            return None
        covered = (lost for text, lost in stages if self.question.score(text) >= _COVERED)
        return next(covered, MissStage.NOT_KEPT)


def content_words(text: str) -> frozenset[str]:
    """The words that carry an answer: without function words and single letters, without a plain English ending."""
    found = _WORD.findall(text.lower())
    carrying = (word for word in found if word.isdigit() or (len(word) > 1 and word not in _FUNCTION_WORDS))
    return frozenset(
        next((word.removesuffix(each) for each in _ENDINGS if word.endswith(each)), word) for word in carrying
    )


class EndToEndRun:
    """Plays users one after the other, each as a separate owner.

    Attributes:
        memories: how many its users had.
        judged: their questions.
    """

    def __init__(self, pipelines: Pipelines) -> None:
        self._config = pipelines.memory
        self._adapters = pipelines.adapters
        self._clock = clock_of(pipelines.adapters)
        self._learner = Learner(pipelines)
        self._recaller = pipelines.request_phase()
        self.memories = 0
        self.judged: list[JudgedQuestion] = []

    async def play(self, name: str, users: Sequence[EndToEndCase]) -> None:
        """Play every session of each user, then ask every question."""
        await self._recaller.prepare()
        for number, user in enumerate(tracked(users, name, total=len(users)), start=1):
            await self._play(Scope(f"user-{number}"), user)

    async def _play(self, scope: Scope, user: EndToEndCase) -> None:
        for number, session in enumerate(user.sessions):
            self._clock.time = session.at
            await self._learner.session(scope, f"{scope.owner_id}-session-{number}", session.turns)
        active = await all_memories(self._adapters.store, Criteria(scope, active_at=self._clock.now()))
        stored = [line(Hit(memory, 0.0, 0.0), self._config.recall.render) for memory in active]
        self.memories += len(stored)
        self.judged += [await self._ask(scope, user.id, question, stored) for question in user.questions]

    async def _ask(self, scope: Scope, user: str, question: CaseQuestion, stored: Sequence[str]) -> JudgedQuestion:
        self._clock.time = question.at
        result = await self._recaller.recall(request_of(scope, question.text, question.history, self._config))
        return JudgedQuestion(
            user=user,
            question=question,
            injected=result.text,
            shown=[line(hit, self._config.recall.render) for hit in result.hits],
            tokens=result.tokens,
            stored=stored,
            first_ten=[line(hit, self._config.recall.render) for hit in result.ranking[:_FIRST]],
            failed=result.reason if result.reason.is_failure else "",
        )


async def evaluate(options: EvalOptions, *, misses: bool) -> None:
    """The command; see `play_files`.

    Args:
        misses: also print every question that was missed.
    """

    async def play(name: str, users: Sequence[EndToEndCase], pipelines: Pipelines) -> EndToEndRun:
        run = EndToEndRun(pipelines)
        await run.play(name, users)
        return run

    def report(console: Console, name: str, outcome: EndToEndRun) -> Json:
        print_figures(console, name, outcome.judged, memories=outcome.memories)
        if misses:
            print_misses(console, outcome.judged)
        return {"file": name, "memories": outcome.memories, **figures_of(outcome.judged)}

    await play_files(options, EndToEndCase, play=play, report=report)


_WANTING = "all that want memory"
_NOT_WANTING = "all that want none"
_COLUMNS = ("questions", "answered", "coverage", "misled", "quiet", "tokens")


def figures_of(judged: Sequence[JudgedQuestion]) -> dict[str, Json]:
    """The figures of one file, as they are written: by kind and of all, and every question's verdict."""
    return {
        "kinds": {name: _figures(group) for part in _groups(judged) for name, group in part.items()},
        "lost": {lost.value: count for lost, count in _count_lost(judged).items()},
        "questions": [
            {
                "user": each.user,
                "id": each.question.id,
                "kind": each.question.kind,
                "score": each.score,
                "misled": each.misled,
                "lost": each.lost.value if each.lost else None,
                "injected": each.injected,
                "tokens": each.tokens,
            }
            for each in judged
        ],
    }


def print_figures(console: Console, file: str, judged: Sequence[JudgedQuestion], *, memories: int) -> None:
    """One file's table, the stages of its misses, and its failures."""
    table = table_of(f"{file}: {memories} memories", "kind", _COLUMNS)
    for part in _groups(judged):
        for name, group in part.items():
            figures = _figures(group)
            cells = (share(figures[column]) for column in _COLUMNS[1:-1])
            table.add_row(Text(name), str(len(group)), *cells, f"{figures['tokens']:.0f}")
        table.add_section()
    console.print(table)
    lost = _count_lost(judged)
    console.print(f"lost: {', '.join(f'{name} {lost[name]}' for name in MissStage)}")
    print_failures(console, (each.failed for each in judged))


def print_misses(console: Console, judged: Sequence[JudgedQuestion]) -> None:
    """Every question with a miss, a misleading memory or a false injection."""
    table = Table(title="misses", title_justify="left", show_lines=True)
    for name in ("question", "text", "wanted", "lost", "injected"):
        table.add_column(name, overflow="fold")
    for each in judged:
        unwanted = bool(each.injected) and not each.question.wants_memory
        if each.lost or each.misled or unwanted:
            question = each.question
            wanted = question.answer or " | ".join(question.any_of) or "nothing"
            verdict = "misled" if each.misled else each.lost or "false injection"
            cells = (
                f"{each.user} {question.id}\n{question.kind}",
                question.text,
                wanted,
                verdict,
                "\n".join(each.shown),
            )
            table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _groups(judged: Sequence[JudgedQuestion]) -> list[dict[str, list[JudgedQuestion]]]:
    """By kind; and those that want memory apart from those that want none."""
    kinds = by_kind(judged, lambda each: each.question.kind)
    totals = by_kind(judged, lambda each: _WANTING if each.question.wants_memory else _NOT_WANTING)
    return [dict(sorted(each.items())) for each in (kinds, totals)]


def _figures(group: Sequence[JudgedQuestion]) -> dict[str, float | None]:
    """Shares and means; None where there is nothing to count."""
    return {
        "questions": len(group),
        "answered": mean(each.score for each in group if each.question.any_of),
        "coverage": mean(each.score for each in group if each.question.answer),
        "misled": mean(each.misled for each in group),
        "quiet": mean(each.score for each in group if not each.question.wants_memory),
        "tokens": mean(each.tokens for each in group),
    }


def _count_lost(judged: Sequence[JudgedQuestion]) -> Counter[MissStage]:
    return Counter(each.lost for each in judged if each.lost)
