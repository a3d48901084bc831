"""Recall and learning without Envoy and gRPC: the parts that serve, the real model, Milvus Lite and the owner index.

Strategy: one user of each size, all active. Each question is asked for each of them and embedded by itself, one right
after the other, so that every figure has its part of the slow and of the fast moments. Where a user has more memories
than texts are embedded, a text's vector serves again, with noise.
"""

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench.context import Bench
from bench.figures import FirstRecall, Learning, ProcessFigures, Times
from bench.workload import memory_of, messages, questions, statements
from semrouter_memory.app.adapters import Adapters, ExternalModels, connect
from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.app.sidecar import SWITCH_SECONDS
from semrouter_memory.config import EmbeddingConfig, MemoryConfig, MilvusConfig
from semrouter_memory.errors import MemoryServiceError
from semrouter_memory.evaluation.cases import CaseTurn
from semrouter_memory.evaluation.running import Learner, turn_of
from semrouter_memory.events import WorkFailed
from semrouter_memory.model import (
    EmbeddedMemory,
    RecallOptions,
    RecallRequest,
    Scope,
    Vector,
)
from semrouter_memory.recall.categories import categories_of
from semrouter_memory.state.local import InProcessOwnerVersions
from semrouter_memory.store.index_cache import IndexCache
from semrouter_memory.telemetry.metrics import Metrics, TelemetryObserver
from semrouter_memory.transport.request_phase import RequestPhase

SIZES = (200, 1_000, 10_000)
QUESTIONS = 300
TURNS = 200
"""That are learned from."""

_EMBEDDED = 800
"""Texts that are embedded for one user."""
_NOISE = 0.02
_BATCH = 500
_WARM_UP = 10
_TIMES_COLD = 5
_TURNS_OF_SESSION = 10
_ANSWER = "Certainly. Here is a suggestion that should do for the start; tell me what to change."
_PATIENCE_SECONDS = 60


async def recall(bench: Bench) -> ProcessFigures:
    """Measure in this process."""
    async with in_process(bench.model, bench.directory / "recall", SIZES) as users:
        with bench.progress("writing the memories of three users", len(SIZES)) as done:
            for size in SIZES:
                await users.store(size)
                done(1)
        total = QUESTIONS + TURNS
        with bench.progress("recall in the process, first for users who were away; then learning", total) as done:

            def shown(items: Iterable[str]) -> Iterator[str]:
                for item in items:
                    yield item
                    done(1)

            return await users.measured(QUESTIONS, shown)


class RecallFailedError(MemoryServiceError):
    """So many recalls failed that their times would mean nothing."""


class InProcess:
    """Users of different sizes, and a recaller. Use `in_process`."""

    def __init__(self, config: MemoryConfig, adapters: Adapters, sizes: Sequence[int], on_exit: AsyncExitStack) -> None:
        self.config = config
        self.adapters = adapters
        self._sizes = sizes
        self._on_exit = on_exit
        self._models = ExternalModels((), config.retain, adapters.observer, on_exit)
        self.recaller = Pipelines(config, adapters, self._models).request_phase()
        self._asked = 0
        self._failed = 0

    async def store(self, size: int) -> None:
        """Write the memories of the user of that size."""
        scope, now = _scope(size), datetime.now(UTC)
        made = list(statements(size, seed=size))
        vectors = await self.adapters.embedder.embed_passages([content for _, content in made[:_EMBEDDED]])
        rows = [
            EmbeddedMemory(memory_of(scope, number, statement, now=now), vector)
            for number, (statement, vector) in enumerate(zip(made, repeated(vectors, size), strict=True))
        ]
        for start in range(0, size, _BATCH):
            await self.adapters.writer.upsert(scope, rows[start : start + _BATCH])

    async def measured(self, count: int, shown: Callable[[Iterable[str]], Iterable[str]]) -> ProcessFigures:
        """Ask so many questions.

        Args:
            shown: passes the questions through, and shows how far it is.

        Raises:
            RecallFailedError: most of the answers were failures.
        """
        await self.recaller.prepare()
        first = {size: await self._first(size) for size in self._sizes}
        for size in self._sizes:
            await self._at_hand(self.adapters, size)
        embedding: list[float] = []
        active: dict[int, list[float]] = {size: [] for size in self._sizes}
        for question in shown(questions(count + _WARM_UP)):
            embedding.append(await self._embedding_ms(question))
            for size, times in active.items():
                times.append(await self._recall_ms(self.recaller, size, question))
        if self._failed > self._asked / 2:
            raise RecallFailedError(f"{self._failed} of {self._asked} recalls failed or were late")
        return ProcessFigures(
            embedding=Times.of(embedding[_WARM_UP:]),
            active={size: Times.of(times[_WARM_UP:]) for size, times in active.items()},
            first=first,
            learning=await self._learning(shown),
        )

    async def _learning(self, shown: Callable[[Iterable[str]], Iterable[str]]) -> Learning:
        """Read so many turns of one user, one after the other, as the workers would between requests."""
        learner = Learner(Pipelines(self.config, self.adapters, self._models))
        scope = Scope("user-who-tells")
        reading, embedding = [], []
        for number, message in enumerate(shown(list(messages(TURNS)))):
            session = f"session-{number // _TURNS_OF_SESSION}"
            started = time.process_time()
            await learner.turn(turn_of(scope, session, CaseTurn(message, _ANSWER), at=datetime.now(UTC)))
            reading.append((time.process_time() - started) * 1000)
            started = time.process_time()
            await self.adapters.embedder.embed_query(message)
            embedding.append((time.process_time() - started) * 1000)
        kept = await self.adapters.store.count(scope)
        return Learning(turn=Times.of(reading[_WARM_UP:]), embedding=Times.of(embedding[_WARM_UP:]), kept=kept / TURNS)

    async def _first(self, size: int) -> FirstRecall:
        """What a user costs who was away: an empty index cache each time."""
        recalls, fills = [], []
        for question in questions(_TIMES_COLD, seed=size):
            adapters = self._elsewhere()
            recaller = Pipelines(self.config, adapters, self._models).request_phase()
            await recaller.prepare()
            started = time.perf_counter()
            recalls.append(await self._recall_ms(recaller, size, question))
            await self._at_hand(adapters, size)
            fills.append((time.perf_counter() - started) * 1000)
        return FirstRecall(recall=Times.of(recalls), at_hand=Times.of(fills))

    def _elsewhere(self) -> Adapters:
        """The adapters of another process on the same store."""
        adapters = self.adapters
        versions = InProcessOwnerVersions()
        indexes = IndexCache(
            adapters.store,
            versions,
            config=self.config.owner_index,
            on_error=lambda error: adapters.observer.observe(WorkFailed(error)),
            label=categories_of,
        )
        self._on_exit.push_async_callback(indexes.close)
        return replace(adapters, owner_indexes=indexes)

    async def _at_hand(self, adapters: Adapters, size: int) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        indexes = adapters.owner_indexes
        if indexes is None or await indexes.get(_scope(size), until=until) is None:
            raise RecallFailedError(f"the memories of the user with {size} are not at hand")

    async def _recall_ms(self, recaller: RequestPhase, size: int, question: str) -> float:
        request = self.request(size, question)
        started = time.perf_counter()
        result = await recaller.recall(request)
        took = (time.perf_counter() - started) * 1000
        self._asked += 1
        self._failed += not result.reason.is_outcome
        return took

    async def _embedding_ms(self, question: str) -> float:
        started = time.perf_counter()
        await self.adapters.embedder.embed_query(question)
        return (time.perf_counter() - started) * 1000

    def request(self, size: int, question: str) -> RecallRequest:
        """What the user of that size asks."""
        config = self.config
        return RecallRequest(
            scope=_scope(size),
            query=question,
            options=RecallOptions(limit=config.default_retrieval_limit, threshold=config.default_similarity_threshold),
            visible=(question,),
            loop_key=question,
        )


@asynccontextmanager
async def in_process(
    model: Path, directory: Path, sizes: Sequence[int], milvus: MilvusConfig | None = None
) -> AsyncIterator[InProcess]:
    """The parts as the service connects them, with the default configuration; the interpreter is set as there.

    Args:
        milvus: None: Milvus Lite.
    """
    async with AsyncExitStack() as exits:
        exits.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_SECONDS)
        config = MemoryConfig(
            data_dir=directory, embedding=EmbeddingConfig(path=model), milvus=milvus or MilvusConfig()
        )
        observer = TelemetryObserver(Metrics())
        adapters = await connect(config, observer=observer, arrived=lambda *_: None, on_exit=exits)
        yield InProcess(config, adapters, sizes, exits)


def _scope(size: int) -> Scope:
    return Scope(f"user-with-{size}")


def repeated(vectors: Sequence[Vector], count: int) -> list[Vector]:
    """So many vectors: these, and these again with noise."""
    noise = np.random.default_rng(count)
    further = [
        vectors[place % len(vectors)] + noise.normal(0, _NOISE, len(vectors[0])).astype(np.float32)
        for place in range(len(vectors), count)
    ]
    return [*vectors, *(vector / np.float32(np.linalg.norm(vector)) for vector in further)]
