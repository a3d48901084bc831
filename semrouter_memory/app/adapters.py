"""The outside world, connected as the configuration says. What may refuse the configuration comes first.

Each part puts its own end onto the exit stack as soon as it is there, so whatever fails after it leaves nothing behind.
"""

import asyncio
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import Stemmer

import semrouter_memory
from semrouter_memory.backends import Backends
from semrouter_memory.config import ExternalModel, MemoryConfig, RetainConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.events import PassagesTruncated, WorkFailed
from semrouter_memory.learned import use_profile
from semrouter_memory.llm.circuit import ModelCircuits
from semrouter_memory.manage.backup import StoreFiles
from semrouter_memory.model import Scope
from semrouter_memory.ports import (
    ChatModel,
    Clock,
    Embedder,
    MemoryReader,
    MemoryWriter,
    Observer,
    OwnerLocks,
    StateStore,
    TurnLog,
)
from semrouter_memory.recall.categories import categories_of
from semrouter_memory.recall.deadline import OWNER_VERSION
from semrouter_memory.resilience import Backoff
from semrouter_memory.retain.passages import SplittingWriter
from semrouter_memory.state.local import InProcessOwnerLocks, InProcessOwnerVersions, SqliteStateStore
from semrouter_memory.store.index_cache import AnnouncingWriter, IndexCache
from semrouter_memory.store.index_loader import RecordReader
from semrouter_memory.store.index_record import RecordFormat
from semrouter_memory.store.milvus import CollectionAdmin, MilvusStore, SecondaryCollection
from semrouter_memory.store.owner_versions import OwnerVersions
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog

if TYPE_CHECKING:
    from semrouter_memory.llm.client import OpenAIChatModel

_DATA_MODE = 0o700
_VERSION_BYTES = 8


class SystemClock:
    """The `Clock` of the running service."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class Store(MemoryReader, MemoryWriter, RecordReader, StoreFiles, Protocol):
    """A store to read, to write and to copy."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """What keeps turns, sessions' state, owners' locks and versions: all in one place, or replicas could not share it."""

    turn_log: TurnLog
    state: StateStore
    locks: OwnerLocks
    versions: OwnerVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters(Backends):
    """Everything outside that the pipelines work with.

    Attributes:
        documents: passages of organisations' documents.
    """

    store: Store
    owner_indexes: IndexCache | None = None
    collections: CollectionAdmin | None = None
    documents: SecondaryCollection | None = None


async def connect(
    memory: MemoryConfig,
    *,
    observer: Observer,
    arrived: Callable[[Scope, str], object],
    on_exit: AsyncExitStack,
    clock: Clock | None = None,
    embedder: Embedder | None = None,
    store: Store | None = None,
) -> Adapters:
    """Connect everything.

    Args:
        arrived: called with turns that reached a shared log (scope, session id), so that this replica may claim them.
        clock, embedder, store: in place of the system's clock, and of what is configured; the caller closes the store.

    Raises:
        ConfigurationError: a setting, file or schema does not fit.
    """
    clock = clock or SystemClock()
    if embedder is None:
        embedder = await asyncio.to_thread(_embedder, memory, observer)
    await asyncio.to_thread(_make_directory, memory.directory)
    shared = memory.redis.url is not None
    parts = _in_redis(memory, clock, observer, arrived, on_exit) if shared else _in_files(memory, clock, on_exit)
    sessions = await parts
    store = store or await _store(memory, embedder, observer, sessions, on_exit)
    milvus = store if isinstance(store, MilvusStore) else None
    # Also where recall does not use it: writers announce their writes through it, and other replicas may cache indexes.
    config, failed = memory.owner_index, _observed(observer)
    indexes = IndexCache(store, sessions.versions, config=config, on_error=failed, label=categories_of)
    on_exit.push_async_callback(indexes.close)
    return Adapters(
        embedder=embedder,
        store=store,
        collections=milvus.collections if milvus else None,
        documents=milvus.secondary("knowledge") if milvus else None,
        writer=SplittingWriter(AnnouncingWriter(store, indexes), embedder),
        owner_indexes=indexes if memory.owner_index.enabled else None,
        turn_log=sessions.turn_log,
        state=sessions.state,
        locks=sessions.locks,
        clock=clock,
        observer=observer,
    )


def _observed(observer: Observer) -> Callable[[BaseException], object]:
    """Reports errors that are bugs."""
    return lambda error: observer.observe(WorkFailed(error))


async def _store(
    memory: MemoryConfig, embedder: Embedder, observer: Observer, sessions: Sessions, on_exit: AsyncExitStack
) -> MilvusStore:
    store = MilvusStore(
        memory.milvus,
        data_dir=memory.directory,
        fingerprint=embedder.fingerprint,
        observer=observer,
        tombstones=sessions.turn_log.tombstones,
        versions=sessions.versions,
        locks=sessions.locks,
        record_format=record_format(),
    )
    await store.start()
    on_exit.push_async_callback(store.close)
    return store


def _embedder(memory: MemoryConfig, observer: Observer) -> OnnxEmbedder:
    """The embedding model, with the learned decisions that were fitted for it."""

    def truncated(count: int) -> None:
        observer.observe(PassagesTruncated(count))

    embedder = OnnxEmbedder.load(memory.embedding, memory.model_directory, truncated=truncated)
    use_profile(memory.model_directory, embedder.fingerprint)
    return embedder


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=_DATA_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"memory.data_dir: cannot make {directory}: {error.strerror}") from None


async def _in_files(memory: MemoryConfig, clock: Clock, on_exit: AsyncExitStack) -> Sessions:
    directory = memory.directory
    turn_log = SqliteTurnLog(directory / "turns.db", clock=clock, config=memory.retain)
    on_exit.callback(turn_log.close)
    state = SqliteStateStore(directory / "state.db", clock=clock)
    on_exit.callback(state.close)
    return Sessions(turn_log, state, InProcessOwnerLocks(), InProcessOwnerVersions())


async def _in_redis(
    memory: MemoryConfig,
    clock: Clock,
    observer: Observer,
    arrived: Callable[[Scope, str], object],
    on_exit: AsyncExitStack,
) -> Sessions:
    # The client's library takes 0.1 s to load, and most installations have no Redis.
    from semrouter_memory.databases.redis_connection import RedisConnection  # noqa: PLC0415
    from semrouter_memory.state import redis as state  # noqa: PLC0415
    from semrouter_memory.turn_log.redis_log import RedisTurnLog  # noqa: PLC0415

    config = memory.redis
    redis = RedisConnection(config)
    on_exit.push_async_callback(redis.aclose)
    await redis.start()
    turn_log = RedisTurnLog(
        memory.directory / "turns.db",
        redis,
        prefix=config.prefix,
        clock=clock,
        forwarded=arrived,
        on_error=_observed(observer),
        config=memory.retain,
    )
    on_exit.push_async_callback(turn_log.stop)
    await turn_log.start()
    return Sessions(
        turn_log,
        state.RedisStateStore(redis, prefix=config.prefix, clock=clock),
        state.RedisOwnerLocks(redis, prefix=config.prefix, lock_seconds=config.lock_seconds),
        state.RedisOwnerVersions(
            redis, prefix=config.prefix, patience_seconds=memory.recall.deadline_ms / 1000 * OWNER_VERSION
        ),
    )


@cache
def record_format() -> RecordFormat:
    """What makes the stored part of the owners' indexes. Its version changes with any of the code that takes part."""
    package = Path(semrouter_memory.__file__).parent
    sources = [package / "store/index_record.py", *(package / "recall").glob("categor*")]
    for part in ("language", "model"):
        sources += (package / part).glob("*.*")
    digest = blake2b(f"{Stemmer.version()} {unicodedata.unidata_version}".encode(), digest_size=_VERSION_BYTES)
    for source in sorted(sources):
        digest.update(source.read_bytes())
    return RecordFormat(categories_of, digest.hexdigest())


class ExternalModels:
    """Makes a client for each configured role, closed with the exit stack.

    Args:
        traced: makes each call of a model a span; None: tracing is off.

    Attributes:
        reflecting: the model that answers questions about memories and finds insights in them.
    """

    def __init__(
        self,
        sections: Sequence[ExternalModel],
        config: RetainConfig,
        observer: Observer,
        on_exit: AsyncExitStack,
        traced: Callable[[ChatModel, ExternalModel], ChatModel] | None = None,
    ) -> None:
        backoff = Backoff(first=config.breaker_seconds, longest=config.breaker_max_seconds)
        circuits = ModelCircuits(backoff, failures=config.breaker_failures, observer=observer)

        def made(section: ExternalModel) -> ChatModel:
            model = _client_of(section, circuits)
            on_exit.push_async_callback(model.aclose)
            return traced(model, section) if traced else model

        self._models: dict[str, ChatModel] = {section.model_role: made(section) for section in sections}
        # By itself: that it is too slow for a question says nothing about extraction.
        extraction = (made(section) for section in sections if section.model_role == "memory_extraction")
        self.reflecting = self.of_role("memory_reflect") or next(extraction, None)

    async def warm(self) -> None:
        """Have the first call of every role cost what later ones do; whether its server is there does not matter."""
        if self._models:
            from semrouter_memory.llm.client import warm  # noqa: PLC0415 - see `_client_of`

            await warm()

    def of_role(self, role: str) -> ChatModel | None:
        return self._models.get(role)


def _client_of(section: ExternalModel, circuits: ModelCircuits) -> "OpenAIChatModel":
    # The client library takes a fifth of the start, and most installations configure no model.
    from semrouter_memory.llm.client import OpenAIChatModel  # noqa: PLC0415

    return OpenAIChatModel(section, section.api_key, circuit=circuits.circuit(section.llm_endpoint.url))
