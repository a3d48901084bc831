"""The parts of recall by themselves, without Envoy and gRPC: embedding a query, searching the store."""

import time
from collections.abc import Sequence
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


async def bare_ms(
    model: Path, directory: Path, contents: Sequence[str], questions: Sequence[str]
) -> tuple[list[float], list[float]]:
    """Milliseconds of each embedding, and of each search among `contents` in Milvus Lite."""
    embedder = OnnxEmbedder.load(EmbeddingConfig(), model)
    store = MilvusStore(
        MilvusConfig(),
        data_dir=directory,
        fingerprint=embedder.fingerprint,
        observer=TelemetryObserver(Metrics()),
    )
    await store.start()
    try:
        vectors = await embedder.embed_passages(contents)
        rows = [
            EmbeddedMemory(_memory(number, text), vector)
            for number, (text, vector) in enumerate(zip(contents, vectors, strict=True))
        ]
        await store.upsert(_SCOPE, rows)
        embedding, search = [], []
        for question in questions:
            started = time.perf_counter()
            vector = await embedder.embed_query(question)
            embedded = time.perf_counter()
            await store.search(_SCOPE, vector, limit=_LIMIT, now=datetime.now(UTC))
            searched = time.perf_counter()
            embedding.append((embedded - started) * 1000)
            search.append((searched - embedded) * 1000)
        return embedding, search
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
