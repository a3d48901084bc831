"""The parts of recall by themselves, without Envoy and gRPC: embedding a query, searching the store."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from semrouter_memory.config import MilvusConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.model import Criteria, Reach, Scope
from semrouter_memory.store.connection import MilvusConnection, StoreTarget, connect
from semrouter_memory.store.lite import LiteServer
from semrouter_memory.store.location import LiteFile, locate
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.telemetry.metrics import Metrics, TelemetryObserver

_LIMIT = 15
"""As many rows as recall asks for with the default limit."""


@dataclass(frozen=True, slots=True)
class BareTimes:
    """Attributes: embedding_cpu_ms: CPU time of one embedding."""

    embedding: list[float]
    embedding_cpu_ms: float
    search: list[float]


class BareParts:
    """An embedder and a store."""

    def __init__(self, embedder: OnnxEmbedder, store: MilvusStore) -> None:
        self._embedder = embedder
        self._store = store

    async def measure(self, user: str, questions: Sequence[str], *, pause_seconds: float = 0.0) -> BareTimes:
        """Embed each question, with pauses if asked, and search for each among the user's memories."""
        embedding, search, vectors = list[float](), list[float](), []
        cpu = time.process_time()
        for question in questions:
            if pause_seconds:
                await asyncio.sleep(pause_seconds)
            started = time.perf_counter()
            vectors.append(await self._embedder.embed_query(question))
            embedding.append((time.perf_counter() - started) * 1000)
        cpu = time.process_time() - cpu
        for vector in vectors:
            started = time.perf_counter()
            await self._store.search(
                Criteria(Scope(user), reach=Reach.RECALL, active_at=datetime.now(UTC)), vector, limit=_LIMIT
            )
            search.append((time.perf_counter() - started) * 1000)
        return BareTimes(embedding, cpu * 1000 / len(questions), search)


@asynccontextmanager
async def open_store(embedder: OnnxEmbedder, milvus: MilvusConfig, directory: Path) -> AsyncIterator[MilvusStore]:
    """The store that a service with these settings has."""
    observer = TelemetryObserver(Metrics())
    store = MilvusStore(milvus, data_dir=directory, fingerprint=embedder.fingerprint, observer=observer)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_collection(
    embedder: OnnxEmbedder, milvus: MilvusConfig, directory: Path
) -> AsyncIterator[MilvusConnection]:
    """The same store's collection, to write rows of many users at a time."""
    location = locate(milvus, directory)
    target = StoreTarget(
        location=location,
        token="",
        collection=milvus.collection,
        dimension=milvus.dimension,
        fingerprint=embedder.fingerprint,
    )
    collection = await connect(target, LiteServer(location.path) if isinstance(location, LiteFile) else None)
    try:
        yield collection
    finally:
        await collection.close()
