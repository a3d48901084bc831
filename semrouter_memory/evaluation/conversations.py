"""Plays conversations through the service's retainer, and compares what is remembered with what should be.

The command's help says what a line holds. Superseded memories are history: they are not recalled, so they count for neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from rich.console import Console
from rich.text import Text

from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.evaluation.cases import CaseTurn, LowerCased, Wanted
from semrouter_memory.evaluation.running import (
    EvalOptions,
    FailureRecorder,
    Learner,
    one_by_one,
    play_files,
    table_of,
)
from semrouter_memory.model import Criteria, Json, Scope

_LIMIT = 10_000
"""More memories than any conversation leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCase:
    """One line of a file."""

    id: str
    turns: tuple[CaseTurn, ...]
    should_remember: tuple[Wanted, ...]
    should_not_remember: tuple[LowerCased, ...]

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError("turns must hold at least one turn")


@dataclass(frozen=True, slots=True)
class Violation:
    unwanted: str
    memory: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """The memories of a conversation, to be compared with the expected ones.

    Attributes:
        memories: contents of the active memories.
        failures: what failed on the way, in a word each; a result with failures says little.
    """

    conversation: ConversationCase
    memories: tuple[str, ...]
    failures: tuple[str, ...] = ()

    @property
    def missed(self) -> tuple[Wanted, ...]:
        return tuple(each for each in self.conversation.should_remember if not each.told_in(self.memories))

    @property
    def violations(self) -> tuple[Violation, ...]:
        unwanted = self.conversation.should_not_remember
        return tuple(Violation(part, memory) for part in unwanted for memory in self.memories if part in memory.lower())


async def play(conversation: ConversationCase, scope: Scope, pipelines: Pipelines) -> Remembered:
    """Play every turn, end the session, and judge the memories; a model with the role `memory_extraction` extracts too."""
    await Learner(pipelines).session(scope, f"session-of-{scope.owner_id}", conversation.turns)
    adapters = pipelines.adapters
    page = await adapters.store.page(Criteria(scope, active_at=adapters.clock.now()), limit=_LIMIT)
    failures = cast("FailureRecorder", adapters.observer).failures
    memories = tuple(memory.content for memory in reversed(page.memories))
    return Remembered(conversation, memories, tuple(failures))


async def evaluate(options: EvalOptions) -> None:
    """The command; see `play_files`."""
    await play_files(options, ConversationCase, play=one_by_one(play), report=report, exact=True)


def result_of(file: str, outcomes: Sequence[Remembered]) -> dict[str, Json]:
    """One file's result, as it is written."""
    wanted = sum(len(outcome.conversation.should_remember) for outcome in outcomes)
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


def report(console: Console, file: str, outcomes: Sequence[Remembered]) -> dict[str, Json]:
    """Print one file's table, then every conversation that was not remembered as it should."""
    result = result_of(file, outcomes)
    wanted, found = result["should_remember"], result["remembered"]
    table = table_of(file, "conversations", ("should remember", "remembered", "share", "violations", "memories"))
    share = f"{found / wanted:.0%}" if wanted else "-"
    memories = sum(len(outcome.memories) for outcome in outcomes)
    table.add_row(*map(str, (len(outcomes), wanted, found, share, len(result["violations"]), memories)))
    console.print(table)
    for outcome in outcomes:
        if outcome.missed or outcome.violations or outcome.failures:
            console.print(_wrong(outcome), soft_wrap=True)
    return result


def _wrong(outcome: Remembered) -> Text:
    """It is text of the cases and of memories, so it must not be read as markup."""
    lines = [outcome.conversation.id]
    lines += [f"    failed:    {failure}" for failure in outcome.failures]
    lines += [f"    violation: {each.unwanted!r} is in: {each.memory}" for each in outcome.violations]
    lines += [f"    missed:    {wanted.about} ({' | '.join(wanted.any_of)})" for wanted in outcome.missed]
    lines += [f"    memory:    {memory}" for memory in outcome.memories] or ["    memory:    none"]
    return Text("\n".join(lines))
