"""Conversations, and what should and should not be remembered of them. Pure.

A line of a file:

    {"id": "...", "turns": [{"user": "...", "assistant": "..."}, ...],
     "should_remember": [{"about": "...", "any_of": ["lower-case substring", ...]}],
     "should_not_remember": ["lower-case substring", ...]}

After the conversation has ended, each `should_remember` must have an active memory that contains one of `any_of`, and no
active memory may contain a text of `should_not_remember`; case does not count. Superseded memories are history: they are
not recalled, so they count for neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.evaluation.cases import Case, objects_of, text_of, texts_of
from semrouter_memory.model import Json


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fact that should be remembered: `about` names it for people, `any_of` are lower-cased."""

    about: str
    any_of: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCase:
    """One line of a file. `turns` are (user, assistant) pairs, `unwanted` is lower-cased."""

    id: str
    turns: tuple[tuple[str, str], ...]
    wanted: tuple[Wanted, ...]
    unwanted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Violation:
    """A memory that contains what it should not."""

    unwanted: str
    memory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The memories of a conversation, compared with the expected ones.

    Attributes:
        memories: contents of the active memories.
        failures: what failed on the way, in a word each; a result with failures says little.
    """

    conversation: ConversationCase
    memories: tuple[str, ...]
    missed: tuple[Wanted, ...]
    violations: tuple[Violation, ...]
    failures: tuple[str, ...] = ()


def conversation_of(case: Case) -> ConversationCase:
    """Read one line.

    Raises:
        KeyError: a field is missing.
        TypeError: a field has another form.
        ValueError: there are no turns.
    """
    turns = tuple((text_of(turn, "user"), text_of(turn, "assistant")) for turn in objects_of(case, "turns"))
    if not turns:
        raise ValueError("turns must hold at least one turn")
    return ConversationCase(
        id=text_of(case, "id"),
        turns=turns,
        wanted=tuple(
            Wanted(text_of(item, "about"), _lowered(texts_of(item, "any_of")))
            for item in objects_of(case, "should_remember")
        ),
        unwanted=_lowered(texts_of(case, "should_not_remember")),
    )


def judge(conversation: ConversationCase, memories: Sequence[str], failures: Sequence[str] = ()) -> Remembered:
    """Compare the memories with the expected ones."""
    lowered = [memory.lower() for memory in memories]
    return Remembered(
        conversation=conversation,
        memories=tuple(memories),
        missed=tuple(
            wanted
            for wanted in conversation.wanted
            if not any(part in memory for memory in lowered for part in wanted.any_of)
        ),
        violations=tuple(
            Violation(part, memory)
            for part in conversation.unwanted
            for memory, low in zip(memories, lowered, strict=True)
            if part in low
        ),
        failures=tuple(failures),
    )


def result_of(file: str, outcomes: Sequence[Remembered]) -> dict[str, Json]:
    """One file's result, as it is written."""
    wanted = sum(len(outcome.conversation.wanted) for outcome in outcomes)
    return {
        "file": file,
        "conversations": len(outcomes),
        "should_remember": wanted,
        "remembered": wanted - sum(len(outcome.missed) for outcome in outcomes),
        "violations": [
            {"id": outcome.conversation.id, "text": violation.memory}
            for outcome in outcomes
            for violation in outcome.violations
        ],
    }


def _lowered(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text.lower() for text in texts)
