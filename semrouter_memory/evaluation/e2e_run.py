"""Plays sessions through the service's pipelines, then asks the questions in new conversations.

The turn log, the retainer, the store (Milvus Lite on a temporary file), the owner index and the recaller are the service's
own; the clock follows the file. Questions are asked after the last session and are not stored. Recall has a long deadline,
so that the figures do not depend on the machine's load.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.app import pipelines
from semrouter_memory.app.adapters import Adapters
from semrouter_memory.app.models import ExternalModels
from semrouter_memory.config import Config, MemoryConfig
from semrouter_memory.evaluation.cases import parse_cases, write_json
from semrouter_memory.evaluation.e2e import CaseQuestion, EndToEndCase, JudgedQuestion, MissStage, judge, user_of
from semrouter_memory.evaluation.playing import PlayClock, work
from semrouter_memory.evaluation.retrieval_run import PATIENCE_MS, request_of, throwaway_adapters
from semrouter_memory.evaluation.running import embedder_of, models_of, tracked
from semrouter_memory.model import Hit, Json, Memory, Reach, Scope, SessionHints, SessionKey, Turn
from semrouter_memory.recall.render import line

_TURN_TIME = timedelta(minutes=1)
_PAGE = 500
_FIRST = 10


class EndToEndRun:
    """Plays users one after the other, each as a separate owner."""

    def __init__(self, adapters: Adapters, clock: PlayClock, config: MemoryConfig, models: ExternalModels) -> None:
        recall = config.recall.model_copy(update={"deadline_ms": PATIENCE_MS})
        self._config = config.model_copy(update={"recall": recall})
        self._adapters = adapters
        self._clock = clock
        self._woken: list[SessionKey] = []
        self._retainer = pipelines.retainer(self._config, adapters, models, wake=self._woken.append)
        self._recaller = pipelines.request_phase(self._config, adapters, models)
        self._users = 0
        self.memories = 0

    async def prepare(self) -> None:
        """Embed recall's prototypes before the first question."""
        await self._recaller.prepare()

    async def play(self, user: EndToEndCase) -> list[JudgedQuestion]:
        """Play every turn of every session, then ask every question."""
        self._users += 1
        scope = Scope(f"user-{self._users}")
        for number, session in enumerate(user.sessions):
            name = f"{scope.user_id}-session-{number}"
            self._clock.time = session.at
            for turn in session.turns:
                await self._say(scope, name, *turn)
                self._clock.time += _TURN_TIME
            await self._adapters.turn_log.end_session(scope, name)
            await self._retainer.tick()
            await work(self._retainer, self._woken)
        stored = [self._shown(memory) for memory in await self._all(scope)]
        self.memories += len(stored)
        return [await self._ask(scope, user.id, question, stored) for question in user.questions]

    async def _say(self, scope: Scope, session: str, text: str, answer: str) -> None:
        turn = Turn(
            scope=scope,
            hints=SessionHints(explicit=session),
            user_texts=(text,),
            assistant_text=answer,
            observed_at=self._clock.now(),
            request_id=f"{session}-{self._clock.now().isoformat()}",
        )
        self._retainer.intake.accept(turn)
        await work(self._retainer, self._woken)

    async def _ask(self, scope: Scope, user: str, question: CaseQuestion, stored: Sequence[str]) -> JudgedQuestion:
        self._clock.time = question.at
        result = await self._recaller.recall(request_of(scope, question.text, question.history, self._config))
        return judge(
            user,
            question,
            injected=result.text,
            tokens=result.tokens,
            stored=stored,
            first_ten=[line(hit, self._config.recall.render) for hit in result.ranking[:_FIRST]],
            failed=result.reason if result.reason.is_failure else "",
        )

    def _shown(self, memory: Memory) -> str:
        return line(Hit(memory, 0.0, 0.0), self._config.recall.render)

    async def _all(self, scope: Scope) -> list[Memory]:
        found: list[Memory] = []
        cursor = ""
        while True:
            page = await self._adapters.store.page(
                scope, limit=_PAGE, cursor=cursor, reach=Reach.ALL, now=self._clock.now()
            )
            found += page.memories
            if not (cursor := page.cursor):
                return found


async def evaluate(
    files: Sequence[Path], *, config: Config, model: Path | None, json_out: Path | None, misses: bool
) -> None:
    """The command: play every user of the files, print tables, write the result.

    Args:
        model: the embedding model's directory; None finds it.
        json_out: where the JSON goes; None writes none.
        misses: also print every question that was missed.

    Raises:
        InputFileError: a file does not fit, or the result cannot be written.
        ConfigurationError: the embedding model or a chat model's key is missing.
    """
    console = Console(highlight=False)
    # All of them before the first is played, so that a mistake in the last shows at once.
    cases = {file: parse_cases(file, user_of) for file in files}
    embedder = embedder_of(config, model, console)
    results = []
    async with models_of(config) as models:
        for file, users in cases.items():
            async with throwaway_adapters(embedder, config.memory) as (adapters, clock):
                run = EndToEndRun(adapters, clock, config.memory, models)
                await run.prepare()
                judged: list[JudgedQuestion] = []
                for user in tracked(users, file.name, total=len(users)):
                    judged += await run.play(user)
            print_figures(console, file.name, judged, memories=run.memories)
            if misses:
                print_misses(console, judged)
            results.append({"file": file.name, "memories": run.memories, **figures_of(judged)})
    if json_out is not None:
        write_json(json_out, {"files": results})


_WANTING = "all that want memory"
_NOT_WANTING = "all that want none"
_COLUMNS = ("questions", "answered", "coverage", "misled", "quiet", "tokens")


def figures_of(judged: Sequence[JudgedQuestion]) -> dict[str, Json]:
    """The figures of one file, as they are written: by kind and of all, and every question's verdict."""
    groups = {**_by_kind(judged), **_totals(judged)}
    return {
        "kinds": {name: _figures(group) for name, group in groups.items()},
        "lost": {lost.value: count for lost, count in _lost(judged).items()},
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
    table = Table(title=Text(f"{file}: {memories} memories"), title_justify="left")
    table.add_column("kind")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for name, group in _by_kind(judged).items():
        _add(table, name, group)
    table.add_section()
    for name, group in _totals(judged).items():
        _add(table, name, group)
    console.print(table)
    lost = _lost(judged)
    console.print(f"lost: {', '.join(f'{name} {lost[name]}' for name in MissStage)}")
    if failed := Counter(each.failed for each in judged if each.failed):
        reasons = ", ".join(f"{reason}: {count}" for reason, count in failed.items())
        console.print(f"[red]Failed, and counted as nothing injected: {reasons}[/red]")


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
            cells = (f"{each.user} {question.id}\n{question.kind}", question.text, wanted, verdict, each.injected)
            table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _by_kind(judged: Sequence[JudgedQuestion]) -> dict[str, list[JudgedQuestion]]:
    kinds = sorted({each.question.kind for each in judged})
    return {kind: [each for each in judged if each.question.kind == kind] for kind in kinds}


def _totals(judged: Sequence[JudgedQuestion]) -> dict[str, list[JudgedQuestion]]:
    wanting = [each for each in judged if each.question.wants_memory]
    others = [each for each in judged if not each.question.wants_memory]
    return {name: group for name, group in ((_WANTING, wanting), (_NOT_WANTING, others)) if group}


def _figures(group: Sequence[JudgedQuestion]) -> dict[str, float | None]:
    """Shares and means; None where there is nothing to count."""
    matched = [each.score for each in group if each.question.any_of]
    covered = [each.score for each in group if each.question.answer]
    unwanting = [each.score for each in group if not each.question.wants_memory]
    return {
        "questions": len(group),
        "answered": fmean(matched) if matched else None,
        "coverage": fmean(covered) if covered else None,
        "misled": fmean(each.misled for each in group),
        "quiet": fmean(unwanting) if unwanting else None,
        "tokens": fmean(each.tokens for each in group),
    }


def _add(table: Table, name: str, group: Sequence[JudgedQuestion]) -> None:
    figures = _figures(group)
    shares = (figures[column] for column in _COLUMNS[1:-1])
    cells = ("-" if share is None else f"{share:.2f}" for share in shares)
    table.add_row(Text(name), str(len(group)), *cells, f"{figures['tokens']:.0f}")


def _lost(judged: Sequence[JudgedQuestion]) -> Counter[MissStage]:
    return Counter(each.lost for each in judged if each.lost)
