"""Asks the service's recaller each query of each user.

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

import orjson

from semrouter_memory.app import pipelines
from semrouter_memory.app.adapters import Adapters
from semrouter_memory.app.models import ExternalModels
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.config import MemoryConfig
from semrouter_memory.evaluation.cases import CaseMessage
from semrouter_memory.evaluation.playing import PlayClock
from semrouter_memory.evaluation.retrieval import (
    Asked,
    Injected,
    Known,
    LabelledQuery,
    RetrievalCase,
    Scored,
    injected_of,
)
from semrouter_memory.evaluation.running import tracked
from semrouter_memory.exchange.policy import RouteSettings, policy_for
from semrouter_memory.exchange.turns import recall_request
from semrouter_memory.model import EmbeddedMemory, Memory, RecallRequest, RecallResult, Scope, Signals, Vector
from semrouter_memory.ports import Embedder
from semrouter_memory.transport.request_phase import RequestPhase

_UNDATED = datetime(2026, 1, 1, tzinfo=UTC)
_LATER = timedelta(days=1)
PATIENCE_MS = 10_000
_BATCH = 32
_TOTAL = "total"
_STEPS = 20
THRESHOLDS = tuple(step / _STEPS for step in range(_STEPS + 1))
"""Of the sweep, because a threshold is chosen by looking at what it costs and what it gives."""


@dataclass(frozen=True, slots=True)
class Point:
    """What a threshold gives."""

    threshold: float
    injected: Injected


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One file's sweep, and what was asked with the configured threshold."""

    file: str
    points: Sequence[Point]
    asked: Sequence[Asked]
    configured: float


def points_of(asked: Mapping[float, Sequence[Asked]]) -> list[Point]:
    """The points of a sweep, from what was asked with each threshold."""
    return [Point(threshold, injected_of(of_threshold)) for threshold, of_threshold in asked.items()]


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
    """Stores and asks.

    Args:
        models: the one with the role `memory_rewrite` takes part, where there is one.
    """

    def __init__(self, adapters: Adapters, clock: PlayClock, config: MemoryConfig, models: ExternalModels) -> None:
        recall = config.recall.model_copy(update={"deadline_ms": PATIENCE_MS})
        self._config = config.model_copy(update={"recall": recall})
        self._adapters = adapters
        self._clock = clock
        self._models = models
        self._ids = count()
        self._owners = 0

    async def store(self, file: str, users: Sequence[RetrievalCase]) -> list[Owner]:
        """Store the memories of a file's users."""
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
        recaller = pipelines.request_phase(self._config, self._adapters, self._models)
        await recaller.prepare()
        pairs = _pairs(owners)
        return [
            await self._asked(recaller, owner, query, self._request(owner, query))
            for owner, query in tracked(pairs, f"{file}: asking", total=len(pairs))
        ]

    async def sweep(self, file: str, owners: Sequence[Owner]) -> list[Point]:
        """Ask each query again with each threshold, by a new recaller, so that its cache does not distort measured times."""
        adapters = replace(self._adapters, embedder=CachingEmbedder(self._adapters.embedder))
        recaller = pipelines.request_phase(self._config, adapters, self._models)
        await recaller.prepare()
        pairs = _pairs(owners)
        asked: dict[float, list[Asked]] = {threshold: [] for threshold in THRESHOLDS}
        for owner, query in tracked(pairs, f"{file}: asking with each threshold", total=len(pairs)):
            request = self._request(owner, query)
            for threshold, of_threshold in asked.items():
                options = replace(request.options, threshold=threshold)
                of_threshold.append(await self._asked(recaller, owner, query, replace(request, options=options)))
        return points_of(asked)

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

    # -- what is asked -------------------------------------------------------------------------------------------------

    def _request(self, owner: Owner, query: LabelledQuery) -> RecallRequest:
        return request_of(owner.scope, query.text, query.history, self._config)

    async def _asked(self, recaller: RequestPhase, owner: Owner, query: LabelledQuery, request: RecallRequest) -> Asked:
        self._clock.time = owner.now
        started = time.perf_counter()
        result = await recaller.recall(request)
        total_ms = (time.perf_counter() - started) * 1000
        return asked_of(query, result, owner, total_ms=total_ms)


def _pairs(owners: Sequence[Owner]) -> list[tuple[Owner, LabelledQuery]]:
    return [(owner, query) for owner in owners for query in owner.queries]


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


class CachingEmbedder:
    """Same as the `Embedder` it is given, but a query is embedded once, however often it is asked."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._queries: dict[str, Vector] = {}

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    async def embed_query(self, text: str) -> Vector:
        if text not in self._queries:
            self._queries[text] = await self._embedder.embed_query(text)
        return self._queries[text]

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embedder.embed_passages(texts)

    def count_tokens(self, text: str) -> int:
        return self._embedder.count_tokens(text)

    @property
    def max_passage_tokens(self) -> int:
        return self._embedder.max_passage_tokens

    def passage_tokens(self, text: str) -> int:
        return self._embedder.passage_tokens(text)
