"""Recall as it is wired for traffic, with the real turn log, writer and deletion, over whatever store a test brings."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, cast

from semrouter_memory.app.adapters import Store
from semrouter_memory.app.management import new_memory_id
from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.codec.base import BodySettings
from semrouter_memory.config import Config, OwnerIndexConfig
from semrouter_memory.evaluation.running import FailureRecorder, clock_of, exact_store, played_pipelines
from semrouter_memory.exchange.policy import RouteSettings, policy_for
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.manage.explaining import Explainer
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import (
    Candidate,
    EmbeddedMemory,
    Memory,
    MemoryType,
    Message,
    OtherOwner,
    RecallRequest,
    RecallResult,
    Scope,
    SessionHints,
    Turn,
)
from semrouter_memory.ports import Embedder
from semrouter_memory.retain.redact import Redaction
from tests.memory_service import memory_service

ALICE = Scope("alice")
NOW = datetime.fromisoformat("2026-03-20T12:00:00+00:00")


@dataclass
class Recalling:
    """One memory, and all that reads and writes it."""

    pipelines: Pipelines

    def __post_init__(self) -> None:
        self.adapters, self.config = self.pipelines.adapters, self.pipelines.memory
        self.clock = clock_of(self.adapters)
        self.clock.time = NOW
        self._ids = count()
        self.recaller = self.pipelines.request_phase()
        self._turns = count()

    async def remember(self, *contents: str, scope: Scope = ALICE, **more: Any) -> None:
        """Write them as they are, each a minute after the one before."""
        since = next(self._ids)
        await self.write(
            scope,
            [
                self.memory(scope, content, **{"created_at": NOW + timedelta(minutes=since + at - 1_000), **more})
                for at, content in enumerate(contents)
            ],
        )

    async def write(self, scope: Scope, memories: Sequence[Memory]) -> None:
        vectors = await self.adapters.embedder.embed_passages([embedded_text(each) for each in memories])
        rows = [EmbeddedMemory(each, vector) for each, vector in zip(memories, vectors, strict=True)]
        await self.adapters.writer.upsert(scope, rows)

    def memory(self, scope: Scope, content: str, *, created_at: datetime = NOW, **more: Any) -> Memory:
        times = dict.fromkeys(("observed_at", "created_at", "updated_at"), created_at)
        kind = MemoryType.PROCEDURAL if content.startswith("To ") else MemoryType.SEMANTIC
        values: dict[str, Any] = {"type": kind, "source": "conversation", **times, **more}
        return Memory(id=f"mem_{next(self._ids):08d}", scope=scope, content=content, **values)

    async def say(self, content: str, *, scope: Scope = ALICE) -> None:
        """Have the reconciling writer write it, as it does what was extracted from a turn."""
        writer = self.pipelines.reconciling_writer()
        number = next(self._turns)
        self.clock.time += timedelta(minutes=1)
        at = self.clock.time
        turn = Turn(
            scope=scope,
            hints=SessionHints(explicit=f"s{number}"),
            user_texts=(content,),
            assistant_text="Noted.",
            observed_at=at,
            request_id=f"r{number}",
        )
        appended = self.adapters.turn_log.append(turn, remember=False)
        claim = await self.adapters.turn_log.claim(scope, appended.session_id, lease=timedelta(days=1), context=0)
        assert claim is not None
        candidate = Candidate(
            type=MemoryType.SEMANTIC,
            content=content,
            observed_at=at,
            extractor="quotes",
            session_id=appended.session_id,
            turn_ids=(appended.turn_id,),
        )
        assert await writer.write(claim, [candidate]) is not None

    def service(self) -> MemoryService:
        """What the management API asks, deletions among it."""
        adapters = self.adapters
        return memory_service(
            adapters,
            new_id=new_memory_id,
            redact=Redaction,
            config=Config().management,
            explainer=Explainer(
                recall=self.recaller,
                settings=ExchangeSettings(self.config, max_body_bytes=1 << 20, max_answer_bytes=1 << 20),
                clock=adapters.clock,
            ),
        )

    async def ask(
        self,
        query: str,
        history: Sequence[Message] = (),
        *,
        scope: Scope = ALICE,
        types: frozenset[MemoryType] | None = None,
        others: tuple[OtherOwner, ...] = (),
        session: str = "",
        loop_key: str = "",
        continues_loop: bool = False,
        **more: Any,
    ) -> RecallResult:
        """Args: more: of `RecallOptions`."""
        defaults = policy_for(self.config, RouteSettings(), BodySettings(), opted_out=False).options
        options = replace(defaults, types=types, session=session, **more)
        request = RecallRequest(
            scope=scope,
            query=query,
            options=options,
            history=tuple(history),
            visible=(query,),
            others=others,
            loop_key=loop_key,
            continues_loop=continues_loop,
        )
        return await self.recaller.recall(request)

    async def given(self, query: str, history: Sequence[Message] = (), **more: Any) -> list[str]:
        """What the model is given with the query, best first."""
        return [hit.memory.content for hit in (await self.ask(query, history, **more)).hits]


@asynccontextmanager
async def recalling(
    embedder: Embedder, *, store: Store | None = None, at_hand: bool = True, **recall: Any
) -> AsyncIterator[Recalling]:
    """Recall at the default settings but for the given ones of `memory.recall`.

    Args:
        store: None: an exact search in this process's memory.
        at_hand: active users' memories are indexed in the process.
    """
    defaults = Config()
    config = defaults.memory.model_copy(update={"owner_index": OwnerIndexConfig(enabled=at_hand)})
    whole = defaults.model_copy(update={"memory": config})
    async with played_pipelines(embedder, whole, store=store or exact_store(embedder)) as pipelines:
        memory = pipelines.memory
        changed = memory.model_copy(update={"recall": memory.recall.model_copy(update=recall)})
        yield Recalling(replace(pipelines, memory=changed))
    assert not cast("FailureRecorder", pipelines.adapters.observer).failures
