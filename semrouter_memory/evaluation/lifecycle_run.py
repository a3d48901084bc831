"""Plays lifecycle scenarios through the writer that serves, each for a user of its own.

Real are the writer with its rules, the embedder, the turn log (one turn for each candidate, claimed as the workers claim
it) and the locks. The store is the one of the unit tests, an exact search in this process's memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from semrouter_memory.config import Config
from semrouter_memory.evaluation.cases import parse_cases, write_json
from semrouter_memory.evaluation.chat_models import chat_model
from semrouter_memory.evaluation.embedder import load_embedder
from semrouter_memory.evaluation.lifecycle import Outcome, Scenario, judge, result_of, scenario_of
from semrouter_memory.evaluation.lifecycle_report import print_outcomes
from semrouter_memory.evaluation.progress import tracked
from semrouter_memory.model import Scope, SessionHints, Turn
from semrouter_memory.ports import ChatModel, Embedder
from semrouter_memory.retain.verdict import Judge
from semrouter_memory.retain.writing import ReconcilingWriter
from semrouter_memory.sessions.locks import InProcessOwnerLocks
from semrouter_memory.sessions.sqlite import SqliteTurnLog
from semrouter_memory.store.in_memory import InMemoryStore

_LEASE = timedelta(hours=1)


class _RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class _ScenarioClock:
    """It is the time of what was said last, so that nothing expires because a scenario is old."""

    def __init__(self) -> None:
        self._now = datetime.min.replace(tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def reach(self, time: datetime) -> None:
        self._now = max(self._now, time)


class LifecycleRun:
    """Plays scenarios. Use `open`."""

    def __init__(self, turn_log: SqliteTurnLog, embedder: Embedder, config: Config, model: ChatModel | None) -> None:
        self._turn_log = turn_log
        self._embedder = embedder
        self._ttl_days = config.memory.ageing.ttl_days
        self._judge = Judge(model) if model else None
        self._played = 0

    @classmethod
    @contextmanager
    def open(cls, embedder: Embedder, config: Config, *, model: ChatModel | None = None) -> Iterator["LifecycleRun"]:
        """With a turn log that is thrown away at the end.

        Args:
            model: decides the grey zone, as the one with the role `memory_reconcile` does.
        """
        with TemporaryDirectory(prefix="semrouter-memory-") as directory:
            turn_log = SqliteTurnLog(Path(directory) / "turns.db", clock=_RealClock())
            try:
                yield cls(turn_log, embedder, config, model)
            finally:
                turn_log.close()

    async def play(self, scenario: Scenario) -> Outcome:
        """Hand the candidates over one by one and look at what is known then."""
        self._played += 1
        scope = Scope(f"scenario-{self._played}")
        store, clock, ids = InMemoryStore(dimension=self._embedder.dimension), _ScenarioClock(), _Ids()
        writer = ReconcilingWriter(
            turn_log=self._turn_log,
            reader=store,
            writer=store,
            embedder=self._embedder,
            locks=InProcessOwnerLocks(),
            clock=clock,
            new_id=ids.draw,
            ttl_days=self._ttl_days,
            judge=self._judge,
        )
        turn_ids, session_id = self._append(scope, scenario)
        claim = await self._turn_log.claim(scope, session_id, lease=_LEASE, context=0)
        if claim is None:
            raise AssertionError("a session that nobody else knows of is taken")
        for candidate, turn_id in zip(scenario.candidates, turn_ids, strict=True):
            clock.reach(candidate.observed_at)
            await writer.write(claim, [replace(candidate, session_id=session_id, turn_ids=(turn_id,))])
        memories = [memory for memory_id in ids.drawn if (memory := await store.get(scope, memory_id))]
        return judge(
            scenario,
            [memory.content for memory in memories if memory.superseded_at is None],
            [memory.content for memory in memories if memory.superseded_at is not None],
        )

    def _append(self, scope: Scope, scenario: Scenario) -> tuple[list[str], str]:
        """One turn for each candidate, as if the user had said it in these words; their ids, and their session's."""
        hints = SessionHints(explicit=f"session-{self._played}")
        appended = [
            self._turn_log.append(
                Turn(
                    scope=scope,
                    hints=hints,
                    user_texts=(candidate.content,),
                    assistant_text="Noted.",
                    observed_at=candidate.observed_at,
                    request_id=f"{scope.user_id}-{number}",
                ),
                remember=False,
            )
            for number, candidate in enumerate(scenario.candidates)
        ]
        return [each.turn_id for each in appended], appended[0].session_id


class _Ids:
    """Draws ids and remembers them: what was written can then be read again, history included."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def draw(self) -> str:
        self.drawn.append(f"mem_{len(self.drawn):06d}")
        return self.drawn[-1]


async def evaluate(files: Sequence[Path], *, config: Config, model: Path | None, json_out: Path | None) -> None:
    """The command: read all files, play them, print tables and write the result.

    Args:
        model: the embedding model's directory; None finds it.
        json_out: where the JSON goes; None writes none.

    Raises:
        CaseFileError: a file is not one of scenarios, or the result cannot be written.
        ConfigurationError: the embedding model or a chat model's key is missing.
    """
    console = Console(highlight=False)
    scenarios = {file: parse_cases(file, scenario_of) for file in files}
    embedder = load_embedder(config, model=model, progress=lambda step: console.print(step, markup=False))
    results = []
    async with AsyncExitStack() as exits:
        run = exits.enter_context(
            LifecycleRun.open(embedder, config, model=chat_model(config, "memory_reconcile", exits))
        )
        for file, cases in scenarios.items():
            outcomes = [await run.play(case) for case in tracked(cases, file.name, total=len(cases))]
            print_outcomes(console, file.name, outcomes)
            results.append(result_of(file.name, outcomes))
    if json_out is not None:
        write_json(json_out, {"files": results})
