"""Plays conversations through the service's retainer, each as one session of a separate user, up to its end."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.app import pipelines
from semrouter_memory.app.adapters import Adapters
from semrouter_memory.app.models import ExternalModels
from semrouter_memory.config import Config, MemoryConfig
from semrouter_memory.evaluation.conversations import ConversationCase, Remembered, conversation_of, judge, result_of
from semrouter_memory.evaluation.playing import FailureRecorder, PlayClock, work
from semrouter_memory.evaluation.running import play_files
from semrouter_memory.model import Reach, Scope, SessionHints, SessionKey, Turn
from semrouter_memory.store.in_memory import InMemoryStore

_TURN_TIME = timedelta(minutes=1)
_LIMIT = 10_000
"""More memories than any conversation leaves."""


class ConversationsRun:
    """Plays conversations.

    Args:
        models: the one with the role `memory_extraction` extracts too, where there is one.
    """

    def __init__(self, adapters: Adapters, config: MemoryConfig, models: ExternalModels) -> None:
        self._adapters = adapters
        self._clock = cast("PlayClock", adapters.clock)
        self._config = config
        self._models = models
        self._played = 0

    async def play(self, conversation: ConversationCase) -> Remembered:
        """Play every turn, end the session, and judge the memories."""
        self._played += 1
        scope, woken, observer = Scope(f"conversation-{self._played}"), list[SessionKey](), FailureRecorder()
        store = InMemoryStore(dimension=self._adapters.embedder.dimension)
        adapters = replace(self._adapters, store=store, writer=store, observer=observer)
        retainer = pipelines.retainer(self._config, adapters, self._models, wake=woken.append)
        for number, (user, assistant) in enumerate(conversation.turns):
            self._clock.time += _TURN_TIME
            retainer.intake.accept(self._turn(scope, number, user, assistant))
            await work(retainer, woken)
        await adapters.turn_log.end_session(scope, _session(scope))
        await retainer.tick()
        await work(retainer, woken)
        page = await store.page(scope, limit=_LIMIT, reach=Reach.ALL, now=self._clock.now())
        return judge(conversation, [memory.content for memory in reversed(page.memories)], observer.failures)

    def _turn(self, scope: Scope, number: int, user: str, assistant: str) -> Turn:
        return Turn(
            scope=scope,
            hints=SessionHints(explicit=_session(scope)),
            user_texts=(user,),
            assistant_text=assistant,
            observed_at=self._clock.now(),
            request_id=f"{scope.user_id}-{number}",
        )


async def evaluate(files: Sequence[Path], *, config: Config, model: Path | None, json_out: Path | None) -> None:
    """The command; see `play_files`."""
    await play_files(
        files,
        conversation_of,
        ConversationsRun,
        show=print_remembered,
        result=result_of,
        config=config,
        model=model,
        json_out=json_out,
    )


def _session(scope: Scope) -> str:
    return f"session-of-{scope.user_id}"


_NONE = "-"


def print_remembered(console: Console, file: str, outcomes: Sequence[Remembered]) -> None:
    """One file's table, then every conversation that was not remembered as it should."""
    result = result_of(file, outcomes)
    wanted, found = result["should_remember"], result["remembered"]
    table = Table(title=Text(file), title_justify="left")
    for name in ("conversations", "should remember", "remembered", "share", "violations", "memories"):
        table.add_column(name, justify="right")
    share = f"{found / wanted:.0%}" if wanted else _NONE
    memories = sum(len(outcome.memories) for outcome in outcomes)
    cells = (len(outcomes), wanted, found, share, len(result["violations"]), memories)
    table.add_row(*(Text(str(cell)) for cell in cells))
    console.print(table)
    for outcome in outcomes:
        if outcome.missed or outcome.violations or outcome.failures:
            console.print(_wrong(outcome), soft_wrap=True)


def _wrong(outcome: Remembered) -> Text:
    """It is text of the cases and of memories, so it must not be read as markup."""
    lines = [outcome.conversation.id]
    lines += [f"    failed:    {failure}" for failure in outcome.failures]
    lines += [f"    violation: {each.unwanted!r} is in: {each.memory}" for each in outcome.violations]
    lines += [f"    missed:    {wanted.about} ({' | '.join(wanted.any_of)})" for wanted in outcome.missed]
    lines += [f"    memory:    {memory}" for memory in outcome.memories] or ["    memory:    none"]
    return Text("\n".join(lines))
