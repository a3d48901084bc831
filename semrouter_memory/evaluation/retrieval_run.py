"""`eval retrieval`: asks the service's recaller each query of each user, prints and writes the figures.

The path from a chat request to recall's request, the recaller, the embedder and the store are the service's own. The store
is Milvus Lite on a temporary file, never the configured store. Each user of a file is a separate owner, and the time is a
day after the owner's newest memory. Recall has a long deadline: the evaluation measures what recall finds and how long
that takes, not what a loaded machine misses.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import orjson
from rich.console import Console
from rich.text import Text

from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.config import MemoryConfig
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.evaluation.cases import CaseMessage, write_file
from semrouter_memory.evaluation.retrieval import (
    Asked,
    Figures,
    Known,
    LabelledQuery,
    RetrievalCase,
    Scored,
    Swept,
    by_kind,
    injected_figures,
    picture,
    ranking_figures,
    result_of,
    step_times,
)
from semrouter_memory.evaluation.running import (
    EvalOptions,
    clock_of,
    play_files,
    print_failures,
    share,
    table_of,
    tracked,
)
from semrouter_memory.exchange.policy import RouteSettings, policy_for
from semrouter_memory.exchange.turns import recall_request
from semrouter_memory.model import EmbeddedMemory, Json, Memory, RecallRequest, RecallResult, Scope, Signals
from semrouter_memory.store.location import has_lite
from semrouter_memory.transport.request_phase import RequestPhase

_UNDATED = datetime(2026, 1, 1, tzinfo=UTC)
_LATER = timedelta(days=1)
_BATCH = 32
_TOTAL = "total"
_STEPS = 20
THRESHOLDS = tuple(step / _STEPS for step in range(_STEPS + 1))
"""Of the sweep, because a threshold is chosen by looking at what it costs and what it gives."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A user of a file, as stored.

    Attributes:
        memories: with ids that sort in the order of the file, because memories of one time are sorted by id.
        names: the stored ids -> the file's.
        now: the time at which its queries are asked.
    """

    scope: Scope
    memories: tuple[Memory, ...]
    names: dict[str, str]
    queries: tuple[LabelledQuery, ...]
    now: datetime


class RetrievalRun:
    """Stores and asks. A model with the role `memory_rewrite` takes part, where there is one."""

    def __init__(self, pipelines: Pipelines) -> None:
        self._pipelines = pipelines
        self._adapters = pipelines.adapters
        self._clock = clock_of(pipelines.adapters)
        self._ids = count()
        self._owners = 0

    async def store(self, file: str, users: Sequence[RetrievalCase]) -> list[Owner]:
        owners = [self._owner(user) for user in users]
        batches = [
            (owner.scope, owner.memories[at : at + _BATCH])
            for owner in owners
            for at in range(0, len(owner.memories), _BATCH)
        ]
        for scope, memories in tracked(batches, f"{file}: embedding and writing", total=len(batches)):
            vectors = await self._adapters.embedder.embed_passages([memory.content for memory in memories])
            rows = [EmbeddedMemory(memory, vector) for memory, vector in zip(memories, vectors, strict=True)]
            await self._adapters.writer.upsert(scope, rows)
        return owners

    async def ask(self, file: str, owners: Sequence[Owner]) -> list[Asked]:
        """Ask each query once, as a chat request would."""
        return (await self._ask(f"{file}: asking", owners, (None,)))[None]

    async def sweep(self, file: str, owners: Sequence[Owner]) -> dict[float, Figures]:
        """Ask each query again with each threshold."""
        asked = await self._ask(f"{file}: asking with each threshold", owners, THRESHOLDS)
        return {threshold: injected_figures(asked[threshold]) for threshold in THRESHOLDS}

    async def _ask(
        self, what: str, owners: Sequence[Owner], thresholds: Sequence[float | None]
    ) -> dict[float | None, list[Asked]]:
        """Args: thresholds: None: as configured."""
        recaller = self._pipelines.request_phase()
        await recaller.prepare()
        pairs = [(owner, query) for owner in owners for query in owner.queries]
        asked: dict[float | None, list[Asked]] = {threshold: [] for threshold in thresholds}
        for owner, query in tracked(pairs, what, total=len(pairs)):
            request = request_of(owner.scope, query.text, query.history, self._pipelines.memory)
            for threshold, of_threshold in asked.items():
                options = request.options if threshold is None else replace(request.options, threshold=threshold)
                of_threshold.append(await self._asked(recaller, owner, query, replace(request, options=options)))
        return asked

    async def _asked(self, recaller: RequestPhase, owner: Owner, query: LabelledQuery, request: RecallRequest) -> Asked:
        self._clock.time = owner.now
        started = time.perf_counter()
        result = await recaller.recall(request)
        total_ms = (time.perf_counter() - started) * 1000
        return asked_of(query, result, owner, total_ms=total_ms)

    # -- what is known -------------------------------------------------------------------------------------------------

    def _owner(self, user: RetrievalCase) -> Owner:
        self._owners += 1
        scope = Scope(f"user-{self._owners}")
        dates = [known.created_at for known in user.memories if known.created_at is not None] or [_UNDATED]
        memories = tuple(self._memory(scope, known, undated=min(dates)) for known in user.memories)
        names = {memory.id: known.id for memory, known in zip(memories, user.memories, strict=True)}
        return Owner(scope, memories, names, user.queries, max(dates) + _LATER)

    def _memory(self, scope: Scope, known: Known, *, undated: datetime) -> Memory:
        at = known.created_at or undated
        return Memory(
            id=f"mem_{next(self._ids):08d}",
            scope=scope,
            type=known.type,
            content=known.content,
            source="conversation",
            observed_at=at,
            created_at=at,
            updated_at=at,
        )


def request_of(scope: Scope, text: str, history: Sequence[CaseMessage], config: MemoryConfig) -> RecallRequest:
    """The recall request of a chat client that sends this text after this conversation, and nothing else."""
    messages = [{"role": message.role, "content": message.content} for message in history]
    messages.append({"role": "user", "content": text})
    parsed = ChatCodec().parse(orjson.dumps({"model": "m", "messages": messages}))
    policy = policy_for(config, RouteSettings(), parsed.settings, opted_out=False)
    return recall_request(scope, parsed, policy.options, Signals())


def asked_of(query: LabelledQuery, result: RecallResult, owner: Owner, *, total_ms: float) -> Asked:
    """Recall's result with the file's names. A memory that two searches found has its better rank."""
    names = owner.names
    best: dict[str, float] = {}
    for hit in result.ranking:
        best.setdefault(names[hit.memory.id], hit.relevance)
    return Asked(
        query=query,
        ranking=tuple(Scored(*pair) for pair in best.items()),
        injected=tuple(names[hit.memory.id] for hit in result.hits),
        steps_ms={**result.steps_ms, _TOTAL: total_ms},
        failed=result.reason if result.reason.is_failure else "",
    )


# -- the command -------------------------------------------------------------------------------------------------------


async def evaluate(options: EvalOptions, *, plot: Path | None, sweep: bool) -> None:
    """The command; see `play_files`.

    Args:
        plot: where the picture goes; None draws none.
        sweep: ask again with other thresholds; a picture needs it.

    Raises:
        ConfigurationError: also when the library that draws is missing.
    """
    if plot:
        _require_matplotlib()
    swept: list[Swept] = []

    async def play(name: str, users: Sequence[RetrievalCase], pipelines: Pipelines) -> Swept:
        run = RetrievalRun(pipelines)
        owners = await run.store(name, users)
        asked = await run.ask(name, owners)
        points = await run.sweep(name, owners) if sweep or plot else {}
        threshold = pipelines.memory.default_similarity_threshold
        return Swept(file=name, points=points, asked=asked, configured=threshold)

    def report(console: Console, name: str, outcome: Swept) -> Json:
        if not has_lite():
            console.print("Milvus Lite is not installed: an exact search in memory stands in for it.")
        print_figures(console, name, outcome.asked)
        if outcome.points:
            print_sweep(console, outcome.points, configured=outcome.configured)
            swept.append(outcome)
        return result_of(name, outcome.asked)

    await play_files(options, RetrievalCase, play=play, report=report)
    if plot:
        write_file(plot, picture(swept))


def _require_matplotlib() -> None:
    """Before anything is measured, since it is an extra."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415 - its library is an extra
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--plot needs {error.name}, which is not installed: pip install 'semrouter-memory[eval]'"
        ) from None


_RANKING = {"recall@5": "recall@5", "recall@10": "recall@10", "nDCG@5": "ndcg@5", "MRR": "mrr"}
_INJECTED = {
    "per query": "per_query",
    "precision": "precision",
    "recall": "recall",
    "false injection": "false_injection",
}
"""Headings of the tables' columns -> names of the figures."""


def print_figures(console: Console, file: str, asked: Sequence[Asked]) -> None:
    """One file's tables, and what is to be known of them."""
    ranking = table_of("the ranking, before any cut", "kind", ("queries", *_RANKING))
    injected = table_of("what is injected", "kind", tuple(_INJECTED))
    for kind, of_kind in [*by_kind(asked, lambda each: each.query.kind).items(), ("all", asked)]:
        if of_kind is asked:
            ranking.add_section()
            injected.add_section()
        ranking.add_row(Text(kind), str(len(of_kind)), *_shares(ranking_figures(of_kind), _RANKING))
        injected.add_row(Text(kind), *_shares(injected_figures(of_kind), _INJECTED))
    times = table_of("milliseconds by step", "step", ("p50", "p95"))
    for step, percentiles in step_times(asked).items():
        times.add_row(step, *(f"{ms:.2f}" for ms in percentiles.values()))
    console.print(Text(f"\n{file}", style="bold"))
    for table in (ranking, injected, times):
        console.print(table)
    if injected_figures(asked)["false_injection"] is None:
        console.print("Every query has gold: false injection is not measured here.")
    print_failures(console, (each.failed for each in asked))


def print_sweep(console: Console, points: Mapping[float, Figures], *, configured: float) -> None:
    """What each threshold gives; the configured one is said, since it need not be among them."""
    table = table_of(f"what is injected by threshold ({configured:g} is configured)", "threshold", tuple(_INJECTED))
    for threshold, figures in points.items():
        table.add_row(f"{threshold:.2f}", *_shares(figures, _INJECTED))
    console.print(table)


def _shares(figures: Figures, names: Mapping[str, str]) -> list[str]:
    return [share(figures[name]) for name in names.values()]
