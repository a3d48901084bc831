"""Both ports of the management API over real HTTP, in a thread of their own, for tests that are not coroutines."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import orjson
from fastapi import FastAPI

from semrouter_memory.app.adapters import record_format
from semrouter_memory.config import KnowledgeConfig, ManagementConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.maintenance.recall_journal import add_receipts
from semrouter_memory.manage.access import Access
from semrouter_memory.manage.http import create_user_api
from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.model import Memory, Scope, SessionHints, Turn
from semrouter_memory.ports import ChatModel
from semrouter_memory.retain.redact import redact
from semrouter_memory.state.local import SqliteStateStore
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.hashed import HashedEmbedder
from tests.memory_service import (
    access_to,
    backends_of,
    knowledge_service,
    memory_service,
    operator_api,
    reflector,
)

TOKEN = "operator-token"
T = TypeVar("T")
_CONFIG = ManagementConfig(max_content_chars=500)
DESCRIPTION = "/v1/memory/openapi.json"


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class OneCollection:
    """The memories of a store as the only collection (implements `Collections`)."""

    current = "memories"

    def __init__(self, store: InMemoryStore) -> None:
        self._store = store

    async def embeddings(self) -> Mapping[str, str]:
        return {self.current: "hashed"}

    async def count(self, name: str) -> int:
        return sum([len(memories) async for memories in self.scan(name)])

    def scan(self, name: str) -> AsyncIterator[Sequence[Memory]]:
        assert name == self.current
        return self._store.scan()

    async def drop(self, name: str) -> None:
        raise AssertionError(f"{name} is in use")


@dataclass(frozen=True, slots=True)
class Ports:
    """Where they are, and what is behind them."""

    user_url: str
    operator_url: str
    log: SqliteTurnLog
    state: SqliteStateStore
    directory: Path
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """In the loop of the ports."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def append(self, user: str, text: str) -> str:
        """Make a turn that waits; returns its id."""
        turn = Turn(
            scope=Scope(user),
            hints=SessionHints(explicit="s1"),
            user_texts=(text,),
            assistant_text="answer",
            observed_at=datetime.now(UTC),
            request_id=uuid.uuid4().hex,
        )
        return self.log.append(turn, remember=False).turn_id

    def bury(self, user: str) -> None:
        """Make dead letters of the user's waiting turns."""
        self.run(self._bury(Scope(user)))

    async def _bury(self, scope: Scope) -> None:
        (session,) = [each for each in await self.log.pending() if each.scope == scope]
        claim = await self.log.claim(scope, session.session_id, lease=timedelta(minutes=1), context=0)
        assert claim is not None
        await self.log.fail(claim, "model_away", retry_at=datetime.now(UTC), max_attempts=1)

    def add_receipt(self, user: str, reason: str, relevance: Mapping[str, float], **order: object) -> None:
        """Args: relevance: of what was injected, by id. order: what became of one that the message gave."""
        memories = [{"id": name, "owner": f"user:{user}", "relevance": value} for name, value in relevance.items()]
        receipt = {"at": datetime.now(UTC), "project_id": "", "reason": reason, "memories": memories, **order}
        self.run(add_receipts(self.state, Scope(user), [orjson.dumps(receipt)], ttl=timedelta(days=1)))


def descriptions() -> dict[str, dict[str, Any]]:
    """What each port says of itself; nothing stands behind these."""
    nothing = cast(Any, SimpleNamespace())
    return {
        name: app.openapi()
        for name, app in zip(("user", "operator"), _apps(access_to(nothing), context=nothing), strict=True)
    }


@contextmanager
def open_ports(directory: Path, model: ChatModel | None = None) -> Iterator[Ports]:
    """Serve both until the block ends. Args: model: answers questions about memories."""
    started, stopping = threading.Event(), asyncio.Event()
    loop, made = asyncio.new_event_loop(), list[Ports]()

    async def serve() -> None:
        clock, embedder = SystemClock(), HashedEmbedder()
        log = SqliteTurnLog(directory / "turns.db", clock=clock)
        state = SqliteStateStore(directory / "state.db", clock=clock)
        store = InMemoryStore(dimension=embedder.dimension, record_format=record_format())
        backends = backends_of(store=store, embedder=embedder, turn_log=log, state=state, clock=clock)
        deletion = DeletionService(backends)
        service = memory_service(backends, deletion=deletion, redact=redact, config=_CONFIG)
        documents = InMemoryStore(dimension=embedder.dimension)
        knowledge = knowledge_service(backends, documents, KnowledgeConfig(user_documents=True))
        # Everything is relevant: the vectors here tell little.
        reflecting = reflector(backends, knowledge=knowledge, model=model, threshold=-1)
        access = access_to(service, knowledge=knowledge, reflector=reflecting)
        operations = {"backends": backends, "deletion": deletion, "collections": OneCollection(store)}
        apps = _apps(access, **operations)
        servers = [await serve_http(app, "127.0.0.1:0", drain_seconds=1) for app in apps]
        users, operators = (f"http://127.0.0.1:{server.port}" for server in servers)
        made.append(Ports(users, operators, log, state, directory, loop))
        started.set()
        await stopping.wait()
        await asyncio.gather(*(server.stop() for server in servers))
        log.close()
        state.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    try:
        assert started.wait(20), "the ports did not open"
        yield made[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(20)
        loop.close()


def _apps(access: Access, **operations: Any) -> tuple[FastAPI, FastAPI]:
    operator = operator_api(access, config=_CONFIG, token=TOKEN, metrics=Metrics().exposition, **operations)
    return create_user_api(access, config=_CONFIG), operator
