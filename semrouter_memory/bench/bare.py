"""The parts of recall by themselves, without Envoy and gRPC: embedding a query, searching the store."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from semrouter_memory.config import EmbeddingConfig, MilvusConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.model import EmbeddedMemory, Memory, MemoryType, Scope
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.telemetry.observer import TelemetryObserver

_SCOPE = Scope("alice")
_LIMIT = 15
"""As many rows as recall asks for with the default limit."""


class BareParts:
    """An embedder and a store with the memories in it."""

    def __init__(self, embedder: OnnxEmbedder, store: MilvusStore) -> None:
        self._embedder = embedder
        self._store = store

    async def ms(self, question: str) -> tuple[float, float]:
        """Milliseconds of embedding the question, and of searching for it."""
        started = time.perf_counter()
        vector = await self._embedder.embed_query(question)
        embedded = time.perf_counter()
        await self._store.search(_SCOPE, vector, limit=_LIMIT, now=datetime.now(UTC))
        return (embedded - started) * 1000, (time.perf_counter() - embedded) * 1000


@asynccontextmanager
async def bare_parts(model: Path, directory: Path, contents: Sequence[str]) -> AsyncIterator[BareParts]:
    """The parts, with `contents` stored in a Milvus Lite of their own."""
    embedder = await asyncio.to_thread(OnnxEmbedder.load, EmbeddingConfig(), model)
    observer = TelemetryObserver(Metrics())
    store = MilvusStore(MilvusConfig(), data_dir=directory, fingerprint=embedder.fingerprint, observer=observer)
    await store.start()
    try:
        vectors = await embedder.embed_passages(contents)
        numbered = enumerate(zip(contents, vectors, strict=True))
        await store.upsert(
            _SCOPE, [EmbeddedMemory(_memory(number, text), vector) for number, (text, vector) in numbered]
        )
        yield BareParts(embedder, store)
    finally:
        await store.close()


def _memory(number: int, content: str) -> Memory:
    now = datetime.now(UTC)
    return Memory(
        id=f"mem_{number:06d}",
        scope=_SCOPE,
        type=MemoryType.SEMANTIC,
        content=content,
        source="api",
        observed_at=now,
        created_at=now,
        updated_at=now,
    )
